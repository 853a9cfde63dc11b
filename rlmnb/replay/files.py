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
from rlmnb.graph.traces import CodeCell
from rlmnb.store.variables import Variables


class Versions:
    """The versions of files that the cells of one notebook have written."""

    def __init__(self, cells: Iterable[CodeCell], objects: str) -> None:
        self._variables = Variables(objects)
        self._known: dict[str, set[str]] = {}
        self._moved: set[str] = set()
        for cell in cells:
            self.know((cell.run or {}).get("files_written", {}))

    def know(self, written: Mapping[str, Mapping[str, str]]) -> None:
        """Take down what a cell has written."""
        for path, version in written.items():
            self._known.setdefault(path, set()).add(version["hash"])

    def touch(self, written: Iterable[str]) -> None:
        """Take down that a cell has written files again, out of its turn."""
        self._moved.update(written)

    def put(self, due: Mapping[str, str], paths: Iterable[str]) -> bool:
        """Bring files to the versions that are due; tell whether any was not there."""
        changed = [path for path in paths if path in due and self._put(path, due[path])]
        self._moved.update(changed)
        return bool(changed)

    def finish(self, last: Mapping[str, str]) -> None:
        """Bring what was moved to the version that the whole notebook leaves."""
        for path in sorted(self._moved):
            if path in last:
                self._put(path, last[path])
        self._variables.close()

    def _put(self, path: str, due: str) -> bool:
        now = digest.of_file(path)["hash"]
        if now == due or now not in {MISSING, *self._known.get(path, ())}:
            return False
        try:
            if due == MISSING:
                remove(path)
            else:
                write_like(path, self._variables.get(due))
        except (OSError, RlmnbError):
            return False  # too large to have been kept, or not ours to write: as it was before
        return True


def named_by(cell: CodeCell, strings: Iterable[str], cwd: str) -> set[str]:
    """Return the files a cell has touched, or names in its code."""
    run = cell.run or {}
    found = {*run.get("files_read", ()), *run.get("files_written", ())}
    return found | {os.path.join(cwd, text) for text in strings if 0 < len(text) < 1024}
