"""Link the facts of all cells into the DAG that `index.json` holds."""

from __future__ import annotations

import heapq
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rlmnb.digest import derived_id
from rlmnb.format.version import INDEX
from rlmnb.graph.facts import NEW, Facts
from rlmnb.ids import CellId

Index = dict[str, Any]
_STORY = ("markdown", "raw")
_FINISHED = frozenset({"completed", "promoted"})
_ODD = frozenset({"edited", "problem", "missing", "below", "condition"})
_TOUCHED = ("files_read", "files_written", "listed")
# What is said of a cell because of where it stands among the others.
_LINKS = frozenset({"number", "dependencies", "dependents", "reasons", "missing", "below"})


def link(facts: Sequence[Facts], about: Mapping[str, Any]) -> Index:
    """Return the index of a notebook whose cells have these facts, in this order.

    `about` tells what is not in the cells: the session, the generation, the notebook's digest.
    """
    entries = _identified(facts)
    writers = _Writers()
    aliases = _aliases(entries)
    for entry in entries.values():
        _connect(entry, entries, aliases, writers)
    for cell_id, entry in entries.items():
        for parent in entry["dependencies"]:
            entries[parent]["dependents"].append(cell_id)
    nodes = [entry["cell_id"] for entry in entries.values() if entry["type"] not in _STORY]
    order, cycles = _order(entries, nodes)
    return {
        "version": INDEX,
        **about,
        "cells": entries,
        "roots": [node for node in nodes if not entries[node]["dependencies"]],
        "leaves": [node for node in nodes if not entries[node]["dependents"]],
        "execution_order": order,
        "cycles_detected": cycles,
        "cell_count": len(entries),
        "tangled": any("was" in entry for entry in entries.values()),
        # Whether any cell was run by us, so that traces say what is stale.
        "traced": any("traced" in entry for entry in entries.values()),
        "suspects": [node for node in nodes if is_suspect(entries[node])],
        "readers": _readers(entries.values()),
        "writers": writers.as_dict(),
    }


def extend(
    old: Index, facts: Sequence[Facts], about: Mapping[str, Any]
) -> tuple[Index, dict[str, Facts]] | None:
    """Return the index with cells added at the end, and the entries that are new or changed.

    The work follows what is added. None where an addition may change what earlier cells mean: an
    id that was taken or missed, or a record from elsewhere.
    """
    cells = old["cells"]
    if (
        old["tangled"]
        or old["cycles_detected"]
        or any("was" in fact or fact["cell_id"] in cells for fact in facts)
    ):
        return None
    if any("missing" in cells[each] for each in old["suspects"]):
        return None
    added = {entry["cell_id"]: entry for entry in _identified(facts, start=len(cells) + 1).values()}
    if len(added) < len(facts) or any("duplicate_of" in entry for entry in added.values()):
        return None
    known = ChainMap(added, cells)
    writers = _Writers(old["writers"])
    changed = dict(added)
    for entry in added.values():
        _connect(entry, known, {}, writers)
        if "below" in entry:
            return None
        for parent in entry["dependencies"]:
            if parent not in changed:
                before = cells[parent]
                changed[parent] = {**before, "dependents": list(before["dependents"])}
            changed[parent]["dependents"].append(entry["cell_id"])
    nodes = [entry["cell_id"] for entry in added.values() if entry["type"] not in _STORY]
    fed = {parent for entry in added.values() for parent in entry["dependencies"]}
    readers = {path: list(ids) for path, ids in old["readers"].items()}
    for path, ids in _readers(added.values()).items():
        readers.setdefault(path, []).extend(ids)
    index = {
        **old,
        **about,
        "roots": old["roots"] + [node for node in nodes if not added[node]["dependencies"]],
        "leaves": [each for each in old["leaves"] + nodes if each not in fed],
        "execution_order": old["execution_order"] + nodes,
        "cell_count": len(cells) + len(added),
        "traced": bool(old.get("traced")) or any("traced" in entry for entry in added.values()),
        "suspects": old["suspects"] + [node for node in nodes if is_suspect(added[node])],
        "readers": readers,
        "writers": writers.as_dict(),
    }
    return index, changed


