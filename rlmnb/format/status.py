"""The life of a cell as a state machine: which status may follow which."""

from rlmnb.errors import StatusError
from rlmnb.format.cells import STATUSES

# None is a cell that has not begun.
MOVES: "dict[str | None, frozenset[str]]" = {
    None: frozenset({"running"}),
    "running": frozenset({"completed", "suspended", "failed"}),
    "suspended": frozenset({"running"}),
    "completed": frozenset({"invalidated", "promoted"}),
    "invalidated": frozenset({"running"}),
    "failed": frozenset({"running"}),
    "promoted": frozenset(),
}


def move(old: "str | None", new: str) -> str:
    """Return the new status, or refuse a move that the machine does not know."""
    if old not in MOVES:
        raise StatusError(f"{old!r} is no status; there are {', '.join(STATUSES)}")
    allowed = MOVES[old]
    if new not in allowed:
        wanted = ", ".join(sorted(allowed)) or "nothing: it is final"
        raise StatusError(f"a cell that is {old or 'new'} cannot become {new}; wanted {wanted}")
    return new
