"""Directories as cells see them: without what we keep there ourselves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Self

from rlmnb.store.layout import BESIDE

_LISTDIR, _SCANDIR = os.listdir, os.scandir


class _Scan:
    """What `os.scandir` returns, one entry short where there is one of ours."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        entry = next(self._real)
        return next(self._real) if entry.name in _OURS else entry

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the directory go."""
        self._real.close()


_OURS = (BESIDE, os.fsencode(BESIDE))


def listdir(path: Any = None) -> list[Any]:
    """Return the names in a directory."""
    return [name for name in _LISTDIR(path) if name not in _OURS]


def scandir(path: Any = None) -> Any:
    """Return an iterator of DirEntry objects for given path."""
    return _Scan(_SCANDIR(path))


listdir.__doc__, scandir.__doc__ = _LISTDIR.__doc__, _SCANDIR.__doc__


def stand_in() -> None:
    """Have cells list directories through us."""
    for ours, real in ((listdir, _LISTDIR), (scandir, _SCANDIR)):
        if real in os.supports_fd:
            os.supports_fd.add(ours)
    os.listdir, os.scandir = listdir, scandir


def step_back() -> None:
    """Have everybody list directories as they are."""
    os.listdir, os.scandir = _LISTDIR, _SCANDIR
