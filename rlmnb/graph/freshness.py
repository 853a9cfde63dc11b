"""Which cells are stale, and why, in words a person understands.

A cell is fresh if everything it was made from is as it was. Staleness goes downstream only; the
old output stays where it is.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from rlmnb.capture.folders import called, listed, name_within
from rlmnb.digest import MISSING
from rlmnb.graph.facts import NEW
from rlmnb.graph.index import Index

_UNFINISHED = {
    "failed": "failed when it last ran",
    "invalidated": "was marked as no longer valid",
    "running": "has not finished",
    "suspended": "was interrupted",
}

# How a cause is worded that says no more than that a cell above is stale, or has run.
_FOLLOWS = re.compile(r" is stale \(| (changes|was made anew|runs again|is written anew above)$")
_REASON = re.compile(r", (?=variable |file |may )")
_CAME = re.compile(r"(?: from |^)(\S+?)(?:, which it depends on,)? changed$")


def begins(causes: Iterable[str], ran: Container[str] = ()) -> bool:
    """Tell whether a cell is stale by itself, not only because of cells above that are or ran."""
    return any(
        not _FOLLOWS.search(cause) and not ((came := _CAME.search(cause)) and came[1] in ran)
        for cause in causes
    )


def files_to_check(index: Index) -> dict[str, list[dict[str, Any]]]:
    """Return every file that a cell read, with the versions of it that cells found."""
    cells = index["cells"]
    wanted = {
        path: [
            cells[each]["files_read"][path]
            for each in ids
            if path in cells[each].get("files_read", ())
        ]
        for path, ids in index["readers"].items()
    }
    return {path: versions for path, versions in wanted.items() if versions}


def listings_to_check(index: Index) -> list[str]:
    """Return everything that cells have looked through."""
    cells = index["cells"]
    return [
        key
        for key, ids in index["readers"].items()
        if any(key in cells[each].get("listed", ()) for each in ids)
    ]


def find_stale(
    index: Index,
    files_now: Mapping[str, str],
    now: float = 0.0,
    names_now: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, list[str]]:
    """Return every stale cell with its causes; `files_now` maps a changed path to its digest.

    `now` is in seconds since 1970; where nobody says what time it is, nothing has expired.
    `names_now` has the names that each listing has today.

    Only cells that may be stale are looked at: the suspects, who read a changed file, and all
    that depends on those.
    """
    cells = index["cells"]
    place = {cell_id: at for at, cell_id in enumerate(index["execution_order"])}
    seen = set(index["suspects"])
    names_now = names_now or {}
    for path in (*files_now, *names_now):
        seen.update(index["readers"].get(path, ()))
    waiting = [(place[cell_id], cell_id) for cell_id in seen]
    heapq.heapify(waiting)
    stale: dict[str, list[str]] = {}
    while waiting:
        _, cell_id = heapq.heappop(waiting)
        entry = cells[cell_id]
        causes = _own_causes(entry) + condition_causes(entry, cells, now)
        causes += _file_causes(entry, index, files_now) + _listing_causes(entry, index, names_now)
        for parent in entry["dependencies"]:
            if parent in stale:
                causes += _following(parent, entry["reasons"][parent])
        if not causes:
            continue
        stale[cell_id] = causes
        for child in entry["dependents"]:
            if child not in seen:
                seen.add(child)
                heapq.heappush(waiting, (place[child], child))
    return stale


def _following(parent: str, reasons: str) -> list[str]:
    """Say what a cell takes from one that is stale, in the words of a replay."""
    causes = []
    for reason in _REASON.split(reasons):
        kind, _, what = reason.partition(" ")
        if kind in ("variable", "file"):
            causes.append(f"{what} from {parent} changes")
        elif kind == "may":
            causes.append(f"{parent} is stale ({reason})")
        else:
            causes.append(f"{parent}, which it depends on, changes")
    return list(dict.fromkeys(causes))


def condition_causes(
    entry: Mapping[str, Any], cells: Mapping[str, Mapping[str, Any]], now: float
) -> list[str]:
    """Say whether what a cell's own condition names has come: another cell changed, or a time."""
    condition = entry.get("condition", {})
    if "ends" in condition:
        return [f"expired at {condition['at']}"] if condition["ends"] <= now else []
    if "cell_id" not in condition:
        return []
    other = cells.get(condition["cell_id"])
    if other is None:
        return [f"{condition['cell_id']}, which its condition names, is gone"]
    # The hash may be one of what the cell does, or of what it shows.
    if condition["hash"] in (other["source_hash"], other["output_hash"]):
        return []
    return [f"{condition['cell_id']}, which its condition names, changed"]


def _file_causes(entry: dict[str, Any], index: Index, files_now: Mapping[str, str]) -> list[str]:
    causes = []
    for path, version in entry.get("files_read", {}).items():
        now = files_now.get(path, version.get("hash"))
        if now == version.get("hash"):
            continue
        writer, hash_written = _last_written(index, path)
        # The session's own later edit is part of the story, not a change from outside.
        if writer > entry["number"] and hash_written == now:
            continue
        causes.append(f"{path} {'is missing now' if now == MISSING else 'changed'}")
    return causes


def _listing_causes(
    entry: dict[str, Any], index: Index, names_now: Mapping[str, Sequence[str]]
) -> list[str]:
    causes = []
    for key, then in entry.get("listed", {}).items():
        if key not in names_now:
            continue
        # What the session itself has made or taken away below is part of the story.
        within = name_within(key)
        found = (within(path) for path in _written_below(entry, index))
        later = {name for name in found if name is not None}
        before = then if isinstance(then, list) else names_now[key]
        names = {*names_now[key]} - later | later.intersection(before)
        if listed(names, like=then) != then:
            causes.append(f"{called(key)} changed")
    return causes


def _written_below(entry: dict[str, Any], index: Index) -> Iterator[str]:
    for path in index["readers"]:
        if _last_written(index, path)[0] > entry["number"]:
            yield path


def _last_written(index: Index, path: str) -> tuple[int, str | None]:
    for cell_id in reversed(index["readers"].get(path, ())):
        entry = index["cells"][cell_id]
        if path in entry.get("files_written", ()):
            return entry["number"], entry["files_written"][path].get("hash")
    return 0, None


def _own_causes(entry: dict[str, Any]) -> list[str]:
    causes = []
    if entry["status"] == NEW:
        copied = entry.get("copy_of")
        causes.append(
            f"copied from {copied}, not run since" if copied else "has not been run by rlmnb"
        )
    elif entry.get("edited"):
        causes.append("source edited")
    if entry["status"] in _UNFINISHED:
        why = f": {entry['marked']}" if "marked" in entry else ""
        causes.append(_UNFINISHED[entry["status"]] + why)
    if "problem" in entry:
        causes.append(entry["problem"])
    causes += [f"depends on {gone}, which is gone" for gone in entry.get("missing", ())]
    causes += [
        "depends on itself"
        if low == entry["cell_id"]
        else f"depends on {low}, which stands below it"
        for low in entry.get("below", ())
    ]
    return causes
