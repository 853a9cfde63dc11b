"""Cells that look at what ran before them: whatever is above them has to run with them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rlmnb.graph.environment import Changing, CodeCell, Environment
from rlmnb.kernel.history import is_history
from rlmnb.kernel.reach import follow
from rlmnb.replay.naming import Naming
from rlmnb.replay.wishes import Wishes

LOOKED_AT = "a cell below looks at earlier outputs"
# Code without any of these looks at nothing that ran before, and is not worth a closer look.
_MAY_LOOK = re.compile(
    r"\b(?:In|Out|_{1,3}|_i{1,3}|_i?\d+|_[iod]h|history_manager|execution_count)\b"
    r"|%(?:hist|recall|rep|rerun|macro|save|pastebin|notebook)"
)


def needed_by_history(
    cells: list[CodeCell],
    due: frozenset[str],
    start: Environment,
    naming: Naming,
    wishes: Wishes,
) -> frozenset[str]:
    """Return the cells above the last that will run and looks at `_` or `Out`: all run, in order.

    It needs them, so they run also where only others were asked for.
    """
    if not any(_may_look(cell, due) for cell in cells):
        return frozenset()
    last = 0
    env = start.copy()
    by_id = {cell.cell_id: cell for cell in cells}
    for at, cell in enumerate(cells):
        if cell.cell_id in due:
            chosen = wishes.only is None or cell.cell_id in wishes.only
            if chosen and _looks(cell, env, naming, by_id):
                last = at
            env.change(cell)
        elif cell.run is not None:
            env.apply(cell.cell_id, cell.run)
    return frozenset(cell.cell_id for cell in cells[:last] if _runs(cell, wishes))


def _runs(cell: CodeCell, wishes: Wishes) -> bool:
    left_alone = cell.tags & {"rlmnb:pinned", "skip-execution"}
    return bool(cell.source.strip()) and not left_alone and wishes.hinders(cell) is None


def _may_look(cell: CodeCell, due: frozenset[str]) -> bool:
    if cell.cell_id in due and _MAY_LOOK.search(cell.source):
        return True
    written = cell.run["writes"] if cell.run is not None else ()
    return any(is_history(name) for version in written for name in version["refs"])


def _looks(cell: CodeCell, env: Environment, naming: Naming, by_id: dict[str, CodeCell]) -> bool:
    """Tell whether a cell looks at history, itself or through functions of others."""

    def refs(name: str) -> Iterable[str]:
        version = env.names.get(name)
        if isinstance(version, Changing):
            # What that cell will leave is not known, only what it can be made of.
            maker = naming.names(by_id[version.cell_id])
            return maker.looked_up if maker is not None else ()
        return version["refs"] if version is not None else ()

    names = naming.names(cell)
    if names is None:
        return False
    return any(map(is_history, follow(names, refs).reads - names.set_itself))
