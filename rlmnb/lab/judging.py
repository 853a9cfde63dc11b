"""How the cells of a session stand, as JupyterLab shows it, judged as `rlmnb status` does."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from rlmnb.graph.environment import CodeCell
from rlmnb.graph.traces import survey
from rlmnb.replay.cells import code_cells, files_now, starting_environment
from rlmnb.session import Session
from rlmnb.store.layout import Place
from rlmnb.views import Cell

_MODEL_CALLS = ("llm_call", "map_reduce")


def judge(place: Place, running: Collection[str] = ()) -> dict[str, Any]:
    """Return every code cell with its state and why, and the sums."""
    session = Session(place)
    cells = code_cells(session)
    stale = survey(cells, files_now(cells), starting_environment(session))
    shown = {str(cell.cell_id): cell for cell in session.cells}
    rows = [_row(shown[cell.cell_id], cell, stale.get(cell.cell_id, []), running) for cell in cells]
    return {
        "session_id": session.id,
        "appended": session.index["generation"],
        "cells": rows,
        "summary": {
            "fresh": len(cells) - len(stale),
            "stale": len(stale),
            "failed": sum(row["state"] == "failed" for row in rows),
            "tokens_saved": sum(row["tokens_saved"] for row in rows),
        },
    }


def _row(
    shown: Cell, cell: CodeCell, causes: list[str], running: Collection[str]
) -> dict[str, Any]:
    entry = shown.entry
    record = shown.raw["metadata"].get("rlmnb")
    calls = record.get("calls") if isinstance(record, dict) else None
    calls = len(calls) if isinstance(calls, list) else 0
    state = "running" if cell.cell_id in running else _state(cell, entry, causes)
    calls_model = calls > 0 or entry["type"] in _MODEL_CALLS
    return {
        "cell_id": cell.cell_id,
        "number": cell.number,
        "state": state,
        "causes": causes,
        "effectful": bool(cell.effects),
        "type": entry["type"],
        "calls": calls or int(calls_model),
        "tokens_saved": (entry.get("tokens") or 0) if calls_model and state == "fresh" else 0,
    }


def _state(cell: CodeCell, entry: dict[str, Any], causes: list[str]) -> str:
    if entry["status"] == "failed" and not entry.get("edited"):
        return "failed"
    if entry["status"] == "new" and cell.run is None and causes:
        return "never"
    return "stale" if causes else "fresh"


def brief(found: dict[str, Any], most: int = 200) -> dict[str, Any]:
    """Return what of a judgement is told unasked: the sums, and which cells are stale."""
    return {
        "appended": found["appended"],
        "summary": found["summary"],
        "stale": [
            {"cell_id": row["cell_id"], "causes": row["causes"]}
            for row in found["cells"]
            if row["causes"]
        ][:most],
    }
