"""Which files a cell opens, lists and imports, told by the interpreter's own audit events."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import site
import stat
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from rlmnb import digest
from rlmnb.capture.folders import KEPT_BESIDE, listed, names_in
from rlmnb.digest import MISSING
from rlmnb.kernel import listing
from rlmnb.kernel.commandwords import is_plausible, overwritten_by, words_in
from rlmnb.kernel.offspring import Offspring
from rlmnb.kernel.paths import beside, kind_of, open_among, version_of
from rlmnb.kernel.scripts import mentioned_by
from rlmnb.kernel.tidying import FOR_NOTHING, TO_MAKE, TO_REPLACE, why_asked
from rlmnb.kernel.unfound import Unfound
from rlmnb.kernel.wildcards import found_by, listed_by
from rlmnb.store.layout import BESIDE

_STAT, _LSTAT, _ACCESS = os.stat, os.lstat, os.access
_FLAGS = {
    "subprocess.Popen": "subprocess",
    "os.system": "subprocess",
    "os.posix_spawn": "subprocess",
    "socket.connect": "network",
}
# There are many more, and each costs whoever causes it.
_HEARD = frozenset(
    {
        "open", "os.listdir", "os.scandir", "os.mkdir", "os.rmdir", "os.rename", "os.link",
        "os.symlink", "os.remove", "os.truncate", "shutil.rmtree", "sqlite3.connect", *_FLAGS,
    }
)  # fmt: skip
# Up to here it is worth a look what a file was before a cell wrote over it.
_SMALL_FILE = 64 * 1024 * 1024
_BESIDE = f"{os.sep}{BESIDE}{os.sep}"
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_LOOKING_FOR_MODULES = ("<frozen importlib", importlib.metadata.__file__)
# A directory with more in it than this is moved or removed without a look at each file.
_MOST_BELOW = 10_000


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

    def __init__(self, ignored: tuple[str, ...] = (), rewritten: Iterable[str] = ()) -> None:
        self._foreign = _foreign_places() + ignored
        self._unfound = Unfound(lambda path: self._note_asked(path, MISSING), self._foreign)
        # The notebook itself: it changes with every replay.
        self._rewritten = {
            look(path) for path in rewritten for look in (os.path.realpath, os.path.abspath)
        }
        self._passing = _passing_places()
        # Where ipykernel says that the source of a cell is, and where tracebacks look for it.
        pretended = os.path.join(tempfile.gettempdir(), "ipykernel_")
        self._sources = re.compile(rf"{re.escape(pretended)}\d+[\\/]\d+\.py$")
        self._start = os.path.realpath(os.getcwd()) + os.sep
        self._on = False
        self._quiet = threading.local()
        # Every file this kernel has opened for writing, as it was when it was last looked at.
        self._ours: dict[str, tuple[int, ...] | None] = {}
        self._at_start: dict[str, tuple[int, ...] | None] = {}
        # What stood there before the first of them, or what is known of it.
        self._first: dict[str, str] = {}
        self.asked: dict[str, str] = {}
        # Of these, what was asked for only to be replaced.
        self._replacing: set[str] = set()
        # Directories that the cell makes or takes away, and what stood there before.
        self._folders: dict[str, str] = {}
        # What stood before the cell where it has written, made or taken away something.
        self._was: dict[str, str] = {}
        self.read: dict[str, dict[str, Any]] = {}
        self.written: set[str] = set()
        self.listed: dict[str, list[str] | None] = {}
        self.flags: set[str] = set()
        # Files that were not heard to be opened: they are only named.
        self._named: set[str] = set()
        # A file was opened that is known by its number alone.
        self.by_number = False
        # What commands name, and what stood there when they began.
        self.commanded: dict[str, tuple[int, ...] | None] = {}
        # Files that they write without regard to what is there.
        self.begun_anew: set[str] = set()
        self._offspring = Offspring(self.unheard)
        # What a process that was forked off has told, or was forked off with.
        self._known: list[dict[str, Any]] = []
        sys.addaudithook(self._hear)

    def start(self) -> None:
        """Forget what was heard and listen."""
        self._offspring.next_cell()
        self._take_in()
        self._forget()
        self._at_start = {name: version_of(name) for name in self._ours}
        self._replace(self._asking(_STAT), self._asking(_LSTAT), _asking_first(_ACCESS))
        self._unfound.stand_in()
        self._on = True

    def _forget(self) -> None:
        self.read, self.written, self.listed, self.flags = {}, set(), {}, set()
        self.asked, self._folders, self._was, self.commanded = {}, {}, {}, {}
        self.by_number = False
        self._named, self._replacing, self.begun_anew = set(), set(), set()

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
        self._take_in()
        self._unfound.step_back()
        for name, seen in self._ours.items():
            # A file that an earlier cell opened and left open is written by whoever writes to it.
            if (now := version_of(name)) != seen:
                self._ours[name] = now
                between = now == self._at_start.get(name) and not open_among({name})
                if seen is not None and not between:  # that would be a person's
                    self.written.add(name)
        self._replace(_STAT, _LSTAT, _ACCESS)

    @staticmethod
    def _replace(stat: Any, lstat: Any, access: Any) -> None:
        # The library asks which functions can do what by looking for them in these sets.
        for supported in (
            os.supports_dir_fd,
            os.supports_effective_ids,
            os.supports_fd,
            os.supports_follow_symlinks,
        ):
            supported |= {
                new for old, new in ((_STAT, stat), (_ACCESS, access)) if old in supported
            }
        os.stat, os.lstat, os.access = stat, lstat, access
        if stat is _STAT:
            listing.step_back()
        else:
            listing.stand_in()

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
        if name is None or name in self.asked or self._is_passing(name):
            return
        self._take_in()
        if name in self.written:
            return
        with self.unheard():
            why = why_asked(_caller(), self._foreign)
        if why == FOR_NOTHING:
            return
        if why == TO_REPLACE and kind != MISSING:
            self._replacing.add(name)
        if why == TO_MAKE:
            self._note_wanted(name)
        if name in self._folders:
            return  # it has just tried to make it, or to take it away
        # What is found in a directory that the cell itself made is no find.
        if kind == MISSING or all(was != MISSING for was in self._was_above(name)):
            self.asked.setdefault(name, kind)
        self._tell()

    def _note_wanted(self, name: str) -> None:
        """Take down that a directory is made where it is missing, as the library would."""
        with self.unheard():
            self._folder(name)
        above = self.mine(os.path.dirname(name))
        if self._was[name] != MISSING and above is not None and above not in self._folders:
            self.asked.setdefault(above, "directory")

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if event not in _HEARD or not self._on or getattr(self._quiet, "now", False):
            return
        # What we do here must not be heard, by us; other threads go on being heard.
        self._quiet.now = True
        try:
            self._take_in()
            self._heard(event, args)
            self._tell()
        except Exception:  # noqa: BLE001, S110 - an error here would be raised in the user's code
            pass
        finally:
            self._quiet.now = False

    def _take_in(self) -> None:
        """Count what processes that were forked off have done as the cell's own doing."""
        if self._offspring.is_one:
            if self._offspring.is_another_cell():
                self._forget()
                self._known = []
            return
        for told in self._offspring.told():
            read, was, asked, listed, folders = told["heard"]
            for name in read.keys() - self.written:
                self.read.setdefault(name, read[name])
            for name, kind in was.items():
                self._was.setdefault(name, kind)
            for name in told["written"]:
                self.written.add(name)
                self._ours.setdefault(name, None)
            for name, first in told["first"].items():
                self._first.setdefault(name, first)
            for name in asked.keys() - self.written:
                self.asked.setdefault(name, asked[name])
            self.listed = listed | self.listed
            self._folders = folders | self._folders
            self.flags.update(told["flags"])

    def _tell(self) -> None:
        """Tell the kernel, if this is another process, what is new."""
        if not self._offspring.is_one:
            return
        now: list[dict[str, Any]] = [
            self.read, self._was, self.asked, self.listed, self._folders
        ]  # fmt: skip
        new = [
            {name: each[name] for name in each.keys() - known.keys()}
            for each, known in zip(now, self._known or [{}] * len(now), strict=True)
        ]
        if any(new):
            self._known = [each.copy() for each in now]
            written = [name for name in new[1] if name in self.written]
            first = {name: self._first[name] for name in written if name in self._first}
            flags = sorted(self.flags)
            self._offspring.tell({"heard": new, "written": written, "first": first, "flags": flags})

    def _heard(self, event: str, args: tuple[Any, ...]) -> None:
        if event in _FLAGS:
            self.flags.add(_FLAGS[event])
        frame = sys._getframe(2)
        if frame.f_code.co_filename == listing.__file__ and frame.f_back is not None:
            frame = frame.f_back
        caller = frame.f_code
        removing = caller.co_filename == shutil.__file__ and "rmtree" in caller.co_name
        if removing and event != "shutil.rmtree":
            return  # all that is in there was counted when it began
        if event == "open":
            self.by_number = self.by_number or args[1] is None
            self._opened(*args)
        elif event in ("os.listdir", "os.scandir"):
            # Looking for modules, or for what is installed, is not looking at what is there.
            if not caller.co_filename.startswith(_LOOKING_FOR_MODULES):
                self.note_listed(args[0])
        elif event == "subprocess.Popen":
            self._command(args[1], args[2])
        elif event in ("os.system", "os.posix_spawn"):
            self._command(args[len(args) > 1], None)
        elif event == "sqlite3.connect":
            self._opened(args[0], "r", os.O_RDWR)
        elif event == "os.truncate":
            self._opened(args[0], "r+", os.O_RDWR)
        else:
            self._heard_of_names(event, args)

    def _heard_of_names(self, event: str, args: tuple[Any, ...]) -> None:
        """Follow files and directories that come and go under their names."""
        if event in ("os.mkdir", "os.rmdir"):
            self._folder(beside(args[0], args[-1]))
        elif event == "shutil.rmtree":
            self._taken_away(beside(args[0], args[1] if len(args) > 1 else None))
        elif event == "os.rename":
            self._moved(beside(args[0], args[2]), beside(args[1], args[3]))
        elif event in ("os.link", "os.symlink"):
            self._linked(args[0], args[1])
        elif event == "os.remove":
            self._overwritten(beside(args[0], args[1]))

    def mine(self, path: Any) -> str | None:
        """Return the full path of a file that can be part of somebody's project."""
        if isinstance(path, int) or not path:
            return None
        try:
            name = os.path.abspath(os.fsdecode(path))
        except (TypeError, ValueError, OSError):
            return None
        if name.endswith((".pyc", ".pyo")) or name.startswith(self._foreign):
            return None
        if _BESIDE in name + os.sep or name in self._rewritten:
            return None  # what we keep there changes with every replay
        return None if self._sources.match(name) else name

    def _opened(self, path: Any, _mode: Any, flags: Any) -> None:
        name = self.mine(path)
        if name is None:
            return
        self._named.discard(name)
        writing = isinstance(flags, int) and flags & _WRITING
        # What the cell itself wrote before is not read from outside.
        only_writing = isinstance(flags, int) and flags & (os.O_TRUNC | os.O_EXCL)
        if self._at_start.get(name) not in (None, version_of(name)):
            self.written.add(name)  # by this cell, into what an earlier one has opened
        if name not in self.read and name not in self.written and not only_writing:
            self._look(name)
        if writing:
            behind = self._behind(name)
            self._overwritten(name)
            self._overwritten(behind)
            self._ours.setdefault(behind, None)

    def _behind(self, name: str) -> str:
        """Return the file that is meant by a link: what is written goes there."""
        return self.mine(os.path.realpath(name)) or name if os.path.islink(name) else name

    def _overwritten(self, path: Any) -> None:
        """Count a file as written, having seen what stood there before."""
        name = self.mine(path)
        if name is None:
            return
        if name not in self.written:
            self._was.setdefault(name, kind_of(name))
            if name not in self._ours:
                self._note_before(name)
        self.written.add(name)

    def _note_before(self, name: str) -> None:
        if name in self._first:
            return
        now = self.read[name]["hash"] if name in self.read else kind_of(name)
        small = now == "file" and os.path.getsize(name) <= _SMALL_FILE
        self._first[name] = digest.of_file(name)["hash"] if small else now

    def _folder(self, path: Any) -> None:
        """Take down that a directory is made or taken away, whether or not that will succeed."""
        name = self.mine(path)
        if name is not None and name not in self._folders:
            self._folders[name] = self._was[name] = kind_of(name)

    def _below(self, path: str) -> tuple[list[str], list[str]]:
        """Return a directory with all directories below it, and all files."""
        folders, files = [path], []
        for top, inner, names in os.walk(path):
            folders += [os.path.join(top, name) for name in inner]
            files += [os.path.join(top, name) for name in names]
            if len(files) + len(folders) > _MOST_BELOW:
                return [path], []
        return folders, files

    def _taken_away(self, path: Any) -> None:
        """Count everything below a directory as removed."""
        name = self.mine(path)
        if name is None or os.path.islink(name) or not os.path.isdir(name):
            return
        folders, files = self._below(name)
        for each in folders:
            self._folder(each)
        for each in files:
            self._overwritten(each)

    def _moved(self, source: Any, target: Any) -> None:
        """Count what stood at one path as read, and both as written."""
        old, new = self.mine(source), self.mine(target)
        if old is not None and os.path.isdir(old) and not os.path.islink(old):
            folders, files = self._below(old)
        else:
            folders, files = [], [old] if old is not None and os.path.isfile(old) else []
        for each in folders:
            self._folder(each)
            if new is not None:
                self._folder(new + each[len(old or "") :])
        for each in files:
            self.note(each)
            self._overwritten(each)
            if new is not None:
                self._overwritten(new + each[len(old or "") :])
        if not folders and not files:
            self._overwritten(new)

    def _linked(self, source: Any, target: Any) -> None:
        """Count what a new name leads to as read, and the name as written."""
        name = self.mine(target)
        if name is not None and isinstance(source, str | bytes | os.PathLike):
            self.note(os.path.join(os.path.dirname(name), os.fsdecode(source)))
        self._overwritten(name)

    def command(self, text: str) -> None:
        """Take down that a command is about to run of which no event tells."""
        if self._on:
            with self.unheard():
                self._command(text, None)

    def _command(self, arguments: Any, cwd: Any) -> None:
        """Count the files that a command names as read: what it opens is not told to us.

        What is not there may be what it makes.
        """
        texts = [arguments] if isinstance(arguments, str | bytes) else arguments
        try:
            where = os.fsdecode(cwd) if cwd is not None else ""
            anew = {name for text in texts for name in overwritten_by(os.fsdecode(text))}
            self.begun_anew.update(os.path.abspath(os.path.join(where, name)) for name in anew)
            given = [os.fsdecode(text) for text in texts] if isinstance(texts, list | tuple) else []
            words = [*given, *(word for text in given for word in words_in(text))]
            words += mentioned_by(words, where)
            for folder in listed_by(filter(is_plausible, words), where):
                self.note_listed(folder)
            words += found_by(filter(is_plausible, words), where)
            for word in words:
                path = os.path.join(where, word)
                name = self.mine(path) if is_plausible(path) else None
                if name is None:
                    continue
                self.commanded.setdefault(name, version_of(name))
                if self.commanded[name] is not None and name not in self.begun_anew:
                    self.note(name)
        except (TypeError, ValueError, OSError):
            return  # a command that cannot be read is run all the same

    def _look(self, name: str) -> None:
        self.read[name] = digest.of_file(name)

    def note_listed(self, path: Any) -> None:
        """Take down that somebody looks what is in a directory."""
        name = self.mine(path if path is not None else ".")
        if name is None or name in self.listed or self._is_passing(name):
            return
        if KEPT_BESIDE.isdisjoint(name.split(os.sep)):
            self.listed[name] = names_in(name)

    def note(self, path: str, *, only_named: bool = False) -> None:
        """Take down a file that is known by other means to have been read, or is named at least."""
        name = self.mine(path)
        if name is not None and name not in self.read and name not in self.written:
            self._look(name)
            if only_named:
                self._named.add(name)

    def note_missing(self, path: str) -> None:
        """Take down that something would have been read if it had been there, and was not."""
        name = self.mine(path)
        if name is not None and name not in self.written and version_of(name) is None:
            self.asked.setdefault(name, MISSING)

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
        self._was.setdefault(name, MISSING if new else "file")
        self.written.add(name)

    def _was_above(self, path: str) -> Iterator[str | None]:
        """Yield what stood before the cell at a path, and at each directory above it."""
        yield self._was.get(path)
        while (parent := os.path.dirname(path)) != path:
            path = parent
            yield self._was.get(path)

    def _listed_before(self, path: str, names: list[str] | None) -> list[str] | str:
        """Return what was in a directory before the cell itself changed it."""
        if names is None or any(was == MISSING for was in self._was_above(path)):
            return MISSING
        own = {name: was for name, was in self._was.items() if os.path.dirname(name) == path}
        found = {*names} | {os.path.basename(name) for name, was in own.items() if was != MISSING}
        return listed(
            found - {os.path.basename(name) for name, was in own.items() if was == MISSING}
        )

    def report(self) -> dict[str, Any]:
        """Return what was heard, for the record."""
        folders = {
            path: now
            for path, was in sorted(self._folders.items())
            if (now := kind_of(path)) != was and now != "file" and path not in self.written
        }
        for path in folders:
            self._first.setdefault(path, self._folders[path])
        # Asked for, and there already: an earlier run of the cell may have made them.
        asked_for = [path for path, was in self._folders.items() if was == kind_of(path) != MISSING]
        replaced = self._replacing & {*self.written, *self._folders}
        return {
            **({"asked_for": sorted(asked_for)} if asked_for else {}),
            **({"folders": folders} if folders else {}),
            **({"open": still_open} if (still_open := open_among(self.written)) else {}),
            "files_read": {
                path: version
                for path, version in self.read.items()
                if version["hash"] != digest.UNREADABLE
            },
            "before": {
                path: self._first[path]
                for path in sorted({*self.written, *folders} & set(self._first))
            },
            "files_written": {path: digest.of_file(path) for path in sorted(self.written)},
            "listed": {
                path: self._listed_before(path, names) for path, names in self.listed.items()
            },
            "asked": {
                path: kind
                for path, kind in self.asked.items()
                if (path not in self.read or path in self._named) and path not in self.listed
            },
            "flags": sorted(self.flags),
            **({"named": sorted(self._named)} if self._named else {}),
            **({"replaced": sorted(replaced)} if replaced else {}),
        }


def _asking_first(real: Any) -> Any:
    """Return what answers as this does, having asked what is there in a way that is noted."""

    def ask(path: Any, *args: Any, **options: Any) -> Any:
        if options.get("dir_fd") is None:
            with suppress(OSError, ValueError, TypeError):
                os.stat(path)
        return real(path, *args, **options)

    ask.__name__ = ask.__qualname__ = real.__name__
    ask.__doc__ = real.__doc__
    return ask


def _caller() -> FrameType:
    """Return from where something of ours is called."""
    frame = sys._getframe(2)
    while frame.f_code.co_filename == __file__ and frame.f_back is not None:
        frame = frame.f_back
    return frame
