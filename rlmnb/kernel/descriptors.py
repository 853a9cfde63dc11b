"""Files that a program knows by their numbers: `os.open`, a pipe, `fileno`.

Such a number means nothing in another kernel, or another file of somebody else's.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

# Where a process sees which files it has open; elsewhere nobody can tell.
_PLACE = "/dev/fd"
# Names of what gives such numbers; `os.open` is heard of, too.
_GIVERS = frozenset({"fileno", "pipe", "pipe2", "dup", "dup2", "openpty", "memfd_create"})
_SMALL = 100


class Descriptors:
    """Tells numbers of files that cells have opened from other numbers."""

    def __init__(self) -> None:
        self._at_start = _open_now()
        self._used = False

    def note(self, names: Iterable[str], *, opened: bool) -> None:
        """Take down which names a cell has used, and whether it has opened files this way."""
        self._used = self._used or opened or not _GIVERS.isdisjoint(names)

    def now(self) -> frozenset[int]:
        """Return the numbers of files that cells have open; none while nobody asks for numbers."""
        return _open_now() - self._at_start if self._used else frozenset()


def has_any(value: Any, numbers: frozenset[int]) -> bool:
    """Tell whether a value is such a number, or holds one as what `pipe` and `mkstemp` give."""
    if type(value) is int:
        return value in numbers
    few = isinstance(value, tuple | list) and len(value) <= _SMALL
    return few and any(type(each) is int and each in numbers for each in value)


def _open_now() -> frozenset[int]:
    found: set[int] = set()
    with suppress(OSError):
        for number in map(int, os.listdir(_PLACE)):
            with suppress(OSError):  # the one that we list them with is closed by now
                os.fstat(number)
                found.add(number)
    return frozenset(found)
