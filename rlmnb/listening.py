"""Take agents' events over HTTP, for those who would rather have one server than many processes.

Nothing starts this but `rlmnb hooks serve`, and nothing of it outlives that command. It listens on
127.0.0.1 alone, and takes what has the token and comes from no web page. An event goes the way that
it goes through `python -m rlmnb.hook`. No answer is a 5xx: an agent must not see us fail.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
import signal
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

from rlmnb import hook
from rlmnb.errors import StorageError
from rlmnb.files import Lock, make_directory, read_bytes, write_atomic
from rlmnb.store.layout import sessions_root

PATH = "/rlmnb.hook"
_HOST = "127.0.0.1"
_TOKEN = re.compile(r"[0-9a-f]{64}")
# How long a client may be silent in the middle of a request, and a refused one go on sending.
_PATIENCE, _LINGER = 10.0, 1.0
_CHUNK = 1 << 20
_LAST_EVENTS = 5.0


def url(port: int) -> str:
    """Return the address that events are sent to."""
    return f"http://{_HOST}:{port}{PATH}"


def token_path() -> str:
    """Return where the token is kept, readable by its owner alone."""
    return os.path.join(sessions_root(), ".hooks", "token")


def token() -> str:
    """Return the token: the one that settings may have already, or a new one."""
    path = token_path()
    make_directory(os.path.dirname(path))
    with Lock(path + ".lock", timeout=5):
        found = _kept(path)
        if found is None:
            found = secrets.token_hex(32)
            write_atomic(path, found.encode() + b"\n")
    return found


def _kept(path: str) -> str | None:
    try:
        found = read_bytes(path).decode("ascii", "replace").strip()
        # One that others could read is a secret no more.
        shared = os.name != "nt" and os.stat(path).st_mode & 0o077
    except FileNotFoundError:
        return None
    return found if _TOKEN.fullmatch(found) and not shared else None


class HookServer(socketserver.ThreadingTCPServer):
    """The server. Not http.server's own class, which asks for its host's name."""

    # Elsewhere this only lets a port be had again at once; on Windows, by two at a time.
    allow_reuse_address = os.name != "nt"
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, port: int) -> None:
        self.token = token()
        try:
            super().__init__((_HOST, port), _Connection)
        except OSError as error:
            raise StorageError(
                f"cannot listen on {_HOST}:{port}: {error.strerror or error}",
                hint="if it is no other rlmnb hooks serve, run: rlmnb hooks serve --port N",
            ) from None
        self.port = int(self.server_address[1])
        self.url = url(self.port)
        self._busy: set[threading.Thread] = set()

    def serve(self) -> None:
        """Serve until Ctrl-C or SIGTERM, then end the events that are being taken in."""
        # Whoever started this server is not the client whose events come in.
        os.environ["CLAUDE_PID"] = "0"
        os.environ.pop("CLAUDE_CODE_SESSION_ID", None)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            self.serve_forever(0.2)
        except KeyboardInterrupt:
            self.socket.close()
        end = time.monotonic() + _LAST_EVENTS
        for thread in tuple(self._busy):
            thread.join(max(0.0, end - time.monotonic()))

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Let the end of the server wait for what is being done here."""
        thread = threading.current_thread()
        self._busy.add(thread)
        try:
            yield
        finally:
            self._busy.discard(thread)

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 - the base's
        """Keep what went wrong where doctor finds it; a client that hung up is nothing."""
        error = sys.exception()
        if error is not None and not isinstance(error, ConnectionError | TimeoutError):
            hook.note_failure(sessions_root(), "http", error)


class _Connection(BaseHTTPRequestHandler):
    """One request: checked before its body is read, answered, and closed."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "rlmnb", ""
    timeout = _PATIENCE
    server: HookServer

    def __getattr__(self, name: str) -> Callable[[], None]:
        """Answer every method but POST in one way; the base would say 501."""
        if name.startswith("do_"):
            return self._other_method
        raise AttributeError(name)

    def do_POST(self) -> None:
        """Take one event in."""
        started = time.perf_counter()
        refused = self._refusal()
        if refused is not None:
            self._refuse(refused)
            return
        length = int(self.headers["Content-Length"])
        data = self.rfile.read(length)
        if len(data) < length:
            self._fail("an event ended in the middle")
            self._refuse(HTTPStatus.BAD_REQUEST)
            return
        said: list[bytes] = []
        with self.server.at_work():
            hook.answer(lambda: data, "claude", started, said.append)
            self._send(HTTPStatus.OK, b"".join(said))

    def _refusal(self) -> HTTPStatus | None:
        """Say why a request is not taken, from its headers alone."""
        hosts = (f"{_HOST}:{self.server.port}", f"localhost:{self.server.port}")
        if self.headers.get_all("Host") not in ([hosts[0]], [hosts[1]]) or "Origin" in self.headers:
            return HTTPStatus.FORBIDDEN
        if not self._has_token():
            return HTTPStatus.UNAUTHORIZED
        if self.path != PATH:
            return HTTPStatus.NOT_FOUND
        lengths = self.headers.get_all("Content-Length") or []
        if len(lengths) != 1 or "Transfer-Encoding" in self.headers:
            return HTTPStatus.LENGTH_REQUIRED
        if not re.fullmatch(r"[0-9]{1,18}", lengths[0]):
            return HTTPStatus.BAD_REQUEST
        if int(lengths[0]) > hook.LARGEST_PAYLOAD:
            self._fail(f"an event of more than {hook.LARGEST_PAYLOAD} bytes was left out")
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        return None

    def _has_token(self) -> bool:
        given = self.headers.get("Authorization", "").encode("utf-8", "replace")
        return hmac.compare_digest(given, f"Bearer {self.server.token}".encode())

    def _other_method(self) -> None:
        self._refuse(HTTPStatus.METHOD_NOT_ALLOWED)

    def _fail(self, what: str) -> None:
        hook.note_failure(sessions_root(), "http", ValueError(what))

    def _refuse(self, status: HTTPStatus) -> None:
        self._send(status, b"")
        # Closed with bytes unread, the system would take the answer back.
        try:
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(_LINGER)
            end = time.monotonic() + _LINGER
            while time.monotonic() < end and self.connection.recv(_CHUNK):
                continue
        except OSError:
            return

    def _send(self, status: HTTPStatus, body: bytes) -> None:
        self.send_response(status)
        if body:
            self.send_header("Content-Type", "application/json")
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "POST")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body if self.command != "HEAD" else b"")

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002 - the base's
        """Refuse what is not HTTP; what the base calls our own fault is the sender's."""
        self.close_connection = True
        self._refuse(HTTPStatus(code) if code < 500 else HTTPStatus.BAD_REQUEST)

    def log_message(self, format: str, *args: Any) -> None:
        """Stay silent: what went wrong is where doctor finds it."""
