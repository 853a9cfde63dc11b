"""Events over HTTP become the same cells, for as long as the server runs and no longer."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from rlmnb import Session
from rlmnb.hook import LARGEST_PAYLOAD
from tests.conftest import assert_valid, notebook_of
from tests.unit.test_hook import NAMES, SESSION, cells, failures, payload, run_hook

START = ["SessionStart.startup", "UserPromptSubmit"]
END = ["Stop", "SessionEnd"]
# As in a session: it starts, things are asked for and done, it ends.
ORDER = [
    *START,
    *sorted({*NAMES} - {*START, *END}, key=lambda name: (name.startswith("Post"), name)),
    *END,
]
# What differs between any two recordings of the same thing: times, and what ids of cells are in.
PASSING = {"id", "created_at", "started_at", "ended_at", "updated_at", "completed_at"}
PASSING |= {"context_hash"}


class Served:
    """A running `rlmnb hooks serve`, and a client of it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.process = process
        self.told = json.loads(process.stdout.readline())
        self.port = int(self.told["url"].split(":")[2].split("/")[0])
        self.token = Path(self.told["token_file"]).read_text(encoding="ascii").strip()

    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}

    def send(
        self,
        body: bytes,
        *,
        method: str = "POST",
        path: str = "/rlmnb.hook",
        headers: dict[str, str] | None = None,
    ) -> tuple[int, bytes, str | None]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request(method, path, body, self.headers() if headers is None else headers)
        answer = connection.getresponse()
        found = (answer.status, answer.read(), answer.headers.get("Content-Type"))
        connection.close()
        return found

    def post(self, given: Any) -> tuple[int, bytes, str | None]:
        return self.send(given if isinstance(given, bytes) else json.dumps(given).encode())

    def raw(self, request: bytes) -> bytes:
        """Send bytes as they are, and return all that comes back."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.fixture
def served() -> Iterator[Served]:
    command = [sys.executable, "-m", "rlmnb", "hooks", "serve", "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield Served(process)
        process.kill()


def lasting(value: Any) -> Any:
    """Leave out what differs between two recordings of the same."""
    if isinstance(value, dict):
        return {key: lasting(each) for key, each in value.items() if key not in PASSING}
    return [lasting(each) for each in value] if isinstance(value, list) else value


def notebook_at(root: Path) -> Any:
    text = (root / SESSION / "session.ipynb").read_text(encoding="utf-8")
    found = json.loads(text)
    # A cell's own id is made by chance; its place in the notebook is not.
    for number, cell in enumerate(found["cells"]):
        text = text.replace(cell["id"], f"cell-{number}")
    return lasting(json.loads(text)["cells"])


def test_every_payload_gives_what_the_command_gives(served, root, tmp_path):
    elsewhere = tmp_path / "by-command"
    said = []
    Path("seen.txt").write_text("seen")
    # A session that has read a file is answered with it when it goes on.
    call = {"file_path": str(Path("seen.txt").absolute())}
    again = payload("PostToolUse.Read", tool_use_id="again", tool_input=call)
    for given in (*map(payload, ORDER), again, payload("SessionStart.resume")):
        status, body, kind = served.post(given)
        assert (status, kind) == (200, "application/json" if body else None)
        done = run_hook(json.dumps(given).encode(), RLMNB_HOME=str(elsewhere), CLAUDE_PID="0")
        assert body == done.stdout, given["hook_event_name"]
        said.append(body)
    assert call["file_path"].encode() in said[-1]
    assert failures() == []
    assert len(notebook_at(root)) > 10
    assert notebook_at(root) == notebook_at(elsewhere)
    assert_valid(notebook_of(SESSION))


def test_parallel_posts_lose_nothing(served):
    def one(number: int) -> tuple[int, bytes, str | None]:
        return served.post(payload("PostToolUse.Read", tool_use_id=f"t{number}"))

    with ThreadPoolExecutor(20) as pool:
        assert set(pool.map(one, range(200))) == {(200, b"", None)}
    found = [cell.record.tool_use_id for cell in cells()]
    assert sorted(found) == sorted(f"t{number}" for number in range(200))
    assert failures() == []
    assert_valid(notebook_of(SESSION))


@pytest.mark.parametrize(
    "body", [b"", b"{ no JSON", b"[1]", b"\xff\xfe", b"[" * 100_000, b'{"hook_event_name": 3}']
)
def test_what_is_no_event_is_noted_and_the_agent_goes_on(body, served):
    assert served.post(body) == (200, b"", None)
    assert len(failures()) == 1
    assert served.post(payload("PostToolUse.Read"))[0] == 200
    assert len(cells()) == 1


def test_who_has_no_token_is_refused(served):
    body = json.dumps(payload("PostToolUse.Read")).encode()
    wrong = [
        {},
        {"Authorization": ""},
        {"Authorization": served.token},
        {"Authorization": "Bearer " + "0" * 64},
        {"Authorization": f"Bearer {served.token}0"},
        {"Authorization": "Bearer \xe9"},
    ]
    assert {served.send(body, headers=each) for each in wrong} == {(401, b"", None)}
    assert not notebook_of(SESSION).exists()


def test_what_comes_from_elsewhere_is_refused(served):
    body = json.dumps(payload("PostToolUse.Read")).encode()
    ours = served.headers()
    for more in (
        {"Host": "example.org"},
        {"Host": f"example.org:{served.port}"},
        {"Host": "127.0.0.1:1"},
        {"Origin": "https://example.org"},
        {"Origin": "null"},
        {"Origin": f"http://127.0.0.1:{served.port}"},
    ):
        assert served.send(body, headers={**ours, **more})[0] == 403
    assert not notebook_of(SESSION).exists()
    assert served.send(body, headers={**ours, "Host": f"localhost:{served.port}"})[0] == 200
    assert len(cells()) == 1


def test_other_paths_and_methods_are_refused(served):
    body = json.dumps(payload("PostToolUse.Read")).encode()
    for path in ("/", "/rlmnb.hook/", "/rlmnb.hook?x", "/../rlmnb.hook"):
        assert served.send(body, path=path)[0] == 404
    for method in ("GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "NONSENSE"):
        assert served.send(b"", method=method)[0] == 405
    assert not notebook_of(SESSION).exists()


def test_a_body_of_an_unknown_or_too_great_size_is_refused_unread(served):
    begin = f"POST /rlmnb.hook HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n"
    begin += f"Authorization: Bearer {served.token}\r\n"
    for more, status in {
        "": b"411",
        "Transfer-Encoding: chunked\r\n": b"411",
        "Content-Length: 2\r\nContent-Length: 2\r\n": b"411",
        "Content-Length: -1\r\n": b"400",
        "Content-Length: 2x\r\n": b"400",
        "Content-Length: 9\r\n": b"400",  # and then comes less
        f"Content-Length: {LARGEST_PAYLOAD + 1}\r\n": b"413",
    }.items():
        assert served.raw(f"{begin}{more}\r\n{{}}".encode()).split()[1] == status, more
    assert served.send(b" " * (LARGEST_PAYLOAD + 1))[0] == 413
    assert sum("more than" in line for line in failures()) == 2


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"POST /rlmnb.hook HTTP/9.9\r\n\r\n",
        b"POST /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
def test_what_is_no_request_never_gets_a_5xx(request_bytes, served):
    answer = served.raw(request_bytes)
    assert not answer.startswith(b"HTTP/1.1 5")
    assert b" 5" not in answer[:12]
    assert served.post(payload("PostToolUse.Read")) == (200, b"", None)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_runs_after_it_was_told_to_end(number, served):
    silent = socket.create_connection(("127.0.0.1", served.port), timeout=30)
    assert served.post(payload("PostToolUse.Read"))[0] == 200
    served.process.send_signal(number)
    assert served.process.wait(30) == 0
    silent.close()
    with pytest.raises(ConnectionRefusedError):
        served.post(payload("PostToolUse.Bash"))
    assert len(cells()) == 1


def test_an_event_without_a_session_is_not_given_to_whoever_started_the_server(monkeypatch):
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "starter")
    monkeypatch.setenv("CLAUDE_PID", str(os.getpid()))
    command = [sys.executable, "-m", "rlmnb", "hooks", "serve", "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        server = Served(process)
        server.post({key: value for key, value in payload("Stop").items() if key != "session_id"})
        for session in ("one", "two"):
            server.post(payload("SessionStart.clear", session_id=session))
        process.kill()
    assert not notebook_of("starter").exists()
    assert len(failures()) == 1
    # Two clients of one server: neither came from the other.
    assert Session.open("two").state.session.parent_session_id is None
    assert Session.open("two").state.lifecycle.pid is None


def test_the_token_is_its_owners_alone_and_stays(served, run, run_json, root):
    path = root / ".hooks" / "token"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert served.token in run("hooks", "serve", "--settings").stdout
    path.chmod(0o644)
    assert served.token not in run("hooks", "serve", "--settings").stdout
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    busy = run("hooks", "serve", "--port", str(served.port))
    assert busy.returncode == 3
    assert f"127.0.0.1:{served.port}" in busy.stderr
    assert run("hooks", "serve", "--port", "70000").returncode == 2
    assert run("hooks", "serve", "--settings", "--port", "0").returncode == 2


def test_the_settings_work_and_are_taken_out_again(served, run, run_json, monkeypatch, tmp_path):
    shown = run_json("hooks", "serve", "--settings", "--port", str(served.port))
    (hook,) = shown["hooks"]["PostToolUse"][0]["hooks"]
    assert (hook["type"], hook["url"]) == ("http", served.told["url"])
    body = json.dumps(payload("PostToolUse.Read")).encode()
    assert served.send(body, headers=hook["headers"])[0] == 200
    assert len(cells()) == 1
    # Which client it is, and so where a session came from, only a process of its own can tell.
    assert shown["hooks"]["SessionStart"][0]["hooks"][0]["type"] == "command"
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(shown))
    assert run_json("hooks", "status")["installed"]["user"] is True
    assert run_json("hooks", "install", "--yes")["changed"] is True
    assert '"http"' not in path.read_text()
    path.write_text(json.dumps(shown))
    assert run_json("hooks", "uninstall", "--yes")["changed"] is True
    assert json.loads(path.read_text()) == {}
