"""Which files a cell opens, lists and imports, told by the interpreter's own audit events."""

from __future__ import annotations

import os
import shlex
import site
import stat
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rlmnb import digest
from rlmnb.digest import MISSING
from rlmnb.files import is_temporary
from rlmnb.store.layout import BESIDE

_STAT, _LSTAT = os.stat, os.lstat
_FLAGS = {
    "subprocess.Popen": "subprocess",
    "os.system": "subprocess",
    "os.posix_spawn": "subprocess",
    "socket.connect": "network",
}
_KEPT_BESIDE = frozenset({"__pycache__", ".ipynb_checkpoints", BESIDE})
_MOST_NAMES = 500
# Up to here it is worth a look what a file was before a cell wrote over it.
_SMALL_FILE = 64 * 1024 * 1024
_BESIDE = f"{os.sep}{BESIDE}{os.sep}"
_LONGEST_COMMAND = 16 * 1024
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def _foreign_places() -> tuple[str, ...]:
    """Return where files are no part of anybody's project: the interpreter, caches, devices."""
    home = os.path.expanduser("~")
    places = {
        os.path.dirname(os.path.dirname(os.path.abspath(__file__))),  # ourselves, wherever we are
        sys.prefix, sys.base_prefix, sys.exec_prefix, *sysconfig.get_paths().values(),
        *site.getsitepackages(), site.getusersitepackages(), "/proc", "/dev", "/sys", "/etc",
        "/usr/share", "/usr/lib", *(os.path.join(home, name) for name in (
            ".cache", ".config", ".ipython", ".jupyter", ".matplotlib", ".local")),
    }  # fmt: skip
    return tuple(
        {
            look(place) + os.sep
            for place in places
            if place
            for look in (os.path.realpath, os.path.abspath)
        }
    )


def _passing_places() -> tuple[str, ...]:
    """Return where programs are looked for and temporary files come and go."""
    places = [*os.environ.get("PATH", "").split(os.pathsep), tempfile.gettempdir()]
    return tuple(os.path.abspath(place) + os.sep for place in places if place)


