"""What makes a session hard to follow and to replay, each with the reason and a way out.

A cell is best one step of the work: its result is kept and replayed as one. The limits are set so
that an ordinary notebook hears nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from rlmnb.graph.ambient import CHANCE, INITIAL, state_of
from rlmnb.graph.effects import effects_of
from rlmnb.graph.flow import Flow, Subject, flow_of
from rlmnb.graph.rules import RULES

__all__ = ["RULES", "Remark", "Subject", "remarks_on"]

IGNORE = "rlmnb:lint-ignore"
_LONG = 80
_LONG_DEFINITIONS = 250
_SLOW_MS = 30_000
_MANY_NAMES = 6
_MANY_WAYS = 3
_FINE_RUN = 5
_SHOWN = 4

_QUIET_STATE = ("$warnings", "$figures", "$logging", "$random", "$numpy.random", "$shell")
_STATE_WORDS = {
    "$cwd": "the working directory",
    "$environ": "environment variables",
    "$sys.path": "sys.path",
    "$locale": "the locale",
    "$python": "Python's own settings",
    "$directories": "the directories that %cd goes back to",
    "$recursion limit": "the recursion limit",
    "$patched": "a library's own attributes",
    "$builtins": "Python's built-in names",
}
_STATE_IN_CODE = {
    "$cwd": re.compile(r"\bos\.chdir\s*\(|^\s*%cd\b", re.MULTILINE),
    "$environ": re.compile(
        r"\bos\.environ\[[^\]]+\]\s*=[^=]|\bos\.putenv\s*\(|^\s*%env\s+\w+=", re.MULTILINE
    ),
    "$sys.path": re.compile(r"\bsys\.path\.(append|insert|extend)\s*\("),
}
_HISTORY = re.compile(r"_{1,3}|_i{1,3}|_i?\d+|Out|In|_oh|_ih|_dh")
_OPAQUE = re.compile(
    r"(?<![\w.])(exec|eval|globals|locals|vars)\s*\(|\bimport\s+(\*)|^\s*%(run|load)\b",
    re.MULTILINE,
)
# What may set variables of any name.
_SETS_ANY = re.compile(
    r"(?<![\w.])(exec|eval|globals|locals|setattr|vars)\s*\(|\bimport\s+\*"
    r"|^\s*%+(run|load|store|pylab|macro|rerun|recall|rep|sql|cython|bash|R)\b",
    re.MULTILINE,
)
# What cells find without setting it.
OFFERED = frozenset(
    {
        "allm_query", "cell", "conversation", "display", "exit", "get_ipython", "llm_query",
        "llm_query_batched", "map_reduce", "memory_query", "outline", "peek", "quit", "read_file",
        "rlm_query", "search", "split_context", "summarize", "tools", "verify", "working_memory",
    }
)  # fmt: skip
# Names that everybody uses again and again, and nobody confuses.
_THROWAWAY = frozenset({"ax", "axes", "fig", "out", "res", "row", "tmp", "temp", "line", "name"})


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing about one cell: what it is, why it matters, and what to do about it."""

    rule: str
    cell_id: str
    number: int
    message: str
    advice: str

    def as_dict(self) -> dict[str, Any]:
        """Return it for a script."""
        return asdict(self)


def remarks_on(cells: Sequence[Subject]) -> list[Remark]:
    """Return what there is to say, in the order of the notebook."""
    flow = flow_of(cells)
    silent = {cell.cell_id for cell in cells if IGNORE in cell.tags}
    found = [
        Remark(rule, cell.cell_id, cell.number, message, advice)
        for rule, look in _LOOKS.items()
        for cell, message, advice in look(flow)
        if cell.cell_id not in silent
    ]
    order = {rule: at for at, rule in enumerate(RULES)}
    return sorted(found, key=lambda each: (each.number, order[each.rule]))


Said = tuple[Subject, str, str]


