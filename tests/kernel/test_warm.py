"""Kernels that stay warm: found again, never stale, one owner, gone when they should be."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import pytest

from rlmnb import Session
from rlmnb.errors import KernelError
from rlmnb.files import Lock, polls
from rlmnb.replay import warm
from rlmnb.replay.cells import stale_cells
from rlmnb.replay.run import replay
from rlmnb.replay.traveling import restore_at
from rlmnb.views import text_of
from tests.conftest import comparable
from tests.kernel.test_real_notebooks import NOTEBOOKS
from tests.kernel.test_replay import edit, remove, texts, write

pytestmark = pytest.mark.kernel
# Every variable of the user's own, as text; what is kept for the shell itself begins with `_`.
PROBE = (
    "sorted((name, type(value).__name__, '' if type(value).__name__ in ('module', 'function', "
    "'type', 'EnumType', '_lru_cache_wrapper') else repr(value)) for name, value in "
    "list(globals().items()) if name[0] != '_' and name not in "
    "('In', 'Out', 'get_ipython', 'exit', 'quit', 'open'))"
)


def replayed(path: str = "nb.ipynb", **wishes):
    return replay(Session.open(path), **wishes)


def gone(kernel: warm.Warm) -> bool:
    return any(not kernel.alive for _ in polls(20))


def test_a_kernel_stays_and_only_what_differs_is_brought():
    write("big = list(range(1000))", "x = 1", "y = x + len(big)", "print(y)")
    assert replayed(keep_kernel=True).kernel == "started, stays warm"
    edit(1, "x = 2")
    report = replayed()
    assert (report.kernel, report.executed, report.restored) == ("warm", ["c1", "c2", "c3"], [])
    assert texts()[3] == "1002\n"
    pid = warm.find(Session.open("nb.ipynb").place).pid
    edit(3, "print(y, x)")
    report = replayed()
    assert report.executed == ["c3"], report
    assert warm.find(Session.open("nb.ipynb").place).pid == pid


def test_cells_have_the_numbers_of_a_full_run_whatever_ran():
    write("x = 1", "", "y = x", "def f():\n    1 / x\nx", "raise OSError(x)", "print(y)")
    assert replayed(keep_kernel=True).failed == ["c4"]
    for source in ("raise OSError(y)", "raise OSError(-y)"):
        edit(4, source)
        assert replayed().executed == ["c4"]
    cells = nbformat.read("nb.ipynb", 4).cells
    assert [cell.execution_count for cell in cells] == [1, None, 2, 3, 4, 5]
    assert "In[4]" in re.sub(r"\x1b\[\d+m", "", "".join(cells[4].outputs[0].traceback))
    assert texts()[5] == "1\n"  # nothing but its own


def test_what_cells_below_have_left_is_no_part_of_a_cell_above():
    write("class K:\n    n = 1", "k = [K()]", "print(type(k[0]).n, type(k[0]) is K)")
    replayed(keep_kernel=True)
    edit(0, "class K:\n    n = 2")
    report = replayed()
    assert (report.kernel, report.executed) == ("warm", ["c0", "c1", "c2"])
    assert texts()[2] == "2 True\n"
    assert stale_cells(Session.open("nb.ipynb")) == {}


def test_a_notebook_that_changed_under_it_is_never_served_old_state():
    write("x = 1", "print(x)")
    replayed(keep_kernel=True)
    place = Session.open("nb.ipynb").place
    kernel = warm.find(place)
    # Somebody else brings the notebook to x = 5 in a kernel of their own, and then to print(x * 2).
    os.rename(warm._record(place), "hidden")
    edit(0, "x = 5")
    assert replayed().kernel == "started"
    os.rename("hidden", warm._record(place))
    edit(1, "print(x * 2)")
    report = replayed()
    assert report.kernel == "warm"
    assert report.executed == ["c1"]
    assert report.restored == ["c0"]
    assert texts()[1] == "10\n"
    assert kernel.alive


def test_hand_made_changes_in_the_kernel_are_noticed():
    write("x = [1]", "print(x)")
    replayed(keep_kernel=True)
    client = warm.find(Session.open("nb.ipynb").place).client()
    client.start_channels()
    client.wait_for_ready(timeout=20)
    client.execute_interactive("x.append(2)", timeout=20)
    client.stop_channels()
    edit(1, "print(x, len(x))")
    replayed()
    assert texts()[1] == "[1] 1\n"


@pytest.mark.parametrize(
    ("cells", "number", "source"),
    [
        (["import os\nos.environ['A'] = '1'", "print(1)"], 0,
         "import os\nprint('A' in os.environ)"),
        (["import numpy as np\na = np.arange(3)", "print(a)"], 0,
         "import numpy as np\na = np.ones(2)"),
        (["import helper\nhelper.value += 1", "print(helper.value)"], 0,
         "import helper\nhelper.value += 2"),
        (["import builtins\nbuiltins.answer = 5", "print(answer)"], 0,
         "import builtins\nbuiltins.answer = 6"),
        (["print('a')", "1 + 1", "print(_)"], 1, "2 + 2"),
        (["def f():\n    return 1", "x = f()", "class C: pass", "print(x, C.__name__)"], 0,
         "def f():\n    return 2"),
        (["import abc\nclass A(abc.ABC): pass", "A.register(int);", "print(isinstance(1, A))"], 1,
         "A.register(str);"),
        (["def f(): pass", "l = [f]", "f.n = 1", "print(l[0].n, l[0] is f)"], 2, "f.n = 2"),
        (["class A: pass", "class B(A): pass", "[c.__name__ for c in A.__subclasses__()]"], 1,
         "class C(A): pass"),
        (["import numpy as np", "np.mean([])", "x = np.mean([])"], 1, "np.mean([1])"),
        (["import numpy as np, pandas as pd", "df = pd.DataFrame({'a': [1]})\nnp.mean([])",
          "df['b'] = 1\nprint(df)", "x = np.mean([])"], 2, "df['c'] = 1\nprint(df.describe())"),
    ],
)  # fmt: skip
def test_a_warm_replay_leaves_what_a_new_kernel_leaves(cells, number, source):
    Path("helper.py").write_text("value = 1\n")
    write(*cells)
    write(*cells, path="cold.ipynb")
    replayed(keep_kernel=True)
    replayed("cold.ipynb")
    for path in ("nb.ipynb", "cold.ipynb"):
        edit(number, source, path)
        replayed(path)
    shown = [nbformat.read(path, 4).cells for path in ("nb.ipynb", "cold.ipynb")]
    for ours, cold in zip(*shown, strict=True):
        assert comparable(ours.outputs) == comparable(cold.outputs)


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        # A variable of a cell that is gone shares its object with one that is set anew.
        ({"a": "l = [1]", "b": "q = l", "c": "print(l)"},
         {"a": "l = [2]", "c": "print(l)", "d": "print('q' in dir())"}, "False\n"),
        ({"a": "l = [1]", "b": "q = l", "c": "print(l)"},
         {"a": "l = [2]", "d": "print('q' in dir())", "b": "q = l"}, "False\n"),
        ({"a": "df = {'a': 1}", "b": "clean = df", "c": "clean['b'] = 2", "d": "print(clean)"},
         {"a": "df = {'a': 5}", "d": "print('clean' in globals())"}, "False\n"),
    ],
)  # fmt: skip
def test_what_cells_have_left_that_are_gone_is_not_there(before, after, shown):
    def put(cells: dict[str, str]) -> None:
        known = {}
        if Path("nb.ipynb").exists():
            known = {cell.id: cell for cell in nbformat.read("nb.ipynb", 4).cells}
        made = [
            {**known.get(name, nbformat.v4.new_code_cell(id=name)), "source": source}
            for name, source in cells.items()
        ]
        whole = nbformat.v4.new_notebook()
        whole.cells = [nbformat.from_dict(cell) for cell in made]
        nbformat.write(whole, "nb.ipynb")

    put(before)
    replayed(keep_kernel=True)
    put(after)
    assert replayed().kernel == "warm"
    assert texts()[list(after).index("d")] == shown


def test_a_busy_kernel_ends_with_its_session_and_stops_when_nobody_waits():
    write("import time\ntime.sleep(100)", "x = 1")
    kernel = warm.start(Session.open("nb.ipynb").place, str(Path.cwd()))
    process = start_replay("nb.ipynb")
    assert any(not kernel.answers(0.2) for _ in polls(60))
    process.kill()
    process.communicate()
    assert kernel.answers(30)
    process = start_replay("nb.ipynb")
    assert any(not kernel.answers(0.2) for _ in polls(60))
    Path("nb.ipynb").unlink()
    assert gone(kernel)
    process.kill()
    process.communicate()


def test_a_strange_record_of_a_kernel_is_no_kernel(run_json):
    write("x = 1", "print(x)")
    place = Session.open("nb.ipynb").place
    kernel = warm.start(place, str(Path.cwd()))
    Path(kernel.connection_file).unlink()
    assert run_json("kernel", "list") == []
    assert gone(kernel)
    Path(warm._record(place)).write_text('{"target": 1, "directory": 2, "pid": "x"}')
    assert run_json("kernel", "list") == []
    assert replayed().kernel == "started"


def test_the_command_starts_looks_stops(run, run_json):
    write("x = 1")
    assert run("kernel", "status", "nb.ipynb").returncode == 1
    started = run_json("kernel", "start", "nb.ipynb")
    assert started["state"] == "idle"
    assert run_json("kernel", "start", "nb.ipynb")["pid"] == started["pid"]
    assert [each["pid"] for each in run_json("kernel", "list")] == [started["pid"]]
    assert run_json("kernel", "status", "nb.ipynb")["pid"] == started["pid"]
    again = run_json("kernel", "restart", "nb.ipynb")
    assert again["pid"] != started["pid"]
    assert run_json("kernel", "stop", "nb.ipynb")["stopped"] is True
    assert run_json("kernel", "stop", "nb.ipynb")["stopped"] is False
    assert run_json("kernel", "list") == []
    assert not list(Path(os.environ["TMPDIR"]).glob("rlmnb-warm-*"))
    record = Path(os.environ["RLMNB_HOME"]) / ".kernels"
    assert not list(record.glob("*.json"))


def test_a_kernel_that_takes_too_long_is_to_be_given_longer(run):
    write("x = 1")
    path = Session.open("nb.ipynb").place.word
    done = run("kernel", "start", "nb.ipynb", "--timeout", "0.01")
    assert done.returncode == 3
    assert f"  give it longer: rlmnb kernel start {path} --timeout 60; or " in done.stderr
    assert "rlmnb.kernel" not in done.stderr  # it would never give the terminal back


@pytest.mark.parametrize(
    ("does", "how"),
    [
        ("kill -9 $$", "it was killed by signal 9, as happens when memory runs out"),
        ("exit 4", "it exited with 4 and said nothing"),
        ("echo no room; exit 4", "no room"),
    ],
)
def test_a_kernel_that_ends_before_it_is_ready_is_said_to_have_and_how(does, how, monkeypatch):
    write("x = 1")
    Path("python").write_text(f"#!/bin/sh\n{does}\n")
    Path("python").chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(Path("python").absolute()))
    with pytest.raises(KernelError) as caught:
        warm.start(Session.open("nb.ipynb").place, ".", memory=600)
    assert caught.value.message == f"the kernel ended before it was ready: {how}"
    assert caught.value.hint.startswith("it was given 600 MB: try a larger --memory")
    assert not warm.running()


def test_a_kernel_that_runs_keeps_its_options_and_says_how_to_change_them(run, run_json):
    write("x = 1")
    path = Session.open("nb.ipynb").place.word
    started = run("kernel", "start", "nb.ipynb", "--idle", "1.1", "--memory", "2048")
    assert started.stderr == ""
    again = run("kernel", "start", "nb.ipynb", "--idle", "1", "--memory", "2048")
    assert "after 1.1 min of no use" in again.stdout
    assert again.stderr.endswith(f"to change that: rlmnb kernel restart {path} --idle 1\n")
    anew = run_json("kernel", "restart", "nb.ipynb", "--idle", "1")
    assert (anew["idle_seconds"], anew["memory"]) == (60, 2048)
    Session.create("other", cwd=".")
    assert [each["pid"] for each in run_json("kernel", "list", "nb.ipynb")] == [anew["pid"]]
    assert run_json("kernel", "list", "other") == []
    assert (
        "for other; start one with: rlmnb kernel start other"
        in run("kernel", "list", "other").stderr
    )


def test_files_of_a_kernel_are_its_owners_alone():
    write("x = 1")
    session = Session.open("nb.ipynb")
    kernel = warm.start(session.place, str(Path.cwd()))
    directory = Path(kernel.connection_file).parent
    assert directory.stat().st_mode & 0o077 == 0
    for path in directory.iterdir():
        assert path.is_socket() or path.stat().st_mode & 0o077 == 0, path
    assert Path(warm._record(session.place)).stat().st_mode & 0o077 == 0


def test_it_ends_when_it_is_of_no_use_or_its_session_is_gone():
    write("x = 1")
    write("x = 1", path="other.ipynb")
    short = warm.start(Session.open("nb.ipynb").place, ".", idle=0.5)
    long = warm.start(Session.open("other.ipynb").place, ".")
    assert gone(short)
    assert long.alive
    Path("other.ipynb").unlink()
    assert gone(long)
    assert warm.running() == []


def test_a_killed_kernel_is_forgotten_and_another_started():
    write("x = 1", "print(x)")
    replayed(keep_kernel=True)
    kernel = warm.find(Session.open("nb.ipynb").place)
    os.kill(kernel.pid, signal.SIGKILL)
    assert gone(kernel)
    edit(0, "x = 2")
    assert replayed().kernel == "started"
    assert texts()[1] == "2\n"
    assert warm.running() == []


def test_a_hung_kernel_is_replaced_for_whoever_cannot_wait(monkeypatch):
    write("x = 1")
    place = Session.open("nb.ipynb").place
    kernel = warm.start(place, ".")
    os.kill(kernel.pid, signal.SIGSTOP)
    monkeypatch.setattr(warm, "ENSURE_SECONDS", 2)
    monkeypatch.setattr(warm, "_END_SECONDS", 1)
    with contextlib.suppress(KernelError):  # two seconds are short on a busy machine
        assert warm.ensure(place, ".").pid != kernel.pid
    assert not kernel.alive


def test_exec_runs_code_as_a_new_cell(run, run_json):
    Session.create("demo", cwd=".").append("users = ['ann', 'bob']")
    done = run("exec", "demo", "print(len(users))")
    assert (done.returncode, done.stdout) == (0, "2\n")
    told = run_json("exec", "demo", "users.append('eve'); print(users)")
    assert told["status"] == "completed"
    assert told["ran_first"] == []
    cells = Session.open("demo").cells
    assert [cell.source for cell in cells][1:] == [
        "print(len(users))",
        "users.append('eve'); print(users)",
    ]
    failed = run("exec", "demo", "nosuch")
    assert failed.returncode == 1
    assert "NameError" in failed.stdout
    assert "rlmnb cell demo" in failed.stderr
    assert "began session" not in failed.stderr
    piped = run("exec", "demo", "-", input="print('piped')")
    assert piped.stdout == "piped\n"
    assert run("exec", "demo", " ").returncode == 2
    forgotten = run("exec", "nb.ipynb")
    assert (forgotten.returncode, len(Session.open("demo").cells)) == (2, len(cells) + 2)
    assert "there is no code to run" in forgotten.stderr
    begun = run("exec", "begun-here", "print(1)")
    assert (begun.stdout, begun.stderr) == ("1\n", "began session begun-here\n")
    assert len(warm.running()) == 2


def test_what_an_agent_made_elsewhere_is_known_to_the_next_replay_too(run, run_json):
    for source in ("x = [1]", "y = x + [2]", "print(x, y)"):
        run("append", "there", "--source", source)
    for source in ("print(x)", "print(x, 2)", "x.append(3); print(y)", "print(x)"):
        assert run("exec", "there", source).returncode == 0
        assert run_json("status", "there")["stale"] == []
    for number in ("2", "3"):
        run("invalidate", "there", number)
        replayed("there")
        assert run_json("status", "there")["stale"] == []
    assert [text_of(cell.outputs) for cell in Session.open("there").cells[2:]] == [
        "[1] [1, 2]\n", "[1]\n", "[1] 2\n", "[1, 2]\n", "[1, 3]\n",
    ]  # fmt: skip


def test_after_a_mistake_and_its_correction_exec_goes_on(run):
    assert run("exec", "demo", "z = oops").returncode == 1
    assert run("exec", "demo", "print(z)").returncode == 1
    assert run("exec", "demo", "z = 3").returncode == 0
    assert run("exec", "demo", "print(z)").stdout == "3\n"


def test_exec_says_what_above_has_failed_and_what_to_do(run):
    run("exec", "demo", "data = {'a': 1}")
    failed = run("exec", "demo", "half = 1\ndata['b'] = int('two')")
    assert "----> 2 data['b'] = int('two')" in failed.stdout
    assert "\x1b" not in failed.stdout
    after = run("exec", "demo", "print(data)")
    assert after.returncode == 1
    assert "cell 2 (" in after.stderr
    assert ") failed: ValueError: invalid literal for int()" in after.stderr
    assert "rlmnb open demo" in after.stderr
    foreign = run("exec", "demo", "--allow-effects", "tools.mcp__x__y(a=1)")
    assert (foreign.returncode, len(Session.open("demo").cells)) == (2, 3)
    assert "only its agent has mcp__x__y, and nothing was run" in foreign.stderr


def test_what_exec_could_not_bring_to_its_end_does_not_hold(run, run_json):
    died = run_json("exec", "demo", "y = 1; import os; os._exit(1)", code=3)
    assert "the kernel died" in died["error"]["message"]
    assert run("exec", "demo", "print('goes on')").stdout == "goes on\n"
    stale = {row["cell_id"] for row in run_json("status", "demo")["stale"]}
    assert [cell.cell_id in stale for cell in Session.open("demo").cells] == [True, False]
    assert [row["status"] for row in run_json("cells", "demo")] == ["failed", "completed"]


def test_exec_has_effects_only_where_they_are_allowed_and_none_above(run, run_json):
    session = Session.create("demo", cwd=".")
    session.append("out = tools.Bash(command='touch above.txt')", type="tool", output="")
    code = "tools.Write(file_path='mine.txt', content='x')"
    refused = run("exec", "demo", code)
    assert (refused.returncode, len(Session.open("demo").cells)) == (2, 1)
    assert "this changes things outside the notebook (Write), and nothing was run" in refused.stderr
    assert "rlmnb exec demo --allow-effects" in refused.stderr
    assert not Path("mine.txt").exists()
    told = run_json("exec", "demo", "--allow-effects", code)
    assert told["status"] == "completed"
    assert Path("mine.txt").exists()
    refused = run("exec", "demo", "--allow-effects", "print(out)")
    assert refused.returncode == 1
    assert "--allow-effects" in refused.stderr
    assert not Path("above.txt").exists()
    late = run("exec", "demo", "while True: pass", "--timeout", "0.5")
    assert late.returncode == 1
    assert "ran for longer than the timeout of 0.5 s" in late.stderr
    assert run("exec", "demo", "1", "--timeout", "-1").returncode == 2


def test_doctor_tries_a_kernel(run_json, run, monkeypatch):
    assert run_json("doctor", "--kernel")["ok"] is True
    Path("ipykernel.py").write_text("raise ImportError('broken')")
    monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))
    broken = run("doctor", "--kernel")
    assert broken.returncode == 1
    assert "try it by hand" in broken.stderr


def start_replay(path: str, **streams: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "rlmnb", "replay", path, "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, **streams)


def test_ten_replays_at_once_of_one_session_run_each_cell_once():
    write(*(f"x{n} = {n}" for n in range(10)), "print(x0)")
    running = [start_replay("nb.ipynb") for _ in range(10)]
    reports = [json.loads(each.communicate()[0]) for each in running]
    assert [each.returncode for each in running] == [0] * 10
    assert sorted(len(report["executed"]) for report in reports) == [0] * 9 + [11]
    assert texts()[-1] == "0\n"
    assert replayed().executed == []


@pytest.mark.parametrize(
    "asked", [["exec", "nb.ipynb", "print(1)"], ["restore", "nb.ipynb", "--at", "1"]]
)
def test_who_has_to_wait_for_a_replay_is_told(asked):
    write("x = 1")
    place = Session.open("nb.ipynb").place
    place.prepare()
    said = Path("said")
    with said.open("wb") as stderr:
        with Lock(os.path.join(place.directory, ".replay.lock"), timeout=10):
            waiting = subprocess.Popen([sys.executable, "-m", "rlmnb", *asked], stderr=stderr)
            told = any("another replay of this session" in said.read_text() for _ in polls(20))
        waiting.wait(timeout=60)
    assert told


def test_ten_sessions_at_once_do_not_get_in_each_others_way():
    for number in range(10):
        write(f"x = {number}", "print(x)", path=f"nb{number}.ipynb")
    with ThreadPoolExecutor(5) as pool:
        done = list(pool.map(lambda n: start_replay(f"nb{n}.ipynb").communicate()[0], range(10)))
    assert all(json.loads(each)["executed"] == ["c0", "c1"] for each in done)
    assert [texts(f"nb{n}.ipynb")[1] for n in range(10)] == [f"{n}\n" for n in range(10)]


def test_killing_any_party_leaves_no_kernel_behind_and_loses_nothing():
    write("x = 1", "import time\nprint('here', flush=True)\ntime.sleep(60)", "print(x)")
    process = start_replay("nb.ipynb")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    kernels: list[int] = []
    for _ in polls(30):
        kernels = [int(each) for each in children.read_text().split()]
        journal = next(Path(".rlmnb").rglob("journal.jsonl"), None)
        if kernels and journal and '"c0"' in journal.read_text():
            break
    process.kill()
    process.communicate()
    assert any(all(warm._born(each) is None for each in kernels) for _ in polls(30))
    edit(1, "y = 2")
    report = replayed()
    assert report.executed == ["c1", "c2"]
    assert texts()[2] == "1\n"


def test_what_cells_made_is_stored_also_when_whoever_replays_is_killed_at_once(monkeypatch):
    # As on a machine that is so busy that nothing was stored yet.
    Path("sitecustomize.py").write_text(
        "import sys\nif '-m' in sys.orig_argv and 'rlmnb.kernel' in sys.orig_argv:\n"
        "    import rlmnb.kernel.app as app\n    app._STORE_SECONDS = 600\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))
    write("x = [1]", "import time\ntime.sleep(60)", "print(x)")
    process = start_replay("nb.ipynb")
    for _ in polls(30):
        journal = next(Path(".rlmnb").rglob("journal.jsonl"), None)
        if journal and '"c0"' in journal.read_text():
            break
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.kill()
    process.communicate()
    assert any(all(warm._born(int(each)) is None for each in children) for _ in polls(30))
    edit(1, "y = 2")
    assert replayed().executed == ["c1", "c2"]


def test_an_interrupt_of_a_replay_with_a_kernel_of_its_own_ends_it_in_order():
    write("x = 1", "import time\ntime.sleep(60)", "print(x)")
    process = start_replay("nb.ipynb", stderr=subprocess.PIPE)
    for _ in polls(30):
        journal = next(Path(".rlmnb").rglob("journal.jsonl"), None)
        if journal and '"c0"' in journal.read_text():
            break
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=30)
    assert (process.returncode, told) == (130, b"")
    edit(1, "y = 2")
    assert replayed().executed == ["c1", "c2"]


def test_an_interrupt_at_any_moment_prints_nothing_of_the_kernels_own():
    write("get_ipython().kernel.log.error('KeyboardInterrupt caught in kernel.')")
    process = start_replay("nb.ipynb", stderr=subprocess.PIPE)
    assert process.communicate(timeout=60)[1] == b""


_SLOW_TO_END = """
import os, sys, time

