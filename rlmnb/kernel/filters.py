"""The filters of warnings: what cells have set, and which cells were about to warn of something.

A filter of our own stands before all others while a cell runs. It matches nothing, and so it is
asked about every warning that is not settled by what the cell itself has set.
"""

from __future__ import annotations

import warnings
from typing import Any

_NUMPYS = frozenset(f"numpy.{each} size changed" for each in ("dtype", "ndarray", "ufunc"))
_Filter = tuple[Any, ...]


class _Ear:
    """In the place of the text that a filter is for."""

    asked = False

    def match(self, _text: str) -> bool:
        """Hear of a warning, and leave it to the other filters."""
        self.asked = True
        return False


class Filters:
    """Follows the filters of this process."""

    def __init__(self) -> None:
        self._start = _those_set()
        self._ear: _Ear | None = None
        # The list that holds them, and the one that stands in its place.
        self._real: Any = None
        self._mine: Any = None

    def listen(self) -> None:
        """Hear from now on whether anything is about to be warned of."""
        self._ear, self._real = _Ear(), warnings.filters
        # In a list of its own: whoever has the real one at hand does not find it there.
        self._mine = [("ignore", self._ear, Warning, None, 0), *self._real]
        warnings.filters = self._mine

    def were_asked(self) -> bool:
        """Tell whether anything was since; without having listened, it may have been."""
        ear, self._ear = self._ear, None
        if warnings.filters is self._mine:
            warnings.filters = self._real
            self._real[:] = [each for each in self._mine if not isinstance(each[1], _Ear)]
        else:
            warnings.filters[:] = _those_set()  # type: ignore[index]
        self._mine = None
        return ear is None or ear.asked

    def now(self) -> list[_Filter] | None:
        """Return the filters, None if they are as they were at the start."""
        now = _those_set()
        if now == self._start or [each for each in now if not _is_numpys(each)] == self._start:
            return None
        return now

    def restore(self, value: list[_Filter] | None) -> None:
        """Have these filters again."""
        with warnings.catch_warnings():
            pass  # leaving the block makes every module look at the filters again
        theirs = [each for each in warnings.filters if _is_numpys(each)]
        warnings.filters[:] = [*theirs, *self._start] if value is None else value  # type: ignore[index]

    def could_have_been(self, filters: list[_Filter]) -> list[_Filter] | None:
        """Return what they can have been before a cell put these before all others, None: nothing.

        That is if nothing shows through them, or that they were there before.
        """
        alone = _put_before(filters, self._start)
        now = [each for each in _those_set() if not _is_numpys(each)]
        if effective(alone) == effective(now):
            return None
        others = [each for each in _those_set() if each not in filters]
        return None if others == self._start else others


def _put_before(filters: list[_Filter], others: list[_Filter]) -> list[_Filter]:
    found = list(others)
    for each in filters:
        found = [each, *(other for other in found if other != each)]
    return found


def effective(filters: list[_Filter]) -> list[_Filter]:
    """Return the filters that can match a warning: the first of those for the same warnings."""
    found: dict[_Filter, _Filter] = {}
    for each in filters:
        found.setdefault(tuple(each[1:]), each)
        if tuple(each[1:]) == (None, Warning, None, 0):
            break  # nothing gets past it
    return list(found.values())


def _those_set() -> list[_Filter]:
    return [each for each in warnings.filters if not isinstance(each[1], _Ear)]


def _is_numpys(each: _Filter) -> bool:
    """Tell whether it is numpy's import that sets this filter of warnings.

    It is for warnings of numpy's alone, so cells that do without numpy do without the filter.
    """
    action, message, category = each[:3]
    if action == "always":
        return bool(category.__module__ == "numpy.exceptions")
    text = getattr(message, "pattern", message)
    return action == "ignore" and category is Warning and text in _NUMPYS
