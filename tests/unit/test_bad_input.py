"""What is broken, hostile or in the way: an error or a repair, and nothing readable is lost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile

import nbformat
import pytest

import rlmnb
from rlmnb import Session
from rlmnb.errors import NotebookError, UnsafePathError
from rlmnb.store import journal
from tests.conftest import RUN, append_many, assert_valid, ids_in, notebook_of, read

BROKEN = {
    "empty": b"",
    "only space": b"  \n",
    "not JSON": b"hello",
    "JSON but no notebook": b'{"a": 1}',
    "a list": b"[]",
    "nbformat 3": b'{"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": []}',
    "nbformat 5": b'{"nbformat": 5, "nbformat_minor": 0, "metadata": {}, "cells": []}',
    "cells are no list": b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": {}}',
    "cells are no objects": b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [1]}',
    "metadata is no object": b'{"nbformat": 4, "nbformat_minor": 5, "metadata": 7, "cells": []}',
    "invalid UTF-8": b'{"nbformat": 4, "cells": [], "metadata": {"x": "\xff"}}',
    "deep": b'{"nbformat": 4, "cells": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "a huge integer": b'{"nbformat": 4, "cells": [], "metadata": {"x": ' + b"9" * 5000 + b"}}",
}


def break_notebook(data: bytes) -> None:
    path = notebook_of("demo")
    path.write_bytes(data)
    long_ago = path.stat().st_mtime - 60  # nobody is in the middle of saving it
    os.utime(path, (long_ago, long_ago))


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_notebook_is_a_clear_error_and_doctor_brings_it_back(data, run):
    ids = append_many("demo", 3)
    break_notebook(data)
    with pytest.raises(NotebookError, match="demo"):
        Session.open("demo")
    shown = run("cells", "demo")
    assert shown.returncode == 3
    assert "Traceback" not in shown.stderr
    late = rlmnb.append("demo", {"source": "late"}, timeout=0.2)  # the journal still takes it
    fixed = run("doctor", "demo", "--fix")
    assert fixed.returncode == 0, fixed.stdout + fixed.stderr
    assert ids_in("demo") == [*ids, late]
    assert_valid(notebook_of("demo"))
    kept = [path for path in notebook_of("demo").parent.iterdir() if "broken" in path.name]
    assert [path.read_bytes() for path in kept] == [data]


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
def test_a_truncated_notebook_keeps_a_persons_edits_that_can_still_be_read(share, run):
    ids = append_many("demo", 20)
    notebook = read("demo")
    notebook["cells"][0]["source"] = ["edited = True"]
    del notebook["cells"][1]
    text = (nbformat.writes(nbformat.from_dict(notebook)) + "\n").encode()
    notebook_of("demo").write_bytes(text)
    Session.open("demo")  # so that the deletion has been seen
    break_notebook(text[: int(len(text) * share)])
    assert run("doctor", "demo", "--fix").returncode == 0
    assert_valid(notebook_of("demo"))
    cells = read("demo")["cells"]
    assert cells[0]["source"] == ["edited = True"]
    assert [cell["id"] for cell in cells] == [ids[0], *ids[2:]]


def test_invalid_utf8_in_one_cell_costs_no_other(run):
    ids = append_many("demo", 3)
    data = notebook_of("demo").read_bytes().replace(b"x1 = 1", b"x1 = '\xff'")
    break_notebook(data)
    with pytest.raises(NotebookError, match="not UTF-8"):
        Session.open("demo")
    assert run("doctor", "demo", "--fix").returncode == 0
    assert ids_in("demo") == ids
    assert read("demo")["cells"][1]["source"] == ["x1 = '\ufffd'"]


def test_lone_surrogates_in_a_notebook_are_kept_as_they_are():
    append_many("demo", 1)
    notebook = read("demo")
    notebook["cells"][0]["source"] = ["x = '\ud800'"]
    notebook_of("demo").write_text(json.dumps(notebook))
    session = Session.open("demo")
    assert session.cells[0].source == "x = '\ud800'"
    rlmnb.append("demo", {"source": "late"})
    assert read("demo")["cells"][0]["source"] == ["x = '\ud800'"]


def test_a_notebook_of_50_mb_can_be_appended_to_and_read():
    append_many("demo", 2)
    notebook = read("demo")
    notebook["cells"][0]["metadata"]["big"] = "y" * 50_000_000
    notebook_of("demo").write_text(nbformat.writes(nbformat.from_dict(notebook)) + "\n")
    late = rlmnb.append("demo", {"source": "late"})
    assert Session.open("demo").cells[-1].cell_id == late


@pytest.mark.parametrize(
    "record",
    [
        7, [], "x", {}, {"schema_version": "1"}, {"schema_version": 99}, {"schema_version": True},
        {"schema_version": 1, "dependencies": 7, "files_read": [], "input": 3, "metadata": "x"},
        {"schema_version": 1, "dependencies": [7, {"cell_id": "../x"}], "status": 4, "type": []},
        {"schema_version": 1, "output": {"objects": [{"object": "../../etc/passwd"}]}},
        {"schema_version": 1, "files_read": {"/x": {"hash": 7}}, "cell_id": "../x"},
    ],
)  # fmt: skip
def test_a_record_that_a_hand_has_broken_does_not_keep_the_session_from_being_read(
    record, run, run_json
):
    append_many("demo", 2)
    notebook = read("demo")
    notebook["cells"][0]["metadata"]["rlmnb"] = record
    notebook_of("demo").write_text(nbformat.writes(nbformat.from_dict(notebook)) + "\n")
    assert len(Session.open("demo").cells) == 2
    for command in ("show", "cells", "stats", "files"):
        done = run(command, "demo")
        assert done.returncode == 0, done.stderr
    if record != {}:
        assert run_json("verify", "demo", code=1)["problems"]
    rlmnb.append("demo", {"source": "late"})
    assert len(ids_in("demo")) == 3


@pytest.mark.parametrize("state", [7, [], "x", {"appended": "x"}, {"appended": -5}, {"session": 3}])
def test_a_state_that_a_hand_has_broken_loses_no_cell(state):
    ids = append_many("demo", 3)
    notebook = read("demo")
    notebook["metadata"]["rlmnb"] = state
    notebook_of("demo").write_text(nbformat.writes(nbformat.from_dict(notebook)) + "\n")
    late = rlmnb.append("demo", {"source": "late"})
    assert ids_in("demo") == [*ids, late]
    assert_valid(notebook_of("demo"))


def test_sections_and_versions_of_the_wrong_type_are_told_without_a_traceback(run, run_json):
    append_many("demo", 1)
    notebook = read("demo")
    notebook["metadata"]["rlmnb"] |= {"budget": "x", "activation": 7}
    notebook["nbformat_minor"] = "5"
    notebook_of("demo").write_text(json.dumps(notebook))
    assert run_json("budget", "demo")["agent"]["tokens"] == 0
    problems = run_json("verify", "demo", code=1)["problems"]
    assert "nbformat_minor is a number, found '5'" in [each["text"] for each in problems]


@pytest.mark.parametrize("torn", [b'{"seq":4,"op":"app', b"{", b"\x00\xff", b'{"seq":"x"}'])
def test_a_torn_journal_line_is_passed_over_and_never_written_onto(torn, root, run):
    ids = append_many("demo", 3)
    path = root / "demo" / "journal.jsonl"
    with open(path, "ab") as file:
        file.write(torn)
    late = rlmnb.append("demo", {"source": "late"})
    assert ids_in("demo") == [*ids, late]
    assert torn in path.read_bytes()
    assert journal.damaged_lines(str(path)) == 1
    report = run("doctor", "demo")
    assert report.returncode == 1
    assert "never finished" in report.stdout
    notebook_of("demo").unlink()
    assert [cell.cell_id for cell in Session.open("demo").cells] == [*ids, late]


@pytest.mark.parametrize("name", ["session.ipynb", "journal.jsonl", ".lock", "index.json"])
def test_a_planted_link_is_never_followed(name, root, tmp_path):
    append_many("demo", 1)
    secret = tmp_path / "secret"
    secret.write_text("mine")
    Session.open("demo")
    (root / "demo" / name).unlink()
    (root / "demo" / name).symlink_to(secret)
    if name == "index.json":
        assert len(Session.open("demo").cells) == 1
    else:
        with pytest.raises(UnsafePathError, match="symbolic link"):
            rlmnb.append("demo", {"source": "x"})
    assert secret.read_text() == "mine"


def test_a_session_directory_that_is_a_link_is_refused(root, tmp_path):
    root.mkdir()
    outside = tmp_path / "outside"
    outside.mkdir()
    (root / "demo").symlink_to(outside)
    with pytest.raises(UnsafePathError, match="symbolic link"):
        rlmnb.append("demo", {"source": "x"})
    assert list(outside.iterdir()) == []


def test_a_pipe_in_the_place_of_a_file_holds_nobody_up(root):
    append_many("demo", 1)
    for name in ("session.ipynb", "journal.jsonl"):
        (root / "demo" / name).unlink()
        os.mkfifo(root / "demo" / name)
        with pytest.raises(UnsafePathError):
            rlmnb.append("demo", {"source": "x"})
        (root / "demo" / name).unlink()


FULL_DISK = """
import resource, sys, rlmnb
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
print(rlmnb.append("demo", {"source": "late = 1"}))
"""


@pytest.mark.parametrize(("limit", "where"), [(1000, "side files"), (3000, "not in the notebook")])
def test_a_disk_that_takes_no_more_loses_no_acknowledged_cell(limit, where, root, run):
    """A limit on file size is what a full disk looks like to a process: a short write, an error."""
    ids = append_many("demo", 1)
    path = root / "demo" / "journal.jsonl"
    while path.stat().st_size < limit - 1500:
        ids += append_many("demo", 1)
    if limit == 1000:
        ids += append_many("demo", 1)
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(limit)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    late = done.stdout.strip()
    assert late not in ids_in("demo")
    assert_valid(notebook_of("demo"))
    report = run("doctor", "demo")
    assert where in report.stdout
    assert run("doctor", "demo", "--fix").returncode == 0
    assert ids_in("demo") == [*ids, late]
    assert not [name for name in os.listdir(root / "demo") if name.endswith(".tmp")]


AS_NOBODY = """
import os, tempfile, rlmnb, rlmnb.store.append, rlmnb.store.spill, rlmnb.store.project
if os.getuid() == 0:  # for whom no mode forbids anything
    os.setgid(65534); os.setuid(65534)
