"""Sessions as lines of JSON for other programs: traces, decisions, events."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from rlmnb.format.nbjson import source_of
from rlmnb.session import Session
from rlmnb.store import journal

KINDS = ("traces", "decisions", "events")
_TRACE = ("goal", "decision", "rationale")
_LONGEST = 200


def lines(session: Session, kind: str) -> Iterator[str]:
    """Yield what was asked for, a JSON object to a line."""
    found = _events(session) if kind == "events" else _traces(session)
    for each in found:
        if kind != "decisions" or each["decision"]:
            yield json.dumps(each, ensure_ascii=False)


def _traces(session: Session) -> Iterator[dict[str, Any]]:
    """Yield every cell that says why it was made."""
    for cell in session.cells:
        record = cell.raw["metadata"].get("rlmnb")
        trace = record.get("trace") if isinstance(record, dict) else None
        if not isinstance(record, dict) or not isinstance(trace, dict):
            continue
        told = {key: trace.get(key) for key in _TRACE}
        if not any(told.values()):
            continue
        yield {
            "session_id": session.id,
            "cell_id": cell.cell_id,
            "number": cell.number,
            "at": record.get("created_at"),
            "type": cell.type,
            "operation": cell.entry.get("operation"),
            "status": cell.status,
            **told,
        }


def _events(session: Session) -> Iterator[dict[str, Any]]:
    """Yield all that was written, in order: what the journal has, else the cells themselves."""
    entries = journal.all_entries(session.place.journal)
    if not entries or not os.path.lexists(session.place.journal):
        for cell in session.cells:
            yield {"session_id": session.id, "op": "append", **_cell(cell.raw)}
        return
    for entry in entries:
        told: dict[str, Any] = {"session_id": session.id}
        told |= {key: entry.get(key) for key in ("seq", "at", "op")}
        if entry.get("op") == "append" and isinstance(entry.get("cell"), dict):
            told |= _cell(entry["cell"])
        elif entry.get("op") == "create":
            told["state"] = entry.get("state")
        else:
            more = ("cell_id", "record", "set", "remove", "cells")
            told |= {key: entry[key] for key in more if entry.get(key)}
        yield told


def _cell(cell: dict[str, Any]) -> dict[str, Any]:
    metadata = cell.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    record = metadata.get("rlmnb", metadata.get("rlmnb_event"))
    record = record if isinstance(record, dict) else {}
    given = record.get("input")
    given = given if isinstance(given, dict) else {}
    told = {
        "cell_id": cell.get("id"),
        "type": record.get("type", cell.get("cell_type")),
        "operation": given.get("operation"),
        "status": record.get("status"),
        "tool_use_id": record.get("tool_use_id"),
        "parent_id": record.get("parent_id"),
        "source": source_of(cell)[:_LONGEST],
    }
    return {key: value for key, value in told.items() if value is not None}
