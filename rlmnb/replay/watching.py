"""Hearing of changes: to a notebook, and to every file that its cells read."""

from __future__ import annotations

import os
from collections.abc import Iterator

from watchfiles import Change, watch

from rlmnb.capture.folders import folders_of, name_within, names_of
from rlmnb.errors import RlmnbError
from rlmnb.graph.environment import recorded_run
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
    wanted = Wanted(session)
    while True:
        # A file is often replaced, and one that is missing may come: directories tell of both.
        places = sorted(each for each in wanted.directories() if os.path.isdir(each))
        listening = False
        for found in watch(
            *places,
            debounce=int((debounce or _DEBOUNCE) * 1000),
            step=50,
            recursive=False,
            watch_filter=wanted,
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
                now_wanted = Wanted(Session.open(session.place.notebook))
            except (RlmnbError, OSError):
                continue  # half of an edit, or gone: the next change is still heard of
            if (now_wanted.files, now_wanted.listed) != (wanted.files, wanted.listed):
                wanted = now_wanted
                break


class Wanted:
    """The files and directories whose change may make a cell stale; lets such changes through."""

    def __init__(self, session: Session) -> None:
        self.files = {session.place.notebook}
        self.listed: set[str] = set()
        for cell in code_cells(session):
            run = cell.run or recorded_run(cell)
            self.files.update(run["files_read"], cell.written, run.get("asked", ()))
            self.listed.update(run["listed"])
        self._within = [name_within(key) for key in self.listed]

    def __call__(self, _: Change, path: str) -> bool:
        """Tell whether a change of a file is one of these."""
        return path in self.files or any(within(path) is not None for within in self._within)

    def directories(self) -> set[str]:
        """Return where to listen."""
        folders = {each for key in self.listed for each in folders_of(key)}
        return folders | {os.path.dirname(path) for path in self.files}


def grounds(session: Session) -> dict[str, object]:
    """Return what a replay goes by and does not change itself: code, and files of others.

    While it is the same, cells that a replay has left stale would only fail once more.
    """
    cells, wanted = code_cells(session), Wanted(session)
    own = {session.place.notebook}.union(*(cell.written for cell in cells))
    found: dict[str, object] = {
        cell.cell_id: (cell.source_hash, cell.tags, cell.marked) for cell in cells
    }
    for key in wanted.listed:
        mine = set(map(name_within(key), own))
        found[key] = [name for name in names_of(key) or () if name not in mine]
    return found | {path: _version(path) for path in wanted.files - own}


def _version(path: str) -> tuple[int, ...] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
