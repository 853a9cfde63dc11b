"""What a scripted chat API is asked, and what it may answer: turns, and scripts made of them."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens in and out."""

    input: int = 0
    output: int = 0

    @property
    def total(self) -> int:
        """Both together."""
        return self.input + self.output

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.input + other.input, self.output + other.output)


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer; usage that is not given is counted from the lengths of both texts.

    `until` holds the answer back until somebody sets the event or the server ends.
    """

    content: Any
    usage: Usage | None = None
    until: threading.Event | None = None
    finish: str = "stop"


@dataclass(frozen=True, slots=True)
class Failure:
    """An HTTP error; 429 can say after how many seconds to try again."""

    status: int = 500
    message: str = "scripted failure"
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class Dropped:
    """A connection that is closed before the answer, or in the middle of a stream."""


@dataclass(frozen=True, slots=True)
class Malformed:
    """An answer whose body is not what the API promises."""

    body: bytes = b'{"choices": ['
    kind: str = "application/json"


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a client asked for."""

    method: str
    path: str
    body: Mapping[str, Any] = field(default_factory=dict)

    @property
    def route(self) -> str:
        """The path without what is asked of it."""
        return urlsplit(self.path).path

    @property
    def asks(self) -> bool:
        """Whether a model's answer is wanted, and not a list of models."""
        return self.method == "POST" and self.route == "/v1/chat/completions"

    @property
    def messages(self) -> Sequence[Mapping[str, Any]]:
        """The conversation so far."""
        return self.body.get("messages") or ()

    @property
    def system(self) -> str:
        """What the model is told to be."""
        return "\n".join(_said(each) for each in self.messages if each["role"] in _SYSTEM)

    @property
    def prompt(self) -> str:
        """The last message on the user's side."""
        said = [_said(each) for each in self.messages if each["role"] == "user"]
        return said[-1] if said else ""

    @property
    def longest(self) -> int | None:
        """How many tokens the answer may have, if that is bounded."""
        bound: int | None = self.body.get("max_tokens")
        return bound

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """The JSON Schema that the answer is to follow, if it is to follow one."""
        wanted = self.body.get("response_format") or {}
        found: Mapping[str, Any] | None = (wanted.get("json_schema") or {}).get("schema")
        return found


Turn = Answer | Failure | Dropped | Malformed | str | int | float | Mapping[str, Any] | list[Any]
Script = Sequence[Turn] | Callable[[ChatRequest], Turn]

_SYSTEM = ("system", "developer")


def in_turn(script: Script) -> Callable[[ChatRequest], Turn]:
    """Answer each request with the next turn of a list; a callable is its own script.

    A request past the end gets error 400, which clients report and do not repeat.
    """
    if callable(script):
        return script
    turns = iter(script)
    taking = threading.Lock()

    def answer(request: ChatRequest) -> Turn:
        with taking:
            turn = next(turns, None)
        if turn is None:
            return Failure(400, f"the script has no turn left for: {request.prompt[:200]}")
        return turn

    return answer


def by_rule(
    rules: Mapping[str, Turn | Callable[[ChatRequest], Turn]], otherwise: Script | None = None
) -> Callable[[ChatRequest], Turn]:
    """Answer by what stands in the last prompt or the system text; the first key that fits wins."""
    rest = in_turn(otherwise) if otherwise is not None else default_answer

    def answer(request: ChatRequest) -> Turn:
        said = (request.prompt, request.system)
        fitting = (rule for key, rule in rules.items() if any(key in text for text in said))
        rule = next(fitting, rest)
        return rule(request) if callable(rule) else rule

    return answer


def failing(first: Sequence[Turn], then: Script | None = None) -> Callable[[ChatRequest], Turn]:
    """Give the first requests these turns, whatever they ask, and follow a script from there on."""
    begin = iter(first)
    taking = threading.Lock()
    rest = in_turn(then) if then is not None else default_answer

    def answer(request: ChatRequest) -> Turn:
        with taking:
            turn = next(begin, None)
        return rest(request) if turn is None else turn

    return answer


def always(turn: Turn) -> Callable[[ChatRequest], Turn]:
    """Give every request the same turn."""
    return lambda request: turn  # noqa: ARG005 - whatever it is


def default_answer(request: ChatRequest) -> Turn:
    """Answer by the messages alone: the same question always gets the same answer."""
    if request.schema is not None:
        fitting: Turn = _fitting(request.schema, request.schema.get("$defs") or {})
        return fitting
    said = hashlib.sha256(json.dumps(request.messages, sort_keys=True).encode()).hexdigest()
    return f"answer {said[:8]}"


_PLAINEST: Mapping[str, Any] = {
    "array": [],
    "string": "text",
    "integer": 1,
    "number": 1,
    "boolean": True,
    "null": None,
}


def _fitting(schema: Mapping[str, Any], parts: Mapping[str, Any]) -> Any:
    """Return the plainest value that fits a JSON Schema of the common kinds."""
    if "$ref" in schema:
        return _fitting(parts[schema["$ref"].rpartition("/")[2]], parts)
    if "anyOf" in schema:
        return _fitting(schema["anyOf"][0], parts)
    if "enum" in schema or "const" in schema:
        return schema["const"] if "const" in schema else schema["enum"][0]
    kind = schema.get("type", "object")
    if kind == "object":
        properties = schema.get("properties") or {}
        return {name: _fitting(each, parts) for name, each in properties.items()}
    return _PLAINEST[kind]


def _said(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content or () if part.get("type") == "text")
