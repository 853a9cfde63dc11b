"""A real Jupyter server on loopback with a token, and what a browser would ask of it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from rlmnb.files import polls
from tests.ports import lost_its_port, unused_port

TOKEN = "a-token-of-this-test"
# Nothing here waits this long unless the machine is as busy as that.
_START_SECONDS = 300
_MOST_PORTS = 5
# What may be installed beside rlmnb; a test that wants one of them says so.
OTHERS = (
    "jupyter_lsp",
    "jupyter_server_fileid",
    "jupyter_server_terminals",
    "jupyter_server_ydoc",
    "jupyterlab",
    "notebook",
    "notebook_shim",
)


class Answer:
    """What came back."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.text = response.read().decode()

    @property
    def json(self) -> Any:
        return json.loads(self.text)


class Server:
    """A server that runs, by its address."""

    def __init__(self, port: int, process: subprocess.Popen[bytes], data: Path) -> None:
        self.port = port
        self.process = process
        self.data = data

    def _open(
        self, method: str, address: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        given = {"Authorization": f"token {TOKEN}"} if headers is None else dict(headers)
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        try:
            connection.request(method, address, data, given)
            return connection, connection.getresponse()
        except BaseException:
            connection.close()
            raise

    def ask(self, method: str, address: str, body: Any = None, **options: Any) -> Answer:
        """Ask for anything of the server."""
        connection, response = self._open(method, address, body, **options)
        try:
            return Answer(response)
        finally:
            connection.close()

    def get(self, what: str, headers: Mapping[str, str] | None = None, **query: str) -> Answer:
        """Ask something of rlmnb's part of the server."""
        return self.ask("GET", f"/rlmnb/api/{what}?{urlencode(query)}", headers=headers)

    def post(self, what: str, body: Any, headers: Mapping[str, str] | None = None) -> Answer:
        """Want something of rlmnb's part of the server."""
        return self.ask("POST", f"/rlmnb/api/{what}", body, headers=headers)

    def contents(self, path: str) -> dict[str, Any]:
        """Open a notebook as JupyterLab does."""
        answer = self.ask("GET", f"/api/contents/{quote(path)}?type=notebook&content=1")
        assert answer.status == 200, answer.text
        return dict(answer.json["content"])

    def save(self, path: str, content: dict[str, Any]) -> Answer:
        """Save a notebook as JupyterLab does."""
        model = {"type": "notebook", "format": "json", "content": content}
        return self.ask("PUT", f"/api/contents/{quote(path)}", model)

    @contextmanager
    def events(self, address: str) -> Iterator[Iterator[tuple[str, Any]]]:
        """Listen to server-sent events; what comes first is that it listens."""
        connection, response = self._open("GET", f"/rlmnb/api/{address}")
        try:
            assert response.status == 200, response.read()
            yield _events(response)
        finally:
            response.close()
            connection.close()

    def kill(self) -> None:
        """Let it die without a chance to tidy up."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def _events(response: http.client.HTTPResponse) -> Iterator[tuple[str, Any]]:
    event = ""
    while line := response.readline().decode():
        if line.startswith("event: "):
            event = line.removeprefix("event: ").strip()
        elif line.startswith("data: "):
            yield event, json.loads(line.removeprefix("data: "))


def heard(events: Iterator[tuple[str, Any]], wanted: str) -> Any:
    """Return the data of the next event of this kind."""
    return next(told for event, told in events if event == wanted)


@contextmanager
def served(
    directory: Path, *extensions: str, home: Path | None = None, **traits: Any
) -> Iterator[Server]:
    """Start a server that shows a directory; only rlmnb and the named extensions are loaded."""
    for _ in range(_MOST_PORTS):
        with _started(directory, extensions, home, traits) as server:
            log = server.data.parent / "log"
            if _answers(server):
                yield server
                return
        if not lost_its_port(log):
            break
    raise AssertionError(log.read_text())


@contextmanager
def _started(
    directory: Path, extensions: tuple[str, ...], home: Path | None, traits: dict[str, Any]
) -> Iterator[Server]:
    """Start a server on a port that may be somebody else's by the time it listens."""
    port = unused_port()
    place = directory.parent / f"jupyter-{port}"
    settings = place / "settings"
    settings.mkdir(parents=True)
    (place / "data").mkdir()
    enabled = {**dict.fromkeys(OTHERS, False), **dict.fromkeys(("rlmnb.lab", *extensions), True)}
    (settings / "jupyter_server_config.json").write_text(
        json.dumps({"ServerApp": {"jpserver_extensions": enabled}})
    )
    environment = {
        **os.environ,
        "JUPYTER_CONFIG_PATH": str(settings),
        "JUPYTER_CONFIG_DIR": str(place / "config"),
        "JUPYTER_DATA_DIR": str(place / "data"),
        "JUPYTER_RUNTIME_DIR": str(place / "runtime"),
        "HOME": str(place),
        **({"RLMNB_HOME": str(home)} if home else {}),
    }
    options = {
        "ServerApp.root_dir": str(directory),
        "ServerApp.port": str(port),
        "ServerApp.port_retries": "0",
        "ServerApp.ip": "127.0.0.1",
        "ServerApp.open_browser": "False",
        "ServerApp.allow_root": "True",
        "IdentityProvider.token": TOKEN,
        **traits,
    }
    log = open(place / "log", "wb")  # noqa: SIM115 - as long as the server runs
    process = subprocess.Popen(
        [sys.executable, "-m", "jupyter_server", *(f"--{k}={v}" for k, v in options.items())],
        env=environment,
        cwd=place,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    server = Server(port, process, place / "data")
    try:
        yield server
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()
        log.close()


def _answers(server: Server) -> bool:
    """Wait until a server answers; False if it ended instead."""
    for _ in polls(_START_SECONDS):
        if server.process.poll() is not None:
            return False
        try:
            answered = server.get("sessions").status == 200
        except OSError:
            continue
        if answered and server.process.poll() is None:
            return True
    return False
