"""Ways to lose or double an acknowledged cell that were found by trying, each closed."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

import rlmnb
from rlmnb import Session, indexing
from rlmnb.errors import CellNotFoundError, DependencyError, InvalidCellError
from rlmnb.files import Lock
from rlmnb.store.layout import session_place
from rlmnb.store.objects import Objects
from tests.conftest import append_many, assert_valid, ids_in, notebook_of, read, save_like_lab


def plain(path: Path, *sources: str) -> Path:
    cells = [nbformat.v4.new_code_cell(each, id=f"mine-{n}") for n, each in enumerate(sources)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    return path


def ids_at(path: Path) -> list[str]:
    return [cell["id"] for cell in json.loads(path.read_text())["cells"]]


def test_a_cell_with_the_source_of_one_that_is_there_is_added_all_the_same(tmp_path):
    path = plain(tmp_path / "nb.ipynb", "x = 1")
    new = rlmnb.append(str(path), {"source": "x = 1", "output": "hello"})
    assert ids_at(path) == ["mine-0", new]
    assert json.loads(path.read_text())["cells"][1]["outputs"][0]["text"] == ["hello"]


def test_a_buffer_from_before_the_first_append_drops_no_cell(tmp_path):
    path = plain(tmp_path / "nb.ipynb", "1 + 1")
    buffer = json.loads(path.read_text())
    ids = [
        rlmnb.append(str(path), {"source": each, "output": "out"})
        for each in ("import os", "print(1)")
    ]
    buffer["cells"].append(nbformat.v4.new_code_cell("print(1)", id="typed"))
    save_like_lab(path, buffer)
    ids.append(rlmnb.append(str(path), {"source": "z = 3"}))
    assert ids_at(path) == ["mine-0", "typed", *ids]


def test_repair_puts_back_all_that_a_moved_cell_stood_below(run):
    ids = append_many("demo", 6)
    notebook = read("demo")
    notebook["cells"].insert(0, notebook["cells"].pop())
    text = (nbformat.writes(nbformat.from_dict(notebook)) + "\n").encode()
    notebook_of("demo").write_bytes(text[: len(text) // 3])
    os.utime(notebook_of("demo"), (1, 1))
    assert run("doctor", "demo", "--fix").returncode == 0
    assert sorted(ids_in("demo")) == sorted(ids)


def test_repair_puts_back_a_cell_that_another_tool_had_renamed(run):
    append_many("demo", 3)
    notebook = read("demo")
    notebook["cells"][2]["id"] = "renamed"
    notebook_of("demo").write_text(nbformat.writes(nbformat.from_dict(notebook)) + "\n")
    assert Session.open("demo").cells[2].cell_id == "renamed"
    data = notebook_of("demo").read_bytes()
    notebook_of("demo").write_bytes(data[: data.index(b'"renamed"')])
    assert run("doctor", "demo", "--fix").returncode == 0
    assert [cell.source for cell in Session.open("demo").cells] == ["x0 = 0", "x1 = 1", "x2 = 2"]


def test_repair_reads_the_cells_after_one_that_cannot_be_read(run):
    ids = append_many("demo", 3)
    deep = '"deep": ' + "[" * 100_000 + "]" * 100_000
    text = notebook_of("demo").read_text()
    at = text.index(ids[1])
    start = text.index('"metadata": {', at)
    text = text[:start] + '"metadata": {' + deep + "," + text[start + len('"metadata": {') :]
    text = text.replace("x2 = 2", "edited = 2")
    notebook_of("demo").write_text(text)
    os.utime(notebook_of("demo"), (1, 1))
    assert run("doctor", "demo", "--fix").returncode == 0
    sources = {cell["id"]: cell["source"] for cell in read("demo")["cells"]}
    assert sources == {ids[0]: ["x0 = 0"], ids[1]: ["x1 = 1"], ids[2]: ["edited = 2"]}


def test_a_healthy_notebook_of_another_format_is_not_repaired(tmp_path, run):
    path = tmp_path / "old.ipynb"
    path.write_text('{"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": []}')
    before = path.read_bytes()
    os.utime(path, (1, 1))
    done = run("doctor", "--fix", str(path))
    assert done.returncode == 1
    assert "nbconvert" in done.stdout
    assert path.read_bytes() == before


def test_an_entry_that_cannot_be_applied_keeps_out_nothing_else(root, run):
    append_many("demo", 1)
    bad = [
        '{"seq":2,"op":"append","cell":{"cell_type":"markdown","attachments":"foo"}}',
        '{"seq":3,"op":"append"}',
        '{"seq":4,"op":"dance"}',
        '{"seq":5,"op":"update","cell_id":7}',
        '{"seq":6,"op":"update","cell_id":"x","replace":7}',
        '{"seq":7,"op":"update","cell_id":"x","outputs":[7]}',
        '{"seq":8,"op":"state","set":{},"remove":7}',
        '{"seq":9,"op":"state","set":{},"remove":[[]]}',
    ]
    with open(root / "demo" / "journal.jsonl", "a") as file:
        file.write("\n".join(bad) + "\n")
    late = rlmnb.append("demo", {"source": "late"})
    assert ids_in("demo")[-1] == late
    assert_valid(notebook_of("demo"))
    assert "8 journal entries cannot be applied" in run("doctor", "demo").stdout


@pytest.mark.parametrize(
    "broken",
    [
        {"outputs": None},
        {"metadata": 5},
        {"source": 7},
        {"outputs": [1]},
        {"id": []},
        {"source": ["x = 1\n", 7]},
    ],
)
def test_a_cell_that_a_hand_has_broken_stops_nothing(broken, run):
    append_many("demo", 2)
    notebook = read("demo")
    notebook["cells"][0] |= broken
    notebook_of("demo").write_text(json.dumps(notebook))
    for command in ("cells", "show", "stats", "verify", "doctor"):
        assert "Traceback" not in run(command, "demo").stderr
    late = rlmnb.append("demo", {"source": "late"})
    assert ids_in("demo")[-1] == late
    assert_valid(notebook_of("demo"))


@pytest.mark.parametrize(
    "broken",
    [
        {"output_type": "display_data", "data": [], "metadata": {}},
        {"output_type": "display_data", "data": {"text/plain": [7]}, "metadata": {}},
        {"output_type": "stream", "name": "stdout", "text": [{}]},
        "x",
    ],
)
def test_one_output_that_a_hand_has_broken_costs_no_other(broken, run_json):
    first, _ = append_many("demo", 2, output="ok\n")
    notebook = read("demo")
    notebook["cells"][0]["outputs"].append(broken)
    notebook_of("demo").write_text(json.dumps(notebook))
    late = rlmnb.append("demo", {"source": "late"})
    assert Session.open("demo").invalidate(first, "it is odd") == [first]
    assert ids_in("demo")[-1] == late
    assert read("demo")["cells"][0]["outputs"][0]["text"] == ["ok\n"]
    if isinstance(broken, dict):  # what is no object at all has no place in a notebook
        assert run_json("verify", "demo", code=1)["problems"]


SAME_ID = """
import rlmnb
try:
    print(rlmnb.append("demo", {"source": "x", "id": "same"}, timeout=30))
