"""What the earlier tools wrote at the end of a session, and before a compaction."""

from __future__ import annotations

from typing import Any

from rlmnb.format.nbjson import notebook_bytes
from rlmnb.format.state import new_state, notebook_metadata
from rlmnb.jsontext import pretty
from rlmnb.migrating.calls import call_items, message_items, take_files
from rlmnb.migrating.conversation import Conversation, read_context
from rlmnb.migrating.items import Gathered, Item, in_order, long_note, made
from rlmnb.migrating.reading import Tree, moment

_PARTS = {"conversation": "messages", "files": "files", "tool_outputs": "tool_outputs"}


def summary_item(value: Any, path: str, key: str, kept: Gathered) -> Item:
    """Return a summary, or the events of a trajectory, as a text cell."""
    name = path.rpartition("/")[2]
    if isinstance(value, list):
        lines, at = [], None
        for event in value:
            told = event if isinstance(event, dict) else {"content": event}
            at = moment(told.get("timestamp")) or at
            depth = told.get("depth") if isinstance(told.get("depth"), int) else 0
            indent = "  " * max(0, min(int(depth or 0), 20))
            lines.append(f"{indent}{told.get('type', 'event')}: {told.get('content', '')}")
        return long_note(
            f"{key}/{name}", f"Trajectory {name}", "\n".join(lines), "summary", at, kept
        )
    told = value if isinstance(value, dict) else {}
    lasted = told.get("duration_info") if isinstance(told.get("duration_info"), dict) else {}
    at = moment(told.get("timestamp")) or moment((lasted or {}).get("ended_at"))
    return long_note(f"{key}/{name}", f"Summary {name}", pretty(value), "summary", at, kept)


def checkpoint(
    session_id: str, taken: int, paths: dict[str, str], tree: Tree, kept: Gathered, cwd: str
) -> tuple[bytes, dict[str, Any]]:
    """Return what was put aside before a compaction as the notebook it would have been."""
    said = Conversation()
    left: dict[str, Any] = {}
    for part, key in _PARTS.items():
        if part in paths:
            value = tree.value(paths[part])
            found, rest = read_context({key: value} if value is not None else {})
            said.merge(found)
            left |= rest
    take_files(said, tree)
    at = moment(taken) or moment(0) or ""
    name = f"{session_id}/externalized/{taken}"
    groups = [message_items(said, name), call_items(said, name, kept, cwd)]
    cells = made(in_order(groups, at), kept)
    state = new_state(session_id)
    state["session"] |= {"created_at": at, "updated_at": at}
    whole = {
        "cells": cells,
        "metadata": notebook_metadata(state, 0),
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return notebook_bytes(whole), left
