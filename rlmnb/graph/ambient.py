"""State that no variable holds and every cell may read: the environment, options, patches.

Its names begin with `$`. State with keys of its own, such as a library's options, is written key by
key (`$pandas[display.width]`) and read whole (`$pandas`), for code does not say which it looks at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rlmnb.digest import of_value

INITIAL = "initial"
_MODULE = "$module:"
# Which warnings were given already: a cell reads those that it would have given again.
WARNED = "$warned"
# What it is called where a person reads of it: as a whole, and one key of it.
_SPOKEN = {
    "$argv": "sys.argv",
    "$autoreload": "autoreload",
    "$builtins": "what cells set among the builtins",
    "$csv": "the csv dialects",
    "$cwd": "the working directory",
    "$decimal": "decimal's context",
    "$directories": "the list of directories of %cd",
    "$environ": "the environment",
    "$extensions": "the loaded extensions",
    "$figures": "the open figures",
    "$gc": "the garbage collector",
    "$inline": "how figures are shown",
    "$locale": "the locale",
    "$logging": "the logging setup",
    "$matplotlib": "matplotlib's settings",
    "$numpy": "numpy's settings",
    "$numpy.print": "numpy's settings",
    "$numpy.random": "numpy's random generator",
    "$pandas": "pandas' options",
    "$pandas.modes": "pandas' options",
    "$patched": "what cells set in libraries",
    "$patched.python": "what cells set in Python's own modules",
    "$python": "Python's settings",
    "$random": "the random generator",
    "$recursion limit": "the recursion limit",
    "$shell": "the shell's settings",
    "$signals": "the signal handlers",
    "$streams": "sys.stdout or sys.stderr",
    "$sys.path": "sys.path",
    WARNED: "which warnings were given before",
    "$warnings": "the warnings filters",
}
_KEYS = {
    "$decimal": "decimal's {}",
    "$environ": "the environment variable {}",
    "$matplotlib": "matplotlib's {}",
    "$numpy": "numpy's {}",
    "$numpy.print": "numpy's {}",
    "$pandas": "the pandas option {}",
    "$pandas.modes": "the pandas option {}",
    "$shell": "the shell's {}",
    WARNED: "the {}",
}
CHANCE = ("$random", "$numpy.random")
_ONLY_WHEN_USED = (*CHANCE, "$figures")


def is_ambient(name: str) -> bool:
    """Tell whether this is state that every cell may read."""
    return name.startswith("$") and name not in _ONLY_WHEN_USED and not name.startswith("$module:")


def is_seen_by_all(name: str) -> bool:
    """Tell whether any code may read this state without its being noticed."""
    return is_ambient(name) and state_of(name) != WARNED


def keyed(state: str, key: str) -> str:
    """Return the name of one key of a piece of state."""
    return f"{state}[{key}]"


def split(name: str) -> tuple[str, str | None]:
    """Return the piece of state that a name belongs to, and which key of it the name is."""
    state, bracket, key = name.partition("[")
    return state, key[:-1] if bracket else None


def spoken(name: str) -> str:
    """Return what a person calls this; variables have their own names."""
    if name.startswith(_MODULE):
        return f"module {name.removeprefix(_MODULE)}"
    state, key = split(name)
    if key is not None and state == WARNED:
        key = key.partition(",")[0]  # the rest tells it apart from others like it
    if key is not None and state in _KEYS:
        return _KEYS[state].format(key)
    return _SPOKEN.get(state, name)


def state_of(name: str) -> str:
    """Return the piece of state that a name belongs to."""
    return name.partition("[")[0]


def states_of(names: Iterable[str]) -> set[str]:
    """Return the pieces of state that names belong to."""
    return {name.partition("[")[0] for name in names}


def whole(parts: Mapping[str, str]) -> str:
    """Return the digest of a piece of state with keys, from the digests of its keys."""
    changed = sorted((name, now) for name, now in parts.items() if now != INITIAL)
    return of_value(changed) if changed else INITIAL
