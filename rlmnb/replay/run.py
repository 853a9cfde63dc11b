"""Replay: run the cells whose inputs changed, restore what they need, reuse the rest."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from rlmnb.digest import MISSING
from rlmnb.graph.code import code_hash
from rlmnb.graph.traces import (
    Changing,
    CodeCell,
    Environment,
    Files,
    Run,
    Version,
    causes_of,
    display_causes,
    is_ambient,
    may_write,
    recorded_run,
    survey,
    unedited,
)
from rlmnb.kernel.codenames import CodeNames
from rlmnb.kernel.hidden import CHANCE
from rlmnb.kernel.reach import code_names, follow
from rlmnb.kernel.tracker import is_history
from rlmnb.replay.cells import PYTHON, code_cells, files_now, starting_environment
from rlmnb.replay.files import Versions, named_by
from rlmnb.replay.recording import Recorder
from rlmnb.session import Session
from rlmnb.store import notebook


@dataclass
class Report:
    """What a replay did, each list in notebook order."""

    executed: list[str] = field(default_factory=list)
    reused: list[str] = field(default_factory=list)
    restored: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    causes: dict[str, list[str]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    kernel: str = "not started"


class Teller(Protocol):
    """Whoever wants to know how far a replay is."""

    def __call__(self, cell_id: str, number: int, state: str, /) -> None:
        """Hear that a cell has come to a state."""


@dataclass(frozen=True)
class Wishes:
    """How a replay is to go."""

    force: frozenset[str] = frozenset()
    fail_fast: bool = False
    timeout: float | None = None
    memory: int | None = None
    tell: Teller = lambda *_: None


def replay(
    session: Session,
    *,
    force: frozenset[str] = frozenset(),
    fail_fast: bool = False,
    timeout: float | None = None,
    memory: int | None = None,
    tell: Teller | None = None,
) -> Report:
    """Bring a session up to date. No kernel is started when nothing is stale."""
    began = time.perf_counter()
    cells = code_cells(session)
    start = starting_environment(session)
    report = Report()
    files = files_now(cells)
    stale = survey(cells, files, start)
    if not force and not stale:
        report.reused = [cell.cell_id for cell in cells]
    else:
        with Recorder(session) as recorder:
            wishes = Wishes(force, fail_fast, timeout, memory, tell or (lambda *_: None))
            runner = _Replay(session, cells, report, recorder, wishes)
            asyncio.run(runner.go(start, files, frozenset(stale)))
    report.seconds = time.perf_counter() - began
    return report


_UNTRACKED: Run = {
    "reads": {},
    "writes": [],
    "deleted": [],
    "opaque": True,
    "history": False,
    "failed": False,
    "untracked": True,
    "files_read": {},
    "files_written": {},
    "listed": {},
    "asked": {},
    "flags": [],
}


# Each round makes at least one more value; what needs more than this never comes to rest.
_MOST_ROUNDS = 100


class _Stop(Exception):  # noqa: N818 - ends a replay early, as it was asked to
    pass


class _Unavailable(Exception):  # noqa: N818 - a reason not to run a cell
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
        from IPython.core.inputtransformer2 import TransformerManager

        self._session = session
        self._cells = cells
        self._report = report
        self._recorder = recorder
        self._transform: Callable[[str], str] = TransformerManager().transform_cell  # type: ignore[no-untyped-call]
        self._wishes = wishes
        self._versions = Versions(cells, session.place.objects)
        self._runs: dict[str, Run] = {}
        self._held: dict[str, str] = {}
        self._blocked: dict[str, str] = {}
        # What the kernel calls a value that was made again, and what the records call it.
        self._alias: dict[str, str] = {}
        self._code: dict[str, CodeNames | None] = {}
        self._unedited = unedited(cells)
        self._needed_by_history: frozenset[str] = frozenset()
        self._order = {cell.cell_id: at for at, cell in enumerate(cells)}

    async def go(self, start: Environment, files: Files, stale: frozenset[str]) -> None:
        """Start the kernel and go down the notebook."""
        self._start = start
        self._files = files
        self._env = start.copy()
        from rlmnb.replay.managed import as_nodes, managed_kernel

        place = self._session.place
        whole = notebook.read_whole(place.notebook)
        cwd = os.path.dirname(place.notebook)
        if not place.plain:
            known = self._session.stored_state().get("session", {}).get("cwd")
            cwd = known if isinstance(known, str) and os.path.isdir(known) else os.getcwd()
        nodes = as_nodes(whole)
        self._needed_by_history = self._above_history(stale)
        self._cwd = cwd
        async with managed_kernel(
            nodes,
            cwd=cwd,
            objects=place.objects,
            timeout=self._wishes.timeout,
            memory=self._wishes.memory,
        ) as self._kernel:
            self._report.kernel = "started"
            try:
                for cell in self._cells:
                    await self._step(cell)
            except _Stop:
                pass
            finally:
                self._versions.finish(self._last_written())
                if widgets := self._kernel.widgets():
                    self._recorder.widgets(widgets)
                # While the kernel ends, the notebook is written.
                self._recorder.fold()
                self._report.executed.sort(key=self._order.__getitem__)
                self._report.restored.sort(key=self._order.__getitem__)

    def _above_history(self, stale: frozenset[str]) -> frozenset[str]:
        """Return the cells above one that will run and looks at `_` or `Out`: all run, in order."""
        last = 0
        for at, cell in enumerate(self._cells):
            names = self._names(cell) if cell.cell_id in stale else None
            if names is not None and any(map(is_history, names.early)):
                last = at
        return frozenset(
            cell.cell_id for cell in self._cells[:last] if cell.source.strip() and not cell.frozen
        )

    async def _step(self, cell: CodeCell) -> None:
        causes = causes_of(cell, self._env, self._files)
        causes = causes or display_causes(cell, self._env, self._unedited)
        if cell.cell_id in self._wishes.force and not cell.frozen:
            causes = ["was asked for", *causes]
        elif cell.cell_id in self._needed_by_history and not causes:
            causes = ["a cell below looks at earlier outputs"]
        if not causes and cell.run is not None and cell.run["history"] and self._report.executed:
            causes = ["shows earlier outputs, and some ran again"]
        blocked = self._blocked_by(cell)
        if blocked is not None:
            self._report.skipped.append(cell.cell_id)
            self._report.causes[cell.cell_id] = [f"{blocked} did not run to its end"]
            self._block(cell, blocked)
            return
        if not causes:
            self._reuse(cell)
            return
        self._report.causes[cell.cell_id] = causes
        if cell.frozen:
            self._report.skipped.append(cell.cell_id)
            causes.append("it is a tool or model cell, which is not run")
            self._block(cell, cell.cell_id)
            return
        await self._execute(cell, causes)

    def _reuse(self, cell: CodeCell) -> None:
        self._report.reused.append(cell.cell_id)
        if cell.run is not None:
            self._kernel.shows(cell.number - 1, cell.run.get("shows", {}))
            self._take_in(cell, cell.run)
        elif cell.source.strip() and "skip-execution" not in cell.tags:
            self._take_in(cell, recorded_run(cell))

    def _take_in(self, cell: CodeCell, run: Run) -> None:
        self._runs[cell.cell_id] = run
        self._env.apply(cell.cell_id, run)

    def _names(self, cell: CodeCell) -> CodeNames | None:
        if cell.cell_id not in self._code:
            self._code[cell.cell_id] = code_names(cell.source, self._transform)
        return self._code[cell.cell_id]

    def _blocked_by(self, cell: CodeCell) -> str | None:
        if not self._blocked:
            return None
        names = self._names(cell)
        reads, opaque = self._closure(names, self._env) if names else (frozenset(), False)
        for name, by in self._blocked.items():
            if opaque or name in reads:
                return by
        return None

    def _block(self, cell: CodeCell, by: str) -> None:
        for name in may_write(cell):
            self._blocked[name] = by

    @staticmethod
    def _closure(names: CodeNames, env: Environment) -> tuple[frozenset[str], bool]:
        def refs(name: str) -> Iterable[str]:
            version = env.names.get(name)
            return version["refs"] if isinstance(version, dict) else ()

        return follow(names, refs)

    async def _execute(self, cell: CodeCell, causes: list[str]) -> None:
        try:
            await self._materialise(cell, self._env)
        except _Unavailable as reason:
            self._report.skipped.append(cell.cell_id)
            self._report.causes[cell.cell_id] = [*causes, str(reason)]
            self._block(cell, cell.cell_id)
            return
        self._wishes.tell(cell.cell_id, cell.number, "running")
        self._put_files(cell, self._env)
        done, trace, error = await self._kernel.run(cell.number - 1)
        if trace is not None and self._read_too_new(trace):
            # A file was not yet at the version due, under a name that nobody could tell before.
            self._hold(trace)
            await self._materialise(cell, self._env)
            done, trace, error = await self._kernel.run(cell.number - 1)
        allowed = "raises-exception" in cell.tags
        if trace is None or "problem" in trace:
            trace = {**_UNTRACKED, "problem": (trace or {}).get("problem")}
        trace["reads"] = {
            name: self._alias.get(read, read) for name, read in trace["reads"].items()
        }
        # What every cell reads is what a full run would have here, whatever this kernel has.
        trace["reads"] = {
            name: read for name, read in trace["reads"].items() if not is_ambient(name)
        } | {name: self._env.own(name) for name in self._env.ambient}
        run = {
            **trace,
            "text": cell.source_hash,
            "code": code_hash(cell.source),
            "python": PYTHON,
        }
        self._hold(run)
        self._versions.know(run["files_written"])
        self._versions.touch(run["files_written"])
        self._report.executed.append(cell.cell_id)
        self._recorder.ran(cell, done, run, error)
        self._env.show(cell.cell_id, run)
        self._keep_displays(cell)
        if error is not None and not allowed:
            self._report.failed.append(cell.cell_id)
            self._report.errors[cell.cell_id] = error
            self._block(CodeCell(cell.cell_id, cell.source, "", run, False), cell.cell_id)
            if self._wishes.fail_fast:
                raise _Stop
            return
        for name in may_write(CodeCell(cell.cell_id, cell.source, "", run, False)):
            self._blocked.pop(name, None)
        self._take_in(cell, run)

    def _put_files(self, cell: CodeCell, env: Environment) -> None:
        """Bring the files a cell may touch to what the cells above it leave."""
        names = self._names(cell)
        strings = names.strings if names is not None else ()
        # What the cell itself made was not there when it began.
        before = (cell.run or {}).get("before", {})
        due = {path: was for path, was in before.items() if was == MISSING} | env.files
        self._versions.put(due, named_by(cell, strings, self._cwd))

    def _read_too_new(self, trace: Run) -> bool:
        """Put back the files that a cell has read in another version than it was due."""
        due = self._env.files
        return self._versions.put(
            due,
            [
                path
                for path, version in trace.get("files_read", {}).items()
                if version["hash"] != due.get(path, version["hash"])
            ],
        )

    def _last_written(self) -> dict[str, str]:
        """Return what the whole notebook leaves of each file, cells that did not run included."""
        found = {}
        for cell in self._cells:
            run = self._runs.get(cell.cell_id) or cell.run or {}
            for path, version in run.get("files_written", {}).items():
                found[path] = version["hash"]
        return found

    def _keep_displays(self, cell: CodeCell) -> None:
        """Keep what cells above show now that a display of theirs was changed."""
        for index in sorted(self._kernel.changed):
            other = next(each for each in self._cells if each.number - 1 == index)
            run = self._runs.get(other.cell_id)
            if run is not None:
                run = {**run, "updated_by": sorted({*run.get("updated_by", ()), cell.cell_id})}
                self._runs[other.cell_id] = run
                self._recorder.shows_anew(other, self._kernel.cell(index), run)

    def _hold(self, run: Run) -> None:
        for name in run["deleted"]:
            self._held.pop(name, None)
        for version in run["writes"]:
            for name in version["names"]:
                self._held[name] = version["digest"]

    async def _materialise(self, cell: CodeCell, env: Environment) -> None:
        """Have the kernel hold what a cell may touch, in the versions that are due."""
        for _ in range(_MOST_ROUNDS):
            names = self._names(cell)
            reads, opaque = self._closure(names, env) if names else (frozenset(), False)
            due = set(env.names) if opaque else {name for name in reads if name in env.names}
            due |= env.ambient | {name for name in CHANCE if name in env.names}
            due |= {name for name in self._group_mates(cell) if name in env.names}
            missing = [
                version
                for version in _unique(env.names[name] for name in sorted(due))
                if any(self._held.get(name) != version["digest"] for name in version["names"])
            ]
            missing += self._holders(missing, [env.names[name] for name in sorted(due)])
            unstored = [version for version in missing if not self._storable(version)]
            if unstored:
                first = min(
                    unstored, key=lambda version: self._order[env.producers[version["names"][0]]]
                )
                await self._make_again(first, env)
                continue
            held = set(self._held)
            absent = [
                name
                for name in held
                if name not in env.names and (opaque or name in reads) and name[0] != "$"
            ]
            if not missing and not absent:
                return
            failed = await self._kernel.restore(missing, absent, self._sources(missing, env))
            for name in absent:
                self._held.pop(name, None)
            for version in missing:
                if version["digest"] in failed:
                    version["problem"] = "could not be restored"
                    continue
                for name in version["names"]:
                    self._held[name] = version["digest"]
                self._note_restored(env.producers.get(version["names"][0]))
        await self._run_from_the_top(cell, env)

    async def _run_from_the_top(self, cell: CodeCell, env: Environment) -> None:
        """Run every cell above in order: what they made holds together in no other way."""
        for other in self._cells[: self._order[cell.cell_id]]:
            if other.source.strip() and not other.frozen and other.cell_id in self._runs:
                self._put_files(other, env)
                self._wishes.tell(other.cell_id, other.number, "running")
                await self._kernel.run(other.number - 1)
                if other.cell_id not in self._report.executed:
                    self._report.executed.append(other.cell_id)
                if other.cell_id in self._report.reused:
                    self._report.reused.remove(other.cell_id)
        self._held = {
            name: version["digest"]
            for name, version in env.names.items()
            if isinstance(version, dict)
        }

    def _group_mates(self, cell: CodeCell) -> set[str]:
        """Return the names whose old values went into what a cell left when it last ran."""
        run = self._runs.get(cell.cell_id) or {}
        return {name[1:] for name in run.get("reads", ()) if name.startswith("~")}

    def _sources(self, versions: list[Version], env: Environment) -> dict[str, str]:
        """Return the code of the cells that made these, by the name it was compiled under."""
        found = {}
        for version in versions:
            producer = env.producers.get(version["names"][0], "")
            file = self._runs.get(producer, {}).get("file")
            if file:
                found[str(file)] = self._cells[self._order[producer]].source
        return found

    @staticmethod
    def _holders(missing: list[Version], due: Iterable[Version | Changing]) -> list[Version]:
        """Return what holds a function or class that is about to be replaced by a restored one."""
        found: list[Version] = []
        names = {name for version in missing for name in version["names"]}
        waiting = [version for version in _unique(due) if version not in missing]
        while holders := [each for each in waiting if not names.isdisjoint(each.get("holds", ()))]:
            found += holders
            names |= {name for version in holders for name in version["names"]}
            waiting = [each for each in waiting if each not in holders]
        return found

    def _note_restored(self, producer: str | None) -> None:
        if producer is not None and producer not in self._report.restored:
            self._report.restored.append(producer)

    @staticmethod
    def _storable(version: Version) -> bool:
        name = version["names"][0]
        if name.startswith("$") and version["digest"] == "initial":
            return True
        if name.startswith("$module:") or "value" in version:
            return version["problem"] is None
        return version["problem"] is None and version["object"] is not None

    async def _make_again(self, version: Version, env: Environment) -> None:
        """Run the cell that made a version which cannot be restored."""
        producer = env.producers[version["names"][0]]
        cell = next(each for each in self._cells if each.cell_id == producer)
        if cell.frozen:
            raise _Unavailable(f"{producer} is a tool or model cell, which is not run")
        if "rlmnb:pinned" in cell.tags:
            raise _Unavailable(f"{producer} is pinned, and what it made cannot be restored")
        await self._again(cell)
        for name in version["names"]:
            # A new generator is not the old one, but it is what a full run would have.
            self._held[name] = version["digest"]

    async def _again(self, cell: CodeCell) -> None:
        before = self._start.copy()
        for other in self._cells:
            if other.cell_id == cell.cell_id:
                break
            if other.cell_id in self._runs:
                before.apply(other.cell_id, self._runs[other.cell_id])
        await self._materialise(cell, before)
        self._wishes.tell(cell.cell_id, cell.number, "running")
        self._put_files(cell, before)
        _, trace, _ = await self._kernel.run(cell.number - 1)
        if cell.cell_id not in self._report.executed:
            self._report.executed.append(cell.cell_id)
        if cell.cell_id in self._report.reused:
            self._report.reused.remove(cell.cell_id)
        if trace is None or "problem" in trace:
            return
        self._hold(trace)
        self._versions.touch(trace["files_written"])
        known = {
            tuple(version["names"]): version
            for version in self._runs.get(cell.cell_id, {}).get("writes", ())
        }
        for version in trace["writes"]:
            old = known.get(tuple(version["names"]))
            if old is not None and version["problem"] is not None:
                self._alias[version["digest"]] = old["digest"]
                for name in version["names"]:
                    self._held[name] = old["digest"]
                    self._alias[version["own"][name]] = old["own"][name]


def _unique(versions: Iterable[Version | Changing]) -> list[Version]:
    found: dict[str, Version] = {}
    for version in versions:
        assert isinstance(version, dict)
        found.setdefault(str((version["digest"], version["names"])), version)
    return list(found.values())
