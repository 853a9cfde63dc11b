"""Traces of cells run by hand, as they are kept and laid over a notebook. No kernel here."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hypothesis import given, strategies

from rlmnb import Session
from rlmnb.digest import source_hash
from rlmnb.format.shown import overwritten, shown_hash
from rlmnb.kernel.whereabouts import Whereabouts, place_named
from rlmnb.store import byhand
from rlmnb.store.layout import notebook_place


def lab_text(text: str) -> str:
    """Overwrite as JupyterLab's own `processText` does, letter by letter."""
    shown, at = "", 0
    for letter in text:
        if letter == "\b":
            if at > 0 and shown[at - 1] != "\n":
                shown = shown[: at - 1] + shown[at + 1 :]
                at -= 1
        elif letter == "\r":
            while at > 0 and shown[at - 1] != "\n":
                at -= 1
        elif letter == "\n":
            shown += "\n"
            at = len(shown)
        else:
            shown = shown[:at] + letter + shown[at + 1 :]
            at += 1
    return shown


@given(strategies.text(alphabet="ab\r\b\n"))
def test_text_is_overwritten_as_in_jupyterlab(text: str):
    assert overwritten(text) == lab_text(text)
    assert overwritten(overwritten(text)) == overwritten(text)


def test_pieces_of_a_stream_show_what_the_whole_does():
    pieces = [
        {"output_type": "stream", "name": "stdout", "text": each} for each in ("10%\r", "99%")
    ]
    whole = [{"output_type": "stream", "name": "stdout", "text": ["99%"]}]
    assert shown_hash(pieces) == shown_hash(whole)
    other = [pieces[0], {**pieces[1], "name": "stderr"}]
    assert shown_hash(other) != shown_hash(whole)


def entry(cell_id: str, source: str, outputs: list[Any], **fields: Any) -> dict[str, Any]:
    run = {
        "reads": {}, "writes": [], "deleted": [], "opaque": False, "history": False,
        "failed": False, "files_read": {}, "files_written": {}, "listed": {}, "python": "3.11",
        "text": source_hash(source), "code": "", "shown": shown_hash(outputs), "by_hand": True,
    }  # fmt: skip
    at = "2030-01-01T00:00:00.000000Z"
    return {"at": at, "cell_id": cell_id, "status": "completed", "run": run, **fields}


@pytest.fixture
def notebook() -> str:
    cells = [nbformat.v4.new_code_cell("x = 1", id="c0"), nbformat.v4.new_markdown_cell(id="m")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), "nb.ipynb")
    return "nb.ipynb"


def status(path: str) -> str | None:
    return Session.open(path).cell("c0").status


def test_a_trace_counts_for_the_source_and_the_outputs_that_it_describes(notebook):
    place = notebook_place(notebook)
    before = Path(notebook).read_bytes()
    byhand.add(place, [entry("c0", "x = 1", [])])
    assert status(notebook) == "completed"
    assert Path(notebook).read_bytes() == before
    shown = {"output_type": "stream", "name": "stdout", "text": "1\n"}
    byhand.add(place, [entry("c0", "x = 1", [shown])])  # shown, and never saved
    assert status(notebook) == "completed"
    whole = nbformat.read(notebook, 4)
    whole.cells[0].outputs = [nbformat.from_dict({**shown, "text": "2\n"})]
    nbformat.write(whole, notebook)
    assert status(notebook) == "new"


def test_the_model_calls_of_a_run_by_hand_are_in_the_record_and_answer_a_replay(notebook):
    call = {"key": "sha256:" + "0" * 64, "model": "m", "response": "yes", "from_cache": False}
    ran = entry("c0", "x = 1", [])
    ran["run"]["calls"] = [call]
    byhand.add(notebook_place(notebook), [ran])
    record = Session.open(notebook).cell("c0").raw["metadata"]["rlmnb"]
    assert record["calls"] == [{**call, "current": True}]
    assert "calls" not in record["run"]


def test_strange_lines_among_the_traces_are_passed_over(notebook):
    place = notebook_place(notebook)
    place.prepare()
    good = json.dumps(entry("c0", "x = 1", []))
    strange = ["", "{", "[1]", "null", '{"cell_id": 5}', json.dumps({**json.loads(good), "run": 1}),
               json.dumps(entry("../../x", "x = 1", [])), "\x00\x1b",
               json.dumps(entry("m", "", []))]  # fmt: skip
    Path(place.by_hand).write_text("\n".join([*strange, good, '{"torn": ']))
    assert status(notebook) == "completed"
    byhand.add(place, [entry("c0", "x = 2", [])])
    assert len(byhand.traces(place)["c0"]) == 2


def test_traces_do_not_grow_without_end(notebook, monkeypatch):
    place = notebook_place(notebook)
    monkeypatch.setattr(byhand, "_LARGEST", 20_000)
    for number in range(200):
        byhand.add(place, [entry(f"c{number % 3}", f"x = {number}", [])])
    assert os.stat(place.by_hand).st_size < 20_000
    assert byhand.traces(place)["c1"][-1]["run"]["text"] == source_hash("x = 199")


def test_deleting_the_index_and_rebuilding_it_gives_the_same(notebook):
    place = notebook_place(notebook)
    byhand.add(place, [entry("c0", "x = 1", [])])
    kept = Session.open(notebook).index
    os.unlink(place.index)
    assert Session.open(notebook).index == kept


@pytest.mark.parametrize("name", [None, "", "nb.ipynb", "/nowhere/nb.ipynb", "/etc/passwd", "/"])
def test_a_name_that_is_no_notebook_is_none(name, notebook):
    assert place_named(name) is None


def test_a_copy_is_not_taken_for_a_notebook_that_was_moved_away(notebook):
    where = Whereabouts(notebook_place(notebook))
    text = Path(notebook).read_text()
    Path("a.ipynb").write_text(text)
    Path("b.ipynb").write_text(text)
    os.unlink(notebook)
    assert where.find(["c0"]) is None
    assert where.lost
    os.unlink("b.ipynb")
    place, held = where.find(["c0", "c9"]) or (None, set())
    assert place is not None
    assert (place.notebook, held) == (str(Path("a.ipynb").absolute()), {"c0"})
