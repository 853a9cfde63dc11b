"""Which cells a selector means."""

from __future__ import annotations

import shlex
from pathlib import Path

import nbformat
import pytest

from rlmnb import Session
from rlmnb.errors import CellNotFoundError, InvalidNameError


@pytest.fixture
def session() -> Session:
    Path("auth.py").write_text("x")
    session = Session.create("demo", cwd=".")
    session.append("code = tools.Read(file_path='auth.py')", type="tool")
    session.append("a = 1")
    session.append("b = a + 1")
    session.append("c = b + 1")
    session.append("answer = llm_query('why')", type="llm_call")
    return session


def numbers(session: Session, selector: str) -> list[int]:
    return [cell.number for cell in session.select(selector)]


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        ("2", [2]),
        ("2-4", [2, 3, 4]),
        ("2-4,1", [1, 2, 3, 4]),
        ("4-99", [4, 5]),
        ("type:tool", [1]),
        ("type:Read", [1]),
        ("type:llm_call,2", [2, 5]),
        ("file:auth.py", [1]),
        ("after:3", [4, 5]),
        ("upstream:4", [2, 3, 4]),
        ("downstream:2", [2, 3, 4]),
        ("downstream:3,type:tool", [1, 3, 4]),
        ("all", [1, 2, 3, 4, 5]),
        ("fresh", [1, 2, 3, 4, 5]),
        ("stale", []),
        (" 2 , 3 ", [2, 3]),
    ],
)
def test_selectors_name_cells_in_notebook_order(session, selector, wanted):
    assert numbers(session, selector) == wanted


def test_ids_and_their_beginnings(session):
    cell = session.cells[2]
    assert numbers(session, cell.cell_id) == [3]
    assert numbers(session, cell.cell_id.removeprefix("cell_")[:6]) == [3]


def test_what_is_stale_or_failed(session):
    session.append("d = 1 / 0", error="ZeroDivisionError: division by zero", status="failed")
    Path("auth.py").write_text("y")
    session = Session.open("demo")
    assert numbers(session, "failed") == [6]
    assert numbers(session, "stale") == [1, 6]
    assert 6 not in numbers(session, "fresh")


@pytest.mark.parametrize("selector", ["", "2,,3", "4-2", "0-1", "nonsense:x", "type:"])
def test_a_mistake_is_answered_with_the_grammar(session, selector):
    with pytest.raises(InvalidNameError):
        session.select(selector)


@pytest.mark.parametrize("selector", ["9", "0", "nosuch", "7-9", "after:nosuch", "upstream:77"])
def test_a_cell_that_is_not_there_is_named(session, selector):
    with pytest.raises(CellNotFoundError) as caught:
        session.select(selector)
    assert "demo" in caught.value.message


def test_the_next_command_can_be_typed_as_it_stands(run):
    Path("my files").mkdir()
    path = Path("my files", "it's mine.ipynb").absolute()
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x = 1")]), path)
    for words in (["status", path], ["cells", path, "9"], ["kernel", "status", path]):
        told = run(*map(str, words)).stderr
        command = next(line for line in told.splitlines() if ": rlmnb " in line)
        assert shlex.split(command.partition(": ")[2])[-1] == str(path)


def test_the_command_line_takes_selectors(session, run, run_json):
    assert [row["number"] for row in run_json("cells", "demo", "2-3,5")] == [2, 3, 5]
    assert [row["number"] for row in run_json("cells", "--cells", "downstream:3")] == [3, 4]
    assert [row["number"] for row in run_json("cells", "demo", "2-5", "--type", "llm_call")] == [5]
    wrong = run("cells", "demo", "nonsense:x")
    assert wrong.returncode == 2
    assert "downstream:CELL" in wrong.stderr


def test_marks_keep_the_output_say_why_and_can_be_taken_back(session, run_json):
    before = session.cell(2).outputs
    marked = run_json("invalidate", "demo", "2", "--reason", "a guess")
    assert marked["invalidated"] == [session.cells[1].cell_id]
    stale = {row["cell_id"]: row["causes"] for row in marked["stale"]}
    assert [session.cell(each).number for each in stale] == [2, 3, 4]
    assert stale[session.cells[1].cell_id] == ["was marked as no longer valid: a guess"]
    session.refresh()
    assert session.cell(2).outputs == before
    assert session.cell(2).causes == ("was marked as no longer valid: a guess",)
    again = run_json("invalidate", "demo", "2", "--undo")
    assert again["valid"] == marked["invalidated"]
    assert again["stale"] == []
    session.refresh()
    assert session.cell(2).status == "completed"
    assert not session.stale


def test_a_file_marks_the_cells_that_read_it_with_both_hashes(session, run_json):
    Path("auth.py").write_text("changed")
    run_json("invalidate", "demo", "auth.py")
    session.refresh()
    mark = session.cell(1).raw["metadata"]["rlmnb"]["invalidated"]
    assert mark["path"].endswith("/auth.py")
    assert mark["then"] != mark["now"]
    assert mark["now"].startswith("sha256:")
    assert session.cell(2).status == "completed"


def test_nothing_to_mark_is_said(session, run):
    done = run("invalidate", "demo", "2", "--undo")
    assert done.returncode == 0
    assert "no cell that 2 names is marked" in done.stderr
    run("invalidate", "demo", "2")
    again = run("invalidate", "demo", "2")
    assert "no cell that 2 names can be marked: it is already, or has no result" in again.stderr


def test_a_replay_of_no_cell_says_so(session, run):
    done = run("replay", "demo", "type:nosuch", "--dry-run")
    assert done.returncode == 0
    assert "no cell matches type:nosuch; see them with: rlmnb cells demo" in done.stderr
