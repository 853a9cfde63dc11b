"""A session in the shapes of the earlier tools, as values: state, context, frames, tool records."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from rlmnb.capture.toolcalls import parse_call
from rlmnb.errors import ObjectError
from rlmnb.format.conversation import role_of, said_in
from rlmnb.format.record import CellRecord
from rlmnb.session import Session
from rlmnb.store import sessions
from rlmnb.views import Cell, exit_code_of, text_of

_SHORT = 16


def seconds(moment: Any) -> float | None:
    """Return a recorded time as the seconds since 1970 that the earlier tools wrote."""
    try:
        return datetime.fromisoformat(moment).timestamp()
    except (TypeError, ValueError):
        return None


def local(moment: Any) -> str | None:
    """Return a recorded time as they wrote it in frames: local, without its zone."""
    try:
        return datetime.fromisoformat(moment).astimezone().replace(tzinfo=None).isoformat()
    except (TypeError, ValueError):
        return None


def state(session: Session) -> dict[str, Any]:
    """Return the session's state as an `RLMSessionState`."""
    stored = session.stored_state()
    about, activation, budget = (
        sessions.section(stored, name) for name in ("session", "activation", "budget")
    )
    shape = {
        "session_id": session.id,
        "created_at": seconds(about.get("created_at")),
        "updated_at": seconds(about.get("updated_at")),
        "rlm_active": bool(activation.get("rlm_active", False)),
        "current_depth": activation.get("current_depth", 0),
        "total_recursive_calls": budget.get("total_recursive_calls", 0),
        "total_tokens_used": budget.get("total_tokens_used", 0),
        "working_memory": session.working_memory,
        "file_cache": {},
        "tool_outputs_count": len(session.cells(type="tool")),
        "trajectory_path": None,
        "trajectory_events_count": stored.get("appended", 0),
    }
    more = {
        "ended_at": seconds(about.get("ended_at")),
        "activation_mode": activation.get("activation_mode"),
        "activation_reason": activation.get("activation_reason"),
        "complexity_score": activation.get("complexity_score"),
        "max_depth": activation.get("max_depth"),
        "max_recursive_calls": budget.get("max_recursive_calls"),
        "cost_usd": budget.get("cost_usd"),
    }
    return shape | {key: value for key, value in more.items() if value is not None}


def metadata(session: Session) -> dict[str, Any]:
    """Return what `session-metadata.json` says of the session at work."""
    about = sessions.section(session.stored_state())
    return {
        "session_id": session.id,
        "transcript_path": about.get("transcript_path") or "",
        "cwd": about.get("cwd") or "",
        "started_at": about.get("created_at"),
    }


def context(session: Session) -> dict[str, Any]:
    """Return what was said, read and answered as a `SessionContext`."""
    messages: list[dict[str, Any]] = []
    outputs: list[dict[str, Any]] = []
    files: dict[str, str] = {}
    for cell in session.cells:
        if cell.type == "markdown":
            messages += _message(cell)
        elif cell.type == "tool":
            record = cell.record
            shown = whole_text(session, cell)
            output = {
                "tool_name": _tool(record),
                "content": shown,
                "exit_code": exit_code_of(cell),
                "timestamp": seconds(cell.entry.get("created_at")),
            }
            outputs.append(output)
            if _tool(record) == "Read" and record is not None and "limit" not in _args(record):
                files |= dict.fromkeys(record.files_read, shown)
    memory = session.working_memory
    return {
        "messages": messages,
        "files": files,
        "tool_outputs": outputs,
        "working_memory": memory,
    }


def _message(cell: Cell) -> Iterator[dict[str, Any]]:
    role = role_of(cell.raw)
    if role is not None:
        at = seconds(cell.raw["metadata"]["rlmnb_event"].get("created_at"))
        yield {"role": role, "content": said_in(cell.raw), "timestamp": at}


def whole_text(session: Session, cell: Cell) -> str:
    """Return all that a cell answered, without the line break that showing it adds."""
    record = cell.record
    kept = {item.output: item.object for item in record.output.objects} if record else {}
    parts = []
    for number, output in enumerate(cell.outputs):
        if output.get("output_type") == "error":
            # An exit code is told beside the answer, and was never part of it.
            parts += [] if "exit_code" in _legacy(record) else [str(output.get("evalue", ""))]
            continue
        try:
            text = (
                session.objects.get(kept[number]).decode("utf-8", "replace")
                if number in kept
                else _shown(output)
            )
        except ObjectError:
            text = _shown(output)
        parts.append(text)
    return "".join(parts)


def _shown(output: Mapping[str, Any]) -> str:
    text = text_of([output])
    return text[:-1] if "data" in output else text


def _tool(record: CellRecord | None) -> str:
    return (record.input.operation if record else None) or "unknown"


def _args(record: CellRecord) -> dict[str, Any]:
    return record.input.args if isinstance(record.input.args, dict) else {}


def _legacy(record: CellRecord | None) -> dict[str, Any]:
    found = getattr(record.metadata, "legacy", None) if record else None
    return found if isinstance(found, dict) else {}


