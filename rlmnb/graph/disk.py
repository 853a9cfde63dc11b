"""Freshness by files: what the disk has now, as far as cells read and wrote it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rlmnb.capture.folders import called, name_within
from rlmnb.digest import MISSING
from rlmnb.graph.environment import Changing, CodeCell, Environment, Run

DIRECTORY = "directory"
FileNow = Callable[[str, Mapping[str, Any]], str]


@dataclass
class Files:
    """What the disk has now, as far as cells read and wrote it."""

    now: FileNow
    # Which names are in a directory, given what cells have made or taken away by now: None is not
    # known, and taken to be as it was then.
    listing: Callable[[str, Mapping[str, bool | None], list[str] | str], list[str] | str]
    kind: Callable[[str], str]
    python: str
    last_writers: Mapping[str, str] = field(default_factory=dict)
    last_written: Mapping[str, str] = field(default_factory=dict)
    # Files that were not there before some cell made them.
    made_by: Mapping[str, str] = field(default_factory=dict)
    # What files were before the first cell that wrote them.
    first_before: Mapping[str, str] = field(default_factory=dict)
    # The model that is meant where none is named, if one is configured.
    model: str | None = None
    # Files that only an earlier run of some cell has made, by hand: what they hold, and which cell.
    abandoned: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    # To be called when another program may have changed files that no cell is known to write.
    look_again: Callable[[], None] = lambda: None

    def model_causes(self, run: Run) -> list[str]:
        """Say whether another model is meant now where a cell named none."""
        then = run.get("default_model")
        if then is None or self.model is None or then == self.model:
            return []
        return [f"the default model was {then}, it is {self.model} now"]

    def causes(self, cell: CodeCell, run: Run, env: Environment) -> list[str]:
        """Say which files are no longer what the cell read, or left."""
        causes = (
            self._read(cell, run, env) + self._written(cell, run, env) + self._asked(cell, run, env)
        )
        for path, then in run["listed"].items():
            if self._listing(path, then, env) != then:
                left = [each for each in self.abandoned if _folder_of(each) == path]
                causes.append(self._abandoned(left[0]) if left else f"{called(path)} changed")
            elif by := self._changing_in(path, env):
                causes.append(f"{called(path)} may change: {by} runs again")
        return causes

    @staticmethod
    def _changing_in(folder: str, env: Environment) -> str | None:
        """Return a cell above that will run, and has written in a directory."""
        changing = [(path, left) for path, left in env.files.items() if isinstance(left, Changing)]
        if not changing:
            return None
        within = name_within(folder)
        found = (left.cell_id for path, left in changing if within(path) is not None)
        return next(found, None)

    def _listing(self, folder: str, then: list[str] | str, env: Environment) -> list[str] | str:
        """Return what is in a directory after the cells so far."""
        left = env.files.get(folder, self.first_before.get(folder, ""))
        if isinstance(left, Changing):
            return then  # known once that cell has run
        if left == MISSING:
            return MISSING
        return self.listing(folder, self._there(env), then)

    def _there(self, env: Environment) -> dict[str, bool | None]:
        """Tell of what cells make or take away whether it is there by now, None if nobody knows.

        What only cells further down do has not happened yet.
        """
        found: dict[str, bool | None] = {}
        found.update(dict.fromkeys(self.abandoned.keys() - env.files.keys(), False))
        for path in {*self.last_written, *env.files}:
            left = env.files.get(path, self.first_before.get(path, ""))
            if isinstance(left, Changing):
                found[path] = None
            elif left:
                found[path] = left != MISSING
            elif path not in self.first_before and self._is_as_left(path):
                found[path] = None  # an effect further down, part of the story as a later write is
        return found

    def _is_as_left(self, path: str) -> bool:
        return (self.kind(path) == MISSING) == (self.last_written[path] == MISSING)

    def _read(self, cell: CodeCell, run: Run, env: Environment) -> list[str]:
        causes = []
        for path, version in run["files_read"].items():
            if path in env.files:
                now = env.files[path]
                if isinstance(now, Changing):
                    causes.append(f"{path} from {now.cell_id} changes")
                    continue
            else:
                now = self.now(path, version)
                if self.abandoned.get(path, ("",))[0] == now:
                    causes.append(self._abandoned(path))
                    continue
                # The notebook's own later write is part of its story, not a change from outside.
                if now == self.last_written.get(path):
                    if path in run.get("named", ()):
                        continue  # as the place where a cell further down is to write it
                    if self._came_early(path, version["hash"], by_hand=run.get("by_hand", False)):
                        causes.append(_found_early(path, self.last_writers[path], cell))
                    continue
            if now != version["hash"]:
                causes.append(f"{path} {'is missing now' if now == MISSING else 'changed'}")
        return causes

    def _abandoned(self, path: str) -> str:
        return f"{path} was left by an earlier run of {self.abandoned[path][1]}"

    def _came_early(self, path: str, read: str, *, by_hand: bool) -> bool:
        """Tell whether a file had what only a cell further down writes.

        Either it was read by hand, or whoever wrote it stood above then.
        """
        before = self.first_before.get(path, read)
        if before == MISSING:
            return read != MISSING
        return by_hand and read == self.last_written[path] and read != before

    def _written(self, cell: CodeCell, run: Run, env: Environment) -> list[str]:
        if cell.effects:
            # What an effect left is the user's to change; but it builds on what cells above leave.
            return [f"{path} is written anew above" for path in cell.written if path in env.files]
        causes = []
        for path, version in (run["files_written"] | run.get("settled", {})).items():
            if self.last_writers.get(path) != cell.cell_id:
                continue
            now = self.now(path, version)
            if now != version["hash"]:
                gone = "was removed" if now == MISSING else "was changed"
                causes.append(f"{path} {gone} since it was written")
        for path, left in cell.folders.items():
            if self.last_writers.get(path) == cell.cell_id and self.kind(path) != left:
                came = "was made" if left == MISSING else "was removed"
                causes.append(f"{path} {came} since the cell ran")
        return causes

    def _asked(self, cell: CodeCell, run: Run, env: Environment) -> list[str]:
        causes = []
        for path, then in run.get("asked", {}).items():
            left = env.files.get(path)
            if isinstance(left, Changing):
                causes.append(f"what is at {path} may change: {left.cell_id} runs again")
                continue
            if left is None and path in self.abandoned and then != MISSING:
                causes.append(self._abandoned(path))
                continue
            if left is None and path in self.last_written:
                # A cell further down makes it, or takes it away.
                if run.get("by_hand") and path in self.made_by and then != MISSING:
                    causes.append(_found_early(path, self.made_by[path], cell))
                    continue
                left = self.first_before.get(path)
                if not left:
                    continue
            if left is not None:
                now = left if left in (MISSING, DIRECTORY) else "file"
            else:
                now = self.kind(path)
            if now != then:
                causes.append(f"{path} is {'missing' if now == MISSING else f'a {now}'} now")
        return causes


def _folder_of(path: str) -> str:
    return path[: max(path.rfind("/"), path.rfind("\\"))]


def last_writes(cells: Iterable[CodeCell]) -> tuple[dict[str, str], dict[str, str]]:
    """Return, for each file, the last cell that wrote it and what it left."""
    writers, written = {}, {}
    for cell in cells:
        settled = (cell.run or {}).get("settled", {})
        for path, version in cell.written.items():
            writers[path] = cell.cell_id
            written[path] = settled.get(path, version)["hash"]
        for path, left in cell.folders.items():
            writers[path] = cell.cell_id
            written[path] = left
    return writers, written


def first_versions(cells: Iterable[CodeCell]) -> dict[str, str]:
    """Return what is known of each file as it was before the first cell that wrote it."""
    found: dict[str, str] = {}
    for cell in cells:
        for path in (*cell.written, *cell.folders) if not cell.effects else ():
            found.setdefault(path, (cell.run or {}).get("before", {}).get(path, ""))
    return found


def abandoned_by(cells: Iterable[CodeCell]) -> dict[str, tuple[str, str]]:
    """Return the files that cells have made by hand and would not make again, and who has."""
    cells = list(cells)
    written = {path for cell in cells for path in (*cell.written, *cell.folders)}
    return {
        path: (now, cell.cell_id)
        for cell in cells
        for path, now in (cell.run or {}).get("abandoned", {}).items()
        if path not in written
    }


def makers(cells: Iterable[CodeCell]) -> dict[str, str]:
    """Return, for each file that was not there before, the cell that made it."""
    found: dict[str, str] = {}
    for cell in cells:
        for path, was in (cell.run or {}).get("before", {}).items():
            if was == MISSING:
                found.setdefault(path, cell.cell_id)
    return found


def _found_early(path: str, maker: str, cell: CodeCell) -> str:
    if maker == cell.cell_id:
        return f"{path} was left by an earlier run of this cell"
    return f"{path} came from {maker}, below it"
