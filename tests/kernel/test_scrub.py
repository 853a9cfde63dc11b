"""Variables that hold a secret are forgotten with it, and made again when they are needed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import rlmnb
from rlmnb import Session
from rlmnb.views import text_of

pytestmark = pytest.mark.kernel
TOKEN = "ghp" + "_" + "a1B2c3D4e5" * 3 + "F6g7H8"


def holding() -> list[str]:
    files = [path for path in Path(os.environ["RLMNB_HOME"]).rglob("*") if path.is_file()]
    return [path.name for path in files if TOKEN.encode() in path.read_bytes()]


def test_stored_variables_with_a_secret_are_removed_and_nothing_is_stale_for_it(run) -> None:
    rlmnb.append("demo", {"source": f"key = '{TOKEN}'"})
    rlmnb.append("demo", {"source": "print(len(key) > 9)"})
    assert run("replay", "demo", "--force").returncode == 0
    assert any(name.startswith("state.db") for name in holding())
    assert run("scrub", "demo", "--yes").returncode == 0
    assert holding() == []
    assert run("replay", "demo", "--check").returncode == 0
    path = Path(Session.open("demo").path)
    path.write_text(path.read_text().replace("> 9", "> 10"))
    assert run("replay", "demo").returncode == 0
    assert text_of(Session.open("demo").cells[1].outputs) == "True\n"
    assert holding() == []