def facts_in(entry: Facts) -> Facts:
    """Return what an entry of an index that is not tangled says of its cell alone."""
    return {key: value for key, value in entry.items() if key not in _LINKS}


def is_suspect(entry: Facts) -> bool:
    """Tell whether a cell may be stale by what it says itself, whatever its files and parents."""
    return entry["status"] not in _FINISHED or not _ODD.isdisjoint(entry)


def _readers(entries: Iterable[Facts]) -> dict[str, list[str]]:
    """Return, for each file and each listing, the cells that touched it."""
    readers: dict[str, list[str]] = {}
    for entry in entries:
        touched = [each for kind in _TOUCHED for each in entry.get(kind, ())]
        for path in dict.fromkeys(touched):
            readers.setdefault(path, []).append(entry["cell_id"])
    return readers


def _identified(facts: Sequence[Facts], start: int = 1) -> dict[str, Facts]:
    """Give each cell its number, and the second bearer of an id one of its own."""
    entries: dict[str, Facts] = {}
    taken = {fact["cell_id"] for fact in facts}
    for number, fact in enumerate(facts, start):
        entry = {**fact, "number": number, "dependencies": [], "dependents": [], "reasons": {}}
        if fact["cell_id"] in entries:
            entry["duplicate_of"] = entry["was"] = fact["cell_id"]
            occurrence = 1
            while (new := derived_id("duplicate", fact["cell_id"], str(occurrence))) in taken:
                occurrence += 1
            entry["cell_id"] = new
            taken.add(new)
        entries[entry["cell_id"]] = entry
    return entries


def _aliases(entries: dict[str, Facts]) -> dict[str, str]:
    """Find out which cell bears each id that a record was written under but no cell has now.

    Tools that rename cells keep the record; a split leaves two cells with one record, a paste
    makes a copy of it. The cell whose source is still the recorded one is that cell; failing
    that the last, which is where JupyterLab leaves the outputs of a split. The others are new.
    """
    claims: dict[str, list[Facts]] = {}
    for entry in entries.values():
        if "was" in entry:
            claims.setdefault(entry["was"], []).append(entry)
    aliases = {}
    for old, claimants in claims.items():
        heir = None
        if old not in entries:
            heir = next((c for c in claimants if not c.get("edited")), claimants[-1])
            aliases[old] = heir["cell_id"]
        for claimant in claimants:
            if claimant is not heir:
                claimant["copy_of"] = old
                claimant["status"] = NEW
    return aliases


class _Writers:
    """Who wrote each variable and file last, going down the notebook."""

    def __init__(self, known: Mapping[str, Any] | None = None) -> None:
        known = known or {}
        self._variables: dict[str, str] = dict(known.get("variables", {}))
        self._files: dict[str, str] = dict(known.get("files", {}))
        self._opaque: str | None = known.get("opaque")

    def as_dict(self) -> dict[str, Any]:
        """Return all of it, for going on from there."""
        return {"variables": self._variables, "files": self._files, "opaque": self._opaque}

    def inferred(self, entry: Facts) -> Iterator[tuple[str, str]]:
        """Yield each cell above that this one takes something from, and what."""
        for name in entry.get("reads", ()):
            if (writer := self._variables.get(name)) is not None:
                yield writer, f"variable {name}"
            elif self._opaque is not None:
                yield self._opaque, f"may set {name}"
        if entry.get("opaque"):
            for writer in dict.fromkeys(self._variables.values()):
                yield writer, "may read any variable"
        for path in entry.get("files_read", ()):
            if (writer := self._files.get(path)) is not None:
                yield writer, f"file {path}"

    def note(self, entry: Facts) -> None:
        """Take down what this cell writes."""
        cell_id = entry["cell_id"]
        self._variables |= dict.fromkeys(entry.get("writes", ()), cell_id)
        self._files |= dict.fromkeys(entry.get("files_written", ()), cell_id)
        if entry.get("opaque"):
            self._opaque = cell_id


