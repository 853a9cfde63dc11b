"""What must not be relied on, because the cell that makes it did not run to its end."""

from __future__ import annotations

from collections.abc import Callable

from rlmnb.graph.environment import CodeCell, may_write
from rlmnb.kernel.reach import Reach


class Blocked:
    """Variables, files and cells that are not what they should be, and whose fault it is."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._files: dict[str, str] = {}
        self._cells: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._names or self._files or self._cells)

    def add(self, cell: CodeCell, by: str) -> None:
        """Count on nothing that a cell would leave."""
        self._names.update(dict.fromkeys(may_write(cell), by))
        self._files.update(dict.fromkeys(cell.written, by))
        self._cells[cell.cell_id] = by

    def clear(self, cell: CodeCell) -> None:
        """Count again on what a cell has left, now that it has run or still holds."""
        for name in may_write(cell):
            self._names.pop(name, None)
        for path in cell.written:
            self._files.pop(path, None)

    def by(self, cell: CodeCell, reach: Callable[[], Reach]) -> str | None:
        """Return the cell whose fault it is that this one cannot run, None if it can.

        `reach` tells what its code can read, and whether that is anything at all; to know that the
        code has to be parsed, so it is asked only where there are names in doubt.
        """
        if self._names:
            reads, opaque, _ = reach()
            for name, fault in self._names.items():
                if opaque or name in reads:
                    return fault
        files = cell.files_read if cell.run is None else cell.run["files_read"]
        touched = {*files, *cell.written} if cell.effects else files
        for path in touched:
            if path in self._files:
                return self._files[path]
        return next((self._cells[each] for each in cell.depends if each in self._cells), None)
