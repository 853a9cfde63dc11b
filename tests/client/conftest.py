"""A project to work in, and a session with every kind of tool call, run once for a module."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.client.recording import Recorded, record
from tests.client.running import CLIENT
from tests.client.scenario import FLAGS, SETTINGS, make_project, tools_script


@pytest.fixture(scope="session", autouse=True)
def client() -> None:
    """Say what is missing before the first test starts it."""
    assert CLIENT.exists(), f"{CLIENT}: no Claude Code client there; run: make test-client"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project")


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    project = make_project(tmp_path_factory.mktemp("tools") / "project")
    return record(tools_script(project), "use them", project, settings=SETTINGS, flags=FLAGS)
