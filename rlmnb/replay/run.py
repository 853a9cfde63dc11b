"""Replay: run the cells whose inputs changed, restore what they need, reuse the rest."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from rlmnb import digest
from rlmnb.format import times
from rlmnb.format.cells import new_record
from rlmnb.graph.code import code_hash
from rlmnb.graph.traces import (
    Changing,
    CodeCell,
    Environment,
    Files,
    Run,
    Version,
    causes_of,
    is_ambient,
    last_writes,
    may_write,
    recorded_run,
    survey,
)
from rlmnb.jsontext import portable
from rlmnb.kernel.codenames import CodeNames
from rlmnb.kernel.hidden import CHANCE
from rlmnb.kernel.reach import code_names, follow
from rlmnb.kernel.watch import kind_of, listing_digest
from rlmnb.session import Session
from rlmnb.store import notebook
from rlmnb.store.append import write_entry
from rlmnb.store.fold import fold

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
_FROZEN_TYPES = ("tool", "llm_call", "map_reduce")
_FOLD_SECONDS = 5.0


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


def code_cells(session: Session) -> list[CodeCell]:
    """Return the code cells of a session with their traces."""
    found = []
    for cell in session.cells:
        raw = cell.raw
        if raw.get("cell_type") != "code":
            continue
        record = raw["metadata"].get("rlmnb")
        record = record if isinstance(record, dict) else {}
        run = record.get("run")
        own = "copy_of" not in cell.entry
        tags = raw["metadata"].get("tags")
        recorded = own and cell.status in ("completed", "promoted") and not cell.entry.get("edited")
        found.append(
            CodeCell(
                cell_id=cell.cell_id,
                source=cell.source,
                source_hash=digest.source_hash(cell.source),
                run=run if own and isinstance(run, dict) else None,
                recorded=recorded,
                tags=frozenset(tags if isinstance(tags, list) else ()),
                number=cell.number,
                frozen=cell.type in _FROZEN_TYPES,
            )
        )
    return found


def _file_now(path: str, recorded: Any) -> str:
    changed = digest.file_changed(path, recorded)
    return str(recorded["hash"] if changed is None else changed)


def files_now(cells: Iterable[CodeCell]) -> Files:
    """Return the view of the disk that freshness is judged by."""
    writers, written = last_writes(cells)
    return Files(_file_now, listing_digest, kind_of, PYTHON, writers, written)


def stale_cells(session: Session) -> dict[str, list[str]]:
    """Return the cells a replay would run, or may, with the causes."""
    cells = code_cells(session)
    return survey(cells, files_now(cells))


def replay(
    session: Session,
    *,
    force: frozenset[str] = frozenset(),
    fail_fast: bool = False,
    timeout: float | None = None,
    tell: Teller | None = None,
) -> Report:
    """Bring a session up to date. No kernel is started when nothing is stale."""
    began = time.perf_counter()
    cells = code_cells(session)
    report = Report()
    if not force and not survey(cells, files_now(cells)):
        report.reused = [cell.cell_id for cell in cells]
    else:
        runner = _Replay(session, cells, report, force, fail_fast, tell or (lambda *_: None))
        asyncio.run(runner.go(timeout))
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
        force: frozenset[str],
        fail_fast: bool,
        tell: Teller,
    ) -> None:
        from IPython.core.inputtransformer2 import TransformerManager

        self._session = session
        self._cells = cells
        self._report = report
        self._force = force
        self._fail_fast = fail_fast
        self._tell = tell
        self._transform: Callable[[str], str] = TransformerManager().transform_cell  # type: ignore[no-untyped-call]
        self._env = Environment()
        self._files = files_now(cells)
        self._runs: dict[str, Run] = {}
        self._held: dict[str, str] = {}
        self._blocked: dict[str, str] = {}
        # What the kernel calls a value that was made again, and what the records call it.
        self._alias: dict[str, str] = {}
        self._seq = -1
        self._folded_at = time.monotonic()

    async def go(self, timeout: float | None) -> None:
        """Start the kernel and go down the notebook."""
        from rlmnb.replay.managed import as_nodes, managed_kernel

        place = self._session.place
        whole = notebook.read_whole(place.notebook)
        cwd = os.path.dirname(place.notebook)
        if not place.plain:
            known = self._session.stored_state().get("session", {}).get("cwd")
            cwd = known if isinstance(known, str) and os.path.isdir(known) else os.getcwd()
        nodes = as_nodes(whole)
        async with managed_kernel(
            nodes, cwd=cwd, objects=place.objects, timeout=timeout
        ) as self._kernel:
            self._report.kernel = "started"
            try:
                for cell in self._cells:
                    await self._step(cell)
            except _Stop:
                pass
            finally:
                self._fold()
                order = {each.cell_id: at for at, each in enumerate(self._cells)}
                self._report.executed.sort(key=order.__getitem__)
                self._report.restored.sort(key=order.__getitem__)

    async def _step(self, cell: CodeCell) -> None:
        causes = causes_of(cell, self._env, self._files)
        if cell.cell_id in self._force and not cell.frozen:
            causes = ["was asked for", *causes]
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
        if cell.run is not None and cell.run["history"]:
            await self._run_all_above(cell)
        await self._execute(cell, causes)

    def _reuse(self, cell: CodeCell) -> None:
        self._report.reused.append(cell.cell_id)
        if cell.run is not None:
            self._take_in(cell, cell.run)
        elif cell.source.strip() and "skip-execution" not in cell.tags:
            self._take_in(cell, recorded_run(cell))

    def _take_in(self, cell: CodeCell, run: Run) -> None:
        self._runs[cell.cell_id] = run
        self._env.apply(cell.cell_id, run)

    def _names(self, cell: CodeCell) -> CodeNames | None:
        return code_names(cell.source, self._transform)

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

    async def _run_all_above(self, cell: CodeCell) -> None:
        """Run every cell above again: one that looks at `_` or `Out` needs them as they were."""
        for other in self._cells:
            if other.cell_id == cell.cell_id:
                return
            done = other.cell_id in self._report.executed
            if not done and other.source.strip() and not other.frozen:
                await self._again(other)

    async def _execute(self, cell: CodeCell, causes: list[str]) -> None:
        try:
            await self._materialise(cell, self._env)
        except _Unavailable as reason:
            self._report.skipped.append(cell.cell_id)
            self._report.causes[cell.cell_id] = [*causes, str(reason)]
            self._block(cell, cell.cell_id)
            return
        self._tell(cell.cell_id, cell.number, "running")
        done, trace, error = await self._kernel.run(cell.number - 1)
        allowed = "raises-exception" in cell.tags
        trace = dict(_UNTRACKED) if trace is None else trace
        trace["reads"] = {
            name: self._alias.get(read, read) for name, read in trace["reads"].items()
        }
        # What every cell reads is what a full run would have here, whatever this kernel has.
        trace["reads"] = {
            name: read for name, read in trace["reads"].items() if not is_ambient(name)
        } | {name: self._env.own(name) for name in self._env.names if is_ambient(name)}
        run = {
            **trace,
            "text": cell.source_hash,
            "code": code_hash(cell.source),
            "python": PYTHON,
        }
        self._hold(run)
        self._report.executed.append(cell.cell_id)
        self._record(cell, done, run, error)
        if error is not None and not allowed:
            self._report.failed.append(cell.cell_id)
            self._report.errors[cell.cell_id] = error
            self._block(CodeCell(cell.cell_id, cell.source, "", run, False), cell.cell_id)
            if self._fail_fast:
                raise _Stop
            return
        for name in may_write(CodeCell(cell.cell_id, cell.source, "", run, False)):
            self._blocked.pop(name, None)
        self._take_in(cell, run)

    def _hold(self, run: Run) -> None:
        for name in run["deleted"]:
            self._held.pop(name, None)
        for version in run["writes"]:
            for name in version["names"]:
                self._held[name] = version["digest"]

    async def _materialise(self, cell: CodeCell, env: Environment) -> None:
        """Have the kernel hold what a cell may touch, in the versions that are due."""
        for _ in range(100):
            names = self._names(cell)
            reads, opaque = self._closure(names, env) if names else (frozenset(), False)
            due = set(env.names) if opaque else {name for name in reads if name in env.names}
            due |= {name for name in env.names if is_ambient(name) or name in CHANCE}
            missing = [
                version
                for version in _unique(env.names[name] for name in sorted(due))
                if any(self._held.get(name) != version["digest"] for name in version["names"])
            ]
            unstored = [version for version in missing if not self._storable(version)]
            if unstored:
                order = {each.cell_id: at for at, each in enumerate(self._cells)}
                first = min(unstored, key=lambda version: order[env.producers[version["names"][0]]])
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
            failed = await self._kernel.restore(missing, absent)
            for name in absent:
                self._held.pop(name, None)
            for version in missing:
                if version["digest"] in failed:
                    version["problem"] = "could not be restored"
                    continue
                for name in version["names"]:
                    self._held[name] = version["digest"]
                self._note_restored(env.producers.get(version["names"][0]))
        raise AssertionError("the state a cell needs keeps changing")

    def _note_restored(self, producer: str | None) -> None:
        if producer is not None and producer not in self._report.restored:
            self._report.restored.append(producer)

    @staticmethod
    def _storable(version: Version) -> bool:
        name = version["names"][0]
        if name.startswith("$") and version["digest"] == "initial":
            return True
        if name.startswith("$module:"):
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
        before = Environment()
        for other in self._cells:
            if other.cell_id == cell.cell_id:
                break
            if other.cell_id in self._runs:
                before.apply(other.cell_id, self._runs[other.cell_id])
        await self._materialise(cell, before)
        self._tell(cell.cell_id, cell.number, "running")
        _, trace, _ = await self._kernel.run(cell.number - 1)
        if cell.cell_id not in self._report.executed:
            self._report.executed.append(cell.cell_id)
        if cell.cell_id in self._report.reused:
            self._report.reused.remove(cell.cell_id)
        if trace is None:
            return
        self._hold(trace)
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

    # keeping

    def _record(self, cell: CodeCell, done: Any, run: Run, error: str | None) -> None:
        outputs = portable([dict(output) for output in _plain(done.outputs)])
        stored = {key: value for key, value in run.items() if key != "failed"}
        stored["failed"] = error is not None
        raw = self._session.cell(cell.cell_id).raw
        known = raw["metadata"].get("rlmnb")
        base = {} if isinstance(known, dict) else new_record(cell.source, [], {"status": "running"})
        record = {
            **base,
            "cell_id": cell.cell_id,
            "status": "failed" if error is not None else "completed",
            "completed_at": times.now(),
            "source_hash": cell.source_hash,
            "output_hash": digest.output_hash(outputs),
        }
        replaced = {
            "run": stored,
            "files_read": run["files_read"],
            "files_written": run["files_written"],
        }
        whole = {**(known if isinstance(known, dict) else {}), **record, **replaced}
        record["context_hash"] = digest.context_hash(portable(whole))
        entry = {
            "op": "update",
            "of": [cell.source_hash, digest.output_hash(raw.get("outputs") or [])],
            "at": times.now(),
            "cell_id": cell.cell_id,
            "record": record,
            "replace": replaced,
            "outputs": outputs,
            "execution_count": done.execution_count,
        }
        self._seq = write_entry(self._session.place, lambda _: portable(entry))
        if time.monotonic() - self._folded_at > _FOLD_SECONDS:
            self._fold()

    def _fold(self) -> None:
        if self._seq >= 0:
            fold(self._session.place, self._seq, timeout=10.0)
            self._folded_at = time.monotonic()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _unique(versions: Iterable[Version | Changing]) -> list[Version]:
    found: dict[str, Version] = {}
    for version in versions:
        assert isinstance(version, dict)
        found.setdefault(str((version["digest"], version["names"])), version)
    return list(found.values())
