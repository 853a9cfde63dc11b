"""Read a tool call back out of a cell's source: which tool, its arguments, the files it touches."""

from __future__ import annotations

import ast
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rlmnb import digest
from rlmnb.capture.folders import listed_by_call

_READERS = {"Read": "file_path", "NotebookRead": "notebook_path"}
_WRITERS = {
    "Write": "file_path",
    "Edit": "file_path",
    "MultiEdit": "file_path",
    "NotebookEdit": "notebook_path",
}
_LONGEST_PATH, _MOST_FILES = 1024, 100


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call like `tools.Read(file_path="auth.py")`."""

    operation: str
    args: dict[str, Any] = field(default_factory=dict)


def parse_call(source: str) -> ToolCall | None:
    """Return the tool call that a source consists of, or None if it is anything else."""
    if "tools." not in source:
        return None
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if len(body) != 1 or not isinstance(body[0], ast.Expr | ast.Assign):
        return None
    call = body[0].value
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    if not isinstance(call.func.value, ast.Name) or call.func.value.id != "tools":
        return None
    return ToolCall(call.func.attr, _literals(call))


def _literals(call: ast.Call) -> dict[str, Any]:
    found = {}
    for keyword in call.keywords:
        if keyword.arg is not None:
            try:
                found[keyword.arg] = ast.literal_eval(keyword.value)
            except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
                continue
    return found


def file_fields(call: ToolCall, cwd: str) -> dict[str, Any]:
    """Return the record's fields for the files that a call reads and writes, as they are now."""
    fields: dict[str, Any] = {}
    for key, table in (("files_read", _READERS), ("files_written", _WRITERS)):
        path = call.args.get(table.get(call.operation, ""))
        if isinstance(path, str) and path and "\0" not in path:
            fields[key] = versions([path], cwd)
    if folders := listed_by_call(call.operation, call.args, cwd):
        fields["listed"] = folders
    return fields


def files_named(source: str, cwd: str) -> dict[str, Any]:
    """Return the files that a text literal or a word in the source names, if they are there.

    Nobody who has only the code can know more: a path that is put together when it runs is not
    seen here.
    """
    try:
        words = {
            node.value
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        words = set()
    words |= {word for text in [source, *words] for word in text.split()}
    found = []
    for word in sorted(words):
        name = word.strip("'\"`()[]{},;:<>=")
        if 0 < len(name) <= _LONGEST_PATH and "\0" not in name:
            path = os.path.join(cwd, os.path.expanduser(name))
            if os.path.isfile(path):
                found.append(name)
    return versions(found[:_MOST_FILES], cwd)


def versions(paths: list[str], cwd: str) -> dict[str, Any]:
    """Describe files as they are now, each under its absolute path."""
    absolute = [os.path.normpath(os.path.join(cwd, os.path.expanduser(path))) for path in paths]
    return {path: digest.of_file(path) for path in absolute}


def with_tool_call(fields: Mapping[str, Any], cwd: str) -> dict[str, Any]:
    """Add to a cell's fields what its source says: the tool call it is, the files it names."""
    source = str(fields.get("source", ""))
    inferred: dict[str, Any] = {}
    if (call := parse_call(source)) is not None:
        inferred = {"operation": call.operation, "args": call.args}
        inferred |= file_fields(call, cwd)
    written = {**inferred, **fields}.get("files_written") or {}
    named = {
        path: version for path, version in files_named(source, cwd).items() if path not in written
    }
    if named:
        inferred["files_read"] = {**named, **inferred.get("files_read", {})}
    return {**inferred, **fields}