class Watch:
    """Listens while a cell runs.

    No event tells that somebody asked whether a file is there, so while a cell runs the functions
    that are asked are ours, and pass everything on.
    """

    def __init__(self, ignored: tuple[str, ...] = ()) -> None:
        self._foreign = _foreign_places() + ignored
        self._passing = _passing_places()
        self._start = os.path.realpath(os.getcwd()) + os.sep
        self._on = False
        self._quiet = threading.local()
        # Every file this kernel has opened for writing, as it was when it was last looked at.
        self._ours: dict[str, tuple[int, ...] | None] = {}
        # What stood there before the first of them, or what is known of it.
        self._first: dict[str, str] = {}
        self.asked: dict[str, str] = {}
        self._made: tuple[str, ...] = ()
        self.read: dict[str, dict[str, Any]] = {}
        self.written: set[str] = set()
        self.listed: dict[str, list[str] | str] = {}
        self.flags: set[str] = set()
        sys.addaudithook(self._hear)

    def start(self) -> None:
        """Forget what was heard and listen."""
        self.read, self.written, self.listed, self.flags = {}, set(), {}, set()
        self.asked, self._made = {}, ()
        self._replace(self._asking(_STAT), self._asking(_LSTAT))
        self._on = True

    def ignore_this_thread(self) -> None:
        """Count nothing that the calling thread does as done by a cell."""
        self._quiet.now = True

    @contextmanager
    def unheard(self) -> Iterator[None]:
        """Count nothing that the calling thread does in this block as done by a cell."""
        before = getattr(self._quiet, "now", False)
        self._quiet.now = True
        try:
            yield
        finally:
            self._quiet.now = before

    def stop(self) -> None:
        """Listen no more."""
        self._on = False
        for name, seen in self._ours.items():
            # A file that an earlier cell opened and left open is written by whoever writes to it.
            if (now := version_of(name)) != seen:
                self._ours[name] = now
                if seen is not None:
                    self.written.add(name)
        self._replace(_STAT, _LSTAT)

    @staticmethod
    def _replace(stat: Any, lstat: Any) -> None:
        # The library asks which functions can do what by looking for them in these sets.
        for supported in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
            if _STAT in supported:
                supported.add(stat)
        os.stat, os.lstat = stat, lstat

    def _asking(self, real: Any) -> Any:
        def ask(*args: Any, **options: Any) -> Any:
            beside = options.get("dir_fd") is not None
            path = None if beside else (args[0] if args else options.get("path"))
            try:
                status = real(*args, **options)
            except FileNotFoundError:
                self._note_asked(path, MISSING)
                raise
            if not stat.S_ISLNK(status.st_mode):
                self._note_asked(path, "directory" if stat.S_ISDIR(status.st_mode) else "file")
            return status

        ask.__name__ = ask.__qualname__ = real.__name__
        ask.__doc__ = real.__doc__
        return ask

    def _is_passing(self, name: str) -> bool:
        within = name + os.sep
        return within.startswith(self._passing) and not within.startswith(self._start)

    def _note_asked(self, path: Any, kind: str) -> None:
        if not self._on or getattr(self._quiet, "now", False):
            return
        name = self.mine(path)
        if name is None or name in self.written or self._is_passing(name):
            return
        if not name.startswith(self._made or "\0"):
            self.asked.setdefault(name, kind)

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if not self._on or getattr(self._quiet, "now", False):
            return
        # What we do here must not be heard, by us; other threads go on being heard.
        self._quiet.now = True
        try:
            self._heard(event, args)
        except Exception:  # noqa: BLE001, S110 - an error here would be raised in the user's code
            pass
        finally:
            self._quiet.now = False

    def _heard(self, event: str, args: tuple[Any, ...]) -> None:
        if event in _FLAGS:
            self.flags.add(_FLAGS[event])
        if event == "open":
            self._opened(*args)
        elif event in ("os.listdir", "os.scandir"):
            # Looking for modules is not looking at what is there.
            if not sys._getframe(2).f_code.co_filename.startswith("<frozen importlib"):
                self._listing(args[0])
        elif event == "subprocess.Popen":
            self._command(args[1], args[2])
        elif event == "os.mkdir":
            self._made = (*self._made, self.mine(args[0]) or "\0")
        elif event == "sqlite3.connect":
            self._opened(args[0], "r", os.O_RDWR)
        elif event in ("os.rename", "os.link", "os.symlink"):
            self._moved(args[0], args[1])
        elif event in ("os.remove", "os.truncate"):
            for path in args[:2]:
                if isinstance(path, str | bytes | os.PathLike) and (name := self.mine(path)):
                    self.written.add(name)

    def mine(self, path: Any) -> str | None:
        """Return the full path of a file that can be part of somebody's project."""
        if isinstance(path, int) or path is None:
            return None
        try:
            name = os.path.abspath(os.fsdecode(path))
        except (TypeError, ValueError, OSError):
            return None
        if name.endswith((".pyc", ".pyo")) or name.startswith(self._foreign):
            return None
        if _BESIDE in name + os.sep:
            return None  # what we keep there changes with every replay
        return name

    def _opened(self, path: Any, _mode: Any, flags: Any) -> None:
        name = self.mine(path)
        if name is None:
            return
        writing = isinstance(flags, int) and flags & _WRITING
        # What the cell itself wrote before is not read from outside.
        only_writing = isinstance(flags, int) and flags & (os.O_TRUNC | os.O_EXCL)
        if name not in self.read and name not in self.written and not only_writing:
            self._look(name)
        if writing:
            if name not in self.written and name not in self._ours:
                self._note_before(name)
            self.written.add(name)
            self._ours.setdefault(name, None)

    def _note_before(self, name: str) -> None:
        if name in self._first:
            return
        now = self.read[name]["hash"] if name in self.read else kind_of(name)
        small = now == "file" and os.path.getsize(name) <= _SMALL_FILE
        self._first[name] = digest.of_file(name)["hash"] if small else now

    def _moved(self, source: Any, target: Any) -> None:
        """Count what stood at one path as read, and both as written."""
        for path in (source, target):
            name = self.mine(path)
            if name is None or (path is source and not os.path.isfile(name)):
                continue
            if path is source and name not in self.read and name not in self.written:
                self._look(name)
            if name not in self.written and name not in self._ours:
                self._note_before(name)
            self.written.add(name)

    def _command(self, arguments: Any, cwd: Any) -> None:
        """Count the files that a command names as read: what it opens is not told to us."""
        words = [arguments] if isinstance(arguments, str | bytes) else arguments
        try:
            for word in words if isinstance(words, list | tuple) else ():
                for each in (os.fsdecode(word), *words_in(os.fsdecode(word))):
                    path = os.path.join(os.fsdecode(cwd) if cwd is not None else "", each)
                    if is_plausible(path) and os.path.isfile(path):
                        self.note(path)
        except (TypeError, ValueError, OSError):
            return  # a command that cannot be read is run all the same

    def _look(self, name: str) -> None:
        self.read[name] = digest.of_file(name)

    def _listing(self, path: Any) -> None:
        name = self.mine(path if path is not None else ".")
        if name is None or name in self.listed or self._is_passing(name):
            return
        if _KEPT_BESIDE.isdisjoint(name.split(os.sep)):
            self.listed[name] = listing(name)

    def note(self, path: str) -> None:
        """Take down a file that is known by other means to have been read."""
        name = self.mine(path)
        if name is not None and name not in self.read and name not in self.written:
            self._look(name)

    def note_written(self, path: str, was: dict[str, Any] | None, *, new: bool) -> None:
        """Take down a file that is known by other means to have been written.

        Whoever wrote it unheard may have built on what it was.
        """
        name = self.mine(path)
        if name is None:
            return
        if was is not None and name not in self.written:
            self.read.setdefault(name, was)
        if new:
            self._first.setdefault(name, MISSING)
        self.written.add(name)

    def report(self) -> dict[str, Any]:
        """Return what was heard, for the record."""
        return {
            "files_read": {
                path: version
                for path, version in self.read.items()
                if version["hash"] != digest.UNREADABLE
            },
            "before": {path: self._first[path] for path in sorted(self.written & set(self._first))},
            "files_written": {path: digest.of_file(path) for path in sorted(self.written)},
            "listed": dict(self.listed),
            "asked": {
                path: kind
                for path, kind in self.asked.items()
                if path not in self.read and path not in self.listed
            },
            "flags": sorted(self.flags),
        }


