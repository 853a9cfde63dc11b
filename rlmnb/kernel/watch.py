"""Which files a cell opens, lists and imports, told by the interpreter's own audit events."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from typing import Any

from rlmnb import digest

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def _foreign_places() -> tuple[str, ...]:
    """Return where files are no part of anybody's project: the interpreter, caches, devices."""
    home = os.path.expanduser("~")
    places = {
        sys.prefix, sys.base_prefix, sys.exec_prefix, *sysconfig.get_paths().values(),
        *site.getsitepackages(), site.getusersitepackages(), "/proc", "/dev", "/sys", "/etc",
        "/usr/share", "/usr/lib", *(os.path.join(home, name) for name in (
            ".cache", ".config", ".ipython", ".jupyter", ".matplotlib", ".local")),
    }  # fmt: skip
    return tuple(os.path.realpath(place) + os.sep for place in places if place)


class Watch:
    """Listens while a cell runs."""

    def __init__(self, ignored: tuple[str, ...] = ()) -> None:
        self._foreign = _foreign_places() + ignored
        self._on = False
        self.read: dict[str, dict[str, Any]] = {}
        self.written: set[str] = set()
        self.listed: dict[str, str] = {}
        self.flags: set[str] = set()
        sys.addaudithook(self._hear)

    def start(self) -> None:
        """Forget what was heard and listen."""
        self.read, self.written, self.listed, self.flags = {}, set(), {}, set()
        self._on = True

    def stop(self) -> None:
        """Listen no more."""
        self._on = False

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if not self._on:
            return
        if event == "open":
            self._opened(*args)
        elif event in ("os.listdir", "os.scandir"):
            self._listing(args[0])
        elif event == "subprocess.Popen" or event == "os.system":
            self.flags.add("subprocess")
        elif event == "socket.connect":
            self.flags.add("network")
        elif event == "sqlite3.connect":
            self._opened(args[0], "r", os.O_RDWR)
        elif event in ("os.remove", "os.rename", "os.truncate"):
            for path in args[:2]:
                if isinstance(path, str | bytes) and (name := self._mine(path)):
                    self.written.add(name)

    def _mine(self, path: Any) -> str | None:
        if isinstance(path, int) or path is None:
            return None
        try:
            name = os.path.abspath(os.fsdecode(path))
        except (TypeError, ValueError):
            return None
        if name.endswith((".pyc", ".pyo")) or name.startswith(self._foreign):
            return None
        return name

    def _opened(self, path: Any, _mode: Any, flags: Any) -> None:
        name = self._mine(path)
        if name is None:
            return
        writing = isinstance(flags, int) and flags & _WRITING
        # What the cell itself wrote before is not read from outside.
        only_writing = isinstance(flags, int) and flags & (os.O_TRUNC | os.O_EXCL)
        if name not in self.read and name not in self.written and not only_writing:
            self._look(name)
        if writing:
            self.written.add(name)

    def _look(self, name: str) -> None:
        self._on = False
        try:
            self.read[name] = digest.of_file(name)
        finally:
            self._on = True

    def _listing(self, path: Any) -> None:
        name = self._mine(path if path is not None else ".")
        if name is not None and name not in self.listed:
            self._on = False
            try:
                self.listed[name] = listing_digest(name)
            finally:
                self._on = True

    def note(self, path: str) -> None:
        """Take down a file that is known by other means to have been read."""
        name = self._mine(path)
        if name is not None and name not in self.read and name not in self.written:
            self.read[name] = digest.of_file(name)

    def report(self) -> dict[str, Any]:
        """Return what was heard, for the record."""
        return {
            "files_read": {
                path: version
                for path, version in self.read.items()
                if version["hash"] != digest.UNREADABLE
            },
            "files_written": {path: digest.of_file(path) for path in sorted(self.written)},
            "listed": dict(self.listed),
            "flags": sorted(self.flags),
        }


def listing_digest(path: str) -> str:
    """Return the digest of a directory's names."""
    try:
        return digest.of_value(sorted(os.listdir(path)))
    except OSError:
        return digest.MISSING
