"""Replay: run the cells whose inputs changed, restore what they need, reuse the rest."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from rlmnb import digest
from rlmnb.digest import MISSING
from rlmnb.graph.ambient import CHANCE, INITIAL, is_seen_by_all
from rlmnb.graph.code import code_hash
from rlmnb.graph.disk import Files
from rlmnb.graph.environment import UNTRACKED, CodeCell, Environment, Run, recorded_run
from rlmnb.graph.traces import causes_of, display_causes, others_in, survey
from rlmnb.kernel.leave import MAY_CHANGE
from rlmnb.replay.blocking import Blocked
from rlmnb.replay.calling import Calling, count_reused
from rlmnb.replay.cells import (
    PYTHON,
    code_cells,
    files_now,
    starting_environment,
    working_directory,
)
from rlmnb.replay.eventloop import run_to_its_end
from rlmnb.replay.files import Versions, left_on_disk
from rlmnb.replay.history import LOOKED_AT, needed_by_history
from rlmnb.replay.language import require_python
from rlmnb.replay.naming import Naming, closure
from rlmnb.replay.owning import ownership, shown_to_others
from rlmnb.replay.recording import Recorder, as_portable
from rlmnb.replay.report import Report
from rlmnb.replay.speaking import Lines, traced
from rlmnb.replay.supply import AS_NEW, Soiled, Supply, Unavailable
from rlmnb.replay.wishes import Wishes, WishesGiven, refusal
from rlmnb.session import Session
from rlmnb.store.byhand import began

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from rlmnb.replay.managed import ManagedKernel
    from rlmnb.replay.warm import Warm


def replay(session: Session, **wishes: Unpack[WishesGiven]) -> Report:
    """Bring a session up to date. No kernel is started when nothing is stale."""
    require_python(session)
    began = time.perf_counter()
    asked = Wishes(**wishes)
    with (
        ownership(session, asked.patience, asked.tell),
        shown_to_others(session.place, asked.tell) as tell,
    ):
        report = _replay(session, replace(asked, tell=tell))
    report.seconds = time.perf_counter() - began
    return report


def _replay(session: Session, asked: Wishes) -> Report:
    cells = code_cells(session, asked)
    start = starting_environment(session)
    report = Report()
    files = files_now(cells)
    stale = survey(cells, files, start)
    wanted = {*stale, *asked.force}
    if not (wanted if asked.only is None else wanted & asked.only):
        report.reused = [cell.cell_id for cell in cells if cell.cell_id not in stale]
        for cell in cells:
            if cell.cell_id not in stale:
                count_reused(cell, report.calls)
        report.left = list(stale)
        return report
    from rlmnb.replay import warm

    kernel = warm.find(session.place)
    if kernel is not None and asked.memory not in (None, kernel.memory):
        kernel = warm.restart(session.place, working_directory(session), memory=asked.memory)
    if asked.keep_kernel:
        ensured = warm.ensure(session.place, working_directory(session), memory=asked.memory)
        if kernel is None or ensured.pid != kernel.pid:
            report.kernel = "started, stays warm"
        kernel = ensured
    try:
        _go(session, cells, report, asked, (start, files, frozenset(stale)), kernel)
    except Soiled as why:
        # What has run by now is kept; a new kernel does the rest.
        asked.tell("", 0, f"a new kernel is started: {why}")
        warm.restart(session.place, working_directory(session))
        session.refresh()
        rest = _replay(session, replace(asked, force=asked.force.difference(report.executed)))
        report.take_in(rest, [cell.cell_id for cell in cells])
    return report


def _go(
    session: Session,
    cells: list[CodeCell],
    report: Report,
    asked: Wishes,
    world: tuple[Environment, Files, frozenset[str]],
    kernel: Warm | None,
) -> None:
    with Recorder(session) as recorder:
        run_to_its_end(_Replay(session, cells, report, recorder, asked).go(*world, kernel))


# What a trace tells of model calls, also where all else could not be followed.
_OF_CALLS = frozenset(
    {"calls", "conversation", "default_model", "left_over", "looked", "verification"}
)
ASKED_FOR = "was asked for"
# The functions that look at other cells of the notebook.
LOOKING = frozenset({"cell", "verify"})


class _Stop(Exception):  # noqa: N818 - ends a replay early, as it was asked to
    pass


class _Replay:
    def __init__(
        self,
        session: Session,
        cells: list[CodeCell],
        report: Report,
        recorder: Recorder,
        wishes: Wishes,
    ) -> None:
        self._session = session
        self._cells = cells
        self._report = report
        self._recorder = recorder
        self._naming = Naming()
        self._wishes = wishes
        self._versions = Versions(cells, session.place.objects)
        self._blocked = Blocked()
        self._depended_on = frozenset(other for cell in cells for other in cell.depends)
        self._others = others_in(cells)
        self._lines = Lines(cells)
        self._needed_by_history: frozenset[str] = frozenset()
        # What was found to be stale, what is to run, and whether all is still as it was then.
        self._stale: frozenset[str] = frozenset()
        self._due: frozenset[str] = wishes.force
        self._as_found = True
        self._order = {cell.cell_id: at for at, cell in enumerate(cells)}
        self._by_number = {cell.number: cell for cell in cells}
        self._looking = any(f"{name}(" in cell.source for cell in cells for name in LOOKING)
        self._calling = Calling(session, cells, wishes, report.calls)
        # Files that were not closed when a cell ended.
        self._left_open: set[str] = set()

    async def go(
        self, start: Environment, files: Files, stale: frozenset[str], warm: Warm | None
    ) -> None:
        """Start a kernel, or take the one that is warm, and go down the notebook."""
        self._files = files
        self._env = start.copy()
        cwd = working_directory(self._session)
        # A kernel takes half a second to start, in which the cells' code is looked at.
        self._stale, self._due = stale, stale | self._wishes.force
        preparing = asyncio.create_task(asyncio.to_thread(self._prepare, self._due, start))
        async with self._opened_kernel(warm, cwd) as self._kernel:
            await preparing
            self._due |= self._needed_by_history
            self._kernel.about = self._about
            self._kernel.heard = self._heard
            found = await self._begin() if warm is not None else AS_NEW
            if self._report.kernel == "not started":
                self._report.kernel = "started" if warm is None else "warm"
            self._supply = Supply(
                self._kernel,
                self._cells,
                self._naming,
                self._versions,
                start,
                self._report,
                self._wishes,
                cwd,
                found,
            )
            try:
                for cell in self._cells:
                    await self._step(cell)
                self._count_spared()
            except _Stop:
                pass
            finally:
                self._versions.finish(self._last_written())
                if widgets := self._kernel.widgets():
                    self._recorder.widgets(widgets)
                # While the kernel ends, the notebook is written.
                self._recorder.fold()
                self._note_failures()
                self._report.executed.sort(key=self._order.__getitem__)
                self._report.restored.sort(key=self._order.__getitem__)
            if warm is not None:
                await self._supply.finish()
        if warm is None:
            self._look_at_what_was_open()

    def _note_failures(self) -> None:
        """Name the cells that failed when they were to make again what others need."""
        for cell_id, error in self._supply.failures.items():
            if cell_id not in self._report.failed:
                self._report.failed.append(cell_id)
                self._report.errors[cell_id] = error
        self._report.failed.sort(key=self._order.__getitem__)

    def _look_at_what_was_open(self) -> None:
        """Keep what files hold that were closed only when the kernel ended."""
        for path in sorted(self._left_open):
            for cell in reversed(self._cells):
                run = self._supply.runs.get(cell.cell_id, {})
                if path in run.get("files_written", ()):
                    if (now := digest.of_file(path))["hash"] != run["files_written"][path]["hash"]:
                        self._recorder.settled(cell, {path: now})
                    break

    def _opened_kernel(
        self, warm: Warm | None, cwd: str
    ) -> AbstractAsyncContextManager[ManagedKernel]:
        from rlmnb.replay.managed import as_nodes, attached_kernel, managed_kernel

        nodes, timeout = as_nodes(self._session.whole()), self._wishes.timeout
        if warm is not None:
            return attached_kernel(
                nodes,
                connection_file=warm.connection_file,
                pid=warm.pid,
                is_alive=lambda: warm.alive,
                timeout=timeout,
            )
        return managed_kernel(
            nodes,
            cwd=cwd,
            place=self._session.place,
            timeout=timeout,
            memory=self._wishes.memory,
            effects=self._wishes.allow_effects,
        )

    async def _begin(self) -> dict[str, Any]:
        """Learn what a warm kernel holds; refuse one that cannot be brought to the start."""
        runs = [(cell, cell.run) for cell in self._cells if cell.run is not None]
        request = {
            "effects": self._wishes.allow_effects,
            "client": os.getpid(),
            "numbers": {
                run["file"]: self._kernel.numbers[cell.number - 1]
                for cell, run in runs
                if "file" in run
            },
        }
        found: dict[str, Any] = await self._kernel.ask("begin_replay", request)
        if found["soiled"]:
            raise Soiled(found["soiled"])
        if found["used"] and self._needed_by_history:
            raise Soiled("a cell looks at earlier outputs")
        return found

    def _prepare(self, due: frozenset[str], start: Environment) -> None:
        """Look at the code of the cells that will run."""
        self._naming.prepare(cell for cell in self._cells if cell.cell_id in due)
        self._needed_by_history = needed_by_history(
            self._cells, due, start, self._naming, self._wishes
        )

    def _may_run(self, cell: CodeCell) -> bool:
        return self._wishes.only is None or cell.cell_id in self._wishes.only

    async def _step(self, cell: CodeCell) -> None:
        self._env.reach(cell)
        causes = self._causes(cell)
        if cell.cell_id in self._wishes.force and not cell.frozen:
            causes = [ASKED_FOR, *causes]
        elif cell.cell_id in self._needed_by_history and not causes:
            causes = [LOOKED_AT]
        may_run = self._may_run(cell) or cell.cell_id in self._needed_by_history
        if not causes and cell.run is not None and cell.run["history"] and self._report.executed:
            causes = ["shows earlier outputs, and some ran again"]
            if not may_run:
                # Only this replay has seen them run.
                self._recorder.mark(cell, causes[0])
        if causes and not may_run:
            self._report.left.append(cell.cell_id)
            self._report.causes[cell.cell_id] = causes
            self._blocked.add(cell, cell.cell_id)
            return
        by = self._blocked_by(cell)
        if by and not may_run:
            self._report.left.append(cell.cell_id)
            self._report.causes[cell.cell_id] = [f"{by} did not run to its end"]
            self._blocked.add(cell, by)
        elif by:
            self._skip(cell, [f"{by} did not run to its end"], by)
        elif not causes:
            self._reuse(cell)
        elif why := self._wishes.hinders(cell):
            self._skip(cell, [*causes, why], cell.cell_id)
        else:
            self._report.causes[cell.cell_id] = causes
            await self._execute(cell, causes)

    def _causes(self, cell: CodeCell) -> list[str]:
        """Say why a cell no longer holds; those above the first that runs need no second look."""
        if self._as_found and cell.cell_id not in self._due:
            return []
        self._as_found = False
        causes = causes_of(cell, self._env, self._files)
        return causes or display_causes(cell, self._env, self._others)

    def _skip(self, cell: CodeCell, causes: list[str], by: str) -> None:
        """Leave a cell as it is, and all that depends on it."""
        self._report.skipped.append(cell.cell_id)
        self._report.causes[cell.cell_id] = causes
        self._blocked.add(cell, by)
        as_it_was = by in self._report.skipped and by not in self._stale
        if cell.run is None and cell.recorded and cell.depends and not as_it_was:
            # Only this replay has seen what its dependencies showed when it was recorded.
            self._recorder.mark(cell, next(each for each in causes if each != ASKED_FOR))

    def _reuse(self, cell: CodeCell) -> None:
        self._report.reused.append(cell.cell_id)
        count_reused(cell, self._report.calls)
        if self._blocked:
            self._blocked.clear(cell)  # what it sets anew no longer hangs on who set it before
        if cell.run is not None:
            self._kernel.shows(cell.number - 1, cell.run.get("shows", {}))
            self._keep(cell, cell.run)
        elif cell.source.strip() and "skip-execution" not in cell.tags:
            self._keep(cell, recorded_run(cell))
        else:
            self._env.outputs[cell.cell_id] = cell.output_hash

    def _keep(self, cell: CodeCell, run: Run) -> None:
        self._supply.runs[cell.cell_id] = run
        self._env.keep(cell, run)

    def _blocked_by(self, cell: CodeCell) -> str | None:
        if not self._blocked:
            return None
        return self._blocked.by(cell, lambda: closure(self._naming.names(cell), self._env))

    async def _execute(self, cell: CodeCell, causes: list[str]) -> None:
        try:
            await self._supply.materialise(cell, self._env)
        except Unavailable as reason:
            self._skip(cell, [*causes, str(reason)], cell.cell_id)
            return
        self._wishes.tell(cell.cell_id, cell.number, "running")
        self._supply.put_files(cell, self._env, self._files.made_by)
        self._calling.due = cell.cell_id
        await self._settle(cell)
        done, trace, error = await self._kernel.run(cell.number - 1)
        # Nothing that a cell did outside the notebook is done twice.
        acted = bool(cell.effects or (trace or {}).get("effects"))
        again = trace is not None and "problem" not in trace and not acted
        if trace is not None and again and self._read_too_new(trace):
            # A file was not yet at the version due, under a name that nobody could tell before.
            self._supply.hold(trace)
            self._versions.know(trace)
            self._supply.put_files(replace(cell, run=trace), self._env)
            await self._supply.materialise(cell, self._env)
            done, trace, error = await self._kernel.run(cell.number - 1)
        self._calling.due = ""
        allowed = "raises-exception" in cell.tags
        if trace is not None and "problem" not in trace:
            self._supply.hold(trace)
        if trace is not None and (refused := trace.get("refused")):
            # It would have changed things, through a function that another cell has made.
            self._versions.touch(trace)
            self._skip(cell, [*causes, refusal(refused)], cell.cell_id)
            return
        run = self._completed(cell, trace)
        if any(output["output_type"] == "error" for output in done["outputs"]):
            run["place"] = len(self._env.order)
            run["traced"] = traced(done["outputs"], self._env)
        if lines := self._lines.named_in(done["outputs"]):
            run["lines"] = lines
        self._note_files(run, acted=acted)
        self._report.executed.append(cell.cell_id)
        self._recorder.ran(cell, done, run, error)
        self._wishes.tell(cell.cell_id, cell.number, "fresh" if error is None else "failed")
        self._env.show(cell.cell_id, run)
        self._keep_displays(cell)
        if error is not None and not allowed:
            self._report.failed.append(cell.cell_id)
            self._report.errors[cell.cell_id] = error
            self._blocked.add(replace(cell, run=run), cell.cell_id)
            if self._wishes.fail_fast:
                raise _Stop
            return
        if self._blocked:
            self._blocked.clear(replace(cell, run=run))
        self._supply.runs[cell.cell_id] = run
        self._env.apply(cell.cell_id, run)
        if cell.cell_id in self._depended_on:
            self._env.outputs[cell.cell_id] = digest.output_hash(as_portable(done["outputs"]))
        else:
            self._env.outputs[cell.cell_id] = None

    def _note_files(self, run: Run, *, acted: bool) -> None:
        """Take down what a cell has done to files, itself or through another program."""
        if not acted:
            self._versions.know(run)
            self._versions.touch(run)
        if "subprocess" in run["flags"]:
            self._files.look_again()

    async def _settle(self, cell: CodeCell) -> None:
        """Let the notebook have all that ran so far, for a cell that looks at others in it."""
        if not self._report.executed or not self._looking:
            return
        reads = closure(self._naming.names(cell), self._env).reads
        if not LOOKING.isdisjoint(reads):
            await asyncio.to_thread(self._recorder.settle)

    def _about(self, index: int) -> dict[str, Any]:
        """Return what the kernel is told with a cell."""
        cell = self._by_number[index + 1]
        return {**self._calling.about(cell), MAY_CHANGE: self._wishes.lets_change(cell)}

    def _heard(self, index: int, trace: Run) -> None:
        """Count the calls of whatever ran; keep them, too, of a cell that was only made again."""
        cell = self._by_number[index + 1]
        self._left_open.update(trace.pop("open", ()))
        self._calling.heard(cell, trace)
        if not trace.get("calls") and not trace.get("left_over"):
            return
        self._recorder.spent(self._calling.spent())
        if trace.get("calls") and self._calling.due != cell.cell_id:
            self._recorder.called(cell, trace["calls"])

    def _count_spared(self) -> None:
        """Keep what the calls would have cost of cells that had not to be run."""
        reused = frozenset(self._report.reused)
        spared = [cell for cell in self._cells if cell.cell_id in reused and cell.calls]
        if spared:
            self._calling.spared(spared)
            self._recorder.spent(self._calling.spent())

    def _completed(self, cell: CodeCell, trace: Run | None) -> Run:
        """Return the trace of a cell as it is kept: as a full run would have left it."""
        if trace is None or "problem" in trace:
            told = {key: each for key, each in (trace or {}).items() if key in _OF_CALLS}
            trace = {**UNTRACKED, "problem": (trace or {}).get("problem"), **told}
        for each in ("found", "or_read"):
            trace.pop(each, None)  # only of use where cells run out of their order
        for each in trace.pop("loosened", ()):
            # What cells below have left in a kernel that stays is not there yet in a full run.
            if any(name in self._env.names for name in each["version"]["names"]):
                trace["writes"].append(each["version"])
                trace["reads"] |= each["reads"]
        trace["reads"] = {
            name: self._supply.known_as(name, read, self._env)
            for name, read in trace["reads"].items()
        }
        # What a cell that failed has not come to set, it has not looked at either: it was not due.
        trace["reads"] |= {name: self._env.own(name) for name in trace.pop("left", ())}
        # A generator that no cell above has seeded is where a new kernel would have it: anywhere.
        unseeded = [
            each for each in CHANCE if each in trace["reads"] and each not in self._env.names
        ]
        trace["reads"] |= dict.fromkeys(unseeded, INITIAL)
        # What every cell reads is what a full run would have here, whatever this kernel has.
        trace["reads"] = {
            name: read for name, read in trace["reads"].items() if not is_seen_by_all(name)
        } | self._env.ambient_reads(trace)
        run: Run = {
            **trace,
            "text": cell.source_hash,
            "code": code_hash(cell.source),
            "python": PYTHON,
        }
        if run["opaque"]:
            run["around"] = self._env.around()
        if run["history"]:
            run["above"] = self._env.above(run)
        if cell.depends:
            run["depends"] = {other: self._env.outputs.get(other) for other in cell.depends}
        for other, seen in run.get("looked", {}).items():
            run.setdefault("depends", {})[other] = seen["output"]
        # A run that was cut short may have left files that nobody could tell from a person's.
        return began(run, [cell.run])

    def _read_too_new(self, trace: Run) -> bool:
        """Put back the files that a cell has read in another version than it was due.

        What only a cell further down makes is not there yet, whoever asks for it.
        """
        due = {path: now for path, now in self._env.files.items() if isinstance(now, str)}
        read = trace.get("files_read", {})
        wrong = [
            path
            for path, version in read.items()
            if version["hash"] != due.get(path, version["hash"])
        ]
        own, asked, listed = left_on_disk(trace), trace.get("asked", {}), trace["listed"]
        for path in self._versions.built_on(trace) & self._files.made_by.keys() - due.keys():
            if read[path]["hash"] != MISSING:
                due[path] = MISSING
                wrong.append(path)
        for path in (self._files.made_by.keys() | due.keys()) - own.keys():
            if path in read or path in asked or path in listed or os.path.dirname(path) in listed:
                due.setdefault(path, MISSING)
                if path not in read or due[path] == MISSING:
                    wrong.append(path)
        return self._versions.put(due, wrong)

    def _last_written(self) -> dict[str, str]:
        """Return what the whole notebook leaves of each file, cells that did not run included."""
        found: dict[str, str] = {}
        for cell in self._cells:
            run = self._supply.runs.get(cell.cell_id) or cell.run or {}
            if run:
                found |= left_on_disk(run)
        return found

    def _keep_displays(self, cell: CodeCell) -> None:
        """Keep what cells above show now that a display of theirs was changed."""
        for index in sorted(self._kernel.changed):
            other = next(each for each in self._cells if each.number - 1 == index)
            run = self._supply.runs.get(other.cell_id)
            if run is not None:
                run = {**run, "updated_by": sorted({*run.get("updated_by", ()), cell.cell_id})}
                self._supply.runs[other.cell_id] = run
                self._recorder.shows_anew(other, self._kernel.cell(index), run)
