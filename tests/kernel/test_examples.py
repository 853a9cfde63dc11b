"""The sessions in `examples/`, replayed from their notebooks alone, where no model is."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest

from rlmnb import Session
from rlmnb.capture.secrets import redact_text
from rlmnb.replay import warm
from rlmnb.replay.traveling import restore_at
from tests.conftest import Run

pytestmark = pytest.mark.kernel
EXAMPLES = Path(__file__).parents[2] / "examples"
MADE = ["release-date", "spending", "sum-weights"]


@pytest.fixture(params=MADE)
def example(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of one, with the files it reads, where no model is configured."""
    shutil.copytree(EXAMPLES / "data", "data")
    monkeypatch.delenv("RLMNB_MODEL", raising=False)
    return Path(shutil.copy(EXAMPLES / f"{request.param}.ipynb", "."))


def shown(path: Path) -> list[Any]:
    """What cells show, without what no two runs have in common."""
    text = json.dumps([cell.get("outputs") for cell in nbformat.read(path, 4).cells])
    text = re.sub(r'"execution_count": \d+', '"execution_count": 0', text)
    return json.loads(re.sub(r"(ipykernel_|Cell In\[)\d+(/\d+)?", r"\1", text))


def test_it_is_replayed_whole_from_the_answers_in_its_records(example: Path, run: Run) -> None:
    before = shown(example)
    done = run("replay", str(example), "--force", "--calls", "none", "--json")
    assert done.returncode == 0, done.stderr + done.stdout
    report = json.loads(done.stdout)
    cells = [cell for cell in nbformat.read(example, 4).cells if cell.cell_type == "code"]
    assert len(report["executed"]) == len(cells)
    assert (report["failed"], report["calls"]["made"]) == ([], 0)
    assert shown(example) == before
    assert run("replay", str(example), "--verify", "--calls", "none").returncode == 0


def test_every_moment_of_it_can_be_gone_back_to_from_its_records(example: Path, run: Run) -> None:
    assert run("replay", str(example), "--calls", "none").returncode == 0
    session = Session.open(example)
    try:
        for cell in session.cells:
            if cell.type != "markdown":
                there = restore_at(session, cell.cell_id)
                assert (there.missing, there.failed) == ({}, {})
    finally:
        warm.stop(session.place)


def test_it_is_small_valid_and_says_nothing_of_where_it_was_made(example: Path) -> None:
    text = example.read_text("utf-8")
    assert len(text) < 50_000
    assert redact_text(text) == text
    assert not re.search(r'"(/|[A-Z]:\\\\)\w', text), "an absolute path"
    assert not re.search(r"/(tmp|root|home|Users)/", text)
    nbformat.validate(nbformat.reads(text, 4))


def test_a_changed_question_is_not_answered_from_what_is_kept(run: Run, monkeypatch) -> None:
    shutil.copytree(EXAMPLES / "data", "data")
    shutil.copy(EXAMPLES / "release-date.ipynb", ".")
    notebook = nbformat.read("release-date.ipynb", 4)
    notebook.cells[-1].source = notebook.cells[-1].source.replace("When is", "Why is")
    nbformat.write(notebook, "release-date.ipynb")
    done = run("replay", "release-date.ipynb", "--calls", "none", "--json")
    assert done.returncode == 1
    [error] = json.loads(done.stdout)["errors"].values()
    assert notebook.cells[-1].id in error
    assert "messages" in error
