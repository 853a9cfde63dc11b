"""Find a JupyterLab that can show a notebook, or start one that stays when we are gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from glob import escape as glob_escape
from glob import glob
from importlib.util import find_spec
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import ProxyHandler, Request, build_opener

from jupyter_core.paths import jupyter_runtime_dir

from rlmnb.errors import KernelError, MissingExtraError, RlmnbError
from rlmnb.files import Lock, make_directory, polls, read_bytes
from rlmnb.jsontext import loads
from rlmnb.store.layout import Place, sessions_root

START_SECONDS = 90.0
_ASK_SECONDS = 5.0
_TAIL = 800


@dataclass(frozen=True, slots=True)
class Shown:
    """Where a notebook can be seen."""

    url: str
    notebook: str
    root: str
    pid: int
    started: bool


def shown_at(place: Place, timeout: float = START_SECONDS) -> Shown:
    """Return where a notebook can be seen, having started a JupyterLab if none shows it."""
    _want_lab()
    directory = os.path.join(sessions_root(), ".lab")
    make_directory(directory)
    # Two that open at once share one server.
    with Lock(os.path.join(directory, ".lock"), timeout=timeout):
        server = _running(place.notebook)
        started = server is None
        if server is None:
            server = _start(_root_for(place), directory, timeout)
    return Shown(
        url=_address(server, place.notebook),
        notebook=place.notebook,
        root=str(server["root_dir"]),
        pid=int(server["pid"]),
        started=started,
    )


def _want_lab() -> None:
    """Say what to install where there is no JupyterLab."""
    if find_spec("jupyterlab") is None:
        raise MissingExtraError(
            f"rlmnb open needs JupyterLab, and {sys.executable} has none",
            hint="run: pip install 'rlmnb[lab]'",
        )


def _running(notebook: str) -> dict[str, Any] | None:
    """Return the server that shows the notebook from nearest by, with our extension in it."""
    fitting = [server for server in _servers() if _path_in(server, notebook)]
    fitting.sort(key=lambda server: len(str(server["root_dir"])), reverse=True)
    return next((server for server in fitting if _answers(server)), None)


def _servers() -> Iterator[dict[str, Any]]:
    """Return what servers have written of themselves; importing theirs to read it takes seconds."""
    for path in glob(os.path.join(glob_escape(jupyter_runtime_dir()), "jpserver-*.json")):
        try:
            found = loads(read_bytes(path))
        except (OSError, ValueError, RlmnbError):
            continue  # it has just ended, or is about to be written
        if isinstance(found, dict) and str(found.get("url", "")).startswith(("http:", "https:")):
            yield {"root_dir": "", "token": "", "pid": 0, **found}


def _path_in(server: dict[str, Any], notebook: str) -> str | None:
    """Return a notebook's path as a server's file browser has it, None if it cannot be seen there.

    A file browser shows no hidden directory, and the sessions root may well be below one.
    """
    root = os.path.realpath(str(server["root_dir"] or os.sep))
    real = os.path.realpath(notebook)
    if not server["root_dir"] or os.path.commonpath([root, real]) != root:
        return None
    parts = os.path.relpath(real, root).split(os.sep)
    return None if any(part.startswith(".") for part in parts) else "/".join(parts)


def _answers(server: dict[str, Any]) -> bool:
    """Tell whether a server answers, and is one that knows of sessions."""
    url = f"{server['url']}rlmnb/api/sessions"
    request = Request(url, headers={"Authorization": f"token {server['token']}"})  # noqa: S310
    try:
        # Not through a proxy: this is our own machine.
        with build_opener(ProxyHandler({})).open(request, timeout=_ASK_SECONDS) as answer:
            return bool(answer.status == 200)
    except HTTPError as error:
        # A server with a password lets nobody in who has not signed in; a person can.
        return error.code in (401, 403) and not server["token"]
    except (URLError, OSError, ValueError):
        return False


def _address(server: dict[str, Any], notebook: str) -> str:
    path = quote(_path_in(server, notebook) or "")
    token = f"?token={quote(str(server['token']))}" if server["token"] else ""
    return f"{server['url']}lab/tree/{path}{token}"


def _root_for(place: Place) -> str:
    """Return the directory to show: all sessions, or the one that the notebook is in."""
    return os.path.dirname(place.notebook if place.plain else place.directory)


def _start(root: str, directory: str, timeout: float) -> dict[str, Any]:
    log = os.path.join(directory, "server.log")
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", f"--ServerApp.root_dir={root}"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
    with open(os.open(log, flags, 0o600), "wb") as file:
        process = subprocess.Popen(  # noqa: S603 - the user's own JupyterLab
            command,
            cwd=root,
            env={key: value for key, value in os.environ.items() if key != "JPY_PARENT_PID"},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            # It outlives the terminal that it was started in.
            start_new_session=True,
        )
    for _ in polls(timeout):
        if process.poll() is not None:
            said = read_bytes(log)[-_TAIL:].decode("utf-8", "replace").strip()
            raise KernelError(f"JupyterLab ended before it was ready: {said}", hint=_advice(root))
        for server in _servers():
            if server["pid"] == process.pid and _answers(server):
                return server
    process.terminate()
    raise KernelError(f"JupyterLab did not answer in {timeout:g} s", hint=_advice(root))


def _advice(root: str) -> str:
    return f"try it by hand: {sys.executable} -m jupyterlab --ServerApp.root_dir={json.dumps(root)}"
