"""What must hold on Windows as anywhere else; `make test-windows` runs it there.

Windows lets nobody replace or remove a file that somebody has open, knows devices where others
know names, has no fork, and writes text in a code page unless it is told otherwise.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Self

import nbformat
import pytest

import rlmnb
from rlmnb.errors import InvalidNameError, LockTimeoutError
from rlmnb.files import Lock, Replacement, append_line, polls, remove, remove_tree, write_atomic
from rlmnb.installing import hook_entry
from rlmnb.processes import end, is_alive
from rlmnb.session import Session
from tests.conftest import append_many, assert_valid, ids_in, notebook_of

HOLDS = "import sys; file = open(sys.argv[1], 'rb'); print('open', flush=True); sys.stdin.read()"
WRITES = """
import sys, rlmnb
for n in range(int(sys.argv[2])):
    print(rlmnb.append("demo", {"source": f"{sys.argv[1]}{n} = {n}"}), flush=True)
"""


class Reader:
    """Another process that has a file open for as long as the block, or until it is told."""

    def __init__(self, path: Path | str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", HOLDS, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "open\n"
        return self

    def let_go(self) -> None:
        self._process.communicate("")

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.let_go()


def test_a_cell_is_kept_while_a_reader_has_the_notebook_open():
    (first,) = append_many("demo", 1)
    with Reader(notebook_of("demo")):
        second = rlmnb.append("demo", {"source": "y = 2"})
    assert [cell.cell_id for cell in Session.open("demo").cells()] == [first, second]
    assert_valid(notebook_of("demo"))
    assert ids_in("demo") == [first, second]


def test_a_file_is_replaced_as_soon_as_its_reader_lets_go(tmp_path):
    path = tmp_path / "file"
    write_atomic(str(path), b"old")
    with Reader(path) as reader:
        writer = threading.Thread(target=write_atomic, args=(str(path), b"new"))
        writer.start()
        # On Windows the new version waits beside the old one; elsewhere it is there at once.
        assert any(list(tmp_path.glob(".file.*.tmp")) or not writer.is_alive() for _ in polls(10))
        reader.let_go()
        writer.join()
    assert path.read_bytes() == b"new"
    assert [each.name for each in tmp_path.glob("*file*")] == ["file"]


def test_a_replacement_that_waited_asks_once_more_whether_it_is_right(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with Replacement(str(path)) as new:
        new.write(b"new")
        assert new.commit(lambda: path.read_bytes() == b"another") is False
    assert path.read_bytes() == b"old"


def test_who_reads_while_others_write_sees_whole_notebooks():
    append_many("demo", 1)
    command = [sys.executable, "-c", WRITES]
    writers = [
        subprocess.Popen([*command, name, "3"], stdout=subprocess.PIPE, text=True)
        for name in "abcdefgh"
    ]
    seen = 0
    while any(writer.poll() is None for writer in writers):
        seen = max(seen, len(Session.open("demo").cells()))
    acknowledged = {line for writer in writers for line in writer.communicate()[0].split()}
    assert len(acknowledged) == 24
    assert acknowledged <= {cell.cell_id for cell in Session.open("demo").cells()}
    assert seen > 1
    assert_valid(notebook_of("demo"))


def test_a_writer_that_is_killed_loses_nothing_that_it_acknowledged():
    acknowledged: list[str] = []
    for name in "abc":
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITES, name, "1000"], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        acknowledged += [writer.stdout.readline().strip() for _ in range(3)]
        end(writer.pid)
        # A line without its end may have been cut short by the kill itself.
        rest = writer.stdout.read().splitlines(keepends=True)
        acknowledged += [line.strip() for line in rest if line.endswith("\n")]
        writer.wait()
        writer.stdout.close()
        assert not is_alive(writer.pid)
    assert set(acknowledged) <= {cell.cell_id for cell in Session.open("demo").cells()}
    assert_valid(notebook_of("demo"))


def test_a_lock_keeps_processes_and_threads_out_and_ends_with_its_holder(tmp_path):
    path = str(tmp_path / "journal.jsonl")
    code = (
        "import sys; from rlmnb.files import Lock; lock = Lock(sys.argv[1], timeout=5).__enter__();"
        "print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(LockTimeoutError), Lock(path, timeout=0):
        pass
    end(holder.pid)
    holder.communicate()
    with Lock(path, timeout=5):
        assert not Lock(path, timeout=0).attempt()
    with Lock(path, timeout=5):
        pass


def test_whoever_holds_a_lock_can_replace_what_it_guards(tmp_path):
    path = str(tmp_path / "journal.jsonl")
    with Lock(path, timeout=1) as lock:
        os.write(lock.descriptor, b"before")
        lock.close_content()
        write_atomic(path, b"after")
        assert Path(path).read_bytes() == b"after"
    with Lock(path, timeout=1) as lock:
        assert os.read(lock.descriptor, 10) == b"after"


def test_a_directory_goes_with_the_locks_that_are_held_in_it(tmp_path):
    directory = tmp_path / "session"
    (directory / "deep").mkdir(parents=True)
    (directory / "deep" / "file").write_bytes(b"x")
    journal, folding = str(directory / "journal.jsonl"), str(directory / ".lock")
    with Lock(folding, timeout=1) as first, Lock(journal, timeout=1) as second:
        remove_tree(str(directory), first, second)
    assert not directory.exists()


def test_a_log_forgets_its_older_half_while_it_is_open(tmp_path):
    path = str(tmp_path / "log")
    for number in range(100):
        append_line(path, f"line {number}", limit=200)
    lines = Path(path).read_bytes().split(b"\n")
    assert lines[-2] == b"line 99"
    assert len(lines) < 40


def test_removing_waits_for_a_reader(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x")
    with Reader(path) as reader:
        remover = threading.Thread(target=remove, args=(str(path),))
        remover.start()
        reader.let_go()
        remover.join()
    assert not path.exists()


@pytest.mark.parametrize("name", ["con", "NUL", "aux", "Prn", "com1", "LPT9", "name.", "name "])
def test_a_name_that_windows_takes_for_something_else_is_no_session(name):
    with pytest.raises(InvalidNameError):
        rlmnb.append(name, {"source": "x"})


def test_a_notebook_named_after_a_device_has_a_session_all_the_same(tmp_path):
    path = tmp_path / "con.ipynb"
    rlmnb.append(str(path), {"source": "x = 1"})
    assert [cell.source for cell in Session.open(str(path)).cells()] == ["x = 1"]


def test_a_process_that_has_ended_is_not_alive_though_somebody_remembers_it():
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    assert is_alive(process.pid)
    process.wait()
    assert not is_alive(process.pid)
    assert is_alive(os.getpid())


def hook(event: dict[str, object], work: Path) -> None:
    """Take an event in as a client does that uses no shell."""
    entry = hook_entry(5, windows=True)
    done = subprocess.run(
        [entry["command"], *entry["args"]],
        input=json.dumps({"session_id": "demo", "cwd": str(work), **event}).encode(),
        capture_output=True,
        cwd=work,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_session_of_hooks_is_read_by_the_commands(run, monkeypatch, tmp_path):
    work = tmp_path / "a project, größer"
    work.mkdir()
    monkeypatch.chdir(work)
    notes = work / "notes ✓.txt"
    notes.write_bytes("größer ✓\r\n".encode())
    read = {
        "hook_event_name": "PostToolUse",
        "tool_name": "Read",
        "tool_use_id": "t1",
        "tool_input": {"file_path": str(notes)},
        "tool_response": {"type": "text", "file": {"filePath": str(notes), "content": "größer ✓"}},
    }
    hook({"hook_event_name": "UserPromptSubmit", "prompt": "größer ✓"}, work)
    hook(read, work)
    first = next(cell for cell in Session.open("demo").cells() if cell.type == "tool")
    second = rlmnb.append("demo", {"source": "x = '→'", "dependencies": [first.cell_id]})
    shown = run("cells", "demo", encoding="utf-8")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "✓" in shown.stdout
    assert "→" in shown.stdout
    assert "fresh" in shown.stdout
    assert first.cell_id in run("chain", "demo", second, encoding="utf-8").stdout
    notes.write_bytes(b"changed")
    assert run("status", "demo", encoding="utf-8").returncode in (0, 1)
    plan = run("replay", "demo", "--dry-run", encoding="utf-8")
    assert plan.returncode == 0, plan.stderr
    assert "notes ✓.txt changed" in plan.stdout
    assert run("doctor", "--fix", encoding="utf-8").returncode == 0
    assert_valid(notebook_of("demo"))


def test_hooks_are_put_into_a_project_and_run_from_there(run):
    assert run("hooks", "install", "--scope", "project", "--yes").returncode == 0
    settings = json.loads(Path(".claude/settings.json").read_text(encoding="utf-8"))
    entry = settings["hooks"]["PostToolUse"][0]["hooks"][0]
    command = [entry["command"], *entry["args"]] if "args" in entry else entry["command"]
    event = {
        "hook_event_name": "PostToolUse",
        "session_id": "demo",
        "tool_name": "Bash",
        "tool_use_id": "t1",
        "tool_input": {"command": "echo größer"},
        "tool_response": {"stdout": "größer", "stderr": ""},
    }
    done = subprocess.run(
        command,
        shell="args" not in entry,
        input=json.dumps(event, ensure_ascii=False).encode(),
        capture_output=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    (cell,) = Session.open("demo").cells()
    assert "größer" in cell.source
    assert run("hooks", "uninstall", "--scope", "project", "--yes").returncode == 0
    assert json.loads(Path(".claude/settings.json").read_text(encoding="utf-8")) == {}


def test_a_session_is_archived_and_comes_back(run):
    ids = append_many("demo", 3)
    assert run("archive", "demo", "--yes").returncode == 0
    assert not notebook_of("demo").parent.exists()
    assert run("restore", "demo").returncode == 0
    assert ids_in("demo") == ids
    assert run("rm", "demo", "--yes").returncode == 0
    assert not notebook_of("demo").parent.exists()


@pytest.mark.kernel
def test_a_notebook_is_replayed_and_then_only_what_was_edited(run_json):
    cells = ["x = 20 + 1", "print(x * 2)", "y = 5"]
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in cells])
    nbformat.write(made, "work.ipynb")
    assert len(run_json("replay", "work.ipynb")["executed"]) == 3
    notebook = nbformat.read("work.ipynb", as_version=4)
    assert notebook.cells[1].outputs[0].text == "42\n"
    notebook.cells[0].source = "x = 30"
    nbformat.write(notebook, "work.ipynb")
    assert len(run_json("replay", "work.ipynb")["executed"]) == 2
    assert nbformat.read("work.ipynb", as_version=4).cells[1].outputs[0].text == "60\n"
