"""A kernel as it was after a cell: variables are restored, not computed, wherever they can be."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from rlmnb.errors import CellNotFoundError
from rlmnb.graph.environment import CodeCell, Environment, recorded_run, without_files
from rlmnb.kernel.calls import ABOUT
from rlmnb.models.budget import Tally
from rlmnb.replay.calling import Calling
from rlmnb.replay.cells import code_cells, stale_cells, starting_environment, working_directory
from rlmnb.replay.eventloop import run_to_its_end
from rlmnb.replay.files import Versions
from rlmnb.replay.language import require_python
from rlmnb.replay.managed import as_nodes, attached_kernel
from rlmnb.replay.naming import Naming
from rlmnb.replay.owning import ownership
from rlmnb.replay.report import Report
from rlmnb.replay.supply import Soiled, Supply, Unavailable
from rlmnb.replay.warm import Warm, find, restart, start
from rlmnb.replay.wishes import Wishes
from rlmnb.session import Session

# Code that can reach every variable, so that every variable is brought.
_EVERYTHING = "globals()"


@dataclass
class Arrival:
    """What a kernel has after it was brought to where it was after a cell."""

    cell_id: str
    names: list[str] = field(default_factory=list)
    # The cells that had to run again, because what they made cannot be stored.
    executed: list[str] = field(default_factory=list)
    # Those that failed in that, and had not when they last ran, each with its error.
    failed: dict[str, str] = field(default_factory=dict)
    # What could not be had, each with the reason.
    missing: dict[str, str] = field(default_factory=dict)
    # The cells up to there that no longer hold: what they left is of their last run.
    outdated: list[str] = field(default_factory=list)
    connection_file: str = ""


def restore_at(session: Session, cell: str | int, wishes: Wishes | None = None) -> Arrival:
    """Bring a session's kernel to the variables as they were after a cell, starting it if need be.

    They are those of each cell's last run, whether or not it still holds. Files stay as they are.
    """
    require_python(session)
    wishes = wishes or Wishes()
    with ownership(session, wishes.patience, wishes.tell):
        cells = code_cells(session)
        last = session.cell(cell)
        above = [each for each in cells if each.number <= last.number]
        if not above:
            raise CellNotFoundError(f"no code stands at or above cell {last.number}")
        stale = stale_cells(session, cells)
        kernel = find(session.place) or start(session.place, working_directory(session))
        try:
            arrival = run_to_its_end(_go(session, cells, above, kernel, wishes))
        except Soiled:
            kernel = restart(session.place, working_directory(session))
            arrival = run_to_its_end(_go(session, cells, above, kernel, wishes))
        arrival.outdated = [each.cell_id for each in above if each.cell_id in stale]
        return arrival


async def _go(
    session: Session, cells: list[CodeCell], above: list[CodeCell], kernel: Warm, wishes: Wishes
) -> Arrival:
    arrival = Arrival(above[-1].cell_id, connection_file=kernel.connection_file)
    report = Report()
    async with attached_kernel(
        as_nodes(session.whole()),
        connection_file=kernel.connection_file,
        pid=kernel.pid,
        is_alive=lambda: kernel.alive,
        timeout=wishes.timeout,
    ) as channel:
        found = await channel.ask("begin_replay", {"effects": False, "client": os.getpid()})
        if found["soiled"]:
            raise Soiled(found["soiled"])
        channel.about = _as_answered_then(session, cells, wishes)
        versions = Versions(cells, session.place.objects)
        supply = Supply(
            channel,
            cells,
            Naming(),
            versions,
            starting_environment(session),
            report,
            wishes,
            working_directory(session),
            found,
        )
        env = _environment_after(session, above, supply, arrival)
        await _bring(supply, _reader(above), env, arrival)
        versions.finish({})
        await supply.finish()
    arrival.names = sorted(name for name in env.names if name[:1] != "$")
    ran = sorted(report.executed, key=[cell.cell_id for cell in cells].index)
    arrival.executed = [each for each in ran if each not in supply.failures]
    arrival.failed = {each: supply.failures[each] for each in ran if each in supply.failures}
    return arrival


def _as_answered_then(
    session: Session, cells: list[CodeCell], wishes: Wishes
) -> Callable[[int], dict[str, Any]]:
    """Have cells that run again get the answers of models that they got, and ask for no others.

    Nobody would keep a new answer: it would be paid for, and gone.
    """
    calling = Calling(session, cells, wishes, Tally())
    numbered = {cell.number: cell for cell in cells}

    def about(index: int) -> dict[str, Any]:
        told = calling.about(numbered[index + 1])
        return {**told, ABOUT: {**told[ABOUT], "mode": "none", "expire": None}}

    return about


def _environment_after(
    session: Session, above: list[CodeCell], supply: Supply, arrival: Arrival
) -> Environment:
    env = starting_environment(session)
    for cell in above:
        if cell.run is not None:
            run = cell.run
        elif cell.recorded and cell.source.strip():
            run = recorded_run(cell)
        elif cell.source.strip() and "skip-execution" not in cell.tags:
            arrival.missing[cell.cell_id] = "has not been run by rlmnb"
            continue
        else:
            continue
        supply.runs[cell.cell_id] = run
        env.apply(cell.cell_id, without_files(run))
    return env


def _reader(above: list[CodeCell]) -> CodeCell:
    """Return a cell below the last that reads everything."""
    last = above[-1]
    return replace(last, cell_id="", source=_EVERYTHING, run=None, number=last.number + 1)


async def _bring(supply: Supply, reader: CodeCell, env: Environment, arrival: Arrival) -> None:
    """Have everything brought that can be; what cannot is named, and left out."""
    while True:
        try:
            await supply.materialise(reader, env)
            return
        except Unavailable as reason:
            version = reason.version
            for name in version["names"]:
                arrival.missing[name] = str(reason)
                env.names.pop(name, None)
                env.producers.pop(name, None)
