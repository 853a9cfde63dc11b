"""One server for all tests of a process; the sessions of each test are gone after it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.serving import Server, served


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Server]]:
    """Serve a sessions root that all tests use, one after the other."""
    sessions = tmp_path_factory.mktemp("lab") / "sessions"
    sessions.mkdir()
    with served(sessions, home=sessions) as running:
        yield sessions, running


@pytest.fixture
def server(
    shared: tuple[Path, Server], root: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Server]:
    """Let a test use the server, with no session in it."""
    sessions, running = shared
    root.symlink_to(sessions)
    monkeypatch.setenv("RLMNB_HOME", str(sessions))
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(running.data))
    yield running
    for each in sessions.iterdir():
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each)
        else:
            each.unlink()
