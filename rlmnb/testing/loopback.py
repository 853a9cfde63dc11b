"""The ground that scripted servers stand on: HTTP on 127.0.0.1, each request recorded.

A server binds loopback and opens no connection itself. What it records of a request is its method,
path and body, so no key that a client sends is kept.
"""

from __future__ import annotations

import json
import math
import socketserver
import sys
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any, Generic, TypeVar

CHARACTERS_PER_TOKEN = 4
LONGEST_WAIT = 60.0

RequestT = TypeVar("RequestT")
ServerT = TypeVar("ServerT", bound="LoopbackServer[Any]")


def tokens(value: object) -> int:
    """Count tokens as a scripted server does: by the length of the JSON."""
    return math.ceil(len(json.dumps(value)) / CHARACTERS_PER_TOKEN)


def cut(text: str, most: int) -> str:
    """Return as much of a text as has that many tokens, at most."""
    too_long = bisect_right(range(len(text) + 1), most, key=lambda end: tokens(text[:end]))
    return text[: max(0, too_long - 1)]


class LoopbackServer(socketserver.ThreadingTCPServer, Generic[RequestT]):
    """A server on a free port. Not http.server's own class, which asks for its host's name."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(
        self,
        connection: type[LoopbackConnection],
        make: Callable[[str, str, Mapping[str, Any]], RequestT],
    ) -> None:
        super().__init__(("127.0.0.1", 0), connection)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.requests: list[RequestT] = []
        self.ended = threading.Event()
        self.raised: list[BaseException] = []
        self.recording = threading.Lock()
        self._make = make
        self._made = 0

    def record(self, method: str, path: str, body: Mapping[str, Any]) -> RequestT:
        """Keep what was asked for, in the order of arrival."""
        request = self._make(method, path, body)
        with self.recording:
            self.requests.append(request)
        return request

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 - the base's
        """Keep what a script raised; the test that wrote it is told at the end."""
        error = sys.exception()
        # A client that was stopped hangs up in the middle of an answer.
        if error is not None and not isinstance(error, ConnectionError | TimeoutError):
            self.raised.append(error)

    def new_id(self, kind: str) -> str:
        """Return an id that this server has not given before."""
        with self.recording:
            self._made += 1
            return f"{kind}_scripted{self._made:06}"


@contextmanager
def serving(server: ServerT) -> Iterator[ServerT]:
    """Serve until the block ends, then raise what a script raised."""
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.ended.set()
            server.shutdown()
            thread.join()
        if server.raised:
            raise server.raised[0]


class LoopbackConnection(BaseHTTPRequestHandler):
    """What every scripted server does with a connection: read, record, answer."""

    protocol_version = "HTTP/1.1"
    timeout = LONGEST_WAIT
    server: LoopbackServer[Any]

    def do_HEAD(self) -> None:
        """Give a sign of life."""
        self.receive()
        self.send_body(200, "text/plain", b"")

    def do_GET(self) -> None:
        """Read what is asked for, and give it."""
        self.get(self.receive())

    def do_POST(self) -> None:
        """Read what is sent, and answer it."""
        self.post(self.receive())

    def get(self, request: Any) -> None:
        """Answer a GET."""
        raise NotImplementedError

    def post(self, request: Any) -> None:
        """Answer a POST."""
        raise NotImplementedError

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent: what was asked is in the record."""

    def receive(self) -> Any:
        """Read a request, and record it."""
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return self.server.record(self.command, self.path, json.loads(raw) if raw else {})

    def send_json(self, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
        """Answer with JSON."""
        self.send_body(status, "application/json", json.dumps(body).encode(), headers)

    def send_body(
        self, status: int, kind: str, body: bytes, headers: Mapping[str, str] | None = None
    ) -> None:
        """Answer with bytes, whatever they are."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Request-Id", self.server.new_id("req"))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def send_events(self, events: Iterable[str]) -> None:
        """Answer with a stream of server-sent events, each given as its lines."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Request-Id", self.server.new_id("req"))
        self.end_headers()
        for event in events:
            text = f"{event}\n\n".encode()
            self.wfile.write(b"%x\r\n%b\r\n" % (len(text), text))
        self.wfile.write(b"0\r\n\r\n")
