"""What listeners of a notebook hear: that it changed, how it stands now, what replays did."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from typing import Any

from rlmnb.errors import RlmnbError
from rlmnb.lab.bell import Bell, Heard
from rlmnb.lab.judging import brief, judge
from rlmnb.lab.watching import Watcher
from rlmnb.store import notebook
from rlmnb.store.layout import Place


def version_on_disk(place: Place) -> dict[str, Any]:
    """Return how far the notebook on disk is, and when it was written."""
    tail = notebook.peek_tail(place.notebook)
    if tail is not None:
        appended = tail.appended
    else:
        # In the middle of a save, or not in canonical form.
        appended = notebook.appended_of(notebook.read_whole(place.notebook)["metadata"])
    return {"appended": appended, "mtime": os.stat(place.notebook).st_mtime}


class News:
    """Tells listeners of notebooks what becomes of them, and looks only where somebody listens."""

    def __init__(
        self,
        bell: Bell,
        watcher: Watcher,
        threads: Executor,
        running: Callable[[Place], frozenset[str]],
    ) -> None:
        self._bell = bell
        self._watcher = watcher
        self._threads = threads
        self._running = running
        self._looking: dict[str, bool] = {}
        self._seen: dict[str, dict[str, Any]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def of(self, place: Place) -> AsyncIterator[asyncio.Queue[Heard | None]]:
        """Return where the news of a notebook arrive."""
        changed = lambda: self.changed(place)  # noqa: E731 - known again when it is taken back
        with self._bell.listen(place.notebook) as queue:
            self._watcher.add(place.notebook, changed)
            try:
                yield queue
            finally:
                self._watcher.remove(place.notebook, changed)
        if not self._bell.heard(place.notebook):
            self._seen.pop(place.notebook, None)

    async def version(self, place: Place) -> dict[str, Any]:
        """Return which version of a notebook a new listener begins with."""
        loop = asyncio.get_running_loop()
        seen = await loop.run_in_executor(self._threads, version_on_disk, place)
        # Those who listen already must still hear of it.
        self._seen.setdefault(place.notebook, seen)
        return seen

    def changed(self, place: Place) -> None:
        """Look at a notebook that may have changed, once for all who say so meanwhile."""
        name = place.notebook
        if not self._bell.heard(name):
            return
        if name in self._looking:
            self._looking[name] = True
            return
        self._looking[name] = False
        task = asyncio.get_running_loop().create_task(self._look(place))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def replayed(self, place: Place, report: dict[str, Any]) -> None:
        """Tell that a replay is over, and how the notebook stands after it."""
        self._bell.ring(place.notebook, "replayed", report)
        self.changed(place)

    async def _look(self, place: Place) -> None:
        name = place.notebook
        try:
            while self._looking.get(name) is not None:
                self._looking[name] = False
                await self._tell(place)
                if not self._looking[name]:
                    break
        finally:
            self._looking.pop(name, None)

    async def _tell(self, place: Place) -> None:
        loop = asyncio.get_running_loop()
        try:
            seen = await loop.run_in_executor(self._threads, version_on_disk, place)
            if self._seen.get(place.notebook) != seen:
                self._seen[place.notebook] = seen
                self._bell.ring(place.notebook, "changed", seen)
            running = self._running(place)
            judged = await loop.run_in_executor(self._threads, judge, place, running)
            self._bell.ring(place.notebook, "status", brief(judged))
        except (RlmnbError, OSError):
            return  # half of a save, a notebook that is gone: the next change will tell
