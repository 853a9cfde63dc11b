"""Files that cells write: brought to the version a cell is due, and back to the last one.

Only a file that holds what some cell of the notebook wrote is ever replaced. What a person or
another program has put there stays, and makes the cell that wrote it stale.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from rlmnb import digest
from rlmnb.digest import MISSING
from rlmnb.errors import RlmnbError
from rlmnb.files import remove, write_like
from rlmnb.graph.disk import DIRECTORY
from rlmnb.graph.environment import CodeCell, Run
from rlmnb.store.variables import Variables

_BYTECODE = "__pycache__"


class Versions:
    """The versions of files that the cells of one notebook have written."""

    def __init__(self, cells: Iterable[CodeCell], objects: str) -> None:
        self._variables = Variables(objects)
        self._known: dict[str, set[str]] = {}
        self._moved: set[str] = set()
        for cell in cells:
            # What tools that change things have left is their user's, and is never put back.
            if cell.run is not None and not cell.effects and not cell.run.get("effects"):
                self.know(cell.run)

    def know(self, run: Run) -> None:
        """Take down what a cell has written, and what it once has."""
        self._take_down(left_on_disk(run))
        self._take_down(run.get("abandoned", {}))

    def built_on(self, run: Run) -> set[str]:
        """Return the files that a cell has built on a version of the notebook's own.

        What it made of them is the notebook's own, too; of what a person has put there it is not.
        """
        read = run["files_read"]
        left = {
            path: left
            for path, left in left_on_disk(run).items()
            if path in read and read[path]["hash"] in self._known.get(path, ())
        }
        self._take_down(left)
        return set(left)

    def _take_down(self, left: Mapping[str, str]) -> None:
        for path, version in left.items():
            self._known.setdefault(path, set()).add(version)

    def touch(self, run: Run) -> None:
        """Take down that a cell has written files again, out of its turn."""
        self._moved.update(left_on_disk(run))

    def put(self, due: Mapping[str, str], paths: Iterable[str]) -> bool:
        """Bring files to the versions that are due; tell whether any was not there."""
        wanted = {path: due[path] for path in paths if path in due}
        changed = [path for path in _in_order(wanted) if self._put(path, wanted[path])]
        self._moved.update(changed)
        return bool(changed)

    def finish(self, last: Mapping[str, str]) -> None:
        """Bring what was moved to the version that the whole notebook leaves."""
        for path in _in_order({path: last[path] for path in self._moved if path in last}):
            self._put(path, last[path])
        self._variables.close()

    def _put(self, path: str, due: str) -> bool:
        now = DIRECTORY if os.path.isdir(path) else digest.of_file(path)["hash"]
        # A link whose file is gone is there all the same.
        there = now != MISSING or os.path.islink(path)
        if (now == due and there == (due != MISSING)) or not self._is_ours(path, now):
            return False
        try:
            if now == DIRECTORY:
                self._take_away(path)
            elif due in (MISSING, DIRECTORY):
                remove(path)
            if due == DIRECTORY:
                self._make(path)
            elif due != MISSING:
                data = self._variables.get(due)
                self._make(os.path.dirname(path))
                write_like(path, data)
        except (OSError, RlmnbError):
            return False  # too large to have been kept, or not ours to write: as it was before
        return True

    def _is_ours(self, path: str, now: str) -> bool:
        known = self._known.get(path, set())
        if os.path.islink(path):
            return bool(known)
        if now == MISSING or now in known:
            return True
        # A cell that is gone may have written it: of what is kept, nothing is lost.
        return bool(known) and digest.is_digest(now) and self._is_kept(now)

    def _is_kept(self, version: str) -> bool:
        try:
            self._variables.get(version)
        except RlmnbError:
            return False
        return True

    def _make(self, path: str) -> None:
        """Make a directory with those above it that are missing."""
        if not os.path.isdir(path):
            self._make(os.path.dirname(path))
            os.mkdir(path)
            self._moved.add(path)

    def _take_away(self, path: str) -> None:
        """Remove a directory in which everything is the notebook's own and can be put back."""
        files, folders = [], [path]
        for top, inner, names in os.walk(path):
            passing = os.path.basename(top) == _BYTECODE
            below = [os.path.join(top, name) for name in inner]
            folders += below
            if not all(each in self._known or each.endswith(_BYTECODE) for each in below):
                raise FileExistsError(path)
            for each in (os.path.join(top, name) for name in names):
                now = "" if passing else digest.of_file(each)["hash"]
                if not passing and not self._is_ours(each, now):
                    raise FileExistsError(each)
                if not passing and digest.is_digest(now):
                    self._variables.get(now)  # raises where it was not kept
                files.append(each)
        for each in files:
            remove(each)
        for each in sorted(folders, reverse=True):
            os.rmdir(each)
        self._moved.update(files, folders)


def _in_order(wanted: Mapping[str, str]) -> list[str]:
    """Return what is to go, from the inside out, then what is to come, from the outside in."""
    going = [path for path, due in wanted.items() if due == MISSING]
    return sorted(going, reverse=True) + sorted(wanted.keys() - going)


def left_on_disk(run: Run) -> dict[str, str]:
    """Return what a cell left at each path that it wrote, made or took away."""
    written = run["files_written"] | run.get("settled", {})
    files = {path: str(version["hash"]) for path, version in written.items()}
    files.update(run.get("folders", {}))
    return files


def named_by(cell: CodeCell, strings: Iterable[str], cwd: str) -> set[str]:
    """Return the files a cell has touched, or names in its code."""
    run = cell.run or {}
    keys = ("files_read", "files_written", "folders", "asked")
    found = {path for key in keys for path in run.get(key, ())}
    return found | {os.path.join(cwd, text) for text in strings if 0 < len(text) < 1024}
