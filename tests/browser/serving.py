"""The real JupyterLab, in an environment of its own, with or without jupyter-collaboration."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote
from urllib.request import urlopen

from rlmnb.files import polls
from rlmnb.processes import is_alive
from tests.ports import lost_its_port, unused_port

REPOSITORY = Path(__file__).parents[2]
OURS = REPOSITORY / "rlmnb" / "lab" / "labextension"
TOKEN = "browser-tests"
_RUNNING = re.compile(r"(http://127\.0\.0\.1:\d+)/lab")
# Nothing here waits this long unless the machine is as busy as that.
_START_SECONDS = 300
_END_SECONDS = 30
_MOST_PORTS = 5
_QUIET = {
    "@jupyterlab/apputils-extension/notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
    },
    # Saves happen when a test says so.
    "@jupyterlab/docmanager-extension/plugin": {"autosave": False},
}


@dataclass(frozen=True, slots=True)
class Lab:
    """A running server."""

    url: str
    home: Path
    log: Path

    @property
    def sessions(self) -> Path:
        """The sessions root, which is what the file browser shows."""
        return self.home / "sessions"

    @property
    def data(self) -> Path:
        """Where its Jupyter keeps what it knows of this user."""
        return self.home / "data"

    def address(self, path: str, *, door: str = "lab/tree") -> str:
        """Where a notebook is opened, in a workspace that remembers nothing."""
        return f"{self.url}/{door}/{quote(path)}?token={TOKEN}&reset"

    def api(self, what: str) -> str:
        return f"{self.url}/rlmnb/api/{what}"


@contextmanager
def running_lab(home: Path, *, together: bool = False, ours: bool = True) -> Iterator[Lab]:
    """Start a server; `together` is with jupyter-collaboration, `ours` with our Lab extension."""
    settings = home / "settings"
    for name, value in _QUIET.items():
        file = settings / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(value), encoding="utf-8")
    (home / "sessions").mkdir(parents=True)
    log = home / "server.log"
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
        *("--ServerApp.ip=127.0.0.1", "--ServerApp.port_retries=0"),
        f"--IdentityProvider.token={TOKEN}",
        f"--ServerApp.root_dir={home / 'sessions'}",
        f"--LabServerApp.labextensions_path={_extensions(home, together=together, ours=ours)}",
        f"--ServerApp.jpserver_extensions=jupyter_server_ydoc={together}",
        "--ServerApp.jpserver_extensions=rlmnb.lab=True",
        "--LabApp.expose_app_in_browser=True",
    ]
    for _ in range(_MOST_PORTS):
        with _started([*command, f"--ServerApp.port={unused_port()}"], home, log) as process:
            if url := _address(process, log):
                yield Lab(url, home, log)
                return
        if not lost_its_port(log):
            break
    raise AssertionError(f"JupyterLab did not start:\n{log.read_text(encoding='utf-8')}")


@contextmanager
def _started(command: list[str], home: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a server on a port that may be somebody else's by the time it listens."""
    with open(log, "wb") as sink:
        process = subprocess.Popen(
            command, cwd=home, env=_environment(home), stdout=sink, stderr=sink
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(timeout=_END_SECONDS)
            except subprocess.TimeoutExpired:
                # jupyter-collaboration can leave a thread behind that waits for ever.
                process.kill()
                process.wait()


def end(pid: int) -> None:
    """End a server that is not our child, whatever keeps it."""
    os.kill(pid, signal.SIGTERM)
    for _ in polls(_END_SECONDS):
        if not is_alive(pid):
            return
    os.kill(pid, signal.SIGKILL)


def _address(process: subprocess.Popen[bytes], log: Path) -> str | None:
    """Wait until the server answers where it says that it listens: it says so before it does."""
    for _ in polls(_START_SECONDS):
        found = _RUNNING.search(log.read_text(encoding="utf-8"))
        if found and _answers(found[1]) and process.poll() is None:
            return found[1]
        if process.poll() is not None:
            break
    return None


def _answers(url: str) -> bool:
    try:
        with urlopen(f"{url}/api", timeout=_END_SECONDS):
            return True
    except OSError:
        return False


def _extensions(home: Path, *, together: bool, ours: bool) -> Path:
    """A directory with the Lab extensions that are wanted, and no others."""
    place = home / "labextensions"
    place.mkdir(parents=True)
    if ours:
        shutil.copytree(OURS, place / "rlmnb")
    if together:
        installed = Path(sys.prefix) / "share" / "jupyter" / "labextensions" / "@jupyter"
        shutil.copytree(installed, place / "@jupyter")
    return place


def _environment(home: Path) -> dict[str, str]:
    return {
        "PATH": f"{Path(sys.executable).parent}:{os.defpath}",
        "HOME": str(home),
        "PYTHONPATH": str(REPOSITORY),
        "RLMNB_HOME": str(home / "sessions"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
    }
