"""Selectors: which cells a person means by `2-4,7`, `type:tool`, `file:auth.py`, `downstream:3`."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable

from rlmnb.errors import CellNotFoundError, InvalidNameError
from rlmnb.graph.index import Index, downstream, upstream
from rlmnb.views import files_of, same_file

_LIST = "list them with: rlmnb cells"
_LIKE = "write it like one of these: 1,3-5 type:tool file:auth.py downstream:3"
_BEGIN = "append the first: rlmnb append SESSION --source 'x = 1'"
GRAMMAR = (
    "an id or the beginning of one, a number or a range (2-4), type:T, file:PATH, stale, fresh, "
    "failed, all, after:CELL, upstream:CELL or downstream:CELL (both with the cell itself); "
    "several with commas"
)
# No notebook has more cells; and of thousands of digits Python makes no number.
_MOST = 18
_RANGE = re.compile(rf"(\d{{1,{_MOST}}})-(\d{{1,{_MOST}}})")
_LONG = 4


def select(text: str, index: Index, stale: Collection[str]) -> list[str]:
    """Return the ids of the cells that a selector names, in notebook order."""
    found: set[str] = set()
    for term in text.split(","):
        if not term.strip():
            raise InvalidNameError(f"{text!r} has an empty part; wanted {GRAMMAR}", hint=_LIKE)
        found.update(_term(term.strip(), index, stale))
    return [cell_id for cell_id in index["cells"] if cell_id in found]


def is_selector(text: str) -> bool:
    """Tell whether a text has the form of a selector, and not only of an id."""
    terms = [term.strip() for term in text.split(",")]
    return all(
        term in _WORDS
        or term.isdecimal()
        or _RANGE.fullmatch(term)
        or any(term.startswith(f"{kind}:") for kind in _KINDS)
        for term in terms
    )


def _term(term: str, index: Index, stale: Collection[str]) -> Iterable[str]:
    entries = index["cells"]
    if term in _WORDS:
        code = (each for each in entries if entries[each]["status"] is not None)
        return [each for each in code if _WORDS[term](each, index, stale)]
    kind, colon, value = term.partition(":")
    if colon:
        if kind not in _KINDS:
            raise InvalidNameError(f"no selector {kind}:; wanted {GRAMMAR}", hint=_LIKE)
        if not value:
            message = f"{term} says nothing after the colon; wanted {GRAMMAR}"
            raise InvalidNameError(message, hint=_LIKE)
        return _KINDS[kind](value, index)
    if ranged := _RANGE.fullmatch(term):
        return _range(int(ranged[1]), int(ranged[2]), list(entries))
    return [one_cell(term, index)]


def one_cell(text: str, index: Index) -> str:
    """Return the cell that an id, the beginning of one, or a number means."""
    entries = index["cells"]
    if text in entries:
        return text
    names: list[str] = list(entries)
    # A number, unless it is longer than one here can be: one id in 160 begins with four digits.
    short = len(text) < _LONG
    if text.isdecimal() and (short or (len(text) <= _MOST and int(text) <= len(names))):
        found = names[int(text) - 1 : int(text)] if int(text) else []
    else:
        found = [name for name in names if name.startswith((text, f"cell_{text}"))]
    if len(found) == 1:
        return found[0]
    if not names:
        raise CellNotFoundError("there are no cells yet", hint=_BEGIN)
    if not found:
        raise CellNotFoundError(f"there is no cell {text!r} among {len(names)}", hint=_LIST)
    shown = ", ".join(found[:10])
    raise CellNotFoundError(
        f"{len(found)} cells begin with {text!r}: {shown}", hint="give more of the id"
    )


def _range(first: int, last: int, names: list[str]) -> list[str]:
    if not 1 <= first <= last:
        low, high = sorted((max(first, 1), max(last, 1)))
        wanted = (
            "wanted the smaller number first" if min(first, last) else "cells are numbered from 1"
        )
        message = f"{first}-{last} is no range: {wanted}"
        raise InvalidNameError(message, hint=f"name it so: {low}-{high}")
    if not names:
        raise CellNotFoundError("there are no cells yet", hint=_BEGIN)
    if first > len(names):
        raise CellNotFoundError(
            f"{first}-{last}: there are only {len(names)} cells",
            hint=_LIST,
        )
    return names[first - 1 : last]


def _of_type(value: str, index: Index) -> list[str]:
    entries = index["cells"]
    return [
        each for each in entries if value in (entries[each]["type"], entries[each].get("operation"))
    ]


def _of_file(value: str, index: Index) -> list[str]:
    entries = index["cells"]
    return [
        each for each in entries if any(same_file(path, value) for path in files_of(entries[each]))
    ]


def _after(value: str, index: Index) -> list[str]:
    names = list(index["cells"])
    return names[names.index(one_cell(value, index)) + 1 :]


def _upstream(value: str, index: Index) -> list[str]:
    cell = one_cell(value, index)
    return [cell, *upstream(index, cell)]


def _downstream(value: str, index: Index) -> list[str]:
    cell = one_cell(value, index)
    return [cell, *downstream(index, cell)]


_KINDS: dict[str, Callable[[str, Index], Iterable[str]]] = {
    "type": _of_type,
    "file": _of_file,
    "after": _after,
    "upstream": _upstream,
    "downstream": _downstream,
}
_WORDS: dict[str, Callable[[str, Index, Collection[str]], bool]] = {
    "all": lambda _cell, _index, _stale: True,
    "stale": lambda cell, _index, stale: cell in stale,
    "fresh": lambda cell, _index, stale: cell not in stale,
    "failed": lambda cell, index, _stale: index["cells"][cell]["status"] == "failed",
}
