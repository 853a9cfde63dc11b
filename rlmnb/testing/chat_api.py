"""A scripted chat API on loopback that speaks as OpenAI-compatible servers do.

A script says what the model answers: a list of turns, one per request, or a function of the
request. Without one, every request gets an answer that depends on its messages alone (and fits its
schema, where it has one). A turn is a text, a JSON value, an `Answer` that also sets its usage or
waits for an event, a `Failure`, a `Dropped` connection or a `Malformed` body:

    script = failing([Failure(429, retry_after=0), Dropped()], then=always("Paris"))
    with chat_api(script) as api:
        directory = model_directory(tmp_path, api)
        subprocess.run(["llm", "-m", "scripted", "hello"], env={"LLM_USER_PATH": directory})
    assert len(api.asked) == 3
    assert api.served.total == 12 + 5

What it served (`api.served`) is its own count of the tokens of answers that it sent whole, so that
what a client reports can be held against it. It records no header, so no key that a client sends.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rlmnb.files import make_directory, write_atomic
from rlmnb.testing.chat_script import (
    Answer,
    ChatRequest,
    Dropped,
    Failure,
    Malformed,
    Script,
    Turn,
    Usage,
    always,
    by_rule,
    default_answer,
    failing,
    in_turn,
)
from rlmnb.testing.loopback import (
    LONGEST_WAIT,
    LoopbackConnection,
    LoopbackServer,
    cut,
    serving,
    tokens,
)

__all__ = [
    "MODEL",
    "Answer",
    "ChatApi",
    "ChatRequest",
    "Dropped",
    "Failure",
    "Malformed",
    "Script",
    "Turn",
    "Usage",
    "always",
    "by_rule",
    "chat_api",
    "default_answer",
    "failing",
    "in_turn",
    "model_directory",
]

MODEL = "scripted"


@dataclass(slots=True)
class ChatApi:
    """A running server: where it is, every request it got, and what it served."""

    url: str
    requests: list[ChatRequest] = field(default_factory=list)
    served: Usage = field(default_factory=Usage)
    answered: int = 0
    # How many answers are held back by their event at this moment, and how many ever were at once.
    waiting: int = 0
    most_waiting: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def asked(self) -> list[ChatRequest]:
        """The requests that asked a model for an answer."""
        return [request for request in self.requests if request.asks]

    @property
    def prompts(self) -> list[str]:
        """What the model was asked, in the order of arrival."""
        return [request.prompt for request in self.asked]

    def wait_for_waiting(self, number: int, timeout: float = LONGEST_WAIT) -> bool:
        """Return when so many answers are held back at once; False if they never were in time."""
        with self.changed:
            return self.changed.wait_for(lambda: self.waiting >= number, timeout)


@contextmanager
def chat_api(script: Script | None = None) -> Iterator[ChatApi]:
    """Serve the script on a free port of 127.0.0.1 until the block ends.

    What a script raises is raised when the block ends; the client sees its connection drop.
    """
    with serving(_Server(in_turn(script) if script is not None else default_answer)) as server:
        yield server.api


def model_directory(path: str | os.PathLike[str], api: ChatApi, *, model: str = MODEL) -> str:
    """Write a private directory for the `llm` library in which the server is a model.

    Returns its absolute path, to be given as LLM_USER_PATH to programs wherever they run.
    """
    directory = os.path.abspath(path)
    make_directory(directory)
    # Every JSON text is a YAML text.
    models = [
        {
            "model_id": model,
            "model_name": model,
            "api_base": api.url,
            "supports_schema": True,
            "supports_tools": True,
            "vision": True,
        }
    ]
    write_atomic(
        os.path.join(directory, "extra-openai-models.yaml"), json.dumps(models, indent=1).encode()
    )
    return directory


class _Server(LoopbackServer[ChatRequest]):
    def __init__(self, answer: Callable[[ChatRequest], Turn]) -> None:
        super().__init__(_Connection, ChatRequest)
        self.answer = answer
        self.api = ChatApi(f"{self.url}/v1", self.requests)

    def hold(self, until: threading.Event) -> None:
        api = self.api
        with api.changed:
            api.waiting += 1
            api.most_waiting = max(api.most_waiting, api.waiting)
            api.changed.notify_all()
        try:
            while not (until.wait(0.05) or self.ended.is_set()):
                pass
        finally:
            with api.changed:
                api.waiting -= 1
                api.changed.notify_all()

    def count(self, usage: Usage) -> None:
        with self.recording:
            self.api.served += usage
            self.api.answered += 1


class _Connection(LoopbackConnection):
    server: _Server

    def end_headers(self) -> None:
        # Clients keep connections for a next question, and leave them open when they are done.
        self.send_header("Connection", "close")
        super().end_headers()

    def get(self, request: ChatRequest) -> None:
        if request.route == "/v1/models":
            model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "scripted"}
            self.send_json(200, {"object": "list", "data": [model]})
        else:
            self._fail(Failure(404, f"nothing is scripted for GET {self.path}"))

    def post(self, request: ChatRequest) -> None:
        if not request.asks:
            self._fail(Failure(404, f"nothing is scripted for POST {self.path}"))
            return
        turn = self.server.answer(request)
        if isinstance(turn, Failure):
            self._fail(turn)
        elif isinstance(turn, Malformed):
            self.send_body(200, turn.kind, turn.body)
        elif isinstance(turn, Dropped):
            self._drop(request)
        else:
            self._answer(request, turn if isinstance(turn, Answer) else Answer(turn))

    def _answer(self, request: ChatRequest, answer: Answer) -> None:
        if answer.until is not None:
            self.server.hold(answer.until)
        text = answer.content if isinstance(answer.content, str) else json.dumps(answer.content)
        finish, most = answer.finish, request.longest
        if answer.usage is None and most is not None and tokens(text) > most:
            text, finish = cut(text, most), "length"
        usage = answer.usage or Usage(tokens(request.messages), tokens(text))
        # Counted first: a client that has its answer may look at the count at once.
        self.server.count(usage)
        if request.body.get("stream"):
            self.send_events(self._chunks(request, text, finish, usage))
        else:
            message = {"role": "assistant", "content": text}
            choice = {"index": 0, "message": message, "finish_reason": finish}
            whole = self._body(request, "chat.completion", [choice])
            self.send_json(200, {**whole, "usage": _usage(usage)})

    def _chunks(self, request: ChatRequest, text: str, finish: str, usage: Usage) -> Iterator[str]:
        """Take an answer apart as the service does: words, the end, the usage if it is wanted."""
        kind = "chat.completion.chunk"
        base = self._body(request, kind, [])
        words = text.split(" ")
        pieces = [word + " " for word in words[:-1]] + words[-1:]
        deltas: list[tuple[dict[str, Any], str | None]] = [
            ({"role": "assistant", "content": ""}, None),
            *(({"content": piece}, None) for piece in pieces if piece),
            ({}, finish),
        ]
        for delta, finished in deltas:
            choice = {"index": 0, "delta": delta, "finish_reason": finished}
            yield f"data: {json.dumps({**base, 'choices': [choice]})}"
        if (request.body.get("stream_options") or {}).get("include_usage"):
            yield f"data: {json.dumps({**base, 'usage': _usage(usage)})}"
        yield "data: [DONE]"

    def _body(self, request: ChatRequest, kind: str, choices: list[Any]) -> dict[str, Any]:
        return {
            "id": self.server.new_id("chatcmpl"),
            "object": kind,
            "created": 0,
            "model": request.body.get("model", MODEL),
            "choices": choices,
        }

    def _drop(self, request: ChatRequest) -> None:
        if request.body.get("stream"):
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"ffff\r\ndata: {")
        self.close_connection = True

    def _fail(self, failure: Failure) -> None:
        headers = {}
        if failure.retry_after is not None:
            headers["Retry-After"] = f"{failure.retry_after:g}"
        kind = "rate_limit_exceeded" if failure.status == 429 else "scripted"
        error = {"message": failure.message, "type": kind, "param": None, "code": kind}
        self.send_json(failure.status, {"error": error}, headers)


def _usage(usage: Usage) -> dict[str, int]:
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.total,
    }
