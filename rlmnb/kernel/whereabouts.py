"""Which notebook a cell that is run by hand stands in: the one its front end named at the start.

The name is wrong once the notebook was renamed. It is then looked for beside where it was, by the
file itself or by the cell; where that is not certain, there is none, rather than a wrong one.
"""

from __future__ import annotations

import os
from collections.abc import Collection

from rlmnb.errors import RlmnbError
from rlmnb.files import read_bytes
from rlmnb.store import notebook
from rlmnb.store.layout import Place, notebook_place

_MOST_FILES = 500
_LARGEST = 512 * 1024 * 1024


def place_named(name: str | None) -> Place | None:
    """Return the place of the notebook with this name, None if there is no such file."""
    if not name or not os.path.isabs(name) or not name.endswith(".ipynb"):
        return None
    try:
        return notebook_place(name) if os.path.isfile(name) else None
    except (RlmnbError, OSError, ValueError):
        return None


def directory_of(place: Place) -> str | None:
    """Return where the cells of a session ran, None for a plain notebook, which stays put."""
    tail = notebook.peek_tail(place.notebook) if not place.plain else None
    session = (tail.state or {}).get("session") if tail is not None else None
    cwd = session.get("cwd") if isinstance(session, dict) else None
    return cwd if isinstance(cwd, str) and os.path.isdir(cwd) else None


class Whereabouts:
    """Finds the notebook of this kernel, again and again: it may be renamed at any time."""

    def __init__(self, place: Place) -> None:
        self._path = place.notebook
        self._file = _identity(self._path)

    def find(self, cell_ids: Collection[str]) -> tuple[Place, set[str]] | None:
        """Return where cells stand on disk, and which; None if none is saved or can be found."""
        for path in [self._path, *self._elsewhere(cell_ids)]:
            if (held := _held(path, cell_ids)) and (place := place_named(path)) is not None:
                self._path, self._file = path, _identity(path)
                return place, held
        return None

    @property
    def lost(self) -> bool:
        """Whether there is no file under the name that is known."""
        return _identity(self._path) is None

    @property
    def path(self) -> str:
        """Where the notebook was last seen."""
        return self._path

    def _elsewhere(self, cell_ids: Collection[str]) -> list[str]:
        """Return where a notebook has gone that is no longer what stands under its name."""
        now = _identity(self._path)
        if self._file is None or now == self._file:
            return []
        directory = os.path.dirname(self._path)
        try:
            names = [name for name in sorted(os.listdir(directory)) if name.endswith(".ipynb")]
        except OSError:
            return []
        paths = [os.path.join(directory, name) for name in names[:_MOST_FILES]]
        same = [path for path in paths if _identity(path) == self._file]
        if same or now is not None:
            return same[:1]
        holding = [path for path in paths if _held(path, cell_ids)]
        return holding if len(holding) == 1 else []


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _held(path: str, cell_ids: Collection[str]) -> set[str]:
    """Return which of these cells a notebook has, without parsing it."""
    try:
        if os.stat(path).st_size > _LARGEST:
            return set()
        data = read_bytes(path)
    except (OSError, RlmnbError):
        return set()
    return {
        cell_id
        for cell_id in cell_ids
        if any(f'"id":{space}"{cell_id}"'.encode() in data for space in (" ", ""))
    }