def tools(session: Session) -> Iterator[dict[str, Any]]:
    """Yield the calls whose arguments are known, as `tools.jsonl` has them."""
    for cell in session.cells(type="tool"):
        record = cell.record
        if record is None or not isinstance(record.input.args, dict):
            continue
        yield {
            "type": "tool_output",
            "session_id": session.id,
            "tool_name": _tool(record),
            "tool_input": _unbrief(_as_called(record.input.args, cell.source), session),
            "tool_output": whole_text(session, cell),
            "tool_use_id": record.tool_use_id or "",
        }


def _as_called(args: dict[str, Any], source: str) -> dict[str, Any]:
    """Return arguments in the order of the call; a notebook keeps them sorted."""
    call = parse_call(source)
    order = {key: at for at, key in enumerate(call.args)} if call is not None else {}
    return dict(sorted(args.items(), key=lambda item: order.get(item[0], len(order))))


def _unbrief(value: Any, session: Session) -> Any:
    """Return arguments with the long texts that are kept among the objects."""
    if isinstance(value, dict) and set(value) == {"object"}:
        try:
            return session.objects.get(str(value["object"])).decode("utf-8", "replace")
        except ObjectError:
            return value
    if isinstance(value, dict):
        return {key: _unbrief(item, session) for key, item in value.items()}
    return [_unbrief(item, session) for item in value] if isinstance(value, list) else value


def accesses(session: Session) -> Iterator[dict[str, Any]]:
    """Yield the files and patterns that calls named, as `file-access-{id}.jsonl` has them."""
    for cell in session.cells(type="tool"):
        record = cell.record
        args = _args(record) if record is not None else {}
        path = args.get("file_path") or args.get("notebook_path")
        pattern = args.get("pattern")
        tool = _tool(record)
        at = str(cell.entry.get("created_at"))[:19] + "Z"
        if isinstance(path, str) and tool in ("Read", "Edit", "Write", "MultiEdit", "NotebookEdit"):
            yield {"timestamp": at, "tool": tool, "file": path}
        elif isinstance(pattern, str) and tool in ("Glob", "Grep"):
            yield {"timestamp": at, "tool": tool, "pattern": pattern}


def frames(session: Session) -> list[dict[str, Any]]:
    """Return every cell that is no tool call as a frame."""
    cells = [cell for cell in session.cells if cell.type not in ("markdown", "raw", "tool")]
    known = [(cell, cell.record) for cell in cells]
    names = {cell.cell_id: _frame_id(cell, record) for cell, record in known}
    found = [_frame(session, cell, record, names) for cell, record in known if record is not None]
    by_id = {frame["frame_id"]: frame for frame in found}
    for frame in found:
        if frame["parent_id"] in by_id:
            by_id[frame["parent_id"]]["children"].append(frame["frame_id"])
    return found


def _frame_id(cell: Cell, record: CellRecord | None) -> str:
    told = getattr(record.metadata, "frame_id", None) if record else None
    if isinstance(told, str):
        return told
    return record.frame_id(cell.source) if record else cell.cell_id


def _frame(
    session: Session, cell: Cell, record: CellRecord, names: dict[Any, str]
) -> dict[str, Any]:
    legacy = _legacy(record)
    seen = record.input.context_snapshot
    observed = legacy.get("evidence")
    files = {**record.files_read, **(seen.files if seen else {})}
    reasons = record.escalation_reason
    return {
        "frame_id": names[cell.cell_id],
        "depth": record.metadata.depth,
        "parent_id": names.get(record.parent_id, legacy.get("parent_id")),
        "children": [],
        "query": _query(cell.source),
        "context_slice": {
            "files": {path: _short(version.hash) for path, version in files.items()},
            "memory_refs": list(seen.memory_refs) if seen else [],
            "tool_outputs": {tool: _short(name) for tool, name in seen.tool_outputs.items()}
            if seen
            else {},
            "token_budget": seen.token_budget if seen else 8000,
        },
        "evidence": [
            *(names[each] for each in record.evidence if each in names),
            *(observed if isinstance(observed, list) else ()),
        ],
        "conclusion": whole_text(session, cell) or None,
        "confidence": record.confidence,
        "invalidation_condition": legacy.get("invalidation_condition") or "",
        "status": legacy.get("status") or record.status,
        "branched_from": names.get(record.branched_from),
        "escalation_reason": "; ".join(reasons) if reasons else None,
        "created_at": local(record.created_at),
        "completed_at": local(record.completed_at),
    }


def _short(name: str) -> str:
    return name.removeprefix("sha256:")[:_SHORT]


def _query(source: str) -> str:
    """Return what was asked, where a cell is but the call that asks it."""
    if not source.startswith("llm_query("):
        return source
    try:
        call = ast.parse(source, mode="eval").body
        if isinstance(call, ast.Call) and len(call.args) == 1 and not call.keywords:
            told = ast.literal_eval(call.args[0])
            return told if isinstance(told, str) else source
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return source
    return source


def current(session: Session) -> dict[str, Any]:
    """Return what `.current_session` says of who is at work."""
    stored = session.stored_state()
    pid = sessions.section(stored, "lifecycle").get("pid")
    return {
        "session_id": session.id,
        "pid": pid if isinstance(pid, int) else None,
        "updated_at": local(sessions.section(stored).get("updated_at")),
    }
