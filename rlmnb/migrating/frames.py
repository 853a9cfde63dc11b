"""Frames that the earlier tools kept: each becomes a cell, with its parent, evidence and status."""

from __future__ import annotations

import ast
import re
from typing import Any

from rlmnb import digest
from rlmnb.capture import calls as capturing
from rlmnb.capture.privacy import ignored
from rlmnb.format.cells import STATUSES
from rlmnb.migrating.items import Item
from rlmnb.migrating.reading import amount, count, moment, text

_HEXADECIMAL = re.compile(r"[0-9a-f]{8,128}")
_DOING = (ast.Call, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Import, ast.ImportFrom, ast.For,
          ast.FunctionDef, ast.ClassDef, ast.With, ast.Delete)  # fmt: skip
_WITHHELD = "# not recorded: it saw a file that is among those to be ignored"
_SLICE = ("files", "memory_refs", "tool_outputs", "token_budget")


def gathered(*sources: list[Any]) -> tuple[dict[str, dict[str, Any]], list[Any]]:
    """Return frames by their ids, the last telling of each, and what is no frame."""
    found: dict[str, dict[str, Any]] = {}
    rest = []
    for frames in sources:
        for frame in frames:
            if not isinstance(frame, dict):
                rest.append(frame)
                continue
            name = text(frame.get("frame_id")) or f"without-id-{len(found)}"
            found[name] = frame
    return found, rest


def frame_items(frames: dict[str, dict[str, Any]], key: str, cwd: str) -> list[Item]:
    """Return frames as cells; of one that saw a file to be ignored, only that it was."""
    ids = {name: Item(f"{key}/frame/{name}", {}).cell_id for name in frames}
    items = []
    for name, frame in frames.items():
        item = _item(name, frame, f"{key}/frame/{name}", ids)
        if any(ignored(path, cwd or "/") for path in item.reads):
            run = {"depth": item.fields["metadata"]["depth"], "frame_id": name}
            item.fields = {"source": _WITHHELD, "type": "repl", "origin": "legacy", "metadata": run}
        items.append(item)
    return items


def _item(name: str, frame: dict[str, Any], key: str, ids: dict[str, str]) -> Item:
    left = dict(frame)
    left.pop("children", None)  # follow from the parents
    left.pop("frame_id", None)
    query = left.pop("query", None)
    snapshot, files = _slice(left)
    parent = _took(left, "parent_id", ids.get(text(left.get("parent_id")) or ""))
    branched = _took(left, "branched_from", ids.get(text(left.get("branched_from")) or ""))
    evidence = _known(left, ids)
    at = moment(left.pop("created_at", None))
    run = {"depth": _took(left, "depth", count(left.get("depth"))) or 0, "frame_id": name}
    fields: dict[str, Any] = {
        **_source(query),
        "status": _took(left, "status", _status(left.get("status"))),
        "origin": "legacy",
        "context_snapshot": snapshot,
        "files_read": files,
        "completed_at": moment(left.pop("completed_at", None)),
        "evidence": evidence or None,
        "branched_from": branched,
        "confidence": _took(left, "confidence", _share(left.get("confidence"))),
        "escalation_reason": _reasons(left),
        "invalidation_condition": _condition(left, files),
    }
    conclusion = left.pop("conclusion", None)
    fields["outputs"] = capturing.outputs_of("", conclusion)
    rest = {name: value for name, value in left.items() if value not in (None, "", [], {})}
    fields["metadata"] = run | ({"legacy": rest} if rest else {})
    wants = [(each, "evidence") for each in evidence]
    if parent is not None:
        wants.append((parent, "parent frame"))
    if branched is not None:
        wants.append((branched, "branched from"))
    return Item(key, fields, at, parent, wants, reads=tuple(files))


def _took(left: dict[str, Any], key: str, value: Any) -> Any:
    """Take a field out of what is left over if it could be used."""
    if value is not None:
        left.pop(key, None)
    return value


def _source(query: Any) -> dict[str, Any]:
    """Return code as it is; a question becomes the call that asks it."""
    asked = query if isinstance(query, str) else repr(query)
    try:
        doing = any(isinstance(node, _DOING) for node in ast.walk(ast.parse(asked)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        doing = False
    if doing:
        return {"source": asked, "type": "repl"}
    return {"source": f"llm_query({asked!r})", "type": "llm_call", "operation": "llm_query"}


def _status(value: Any) -> str | None:
    return value if value in STATUSES else None


def _share(value: Any) -> float | None:
    found = amount(value)
    return found if found is not None and found <= 1 else None


def _reasons(left: dict[str, Any]) -> list[str] | None:
    told = left.pop("escalation_reason", None)
    if isinstance(told, list):
        return [str(each) for each in told]
    return [told] if isinstance(told, str) and told else None


def _known(left: dict[str, Any], ids: dict[str, str]) -> list[str]:
    """Return the evidence that is a frame; observations stay with what is left over."""
    told = left.get("evidence")
    if not isinstance(told, list):
        return []
    left["evidence"] = [each for each in told if not isinstance(each, str) or each not in ids]
    return [ids[each] for each in told if isinstance(each, str) and each in ids]


def _slice(left: dict[str, Any]) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    told = left.get("context_slice")
    if not isinstance(told, dict):
        return None, {}
    rest = {key: value for key, value in told.items() if key not in _SLICE}
    left["context_slice"] = rest
    files = _versions(told.get("files"), rest)
    snapshot: dict[str, Any] = {"files": files}
    if isinstance(told.get("memory_refs"), list):
        snapshot["memory_refs"] = [str(each) for each in told["memory_refs"]]
    outputs = told.get("tool_outputs")
    if isinstance(outputs, dict):
        good = {tool: _hash(value) for tool, value in outputs.items()}
        snapshot["tool_outputs"] = {tool: value for tool, value in good.items() if value}
        if odd := {tool: value for tool, value in outputs.items() if not good[tool]}:
            rest["tool_outputs"] = odd
    if (budget := count(told.get("token_budget"))) is not None:
        snapshot["token_budget"] = budget
    return snapshot, files


def _versions(files: Any, rest: dict[str, Any]) -> dict[str, Any]:
    """Return the versions of files that a frame saw: whole if the file is still the same."""
    found = {}
    for path, told in files.items() if isinstance(files, dict) else ():
        short = _hash(told)
        if short is None or not capturing.is_path(path):
            rest.setdefault("files", {})[path] = told
            continue
        now = digest.of_file(path)
        found[path] = now if str(now["hash"]).startswith(short) else {"hash": short}
    return found


def _hash(value: Any) -> str | None:
    bare = value.removeprefix("sha256:") if isinstance(value, str) else ""
    return f"sha256:{bare}" if _HEXADECIMAL.fullmatch(bare) else None


def _condition(left: dict[str, Any], files: dict[str, Any]) -> dict[str, Any] | None:
    """Return a condition that can be checked, where a sentence names a file that the frame saw."""
    told = left.get("invalidation_condition")
    if not isinstance(told, str) or not told:
        return None
    for path, version in files.items():
        if path in told or path.rpartition("/")[2] in told:
            return {"kind": "file_changed", "path": path, "hash": version["hash"]}
    return None
