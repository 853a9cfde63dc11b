"""Saves that lose nothing: what the journal has and the saved buffer has not is put into it.

The session's lock is held from before the merge until the file is written, so that no append falls
between the two; saves of one notebook wait for each other, because two at once would write into
the same file.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

from rlmnb.errors import LockTimeoutError, RlmnbError
from rlmnb.files import Lock
from rlmnb.lab.confining import is_ours
from rlmnb.lab.live import Live
from rlmnb.lab.trusting import Trust
from rlmnb.store import fold, notebook
from rlmnb.store.layout import Place, notebook_place

if TYPE_CHECKING:
    from rlmnb.store.journal import Entry

_LOCK_SECONDS = 5.0


def merge(place: Place, whole: dict[str, Any]) -> list[str]:
    """Give a buffer that is about to be saved what it has not taken in; return the new cells.

    The rules are those of every fold: a cell that a person deleted stays deleted, one that a person
    edited or ran stays as it is. A cell that is missing in the buffer comes as it is on disk, where
    somebody else may have edited or deleted it since it was appended.
    """
    notebook.checked(whole, place.notebook)
    appended = notebook.appended_of(whole["metadata"])
    before = {cell.get("id") for cell in whole["cells"]}
    if appended >= 0:
        entries = fold.sound_entries(place.journal, appended)
    elif os.path.isfile(place.journal):
        entries = fold.recover_metadata(place, whole)
    else:
        return []
    if entries:
        fold.apply(whole, _as_on_disk(place, entries, before))
    return [str(cell["id"]) for cell in whole["cells"] if cell.get("id") not in before]


def _as_on_disk(place: Place, entries: list[Entry], known: set[Any]) -> list[Entry]:
    """Return entries whose new cells are those on disk, as far as the disk has taken them in."""
    try:
        disk = notebook.read_whole(place.notebook)
    except (OSError, RlmnbError):
        return entries
    taken_in = notebook.appended_of(disk["metadata"])
    cells = {cell.get("id"): cell for cell in disk["cells"]}
    found = []
    for entry in entries:
        name = entry["cell"]["id"] if entry["op"] == "append" else entry.get("cell_id")
        if entry["seq"] > taken_in or entry["op"] not in ("append", "update") or name in known:
            found.append(entry)
        elif entry["op"] == "append" and name in cells:
            found.append({**entry, "cell": cells[name]})
        else:
            # In the cell on disk already, or deleted there: only counted.
            found.append({**entry, "op": "passed"})
    return found


class Saving:
    """Stands between the server and the disk when a notebook of ours is saved."""

    def __init__(self, contents: Any, log: logging.Logger, live: Live, trust: Trust) -> None:
        # Any: the server's own class for it leaves most of its methods without types.
        self._contents = contents
        self._log = log
        self._live = live
        self._trust = trust
        self._turns: dict[str, asyncio.Lock] = {}

    def install(self) -> None:
        """Be asked before every save, and be there until it is over."""
        self._contents.register_pre_save_hook(self._before_save)
        original = self._contents.save
        if inspect.iscoroutinefunction(original):

            @wraps(original)
            async def save(model: dict[str, Any], path: str = "") -> Any:
                async with self._turn(self._ours(model, path)):
                    return await original(model, path)

            self._contents.save = save
        else:

            @wraps(original)
            def save_at_once(model: dict[str, Any], path: str = "") -> Any:
                lock = self._locked(self._ours(model, path))
                try:
                    return original(model, path)
                finally:
                    if lock is not None:
                        lock.release()

            self._contents.save = save_at_once

    def _ours(self, model: dict[str, Any], path: str) -> Place | None:
        """Return where a notebook that is saved lives, None if that is no business of ours."""
        root = getattr(self._contents, "root_dir", None)
        name = path.strip("/")
        if model.get("type") != "notebook" or not root or not name.endswith(".ipynb"):
            return None
        place = notebook_place(os.path.join(root, *name.split("/")))
        return place if is_ours(place) and os.path.isdir(place.directory) else None

    def _before_save(
        self, model: dict[str, Any], path: str, contents_manager: object, **_: object
    ) -> None:
        """Merge; a save is never refused for what is wrong with our side of it."""
        del contents_manager
        place = self._ours(model, path)
        if place is None or not isinstance(model.get("content"), dict):
            return
        self._trust.learn(model["content"])
        if self._live.holds(place):
            self._live.saves(place, model["content"])
            return
        try:
            added = merge(place, model["content"])
        except (RlmnbError, OSError, RecursionError) as error:
            self._log.warning("rlmnb: %s is saved as it is: %s", path, error)
            return
        if added:
            self._log.info("rlmnb: %d cells were added to %s as it was saved", len(added), path)

    @asynccontextmanager
    async def _turn(self, place: Place | None) -> AsyncIterator[None]:
        if place is None:
            yield
            return
        async with self._turns.setdefault(place.notebook, asyncio.Lock()):
            lock = await asyncio.get_running_loop().run_in_executor(None, self._locked, place)
            try:
                yield
            finally:
                if lock is not None:
                    lock.release()

    def _locked(self, place: Place | None) -> Lock | None:
        """Take the session's lock; a person's save does not fail because somebody else has it."""
        if place is None:
            return None
        try:
            return Lock(place.lock, timeout=_LOCK_SECONDS).__enter__()
        except (LockTimeoutError, RlmnbError, OSError) as error:
            self._log.warning("rlmnb: saving without the session's lock: %s", error)
            return None