def _too_coarse(flow: Flow) -> Iterator[Said]:
    for cell in flow.cells:
        if not cell.is_plain:
            continue
        limit = _LONG_DEFINITIONS if cell.shape.is_setup else _LONG
        if cell.shape.lines > limit and (cell.shape.statements > 1 or not cell.shape.is_setup):
            yield (
                cell,
                f"has {cell.shape.lines} lines; {limit} is a lot for one step",
                "a change anywhere in it runs all of it again: split it where a result is ready",
            )
            continue
        ways = _ways(flow, cell)
        names = sum(len(each) for each in ways)
        slow = (cell.entry.get("ms") or 0) >= _SLOW_MS
        if len(ways) >= _MANY_WAYS and names >= _MANY_NAMES:
            what = f"works out {names} variables that go {len(ways)} separate ways"
        elif slow and len(ways) >= 2:
            what = (
                f"takes {cell.entry['ms'] / 1000:.0f} s for {len(ways)} results that different "
                "cells need"
            )
        else:
            continue
        parts = "; ".join(_listed(sorted(each)) for each in ways[:_SHOWN])
        yield cell, f"{what}: {parts}", "a cell for each keeps the others when one of them changes"


def _ways(flow: Flow, cell: Subject) -> list[set[str]]:
    """Group what a cell works out by who reads it: names that one reader needs belong together."""
    by_reader: dict[str, set[str]] = {}
    for name, readers in flow.read_from(cell).items():
        if name in cell.shape.computed:
            for reader in readers:
                by_reader.setdefault(reader.cell_id, set()).add(name)
    groups: list[set[str]] = []
    for names in by_reader.values():
        touching = [group for group in groups if group & names]
        groups = [group for group in groups if not group & names]
        groups.append(names.union(*touching))
    return groups


def _too_fine(flow: Flow) -> Iterator[Said]:
    run: list[Subject] = []
    for cell in [*flow.cells, None]:
        if cell is not None and run and _goes_on(flow, run[-1], cell):
            run.append(cell)
            continue
        if len(run) >= _FINE_RUN:
            yield (
                run[0],
                f"begins {len(run)} cells of one line, each read only by the next of them",
                "one cell says the same, and is stored and replayed as one",
            )
        run = [cell] if cell is not None and _is_tiny(cell) else []


def _is_tiny(cell: Subject) -> bool:
    return cell.is_plain and cell.shape.lines == 1 and bool(cell.writes)


def _goes_on(flow: Flow, before: Subject, cell: Subject) -> bool:
    """Tell whether a cell only takes up what the tiny one right above it has made."""
    readers = {each.cell_id for found in flow.read_from(before).values() for each in found}
    return (
        cell.number == before.number + 1
        and cell.is_plain
        and cell.shape.lines == 1
        and not before.shows
        and readers == {cell.cell_id}
    )


def _unused(flow: Flow) -> Iterator[Said]:
    last = flow.cells[-1] if flow.cells else None
    early = _early_in(flow)
    for cell in flow.cells:
        if (
            not cell.is_plain
            or cell is last  # the work may go on from there
            or cell.shows
            or not cell.writes
            or not cell.shape.only_assigns
            or cell.shape.only_imports
            or cell.number < flow.opaque_until
            or cell.entry["status"] == "failed"
            or cell.entry.get("files_written")
            or cell.hidden_writes
            or cell.writes & flow.called_for
            or cell.writes & early
            or _is_named_as_dependency(cell)
            or flow.read_from(cell)
        ):
            continue
        again = [
            name for name in sorted(cell.writes) if flow.writers[name][-1].number > cell.number
        ]
        why = f" ({_listed(again)}: set again before it is read)" if again else ""
        yield (
            cell,
            f"sets {_listed(sorted(cell.writes))}, which no cell below reads{why}",
            "remove it, or show the result",
        )


def _early_in(flow: Flow) -> frozenset[str]:
    """Return the variables that cells read above the first cell that sets them."""
    first_set = {name: writers[0] for name, writers in flow.writers.items()}
    return frozenset(name for cell in flow.cells for name, _ in _read_too_early(cell, first_set))


def _is_named_as_dependency(cell: Subject) -> bool:
    return bool(cell.entry.get("dependents"))


