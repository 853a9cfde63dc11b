"""Freshness by traces: a cell holds while everything it read is what it read then.

Going down the notebook, what each cell left is taken in, so nothing is run and nothing is loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rlmnb.graph.ambient import CHANCE, INITIAL, spoken, state_of
from rlmnb.graph.code import code_hash
from rlmnb.graph.disk import Files
from rlmnb.graph.environment import (
    ABSENT,
    RECORDED,
    Changing,
    CodeCell,
    Environment,
    Run,
    recorded_run,
)
from rlmnb.graph.names import names_of


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
    causes += [
        f"what it shows names lines of {other}, which was edited"
        for other, seen in run.get("lines", {}).items()
        if env.sources.get(other, seen) != seen
    ]
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
        return ["looks at earlier outputs or inputs, whose order only a replay makes certain"]
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
    # Something that is shown names their lines: a warning, a traceback that a cell has printed.
    lines: Mapping[str, str]


def others_in(cells: Iterable[CodeCell]) -> Others:
    """Look at all cells of a notebook."""
    runs = [(cell, cell.run) for cell in cells if cell.run is not None]
    return Others(
        frozenset(cell.cell_id for cell, run in runs if not _is_edited(cell, run)),
        {other: seen for _, run in runs for other, seen in run.get("traced", {}).items()},
        {other: seen for _, run in runs for other, seen in run.get("lines", {}).items()},
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
    elif others.lines.get(cell.cell_id, cell.source_hash) != cell.source_hash:
        causes.append("another cell shows numbers of its lines, and it was edited")
    return causes + [
        f"it changes what {env.displays[each]} shows, which runs again"
        for each in run.get("updates", ())
        if each in env.displays
    ]


def _causes_without_run(cell: CodeCell, env: Environment, files: Files) -> list[str]:
    if not cell.recorded:
        last = "failed when it last ran" if cell.broken else "has not been run by rlmnb"
        return [] if cell.marked else ["source edited" if cell.edited else last]
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
    ambient = env.ambient_reads(run) if env.ambient else {}
    reads = dict.fromkeys(ambient, INITIAL) | run["reads"] if ambient else run["reads"]
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
            now, shown = ambient[name] if name in ambient else env.own(name), name
        if now == then or now == run.get("or_read", {}).get(name):
            continue
        if run.get("by_hand") and name in CHANCE and name not in env.names:
            continue  # a generator that no cell above has seeded may be anywhere
        told.add(shown)
        said = spoken(shown)
        if isinstance(now, Changing):
            causes.append(f"{said} from {now.cell_id} changes")
            continue
        if (strange := _out_of_order(cell_id, shown, run, env)) is not None:
            causes.append(strange)
            continue
        producer = env.producer(shown)
        if now == ABSENT:
            causes.append(f"{said} is set by no cell above")
        elif then == ABSENT:
            causes.append(f"{said} is set now, by {producer}")
        else:
            causes.append(f"{said} from {producer} changed" if producer else f"{said} changed")
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
    for each, origin in run.get("from", {}).items():
        if each != name and (name[:1] != "$" or state_of(each) != name):
            continue
        if origin == cell_id:
            return f"{spoken(each)} was left by an earlier run of this cell"
        if origin == "":
            return f"{spoken(each)} was changed between two cells"
        if origin not in env.outputs:
            return f"{spoken(each)} came from {origin}, which is not above it"
        if each in run.get("found", ()) and env.own(each) == INITIAL:
            return f"{spoken(each)} was left by an earlier run of {origin}"
    return None


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
