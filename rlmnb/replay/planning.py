"""The plan of a replay: what would run, what needs leave first, what is never run. Runs nothing."""

from __future__ import annotations

from dataclasses import dataclass

from rlmnb.graph.index import upstream
from rlmnb.graph.modelcalls import asks
from rlmnb.graph.traces import survey
from rlmnb.replay.cells import code_cells, files_now, stale_cells, starting_environment
from rlmnb.replay.history import LOOKED_AT, needed_by_history
from rlmnb.replay.language import require_python
from rlmnb.replay.naming import Naming
from rlmnb.replay.wishes import Wishes
from rlmnb.session import Session


@dataclass(frozen=True)
class Planned:
    """A cell that no longer holds, and what a replay would do about it."""

    cell_id: str
    causes: list[str]
    # Why it would not be run.
    hindered: str | None = None
    # The tools it calls that change things outside the notebook.
    effects: tuple[str, ...] = ()
    # Whether it may call a model: its code does, or it did when it last ran.
    asks: bool = False

    def as_dict(self) -> dict[str, object]:
        """Return the cell for a script."""
        found: dict[str, object] = {"cell_id": self.cell_id, "causes": self.causes}
        if self.effects:
            found["effects"] = list(self.effects)
        if self.asks:
            found["may_call_models"] = True
        if self.hindered:
            found["hindered"] = self.hindered
        return found


def plan(session: Session, wishes: Wishes) -> list[Planned]:
    """Return the cells that would run, or may once those above them have, and those that cannot."""
    require_python(session)
    cells = code_cells(session, wishes)
    start = starting_environment(session)
    stale = survey(cells, files_now(cells), start)
    due = wishes.force.union(stale)
    needed = needed_by_history(cells, due, start, Naming(), wishes)
    planned = []
    for cell in cells:
        causes = stale.get(cell.cell_id, [])
        if cell.cell_id in wishes.force and not cell.frozen:
            causes = ["was asked for", *causes]
        elif cell.cell_id in needed and not causes:
            causes = [LOOKED_AT]
        chosen = wishes.only is None or cell.cell_id in wishes.only or cell.cell_id in needed
        if causes and chosen:
            hindered = wishes.hinders(cell)
            may = asks(cell.source) or bool(cell.calls)
            planned.append(Planned(cell.cell_id, causes, hindered, cell.effects, asks=may))
    return planned


def plan_as_dict(planned: list[Planned]) -> dict[str, object]:
    """Return a plan for a script: what would run, and what would not."""
    return {
        "would_execute": [each.as_dict() for each in planned if not each.hindered],
        "would_skip": [each.as_dict() for each in planned if each.hindered],
    }


def asked_for(session: Session, selector: str) -> tuple[frozenset[str], list[str]]:
    """Return the cells that may run when these are wanted, and those that were named."""
    chosen = [str(cell.cell_id) for cell in session.select(selector, stale_cells(session))]
    return with_what_they_need(session, chosen), chosen


def with_what_they_need(session: Session, chosen: list[str]) -> frozenset[str]:
    """Return cells with all that they depend on: those that are stale have to run first."""
    found = set(chosen)
    for cell_id in chosen:
        found.update(upstream(session.index, cell_id))
    return frozenset(found)
