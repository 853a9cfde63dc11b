"""How files become the variable `context`: the code is run as a cell would run it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from rlmnb import Session, models
from rlmnb.errors import InvalidCellError, InvalidNameError, LockTimeoutError
from rlmnb.files import Lock
from rlmnb.looping import contexts
from rlmnb.looping.run import Settings
from rlmnb.looping.run import run as answer
from tests.conftest import Run


def held(*paths: str, directory: str = ".") -> Any:
    contexts.check_paths(paths)
    names: dict[str, Any] = {name: getattr(models, name) for name in ("read_file", "outline")}
    exec(contexts.context_code(paths, directory), names)
    return names["context"]


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("a.json", '{"n": [1, 2]}', {"n": [1, 2]}),
        ("a.json", '{"n": [1, 2', '{"n": [1, 2'),  # no JSON, so a text
        ("a.jsonl", '{"n": 1}\n\n{"n": 2}\n', [{"n": 1}, {"n": 2}]),
        ("a.csv", "team,amount\nred,1\n", [{"team": "red", "amount": "1"}]),
        ("it's {odd}.txt", "plain", "plain"),
        ("empty.json", "", ""),
    ],
)
def test_a_file_is_read_as_what_it_is(name: str, text: str, found: Any) -> None:
    Path(name).write_text(text)
    assert held(name) == found


def test_several_files_are_held_by_their_names() -> None:
    Path("a.txt").write_text("A")
    Path("b.json").write_text("[1]")
    assert held("a.txt", "b.json") == {"a.txt": "A", "b.json": "[1]"}


def test_a_directory_is_all_its_files_but_hidden_ones_wherever_it_stands(tmp_path: Path) -> None:
    place = tmp_path / ".hidden" / "logs"
    (place / "deep" / ".git").mkdir(parents=True)
    for name in ("b.log", "deep/a.log", ".secret", "deep/.git/config"):
        (place / name).write_text(name)
    (place / "raw.bin").write_bytes(b"\xff\xfe\x00")
    found = held(str(place))
    names = [os.path.relpath(each, place) for each in found]
    assert names == ["b.log", os.path.join("deep", "a.log"), "raw.bin"]


def test_paths_are_short_where_the_kernel_runs_and_whole_elsewhere(tmp_path: Path) -> None:
    assert contexts.seen_from("data/x.json", ".") == os.path.join("data", "x.json")
    assert contexts.seen_from(str(tmp_path / "x"), str(tmp_path / "y")) == str(tmp_path / "x")


def test_what_cannot_be_read_is_refused() -> None:
    with pytest.raises(InvalidNameError, match="no such file"):
        contexts.check_paths(["nowhere"])
    os.mkfifo("pipe")
    with pytest.raises(InvalidNameError, match="neither"):
        contexts.check_paths(["pipe"])


def test_two_questions_at_once_in_one_session_are_refused() -> None:
    session = Session.create("s")
    with (
        Lock(os.path.join(session.place.directory, ".run.lock"), timeout=0),
        pytest.raises(LockTimeoutError, match="another question"),
    ):
        answer(session, "how many?", settings=Settings(model="m"))
    assert len(session.cells) == 0


def test_an_empty_question_is_refused_before_a_session_is_begun(run: Run, root: Path) -> None:
    assert run("run", "  \n ", "--model", "m").returncode == 2
    assert not root.exists()
    with pytest.raises(InvalidNameError, match="no question"):
        answer(Session.create("s"), "  \n ")


def test_a_cell_is_tagged_once_beside_the_tags_it_has() -> None:
    session = Session.create("s")
    cell_id = session.append("x = 1")
    for tag in ("one", "two", "one"):
        session.tag(cell_id, tag)
    assert session.cell(cell_id).raw["metadata"]["tags"] == ["one", "two"]
    with pytest.raises(InvalidCellError, match="without commas"):
        session.tag(cell_id, "a,b")