app = get_ipython().kernel.parent

# At its end IPython empties the namespace.
def slow(app=app, flush=sys.stdout.flush, sleep=time.sleep):
    sleep(app.control_thread.ident == __import__("threading").get_ident())
    flush()

def watched(app=app, close=app.reset_io, write=os.write):
    if app.control_thread.is_alive():
        write(2, b"sockets are closed while the kernel still speaks")
    close()

sys.stdout.flush, app.reset_io = slow, watched
"""


def test_a_kernel_has_said_all_before_its_sockets_are_closed():
    write(_SLOW_TO_END)
    process = start_replay("nb.ipynb", stderr=subprocess.PIPE)
    assert process.communicate(timeout=60)[1] == b""


def test_an_interrupt_leaves_the_kernel_usable():
    write("x = 1", "import time\ntime.sleep(60)", "print(x)")
    kernel = warm.start(Session.open("nb.ipynb").place, str(Path.cwd()))
    process = start_replay("nb.ipynb")
    for _ in polls(30):
        journal = next(Path(".rlmnb").rglob("journal.jsonl"), None)
        if journal and '"c0"' in journal.read_text():
            break
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert kernel.answers(20)
    edit(1, "y = 2")
    report = replayed()
    assert report.kernel == "warm"
    assert report.executed == ["c1", "c2"]


def test_going_back_in_time_restores_and_runs_nothing(run_json):
    write("x = [1]", "y = x", "x.append(2)", "z = (n for n in x)", "x = 'gone'", "print(x)")
    replayed()
    there = restore_at(Session.open("nb.ipynb"), "c2")
    assert (there.names, there.executed, there.missing) == (["x", "y"], [], {})
    assert ask("x, y, x is y, 'z' in dir()") == "([1, 2], [1, 2], True, False)"
    later = restore_at(Session.open("nb.ipynb"), 4)
    assert later.executed == ["c3"]
    assert ask("next(z), x") == "(1, [1, 2])"
    told = run_json("restore", "nb.ipynb", "--at", "1")
    assert told["names"] == ["x"]
    assert ask("x, 'y' in dir()") == "([1], False)"
    edit(5, "print(x.upper())")
    assert replayed().executed == ["c5"]
    assert texts()[5] == "GONE\n"


def test_what_stands_below_is_gone_also_when_nothing_has_to_be_brought():
    write("x = 1", "y = 2", "print(x)", "print('y' in globals())")
    replayed()
    restore_at(Session.open("nb.ipynb"), 4)
    restore_at(Session.open("nb.ipynb"), 1)
    assert ask("[each for each in 'xy' if each in globals()]") == "['x']"
    remove(1)
    assert replayed().executed == ["c3"]
    assert texts() == ["", "1\n", "False\n"]


def test_state_that_is_gone_is_made_again_however_long_the_chain():
    last = 120
    write("x0 = 0", *(f"x{n} = x{n - 1} + 1" for n in range(1, last)), "print(1)")
    replayed()
    shutil.rmtree(".rlmnb/objects")
    there = restore_at(Session.open("nb.ipynb"), last)
    assert (len(there.names), there.missing) == (last, {})
    assert ask(f"x{last - 1}") == str(last - 1)
    warm.stop(Session.open("nb.ipynb").place)
    shutil.rmtree(".rlmnb/objects")
    edit(last, f"print(x{last - 1})")
    limit = sys.getrecursionlimit()
    # Each cell waits for the one above it; that must not take a frame of the stack for each.
    sys.setrecursionlimit(len(inspect.stack()) + 2 * last)
    try:
        assert len(replayed().executed) == last + 1
    finally:
        sys.setrecursionlimit(limit)
    assert texts()[last] == f"{last - 1}\n"


def test_what_rests_on_something_that_may_not_be_made_again_is_missing_and_nothing_else():
    write(
        "tools.Bash(command='true')\nx = (n for n in range(3))", "y = (n for n in x)", "x = 'new'"
    )
    replayed(allow_effects=True)
    there = restore_at(Session.open("nb.ipynb"), 3)
    assert (there.names, [*there.missing]) == (["x"], ["y"])
    assert ask("x") == "'new'"


def test_a_cell_that_fails_when_it_is_to_make_something_again_is_named(run):
    session = Session.create("broken", cwd=".")
    sources = ("x = 1", "y = nothing", "z = y + 1", "w = x")
    _, second, _, _ = (str(session.append(source)) for source in sources)
    there = restore_at(Session.open("broken"), 4)
    assert there.names == ["w", "x"]
    assert [*there.missing] == ["y", "z"]
    assert there.failed == {second: "NameError: name 'nothing' is not defined"}
    assert second not in there.executed
    told = run("restore", "broken", "--at", "4")
    assert told.returncode == 1
    assert "but for what is missing\n" in told.stdout
    failed = f"failed      cell 2 ({second}): NameError: name 'nothing' is not defined\n"
    assert failed in told.stdout
    assert "missing     y, z: it needs what" in told.stdout


def test_many_cells_that_fail_when_they_are_to_be_made_again_are_all_missing():
    session = Session.create("broken", cwd=".")
    for number in range(110):
        session.append(f"x{number} = {'nothing' if number % 2 else number}")
    there = restore_at(Session.open("broken"), 110)
    assert (len(there.names), len(there.missing), len(there.failed)) == (55, 55, 55)


def test_a_replay_names_the_cell_that_failed_when_it_was_to_make_something_again():
    session = Session.create("broken", cwd=".")
    first, second = (str(session.append(source)) for source in ("y = nothing", "print(y)"))
    report = replay(Session.open("broken"), force=frozenset({second}), only=frozenset({second}))
    assert (report.failed, report.skipped) == ([first], [second])
    assert report.errors == {first: "NameError: name 'nothing' is not defined"}
    assert first in report.causes[second][-1]


def test_a_fork_of_any_notebook_has_its_variables():
    write("x = 1", "large = b'x' * 100_000", "y = [x]", "print(y, len(large))")
    replayed()
    fork = Session.open("nb.ipynb").fork(edits={"c3": "print(x, y, len(large))"})
    assert replay(fork).executed == ["c3"]
    fork.refresh()
    assert text_of(fork.cell(4).outputs) == "1 [1] 100000\n"


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_every_moment_of_a_real_notebook_can_be_gone_back_to(name):
    sources = NOTEBOOKS[name]
    write(*sources)
    replayed()
    after: list[list[str]] = [[] for _ in sources]
    for number in [*range(len(sources)), *reversed(range(len(sources)))]:  # there, and back again
        restore_at(Session.open("nb.ipynb"), number + 1)
        after[number].append(without_places(ask(PROBE)))
    warm.stop(Session.open("nb.ipynb").place)
    kernel = warm.start(Session.open("nb.ipynb").place, str(Path.cwd()))
    client = kernel.client()
    client.start_channels()
    client.wait_for_ready(timeout=20)
    for number, source in enumerate(sources):
        client.execute_interactive(source, timeout=60, output_hook=lambda _: None)
        assert after[number] == [without_places(ask(PROBE))] * 2, number
    client.stop_channels()


def without_places(text: str) -> str:
    """Return a text without where objects are in memory, which no two runs have in common."""
    return re.sub(r"0x[0-9a-fA-F]+", "0x0", text)


def ask(expression: str) -> str:
    """Return what an expression is in the kernel of the notebook, without leaving a trace."""
    client = warm.find(Session.open("nb.ipynb").place).client()
    client.start_channels()
    client.wait_for_ready(timeout=20)
    client.execute("", silent=True, user_expressions={"value": expression})
    while True:
        reply = client.get_shell_msg(timeout=20)
        if "user_expressions" in reply["content"] and reply["content"]["user_expressions"]:
            client.stop_channels()
            return reply["content"]["user_expressions"]["value"]["data"]["text/plain"]