def _hidden_state(flow: Flow) -> Iterator[Said]:
    work_began = False
    for cell in flow.cells:
        if cell.is_plain:
            yield from _changed_state(cell, late=work_began)
            yield from _unseeded(cell)
            yield from _history(flow, cell)
        work_began = work_began or not cell.shape.is_setup


def _changed_state(cell: Subject, *, late: bool) -> Iterator[Said]:
    written = dict.fromkeys(map(state_of, cell.hidden_writes))
    names = [
        name for name in written if name not in _QUIET_STATE and not name.startswith("$module:")
    ]
    if cell.trace is None:
        names = [name for name, pattern in _STATE_IN_CODE.items() if pattern.search(cell.source)]
    # A library sets itself up when it is imported, and options belong at the top.
    names = [
        name
        for name in names
        if name == "$cwd" or (late and not re.search(rf"\bimport {name[1:]}\b", cell.source))
    ]
    if names:
        told = _listed([_STATE_WORDS.get(name, f"the options of {name[1:]}") for name in names])
        where = "every cell below runs under that"
        if "$cwd" in names:
            advice = "use whole paths: what a relative path means hangs on which cells have run"
        else:
            advice = "set it in the first cell, before any work is done"
        yield cell, f"changes {told}: {where}", advice


def _unseeded(cell: Subject) -> Iterator[Said]:
    reads = cell.trace["reads"] if cell.trace is not None else {}
    drawn = [name[1:] for name in CHANCE if reads.get(name) == INITIAL]
    if drawn and not re.search(r"seed|random_state|setstate|set_state", cell.source):
        yield (
            cell,
            f"draws from {_listed(drawn)}, which no cell above has seeded",
            "seed it at the top, or the result is another at every run",
        )


def _history(flow: Flow, cell: Subject) -> Iterator[Said]:
    named = {name for name in cell.reads_at_once if _HISTORY.fullmatch(name)}
    named -= flow.writers.keys()
    traced = cell.trace is not None and cell.trace.get("history")
    if named or traced:
        told = _listed(sorted(named)) or "earlier outputs"
        yield (
            cell,
            f"takes {told} from the history of the kernel: it depends on which cell ran before",
            "give the result a name where it is made, and use that",
        )


def _opaque(flow: Flow) -> Iterator[Said]:
    for cell in flow.cells:
        match = _OPAQUE.search(cell.source) if cell.is_plain else None
        known = cell.entry.get("opaque") or (cell.trace is not None and cell.trace.get("opaque"))
        if match is None or not known:
            continue
        call, star, magic = match.groups()
        word = f"{call}()" if call else ("import *" if star else f"%{magic}")
        yield (
            cell,
            f"uses {word}: nobody can tell which variables it reads or sets, so it is tied to all",
            "name what it needs and what it sets",
        )


def _order(flow: Flow) -> Iterator[Said]:
    by_id = {cell.cell_id: cell for cell in flow.cells}
    first_set = {name: writers[0] for name, writers in flow.writers.items()}
    for cell in flow.cells:
        for below in cell.entry.get("below", ()):
            place = f"cell {by_id[below].number}" if below in by_id else below
            yield cell, f"depends on {place}, which stands below it", "move one of the two"
        late = _read_too_early(cell, first_set)
        if late:
            told = ", ".join(f"{name} (cell {at})" for name, at in late[:_SHOWN])
            yield (
                cell,
                f"reads what only cells below set: {told}",
                "from top to bottom it fails: move it below them",
            )
    yield from _redefined(flow)


def _unset(flow: Flow) -> Iterator[Said]:
    """Find names that no cell sets: whoever did is gone, or was another kernel."""
    for cell in flow.cells:
        if not cell.is_plain:
            continue
        if _SETS_ANY.search(cell.source):
            return
        ran = cell.trace is not None and not cell.trace.get("failed")
        read = cell.reads if ran else cell.reads_at_once
        lost = [
            name
            for name in sorted(read - flow.writers.keys() - OFFERED)
            if not _HISTORY.fullmatch(name) and not name.startswith("__")
        ]
        if lost:
            yield (
                cell,
                f"reads {_listed(lost)}, which no cell sets",
                "in a new kernel it fails: bring back the cell that did, or set it above",
            )


