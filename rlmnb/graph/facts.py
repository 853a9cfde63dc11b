"""What one cell says of itself, apart from where it stands among the others.

Facts are plain dicts because they go to `index.json` as they are, ten thousand at a time.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from rlmnb import digest
from rlmnb.digest import derived_id
from rlmnb.errors import SchemaError
from rlmnb.format.migrations import migrate
from rlmnb.format.nbjson import source_of
from rlmnb.format.shown import shown_hash
from rlmnb.graph.names import names_of
from rlmnb.ids import is_nbformat_id

Facts = dict[str, Any]
NEW = "new"
"""The status of a code cell that has no record: a person added it, and it has not run."""

_TITLE = 100


def facts_of(cell: dict[str, Any], number: int, known: dict[str, Facts] | None = None) -> Facts:
    """Return the facts of the cell at this place; `known` spares parsing source again."""
    source = source_of(cell)
    kind = cell.get("cell_type")
    source_hash = digest.source_hash(source)
    facts: Facts = {
        "cell_id": _id_of(cell, number, source_hash),
        "type": kind if kind in ("markdown", "raw") else "repl",
        "status": None if kind in ("markdown", "raw") else NEW,
        "title": _title(source),
        "source_hash": source_hash,
        "input_hash": None,
        "output_hash": None,
    }
    if kind in ("markdown", "raw"):
        return facts
    record, problem = _record_of(cell)
    if problem:
        facts["problem"] = problem
    if record:
        facts |= _recorded(record, facts)
        if isinstance(record.get("run"), dict):
            facts["traced"] = True
        if _shows_another(cell, record):
            facts["reshown"] = True
    facts |= _named(source, source_hash, known)
    return facts


def _id_of(cell: dict[str, Any], number: int, source_hash: str) -> str:
    cell_id = cell.get("id")
    if is_nbformat_id(cell_id):
        return str(cell_id)
    return derived_id("without id", str(number), source_hash)


def _title(source: str) -> str:
    for line in source.splitlines():
        if line.strip():
            return line.strip()[:_TITLE]
    return ""


def _record_of(cell: dict[str, Any]) -> tuple[dict[str, Any] | None, str | None]:
    metadata = cell.get("metadata")
    record = metadata.get("rlmnb") if isinstance(metadata, dict) else None
    if record is None:
        return None, None
    if not isinstance(record, dict):
        return None, "its record is not an object"
    try:
        return migrate(record, f"cell {cell.get('id')}"), None
    except SchemaError as error:
        return None, error.message


def _shows_another(cell: dict[str, Any], record: dict[str, Any]) -> bool:
    """Tell whether a cell shows what its last known run did not: somebody else has run it.

    Outputs that were only cleared away do not count, unless they may never have been saved.
    """
    run = _mapping(record.get("run"))
    outputs = cell.get("outputs") or []
    if not isinstance(run.get("shown"), str) or not (outputs or run.get("by_hand")):
        return False
    return bool(shown_hash(outputs) != run["shown"])


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _versions(files: object) -> dict[str, Any]:
    return {
        path: {name: version.get(name) for name in ("hash", "size_bytes", "mtime_ns")}
        for path, version in _mapping(files).items()
        if isinstance(version, dict)
    }


def _listings(folders: object) -> dict[str, Any]:
    return {
        path: names
        for path, names in _mapping(folders).items()
        if isinstance(names, str)
        or (isinstance(names, list) and all(isinstance(each, str) for each in names))
    }


def _rests_on(record: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return files that a cell did not open itself: those it was shown, and its condition's.

    Only whole paths: where others begin is not known here.
    """
    shown = _mapping(_mapping(given.get("context_snapshot")).get("files"))
    condition = _mapping(record.get("invalidation_condition"))
    if condition.get("kind") == "file_changed" and _text(condition.get("hash")):
        shown = shown | {_text(condition.get("path")) or "": condition}
    return {
        path: version
        for path, version in _versions(shown).items()
        if path.startswith("/") or path[1:2] == ":"  # a drive's letter, on Windows
    }


def _condition(record: dict[str, Any]) -> dict[str, Any] | None:
    """Return the condition of a result that is held to another cell, or to the clock.

    It speaks of the result it was written with. A run of ours has made another one, which rests on
    what the run read, and has outlived a time that was over before.
    """
    condition = _mapping(record.get("invalidation_condition"))
    kind, ran = condition.get("kind"), isinstance(record.get("run"), dict)
    if kind == "cell_changed" and not ran:
        named = is_nbformat_id(condition.get("cell_id")) and _text(condition.get("hash"))
        return {key: condition[key] for key in ("cell_id", "hash")} if named else None
    if kind == "expired" and (ends := _seconds(condition.get("at"))) is not None:
        made = _seconds(record.get("completed_at")) if ran else None
        return {"at": condition["at"], "ends": ends} if made is None or made < ends else None
    return None


def _seconds(moment: object) -> float | None:
    """Return a recorded time as seconds since 1970; None if it is none, or in an unknown zone."""
    try:
        parsed = datetime.fromisoformat(str(moment))
        return parsed.timestamp() if parsed.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def _recorded(record: dict[str, Any], facts: Facts) -> Facts:
    """Return what the record adds. Nothing in it is trusted to have the right type."""
    found: Facts = {
        "type": _text(record.get("type")) or "repl",
        "status": _text(record.get("status")) or NEW,
        "created_at": _text(record.get("created_at")),
        "input_hash": _text(record.get("context_hash")),
        "output_hash": _text(record.get("output_hash")),
    }
    if record.get("source_hash") != facts["source_hash"]:
        found["edited"] = True
    was = record.get("cell_id")
    if is_nbformat_id(was) and was != facts["cell_id"]:
        found["was"] = was
    mark = _mapping(record.get("invalidated"))
    found["marked"] = _text(mark.get("reason")) if found["status"] == "invalidated" else None
    edges = record.get("dependencies")
    explicit = {
        str(edge["cell_id"]): str(edge.get("reason", "explicit"))
        for edge in (edges if isinstance(edges, list) else ())
        if isinstance(edge, dict) and is_nbformat_id(edge.get("cell_id"))
    }
    found["explicit"] = explicit
    given, run, result = (_mapping(record.get(key)) for key in ("input", "metadata", "output"))
    found["files_read"] = _rests_on(record, given) | _versions(record.get("files_read"))
    found["files_written"] = _versions(record.get("files_written"))
    found["listed"] = _listings(record.get("listed"))
    found["condition"] = _condition(record)
    found["operation"] = _text(given.get("operation"))
    found["model"] = _text(run.get("model"))
    found["tokens"] = run.get("tokens_used") if isinstance(run.get("tokens_used"), int) else None
    took = result.get("execution_time_ms")
    found["ms"] = took if isinstance(took, int | float) else None
    found["parent_id"] = _text(record.get("parent_id"))
    found["goal"] = _text(_mapping(record.get("trace")).get("goal"))
    always = ("type", "status", "input_hash", "output_hash")
    return {key: value for key, value in found.items() if value or key in always}


def _named(source: str, source_hash: str, known: dict[str, Facts] | None) -> Facts:
    before = (known or {}).get(source_hash)
    if before is not None and before["type"] not in ("markdown", "raw"):
        return {key: before[key] for key in ("reads", "writes", "opaque") if key in before}
    names = names_of(source)
    found = {"reads": list(names.reads), "writes": list(names.writes), "opaque": names.opaque}
    return {key: value for key, value in found.items() if value}
