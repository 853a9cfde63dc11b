"""Which cells are stale, and why, in words a person understands.

A cell is fresh if everything it was made from is as it was. Staleness goes downstream only; the
old output stays where it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlmnb.digest import MISSING
from rlmnb.graph.facts import NEW
from rlmnb.graph.index import Index

_UNFINISHED = {
    "failed": "failed when it last ran",
    "invalidated": "was marked as no longer valid",
    "running": "has not finished",
    "suspended": "was interrupted",
}


def files_to_check(index: Index) -> dict[str, list[dict[str, Any]]]:
    """Return every file that a cell read, with the versions of it that cells found."""
    wanted: dict[str, list[dict[str, Any]]] = {}
    for entry in index["cells"].values():
        for path, version in entry.get("files_read", {}).items():
            wanted.setdefault(path, []).append(version)
    return wanted


def find_stale(index: Index, files_now: Mapping[str, str]) -> dict[str, list[str]]:
    """Return every stale cell with its causes; `files_now` maps a path to its digest today."""
    cells = index["cells"]
    last_written = _last_written(index)
    stale: dict[str, list[str]] = {}
    for cell_id in index["execution_order"]:
        entry = cells[cell_id]
        causes = _own_causes(entry)
        for path, version in entry.get("files_read", {}).items():
            now = files_now.get(path, version.get("hash"))
            if now == version.get("hash"):
                continue
            writer, hash_written = last_written.get(path, (0, None))
            # The session's own later edit is part of the story, not a change from outside.
            if writer > entry["number"] and hash_written == now:
                continue
            causes.append(f"{path} {'is missing now' if now == MISSING else 'changed'}")
        for parent in entry["dependencies"]:
            if parent in stale:
                causes.append(f"{parent} is stale ({entry['reasons'][parent]})")
        if causes:
            stale[cell_id] = causes
    return stale


def _last_written(index: Index) -> dict[str, tuple[int, str | None]]:
    written: dict[str, tuple[int, str | None]] = {}
    for entry in index["cells"].values():
        for path, version in entry.get("files_written", {}).items():
            written[path] = (entry["number"], version.get("hash"))
    return written


def _own_causes(entry: dict[str, Any]) -> list[str]:
    causes = []
    if entry["status"] == NEW:
        copied = entry.get("copy_of")
        causes.append(f"copied from {copied}, not run since" if copied else "has never run")
    elif entry.get("edited"):
        causes.append("source edited")
    if entry["status"] in _UNFINISHED:
        causes.append(_UNFINISHED[entry["status"]])
    if "problem" in entry:
        causes.append(entry["problem"])
    causes += [f"depends on {gone}, which is gone" for gone in entry.get("missing", ())]
    causes += [f"depends on {low}, which stands below it" for low in entry.get("below", ())]
    return causes
