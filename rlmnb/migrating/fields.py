"""The session's state, put together from the old files: each field knows which one it came from."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from rlmnb.format.session import Activation
from rlmnb.format.state import new_state
from rlmnb.migrating.reading import amount, count, flag, moment, text
from rlmnb.store.project import describe

Table = Mapping[str, tuple[str, Callable[[Any], Any]]]
_MODES = Activation.model_fields["activation_mode"].annotation.__args__  # type: ignore[union-attr]


def _mode(value: Any) -> str | None:
    return value if value in _MODES else None


def _depth(value: Any) -> int | None:
    return value if type(value) is int and 1 <= value <= 3 else None


def _models(value: Any) -> dict[str, Any] | None:
    """Return what each model was used for, as far as it is told in numbers."""
    if not isinstance(value, dict) or not value:
        return None
    wanted = {"calls": count, "tokens": count, "cost_usd": amount}
    found = {}
    for model, use in value.items():
        if not isinstance(use, dict) or set(use) - set(wanted):
            return None
        found[model] = {key: wanted[key](each) for key, each in use.items()}
        if None in found[model].values():
            return None
    return found


STATE: Table = {
    "created_at": ("session.created_at", moment),
    "updated_at": ("session.updated_at", moment),
    "ended_at": ("session.ended_at", moment),
    "cwd": ("session.cwd", text),
    "claude_transcript_path": ("session.transcript_path", text),
    "rlm_active": ("activation.rlm_active", flag),
    "activation_mode": ("activation.activation_mode", _mode),
    "activation_reason": ("activation.activation_reason", text),
    "complexity_score": ("activation.complexity_score", amount),
    "current_depth": ("activation.current_depth", count),
    "max_depth": ("activation.max_depth", _depth),
    "total_recursive_calls": ("budget.total_recursive_calls", count),
    "total_tokens_used": ("budget.total_tokens_used", count),
    "max_recursive_calls": ("budget.max_recursive_calls", count),
    "cost_usd": ("budget.cost_usd", amount),
    "by_model": ("budget.by_model", _models),
}
METADATA: Table = {
    "transcript_path": ("session.transcript_path", text),
    "cwd": ("session.cwd", text),
    "started_at": ("session.created_at", moment),
}
ARTIFACTS: Table = {
    "initial_prompt": ("session.title", lambda told: (text(told) or "").strip()[:80] or None),
    "conversation_log": ("session.transcript_path", text),
}
CONFIG: Table = {
    "activation.mode": ("activation.activation_mode", _mode),
    "depth.max": ("activation.max_depth", _depth),
    "cost_controls.max_recursive_calls_per_turn": ("budget.max_recursive_calls", count),
}


class Fields:
    """A state that is being put together; who comes first has the word."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self.provenance: dict[str, str] = {}

    def set(self, name: str, value: Any, origin: str) -> None:
        """Set a field that nobody has set yet."""
        if value is not None and name not in self._values:
            self._values[name] = value
            self.provenance[name] = origin

    def take(self, told: dict[str, Any], table: Table, origin: str) -> dict[str, Any]:
        """Take the fields of a file that have a place here; return the rest of it."""
        rest = {key: value for key, value in told.items() if value not in (None, "", [], {})}
        for path, (name, convert) in table.items():
            section, _, key = path.rpartition(".")
            where = rest.get(section) if section else rest
            if not isinstance(where, dict) or key not in where:
                continue
            value = convert(where[key])
            if value is None:
                continue
            self.set(name, value, origin)
            where = {each: item for each, item in where.items() if each != key}
            if section:
                rest[section] = where
            else:
                rest = where
        return {key: value for key, value in rest.items() if value not in ({}, None)}

    def value(self, name: str) -> Any:
        """Return a field if it is known."""
        return self._values.get(name)

    def state(self, session_id: str, begun: str, last: str) -> dict[str, Any]:
        """Return the state of the session."""
        state = new_state(session_id)
        session = state["session"]
        session |= {"created_at": begun, "updated_at": last, "agent": "legacy"}
        for name, value in self._values.items():
            section, _, key = name.partition(".")
            state[section][key] = value
        cwd = session.get("cwd")
        if isinstance(cwd, str) and os.path.isabs(cwd) and "\0" not in cwd:
            session |= {"project": describe(cwd)["project"]}
        if session.get("ended_at"):
            state["lifecycle"] = {"phase": "ended"}
        else:
            state["lifecycle"] = {"phase": "stopped"}
        return state
