"""Freshness by traces: a cell holds while everything it read is what it read then.

Going down the notebook, a symbolic environment maps each variable to the version that the cells
above give it. No value is needed for that, so nothing is run and nothing is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rlmnb.digest import MISSING, of_rest, of_value
from rlmnb.graph.code import code_hash
from rlmnb.graph.names import names_of

ABSENT, INITIAL = "absent", "initial"
DIRECTORY = "directory"
RECORDED = "recorded:"
_CHANCE = ("$random", "$numpy.random")
_ONLY_WHEN_USED = (*_CHANCE, "$figures")
Version = dict[str, Any]
Run = dict[str, Any]
FileNow = Callable[[str, Mapping[str, Any]], str]
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
    # Which of the names are state that every cell reads.
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
            return INITIAL if name.startswith("$") else ABSENT
        return version if isinstance(version, Changing) else str(version["own"][name])

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


def is_ambient(name: str) -> bool:
    """Tell whether this is state that every cell reads: the environment, options, patches."""
    return name.startswith("$") and name not in _ONLY_WHEN_USED and not name.startswith("$module:")


def causes_of(cell: CodeCell, env: Environment, files: Files) -> list[str]:
    """Say why a cell no longer holds, nothing if it does."""
    if not cell.source.strip() or "rlmnb:pinned" in cell.tags or "skip-execution" in cell.tags:
        return []
    if "rlmnb:always" in cell.tags:
        return ["is tagged rlmnb:always"]
    run = cell.run
    causes = [*([cell.marked] if cell.marked else []), *cell.lapsed]
    if run is None:
        return causes + _causes_without_run(cell, env, files)
    if _is_edited(cell, run):
        causes.append("source edited")
    if run.get("untracked"):
        why = f" ({run['problem']})" if run.get("problem") else ""
        causes.append(f"could not be followed when it last ran{why}")
    if run["failed"] and "raises-exception" not in cell.tags:
        causes.append("failed when it last ran")
    else:
        causes += _traceback_causes(run, env)
    if run["python"] != files.python:
        causes.append(f"ran in Python {run['python']}, this is {files.python}")
    if cell.reshown:
        causes.append("shows something else than when rlmnb last saw it run")
    causes += _history_causes(run, env)
    if cell.renew:
        causes.append(cell.renew)
    causes += files.model_causes(run)
    causes += _read_causes(cell.cell_id, run, env)
    causes += _parting_causes(run, env)
    if "around" in run and run["around"] != env.around():
        causes.append("it can see all variables, and there are others now")
    causes += _dependency_causes(cell, run.get("depends", {}), env)
    causes += _looked_causes(cell, run, env)
    return causes + files.causes(cell, run, env)


def _traceback_causes(run: Run, env: Environment) -> list[str]:
    """Say why a traceback would read otherwise now: it shows code, and where that stands."""
    if run.get("place", len(env.order)) != len(env.order):
        return ["its traceback names the place where it stood, and it stands elsewhere now"]
    return [
        f"its traceback shows the code of {other}, which was edited or moved"
        for other, seen in run.get("traced", {}).items()
        if env.where(other) != seen
    ]


def _history_causes(run: Run, env: Environment) -> list[str]:
    if not run["history"]:
        return []
    if run.get("by_hand"):
        return ["looks at earlier outputs, and was run by hand"]
    if run.get("above") != env.above(run):
        return ["looks at earlier outputs, and other cells are above it now"]
    return []


def _dependency_causes(
    cell: CodeCell, then: Mapping[str, str | None], env: Environment
) -> list[str]:
    """Say which of the cells that a cell names show something else than they did."""
    causes = []
    for other, shown in {**cell.depends, **then}.items():
        if other not in cell.depends:
            continue  # the edge was taken out since
        if other not in env.outputs:
            causes.append(f"{other}, which it depends on, is not above it")
        elif isinstance(now := env.outputs[other], Changing):
            causes.append(f"{other}, which it depends on, changes")
        elif now != shown:
            causes.append(f"{other}, which it depends on, changed")
    return causes


def _looked_causes(cell: CodeCell, run: Run, env: Environment) -> list[str]:
    """Say what a cell has looked at in the notebook that reads otherwise now."""
    causes = [
        f"{other}, which it looks at, was edited"
        for other, seen in run.get("looked", {}).items()
        if env.sources.get(other, seen["source"]) != seen["source"]
    ]
    if run.get("conversation") != cell.conversation:
        causes.append("the conversation above it, which it looks at, changed")
    return causes


def _is_edited(cell: CodeCell, run: Run) -> bool:
    return bool(run["text"] != cell.source_hash and run["code"] != code_hash(cell.source))


@dataclass(frozen=True, slots=True)
class Others:
    """What is to be known of all cells to judge what one of them shows."""

    # Their code is what last ran.
    unedited: frozenset[str]
    # A traceback shows their code, every comment in it, and where they stand.
    traced: Mapping[str, list[Any]]


def others_in(cells: Iterable[CodeCell]) -> Others:
    """Look at all cells of a notebook."""
    runs = [(cell, cell.run) for cell in cells if cell.run is not None]
    return Others(
        frozenset(cell.cell_id for cell, run in runs if not _is_edited(cell, run)),
        {other: seen for _, run in runs for other, seen in run.get("traced", {}).items()},
    )


def display_causes(cell: CodeCell, env: Environment, others: Others) -> list[str]:
    """Say what is no longer right in what is shown of a cell, by itself or by others below it.

    One cell shows a display, others change it later; a traceback shows the code of others.
    """
    run = cell.run
    if run is None or "rlmnb:pinned" in cell.tags:
        return []
    causes = [
        f"{other} changed what it shows, and was edited or removed"
        for other in run.get("updated_by", ())
        if other not in others.unedited
    ]
    if (seen := others.traced.get(cell.cell_id)) and env.where(cell.cell_id) != seen:
        causes.append("a traceback shows its code, and it was edited or moved")
    return causes + [
        f"it changes what {env.displays[each]} shows, which runs again"
        for each in run.get("updates", ())
        if each in env.displays
    ]


def _causes_without_run(cell: CodeCell, env: Environment, files: Files) -> list[str]:
    if not cell.recorded:
        never = "source edited" if cell.edited else "has not been run by rlmnb"
        return [] if cell.marked else [never]
    found = []
    for name in names_of(cell.source).reads:
        version = env.names.get(name)
        if isinstance(version, Changing):
            found.append(f"{name} from {version.cell_id} changes")
        elif version is not None and not version["digest"].startswith(RECORDED):
            # What the agent had then is not known, so it cannot be said to be the same.
            found.append(f"{name} from {env.producers.get(name, 'the start')} was made anew")
    found += _dependency_causes(cell, {}, env)
    return found + files.causes(cell, recorded_run(cell), env)


def _read_causes(cell_id: str, run: Run, env: Environment) -> list[str]:
    causes: list[str] = []
    told: set[str] = set()
    reads = dict.fromkeys(env.ambient, INITIAL) | run["reads"] if env.ambient else run["reads"]
    # How variables share objects is worth a word only if none of them is another by itself.
    for name, then in sorted(reads.items(), key=lambda read: read[0].startswith("&")):
        now: str | Changing
        if name.startswith("&"):
            if causes and not told.isdisjoint(name[1:].split("&")):
                continue
            now = env.together(name[1:].split("&"))
            shown = name[1:].replace("&", " and ")
        elif name.startswith("~"):
            now, shown = env.group(name[1:]), name[1:]
        else:
            now, shown = env.own(name), name
        if now == then or (run.get("by_hand") and name in _CHANCE and name not in env.names):
            continue  # a generator that no cell above has seeded may be anywhere
        told.add(shown)
        if isinstance(now, Changing):
            causes.append(f"{shown} from {now.cell_id} changes")
            continue
        if (strange := _out_of_order(cell_id, shown, run, env)) is not None:
            causes.append(strange)
            continue
        producer = env.producers.get(shown)
        if now == ABSENT:
            causes.append(f"{shown} is set by no cell above")
        elif then == ABSENT:
            causes.append(f"{shown} is set now, by {producer}")
        else:
            causes.append(f"{shown} from {producer} changed" if producer else f"{shown} changed")
    return list(dict.fromkeys(causes))


def _parting_causes(run: Run, env: Environment) -> list[str]:
    """Say what a cell would take away from others that it did not meet when it last ran.

    What cannot be stored is made again together, and a function or class that others hold is found
    by its name: only the cell itself can part them.
    """
    left = {name: version for version in run["writes"] for name in version["names"]}
    left |= dict.fromkeys(run["deleted"])
    in_place = run.get("in_place", ())
    causes = []
    for name, leaves in left.items():
        version = env.names.get(name)
        if not isinstance(version, dict):
            continue
        others = version["names"] if version.get("problem") and name not in in_place else ()
        same = name in in_place or (leaves and leaves["own"][name] == version["own"][name])
        if not same:
            others = [*others, *env.holders_of(name)]
        if others := [each for each in others if each not in left]:
            causes.append(f"{name} is part of {', '.join(sorted(others))} now")
    return causes


def _out_of_order(cell_id: str, name: str, run: Run, env: Environment) -> str | None:
    """Say how a cell that was run by hand came to read what no cell above it has left."""
    origin = run.get("from", {}).get(name)
    if origin == cell_id:
        return f"{name} was left by an earlier run of this cell"
    if origin == "":
        return f"{name} was changed between two cells"
    if origin is not None and origin not in env.outputs:
        return f"{name} came from {origin}, which is not above it"
    return None


@dataclass
class Files:
    """What the disk has now, as far as cells read and wrote it."""

    now: FileNow
    # Which names are in a directory, given what cells have made or taken away by now: None is not
    # known, and taken to be as it was then.
    listing: Callable[[str, Mapping[str, bool | None], list[str] | str], list[str] | str]
    kind: Callable[[str], str]
    python: str
    last_writers: Mapping[str, str] = field(default_factory=dict)
    last_written: Mapping[str, str] = field(default_factory=dict)
    # Files that were not there before some cell made them.
    made_by: Mapping[str, str] = field(default_factory=dict)
    # What files were before the first cell that wrote them.
    first_before: Mapping[str, str] = field(default_factory=dict)
    # The model that is meant where none is named, if one is configured.
    model: str | None = None

    def model_causes(self, run: Run) -> list[str]:
        """Say whether another model is meant now where a cell named none."""
        then = run.get("default_model")
        if then is None or self.model is None or then == self.model:
            return []
        return [f"the default model was {then}, it is {self.model} now"]

    def causes(self, cell: CodeCell, run: Run, env: Environment) -> list[str]:
        """Say which files are no longer what the cell read, or left."""
        causes = self._read(run, env) + self._written(cell, run, env) + self._asked(run, env)
        return causes + [
            f"the files in {path} changed"
            for path, then in run["listed"].items()
            if self._listing(path, then, env) != then
        ]

    def _listing(self, folder: str, then: list[str] | str, env: Environment) -> list[str] | str:
        """Return what is in a directory after the cells so far."""
        left = env.files.get(folder, self.first_before.get(folder, ""))
        if isinstance(left, Changing):
            return then  # known once that cell has run
        if left == MISSING:
            return MISSING
        return self.listing(folder, self._there(env), then)

    def _there(self, env: Environment) -> dict[str, bool | None]:
        """Tell of what cells make or take away whether it is there by now, None if nobody knows.

        What only cells further down do has not happened yet.
        """
        found: dict[str, bool | None] = {}
        for path in {*self.last_written, *env.files}:
            left = env.files.get(path, self.first_before.get(path, ""))
            if isinstance(left, Changing):
                found[path] = None
            elif left:
                found[path] = left != MISSING
        return found

    def _read(self, run: Run, env: Environment) -> list[str]:
        causes = []
        for path, version in run["files_read"].items():
            if path in env.files:
                now = env.files[path]
                if isinstance(now, Changing):
                    causes.append(f"{path} from {now.cell_id} changes")
                    continue
            else:
                now = self.now(path, version)
                # The notebook's own later write is part of its story, not a change from outside.
                if now == self.last_written.get(path):
                    if self._came_early(path, version["hash"], by_hand=run.get("by_hand", False)):
                        causes.append(f"{path} came from {self.last_writers[path]}, below it")
                    continue
            if now != version["hash"]:
                causes.append(f"{path} {'is missing now' if now == MISSING else 'changed'}")
        return causes

    def _came_early(self, path: str, read: str, *, by_hand: bool) -> bool:
        """Tell whether a file had what only a cell further down writes.

        Either it was read by hand, or whoever wrote it stood above then.
        """
        before = self.first_before.get(path, read)
        if before == MISSING:
            return read != MISSING
        return by_hand and read == self.last_written[path] and read != before

    def _written(self, cell: CodeCell, run: Run, env: Environment) -> list[str]:
        if cell.effects:
            # What an effect left is the user's to change; but it builds on what cells above leave.
            return [f"{path} is written anew above" for path in cell.written if path in env.files]
        causes = []
        for path, version in (run["files_written"] | run.get("settled", {})).items():
            if self.last_writers.get(path) != cell.cell_id:
                continue
            now = self.now(path, version)
            if now != version["hash"]:
                gone = "was removed" if now == MISSING else "was changed"
                causes.append(f"{path} {gone} since it was written")
        for path, left in cell.folders.items():
            if self.last_writers.get(path) == cell.cell_id and self.kind(path) != left:
                came = "was made" if left == MISSING else "was removed"
                causes.append(f"{path} {came} since the cell ran")
        return causes

    def _asked(self, run: Run, env: Environment) -> list[str]:
        causes = []
        for path, then in run.get("asked", {}).items():
            left = env.files.get(path)
            if isinstance(left, Changing):
                continue  # known once that cell has run
            if left is None and path in self.last_written:
                # A cell further down makes it, or takes it away.
                if run.get("by_hand") and path in self.made_by and then != MISSING:
                    causes.append(f"{path} came from {self.made_by[path]}, below it")
                    continue
                left = self.first_before.get(path)
                if not left:
                    continue
            if left is not None:
                now = left if left in (MISSING, DIRECTORY) else "file"
            else:
                now = self.kind(path)
            if now != then:
                causes.append(f"{path} is {'missing' if now == MISSING else f'a {now}'} now")
        return causes


def last_writes(cells: Iterable[CodeCell]) -> tuple[dict[str, str], dict[str, str]]:
    """Return, for each file, the last cell that wrote it and what it left."""
    writers, written = {}, {}
    for cell in cells:
        settled = (cell.run or {}).get("settled", {})
        for path, version in cell.written.items():
            writers[path] = cell.cell_id
            written[path] = settled.get(path, version)["hash"]
        for path, left in cell.folders.items():
            writers[path] = cell.cell_id
            written[path] = left
    return writers, written


def first_versions(cells: Iterable[CodeCell]) -> dict[str, str]:
    """Return what is known of each file as it was before the first cell that wrote it."""
    found: dict[str, str] = {}
    for cell in cells:
        for path in (*cell.written, *cell.folders) if not cell.effects else ():
            found.setdefault(path, (cell.run or {}).get("before", {}).get(path, ""))
    return found


def makers(cells: Iterable[CodeCell]) -> dict[str, str]:
    """Return, for each file that was not there before, the cell that made it."""
    found: dict[str, str] = {}
    for cell in cells:
        for path, was in (cell.run or {}).get("before", {}).items():
            if was == MISSING:
                found.setdefault(path, cell.cell_id)
    return found


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
        "listed": {},
    }


def survey(
    cells: list[CodeCell], files: Files, start: Environment | None = None
) -> dict[str, list[str]]:
    """Return every cell that will run, or may once those above it have, with its causes."""
    env = start.copy() if start is not None else Environment()
    stale: dict[str, list[str]] = {}
    others = others_in(cells)
    for cell in cells:
        env.reach(cell)
        causes = causes_of(cell, env, files) or display_causes(cell, env, others)
        if not causes and cell.run is not None and cell.run["history"] and stale:
            causes = [f"shows earlier outputs, and {next(iter(stale))} runs again"]
        if causes:
            stale[cell.cell_id] = causes
            env.change(cell)
        elif cell.run is not None:
            env.keep(cell, cell.run)
        elif cell.source.strip() and "skip-execution" not in cell.tags:
            env.keep(cell, recorded_run(cell))
        else:
            env.outputs[cell.cell_id] = cell.output_hash
    return stale
