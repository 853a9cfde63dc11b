"""What people and other tools did to a notebook between two readings of it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from rlmnb.graph.facts import NEW
from rlmnb.graph.index import Index


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that happened to a cell outside rlmnb."""

    kind: str
    cell_id: str
    text: str


def changes_between(old: Index | None, new: Index) -> list[Finding]:
    """Say what happened since the old index was made; without one, only what the cells show."""
    cells = new["cells"]
    before = old["cells"] if old else {}
    findings = []
    renamed = set()
    for cell_id, entry in cells.items():
        if cell_id in before or (old is None and entry["status"] == NEW and "was" not in entry):
            continue  # at first sight, a person's own cells are no news
        if found := _arrival(entry):
            findings.append(found)
            if found.kind == "renamed":
                renamed.add(entry["was"])
    findings += [
        Finding("deleted", cell_id, "was deleted")
        for cell_id in before
        if cell_id not in cells and cell_id not in renamed
    ]
    findings += [
        Finding("moved", cell_id, "was moved")
        for cell_id in _moved([each for each in before if each in cells], cells)
    ]
    for cell_id, entry in cells.items():
        known = before.get(cell_id)
        if known and known["source_hash"] != entry["source_hash"]:
            findings.append(Finding("edited", cell_id, "was edited"))
    for cell_id, entry in cells.items():
        if "missing" in entry and "missing" not in before.get(cell_id, {}):
            gone = ", ".join(entry["missing"])
            findings.append(Finding("dangling", cell_id, f"depends on {gone}, which is gone"))
    return findings + [
        Finding("cycle", cycle[0], f"is in a cycle: {' → '.join(cycle)}")
        for cycle in new["cycles_detected"]
    ]


def arrivals(entries: Iterable[dict[str, Any]]) -> list[Finding]:
    """Say which of these cells, all of them new, did not come from an agent."""
    return [found for entry in entries if (found := _arrival(entry))]


def _arrival(entry: dict[str, Any]) -> Finding | None:
    cell_id = entry["cell_id"]
    if "duplicate_of" in entry:
        return Finding("duplicate", cell_id, f"had the id of {entry['duplicate_of']}")
    if "copy_of" in entry:
        return Finding("copied", cell_id, f"was copied or split from {entry['copy_of']}")
    if "was" in entry:
        changed = "before another tool changed its id"
        return Finding("renamed", cell_id, f"was {entry['was']} {changed}")
    if entry["status"] == NEW:
        return Finding("added", cell_id, "was added by hand")
    return None


def _moved(common: list[str], cells: dict[str, dict[str, int]]) -> list[str]:
    """Return the fewest cells whose moving explains the new order."""
    positions = [cells[cell_id]["number"] for cell_id in common]
    if all(one < two for one, two in pairwise(positions)):
        return []
    ends: list[int] = []
    holders: list[int] = []
    before: list[int | None] = []
    for place, position in enumerate(positions):
        length = bisect_left(ends, position)
        before.append(holders[length - 1] if length else None)
        if length == len(ends):
            ends.append(position)
            holders.append(place)
        else:
            ends[length], holders[length] = position, place
    stayed = set()
    step: int | None = holders[-1]
    while step is not None:
        stayed.add(step)
        step = before[step]
    return [cell_id for place, cell_id in enumerate(common) if place not in stayed]