def _read_too_early(cell: Subject, first_set: dict[str, Subject]) -> list[tuple[str, int]]:
    if cell.trace is not None and not cell.trace.get("failed"):
        return []  # it ran from top to bottom
    return [
        (name, first_set[name].number)
        for name in sorted(cell.reads_at_once)
        if name in first_set and first_set[name].number > cell.number
    ]


def _redefined(flow: Flow) -> Iterator[Said]:
    """Find names that mean one thing to some cells and another to others further down."""
    for name, writers in flow.writers.items():
        if len(name) < 3 or name in _THROWAWAY or len(writers) < 2:
            continue
        for before, again in pairwise(writers):
            between = flow.read_from(before).get(name, ())
            after = flow.read_from(again).get(name, ())
            same = name in again.reads or name in again.entry.get("reads", ())
            if not between or not after or same or not _is_made_anew(again, name):
                continue
            what = (
                f"sets {name} anew: {_cells(between)} read what cell {before.number} set, "
                f"{_cells(after)} what this one does"
            )
            yield again, what, "another name for it: out of order, a cell would take the wrong one"
            break


def _is_made_anew(cell: Subject, name: str) -> bool:
    return cell.is_plain and name in cell.shape.computed


def _effect_in_chain(flow: Flow) -> Iterator[Said]:
    by_id = {cell.cell_id: cell for cell in flow.cells}
    for cell in flow.cells:
        effects = effects_of(cell.source, cell.entry.get("operation"), cell.run)
        if not effects:
            continue
        above = [by_id[each] for each in cell.entry["dependencies"] if each in by_id]
        below = [by_id[each] for each in cell.entry["dependents"] if each in by_id]
        if above and below:
            what = (
                f"{_listed(effects)} changes the world between {_cells(above)} and "
                f"{_cells(below)}: "
                "a change above cannot be carried through it without doing that again"
            )
            yield cell, what, "end a chain with its effect; begin another by reading what it left"


def _not_storable(flow: Flow) -> Iterator[Said]:
    """Find what cannot be stored and is needed again and again.

    Whatever reads such a value may have changed it, so its trace counts as writing it too; the
    cell that made it is the one whose code sets the name.
    """
    made: dict[str, _Unstorable] = {}
    found: list[_Unstorable] = []
    for cell in flow.cells:
        for name in cell.reads & made.keys():
            made[name].readers.append(cell)
        for version in cell.trace["writes"] if cell.trace is not None else ():
            for name in version["names"]:
                anew = name not in made or name in cell.entry.get("writes", ())
                if not version.get("problem"):
                    made.pop(name, None)
                elif anew and not name.startswith(("$", "__")):
                    made[name] = _Unstorable(cell, name, str(version["problem"]), [])
                    found.append(made[name])
    for each in found:
        if len(each.readers) >= 2:
            what = (
                f"{each.name} cannot be stored ({each.problem}), and {_cells(each.readers)} need "
                "it: when one of them runs, so does this"
            )
            yield each.cell, what, "keep what can be stored, and make the rest where it is used"


@dataclass(frozen=True, slots=True)
class _Unstorable:
    cell: Subject
    name: str
    problem: str
    readers: list[Subject]


def _listed(words: Iterable[str]) -> str:
    words = list(words)
    shown = ", ".join(words[:_SHOWN])
    return shown + (f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else "")


def _cells(cells: Sequence[Subject]) -> str:
    numbers = sorted({cell.number for cell in cells})
    return f"{'cell' if len(numbers) == 1 else 'cells'} {_listed(str(each) for each in numbers)}"


_LOOKS = {
    "too-coarse": _too_coarse,
    "too-fine": _too_fine,
    "unused": _unused,
    "hidden-state": _hidden_state,
    "opaque": _opaque,
    "order": _order,
    "unset": _unset,
    "effect-in-chain": _effect_in_chain,
    "not-storable": _not_storable,
}
