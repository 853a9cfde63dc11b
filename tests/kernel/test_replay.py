"""Replay as a person uses it, on a real kernel."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat
import pytest

import rlmnb
from rlmnb import Session
from rlmnb.files import polls
from rlmnb.replay.cells import stale_cells
from rlmnb.replay.run import replay
from rlmnb.views import text_of
from tests.conftest import comparable, run_plainly

pytestmark = pytest.mark.kernel


def write(*sources: str, path: str = "nb.ipynb") -> Path:
    cells = [nbformat.v4.new_code_cell(each, id=f"c{n}") for n, each in enumerate(sources)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    return Path(path)


def edit(number: int, source: str, path: str = "nb.ipynb") -> None:
    notebook = nbformat.read(path, 4)
    notebook.cells[number].source = source
    nbformat.write(notebook, path)


def remove(number: int, path: str = "nb.ipynb") -> None:
    notebook = nbformat.read(path, 4)
    del notebook.cells[number]
    nbformat.write(notebook, path)


def texts(path: str = "nb.ipynb") -> list[str]:
    return [
        "".join(output.get("text", "") for output in cell.outputs)
        for cell in nbformat.read(path, 4).cells
    ]


def test_the_status_line_and_show_count_the_stale_cells_that_status_names(run, run_json):
    Path("a.txt").write_text("1")
    write("d = open('a.txt').read()", "def f():\n    return d", "print(f())")
    run_json("replay", "nb.ipynb")
    Path("a.txt").write_text("2")
    stale = [row["cell_id"] for row in run_json("status", "nb.ipynb")["stale"]]
    assert stale == ["c0", "c2"]
    assert run_json("statusline", "nb.ipynb")["stale_cells"] == stale
    assert run("statusline", "nb.ipynb").stdout == "rlmnb: 3 cells, 2 stale (a.txt changed)\n"
    assert run_json("show", "nb.ipynb")["cells"]["stale"] == 2


def test_the_cell_that_a_replay_is_running_is_told_apart(run, run_json):
    write(
        "x = 1", "import time, os\nwhile not os.path.exists('go'):\n    time.sleep(0.05)", "y = x"
    )
    command = [sys.executable, "-m", "rlmnb", "replay", "nb.ipynb"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL):
        try:
            for _ in polls(30):
                if "1 running" in (drawn := run("graph", "nb.ipynb").stdout):
                    break
            assert "#2  c1  running" in drawn
            states = [cell["status"] for cell in run_json("cells", "nb.ipynb")]
            assert states[:2] == ["completed", "running"]
            assert "#2 · running" in run("graph", "nb.ipynb", "--svg").stdout
        finally:
            Path("go").touch()
    assert run_json("stats", "nb.ipynb")["by_status"] == {"completed": 3}


def test_a_replay_that_was_killed_leaves_no_cell_running(run_json):
    write("x = 1", "import time\ntime.sleep(60)")
    word = Path(".rlmnb/nb.ipynb/.replay.cell")
    with subprocess.Popen([sys.executable, "-m", "rlmnb", "replay", "nb.ipynb"]) as process:
        assert any(word.exists() and word.read_text() == "c1" for _ in polls(30))
        process.kill()
    assert "running" not in run_json("stats", "nb.ipynb")["by_status"]


def test_the_commands_say_what_runs_and_why(run, run_json):
    write("x = 1", "print(x)", "y = 5")
    assert [row["cell_id"] for row in run_json("status", "nb.ipynb")["stale"]] == ["c0", "c1", "c2"]
    first = run_json("replay", "nb.ipynb")
    assert first["executed"] == ["c0", "c1", "c2"]
    assert run_json("status", "nb.ipynb") == {"fresh": ["c0", "c1", "c2"], "stale": []}
    edit(0, "x = 2")
    assert run("replay", "nb.ipynb", "--check").returncode == 1
    dry = run("replay", "nb.ipynb", "--dry-run")
    assert dry.returncode == 0
    assert "source edited" in dry.stdout
    assert texts() == ["", "1\n", ""]
    second = run("replay", "nb.ipynb")
    assert second.returncode == 0
    assert "2 ran, 1 reused" in second.stdout
    assert "because x from c0 changed" in second.stdout
    assert texts() == ["", "2\n", ""]
    again = run_json("replay", "nb.ipynb", "--verify")
    assert again["verified"] is True
    assert again["kernel"] == "not started"
    assert again["reused"] == ["c0", "c1", "c2"]
    assert set(again) >= {"executed", "reused", "restored", "failed", "skipped", "calls", "seconds"}
    assert run("replay", "nb.ipynb", "--check").returncode == 0
    assert run_json("replay", "nb.ipynb", "--force")["executed"] == ["c0", "c1", "c2"]


def test_a_failing_cell_stops_its_dependents_and_not_its_siblings(run, run_json):
    write("x = 1", "y = x / 0", "print(y)", "print('sibling')")
    report = run_json("replay", "nb.ipynb", code=1)
    assert report["executed"] == ["c0", "c1", "c3"]
    assert report["failed"] == ["c1"]
    assert report["skipped"] == ["c2"]
    assert texts()[3] == "sibling\n"
    assert nbformat.read("nb.ipynb", 4).cells[1].outputs[0].ename == "ZeroDivisionError"
    edit(1, "y = x / 2")
    assert run_json("replay", "nb.ipynb")["executed"] == ["c1", "c2"]
    assert texts()[2] == "0.5\n"


def test_a_traceback_reads_no_file_of_the_session(run_json):
    write(
        "def fails():\n    return 1 / 0",
        "import traceback\ntry:\n    fails()\nexcept ZeroDivisionError:\n    traceback.print_exc()",
        "fails()",
    )
    assert run_json("replay", "nb.ipynb", code=1)["failed"] == ["c2"]
    assert run_json("files", "nb.ipynb") == []


def test_what_a_cell_sets_anew_does_not_hang_on_one_that_could_not_run(run_json):
    write("z = oops", "z = 3", "print(z)", "print(z, 'again')")
    first = run_json("replay", "nb.ipynb", code=1)
    assert (first["failed"], first["skipped"]) == (["c0"], [])
    edit(2, "print(z + 1)")
    report = run_json("replay", "nb.ipynb", code=1)
    assert (report["executed"], report["skipped"]) == (["c0", "c2"], [])
    edit(3, "print(z + 2)")
    report = run_json("replay", "nb.ipynb", "4")
    assert (report["executed"], report["skipped"]) == (["c3"], [])
    assert texts()[2:] == ["4\n", "5\n"]


def test_fail_fast_stops_at_the_first(run_json):
    write("1 / 0", "print('after')")
    assert run_json("replay", "nb.ipynb", "--fail-fast", code=1)["executed"] == ["c0"]


def test_what_a_failing_cell_half_changed_is_put_back(run_json):
    write("l = [1]", "l.append(2)", "print(l)")
    replay(Session.open("nb.ipynb"))
    edit(1, "l.append(9); 1 / 0")
    assert run_json("replay", "nb.ipynb", code=1)["skipped"] == ["c2"]
    edit(1, "l.append(3)")
    assert run_json("replay", "nb.ipynb")["failed"] == []
    assert texts()[2] == "[1, 3]\n"


def test_a_cell_that_runs_too_long_is_ended(run_json):
    write("x = 1", "while True: pass", "print(x)")
    report = run_json("replay", "nb.ipynb", "--timeout", "2.5", code=1)
    assert report["failed"] == ["c1"]
    assert report["errors"]["c1"] == "ran for longer than the timeout of 2.5 s"


def test_a_session_that_an_agent_recorded_can_be_replayed(run_json):
    for source in ("x = 20", "y = x + 1", "print(y)"):
        rlmnb.append("demo", {"source": source})
    assert run_json("status", "demo")["stale"] == []
    notebook = Path(os.environ["RLMNB_HOME"]) / "demo" / "session.ipynb"
    edit(1, "y = x + 2", path=str(notebook))
    report = run_json("replay", "demo")
    assert len(report["executed"]) == 3  # x was never in a kernel of ours, so it is made now
    assert texts(str(notebook))[2] == "22\n"
    assert run_json("verify", "demo")["ok"]


def test_outputs_are_those_of_nbclient():
    sources = [
        "print('a'); print('b')",
        "import sys; print('err', file=sys.stderr); print('out')",
        "from IPython.display import display, clear_output, HTML\ndisplay(HTML('<b>x</b>'))",
        "print('gone'); clear_output(); print('stays')",
        "[1, {'a': 2}]",
        "for i in range(3): print(i, end='\\r')",
        "handle = display('one', display_id='d')",
    ]
    write(*sources)
    replay(Session.open("nb.ipynb"))
    ours = nbformat.read("nb.ipynb", 4)
    peer = nbformat.read(write(*sources, path="peer.ipynb"), 4)
    run_plainly(peer)
    shown = [[comparable(cell.outputs) for cell in each.cells] for each in (ours, peer)]
    assert shown[0] == shown[1]


def test_the_kernel_behaves_as_the_plain_one():
    write(
        "%who_ls",
        "import asyncio\nawait asyncio.sleep(0)\nprint('awaited')",
        "!echo shell",
        "%%timeit -n1 -r1\npass",
        "x = 5\nx?",
        "del x\n'x' in globals()",
    )
    report = replay(Session.open("nb.ipynb"))
    assert report.failed == []
    shown = texts()
    assert shown[1] == "awaited\n"
    assert shown[2].strip() == "shell"


def test_a_tampered_or_foreign_state_is_made_again_and_never_loaded(root):
    write("x = [1, 2]", "print(x)", "y = 1")
    replay(Session.open("nb.ipynb"))
    database = Path(".rlmnb/objects/state/state.db")
    with sqlite3.connect(database) as connection:
        rows = connection.execute("SELECT digest, bytes FROM state").fetchall()
        for name, data in rows:
            connection.execute(
                "UPDATE state SET bytes = ? WHERE digest = ?", (data[:-1] + b"!", name)
            )
    connection.close()
    edit(1, "print(len(x))")
    report = replay(Session.open("nb.ipynb"))
    assert report.executed == ["c0", "c1"]
    assert texts()[1] == "2\n"


def test_another_users_key_makes_state_foreign(root):
    write("x = [1, 2]", "print(x)")
    replay(Session.open("nb.ipynb"))
    (root / ".key").write_bytes(b"k" * 32)
    edit(1, "print(len(x))")
    assert replay(Session.open("nb.ipynb")).executed == ["c0", "c1"]


def test_state_comes_back_sharing_what_it_shared_and_functions_see_the_live_names():
    write(
        "a = [1]\nb = a\nd = {'a': a}",
        "k = 1\ndef f():\n    return k + len(a)",
        "k = 10",
        "a.append(2); print(b, d['a'] is a, f())",
    )
    replay(Session.open("nb.ipynb"))
    edit(3, "a.append(5); print(b, d['a'] is a, f())")
    report = replay(Session.open("nb.ipynb"))
    assert report.executed == ["c3"]
    assert texts()[3] == "[1, 5] True 12\n"


KILL = "import sys; from rlmnb.cli.main import main; sys.exit(main(['replay', 'nb.ipynb']))"


def test_a_replay_that_is_killed_keeps_what_was_done_and_the_next_finishes(run):
    write(*(f"import time; time.sleep(0.1); x{n} = {n}; print(x{n})" for n in range(12)))
    process = subprocess.Popen([sys.executable, "-c", KILL], stdout=subprocess.DEVNULL)
    journal = Path(".rlmnb/nb.ipynb/journal.jsonl")
    end = time.monotonic() + 30
    while not (journal.exists() and journal.read_text().count('"op":"update"') >= 3):
        assert time.monotonic() < end
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    nbformat.validate(nbformat.read("nb.ipynb", 4))
    report = replay(Session.open("nb.ipynb"))
    assert len(report.reused) >= 3
    assert len(report.executed) + len(report.reused) == 12
    assert texts() == [f"{n}\n" for n in range(12)]
    assert stale_cells(Session.open("nb.ipynb")) == {}


def test_a_kernel_that_dies_is_a_clear_error_and_loses_nothing(run):
    write("x = 1; print(x)", "import os; os.kill(os.getpid(), 9)", "print(x)")
    done = run("replay", "nb.ipynb")
    assert done.returncode == 3
    assert "kernel died" in done.stderr
    assert "1 cell ran, and is kept; go on with: rlmnb replay " in done.stderr
    assert "Traceback" not in done.stderr
    assert texts()[0] == "1\n"
    edit(1, "y = 2")
    assert run("replay", "nb.ipynb").returncode == 0
    assert texts()[2] == "1\n"


def test_the_kernel_spec_names_our_kernel():
    spec = json.loads((Path(__file__).parents[2] / "kernels" / "rlmnb" / "kernel.json").read_text())
    assert spec["argv"][:3] == ["python", "-m", "rlmnb.kernel"]
    assert spec["language"] == "python"


def test_a_tool_cell_is_never_run_and_what_needs_it_says_so(run_json):
    Path("gone.txt").write_text("still here")
    tool = "code = tools.Bash(command='rm gone.txt')"
    first = rlmnb.append("demo", {"source": tool, "type": "tool"})
    rlmnb.append("demo", {"source": "x = 1"})
    last = rlmnb.append("demo", {"source": "print(code)", "output": "recorded"})
    report = run_json("replay", "demo", "--force")
    assert first not in report["executed"]
    assert report["skipped"] == [first, last]
    assert "not run" in " ".join(report["causes"][last])
    notebook = str(Path(os.environ["RLMNB_HOME"]) / "demo" / "session.ipynb")
    edit(0, tool.replace("gone", "g*"), path=notebook)
    report = run_json("replay", "demo")
    assert first in report["skipped"]
    assert first not in report["executed"]
    assert Path("gone.txt").exists()
    assert texts(notebook)[2] == "recorded"


SHOW = "display('one', display_id='d')"
UPDATE = """from IPython.display import update_display
update_display(f'two {x}', display_id='d')"""


@pytest.mark.parametrize(
    ("number", "source", "runs", "shown"),
    [
        (1, "x = 2", ["c1", "c2"], "two 2"),
        (0, SHOW + "  # again", [], "two 1"),
        (0, "display('uno', display_id='d')", ["c0", "c2"], "two 1"),
        (2, "x", ["c0", "c2"], "one"),
        (2, None, ["c0"], "one"),
    ],
)
def test_a_display_that_another_cell_changes(
    number: int, source: str | None, runs: list[str], shown: str
) -> None:
    write(SHOW, "x = 1", UPDATE)
    replay(Session.open("nb.ipynb"))
    assert replay(Session.open("nb.ipynb")).executed == []
    if source is not None:
        edit(number, source)
    else:
        remove(number)
    assert replay(Session.open("nb.ipynb")).executed == runs
    output = nbformat.read("nb.ipynb", 4).cells[0].outputs[0]
    assert output.data["text/plain"] == f"'{shown}'"
    assert stale_cells(Session.open("nb.ipynb")) == {}


def test_a_display_handle_that_was_restored_still_changes_its_display() -> None:
    write("h = display('one', display_id=True)", "x = 1", "h.update(f'two {x}')")
    replay(Session.open("nb.ipynb"))
    edit(1, "x = 2")
    replay(Session.open("nb.ipynb"))
    assert nbformat.read("nb.ipynb", 4).cells[0].outputs[0].data["text/plain"] == "'two 2'"


def test_working_memory_is_there_for_cells_and_its_change_makes_them_stale() -> None:
    session = Session.create("remembers")
    session.remember(plan=["read"], long="x" * 50_000)
    session.append("print(working_memory['plan'], len(working_memory['long']))")
    session.append("y = 1")
    first = replay(Session.open("remembers"), force=frozenset(c.cell_id for c in session.cells))
    assert first.failed == []
    assert text_of(Session.open("remembers").cell(1).outputs) == "['read'] 50000\n"
    assert replay(Session.open("remembers")).executed == []
    Session.open("remembers").remember(plan=["read", "fix"])
    second = replay(Session.open("remembers"))
    assert second.executed == [session.cell(1).cell_id]
    assert text_of(Session.open("remembers").cell(1).outputs) == "['read', 'fix'] 50000\n"


def test_variables_over_the_limit_are_made_again_and_not_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RLMNB_LARGEST_STATE", "10000")
    write("big = list(range(9999))", "small = 1", "print(sum(big) + small)")
    replay(Session.open("nb.ipynb"))
    edit(1, "small = 2")
    report = replay(Session.open("nb.ipynb"))
    assert report.executed == ["c0", "c1", "c2"]
    assert texts()[2] == f"{sum(range(9999)) + 2}\n"
    edit(1, "small = 3")
    monkeypatch.setenv("RLMNB_LARGEST_STATE", "10000000")
    assert replay(Session.open("nb.ipynb")).executed == ["c0", "c1", "c2"]


def kernels_of(process: subprocess.Popen[bytes]) -> list[int]:
    """Return the processes that a replay has started."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    try:
        return [int(pid) for pid in children.read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


@pytest.mark.parametrize("victim", ["replay", "kernel"])
def test_a_kill_at_any_moment_loses_no_finished_cell(victim: str, run_json) -> None:
    chance = random.Random(victim)
    sources = ["import time\nx = 0", *["x += 1\ntime.sleep(0.05)\nprint(x)"] * 10]
    finished: set[str] = set()
    write(*sources)
    for _ in range(6):
        process = subprocess.Popen(
            [sys.executable, "-m", "rlmnb", "replay", "nb.ipynb", "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=chance.uniform(0.2, 2.5))
        pids = [process.pid] if victim == "replay" else kernels_of(process)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.communicate(timeout=60)
        nbformat.validate(nbformat.read("nb.ipynb", 4))
        fresh = set(run_json("status", "nb.ipynb")["fresh"])
        assert finished <= fresh
        finished = fresh
    assert run_json("replay", "nb.ipynb")["failed"] == []
    assert texts() == ["", *(f"{n}\n" for n in range(1, 11))]
    assert run_json("verify", "nb.ipynb")["ok"]
    left = [name for name in os.listdir(tempfile.gettempdir()) if name.startswith("rlmnb-kernel-")]
    assert left == []


def test_a_cell_that_takes_too_much_memory_fails_and_the_machine_does_not(run_json) -> None:
    write("x = 1", "big = bytearray(3 * 1024**3)", "print(x)")
    report = run_json("replay", "nb.ipynb", "--memory", "2000", code=1)
    assert report["failed"] == ["c1"]
    assert "MemoryError" in report["errors"]["c1"]
    assert texts()[2] == "1\n"


def test_a_kernel_that_cannot_start_is_said_to_be_unavailable(run, monkeypatch) -> None:
    write("x = 1")
    monkeypatch.setenv("RLMNB_KERNEL_START", "1")
    Path("broken").mkdir()
    Path("broken/ipykernel.py").write_text("raise RuntimeError('broken')")
    monkeypatch.setenv("PYTHONPATH", str(Path("broken").resolve()))
    done = run("replay", "nb.ipynb", "--json")
    assert done.returncode == 3
    assert json.loads(done.stdout)["kernel"] == "unavailable"
    assert "rlmnb.kernel" in json.loads(done.stdout)["error"]["hint"]
    assert "Exception ignored" not in done.stderr


def test_a_kernel_that_is_not_ready_in_time_is_ended_once(run, monkeypatch) -> None:
    write("x = 1")
    monkeypatch.setenv("RLMNB_KERNEL_START", "1")
    Path("slow").mkdir()
    Path("slow/ipykernel.py").write_text("import time\ntime.sleep(600)")
    monkeypatch.setenv("PYTHONPATH", str(Path("slow").resolve()))
    done = run("replay", "nb.ipynb")
    assert done.returncode == 3
    assert "did not start in 1 s" in done.stderr
    assert "Exception ignored" not in done.stderr


def test_a_cell_that_lists_files_while_the_notebook_is_written_stays_fresh():
    # What an interrupted writer has left looks like what a busy one is about to rename.
    left = Path(f".nb.ipynb.{os.getpid()}-0a0b0c0d.tmp")
    write("import os", "print(len(os.listdir()) > 0)")
    left.write_text("")
    replay(Session.open("nb.ipynb"))
    left.unlink(missing_ok=True)
    assert stale_cells(Session.open("nb.ipynb")) == {}


def test_a_result_whose_condition_has_come_is_made_anew_once():
    session = Session.create("s", cwd=".")
    first = session.append("x = 1", output="")
    known = session.index["cells"][first]["source_hash"]
    changed = {"kind": "cell_changed", "cell_id": first, "hash": f"{known[:-8]}00000000"}
    held = session.append("print(1)", output="1", invalidation_condition=changed)
    over = {"kind": "expired", "at": "2020-01-01T00:00:00Z"}
    expired = session.append("print(2)", output="2", invalidation_condition=over)
    assert replay(session).executed == [held, expired]
    assert replay(Session.open("s")).executed == []
    assert not stale_cells(Session.open("s"))


def test_cells_above_one_that_looks_at_history_run_with_it_also_if_only_it_is_asked_for(run_json):
    write("x = 1", "print(x)", "7", "print(len(In), _)", "print('below', len(In))", "y = 1")
    run_json("replay", "nb.ipynb")
    edit(3, "print('now', len(In), _)")
    planned = run_json("replay", "nb.ipynb", "4", "--dry-run")["would_execute"]
    assert [each["cell_id"] for each in planned] == ["c0", "c1", "c2", "c3"]
    assert run_json("replay", "nb.ipynb", "4")["executed"] == ["c0", "c1", "c2", "c3"]
    assert texts()[3] == "now 5 7\n"
    # The cell below has not seen what ran; nobody but that replay knows.
    assert run_json("replay", "nb.ipynb")["executed"][-1] == "c4"
    assert texts()[4] == "below 6\n"
    assert run_json("status", "nb.ipynb")["stale"] == []


def test_a_cell_that_shows_the_output_above_is_stale_once_only_that_one_ran_again(run_json):
    write("x = 1", "7", "print(_)")
    run_json("replay", "nb.ipynb")
    edit(1, "8")
    assert run_json("replay", "nb.ipynb", "2")["executed"] == ["c1"]
    assert [row["cell_id"] for row in run_json("status", "nb.ipynb")["stale"]] == ["c2"]
    run_json("replay", "nb.ipynb")
    assert texts()[2] == "8\n"
    assert run_json("status", "nb.ipynb")["stale"] == []


@pytest.mark.parametrize("warm", [False, True])
def test_a_cell_that_reads_the_notebook_itself_stays_fresh(warm, run):
    write("x = 1", "print(len(open('nb.ipynb').read()) > 5)")
    replay(Session.open("nb.ipynb"), keep_kernel=warm)
    edit(0, "x = 2")
    assert replay(Session.open("nb.ipynb"), keep_kernel=warm).executed == ["c0"]
    assert stale_cells(Session.open("nb.ipynb")) == {}
    if warm:
        run("kernel", "stop", "nb.ipynb")
