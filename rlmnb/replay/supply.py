"""Having the kernel hold what a cell may touch, in the versions that are due.

What is stored is restored; what cannot be stored is made again by the cell that made it, and what
that cell needs is supplied in the same way.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlmnb.digest import MISSING, REST
from rlmnb.graph.ambient import CHANCE, INITIAL, is_ambient
from rlmnb.graph.environment import RECORDED, Changing, CodeCell, Environment, Run, Version
from rlmnb.kernel.codenames import CodeNames
from rlmnb.kernel.groups import LOGGED
from rlmnb.kernel.tracker import pseudo_version
from rlmnb.replay.files import Versions, named_by
from rlmnb.replay.holdings import Holdings
from rlmnb.replay.naming import Naming, closure
from rlmnb.replay.report import Report
from rlmnb.replay.wishes import Wishes, refusal

if TYPE_CHECKING:
    from rlmnb.replay.managed import ManagedKernel

# Each round makes at least one more value; after so many it is better to run all that is above.
_MOST_ROUNDS = 100
# What a new kernel holds, as it would tell it.
AS_NEW: Mapping[str, Any] = {"held": {}, "called": {}, "once_only": {}}
# Before the version of what holds a function or class that has become another.
_OUTDATED = "outdated:"
# Names of what forks processes off.
_FORKING = frozenset({"Pool", "Process", "ProcessPoolExecutor", "fork", "forkpty"})


class Unavailable(Exception):  # noqa: N818 - a reason not to run a cell
    """What a cell needs cannot be had."""

    def __init__(self, why: str, version: Version) -> None:
        super().__init__(why)
        self.version = version


class Soiled(Exception):  # noqa: N818 - a reason to take another kernel
    """A warm kernel has something that cannot be put back."""


@dataclass
class _Due:
    """A cell that is to have what it may touch; `made_for` is what it runs for once more then."""

    cell: CodeCell
    env: Environment
    made_for: Version | None = None
    rounds: int = 0


@dataclass(frozen=True)
class _Lack:
    """What a kernel has not and should have, what it has and should not; what is not stored."""

    missing: list[Version]
    absent: list[str]
    unstored: list[Version]


class Supply:
    """What the kernel holds, and how it comes to hold what is due."""

    def __init__(
        self,
        kernel: ManagedKernel,
        cells: list[CodeCell],
        naming: Naming,
        versions: Versions,
        start: Environment,
        report: Report,
        wishes: Wishes,
        cwd: str,
        found: Mapping[str, Any],
    ) -> None:
        self.kernel = kernel
        # The trace of each cell gone past: the one it had, or the one it has left just now.
        self.runs: dict[str, Run] = {}
        # What the kernel has under each name.
        self.held = Holdings(found["held"])
        # Libraries that this kernel has imported before, and the hidden state that it changed.
        self._once_only: dict[str, list[str]] = found["once_only"]
        # What the kernel calls a value that was made again, and what the records call it.
        self.alias: dict[str, str] = dict(found["called"])
        self._cells = cells
        self._order = {cell.cell_id: at for at, cell in enumerate(cells)}
        self._naming = naming
        self._versions = versions
        self._start = start
        self._report = report
        self._wishes = wishes
        self._cwd = cwd
        # What cells ended with that did not when they last ran, and were to make something again.
        self.failures: dict[str, str] = {}

    def hold(self, run: Run) -> None:
        """Take down what the kernel has after a cell has run."""
        for name in run["deleted"]:
            self.held.pop(name, None)
        loosened = [each["version"] for each in run.get("loosened", ())]
        for version in [*run["writes"], *loosened]:
            for name in version["names"]:
                self.held[name] = version["digest"]

    async def finish(self) -> None:
        """Take away what no cell has come to, and tell the kernel what it holds now."""
        if self.kernel.left_over:
            await self.kernel.restore([], [], {}, {})
        await self.kernel.ask("end_replay", {"held": dict(self.held), "called": self.alias})

    def put_files(
        self, cell: CodeCell, env: Environment, made_by: Mapping[str, str] | None = None
    ) -> None:
        """Bring the files a cell may touch to what the cells above it leave.

        Of those that cells make, what only one further down does is not there yet.
        """
        names = self._naming.names(cell)
        strings = names.strings if names is not None else ()
        touched = named_by(cell, strings, self._cwd)
        # What the cell itself made was not there when it began.
        before = (cell.run or {}).get("before", {})
        due = {path: was for path, was in before.items() if was == MISSING}
        due |= dict.fromkeys(touched.intersection(made_by or ()), MISSING)
        due |= {path: now for path, now in env.files.items() if isinstance(now, str)}
        listed = (cell.run or {}).get("listed", ())
        within = {path for path in due if os.path.dirname(path) in listed} if listed else set()
        self._versions.put(due, touched | within)

    async def materialise(self, cell: CodeCell, env: Environment) -> None:
        """Have the kernel hold what a cell may touch, in the versions that are due.

        What has to be made first waits in a list of its own: where stored state is gone, one cell
        needs the one before it, and that can be a thousand deep.
        """
        waiting = [_Due(cell, env)]
        try:
            while waiting:
                await self._proceed(waiting)
        except Unavailable as reason:
            if len(waiting) == 1:
                raise
            # Whoever asked knows what it is due, not what that was made of.
            raise Unavailable(str(reason), waiting[1].made_for or reason.version) from None

    async def _proceed(self, waiting: list[_Due]) -> None:
        """Come one step nearer to what the last that waits is due, or be done with it."""
        due = waiting[-1]
        if due.rounds == 0:
            self._check_imports(due.cell)
        due.rounds += 1
        lack = self._lack(due.cell, due.env)
        if not lack.missing and not lack.absent:
            waiting.pop()
            if due.made_for is not None:
                await self._again(due.cell, due.env, due.made_for)
        elif due.rounds == _MOST_ROUNDS:
            await self._run_from_the_top(due.cell, due.env)
        elif lack.unstored:
            first = min(lack.unstored, key=lambda version: self._made_at(version, due.env))
            if due.rounds > 2 * _MOST_ROUNDS:
                raise Unavailable("what it needs does not hold together", first)
            waiting.append(self._maker(first, due.env))
        elif lack.missing:
            await self._restore(lack, due.env)
        else:
            # They go when the cell comes: a word to the kernel takes as long as a small cell.
            self.kernel.left_over += lack.absent
            for name in lack.absent:
                del self.held[name]

    def _lack(self, cell: CodeCell, env: Environment) -> _Lack:
        """Return what a cell is due and the kernel has not, and what it has and must not have."""
        names = self._naming.names(cell)
        reads, opaque, _ = closure(names, env)
        due = (
            set(env.names)
            if opaque or _forks(cell, names)
            else {name for name in reads if name in env.names}
        )
        due |= env.ambient | {name for name in CHANCE if name in env.names}
        due |= {name for name in self._group_mates(cell) if name in env.names}
        touched = reads | (names.writes if names is not None else frozenset())
        # Left over from another order of things, they would be split off by the cell, and be
        # taken for something that it has made.
        mates = self.held.mates(touched)
        due |= {name for name in mates if name in env.names}
        due |= self._bereft(names, env) | self._logged(env)
        missing = [
            version
            for version in _unique(env.names[name] for name in sorted(due))
            if any(self.held.get(name) != version["digest"] for name in version["names"])
        ]
        missing += self._astray(env)
        if missing:
            due |= self._tied(due, env)
        wanted = _unique(env.names[name] for name in sorted(due))
        altered = self._altered(missing, wanted, env)
        missing += self._holders([each for each in missing if each not in altered], wanted)
        unstored = altered + [version for version in missing if not self._storable(version)]
        absent = [
            name
            for name in (list(self.held) if opaque else touched | mates)
            if name in self.held and name not in env.names and name[0] != "$"
        ]
        return _Lack(missing, absent, unstored)

    async def _restore(self, lack: _Lack, env: Environment) -> None:
        """Bring what is stored; what turns out to be gone counts as never stored."""
        makers = self._makers(lack.missing, env)
        failed, outdated = await self.kernel.restore(
            lack.missing,
            lack.absent,
            {file: cell.source for file, cell in makers.items()},
            {file: self.kernel.numbers[cell.number - 1] for file, cell in makers.items()},
        )
        for name in lack.absent:
            self.held.pop(name, None)
        for name in outdated:
            self.held[name] = _OUTDATED + self.held.get(name, "")
        for version in lack.missing:
            if version["digest"] in failed:
                version["problem"] = "could not be restored"
                for name in version["names"]:
                    self.held.pop(name, None)  # whatever was there is gone
                continue
            for name in version["names"]:
                self.held[name] = version["digest"]
            self._note_restored(env.producers.get(version["names"][0]))

    def _check_imports(self, cell: CodeCell) -> None:
        """Refuse a cell whose imports have done something that they would not do again."""
        if not self._once_only:
            return
        names = self._naming.names(cell)
        imports = {name.partition(".")[0] for name in names.imports} if names else set()
        changed = {name for each in self._once_only.values() for name in each}
        wrote = {
            name for version in (cell.run or {}).get("writes", ()) for name in version["names"]
        }
        if again := imports & self._once_only.keys():
            raise Soiled(f"{', '.join(sorted(again))} was imported before")
        if wrote & changed:
            raise Soiled(f"{', '.join(sorted(wrote & changed))} was changed by an import")

    def _astray(self, env: Environment) -> list[Version]:
        """Return the state that no cell above has touched, where this kernel has it otherwise."""
        return [
            pseudo_version(name, INITIAL)
            for name in sorted(self.held.hidden)
            if is_ambient(name) and name not in env.names and self.held[name] != INITIAL
        ]

    async def _run_from_the_top(self, cell: CodeCell, env: Environment) -> None:
        """Run every cell above in order: what they made holds together in no other way."""
        ran = set()
        for other in self._cells:
            runs = other.source.strip() and not other.effects and not other.frozen
            if other.number >= cell.number or not runs or other.cell_id not in self.runs:
                continue
            self.put_files(other, env)
            self._wishes.tell(other.cell_id, other.number, "running")
            _, trace, error = await self.kernel.run(other.number - 1)
            self._report.ran(other.cell_id)
            self._wishes.tell(other.cell_id, other.number, "fresh")
            self._take_in(other, trace)
            if not self._fails(other, error):
                ran.add(other.cell_id)
        made = {
            name: version["digest"]
            for name, version in env.names.items()
            if isinstance(version, dict) and env.producers.get(name) in ran
        }
        before = {name: self.held[name] for name in env.names.keys() & self.held.keys()}
        self.held = Holdings({**before, **made})

    def _group_mates(self, cell: CodeCell) -> set[str]:
        """Return the names whose old values went into what a cell left when it last ran."""
        run = self.runs.get(cell.cell_id) or {}
        return {name[1:] for name in run.get("reads", ()) if name.startswith("~")}

    def _makers(self, versions: list[Version], env: Environment) -> dict[str, CodeCell]:
        """Return the cells that made these, by the name that their code was compiled under."""
        found = {}
        for version in versions:
            producer = env.producers.get(version["names"][0], "")
            file = self.runs.get(producer, {}).get("file")
            if file:
                found[str(file)] = self._cells[self._order[producer]]
        return found

    def _made_at(self, version: Version, env: Environment) -> int:
        return self._order[env.producers[version["names"][0]]]

    def _tied(self, due: set[str], env: Environment) -> set[str]:
        """Return what the kernel has, cannot be stored, and holds a function or class that is due.

        It would not hold the one that is brought back.
        """
        found: set[str] = set()
        waiting = list(due)
        while waiting:
            new = [name for name in env.holders_of(waiting.pop()) if name not in found]
            found.update(new)
            waiting += new
        return {
            name
            for name in found
            if isinstance(version := env.names[name], dict)
            and not self._storable(version)
            and self.held.get(name) == version["digest"]
        }

    def _altered(
        self, missing: list[Version], due: list[Version], env: Environment
    ) -> list[Version]:
        """Return what was changed in place after something came to hold it that cannot be stored.

        Brought back, it would be another than the one that is held: it has to be changed again.
        """
        found: dict[str, Version] = {}
        by_name = {name: version for version in missing for name in version["names"]}
        for holder in due:
            if not holder.get("holds") or self._storable(holder):
                continue
            seen: set[str] = set()
            waiting = list(holder["holds"])
            while waiting:
                name = waiting.pop()
                version = env.names.get(name)
                if name in seen or not isinstance(version, dict):
                    continue
                seen.add(name)
                waiting += version.get("holds", ())
                if name in by_name and self._made_at(version, env) > self._made_at(holder, env):
                    found[version["digest"]] = by_name[name]
        return list(found.values())

    @staticmethod
    def _holders(missing: list[Version], due: list[Version]) -> list[Version]:
        """Return what holds a function or class that is about to be replaced by a restored one."""
        found: list[Version] = []
        names = {name for version in missing for name in version["names"]}
        waiting = [version for version in due if version not in missing]
        while holders := [each for each in waiting if not names.isdisjoint(each.get("holds", ()))]:
            found += holders
            names |= {name for version in holders for name in version["names"]}
            waiting = [each for each in waiting if each not in holders]
        return found

    @staticmethod
    def _bereft(names: CodeNames | None, env: Environment) -> set[str]:
        """Return what a cell takes a name from that it sets: afterwards it cannot be had.

        It holds a function or class by that name, or can only be made together with it.
        """
        waiting: list[str] = []
        for name in env.names.keys() & names.writes if names is not None else ():
            waiting += env.holders_of(name)
            version = env.names[name]
            if isinstance(version, dict) and len(version["names"]) > 1 and version.get("problem"):
                waiting.append(name)
        found: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name in found or not isinstance(known := env.names.get(name), dict):
                continue
            found.add(name)
            waiting += [*known["names"], *known.get("holds", ())]
        return found

    @staticmethod
    def _logged(env: Environment) -> set[str]:
        """Return what a library logs into, or all that is printed: any cell may do either."""
        if env.names.keys().isdisjoint(("$logging", "$streams")):
            return set()
        return {
            name
            for name, version in env.names.items()
            if isinstance(version, dict) and version.get("problem") == LOGGED
        }

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

    def _maker(self, version: Version, env: Environment) -> _Due:
        """Return the cell that has to run for a version which cannot be restored."""
        producer = env.producers[version["names"][0]]
        at = self._order[producer]
        cell = self._cells[at]
        why = self._wishes.hinders(cell)
        if cell.effects and why is None:
            why = f"it changes things; if it is to run once more, select it: {producer} --force"
        if why is not None:
            raise Unavailable(
                f"it needs what {producer} made, which is not run again: {why}", version
            )
        if "rlmnb:pinned" in cell.tags:
            raise Unavailable(f"{producer} is pinned, and what it made cannot be restored", version)
        if producer in self.failures:
            raise Unavailable(self._why_not(producer), version)
        before = self._start.copy()
        for other in self._cells[:at]:
            if other.cell_id in self.runs:
                before.apply(other.cell_id, self.runs[other.cell_id])
        return _Due(cell, before, version)

    async def _again(self, cell: CodeCell, env: Environment, wanted: Version) -> None:
        """Run a cell once more, for a version that it makes."""
        self._wishes.tell(cell.cell_id, cell.number, "running")
        self.put_files(cell, env)
        _, trace, error = await self.kernel.run(cell.number - 1)
        if refused := (trace or {}).get("refused"):
            self._take_in(cell, trace)
            raise Unavailable(
                f"it needs what {cell.cell_id} made, which is not run again: {refusal(refused)}",
                wanted,
            )
        self._report.ran(cell.cell_id)
        self._wishes.tell(cell.cell_id, cell.number, "fresh")
        self._take_in(cell, trace)
        if self._fails(cell, error):
            raise Unavailable(self._why_not(cell.cell_id), wanted)
        for name in wanted["names"]:
            # A new generator is not the old one, but it is what a full run would have.
            self.held[name] = wanted["digest"]

    def _fails(self, cell: CodeCell, error: str | None) -> bool:
        """Tell whether a cell that ran once more has failed as it did not before; note it."""
        if error is None or self.runs.get(cell.cell_id, {}).get("failed"):
            return False
        self.failures[cell.cell_id] = error
        return True

    def _why_not(self, cell_id: str) -> str:
        return f"it needs what {cell_id} makes, which now fails: {self.failures[cell_id]}"

    def _take_in(self, cell: CodeCell, trace: Run | None) -> None:
        """Take down what a cell has made again."""
        if trace is None or "problem" in trace:
            return
        self.hold(trace)
        self._versions.touch(trace)
        for version in [*trace["writes"], *(each["version"] for each in trace["loosened"])]:
            self._call_as_known(cell, version)

    def _call_as_known(self, cell: CodeCell, version: Version) -> None:
        """Let what was made again go by the name that the records have for it."""
        known = self.runs.get(cell.cell_id, {}).get("writes", ())
        for old in known:
            if old["names"] == version["names"] and version["problem"] is not None:
                self.alias[version["digest"]] = old["digest"]
                for name in version["names"]:
                    self.held[name] = old["digest"]
                    self.alias[version["own"][name]] = old["own"][name]
        # What an agent made elsewhere has no digest of its own, only the cell that made it.
        recorded = {
            name: old
            for old in known
            if old["digest"].startswith(RECORDED)
            for name in old["names"]
        }
        for name in version["names"]:
            if name in recorded:
                self.held[name] = recorded[name]["digest"]
                self.alias[version["own"][name]] = recorded[name]["own"][name]
                alone = len(version["names"]) == 1
                self.alias[version["digest"]] = recorded[name]["digest"] if alone else ""

    def known_as(self, name: str, read: str, env: Environment) -> str:
        """Return what the records call a value that a cell has read."""
        base, part, rest = read.partition(REST)
        alias = self.alias.get(base)
        if alias is not None and part:
            alias += part + rest
        if alias is None or (name[:1] not in "&~$" and alias != env.own(name)):
            return read
        return alias


def _unique(versions: Iterable[Version | Changing]) -> list[Version]:
    found: dict[str, Version] = {}
    for version in versions:
        assert isinstance(version, dict)
        found.setdefault(str((version["digest"], version["names"])), version)
    return list(found.values())


def _forks(cell: CodeCell, names: CodeNames | None) -> bool:
    """Tell whether a cell may leave a worker that knows all there is, and nothing that comes."""
    named = names is not None and not _FORKING.isdisjoint(names.attributes | names.reads)
    return named or "fork" in (cell.run or {}).get("flags", ())
