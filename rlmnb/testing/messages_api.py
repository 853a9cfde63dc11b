"""A scripted Messages API on loopback, for running an agent's client without a model.

A script says what the model answers, one turn per request. A turn is a text, a tool call, several
of both in one answer, a `Reply` that also sets its usage, or a `Failure`:

    script = [
        Failure(529),
        ["I look at both.", Call("Read", {"file_path": "a"}), Call("Read", {"file_path": "b"})],
        "They are equal.",
    ]
    with scripted_api(script) as api:
        subprocess.run(["claude", "-p", "compare a and b"], env={"ANTHROPIC_BASE_URL": api.url})
    assert len(api.requests) == 3

Several conversations can be under way at once: a sub-agent has one of its own, and a summary is
asked for in one more. `routed` tells them apart by what was said in them, and any callable that
takes a `Request` and returns a turn is a script too.

The server is on loopback, and keeps no key that a client sends.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from rlmnb.testing.loopback import LoopbackConnection, LoopbackServer, serving, tokens

ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call; without an id it gets one that no other call of the same server has."""

    name: str
    input: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer, with what it is to say about its cost and how long it is to take.

    Usage that is not given is counted from the length of the request and the answer.
    """

    blocks: Sequence[str | Call]
    usage: Mapping[str, int] = field(default_factory=dict)
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class Failure:
    """An HTTP error; 529 says that the service is overloaded, and clients try again."""

    status: int = 529
    message: str = "scripted failure"


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asked for."""

    method: str
    path: str
    body: Mapping[str, Any] = field(default_factory=dict)

    @property
    def opening(self) -> str:
        """The text of the conversation's first message, by which a sub-agent is known."""
        return next(iter(self._said()), "")

    @property
    def prompt(self) -> str:
        """The text of the last message on the user's side; empty if it only has tool results."""
        return next(iter(reversed(self._said())), "")

    @property
    def results(self) -> tuple[Mapping[str, Any], ...]:
        """The tool results since the model's last answer; a client may add remarks after them."""
        messages = self.body.get("messages", ())
        answered = [n for n, message in enumerate(messages, 1) if message["role"] == "assistant"]
        return tuple(
            part
            for message in messages[max(answered, default=0) :]
            for part in _parts(message["content"])
            if part["type"] == "tool_result"
        )

    def _said(self) -> list[str]:
        return [
            "\n".join(part["text"] for part in _parts(message["content"]) if part["type"] == "text")
            for message in self.body.get("messages", ())
            if message["role"] == "user"
        ]


Turn = str | Call | Reply | Failure | Sequence[str | Call]
Script = Sequence[Turn] | Callable[[Request], Turn]


@dataclass(slots=True)
class ScriptedApi:
    """A running server: where it is, and every request it got, in the order of arrival."""

    url: str
    requests: list[Request] = field(default_factory=list)

    @property
    def messages(self) -> list[Request]:
        """The requests that asked for an answer, and not for a count or for a sign of life."""
        return [request for request in self.requests if _asks(request)]


@contextmanager
def scripted_api(script: Script) -> Iterator[ScriptedApi]:
    """Serve the script on a free port of 127.0.0.1 until the block ends.

    What a script raises is raised when the block ends; the client sees its connection drop.
    """
    with serving(_Server(in_turn(script))) as server:
        yield server.api


def in_turn(script: Script) -> Callable[[Request], Turn]:
    """Answer each request with the next turn of a list; a callable is its own script.

    A request past the end gets error 400, which clients report and do not repeat.
    """
    if callable(script):
        return script
    turns = iter(script)
    taking = threading.Lock()

    def answer(request: Request) -> Turn:
        with taking:
            turn = next(turns, None)
        if turn is None:
            message = f"the script has no turn left for: {request.prompt[:200]}"
            return Failure(400, message)
        return turn

    return answer


