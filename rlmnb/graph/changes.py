"""What people and other tools did to a notebook between two readings of it."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise

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
        if text := _arrival(entry):
            findings.append(Finding(text[0], cell_id, text[1]))
            if text[0] == "renamed":
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


def _arrival(entry: dict[str, str]) -> tuple[str, str] | None:
    if "duplicate_of" in entry:
        return "duplicate", f"had the id of another cell, {entry['duplicate_of']}"
    if "copy_of" in entry:
        return "copied", f"was copied or split from {entry['copy_of']}"
    if "was" in entry:
        return "renamed", f"was {entry['was']} before another tool changed its id"
    if entry["status"] == NEW:
        return "added", "was added by hand"
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
