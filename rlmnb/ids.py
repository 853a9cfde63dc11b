"""Ids as types, and the rules that make a string one.

A hook imports this module, so it needs nothing beyond the interpreter itself: the types exist for
the type checker and are plain strings at run time.
"""

import os

from rlmnb.errors import InvalidNameError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NewType

    CellId = NewType("CellId", str)
    SessionId = NewType("SessionId", str)
    Digest = NewType("Digest", str)
else:
    CellId = SessionId = Digest = str

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ" + _DIGITS + "-_")
_MAX_SESSION_ID = 128
_MAX_CELL_ID = 64  # nbformat 4.5's own limit

# Names the sessions root uses itself.
RESERVED = frozenset({"archive", "current", "objects"})
# On Windows these are devices in every directory, whatever their case. Refused everywhere, so that
# a session can go from one machine to another.
_DEVICES = frozenset(
    {"aux", "con", "nul", "prn"}
    | {f"{port}{number}" for port in ("com", "lpt") for number in range(10)}
)


def is_reserved(name: str) -> bool:
    """Tell whether a plain name can be no session's."""
    return name.lower() in RESERVED or name.lower() in _DEVICES


def check_session_id(value: object) -> SessionId:
    """Return `value` as a session id, or refuse it before any path is built from it."""
    if not isinstance(value, str) or not value:
        raise InvalidNameError(f"a session id is a non-empty string, found {value!r}")
    shown = repr(value if len(value) <= 60 else value[:60] + "…")
    if len(value) > _MAX_SESSION_ID:
        raise InvalidNameError(
            f"session id {shown} has {len(value)} characters, at most {_MAX_SESSION_ID} are allowed"
        )
    if not _PLAIN.issuperset(value) or value[0] in "-_":
        raise InvalidNameError(
            f"session id {shown} is not a plain name: wanted letters, digits, '-' and '_', "
            "starting with a letter or digit"
        )
    if is_reserved(value):
        whose = "Windows" if value.lower() in _DEVICES else "rlmnb's own use"
        raise InvalidNameError(f"session id {shown} is reserved for {whose}")
    return SessionId(value)


def is_nbformat_id(value: object) -> bool:
    """Tell whether nbformat 4.5 takes `value` as a cell id."""
    return isinstance(value, str) and 0 < len(value) <= _MAX_CELL_ID and _PLAIN.issuperset(value)


def check_cell_id(value: object) -> CellId:
    """Return `value` as a cell id, or refuse it."""
    if not is_nbformat_id(value):
        raise InvalidNameError(
            f"cell id {str(value)[:80]!r} is not valid: wanted 1 to {_MAX_CELL_ID} letters, "
            "digits, '-' and '_'"
        )
    return CellId(str(value))


def base36(number: int, width: int) -> str:
    """Write the low digits of `number` in base 36, exactly `width` of them."""
    digits = ""
    for _ in range(width):
        number, low = divmod(number, 36)
        digits = _DIGITS[low] + digits
    return digits


def new_cell_id(seq: int) -> CellId:
    """Make the id of the cell with this sequence number: `cell_` and eight of a-z0-9.

    The second half is the sequence number, so two cells of a session cannot collide and nothing
    has to be searched; the first half is chance, so that a short prefix names one cell.
    """
    return CellId("cell_" + base36(int.from_bytes(os.urandom(8), "big"), 4) + base36(seq, 4))


def spread_id(digest: str) -> CellId:
    """Make an id for a cell that has none of its own, from a digest: the same at every read."""
    return CellId("cell_" + base36(int(digest[7:39], 16), 8))
