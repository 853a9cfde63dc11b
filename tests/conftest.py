"""What the tests share: a root of their own, and the programs that other people run."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hypothesis import HealthCheck, settings
from jupyter_client.kernelspec import KernelSpec
from nbclient import NotebookClient

import rlmnb
from rlmnb.replay.channels import Manager
from tests.commands import run_command
from tests.forked import forked_kernels
from tests.nursery import PLAIN

settings.register_profile(
    "rlmnb", deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
settings.load_profile("rlmnb")

# What is run in the background is deaf to interrupts, and so would be all that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test a sessions root, a working directory and no agent around it."""
    home = tmp_path / "sessions"
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.setenv("RLMNB_HOME", str(home))
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))
    monkeypatch.delenv("CLAUDE_CODE_SESSION_ID", raising=False)
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.chdir(work)
    return home


# The trace of a cell that did nothing.
RUN: dict[str, Any] = {
    "reads": {},
    "writes": [],
    "deleted": [],
    "files_read": {},
    "files_written": {},
    "listed": {},
    "failed": False,
    "history": False,
    "opaque": False,
    "text": "sha256:0",
    "code": "sha256:0",
    "python": "3.11",
}


@pytest.fixture
def run() -> Run:
    """Run the real command line in a process of its own."""
    return run_command


@pytest.fixture
def run_json(run: Run) -> Callable[..., Any]:
    """Run a command with --json and return what it printed."""

    def call(*arguments: str, code: int = 0) -> Any:
        done = run(*arguments, "--json")
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout)

    return call


@pytest.fixture
def forked() -> Iterator[None]:
    """Have kernels forked off: for tables of cases that are about the cells and not the start."""
    with forked_kernels():
        yield


def notebook_of(session: str) -> Path:
    return Path(os.environ["RLMNB_HOME"]) / session / "session.ipynb"


def read(session: str) -> dict[str, Any]:
    return json.loads(notebook_of(session).read_text(encoding="utf-8"))


def ids_in(session: str) -> list[str]:
    return [cell["id"] for cell in read(session)["cells"]]


def save_like_lab(path: Path, notebook: dict[str, Any], pause: Callable[[], None] = lambda: None):
    """Save as jupyter_server does: truncate in place, and write while others look on."""
    text = nbformat.writes(nbformat.from_dict(notebook)) + "\n"
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        pause()
        half = len(text) // 2
        file.write(text[:half])
        file.flush()
        pause()
        file.write(text[half:])


def assert_valid(path: Path) -> None:
    """The notebook is valid nbformat 4.5 and byte for byte what nbformat would write."""
    text = path.read_text(encoding="utf-8")
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    assert notebook.nbformat_minor >= 5
    assert nbformat.writes(notebook) + "\n" == text


def append_many(session: str, count: int, **fields: Any) -> list[str]:
    return [rlmnb.append(session, {"source": f"x{n} = {n}", **fields}) for n in range(count)]


def comparable(outputs: list[Any]) -> list[dict[str, Any]]:
    """Return outputs without their counts, pieces of one stream put together.

    A busy machine flushes a stream in the middle of a line, and nbclient keeps both pieces. Where
    an object is in memory, no two runs have in common.
    """
    found: list[dict[str, Any]] = []
    for output in outputs:
        plain = {key: value for key, value in output.items() if key != "execution_count"}
        same = found and plain.get("name") and plain.get("name") == found[-1].get("name")
        if same:
            found[-1]["text"] += plain["text"]
        else:
            found.append(plain)
    masked: list[dict[str, Any]] = json.loads(
        re.sub(r" at 0x[0-9a-f]+", " at 0x0", json.dumps(found))
    )
    return masked


def run_plainly(notebook: Any, directory: Path | None = None) -> None:
    """Run a notebook with nbclient in a plain kernel, its outputs in place.

    Over IPC: kernels that start side by side can be given the same TCP port.
    """
    sockets = tempfile.mkdtemp(prefix="plain-", dir="/tmp")
    manager = Manager(transport="ipc", connection_file=f"{sockets}/kernel.json")
    manager._kernel_spec = KernelSpec(
        argv=[sys.executable, "-m", PLAIN, "-f", "{connection_file}"], language="python"
    )
    where = {"metadata": {"path": str(directory or Path.cwd())}}
    try:
        with forked_kernels():
            NotebookClient(notebook, km=manager, resources=where).execute(cleanup_kc=True)
    finally:
        shutil.rmtree(sockets, ignore_errors=True)