def _connect(
    entry: Facts,
    entries: Mapping[str, Facts],
    aliases: Mapping[str, str],
    writers: _Writers,
) -> None:
    if entry["type"] in _STORY:
        return
    reasons: dict[str, list[str]] = {}
    missing = []
    for named, reason in entry.get("explicit", {}).items():
        parent = named if named in entries else aliases.get(named)
        if parent is None:
            missing.append(named)
        else:
            reasons.setdefault(parent, []).append(reason)
    for parent, reason in writers.inferred(entry):
        reasons.setdefault(parent, []).append(reason)
    _set_edges(entry, reasons, missing, entries)
    writers.note(entry)


def _set_edges(
    entry: Facts, reasons: dict[str, list[str]], missing: list[str], entries: Mapping[str, Facts]
) -> None:
    parents = sorted(reasons, key=lambda parent: entries[parent]["number"])
    entry["dependencies"] = parents
    entry["reasons"] = {parent: ", ".join(reasons[parent]) for parent in parents}
    if missing:
        entry["missing"] = missing
    # A cell that names itself stands below itself too: it can never run first.
    below = [parent for parent in parents if entries[parent]["number"] >= entry["number"]]
    if below:
        entry["below"] = below


def _order(entries: dict[str, Facts], nodes: list[str]) -> tuple[list[str], list[list[str]]]:
    """Put parents first; cells free to move keep their notebook order. Also return the cycles."""
    if not any("below" in entry for entry in entries.values()):
        return nodes, []
    waiting = {node: len(entries[node]["dependencies"]) for node in nodes}
    ready = [(entries[node]["number"], node) for node in nodes if not waiting[node]]
    heapq.heapify(ready)
    order = []
    while ready:
        _, node = heapq.heappop(ready)
        order.append(node)
        for child in entries[node]["dependents"]:
            waiting[child] -= 1
            if not waiting[child]:
                heapq.heappush(ready, (entries[child]["number"], child))
    done = set(order)
    stuck = [node for node in nodes if node not in done]
    return order + stuck, _cycles(entries, stuck)


def _cycles(entries: dict[str, Facts], stuck: list[str]) -> list[list[str]]:
    """Return each cycle once as its cells in order, the first of them again at the end."""
    left = set(stuck)
    cycles = []
    for start in stuck:
        if start not in left:
            continue
        path = [start]
        while True:
            step = next((p for p in entries[path[-1]]["dependencies"] if p in left), None)
            if step is None:
                break
            if step in path:
                cycle = path[path.index(step) :]
                cycles.append([*cycle, step])
                left -= set(cycle)
                break
            path.append(step)
        left -= set(path)
    return cycles


def upstream(index: Index, cell_id: str) -> dict[CellId, int]:
    """Return every cell this one depends on, with the least number of edges to it."""
    return _reach(index, cell_id, "dependencies")


def downstream(index: Index, cell_id: str) -> dict[CellId, int]:
    """Return every cell that depends on this one, with the least number of edges to it."""
    return _reach(index, cell_id, "dependents")


def _reach(index: Index, cell_id: str, direction: str) -> dict[CellId, int]:
    cells = index["cells"]
    found: dict[CellId, int] = {}
    edge, depth = [cell_id], 0
    while edge:
        depth += 1
        following = []
        for node in edge:
            for other in cells[node][direction]:
                if other not in found and other != cell_id:
                    found[CellId(other)] = depth
                    following.append(other)
        edge = following
    return dict(sorted(found.items(), key=lambda item: cells[item[0]]["number"]))
