"""Hearing of changes: to a notebook, and to every file that its cells read."""

from __future__ import annotations

import os
from collections.abc import Iterator

from watchfiles import watch

from rlmnb.replay.cells import code_cells
from rlmnb.session import Session

_DEBOUNCE = 0.2


def changes(session: Session, *, debounce: float | None = None) -> Iterator[set[str]]:
    """Yield the files that changed, whenever some did; those of one moment come together.

    Which files are watched follows the notebook: what a cell has come to read is watched, too.
    """
    while True:
        wanted = watched(session)
        directories = {os.path.dirname(path) for path in wanted}
        # A file is often replaced, and one that is missing may come: directories tell of both.
        places = sorted(each for each in directories if os.path.isdir(each))
        for found in watch(
            *places,
            debounce=int((debounce or _DEBOUNCE) * 1000),
            step=50,
            recursive=False,
            watch_filter=lambda _, path, wanted=wanted: path in wanted,  # type: ignore[misc]
            raise_interrupt=True,
        ):
            yield {path for _, path in found}
            if not os.path.exists(session.place.notebook):
                return
            session = Session.open(session.place.notebook)
            if watched(session) != wanted:
                break


def watched(session: Session) -> set[str]:
    """Return the files whose change may make a cell stale."""
    found = {os.path.realpath(session.place.notebook)}
    for cell in code_cells(session):
        run = cell.run or {}
        found.update(cell.files_read if cell.run is None else run["files_read"])
        found.update(cell.written)
        found.update(run.get("asked", ()))
    return found
