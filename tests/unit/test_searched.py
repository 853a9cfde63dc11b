"""What an agent's searches went through: files that come and go make such a cell stale."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path
from typing import Any

import pytest

from rlmnb import Session, hook
from rlmnb.capture.folders import folders_of, listed_by_call, name_within, names_of
from rlmnb.replay.cells import stale_cells
from rlmnb.replay.watching import changes

NAME = "searches"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    (place / "src").mkdir(parents=True)
    (place / "a.txt").write_text("alpha\n")
    (place / "src" / "b.py").write_text("beta = 1\n")
    return place


@pytest.fixture
def call(project: Path, monkeypatch: pytest.MonkeyPatch):
    """Tell the hook of a call of an agent's that has ended well."""

    def told(tool: str, response: Any = None, **args: Any) -> None:
        event = {
            "hook_event_name": "PostToolUse",
            "session_id": NAME,
            "cwd": str(project),
            "tool_name": tool,
            "tool_input": args,
            "tool_response": response or {"filenames": [], "numFiles": 0},
        }
        data = io.BytesIO(json.dumps(event).encode())
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(data))
        monkeypatch.setattr(hook, "_STARTED", time.perf_counter())
        assert hook.main([]) == 0

    return told


def causes() -> list[str]:
    """Return why cells are stale: the notebook's own index and a replay say the same."""
    session = Session.open(NAME)
    found = {each: list(why) for each, why in session.stale.items()}
    assert found == stale_cells(session)
    return [cause for each in found.values() for cause in each]


@pytest.mark.parametrize(
    ("tool", "args", "told"),
    [
        ("Glob", {"pattern": "**/*.py"}, "what **/*.py finds in {}"),
        ("Glob", {"pattern": "*.{py,pyi}", "path": "src"}, "what *.{{py,pyi}} finds in {}/src"),
        ("Grep", {"pattern": "beta"}, "the files in {}"),
        ("Grep", {"pattern": "beta", "glob": "*.py"}, "what **/*.py finds in {}"),
        ("Grep", {"pattern": "beta", "type": "py"}, "what **/*.{{py,pyi}} finds in {}"),
        ("LS", {"path": "src"}, "the files in {}/src"),
    ],
)
def test_a_file_that_a_search_would_find_now_makes_it_stale(tool, args, told, project, call):
    call(tool, **args)
    assert causes() == []
    (project / "src" / "new.py").touch()
    assert causes() == [f"{told.format(project)} changed"]
    (project / "src" / "new.py").unlink()
    assert causes() == []


def test_a_file_that_a_search_would_not_find_changes_nothing(project, call):
    call("Glob", pattern="**/*.py")
    call("LS", path="src")
    (project / "new.txt").touch()
    (project / "src" / "__pycache__").mkdir()
    (project / "src" / "__pycache__" / "b.py").touch()
    assert causes() == []


def test_what_the_session_itself_makes_later_is_part_of_the_story(project, call):
    call("Glob", pattern="**/*.py")
    made = project / "src" / "made.py"
    made.write_text("x = 1\n")
    call("Write", {"filePath": str(made)}, file_path=str(made), content="x = 1\n")
    assert causes() == []
    made.unlink()
    (project / "src" / "other.py").touch()
    assert f"what **/*.py finds in {project} changed" in causes()


def test_a_directory_that_is_gone_is_told(project, call):
    call("LS", path="src")
    (project / "src" / "b.py").unlink()
    (project / "src").rmdir()
    assert causes() == [f"the files in {project}/src changed"]


def test_a_file_that_comes_is_heard_of_by_watch(project, call):
    call("Glob", pattern="**/*.py")
    heard = changes(Session.open(NAME), debounce=0.05)
    assert next(heard) == set()
    (project / "src" / "new.txt").touch()
    (project / "src" / "new.py").touch()
    assert next(heard) == {str(project / "src" / "new.py")}
    heard.close()


def test_names_of_ignored_files_are_not_kept(project, call):
    (project / ".rlmnbignore").write_text("*.key\n")
    (project / "my.key").touch()
    call("Glob", pattern="**/*")
    assert "my.key" not in Path(Session.open(NAME).place.notebook).read_text()
    assert causes() == []
    (project / "b.key").touch()
    assert causes() == [f"the files in {project} changed"]


def test_very_many_names_are_kept_as_their_digest(project):
    for number in range(501):
        (project / f"{number}.csv").touch()
    (names,) = listed_by_call("Glob", {"pattern": "*.csv"}, str(project)).values()
    assert isinstance(names, str)
    assert names.startswith("sha256:")


def test_a_search_that_takes_too_long_is_not_kept(project):
    assert listed_by_call("Glob", {"pattern": "**/*"}, str(project), deadline=0.0) == {}


@pytest.mark.parametrize("args", [{}, {"pattern": 3}, {"pattern": "*", "path": "\0"}, {"path": []}])
def test_arguments_of_any_kind_are_taken(args, project):
    assert listed_by_call("Glob", args, str(project)) == {}


def test_a_listing_knows_its_own_names(project):
    (key,) = listed_by_call("Glob", {"pattern": str(project / "**/*.py")}, "/")
    assert names_of(key) == ["src/b.py"]
    assert name_within(key)(str(project / "src" / "c.py")) == "src/c.py"
    assert name_within(key)(str(project / "src" / "c.txt")) is None
    assert name_within(key)(str(project / "node_modules" / "c.py")) is None
    assert folders_of(key) == {str(project), str(project / "src")}
