from __future__ import annotations

import os
import stat
import subprocess
import sys

import rlmnb
from rlmnb import Session
from tests.conftest import append_many, notebook_of


def test_a_healthy_root_is_said_to_be_one(run, run_json):
    append_many("demo", 2)
    Session.open("demo")
    assert run_json("doctor") == {
        "ok": True,
        "root": os.environ["RLMNB_HOME"],
        "problems": [],
    }
    assert "nothing wrong" in run("doctor").stdout


def test_loose_permissions_are_found_and_tightened(root, run, run_json):
    append_many("demo", 1)
    os.chmod(root / "demo", 0o755)
    os.chmod(notebook_of("demo"), 0o644)
    report = run_json("doctor", code=1)
    assert [problem["problem"] for problem in report["problems"]] == ["can be read by others"] * 2
    assert run("doctor", "--fix").returncode == 0
    assert stat.S_IMODE((root / "demo").stat().st_mode) == 0o700
    assert stat.S_IMODE(notebook_of("demo").stat().st_mode) == 0o600


def test_pending_entries_are_found_and_brought_in(root, run, run_json):
    from rlmnb.files import Lock

    append_many("demo", 1)
    with Lock(str(root / "demo" / ".lock"), timeout=1):
        late = rlmnb.append("demo", {"source": "late"}, timeout=0)
    report = run_json("doctor", "demo", code=1)
    assert "1 journal entries are not in the notebook" in report["problems"][0]["problem"]
    assert report["problems"][0]["fixable"]
    assert run_json("recover", "demo")["problems"][0]["fixed"] == "brought in"
    assert late in notebook_of("demo").read_text()


def test_a_tampered_index_is_found_and_made_anew(root, run, run_json):
    append_many("demo", 2)
    Session.open("demo")
    path = root / "demo" / "index.json"
    right = path.read_bytes()
    path.write_bytes(right.replace(b'"status": "completed"', b'"status": "failed"'))
    problems = run_json("verify", "demo", code=1)["problems"]
    assert {problem["kind"] for problem in problems} == {"index"}
    assert run("doctor", "--fix").returncode == 0
    assert path.read_bytes() == right
    assert run_json("verify", "demo")["ok"]


def test_a_damaged_object_is_found_by_verify_and_doctor(root, run, run_json):
    rlmnb.append("demo", {"source": "x", "output": "long " * 10_000})
    (path,) = (each for each in (root / "objects").rglob("*") if each.is_file())
    path.write_bytes(b"tampered")
    (problem,) = run_json("verify", "demo", code=1)["problems"]
    assert problem["kind"] == "object"
    assert run("cell", "demo", "1", "--output").returncode == 3
    assert "other bytes" in run("doctor").stdout
    assert run("doctor", "--fix").returncode == 0
    assert not path.exists()


def test_a_planted_link_is_reported_and_left_to_the_user(root, run, tmp_path):
    append_many("demo", 1)
    notebook_of("demo").unlink()
    notebook_of("demo").symlink_to(tmp_path / "elsewhere")
    done = run("doctor", "--fix")
    assert done.returncode == 1
    assert "symbolic link" in done.stdout
    assert notebook_of("demo").is_symlink()


def test_an_object_store_that_leads_elsewhere_is_reported_and_keeps_no_cell_out(
    root, run, tmp_path
):
    append_many("demo", 1)
    (root / "objects").symlink_to(tmp_path)
    late = rlmnb.append("demo", {"source": "x", "output": "long " * 10_000})
    done = run("doctor")
    assert done.returncode == 1
    assert "objects: is a symbolic link" in done.stdout
    assert "wait on" in run("doctor", "--fix").stdout
    (root / "objects").unlink()
    assert Session.open("demo").cells[-1].cell_id == late
    assert run("doctor").returncode == 0


def test_long_outputs_that_had_to_wait_are_kept_apart_like_any(root):
    from rlmnb.files import Lock

    append_many("demo", 1)
    with Lock(str(root / "demo" / "journal.jsonl"), timeout=1):
        rlmnb.append("demo", {"source": "x", "output": "long " * 10_000}, timeout=0)
    append_many("demo", 1)
    session = Session.open("demo")
    assert notebook_of("demo").stat().st_size < 30_000
    assert len(session.objects.get(session.cell(2).record.output.objects[0].object)) == 50_000


def test_a_session_that_never_began_is_found_and_removed(root, run, run_json):
    (root / "hollow").mkdir(parents=True, mode=0o700)
    (root / "hollow" / "journal.jsonl").touch(0o600)
    (root / "hollow" / ".lock").touch(0o600)
    (problem,) = run_json("doctor", code=1)["problems"]
    assert "never began" in problem["problem"]
    assert run_json("doctor", "--fix")["problems"][0]["fixed"] == "removed"
    assert not (root / "hollow").exists()


BEGIN_ON_A_FULL_DISK = """
import resource, rlmnb
session = rlmnb.Session.open("demo")
resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
for begin in (lambda: session.fork(), lambda: rlmnb.Session.create("other")):
    try:
        begin()
    except rlmnb.RlmnbError as error:
        print(type(error).__name__)
"""


def test_a_session_that_cannot_begin_leaves_nothing_behind(root):
    append_many("demo", 1)
    done = subprocess.run(
        [sys.executable, "-c", BEGIN_ON_A_FULL_DISK], capture_output=True, text=True
    )
    assert done.stdout.split() == ["StorageError", "StorageError"]
    assert sorted(path.name for path in root.iterdir() if not path.is_symlink()) == ["demo"]


def test_a_notebook_of_a_newer_version_is_named_with_the_version_that_reads_it(run_json):
    append_many("demo", 1)
    data = notebook_of("demo").read_text()
    newer = data.replace('   "schema_version": 1', '   "schema_version": 7')
    notebook_of("demo").write_text(newer.replace('"version": "0.1.0"', '"version": "9.1.0"'))
    (problem,) = run_json("doctor", "demo", code=1)["problems"]
    assert "rlmnb 9.1.0 can read it" in problem["problem"]
    assert not problem["fixable"]


def test_a_large_cell_is_a_warning(run):
    rlmnb.append("demo", {"source": "x = 1\n" * 20_000})
    assert "100 KB is a lot" in run("doctor").stdout


def test_verify_names_every_hash_that_is_no_longer_right(run_json):
    from tests.conftest import read, save_like_lab

    ids = append_many("demo", 3, output="out\n")
    assert run_json("verify", "demo") == {
        "session_id": "demo",
        "ok": True,
        "cells": 3,
        "hashes": 9,
        "objects": 0,
        "problems": [],
    }
    notebook = read("demo")
    notebook["cells"][0]["source"] = ["edited"]
    notebook["cells"][1]["outputs"] = []
    notebook["cells"][2]["metadata"]["rlmnb"]["files_read"] = {"/x": {"hash": "missing"}}
    save_like_lab(notebook_of("demo"), notebook)
    problems = run_json("verify", "demo", code=1)["problems"]
    assert [(problem["kind"], problem["where"]) for problem in problems] == [
        ("source changed", ids[0]),
        ("output changed", ids[1]),
        ("context changed", ids[2]),
    ]
