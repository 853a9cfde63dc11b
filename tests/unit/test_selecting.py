"""Which cells a selector means."""

from __future__ import annotations

import json
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


@pytest.mark.parametrize("selector", ["2,,3", "nonsense:x", "type:"])
def test_a_malformed_selector_is_answered_with_some_that_are_not(session, run, selector):
    hint = run("cells", "demo", selector).stderr.splitlines()[-1]
    assert "rlmnb cells" not in hint  # which would list another session's
    for right in hint.partition(": ")[2].split():
        session.select(right)


@pytest.mark.parametrize(
    ("selector", "why", "right"),
    [
        ("0-3", "cells are numbered from 1", "1-3"),
        ("3-0", "cells are numbered from 1", "1-3"),
        ("4-2", "wanted the smaller number first", "2-4"),
    ],
)
def test_what_is_no_range_is_answered_with_one(session, selector, why, right):
    with pytest.raises(InvalidNameError) as caught:
        session.select(selector)
    assert caught.value.message == f"{selector} is no range: {why}"
    assert caught.value.hint == f"name it so: {right}"
    assert session.select(right)


@pytest.mark.parametrize(
    "selector",
    ["9", "0", "nosuch", "7-9", "after:nosuch", "upstream:77", "9" * 5000, "1-" + "9" * 5000],
)
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


@pytest.mark.parametrize("words", [[""], ["--cells", ""], ["2", ""]])
@pytest.mark.parametrize("command", ["cells", "replay"])
def test_an_empty_selector_is_a_mistake_and_does_not_mean_all(session, run, command, words):
    done = run(command, "demo", *words)
    assert done.returncode == 2
    assert "has an empty part" in done.stderr


def test_what_a_command_is_about_may_stand_after_its_options(session, run, run_json):
    found = json.loads(run("cells", "demo", "--json", "2-3").stdout)
    assert [row["number"] for row in found] == [2, 3]
    found = run_json("cells", "demo", "2", "--type", "llm_call", "5")
    assert [row["number"] for row in found] == [5]
    planned = run("replay", "demo", "--force", "2", "--dry-run").stdout
    assert session.cells[1].cell_id in planned
    assert session.cells[0].cell_id not in planned
    assert run_json("chain", "demo", "--reverse", "2")["cell_id"] == session.cells[1].cell_id


@pytest.mark.parametrize(
    "words",
    [["cells", "demo", "--bad", "2"], ["cell", "a", "b", "c"], ["kernel", "list", "a", "b"]],
)
def test_words_that_a_command_has_no_use_for_are_answered_with_its_usage(words, run):
    done = run(*words)
    assert done.returncode == 2
    assert done.stderr.startswith(f"usage: rlmnb {words[0]} ")
    assert done.stderr.endswith(f"  run: rlmnb {words[0]} --help\n")


@pytest.mark.parametrize("words", [["stale"], ["2-4"], ["type:nonsense"], ["7", "after:3"]])
@pytest.mark.parametrize("command", ["cells", "replay"])
def test_a_selector_in_the_place_of_a_session_is_told_where_it_goes(session, run, command, words):
    done = run(command, *words)
    assert done.returncode == 2
    selector = ",".join(words)
    assert f"rlmnb {command} SESSION {selector}; " in done.stderr
    assert f"rlmnb {command} --cells {selector}\n" in done.stderr


@pytest.mark.parametrize("command", ["cell", "chain", "invalidate"])
def test_a_session_in_the_place_of_a_cell_is_told_that_the_cell_is_missing(session, run, command):
    done = run(command, "demo")
    assert done.returncode == 2
    assert "demo is a session, and no cell is named" in done.stderr
    assert f"rlmnb {command} demo 1; list them with: rlmnb cells demo" in done.stderr
    Path("elsewhere").mkdir()
    assert run(command, "demo", cwd="elsewhere").stderr == done.stderr


def test_a_word_that_names_a_cell_or_its_file_is_no_session_in_its_place(session, run_json):
    Path("plan").write_text("x")
    session.append("plan = tools.Read(file_path='plan')", type="tool")
    for name in ("stale", "2", "plan"):
        Session.create(name, cwd="/")
    assert run_json("cell", "2")["number"] == 2
    assert run_json("invalidate", "stale")["invalidated"] == []
    assert len(run_json("invalidate", "plan")["invalidated"]) == 1


@pytest.mark.parametrize("words", [["--status", "stale"], ["stale"], ["1,stale"]])
def test_whoever_asks_for_stale_cells_is_told_why(session, run, words):
    session.invalidate("2", "a guess")
    told = run("cells", "demo", *words).stderr.splitlines()
    assert told[0] == f"{session.cells[1].cell_id}: was marked as no longer valid: a guess"
    assert len(told) == 3  # it, and the two below it


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


def test_a_mark_for_no_cell_says_that_none_is_meant(session, run):
    for words in (["type:nosuch"], ["file:*"], ["type:nosuch", "--undo"]):
        told = run("invalidate", "demo", *words).stderr
        assert f"no cell matches {words[0]}; see them with: rlmnb cells demo" in told
    done = run("invalidate", "demo", "nosuch.py")
    assert done.returncode == 2
    assert done.stderr == (
        "rlmnb: demo: no cell has read nosuch.py\n  list the files with: rlmnb files demo\n"
    )


def test_a_replay_of_no_cell_says_so(session, run):
    done = run("replay", "demo", "type:nosuch", "--dry-run")
    assert done.returncode == 0
    assert "no cell matches type:nosuch; see them with: rlmnb cells demo" in done.stderr