def is_plausible(text: str) -> bool:
    """Tell whether a piece of text can be the name of a file at all."""
    return 0 < len(text) < 1024 and "\0" not in text and "\n" not in text


def words_in(command: str) -> list[str]:
    """Return the words of a shell command, without what the shell itself understands."""
    if len(command) > _LONGEST_COMMAND or not any(letter.isspace() for letter in command):
        return []
    try:
        return list(shlex.shlex(command, posix=True, punctuation_chars=True))
    except ValueError:
        return command.split()


def version_of(path: str) -> tuple[int, ...] | None:
    """Return what tells one version of a file from the next, None if there is no file."""
    try:
        status = _STAT(path)
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return (status.st_size, status.st_mtime_ns, status.st_ino)


def kind_of(path: str) -> str:
    """Return what is at a path: a file, a directory, or nothing."""
    if os.path.isdir(path):
        return "directory"
    return "file" if os.path.exists(path) else MISSING


def listing(path: str) -> list[str] | str:
    """Return the names in a directory, in order; a directory that is missing is said to be.

    Of very many names only the digest is kept. What Python, Jupyter and rlmnb put there in passing
    says nothing, and comes and goes: the notebook may be written while a cell looks.
    """
    try:
        names = sorted(
            name for name in {*os.listdir(path)} - _KEPT_BESIDE if not is_temporary(name)
        )
    except OSError:
        return MISSING
    return names if len(names) <= _MOST_NAMES else digest.of_value(names)
