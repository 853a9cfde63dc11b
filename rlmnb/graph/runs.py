"""The trace in a cell's record, if it is one: anybody can write anything into a notebook."""

from __future__ import annotations

from typing import Any

from rlmnb.graph.traces import Run


def run_of(record: object) -> Run | None:
    """Return the trace of a record; None where there is none, or where a hand has broken it."""
    run = record.get("run") if isinstance(record, dict) else None
    if not isinstance(run, dict):
        return None
    whole = (
        isinstance(run.get("reads"), dict)
        and _are_texts(run.get("deleted"))
        and isinstance(run.get("writes"), list)
        and all(_is_version(version) for version in run["writes"])
        and all(_are_files(run.get(key)) for key in ("files_read", "files_written"))
    )
    return run if whole else None


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_version(version: Any) -> bool:
    return (
        isinstance(version, dict)
        and _are_texts(version.get("names"))
        and isinstance(version.get("own"), dict)
        and isinstance(version.get("digest"), str)
        and all(isinstance(version["own"].get(name), str) for name in version["names"])
    )


def _are_files(files: Any) -> bool:
    return isinstance(files, dict) and all(
        isinstance(version, dict) and isinstance(version.get("hash"), str)
        for version in files.values()
    )
