"""JupyterLab saves what its buffer knows, in place, whenever it likes."""

from __future__ import annotations

import json
import os
import threading

import rlmnb
from rlmnb import Session
from tests.conftest import append_many, assert_valid, ids_in, notebook_of, read, save_like_lab


def test_saving_an_older_buffer_loses_no_appended_cell_and_no_edit():
    first = append_many("demo", 3)
    buffer = read("demo")
    later = append_many("demo", 2)
    buffer["cells"][1]["source"] = ["edited = True"]
    save_like_lab(notebook_of("demo"), buffer)
    newest = rlmnb.append("demo", {"source": "z"})
    assert ids_in("demo") == [*first, *later, newest]
    assert read("demo")["cells"][1]["source"] == ["edited = True"]
    assert_valid(notebook_of("demo"))


def test_a_cell_that_a_person_deleted_stays_deleted():
    ids = append_many("demo", 4)
    buffer = read("demo")
    later = append_many("demo", 1)
    del buffer["cells"][2]
    save_like_lab(notebook_of("demo"), buffer)
    newest = rlmnb.append("demo", {"source": "z"})
    assert ids_in("demo") == [ids[0], ids[1], ids[3], *later, newest]


def test_a_read_puts_dropped_cells_back_and_says_so():
    ids = append_many("demo", 2)
    buffer = read("demo")
    dropped = append_many("demo", 1)
    save_like_lab(notebook_of("demo"), buffer)
    session = Session.open("demo")
    assert [cell.cell_id for cell in session.cells] == ids + dropped
    assert [(each.kind, each.cell_id) for each in session.findings] == [("restored", dropped[0])]
    assert ids_in("demo") == ids + dropped


def test_a_cell_that_waited_in_the_journal_is_not_said_to_have_been_dropped(root):
    from rlmnb.files import Lock
    from rlmnb.store.append import write_entry

    session = Session.create("demo")
    first = session.append(source="x")
    with Lock(session.place.lock, timeout=1):
        late = rlmnb.append("demo", {"source": "y"}, timeout=0)
    change = {"op": "update", "cell_id": first, "record": {"confidence": 1}}
    write_entry(session.place, lambda _: change)
    session = Session.open("demo")
    assert [cell.cell_id for cell in session.cells] == [first, late]
    assert not [each for each in session.findings if each.kind == "restored"]


def test_a_cell_appended_in_the_middle_of_a_save_is_there_afterwards():
    ids = append_many("demo", 3)
    buffer = read("demo")
    buffer["cells"][0]["source"] = ["edited = True"]
    begun, go_on = threading.Event(), threading.Event()

    def pause() -> None:
        begun.set()
        assert go_on.wait(20)

    saver = threading.Thread(
        target=save_like_lab, args=(notebook_of("demo"), buffer, pause), daemon=True
    )
    saver.start()
    assert begun.wait(20)
    late = rlmnb.append("demo", {"source": "late"}, timeout=0.1)  # the file is empty now
    go_on.set()
    saver.join()
    assert [cell.cell_id for cell in Session.open("demo").cells] == [*ids, late]
    assert read("demo")["cells"][0]["source"] == ["edited = True"]
    assert_valid(notebook_of("demo"))


def test_an_append_waits_for_a_save_to_finish():
    ids = append_many("demo", 3)
    buffer = read("demo")
    begun, appended = threading.Event(), []

    def pause() -> None:
        begun.set()
        threading.Event().wait(0.05)  # the time a save takes is what is tested

    saver = threading.Thread(target=save_like_lab, args=(notebook_of("demo"), buffer, pause))
    saver.start()
    assert begun.wait(20)
    appended.append(rlmnb.append("demo", {"source": "late"}))
    saver.join()
    assert ids_in("demo") == ids + appended


def test_a_save_that_begins_between_our_last_look_and_the_rename_is_brought_back(monkeypatch):
    ids = append_many("demo", 2)
    buffer = read("demo")
    buffer["cells"][0]["source"] = ["saved_at_the_worst_moment = True"]
    path = notebook_of("demo")
    replace = os.replace
    saves = []

    def replace_late(source: str, target: str) -> None:
        if str(target) == str(path) and not saves:
            saves.append(1)
            file = open(path, "w", encoding="utf-8")  # noqa: SIM115 - open across the rename
            replace(source, target)
            json.dump(buffer, file)
            file.close()
            return
        replace(source, target)

    monkeypatch.setattr(os, "replace", replace_late)
    late = rlmnb.append("demo", {"source": "late"})
    assert saves
    assert ids_in("demo") == [*ids, late]
    assert read("demo")["cells"][0]["source"] == ["saved_at_the_worst_moment = True"]
    assert_valid(path)


