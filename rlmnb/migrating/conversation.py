"""What was said, called and read in an old session, each of it once.

The same call can stand in `tools.jsonl`, in a session's context and in the context of the moment;
what is the same in two places is one cell, with what each place knows of it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from rlmnb.capture import calls as capturing
from rlmnb.jsontext import compact, loads
from rlmnb.migrating.reading import moment, text

# The earlier tools cut answers at 10,000 characters in one place and at 50,000 in another.
_COMPARED = 9_900
ROLES = {"user": "prompt", "assistant": "answer", "system": "system"}
_TOOL_KEYS = ("type", "session_id", "tool_name", "tool_input", "tool_output", "tool_use_id",
              "timestamp")  # fmt: skip


@dataclass
class Call:
    """One tool call, as far as it is known."""

    tool: str
    args: dict[str, Any] | None = None
    answer: Any = None
    exit_code: int | None = None
    at: str | None = None
    tool_use_id: str | None = None
    told: str = ""
    more: dict[str, Any] = field(default_factory=dict)
    version: dict[str, Any] | None = None

    @property
    def likeness(self) -> str:
        """What two tellings of one call have in common."""
        return f"{self.tool}\0{self.told[:_COMPARED]}"


@dataclass
class Conversation:
    """What was said, called and read in a session."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    files: dict[tuple[str, str], str] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)

    def merge(self, other: Conversation) -> None:
        """Add what another telling of the same session has more."""
        self.messages = _merged(
            self.messages, other.messages, lambda each: f"{each['role']}\0{each['content']}", _fill
        )
        self.calls = _merged(self.calls, other.calls, lambda each: each.likeness, _fill_call)
        self.files |= other.files
        self.memory |= other.memory


def _merged(known: list[Any], more: list[Any], likeness: Any, fill: Any) -> list[Any]:
    """Return one list of two: what is in both is one, as often as it is in either."""
    waiting: dict[str, list[Any]] = defaultdict(list)
    for each in reversed(known):
        waiting[likeness(each)].append(each)
    added = []
    for each in more:
        same = waiting.get(likeness(each))
        if same:
            fill(same.pop(), each)
        else:
            added.append(each)
    return [*known, *added]


def _fill(known: dict[str, Any], other: dict[str, Any]) -> None:
    for key, value in other.items():
        if known.get(key) is None:
            known[key] = value


def _fill_call(known: Call, other: Call) -> None:
    known.args = known.args if known.args is not None else other.args
    known.exit_code = known.exit_code if known.exit_code is not None else other.exit_code
    known.at = known.at or other.at
    known.tool_use_id = known.tool_use_id or other.tool_use_id
    known.more = {**other.more, **known.more}


def read_context(value: dict[str, Any]) -> tuple[Conversation, dict[str, Any]]:
    """Return what a context tells, and the part of it that has no place here."""
    said = Conversation()
    rest = dict(value)
    rest.pop("session_id", None)
    for key in ("messages", "conversation"):
        told = rest.pop(key, None)
        left = [each for each in told if not _message(each, said)] if _is_list(told) else told
        if left:
            rest[key] = left
    told = rest.pop("tool_outputs", None)
    left = [each for each in told if not _output(each, said)] if _is_list(told) else told
    if left:
        rest["tool_outputs"] = left
    for key in ("files", "file_cache"):
        told = rest.pop(key, None)
        left = _files(told, said) if isinstance(told, dict) else told
        if left:
            rest[key] = left
    told = rest.pop("working_memory", None)
    if isinstance(told, dict):
        said.memory |= told
    elif told is not None:
        rest["working_memory"] = told
    return said, rest


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _message(value: Any, said: Conversation) -> bool:
    if not isinstance(value, dict):
        return False
    role, content = value.get("role"), value.get("content")
    if not isinstance(role, str) or role not in ROLES or content is None:
        return False
    if not isinstance(content, str):
        content = compact(content)
    more = {key: each for key, each in value.items() if key not in ("role", "content", "timestamp")}
    said.messages.append(
        {
            "role": role,
            "content": content,
            "at": moment(value.get("timestamp")),
            "more": {key: each for key, each in more.items() if each is not None} or None,
        }
    )
    return True


def _output(value: Any, said: Conversation) -> bool:
    if not isinstance(value, dict):
        return False
    tool = text(value.get("tool_name")) or text(value.get("tool"))
    if tool is None or "content" not in value:
        return False
    code = value.get("exit_code")
    known = ("tool_name", "tool", "content", "exit_code", "timestamp")
    more = {key: each for key, each in value.items() if key not in known and each is not None}
    good = isinstance(code, int) and not isinstance(code, bool)
    if code is not None and not good:
        more["exit_code"] = code
    at = moment(value.get("timestamp"))
    answer, told = _answer(value["content"])
    code = code if good else None
    said.calls.append(Call(tool, None, answer, code, at, told=told, more=more))
    return True


def _files(table: dict[str, Any], said: Conversation) -> dict[str, Any]:
    left = {}
    for path, content in table.items():
        if isinstance(content, str) and capturing.is_path(path):
            said.files[path, content] = path
        else:
            left[path] = content
    return left


def read_tools(records: list[dict[str, Any]]) -> tuple[list[Call], list[dict[str, Any]]]:
    """Return the calls that a `tools.jsonl` tells of, and the lines that tell of something else."""
    found, rest = [], []
    for record in records:
        tool = text(record.get("tool_name"))
        if record.get("type", "tool_output") != "tool_output" or tool is None:
            # A `file_read` has but Python's own hash of the answer, other in every process.
            if record.get("type") != "file_read":
                rest.append(record)
            continue
        args = record.get("tool_input")
        more = {key: each for key, each in record.items() if key not in _TOOL_KEYS}
        if args is not None and not isinstance(args, dict):
            more["tool_input"] = args
        answer, told = _answer(record.get("tool_output"))
        found.append(
            Call(
                tool,
                args if isinstance(args, dict) else None,
                answer,
                at=moment(record.get("timestamp")),
                tool_use_id=text(record.get("tool_use_id")),
                told=told,
                more=more,
            )
        )
    return found, rest


def _answer(told: Any) -> tuple[Any, str]:
    """Return an answer as the tool gave it, and as it was written: objects were, as JSON text."""
    if not isinstance(told, str):
        return told, "" if told is None else compact(told)
    if not told.startswith("{"):
        return told or None, told
    try:
        value = loads(told)
    except (ValueError, RecursionError):
        return told, told
    return value if isinstance(value, dict) else told, told
