from __future__ import annotations

import json

import pytest

import rlmnb
from rlmnb import Session, indexing
from rlmnb.store.layout import session_place
from tests.conftest import append_many, notebook_of, read, save_like_lab


def index_path(root):
    return root / "demo" / "index.json"


@pytest.fixture
def diamond():
    """top feeds left and right, which feed bottom; one more cell stands alone."""
    top = rlmnb.append("demo", {"source": "top()"})
    left = rlmnb.append("demo", {"source": "left()", "dependencies": [top]})
    right = rlmnb.append("demo", {"source": "right()", "dependencies": [top]})
    bottom = rlmnb.append("demo", {"source": "bottom()", "dependencies": [left, right]})
    alone = rlmnb.append("demo", {"source": "alone()"})
    return top, left, right, bottom, alone


def test_the_index_holds_the_dag(diamond, root):
    top, left, right, bottom, alone = diamond
    Session.open("demo")
    index = json.loads(index_path(root).read_text())
    assert index["version"] == "1.0"
    assert index["session_id"] == "demo"
    assert index["cells"][left]["type"] == "repl"
    assert index["cells"][left]["dependencies"] == [top]
    assert index["cells"][left]["reasons"] == {top: "explicit"}
    assert index["cells"][top]["dependents"] == [left, right]
    assert index["cells"][bottom]["dependencies"] == [left, right]
    assert index["cells"][bottom]["status"] == "completed"
    assert index["cells"][bottom]["input_hash"].startswith("sha256:")
    assert index["cells"][bottom]["output_hash"].startswith("sha256:")
    assert index["roots"] == [top, alone]
    assert index["leaves"] == [bottom, alone]
    assert index["execution_order"] == list(diamond)
    assert index["cycles_detected"] == []
    assert index["generation"] == 5
    assert index["notebook"]["digest"].startswith("sha256:")


def test_an_index_that_is_deleted_comes_back_equal(diamond, root):
    Session.open("demo")
    before = index_path(root).read_bytes()
    index_path(root).unlink()
    Session.open("demo")
    assert index_path(root).read_bytes() == before


@pytest.mark.parametrize(
    "garbage",
    ["", "{", "[]", "null", '{"version": "0.1"}', '{"version": "99.0", "cells": {}}', "\x00\xff"],
)
def test_an_index_that_is_garbage_or_another_versions_is_made_anew(diamond, root, garbage):
    Session.open("demo")
    before = index_path(root).read_bytes()
    index_path(root).write_text(garbage)
    assert len(Session.open("demo").cells) == 5
    assert index_path(root).read_bytes() == before


def test_an_index_brought_up_to_date_equals_one_made_anew(root):
    for turn in range(4):
        append_many("demo", 3)
        rlmnb.append("demo", {"source": f"print(x{turn})"})
        updated = Session.open("demo").index
        assert updated == indexing.rebuild(session_place("demo"))


def test_appended_cells_are_all_that_is_parsed(diamond, monkeypatch):
    Session.open("demo")
    late = rlmnb.append("demo", {"source": "late()"})
    monkeypatch.setattr(
        "rlmnb.store.notebook.read_version",
        lambda *_: pytest.fail("the whole notebook was parsed"),
    )
    assert Session.open("demo").cells[-1].cell_id == late


def test_a_query_of_an_unchanged_session_reads_the_index_and_no_cell(diamond, monkeypatch, root):
    import os

    Session.open("demo")
    status = index_path(root).stat()
    later = status.st_mtime_ns + 10**9
    os.utime(index_path(root), ns=(later, later))
    monkeypatch.setattr(
        "rlmnb.store.notebook.OpenNotebook.read",
        lambda *_: pytest.fail("the notebook was read"),
    )
    assert len(Session.open("demo").cells) == 5


def test_a_change_within_the_same_clock_tick_is_seen(diamond):
    import os

    Session.open("demo")
    path = notebook_of("demo")
    status = path.stat()
    text = path.read_text().replace("alone()", "ALONE()")
    with open(path, "r+") as file:
        file.write(text)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert Session.open("demo").cells[-1].entry["title"] == "ALONE()"


def test_variables_and_files_make_edges_with_their_reason(tmp_path):
    made = rlmnb.append("demo", {"source": "data = [1]"})
    used = rlmnb.append("demo", {"source": "total = sum(data)"})
    wrote = rlmnb.append("demo", {"source": "save()", "files_written": {"/f": {"hash": "missing"}}})
    got = rlmnb.append("demo", {"source": "load()", "files_read": {"/f": {"hash": "missing"}}})
    cells = Session.open("demo").index["cells"]
    assert cells[used]["reasons"] == {made: "variable data"}
    assert cells[got]["reasons"] == {wrote: "file /f"}


def test_a_hand_made_cycle_is_found_and_can_be_repaired(diamond, run, run_json):
    bottom = diamond[3]
    notebook = read("demo")
    notebook["cells"][0]["metadata"]["rlmnb"]["dependencies"] = [
        {"cell_id": bottom, "reason": "by hand"}
    ]
    save_like_lab(notebook_of("demo"), notebook)
    index = Session.open("demo").index
    (cycle,) = index["cycles_detected"]
    assert cycle[0] == cycle[-1]
    assert set(cycle) <= set(diamond)
    assert sorted(index["execution_order"]) == sorted(diamond)
    problems = run_json("verify", "demo", code=1)["problems"]
    assert any(" → " in problem["text"] for problem in problems)
    assert run("doctor", "demo", "--fix").returncode == 0
    assert Session.open("demo").index["cycles_detected"] == []


def test_a_dependency_on_itself_made_by_hand_is_an_order_problem_and_a_cycle(diamond):
    notebook = read("demo")
    notebook["cells"][4]["metadata"]["rlmnb"]["dependencies"] = [
        {"cell_id": diamond[4], "reason": "by hand"}
    ]
    save_like_lab(notebook_of("demo"), notebook)
    index = Session.open("demo").index
    assert index["cycles_detected"] == [[diamond[4], diamond[4]]]


def test_an_order_that_contradicts_the_dependencies_names_both(diamond, run_json):
    top, left, *_ = diamond
    notebook = read("demo")
    notebook["cells"][0], notebook["cells"][1] = notebook["cells"][1], notebook["cells"][0]
    save_like_lab(notebook_of("demo"), notebook)
    session = Session.open("demo")
    assert session.index["execution_order"][:2] == [top, left]
    assert f"depends on {top}, which stands below it" in session.cell(left).causes
    kinds = {problem["kind"] for problem in run_json("verify", "demo", code=1)["problems"]}
    assert "order" in kinds


def test_a_chain_has_true_depths_in_both_directions(diamond):
    top, left, right, bottom, _ = diamond
    session = Session.open("demo")
    assert [(cell.cell_id, depth) for cell, depth in session.chain(bottom)] == [
        (top, 2),
        (left, 1),
        (right, 1),
    ]
    assert [cell.cell_id for cell, _ in session.chain(top, reverse=True)] == [left, right, bottom]


def test_ten_thousand_cells_in_a_line_are_indexed_without_recursion():
    from rlmnb.graph.facts import facts_of
    from rlmnb.graph.index import downstream, link

    facts = []
    for number in range(10_000):
        record = {
            "schema_version": 1,
            "dependencies": [{"cell_id": f"c{number - 1}"}] if number else [],
        }
        cell = {"cell_type": "code", "id": f"c{number}", "metadata": {"rlmnb": record}}
        facts.append(facts_of(cell, number))
    index = link(facts, {})
    assert downstream(index, "c0")["c9999"] == 9999
