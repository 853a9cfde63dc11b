"""Hearing of changes: to a notebook, and to every file that its cells read."""

from __future__ import annotations

import os
from collections.abc import Iterator

from watchfiles import Change, watch

from rlmnb.errors import RlmnbError
from rlmnb.replay.cells import code_cells
from rlmnb.session import Session

_DEBOUNCE = 0.2
# In milliseconds: how soon the first word comes that changes are heard of.
_FIRST_LOOK = 200


def changes(session: Session, *, debounce: float | None = None) -> Iterator[set[str]]:
    """Yield the files that changed, whenever some did; those of one moment come together.

    Nothing at all comes first, once changes are heard of: what was before has to be looked for.
    Which files are watched follows the notebook: what a cell has come to read is watched, too.
    """
    wanted = watched(session)
    while True:
        directories = {os.path.dirname(path) for path in wanted}
        # A file is often replaced, and one that is missing may come: directories tell of both.
        places = sorted(each for each in directories if os.path.isdir(each))
        listening = False
        for found in watch(
            *places,
            debounce=int((debounce or _DEBOUNCE) * 1000),
            step=50,
            recursive=False,
            watch_filter=_Among(wanted),
            yield_on_timeout=True,
            rust_timeout=_FIRST_LOOK,
            raise_interrupt=True,
        ):
            if not found and listening:
                continue
            listening = True
            yield {path for _, path in found}
            if not os.path.exists(session.place.notebook):
                return
            try:
                now_wanted = watched(Session.open(session.place.notebook))
            except (RlmnbError, OSError):
                continue  # half of an edit, or gone: the next change is still heard of
            if now_wanted != wanted:
                wanted = now_wanted
                break


class _Among:
    """Lets changes through of some files only."""

    def __init__(self, wanted: set[str]) -> None:
        self._wanted = wanted

    def __call__(self, _: Change, path: str) -> bool:
        return path in self._wanted


def grounds(session: Session) -> dict[str, object]:
    """Return what a replay goes by and does not change itself: code, and files of others.

    While it is the same, cells that a replay has left stale would only fail once more.
    """
    cells = code_cells(session)
    own = {session.place.notebook}.union(*(cell.written for cell in cells))
    found: dict[str, object] = {
        cell.cell_id: (cell.source_hash, cell.tags, cell.marked) for cell in cells
    }
    return found | {path: _version(path) for path in watched(session) - own}


def _version(path: str) -> tuple[int, ...] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def watched(session: Session) -> set[str]:
    """Return the files whose change may make a cell stale."""
    found = {session.place.notebook}
    for cell in code_cells(session):
        run = cell.run or {}
        found.update(cell.files_read if cell.run is None else run["files_read"])
        found.update(cell.written)
        found.update(run.get("asked", ()))
    return found
