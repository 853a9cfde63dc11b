"""What is known after some of the cells: which version of everything they have left.

A symbolic environment maps each variable and file to a version. No value is needed for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rlmnb.digest import of_rest, of_value
from rlmnb.graph.ambient import is_ambient, is_seen_by_all, state_of, states_of, whole
from rlmnb.graph.names import names_of

ABSENT = "absent"
RECORDED = "recorded:"
Version = dict[str, Any]
Run = dict[str, Any]
# The trace of a cell that ran and could not be followed.
UNTRACKED: Run = {
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


@dataclass(frozen=True, slots=True)
class CodeCell:
    """A code cell and what is known of its last run."""

    cell_id: str
    source: str
    source_hash: str
    run: Run | None
    recorded: bool
    # Its code is not what its agent ran.
    edited: bool = False
    # It ended in an error when it was last run, and nothing more is known of that.
    broken: bool = False
    tags: frozenset[str] = frozenset()
    number: int = 0
    # Why the cell is never run: what a model or a foreign tool did is kept as it was recorded.
    frozen: str = ""
    # The tools it calls that change the world; it runs only if that is allowed.
    effects: tuple[str, ...] = ()
    # Why somebody has marked it as no longer valid.
    marked: str | None = None
    # The cells it names as its dependencies, each with the digest of what it shows now.
    depends: Mapping[str, str | None] = field(default_factory=dict)
    output_hash: str | None = None
    # It shows something else than the run that is known of.
    reshown: bool = False
    # What the agent's tool touched, of a cell that was only recorded.
    files_read: Mapping[str, Any] = field(default_factory=dict)
    files_written: Mapping[str, Any] = field(default_factory=dict)
    # The directories that it looked through, each with the names that were there.
    listed: Mapping[str, Any] = field(default_factory=dict)
    # The model calls that it made when it last ran, as its record keeps them.
    calls: tuple[dict[str, Any], ...] = ()
    # Why they are to be made anew.
    renew: str = ""
    # Why its own condition no longer lets it hold.
    lapsed: tuple[str, ...] = ()
    # The digest of what is said above it, of a cell that has looked at that.
    conversation: str | None = None

    @property
    def written(self) -> Mapping[str, Any]:
        """The files it left, whoever ran it."""
        return self.files_written if self.run is None else self.run["files_written"]

    @property
    def folders(self) -> Mapping[str, str]:
        """The directories it has made or taken away: what it left at their paths."""
        found: Mapping[str, str] = (self.run or {}).get("folders", {})
        return found


@dataclass(frozen=True, slots=True)
class Changing:
    """In the place of a version: this cell will run, and what it leaves is not known."""

    cell_id: str


@dataclass
class Environment:
    """Which version of each variable and file the cells so far have left."""

    names: dict[str, Version | Changing] = field(default_factory=dict)
    producers: dict[str, str] = field(default_factory=dict)
    files: dict[str, str | Changing] = field(default_factory=dict)
    # What each cell shows, by the digest of it.
    outputs: dict[str, str | Changing | None] = field(default_factory=dict)
    # The code of each cell so far, by its digest.
    sources: dict[str, str] = field(default_factory=dict)
    # Displays by their id, each with the cell that shows it anew.
    displays: dict[str, str] = field(default_factory=dict)
    # Which of the names are state that every cell may read.
    ambient: set[str] = field(default_factory=set)
    # The cells so far that run at all, in their order.
    order: list[str] = field(default_factory=list)
    # Functions and classes, each with the variables that have held it under its name.
    held: dict[str, set[str]] = field(default_factory=dict)

    def copy(self) -> Environment:
        """Return one that can go another way from here."""
        return Environment(
            dict(self.names),
            dict(self.producers),
            dict(self.files),
            dict(self.outputs),
            dict(self.sources),
            dict(self.displays),
            set(self.ambient),
            list(self.order),
            {name: set(holders) for name, holders in self.held.items()},
        )

    def reach(self, cell: CodeCell) -> None:
        """Come to the next cell."""
        self.sources[cell.cell_id] = cell.source_hash
        if cell.source.strip() and "skip-execution" not in cell.tags:
            self.order.append(cell.cell_id)

    def above(self, run: Run) -> str:
        """Return which cells a run has above it, in which order; with their code if it saw that."""
        above = self.order[:-1]
        if "inputs" in run:
            return of_value([[each, self.sources[each]] for each in above])
        return of_value(above)

    def where(self, cell_id: str) -> list[Any]:
        """Return the place of a cell so far, and its code."""
        place = self.order.index(cell_id) + 1 if cell_id in self.order else 0
        return [place, self.sources.get(cell_id)]

    def own(self, name: str) -> str | Changing:
        """Return the digest of one variable."""
        version = self.names.get(name)
        if version is None:
            return self.state(name) if name.startswith("$") else ABSENT
        return version if isinstance(version, Changing) else str(version["own"][name])

    def state(
        self, name: str, without: Iterable[str] = (), only: Iterable[str] | None = None
    ) -> str | Changing:
        """Return the digest of state that is written key by key, of all of its keys or some."""
        parts = {}
        keys = [key for key in self.ambient if key != name and state_of(key) == name]
        for key in keys:
            if key not in without and (only is None or key in only):
                now = self.own(key)
                if isinstance(now, Changing):
                    return now
                parts[key] = now
        return whole(parts)

    def ambient_reads(self, run: Run) -> dict[str, str | Changing]:
        """Return the state that a run can see, as the cells so far have left it."""
        unseen, sets, only = run.get("unseen", ()), run.get("sets", {}), run.get("only", {})
        return {
            name: self.state(name, sets.get(name, ()), only.get(name))
            if name in sets or name in only
            else self.own(name)
            for name in states_of(self.ambient)
            if name not in unseen and is_seen_by_all(name)
        }

    def producer(self, name: str) -> str | None:
        """Return the last cell that has set a variable, or any key of a piece of state."""
        if name in self.producers or not name.startswith("$"):
            return self.producers.get(name)
        found = [cell_id for key, cell_id in self.producers.items() if state_of(key) == name]
        return found[-1] if found else None

    def group(self, name: str) -> str | Changing:
        """Return the digest of a variable with all that share objects with it."""
        version = self.names.get(name)
        if version is None:
            return ABSENT
        return version if isinstance(version, Changing) else str(version["digest"])

    def together(self, names: list[str]) -> str | Changing:
        """Return the digest of variables that share objects, empty if they do not."""
        found = [self.names.get(name) for name in names]
        for version in found:
            if isinstance(version, Changing):
                return version
        digests = {version["digest"] for version in found if isinstance(version, dict)}
        shared = len(digests) == 1 and None not in found
        return str(digests.pop()) if shared else ""

    def holders_of(self, name: str) -> list[str]:
        """Return the variables that hold what is under this name, and only by the name."""
        found = []
        for holder in self.held.get(name, ()):
            version = self.names.get(holder)
            if isinstance(version, dict) and name in version.get("holds", ()):
                found.append(holder)
        return found

    def around(self) -> list[str]:
        """Return which variables there are, for a cell that can see them all."""
        return sorted(name for name in self.names if name[0] != "$")

    def apply(self, cell_id: str, run: Run) -> None:
        """Take in what a cell left."""
        for name in run["deleted"]:
            self._drop(name)
        for version in run["writes"]:
            for name in version["names"]:
                self._drop(name)
            for name in version["names"]:
                self.names[name] = version
                self.producers[name] = cell_id
                if is_ambient(name):
                    self.ambient.add(name)
            for name in version.get("holds", ()):
                self.held.setdefault(name, set()).update(version["names"])
        for path, version in run["files_written"].items():
            self.files[path] = version["hash"]
        self.files.update(run.get("folders", {}))

    def keep(self, cell: CodeCell, run: Run) -> None:
        """Take in what a cell left that is not run again.

        What an effect left on the disk may have gone its own way since; whoever reads it is held
        to what is there.
        """
        self.apply(cell.cell_id, without_files(run) if cell.effects else run)
        self.outputs[cell.cell_id] = cell.output_hash

    def _drop(self, name: str) -> None:
        """Forget a variable; those that shared objects with it go on without it."""
        version = self.names.pop(name, None)
        self.producers.pop(name, None)
        if not isinstance(version, dict) or len(version["names"]) < 2:
            return
        left = [each for each in version["names"] if self.names.get(each) is version]
        remnant = {
            **version,
            "names": left,
            "digest": of_rest(version["digest"], left),
            "own": {each: version["own"][each] for each in left},
        }
        for each in left:
            self.names[each] = remnant

    def change(self, cell: CodeCell) -> None:
        """Mark what a cell that will run may leave."""
        for name in may_write(cell):
            self.names[name] = Changing(cell.cell_id)
            self.producers[name] = cell.cell_id
            if is_ambient(name):
                self.ambient.add(name)
        self.files.update(dict.fromkeys([*cell.written, *cell.folders], Changing(cell.cell_id)))
        self.outputs[cell.cell_id] = Changing(cell.cell_id)
        self.show(cell.cell_id, cell.run)

    def show(self, cell_id: str, run: Run | None) -> None:
        """Note the displays that a cell shows anew."""
        self.displays.update(dict.fromkeys((run or {}).get("shows", ()), cell_id))


def without_files(run: Run) -> Run:
    """Return a trace that tells nothing of what a cell left on the disk."""
    return {**run, "files_written": {}, "folders": {}}


def may_write(cell: CodeCell) -> set[str]:
    """Return the names that a cell may leave changed when it runs."""
    names = set(names_of(cell.source).writes)
    if cell.run is not None:
        names |= {name for version in cell.run["writes"] for name in version["names"]}
        names |= set(cell.run["deleted"])
    return names


def recorded_run(cell: CodeCell) -> Run:
    """Return the trace of a cell that an agent ran elsewhere: its variables cannot be restored."""
    return {
        "writes": [
            {
                "names": [name],
                "digest": f"{RECORDED}{cell.cell_id}:{name}:{cell.source_hash}",
                "own": {name: f"{RECORDED}{cell.cell_id}:{name}:{cell.source_hash}"},
                "refs": [],
                "object": None,
                "problem": "was recorded, not run",
            }
            for name in names_of(cell.source).writes
        ],
        "deleted": [],
        "files_read": cell.files_read,
        "files_written": {},
        "listed": cell.listed,
    }
