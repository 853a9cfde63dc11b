"""What lint looks for; apart from the looking, because the command line names them in its help."""

RULES = {
    "too-coarse": "does more than one step of the work",
    "too-fine": "steps so small that they say more as one",
    "unused": "sets what nobody reads, and shows nothing",
    "hidden-state": "changes what no variable holds, and others rely on",
    "opaque": "code that may read and set any variable",
    "order": "what is read and what is set are in the wrong order",
    "unset": "what is read, and no cell sets",
    "effect-in-chain": "an effect on the world between cells that need each other",
    "not-storable": "a value that cannot be stored, and is needed often",
}
