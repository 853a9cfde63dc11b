"""The plan of a replay: what would run, what needs leave first, what is never run. Runs nothing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from rlmnb.graph.environment import CodeCell, Environment
from rlmnb.graph.index import upstream
from rlmnb.graph.modelcalls import asks
from rlmnb.graph.traces import survey
from rlmnb.replay.blocking import Blocked
from rlmnb.replay.cells import code_cells, files_now, stale_cells, starting_environment
from rlmnb.replay.history import LOOKED_AT, needed_by_history
from rlmnb.replay.language import require_python
from rlmnb.replay.naming import Naming, closure
from rlmnb.replay.wishes import Wishes
from rlmnb.session import Session


@dataclass(frozen=True)
class Planned:
    """A cell that no longer holds, and what a replay would do about it."""

    cell_id: str
    causes: list[str]
    # Why it would not be run.
    hindered: str | None = None
    # The cell that would not be run, and what it makes is needed here.
    builds_on: str | None = None
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
        if self.builds_on:
            found["builds_on"] = self.builds_on
        return found

    @property
    def would_run(self) -> bool:
        """Whether a replay would run it, as far as can be told before."""
        return not self.hindered and not self.builds_on


def plan(session: Session, wishes: Wishes) -> list[Planned]:
    """Return the cells that would run, or may once those above them have, and those that cannot."""
    require_python(session)
    cells = code_cells(session, wishes)
    start = starting_environment(session)
    stale = survey(cells, files_now(cells), start)
    due = wishes.force.union(stale)
    naming = Naming()
    needed = needed_by_history(cells, due, start, naming, wishes)
    blocked = _blocked(cells, due | needed, start, naming, wishes)
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
            builds_on = None if hindered else blocked.get(cell.cell_id)
            planned.append(
                Planned(cell.cell_id, causes, hindered, builds_on, cell.effects, asks=may)
            )
    return planned


def _blocked(
    cells: list[CodeCell],
    due: frozenset[str],
    start: Environment,
    naming: Naming,
    wishes: Wishes,
) -> dict[str, str]:
    """Return the cells that build on one that would not be run, each with that one."""
    if not any(cell.cell_id in due and wishes.hinders(cell) for cell in cells):
        return {}
    env, blocked = start.copy(), Blocked()
    found: dict[str, str] = {}
    for cell in cells:
        env.reach(cell)
        reach = partial(closure, naming.names(cell), env)
        by = blocked.by(cell, reach) if blocked else None
        if by is not None:
            found[cell.cell_id] = by
        elif cell.cell_id in due and wishes.hinders(cell):
            by = cell.cell_id
        if by is not None:
            blocked.add(cell, by)
            continue
        blocked.clear(cell)
        if cell.run is not None:
            env.apply(cell.cell_id, cell.run)  # what it left when it last ran is the best guess
    return found


def plan_as_dict(planned: list[Planned]) -> dict[str, object]:
    """Return a plan for a script: what would run, and what would not."""
    return {
        "would_execute": [each.as_dict() for each in planned if each.would_run],
        "would_skip": [each.as_dict() for each in planned if not each.would_run],
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
