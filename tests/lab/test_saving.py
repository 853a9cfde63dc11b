"""A person saves in JupyterLab what their buffer knows, while an agent appends."""

from __future__ import annotations

import threading
from pathlib import Path

import rlmnb
from rlmnb import Session
from rlmnb.store.append import append
from tests.conftest import append_many, assert_valid, ids_in, notebook_of, read

DEMO = "demo/session.ipynb"


def test_what_is_opened_and_saved_is_byte_for_byte_what_it_was(server, run):
    rlmnb.append("demo", {"source": "x = 1\nprint(x / 3, 2.0, 1e300, 10**20)\nx"})
    rlmnb.append("demo", {"source": 'print("ümläut ☃ \\u2028 tab\\t")', "output": "ü ☃\n"})
    rlmnb.append("demo", {"source": 'tools.Read(file_path="a.py")', "output": "text\n" * 9000})
    rlmnb.append("demo", {"source": "1 / 0", "metadata": {"temperature": 1.0, "tokens_used": 5}})
    rlmnb.append("demo", {"cell_type": "markdown", "source": "# A story\n\n$x^2$ <b>bold</b>"})
    run("set", "demo", "--title", "a title")
    run("replay", "demo", "1,2,4", "--force")
    before = notebook_of("demo").read_bytes()
    content = server.contents(DEMO)
    assert server.save(DEMO, content).status == 200
    assert notebook_of("demo").read_bytes() == before


def test_overwriting_with_an_older_buffer_keeps_both_sides(server):
    ids = append_many("demo", 4)
    buffer = server.contents(DEMO)
    later = append_many("demo", 3)
    buffer["cells"][0]["source"] = "edited = True"
    del buffer["cells"][2]
    mine = {"cell_type": "markdown", "id": "mine", "metadata": {}, "source": "a note"}
    buffer["cells"].insert(1, mine)
    assert server.save(DEMO, buffer).status == 200
    assert ids_in("demo") == [ids[0], "mine", ids[1], ids[3], *later]
    assert read("demo")["cells"][0]["source"] == ["edited = True"]
    assert_valid(notebook_of("demo"))
    # The buffer still knows nothing of them, and saves again.
    assert server.save(DEMO, buffer).status == 200
    assert ids_in("demo") == [ids[0], "mine", ids[1], ids[3], *later]
    newest = rlmnb.append("demo", {"source": "z = 1"})
    assert ids_in("demo") == [ids[0], "mine", ids[1], ids[3], *later, newest]


def test_results_of_a_replay_survive_an_older_buffer_unless_the_person_edited_the_cell(server, run):
    ids = [rlmnb.append("demo", {"source": each}) for each in ("print(1)", "print(2)")]
    buffer = server.contents(DEMO)
    assert run("replay", "demo", "--force").returncode == 0
    buffer["cells"][1]["source"] = "print('mine')"
    assert server.save(DEMO, buffer).status == 200
    first, second = read("demo")["cells"]
    assert first["outputs"][0]["text"] == ["1\n"]
    assert second["source"] == ["print('mine')"]
    assert second["outputs"] == []
    stale = server.get("status", path=DEMO).json["cells"]
    assert {row["cell_id"]: row["state"] for row in stale} == {ids[0]: "fresh", ids[1]: "stale"}


def test_a_cell_that_somebody_else_edited_or_deleted_meanwhile_comes_as_it_is_on_disk(server):
    ids = append_many("demo", 1)
    old = server.contents(DEMO)
    later = append_many("demo", 2)
    theirs = server.contents(DEMO)
    theirs["cells"][1]["source"] = "theirs = 1"
    del theirs["cells"][2]
    assert server.save(DEMO, theirs).status == 200
    old["cells"][0]["source"] = "mine = 1"
    assert server.save(DEMO, old).status == 200
    assert ids_in("demo") == [ids[0], later[0]]
    assert [cell["source"] for cell in read("demo")["cells"]] == [["mine = 1"], ["theirs = 1"]]


def test_a_buffer_without_our_metadata_gets_it_back(server):
    ids = append_many("demo", 2)
    buffer = server.contents(DEMO)
    later = append_many("demo", 1)
    buffer["metadata"] = {}
    assert server.save(DEMO, buffer).status == 200
    assert ids_in("demo") == ids + later
    assert read("demo")["metadata"]["rlmnb"]["appended"] == 3


def test_saves_and_appends_at_once_lose_nothing_and_never_leave_half_a_file(server):
    ids = append_many("demo", 30, output="line\n" * 200)
    buffer = server.contents(DEMO)
    failures = []

    def save(number: int) -> None:
        mine = {**buffer, "cells": [dict(cell) for cell in buffer["cells"]]}
        for turn in range(6):
            mine["cells"][number]["source"] = f"edited = {number}, {turn}" + "#" * number * 900
            answer = server.save(DEMO, mine)
            if answer.status != 200:
                failures.append(answer.text)

    savers = [threading.Thread(target=save, args=(number,)) for number in range(3)]
    for saver in savers:
        saver.start()
    appended = [rlmnb.append("demo", {"source": f"late{n} = {n}"}) for n in range(20)]
    for saver in savers:
        saver.join()
    assert not failures
    assert [cell.cell_id for cell in Session.open("demo").cells] == ids + appended
    assert_valid(notebook_of("demo"))


def test_a_save_that_fails_leaves_the_session_free(server):
    append_many("demo", 1)
    buffer = server.contents(DEMO)
    for content in (None, 5, [], {"cells": 5}, {"nbformat": 4, "cells": [5]}, {}):
        answer = server.save(DEMO, content)
        assert answer.status != 200 or answer.json.get("message"), content
    append("demo", {"source": "y = 1"}, timeout=2.0)
    for bad in ({"rlmnb": 5}, {"rlmnb": {"appended": -7}}, {"rlmnb": {"appended": "x"}}):
        assert server.save(DEMO, {**buffer, "metadata": bad}).status == 200
    kept = append("demo", {"source": "z = 1"}, timeout=2.0)
    assert kept.why_not is None
    assert len(ids_in("demo")) == 3


def test_other_peoples_notebooks_are_saved_as_they_are(server, root):
    append_many("demo", 2)
    plain = Path(root) / "plain.ipynb"
    plain.write_bytes(notebook_of("demo").read_bytes())
    content = server.contents("plain.ipynb")
    content["cells"] = content["cells"][:1]
    content["metadata"]["rlmnb"]["appended"] = 0
    assert server.save("plain.ipynb", content).status == 200
    assert len(server.contents("plain.ipynb")["cells"]) == 1
    assert not (Path(root) / ".rlmnb").exists()


def test_a_plain_notebook_that_was_replayed_is_merged_too(server, root, run):
    append_many("demo", 1)
    plain = Path(root) / "plain.ipynb"
    content = server.contents(DEMO)
    content["metadata"].pop("rlmnb")
    content["cells"] = [
        {"cell_type": "code", "id": "one", "metadata": {}, "source": "print(1)"}
        | {"outputs": [], "execution_count": None}
    ]
    assert server.save("plain.ipynb", content).status == 201
    buffer = server.contents("plain.ipynb")
    assert run("replay", str(plain)).returncode == 0
    buffer["cells"].append({"cell_type": "markdown", "id": "two", "metadata": {}, "source": "x"})
    assert server.save("plain.ipynb", buffer).status == 200
    cells = server.contents("plain.ipynb")["cells"]
    assert [cell["id"] for cell in cells] == ["one", "two"]
    assert cells[0]["outputs"][0]["text"] == "1\n"
