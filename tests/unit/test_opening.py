"""Finding and starting a JupyterLab for a session."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import rlmnb
from rlmnb.lab import opening
from rlmnb.store.layout import session_place

WITHOUT_LAB = """
import sys
sys.modules["jupyterlab"] = None
from rlmnb.cli.main import main
sys.exit(main(["open", "demo", "--no-browser"]))
"""


class Answering(BaseHTTPRequestHandler):
    """A Jupyter server as far as `rlmnb open` sees of it."""

    def do_GET(self) -> None:
        knows = self.path == "/rlmnb/api/sessions"
        allowed = self.headers.get("Authorization") == "token good"
        self.send_response(200 if knows and allowed else 403 if knows else 404)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture
def port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "runtime"
    place.mkdir()
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(place))
    return place


def tell_of(runtime: Path, name: str, **fields: Any) -> None:
    known = {"pid": 1, "token": "good", "root_dir": "/"}
    (runtime / f"jpserver-{name}.json").write_text(json.dumps({**known, **fields}))


def test_without_jupyterlab_the_command_says_what_to_install(root):
    rlmnb.append("demo", {"source": "x = 1"})
    done = subprocess.run([sys.executable, "-c", WITHOUT_LAB], capture_output=True, text=True)
    assert done.returncode == 2
    assert "pip install 'rlmnb[lab]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_session_that_is_not_there_is_no_reason_to_start_anything(run):
    done = run("open", "nowhere", "--no-browser")
    assert done.returncode == 2
    assert "rlmnb sessions" in done.stderr


def test_the_server_that_is_nearest_and_answers_is_taken(root, runtime, port):
    rlmnb.append("demo", {"source": "x = 1"})
    url = f"http://127.0.0.1:{port}/"
    tell_of(runtime, "far", url=url, root_dir=str(root.parent))
    tell_of(runtime, "near", url=url, root_dir=str(root), pid=7)
    tell_of(runtime, "nearest-but-gone", url="http://127.0.0.1:9/", root_dir=str(root / "demo"))
    (runtime / "jpserver-broken.json").write_text("{")
    place = session_place("demo")
    server = opening._running(place.notebook)
    assert server is not None
    assert server["pid"] == 7
    assert opening._address(server, place.notebook) == (
        f"{url}lab/tree/demo/session.ipynb?token=good"
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"root_dir": "/nowhere"},
        {"token": "wrong"},
        {"base": "other/"},
        {"url": "http+unix://%2Frun%2Fjupyter.sock/"},
    ],
)
def test_a_server_that_cannot_show_the_session_is_not_taken(root, runtime, port, fields):
    rlmnb.append("demo", {"source": "x = 1"})
    url = f"http://127.0.0.1:{port}/{fields.pop('base', '')}"
    tell_of(runtime, "one", **{"url": url, "root_dir": str(root), **fields})
    assert opening._running(session_place("demo").notebook) is None


def test_a_file_browser_shows_nothing_below_a_hidden_directory(tmp_path, runtime, port):
    hidden = tmp_path / ".hidden"
    rlmnb.append(str(hidden / "a.ipynb"), {"source": "x = 1"})
    url = f"http://127.0.0.1:{port}/"
    tell_of(runtime, "one", url=url, root_dir=str(tmp_path))
    assert opening._running(str(hidden / "a.ipynb")) is None
    tell_of(runtime, "two", url=url, root_dir=str(hidden))
    assert opening._running(str(hidden / "a.ipynb")) is not None