def routed(scripts: Mapping[str, Script], otherwise: Script = ()) -> Callable[[Request], Turn]:
    """Give each conversation the script whose key is in its first or its last message.

    The first key that fits wins. The last message counts too, because a summary is asked for at
    the end of the conversation that is summed up.
    """
    answers = {key: in_turn(script) for key, script in scripts.items()}
    rest = in_turn(otherwise)

    def answer(request: Request) -> Turn:
        said = (request.opening, request.prompt)
        fitting = (found for key, found in answers.items() if any(key in text for text in said))
        return next(fitting, rest)(request)

    return answer


class _Server(LoopbackServer[Request]):
    def __init__(self, answer: Callable[[Request], Turn]) -> None:
        super().__init__(_Connection, Request)
        self.answer = answer
        self.api = ScriptedApi(self.url, self.requests)


class _Connection(LoopbackConnection):
    server: _Server

    def get(self, request: Request) -> None:  # noqa: ARG002 - the base's
        self._fail(Failure(404, f"nothing is scripted for GET {self.path}"))

    def post(self, request: Request) -> None:
        if _route(request) == "/v1/messages/count_tokens":
            self.send_json(200, {"input_tokens": tokens(request.body)})
        elif _asks(request):
            self._answer(request)
        else:
            self._fail(Failure(404, f"nothing is scripted for POST {self.path}"))

    def _answer(self, request: Request) -> None:
        turn = self.server.answer(request)
        if isinstance(turn, Failure):
            self._fail(turn)
            return
        reply = _as_reply(turn)
        if reply.delay:
            self.server.ended.wait(reply.delay)
        message = _message(request, reply, self.server.new_id)
        if request.body.get("stream"):
            events = _events(message)
            self.send_events(f"event: {each['type']}\ndata: {json.dumps(each)}" for each in events)
        else:
            self.send_json(200, message)

    def _fail(self, failure: Failure) -> None:
        kind = ERROR_TYPES.get(failure.status, "api_error")
        error = {"type": kind, "message": failure.message}
        self.send_json(failure.status, {"type": "error", "error": error})


def _route(request: Request) -> str:
    return urlsplit(request.path).path


def _asks(request: Request) -> bool:
    return request.method == "POST" and _route(request) == "/v1/messages"


def _parts(content: str | Sequence[Mapping[str, Any]] | None) -> Sequence[Mapping[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content or ()


def _as_reply(turn: str | Call | Reply | Sequence[str | Call]) -> Reply:
    if isinstance(turn, Reply):
        return turn
    return Reply((turn,) if isinstance(turn, str | Call) else tuple(turn))


def _message(request: Request, reply: Reply, new_id: Callable[[str], str]) -> dict[str, Any]:
    content = [_block(block, new_id) for block in reply.blocks]
    calls = any(block["type"] == "tool_use" for block in content)
    counted = {
        "input_tokens": tokens(request.body.get("messages")),
        "output_tokens": tokens(content),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    }
    return {
        "id": new_id("msg"),
        "type": "message",
        "role": "assistant",
        "model": request.body.get("model", "scripted"),
        "content": content,
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {**counted, **reply.usage},
    }


def _block(block: str | Call, new_id: Callable[[str], str]) -> dict[str, Any]:
    if isinstance(block, str):
        return {"type": "text", "text": block}
    chosen = block.id or new_id("toolu")
    return {"type": "tool_use", "id": chosen, "name": block.name, "input": dict(block.input)}


def _events(message: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """Take an answer apart into the events of a stream, with its usage told as the service does."""
    usage = message["usage"]
    start = {**message, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield {"type": "message_start", "message": start}
    yield {"type": "ping"}
    for index, block in enumerate(message["content"]):
        empty, delta = _opened(block)
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    stopped = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": stopped, "usage": usage}
    yield {"type": "message_stop"}


def _opened(block: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    if block["type"] == "text":
        return {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
    pieces = json.dumps(block["input"])
    return {**block, "input": {}}, {"type": "input_json_delta", "partial_json": pieces}