print(rlmnb.append("demo", {"source": "late = 1"}))
"""


def test_a_root_that_cannot_be_written_leaves_the_event_in_a_side_file_elsewhere(
    monkeypatch,
):
    public = tempfile.mkdtemp(dir="/tmp")  # others cannot enter pytest's own directories
    os.chmod(public, 0o755)
    home = os.path.join(public, "sessions")
    monkeypatch.setenv("RLMNB_HOME", home)
    monkeypatch.setenv("TMPDIR", os.path.join(public, "tmp"))
    os.mkdir(os.path.join(public, "tmp"))
    os.chmod(os.path.join(public, "tmp"), 0o1777)
    try:
        ids = append_many("demo", 1)
        os.chmod(home, 0o555)
        os.chmod(os.path.join(home, "demo"), 0o555)
        for name in os.listdir(os.path.join(home, "demo")):
            os.chmod(os.path.join(home, "demo", name), 0o444)
        done = subprocess.run(
            [sys.executable, "-c", AS_NOBODY], capture_output=True, text=True, cwd=public
        )
        assert done.returncode == 0, done.stderr
        kept = [name for _, _, names in os.walk(os.path.join(public, "tmp")) for name in names]
        assert len(kept) == 1
        assert json.loads(notebook_of("demo").read_text())["cells"][0]["id"] == ids[0]
    finally:
        os.chmod(home, 0o755)
        shutil.rmtree(public, ignore_errors=True)


def test_control_characters_in_what_an_agent_wrote_do_not_reach_the_terminal(run):
    rlmnb.append("demo", {"source": "x = '\x1b]0;owned\x07'", "output": "\x1b[2J\x1b[31mred"})
    for arguments in (("cells", "demo"), ("cell", "demo", "1")):
        assert "\x1b" not in run(*arguments).stdout
    exact = run("cell", "demo", "1", "--output").stdout
    assert exact == "\x1b[2J\x1b[31mred"


@pytest.mark.parametrize(
    "broken",
    [
        {},
        "text",
        {key: value for key, value in RUN.items() if key != "text"},
        *({**RUN, key: 7} for key in (*RUN, "asked", "shows", "looked", "settled", "updates")),
        {**RUN, "writes": [{"names": [], "digest": "d", "own": {}}]},
        {**RUN, "reads": {"x": []}},
        {**RUN, "looked": {"other": 1}},
    ],
)
def test_a_trace_that_a_hand_has_broken_is_a_named_doubt(broken, run_json):
    append_many("demo", 2)
    whole = read("demo")
    whole["cells"][0]["metadata"]["rlmnb"]["run"] = broken
    notebook_of("demo").write_text(json.dumps(whole))
    doubt = ["what its last run has left in the notebook cannot be read"]
    assert [row["causes"] for row in run_json("status", "demo")["stale"]] == [doubt]
    assert run_json("replay", "demo", "--dry-run")["would_execute"][0]["causes"] == doubt


@pytest.mark.parametrize(
    "metadata",
    [
        {"language_info": {"name": "R"}},
        {"kernelspec": {"name": "ir", "display_name": "R", "language": "R"}},
    ],
)
@pytest.mark.parametrize(
    "words",
    [
        ["replay"],
        ["replay", "--dry-run"],
        ["exec", "1"],
        ["kernel", "start"],
        ["restore", "--at=1"],
    ],
)
def test_a_notebook_of_another_language_is_read_and_never_run(metadata, words, run):
    cell = nbformat.v4.new_code_cell("x <- c(1, 2)\nx")
    cell.outputs = [nbformat.v4.new_output("stream", text="[1] 1 2\n")]
    nbformat.write(nbformat.v4.new_notebook(cells=[cell], metadata=metadata), "r.ipynb")
    before = nbformat.read("r.ipynb", 4).cells
    at = 2 if words[0] == "kernel" else 1
    done = run(*words[:at], "r.ipynb", *words[at:])
    assert done.returncode == 3
    assert "is a notebook of R, and only Python can be run here" in done.stderr
    assert nbformat.read("r.ipynb", 4).cells == before
    told = done.stderr.splitlines()[-1].partition(": rlmnb ")[2]
    assert "x <- c(1, 2)" in run(*told.split()).stdout