except rlmnb.RlmnbError as error:
    print("refused")
"""


def test_of_many_who_want_the_same_id_one_gets_it():
    append_many("demo", 1)
    processes = [
        subprocess.Popen([sys.executable, "-c", SAME_ID], stdout=subprocess.PIPE, text=True)
        for _ in range(8)
    ]
    said = sorted(process.communicate()[0].strip() for process in processes)
    assert said == ["refused"] * 7 + ["same"]
    assert ids_in("demo").count("same") == 1


def test_a_spilled_cell_is_known_before_it_is_taken_in(root):
    append_many("demo", 1)
    with Lock(str(root / "demo" / "journal.jsonl"), timeout=1):
        late = rlmnb.append("demo", {"source": "b", "id": "mine"}, timeout=0.05)
    with pytest.raises(InvalidCellError, match="already"):
        rlmnb.append("demo", {"source": "other", "id": "mine"})
    after = rlmnb.append("demo", {"source": "c", "dependencies": [late]})
    assert ids_in("demo")[1:] == ["mine", after]


def test_two_acknowledged_cells_with_one_id_are_both_kept(root):
    append_many("demo", 1)
    with Lock(str(root / "demo" / "journal.jsonl"), timeout=1):
        rlmnb.append("demo", {"source": "first", "id": "mine"}, timeout=0.05)
        rlmnb.append("demo2", {"source": "elsewhere", "id": "mine"})
    (spilled,) = (root / "demo" / "spill").iterdir()
    kept = spilled.read_text()
    spilled.unlink()
    rlmnb.append("demo", {"source": "second", "id": "mine"})
    spilled.write_text(kept)
    append_many("demo", 1)
    sources = ["".join(cell["source"]) for cell in read("demo")["cells"]]
    assert sources == ["x0 = 0", "second", "first", "x0 = 0"]
    assert_valid(notebook_of("demo"))


def test_what_is_kept_off_the_disk_is_found_for_a_session_that_never_began(root, run, monkeypatch):
    from rlmnb.store import spill

    place = session_place("fresh")
    monkeypatch.setattr(
        spill.__name__ + ".make_directory", lambda path: _only_elsewhere(path, root)
    )
    with pytest.raises(Exception, match="read-only"):
        _only_elsewhere(str(root / "x"), root)
    entry = {"op": "append", "cell": rlmnb_cell("kept = 1"), "at": "2026-11-16T00:00:00Z"}
    spill.keep(place, entry)
    assert not root.exists()
    assert "wait in side files" in run("doctor").stdout
    assert run("doctor", "--fix").returncode == 0
    assert read("fresh")["cells"][0]["source"] == ["kept = 1"]


def _only_elsewhere(path: str, root: Path) -> None:
    from rlmnb.errors import StorageError
    from rlmnb.files import make_directory

    if path.startswith(str(root)):
        raise StorageError("read-only")
    make_directory(path)


def rlmnb_cell(source: str) -> dict:
    from rlmnb.format import cells

    return cells.named(cells.code_cell(source), "cell_kept0001")


def test_a_session_killed_before_its_first_line_can_be_read_and_used(root, run):
    (root / "demo").mkdir(parents=True, mode=0o700)
    (root / "demo" / "journal.jsonl").touch(mode=0o600)
    for command in ("show", "cells", "stats", "files", "verify", "sessions", "doctor"):
        arguments = [command] if command == "sessions" else [command, "demo"]
        done = run(*arguments)
        assert "Traceback" not in done.stderr, done.stderr
    late = rlmnb.append("demo", {"source": "x"})
    assert ids_in("demo") == [late]


def test_one_session_that_cannot_be_read_hides_no_other(root, run_json, tmp_path):
    append_many("good", 1)
    append_many("evil", 1)
    notebook_of("evil").unlink()
    notebook_of("evil").symlink_to(tmp_path / "x")
    os.unlink(root / "evil" / "journal.jsonl")
    os.mkfifo(root / "evil" / "journal.jsonl")
    assert {row["id"] for row in run_json("sessions")} == {"good", "evil"}


def test_a_pipe_among_gits_files_holds_nobody_up(tmp_path):
    os.mkdir(".git")
    os.mkfifo(".git/HEAD")
    assert rlmnb.append("demo", {"source": "x"})


def test_an_index_stays_equal_to_a_rebuild_through_renames_and_undone_deletions():
    place = session_place("demo")
    first = rlmnb.append("demo", {"source": "b = 1"})
    rlmnb.append("demo", {"source": "a = 2"})
    child = rlmnb.append("demo", {"source": "c()", "dependencies": [first]})
    Session.open("demo")
    rlmnb.append("demo", {"source": "exec('q')"})
    assert Session.open("demo").index == indexing.rebuild(place)
    notebook = read("demo")
    gone = notebook["cells"].pop(2)
    save_like_lab(notebook_of("demo"), notebook)
    Session.open("demo")
    notebook["cells"][0]["id"] = "renamed"
    save_like_lab(notebook_of("demo"), notebook)
    Session.open("demo")
    notebook["cells"].append(gone)
    save_like_lab(notebook_of("demo"), notebook)
    session = Session.open("demo")
    assert session.index == indexing.rebuild(place)
    assert session.cell(child).dependencies[0] == "renamed"


def test_a_session_that_is_open_reads_the_cell_it_was_asked_for():
    session = Session.create("demo")
    ids = [session.append(source=f"{name}()") for name in "abc"]
    held = session.cell(ids[2])
    notebook = read("demo")
    del notebook["cells"][0]
    save_like_lab(notebook_of("demo"), notebook)
    assert session.cell(ids[1]).source == "b()"
    assert held.source == "c()"
    assert [cell.cell_id for cell in session.fork(at=ids[1]).cells] == [ids[1]]
    with pytest.raises(CellNotFoundError):
        session.cell(ids[0])


def test_saving_keeps_what_others_saved_meanwhile_and_every_null():
    one, two = Session.create("demo"), Session.open("demo")
    assert one.state.session.title is None
    two.state.session.title = "from two"
    two.save()
    one.state.session.tags = ["from one"]
    one.state.context.working_memory = {"x": {"a": None, "b": 1}, "n": None}
    one.save()
    state = Session.open("demo").state
    assert (state.session.title, state.session.tags) == ("from two", ["from one"])
    assert state.context.working_memory == {"x": {"a": None, "b": 1}, "n": None}


def test_completing_a_cell_is_checked_and_fitted_like_appending_one():
    session = Session.create("demo")
    cell_id = session.append(source="slow()", status="running")
    with pytest.raises(InvalidCellError):
        session.complete(cell_id, outputs=[{"foo": 1}])
    session.complete(cell_id, output="long\n" * 20_000, result=0)
    cell = session.cell(cell_id)
    assert len(json.dumps(cell.outputs)) < 10_000
    assert cell.record is not None
    assert cell.record.output.result == 0
    assert session.objects.get(cell.record.output.objects[0].object) == b"long\n" * 20_000


def test_a_damaged_object_is_mended_when_the_same_bytes_come_again(root):
    for text in ("long " * 10_000, "short"):
        objects = Objects(str(root / "objects"))
        name = objects.put(text.encode())
        for path in (root / "objects").rglob("*"):
            if path.is_file() and path.suffix != ".db":
                path.write_bytes(b"x" * len(text))
        assert objects.put(text.encode()) == name
        assert objects.get(name) == text.encode()


def test_an_object_that_comes_into_use_while_pruning_stays(root):
    import time

    objects = Objects(str(root / "objects"))
    names = [objects.put(b"x" * 50_000), objects.put(b"small")]
    began = time.time() - 10
    objects.drop(names, older_than=began)
    assert all(name in objects for name in names)


def test_a_fork_of_a_plain_notebook_takes_its_objects_and_ids_along(tmp_path, run_json):
    path = plain(tmp_path / "nb.ipynb", "a = 1", "a = 2")
    notebook = json.loads(path.read_text())
    notebook["cells"][1]["id"] = notebook["cells"][0]["id"]
    path.write_text(json.dumps(notebook))
    rlmnb.append(str(path), {"source": "x", "output": "long " * 10_000})
    fork = Session.open(path).fork(session_id="forked")
    assert [cell.source for cell in fork.cells] == ["a = 1", "a = 2", "x"]
    assert run_json("verify", "forked")["ok"]
    old = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("a = 1")])
    del old.cells[0]["id"]
    old.nbformat_minor = 4
    nbformat.write(old, tmp_path / "old.ipynb")
    assert len(Session.open(tmp_path / "old.ipynb").fork().cells) == 1


@pytest.mark.parametrize("name", ["objects.ipynb", "archive.ipynb", "Current.ipynb", "é ü.ipynb"])
def test_any_name_of_a_plain_notebook_will_do(tmp_path, name, run):
    path = plain(tmp_path / name, "x = 1")
    assert run("cells", str(path)).returncode == 0
    rlmnb.append(path, {"source": "y = 2"})
    assert len(Session.open(path).cells) == 2


def test_an_extra_list_at_the_top_level_is_not_taken_for_the_cells():
    ids = append_many("demo", 1)
    notebook = read("demo")
    notebook["extra"] = [{"not": "a cell"}]
    text = json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    notebook_of("demo").write_text(text)
    late = rlmnb.append("demo", {"source": "late"})
    assert ids_in("demo") == [*ids, late]


@pytest.mark.parametrize(
    "fields",
    [
        {"outputs": ["hi"]}, {"outputs": 5}, {"dependencies": 5}, {"dependencies": [5]},
        {"files_read": ["a"]}, {"result": object()}, {"result": {1, 2}},
        {"outputs": [{"output_type": "display_data", "data": {"text/plain": 5}, "metadata": {}}]},
        {"outputs": [{"output_type": "error", "ename": "", "evalue": "", "traceback": [1]}]},
    ],
)  # fmt: skip
def test_fields_of_the_wrong_type_are_refused_by_name(fields, root):
    with pytest.raises(InvalidCellError):
        rlmnb.append("demo", {"source": "x", **fields})
    assert not root.exists()


def test_a_value_nested_too_deeply_is_refused():
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidCellError, match="deeply"):
        rlmnb.append("demo", {"source": "x", "result": deep})


@pytest.mark.parametrize(
    "metadata",
    [
        {"tags": "foo"}, {"tags": ["a", "a"]}, {"tags": ["a,b"]}, {"scrolled": "x"}, {"name": 5},
        {"name": ""}, {"collapsed": 1}, {"jupyter": 1}, {"execution": {"a": 1}},
    ],
)  # fmt: skip
def test_metadata_that_nbformat_refuses_is_refused(metadata):
    cell = {"cell_type": "code", "source": "x", "metadata": metadata}
    whole = {"execution_count": None, "outputs": [], "id": "x", **cell}
    with pytest.raises(nbformat.ValidationError):
        nbformat.validate({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [whole]})
    with pytest.raises(InvalidCellError):
        rlmnb.append("demo", cell)


def test_text_in_pieces_is_written_as_nbformat_would():
    data = {
        "text/plain": ["a", "b\nc"],
        "image/svg+xml": ["<svg>", "\n</svg>"],
        "image/png": "aGVsbG8=\n",
        "application/vnd.x+json": ["kept", "as", "is"],
    }
    output = {"output_type": "display_data", "data": data, "metadata": {}}
    stream = {"output_type": "stream", "name": "stdout", "text": ["x", "y\n", "z"]}
    rlmnb.append(
        "demo", {"cell_type": "code", "source": ["a\nb\n", "c", ""], "outputs": [output, stream]}
    )
    rlmnb.append(
        "demo",
        {"cell_type": "markdown", "source": [""], "attachments": {"a": {"text/plain": ["x", "y"]}}},
    )
    assert_valid(notebook_of("demo"))


def test_an_invalid_record_is_refused_where_there_is_time_to_look(run):
    done = run("append", "demo", "--source", "x", "--record", '{"created_at": "yesterday"}')
    assert done.returncode == 2
    assert "created_at" in done.stderr
    with pytest.raises(InvalidCellError, match="confidence"):
        Session.create("demo").append(source="x", confidence=7)


def test_a_record_or_state_that_breaks_the_schema_is_told_without_a_traceback(run):
    append_many("demo", 1)
    notebook = read("demo")
    broken = copy.deepcopy(notebook)
    broken["cells"][0]["metadata"]["rlmnb"]["confidence"] = "high"
    save_like_lab(notebook_of("demo"), broken)
    shown = run("cell", "demo", "1")
    assert shown.returncode == 0
    assert "confidence" in shown.stderr
    broken = copy.deepcopy(notebook)
    broken["metadata"]["rlmnb"]["session"]["project"] = 5
    save_like_lab(notebook_of("demo"), broken)
    for command in ("show", "set", "sessions", "fork"):
        done = run(*([command] if command == "sessions" else [command, "demo"]))
        assert "Traceback" not in done.stderr
    assert run("show", "demo").returncode == 2


def test_dependencies_that_are_gone_are_refused_and_numbers_and_prefixes_taken(run):
    first = run("append", "demo", "--source", "x = 1").stdout.strip()
    for named in ("1", first[:9], first):
        assert run("append", "demo", "--source", "y", "--depends", named).returncode == 0
    assert run("append", "demo", "--source", "y", "--depends", "99").returncode == 2
    with pytest.raises(DependencyError):
        rlmnb.append("demo", {"source": "z", "dependencies": ["cell_gone0000"]})


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (["prune", "--older-than", "nan"], {}),
        (["prune", "--older-than", "inf"], {}),
        (["prune", "--older-than", "-5"], {}),
        (["cells", "demo"], {"PYTHONIOENCODING": "ascii"}),
        (["cells", "demo", "--json"], {"PYTHONIOENCODING": "ascii"}),
        (["cell", "demo", "1", "--json"], {}),
    ],
)
def test_odd_numbers_and_encodings_get_no_traceback(run, arguments, options):
    append_many("demo", 1)
    notebook = read("demo")
    notebook["cells"][0]["source"] = ["x = 'é\ud800'"]
    notebook_of("demo").write_text(json.dumps(notebook))
    done = run(*arguments, env={**os.environ, **options})
    assert "Traceback" not in done.stderr
    if "--json" in arguments:
        json.loads(done.stdout)


def test_a_source_with_lone_surrogates_leaves_the_index_as_rebuilt(run_json):
    append_many("demo", 1)
    notebook = read("demo")
    notebook["cells"][0]["source"] = ["x = '\ud800'"]
    notebook_of("demo").write_text(json.dumps(notebook))
    session = Session.open("demo")
    assert session.index == indexing.rebuild(session_place("demo"))
    assert Session.open("demo").index == session.index


def test_a_working_directory_that_is_gone_is_an_error_with_a_name(run, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    command = f"cd {gone} && rmdir {gone} && {sys.executable} -m rlmnb append demo --source x"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.returncode == 3
    assert "Traceback" not in done.stderr


def test_verify_tells_of_duplicate_ids(run_json):
    append_many("demo", 1)
    notebook = read("demo")
    notebook["cells"].append(copy.deepcopy(notebook["cells"][0]))
    notebook_of("demo").write_text(json.dumps(notebook))
    problems = run_json("verify", "demo", code=1)["problems"]
    assert any("2 cells have this id" in problem["text"] for problem in problems)


def test_a_garbage_object_database_can_be_set_aside(root, run):
    Objects(str(root / "objects")).put(b"small")
    append_many("demo", 1)
    (root / "objects" / "small.db").write_bytes(b"garbage" * 1000)
    assert run("doctor").returncode == 1
    assert run("doctor", "--fix").returncode == 0
    assert run("du").returncode == 0


@pytest.mark.parametrize("extra", [["v"], [{"a": 1}], [{"source": 1}], []])
def test_a_list_of_another_name_is_never_taken_for_the_cells(extra):
    ids = append_many("demo", 2)
    notebook = {**read("demo"), "custom": extra}
    text = json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    notebook_of("demo").write_text(text)
    late = rlmnb.append("demo", {"source": "late"})
    assert ids_in("demo") == [*ids, late]


def test_cells_for_a_notebook_with_conflict_markers_come_in_once_it_is_readable(tmp_path):
    path = plain(tmp_path / "nb.ipynb", "x = 1")
    for number in range(5):
        rlmnb.append(str(path), {"source": f"old{number}"})
    whole = path.read_text()
    import shutil

    shutil.rmtree(tmp_path / ".rlmnb")  # a fresh clone has none
    path.write_text("<<<<<<< HEAD\n" + whole)
    os.utime(path, (1, 1))
    ids = [rlmnb.append(str(path), {"source": f"new{n}"}, timeout=0.1) for n in range(3)]
    path.write_text(whole)
    rlmnb.append(str(path), {"source": "last"})
    assert ids_at(path)[6:9] == ids


def test_an_id_given_again_after_a_deletion_means_the_later_cell():
    append_many("demo", 1)
    buffer = read("demo")
    rlmnb.append("demo", {"source": "first", "id": "expl"})
    notebook = read("demo")
    notebook["cells"].pop()
    save_like_lab(notebook_of("demo"), notebook)
    rlmnb.append("demo", {"source": "second", "id": "expl"})
    save_like_lab(notebook_of("demo"), buffer)
    append_many("demo", 1)
    assert ["".join(cell["source"]) for cell in read("demo")["cells"]] == [
        "x0 = 0",
        "second",
        "x0 = 0",
    ]


def test_a_lock_that_cannot_be_made_after_the_journal_was_written_doubles_nothing(
    root, monkeypatch
):
    from rlmnb import files
    from rlmnb.errors import StorageError

    append_many("demo", 1)
    attempt = files.Lock.attempt

    def refuse(self):
        if self.path.endswith(".lock"):
            raise StorageError("no space for a lock")
        return attempt(self)

    monkeypatch.setattr(files.Lock, "attempt", refuse)
    late = rlmnb.append("demo", {"source": "late"}, timeout=0.1)
    monkeypatch.setattr(files.Lock, "attempt", attempt)
    assert not (root / "demo" / "spill").exists()
    assert [cell.cell_id for cell in Session.open("demo").cells][-1] == late


def test_reading_a_session_whose_journal_is_held_waits_for_nothing_but_the_lock(root, monkeypatch):
    session = Session.create("demo")
    session.append(source="a = 1")
    monkeypatch.setattr(
        "rlmnb.store.append.write_entry.__kwdefaults__", {"cwd": None, "timeout": 0.05}
    )
    with Lock(str(root / "demo" / "journal.jsonl"), timeout=1):
        late = rlmnb.append("demo", {"source": "b"}, timeout=0.05)
        assert len(Session.open("demo").cells) == 1
    assert [cell.cell_id for cell in Session.open("demo").cells][-1] == late


def test_what_a_person_ran_is_not_overwritten_by_an_older_result():
    session = Session.create("demo")
    cell_id = session.append(source="slow()", status="running")
    buffer = read("demo")
    session.complete(cell_id, output="the agent's\n")
    buffer["cells"][0]["source"] = ["mine()"]
    buffer["cells"][0]["outputs"] = [
        {"output_type": "stream", "name": "stdout", "text": ["mine\n"]}
    ]
    save_like_lab(notebook_of("demo"), buffer)
    cell = Session.open("demo").cells[0]
    assert cell.source == "mine()"
    assert cell.outputs[0]["text"] == ["mine\n"]


def test_a_result_comes_back_after_an_older_buffer_was_saved():
    session = Session.create("demo")
    cell_id = session.append(source="slow()", status="running")
    buffer = read("demo")
    session.complete(cell_id, output="done\n")
    save_like_lab(notebook_of("demo"), buffer)
    assert Session.open("demo").cell(cell_id).outputs[0]["text"] == ["done\n"]


def test_a_notebook_that_appears_while_one_is_made_is_not_replaced(tmp_path, monkeypatch):
    path = plain(tmp_path / "nb.ipynb", "mine = 1")
    first = rlmnb.append(str(path), {"source": "a"})
    whole = path.read_bytes()
    path.unlink()
    link = os.link

    def appear_first(source, target):
        if str(target) == str(path) and not path.exists():
            path.write_bytes(whole)
        link(source, target)

    monkeypatch.setattr(os, "link", appear_first)
    second = rlmnb.append(str(path), {"source": "b"})
    assert ids_at(path) == ["mine-0", first, second]


def test_a_notebook_that_is_deeply_nested_can_be_appended_to():
    append_many("demo", 1)
    deep: dict = {}
    for _ in range(600):
        deep = {"d": deep}
    notebook = read("demo")
    notebook["metadata"]["deep"] = deep
    notebook_of("demo").write_text(json.dumps(notebook))
    late = rlmnb.append("demo", {"source": "late"})
    assert [cell.cell_id for cell in Session.open("demo").cells][-1] == late


def test_a_round_trip_that_keeps_only_cell_metadata_doubles_no_cell():
    ids = append_many("demo", 3, output="out")
    notebook = read("demo")
    notebook["metadata"] = {}
    for number, cell in enumerate(notebook["cells"]):
        cell |= {"id": f"other-{number}", "outputs": []}
    notebook["cells"][1]["source"] = ["edited = 1"]
    save_like_lab(notebook_of("demo"), notebook)
    late = rlmnb.append("demo", {"source": "late"})
    assert ids_in("demo") == [*ids, late]


def test_another_notebook_under_an_old_name_gets_none_of_the_old_cells(tmp_path):
    path = plain(tmp_path / "a.ipynb", "old = 1")
    rlmnb.append(str(path), {"source": "agent"})
    Session.open(path)
    path.rename(tmp_path / "b.ipynb")
    nbformat.write(
        nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("new = 1", id="unrelated")]), path
    )
    assert [cell.source for cell in Session.open(path).cells] == ["new = 1"]
    late = rlmnb.append(str(path), {"source": "later"})
    assert ids_at(path) == ["unrelated", late]
    path.unlink()
    with pytest.raises(FileNotFoundError):
        Session.open(path)


def test_ids_shown_for_cells_without_any_can_be_used(tmp_path, run):
    old = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("a = 1")])
    del old.cells[0]["id"]
    old.nbformat_minor = 4
    nbformat.write(old, tmp_path / "old.ipynb")
    shown = Session.open(tmp_path / "old.ipynb").cells[0].cell_id
    done = run("append", str(tmp_path / "old.ipynb"), "--source", "a", "--depends", "1")
    assert done.returncode == 0, done.stderr
    assert ids_at(tmp_path / "old.ipynb") == [shown, done.stdout.strip()]
