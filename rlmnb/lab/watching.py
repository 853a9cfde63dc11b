"""Hearing of changes to files: one thread for all of them, whoever wants to know of which.

Files are replaced as often as they are written, so their directories are watched. While the set of
directories changes nothing is heard, so afterwards each file is compared with how it was.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable

from watchfiles import Change, watch

_DEBOUNCE, _STEP, _TIMEOUT = 100, 25, 500

Version = tuple[int, int, int] | None


def version_of(path: str) -> Version:
    """Return what tells one version of a file from another, None if it is not there."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


class Watcher:
    """Calls back, in the server's loop, whenever a file that somebody asked for has changed."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._wanted: dict[str, list[Callable[[], None]]] = {}
        self._seen: dict[str, Version] = {}
        self._lock = threading.Lock()
        self._restart = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, path: str, call: Callable[[], None]) -> None:
        """Call `call` whenever the file changes from now on."""
        with self._lock:
            known = os.path.dirname(path) in {os.path.dirname(each) for each in self._wanted}
            self._wanted.setdefault(path, []).append(call)
            self._seen.setdefault(path, version_of(path))
        if not known:
            self._restart.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="rlmnb-watch", daemon=True)
            self._thread.start()

    def remove(self, path: str, call: Callable[[], None]) -> None:
        """Call it no more."""
        with self._lock:
            calls = self._wanted.get(path, [])
            if call in calls:
                calls.remove(call)
            if not calls:
                self._wanted.pop(path, None)
                self._seen.pop(path, None)

    def _directories(self) -> list[str]:
        with self._lock:
            found = {os.path.dirname(path) for path in self._wanted}
        return sorted(each for each in found if os.path.isdir(each))

    def _watch(self) -> None:
        while True:
            self._restart.clear()
            places = self._directories()
            self._look()
            if not places:
                self._restart.wait(timeout=_TIMEOUT / 1000)
                continue
            try:
                for found in watch(
                    *places,
                    debounce=_DEBOUNCE,
                    step=_STEP,
                    rust_timeout=_TIMEOUT,
                    yield_on_timeout=True,
                    recursive=False,
                    stop_event=self._restart,
                    raise_interrupt=False,
                    watch_filter=self._is_wanted,
                ):
                    self._look()
                    if not found and self._directories() != places:
                        break
            except OSError:
                # A directory went away between the look and the watch.
                self._restart.wait(timeout=_TIMEOUT / 1000)

    def _is_wanted(self, _: Change, path: str) -> bool:
        return path in self._wanted

    def _look(self) -> None:
        """Tell of every file that is no longer as it was when last looked at."""
        with self._lock:
            calls = []
            for path, wanted in self._wanted.items():
                now = version_of(path)
                if now != self._seen.get(path):
                    self._seen[path] = now
                    calls += wanted
        for call in calls:
            try:
                self._loop.call_soon_threadsafe(call)
            except RuntimeError:
                return  # the server has ended