def test_a_file_that_changes_while_the_new_one_is_written_is_read_again(monkeypatch):
    ids = append_many("demo", 2)
    buffer = read("demo")
    buffer["cells"][0]["source"] = ["edited = True"]
    sync, saves = os.fsync, []

    def sync_late(descriptor: int) -> None:
        if not saves:
            saves.append(1)
            save_like_lab(notebook_of("demo"), buffer)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", sync_late)
    late = rlmnb.append("demo", {"source": "late"})
    assert saves
    assert ids_in("demo") == [*ids, late]
    assert read("demo")["cells"][0]["source"] == ["edited = True"]


def test_a_notebook_in_another_layout_is_rewritten_and_nothing_is_lost():
    ids = append_many("demo", 2)
    notebook = read("demo")
    notebook_of("demo").write_text(json.dumps(notebook, indent=4, sort_keys=False))
    late = rlmnb.append("demo", {"source": "late"})
    assert ids_in("demo") == [*ids, late]
    assert_valid(notebook_of("demo"))


def test_stripped_metadata_comes_back_from_the_journal_and_no_cell_is_doubled():
    ids = append_many("demo", 3)
    title = Session.open("demo")
    title.state.session.title = "kept"
    title.save()
    notebook = read("demo")
    before = [cell["metadata"] for cell in notebook["cells"]]
    notebook["metadata"] = {}
    for cell in notebook["cells"]:
        cell["metadata"] = {}
    save_like_lab(notebook_of("demo"), notebook)
    late = rlmnb.append("demo", {"source": "late"})
    assert ids_in("demo") == [*ids, late]
    assert [cell["metadata"] for cell in read("demo")["cells"]][:3] == before
    assert Session.open("demo").state.session.title == "kept"


def test_a_read_between_the_stripping_and_the_next_append_doubles_no_cell(run):
    ids = append_many("demo", 3, output="ok\n")
    notebook = read("demo")
    notebook["metadata"].pop("rlmnb")
    for number, cell in enumerate(notebook["cells"]):
        cell |= {"id": f"changed-{number}", "metadata": {}}
    save_like_lab(notebook_of("demo"), notebook)
    session = Session.open("demo")
    assert [cell.cell_id for cell in session.cells] == ids
    assert [each.kind for each in session.findings] == ["stripped"]
    late = append_many("demo", 1)
    assert ids_in("demo") == ids + late
    assert_valid(notebook_of("demo"))


def test_an_append_after_the_repair_of_a_lost_end_doubles_no_cell(run):
    ids = append_many("demo", 3)
    data = notebook_of("demo").read_bytes()
    notebook_of("demo").write_bytes(data[: data.index(b'"kernelspec"')])
    assert run("doctor", "--fix", "demo").returncode == 0
    late = append_many("demo", 1)
    assert ids_in("demo") == ids + late


def test_a_tool_that_strips_metadata_and_changes_ids_doubles_no_cell():
    ids = append_many("demo", 3)
    notebook = read("demo")
    notebook["metadata"] = {}
    for number, cell in enumerate(notebook["cells"]):
        cell["metadata"] = {}
        cell["id"] = f"other-{number}"
    save_like_lab(notebook_of("demo"), notebook)
    late = rlmnb.append("demo", {"source": "late"})
    assert ids_in("demo") == [*ids, late]


def test_a_notebook_that_was_removed_comes_back_from_the_journal():
    ids = append_many("demo", 3)
    notebook_of("demo").unlink()
    late = rlmnb.append("demo", {"source": "late"})
    assert ids_in("demo") == [*ids, late]


def test_a_journal_that_was_removed_takes_up_the_count_where_the_notebook_is(root):
    ids = append_many("demo", 3)
    (root / "demo" / "journal.jsonl").unlink()
    late = append_many("demo", 2)
    assert ids_in("demo") == [*ids, *late]


def test_a_journal_from_a_backup_loses_no_new_cell(root):
    journal = root / "demo" / "journal.jsonl"
    ids = append_many("demo", 2)
    backup = journal.read_bytes()
    ids += append_many("demo", 3)
    journal.write_bytes(backup)
    late = rlmnb.append("demo", {"source": "late"})
    assert ids_in("demo") == [*ids, late]
