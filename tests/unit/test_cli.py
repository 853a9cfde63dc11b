"""The command line as a person and as a script use it."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import threading
import unicodedata
from argparse import Namespace
from pathlib import Path

import nbformat
import pytest

import rlmnb
from rlmnb import Session
from rlmnb.cli import warming, watching
from rlmnb.cli.main import build_parser
from rlmnb.format.session import SpentByCells
from rlmnb.replay.watching import changes
from tests.conftest import append_many, notebook_of

COMMANDS = [
    "sessions", "show", "cells", "cell", "chain", "files", "stats", "append", "set", "fork",
    "pair", "status", "replay", "calls", "budget", "invalidate", "exec", "kernel", "watch", "run",
    "model", "hooks", "mcp", "import", "migrate", "statusline", "complexity", "blame", "export",
    "open", "graph", "diff", "lint", "verify", "doctor", "recover", "scrub", "du", "prune",
    "archive", "restore", "rm", "schema",
]  # fmt: skip
README = Path(__file__).parents[2] / "README.md"


def in_terminal(*arguments: str, columns: int = 80, code: int = 0, **environ: str) -> str:
    """Run a command in a real terminal of this width and return what it draws."""
    master, slave = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm-256color", **environ}
    environment.pop("NO_COLOR", None) if "NO_COLOR" not in environ else None
    process = subprocess.Popen(
        [sys.executable, "-m", "rlmnb", *arguments],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=environment,
    )
    os.close(slave)
    drawn = b""
    while True:
        ready, _, _ = select.select([master], [], [], 30)
        assert ready, "the command hangs"
        try:
            chunk = os.read(master, 65536)
        except OSError:  # the terminal's other end is closed
            break
        if not chunk:
            break
        drawn += chunk
    os.close(master)
    assert process.wait() == code, drawn
    return drawn.decode().replace("\r\n", "\n")


@pytest.fixture
def demo() -> list[str]:
    Path("auth.py").write_text("def login(): ...\n")
    first = rlmnb.append("demo", {"source": "users = ['ann', 'bob']", "output": "ok\n"})
    read = subprocess.run(
        [
            sys.executable, "-m", "rlmnb", "append", "demo", "--type", "tool",
            "--source", 'tools.Read(file_path="auth.py")', "--depends", first, "--output", "-",
        ],
        input="def login(): ...\n",
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()  # fmt: skip
    return [first, read, rlmnb.append("demo", {"source": "print(len(users))", "output": "2\n"})]


def test_the_commands_are_these():
    actions = [action for action in build_parser()._actions if action.dest == "command"]
    assert list(actions[0].choices or ()) == COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_teaches_itself_and_is_in_the_readme(command, run):
    shown = run(command, "--help")
    assert shown.returncode == 0
    assert f"example:\n  rlmnb {command}" in shown.stdout
    assert "--json" in shown.stdout
    assert f"rlmnb {command}" in README.read_text(encoding="utf-8")


def test_help_fits_the_terminal_but_for_examples(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    parser = build_parser()
    (commands,) = (action for action in parser._actions if action.dest == "command")
    for each in (parser, *(commands.choices or {}).values()):
        told = [line for line in each.format_help().splitlines() if not line.startswith("  rlmnb")]
        assert max(map(len, told)) <= 80, each.prog


def test_without_a_command_the_help_is_shown(run):
    done = run()
    assert done.returncode == 0
    assert "RLMNB_HOME" in done.stdout
    assert run("--version").stdout == f"rlmnb {rlmnb.__version__}\n"


def test_append_creates_the_session_and_prints_the_id(run, root):
    done = run("append", "new", "--source", "x = 1", "--output", "hi")
    assert re.fullmatch(r"cell_[a-z0-9]{8}\n", done.stdout)
    assert done.stdout.strip() in notebook_of("new").read_text()
    again = json.loads(run("append", "new", "--source", "-", "--json", input="y = 2").stdout)
    assert again["session_id"] == "new"
    assert again["path"] == str(notebook_of("new"))
    assert again["pending"] is None


def test_append_takes_every_part_of_a_cell(run, run_json):
    Path("in.txt").write_text("in")
    Path("out.txt").write_text("out")
    first = run("append", "demo", "--source", "x = 1").stdout.strip()
    done = run(
        "append", "demo", "--source", "boom()", "--type", "llm_call", "--error", "it broke",
        "--reads", "in.txt", "--writes", "out.txt", "--goal", "see it break", "--depends", first,
        "--record", '{"tool_use_id": "toolu_1", "metadata": {"model": "m"}}',
    )  # fmt: skip
    cell = run_json("cell", "demo", done.stdout.strip())
    assert cell["type"] == "llm_call"
    assert cell["status"] == "failed"
    assert cell["dependencies"] == [first]
    assert list(cell["files_read"]) == [str(Path.cwd() / "in.txt")]
    assert list(cell["files_written"]) == [str(Path.cwd() / "out.txt")]
    assert cell["trace"]["goal"] == "see it break"
    assert cell["tool_use_id"] == "toolu_1"
    assert cell["metadata"]["model"] == "m"
    assert cell["outputs"][0]["ename"] == "Error"
    assert re.fullmatch("[0-9a-f]{16}", cell["frame_id"])


def test_cells_are_listed_and_filtered(demo, run, run_json):
    assert [row["cell_id"] for row in run_json("cells", "demo")] == demo
    found = run_json("cells", "--type", "tool", "--file", "auth.py", "--status", "stale")
    assert found == []
    Path("auth.py").write_text("def login(): return True\n")
    (found,) = run_json("cells", "--type", "tool", "--file", "auth.py", "--status", "stale")
    assert found["cell_id"] == demo[1]
    assert found["freshness"] == "stale"
    assert found["causes"] == [f"{Path.cwd() / 'auth.py'} changed"]
    shown = run("cells", "--status", "stale")
    assert demo[1] in shown.stdout
    assert "auth.py changed" in shown.stderr


def test_one_cell_is_shown_with_its_edges(demo, run, run_json):
    shown = run("cell", "demo", demo[1]).stdout
    assert 'tools.Read(file_path="auth.py")' in shown
    assert f"needs    {demo[0]}  explicit" in shown
    assert run("cell", "demo", "0").returncode == 2
    cell = run_json("cell", demo[0])
    assert cell["code"] == "users = ['ann', 'bob']"
    assert cell["dependents"] == demo[1:]
    assert run("cell", "--session", "demo", "3", "--output").stdout == "2\n"


def test_chains_have_depth_order_and_reasons(demo, run_json):
    up = run_json("chain", "demo", demo[2])
    assert (up["depth"], [row["cell_id"] for row in up["chain"]]) == (1, [demo[0]])
    down = run_json("chain", "demo", demo[0], "--reverse")
    assert [row["cell_id"] for row in down["chain"]] == demo[1:]
    assert down["chain"][1]["reasons"] == {demo[0]: "variable users"}


def test_show_files_and_stats(demo, run, run_json):
    state = run_json("show", "demo")
    assert state["session"]["id"] == "demo"
    assert state["cells"]["count"] == 3
    assert {"session", "activation", "context", "budget", "cells", "trajectory"} <= set(state)
    (file,) = run_json("files", "demo")
    assert (file["role"], file["now"], file["cells"]) == ("read", "same", [demo[1]])
    stats = run_json("stats", "demo")
    assert stats["by_type"] == {"repl": 2, "tool": 1}
    assert stats["by_operation"] == {"Read": 1}
    assert (stats["edges"], stats["roots"], stats["leaves"]) == (2, 1, 2)
    assert "2 repl, 1 tool" in run("show", "demo").stdout


def test_sessions_can_be_named_tagged_listed_and_ended(demo, run, run_json):
    run("set", "demo", "--title", "fix the login", "--tag", "auth", "--tag", "web")
    run("set", "demo", "--untag", "web")
    append_many("other", 1)
    (row,) = run_json("sessions", "--tag", "auth")
    assert (row["title"], row["tags"], row["active"]) == ("fix the login", ["auth"], True)
    assert len(run_json("sessions", "--here")) == 2
    run("set", "demo", "--end")
    assert [row["id"] for row in run_json("sessions", "--active")] == ["other"]
    assert "fix the login" in run("sessions").stdout


def test_a_fork_is_made_and_printed(demo, run, run_json):
    made = run("fork", "demo", "--at", demo[1], "--id", "branch")
    assert made.stdout == "branch\n"
    assert run_json("show", "branch")["session"]["forked_from"]["cell_id"] == demo[1]


def test_rm_asks_before_it_removes(demo, run):
    refused = run("rm", "demo", stdin=subprocess.DEVNULL)
    assert refused.returncode == 2
    assert "--yes" in refused.stderr
    assert notebook_of("demo").exists()
    assert run("rm", "demo", "--yes").returncode == 0
    assert not notebook_of("demo").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["cells", "nowhere"], 2, "rlmnb sessions"),
        (["cell", "demo", "nope"], 2, "rlmnb cells demo"),
        (["append", "../evil", "--source", "x"], 2, "not a plain name"),
        (["append", "demo", "--source", "x", "--depends", "cell_gone0000"], 2, "cell_gone0000"),
        (["append", "demo", "--source", "x", "--record", "{"], 2, "not JSON"),
        (["append", "demo"], 2, "--source"),
        (["cells", "--status", "dream"], 2, "invalid choice"),
        (["rm", "dem", "--yes"], 2, "rlmnb rm demo"),
        (["cell", "a", "b", "c"], 2, "SESSION CELL"),
        (["chain", "demo", "3", "--depth", "0"], 2, "0 is no depth: wanted 1 or more"),
        (["chain", "demo", "3", "--depth", "-1"], 2, "-1 is no depth: wanted 1 or more"),
        (["cells", "demo", "--since", "yesterday"], 2, "or how long ago: 90m, 2h, 7d"),
        (["status", "/"], 2, "name a notebook, or a session: rlmnb sessions"),
        (["cells", "a:b"], 2, "name a notebook, or a session: rlmnb sessions"),
        (["fork", "demo", "--id", "a/b"], 2, "name it like: demo-2"),
        (["frobnicate"], 2, "invalid choice"),
    ],
)
def test_mistakes_get_a_message_a_next_step_and_a_code(demo, run, arguments, code, told):
    done = run(*arguments)
    assert done.returncode == code
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_a_kernel_cannot_be_brought_back_to_where_no_code_was_yet(run):
    text, code = nbformat.v4.new_markdown_cell("# So"), nbformat.v4.new_code_cell("x = 1")
    nbformat.write(nbformat.v4.new_notebook(cells=[text, code]), "nb.ipynb")
    done = run("restore", "nb.ipynb", "--at", "1")
    assert done.returncode == 2
    assert "no code stands at or above cell 1" in done.stderr
    assert f"name one further down: rlmnb cells {Path('nb.ipynb').resolve()}\n" in done.stderr


@pytest.mark.parametrize("cell", ["1", "cell_x", "2-4"])
def test_a_session_without_cells_says_how_to_append_the_first(run, cell):
    rlmnb.Session.create("empty")
    done = run("cells", "empty", cell)
    assert done.returncode == 2
    assert "empty: there are no cells yet\n" in done.stderr
    assert "rlmnb append empty --source 'x = 1'" in done.stderr


def test_an_error_is_json_too_when_asked(run):
    done = run("cells", "nowhere", "--json")
    error = json.loads(done.stdout)["error"]
    assert error["type"] == "SessionNotFoundError"
    assert "nowhere" in error["message"]


@pytest.mark.parametrize(
    "arguments",
    [["cells", "--status", "dream"], ["append", "demo"], ["cell", "a", "b", "c"], ["frobnicate"]],
)
def test_a_command_line_that_cannot_be_read_is_told_in_json_too(run, arguments):
    done = run(*arguments, "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["type"] == "UsageError"
    assert done.stderr.startswith("usage: ")


def test_what_a_session_has_cost_is_written_as_money(demo, run, run_json):
    made = {"calls": 1, "tokens": 3, "usd": 4.395e-05}
    session = rlmnb.Session.open("demo")
    session.state.budget.cells.made["gpt-4o-mini"] = SpentByCells.model_validate(made)
    session.save()
    assert run_json("stats", "demo")["calls_cost_usd"] == 4.395e-05
    assert "calls cost         $0.000044\n" in run("stats", "demo").stdout


def test_a_status_line_without_a_session_is_json_too_when_asked(run_json):
    assert run_json("statusline", "nowhere") == {"session": None}


def test_what_is_not_known_has_no_word_of_pythons_for_it(demo, run, run_json):
    assert "None" not in run("stats", "demo").stdout
    assert run_json("sessions")[0]["tags"] == []


def test_a_pipe_gets_plain_whole_lines(demo, run):
    lines = run("cells", "demo").stdout.splitlines()
    assert len(lines) == 3
    assert lines[1].split("\t")[1] == demo[1]
    assert not any("\x1b" in line for line in lines)
    rlmnb.append("demo", {"source": "a\t=\t1"})
    assert run("cells", "demo").stdout.splitlines()[-1].split("\t")[5:] == ["a = 1"]


def test_a_reader_that_stops_early_is_no_error(demo):
    append_many("demo", 300)
    command = f"{sys.executable} -m rlmnb cells demo | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_a_table_fits_the_terminal(demo, columns):
    rlmnb.append("demo", {"source": "x = " + "'very long ' + " * 30 + "''"})
    lines = in_terminal("cells", "demo", columns=columns, NO_COLOR="1").splitlines()
    assert max(len(line) for line in lines) <= columns
    assert len(lines) == 5
    assert "#" in lines[0]


def test_a_narrow_terminal_shows_fewer_columns_and_not_their_beginnings(demo):
    rlmnb.append("demo", {"source": "checked = 1", "type": "verification"})
    lines = in_terminal("cells", "demo", columns=40, NO_COLOR="1").splitlines()
    assert lines[0].split() == ["#", "cell", "status", "source"]
    assert lines[-1].split()[-3:] == ["checked", "=", "1"]
    assert demo[0] in lines[1]


@pytest.mark.parametrize(
    ("columns", "shown"), [(80, "# cell status away because of source"), (40, "# cell because")]
)
def test_a_long_reason_pushes_no_other_column_out_of_a_chain(columns, shown, run):
    names = [f"the_number_of_{word}" for word in ("users", "groups", "servers")]
    first = rlmnb.append("chained", {"source": f"{' = '.join(names)} = 1"})
    rlmnb.append("chained", {"source": f"print({', '.join(names)})"})
    assert (
        ", ".join(f"variable {name}" for name in sorted(names))
        in run("chain", "chained", "2").stdout
    )
    lines = in_terminal("chain", "chained", "2", columns=columns, NO_COLOR="1").splitlines()
    assert " ".join(lines[0].split()).startswith(shown)
    assert lines[1].startswith(f"1  {first}  ")
    assert "the_num" in lines[1].rstrip().rpartition("  ")[2]
    assert max(map(width, lines)) <= columns


def test_what_a_chain_leaves_out_is_told_within_a_narrow_terminal():
    rlmnb.append("far", {"source": "x = 0"})
    for _ in range(43):
        rlmnb.append("far", {"source": "x = x + 1"})
    lines = in_terminal("chain", "far", "44", columns=40, NO_COLOR="1").splitlines()
    assert max(map(width, lines)) <= 40
    assert "and 3 further away; all of them: --json, or in a pipe" in " ".join(
        " ".join(lines[-2:]).split()
    )


def test_calls_on_files_of_one_directory_can_be_told_apart(run):
    directory = "/home/ann/projects/analysis/src/components"
    for name in ("first.py", "second.py"):
        source = f"tools.Read(file_path='{directory}/{name}')"
        run("append", "calls", "--type", "tool", "--source", source, "--output", "x = 1")
    drawn = in_terminal("cells", "calls", columns=68, NO_COLOR="1").splitlines()
    assert [line.split()[-1] for line in drawn[1:]] == [
        "tools.Read('…/first.py')",
        "tools.Read('…/second.py')",
    ]
    drawn = in_terminal("graph", "calls", NO_COLOR="1")
    assert "tools.Read(file_path='…/second.py')" in drawn
    drawn = in_terminal("files", "calls", columns=60, NO_COLOR="1").splitlines()
    assert [line[-9:] for line in drawn[1:]] == ["/first.py", "second.py"]
    assert f"{directory}/first.py" in run("cells", "calls").stdout
    assert "tools.Read('…/first.py')" in run("graph", "calls", "--svg").stdout


@pytest.mark.parametrize("columns", [40, 80])
def test_lines_of_a_terminal_end_between_the_words_of_a_goal(columns, run):
    goal = "make every module handle the empty case and tell me what is left to do after that\nsoon"
    rlmnb.append("aimed", {"source": "x = 1", "trace": {"goal": goal}})
    assert f"goal     {goal}\n" in run("cell", "aimed", "1").stdout
    told = in_terminal("cell", "aimed", "1", columns=columns, NO_COLOR="1")
    assert max(map(width, told.splitlines())) <= columns
    assert " ".join(goal.split()) in " ".join(told.split())
    assert "\nsoon\n" in told
    run("set", "aimed", *(f"--tag=a-rather-long-tag-{number}" for number in range(9)))
    for line in in_terminal("show", "aimed", columns=columns, NO_COLOR="1").splitlines():
        assert width(line) <= columns or line.startswith(("notebook", "project", "transcript"))


def test_a_notebook_that_is_not_there_is_answered_with_what_to_do(run):
    done = run("status", "nowhere.ipynb")
    assert done.returncode == 2
    assert "nowhere.ipynb: there is no notebook" in done.stderr
    assert "or a session: rlmnb sessions" in done.stderr


def test_a_replay_that_verifies_counts_as_people_do(run):
    append_many("few", 1)
    assert "its one cell holds" in run("replay", "few", "--verify").stdout
    append_many("few", 1)
    assert "all 2 cells hold" in run("replay", "few", "--verify").stdout
    assert "what was asked for holds, 1 cell," in run("replay", "few", "2", "--verify").stdout


def test_what_failed_and_what_no_replay_would_run_is_called_so(run, run_json):
    session = rlmnb.Session.create("demo", cwd=".")
    session.append("import os; os._exit(1)", status="running")
    session.complete("1", error="KernelError: the kernel died")
    assert run_json("status", "demo")["stale"][0]["causes"] == ["failed when it last ran"]
    assert "bring them up to date: rlmnb replay demo\n" in run("status", "demo").stderr
    whole = Path("whole.ipynb")
    cell = nbformat.v4.new_code_cell("tools.Bash(command='touch x')")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), whole)
    found = run("status", "whole.ipynb").stderr
    assert found.startswith("a replay would run none of them; why: rlmnb replay ")
    assert "\nnothing would run\n1 cell would not\n" in run("replay", whole, "--dry-run").stdout


def test_a_cause_is_worded_alike_wherever_it_is_told(run_json):
    Path("auth.py").write_text("limit = 3")
    session = rlmnb.Session.create("demo", cwd=".")
    read = session.append("code = tools.Read(file_path='auth.py')", type="tool", output="limit = 3")
    session.append("print(code)", output="limit = 3")
    session.append("print(1)", output="1", dependencies=[read])
    Path("auth.py").write_text("limit = 4")
    told = {row["cell_id"]: row["causes"] for row in run_json("cells", "demo")}
    assert told == {row["cell_id"]: row["causes"] for row in run_json("status", "demo")["stale"]}
    assert len(told) == 3


def test_a_look_at_a_fork_leaves_none_behind_and_an_error_names_the_session(run, run_json):
    rlmnb.Session.create("demo", cwd=".").append("x = 1", status="failed")
    assert run("replay", "demo", "--on-fork", "--verify").returncode == 1
    assert "demo: there is no cell 'nope'" in run("replay", "demo", "nope", "--on-fork").stderr
    assert [row["id"] for row in run_json("sessions")] == ["demo"]


@pytest.mark.parametrize("seconds", ["-1", "0", "nan", "inf"])
def test_changes_are_gathered_for_a_length_of_time(run, seconds):
    append_many("few", 1)
    done = run("watch", "few", "--debounce", seconds)
    assert done.returncode == 2
    assert f"{seconds!r} is no length of time: wanted more than zero" in done.stderr


def test_a_script_that_watches_is_told_that_the_notebook_is_gone():
    nbformat.write(nbformat.v4.new_notebook(), "brief.ipynb")
    command = [sys.executable, "-m", "rlmnb", "watch", "brief.ipynb", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert json.loads(process.stdout.readline())["event"] == "stale"
        Path("brief.ipynb").unlink()
        told, _ = process.communicate(timeout=30)
    assert json.loads(told) == {"event": "gone", "notebook": str(Path("brief.ipynb").resolve())}
    assert process.returncode == 3


def test_a_notebook_that_cannot_be_read_for_a_moment_is_watched_on():
    nbformat.write(nbformat.v4.new_notebook(), "brief.ipynb")
    path = Path("brief.ipynb").resolve()
    whole = path.read_text(encoding="utf-8")
    heard = changes(Session.open(path), debounce=0.05)
    assert next(heard) == set()
    path.write_text("{", encoding="utf-8")
    assert next(heard) == {str(path)}
    path.write_text(whole, encoding="utf-8")
    assert next(heard) == {str(path)}


def test_a_watch_names_by_its_number_what_holds_again(demo, capsys):
    how = Namespace(json=False, replay=False)
    Session.open("demo").invalidate(demo[2], "to see")
    seen = watching._look(Session.open("demo"), None, how)
    Session.open("demo").revalidate(demo[2])
    capsys.readouterr()
    watching._look(Session.open("demo"), seen, how)
    assert capsys.readouterr().out == f"fresh    3  {demo[2]}\n0 stale cells\n"


def test_a_watch_in_a_narrow_terminal_cuts_no_cause(demo, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")
    Session.open("demo").invalidate(demo[2], "nobody can rely on what it says any more")
    with monkeypatch.context() as patched:
        patched.setattr(sys.stdout, "isatty", lambda: True)
        watching._look(Session.open("demo"), None, Namespace(json=False, replay=False))
    told = capsys.readouterr().out
    assert max(map(width, told.splitlines())) <= 40
    assert told.startswith(f"stale    3  {demo[2]}")
    assert "nobody can rely on what it says any more" in " ".join(told.split())


def test_a_watch_outlives_a_notebook_that_is_half_written():
    nbformat.write(nbformat.v4.new_notebook(), "half.ipynb")
    whole = Path("half.ipynb").read_text()
    heard = changes(Session.open("half.ipynb"))
    assert next(heard) == set()
    Path("half.ipynb").write_text("{")
    assert next(heard) == {str(Path("half.ipynb").resolve())}
    mended = threading.Timer(1, Path("half.ipynb").write_text, [whole])
    mended.start()
    assert next(heard) == {str(Path("half.ipynb").resolve())}
    mended.join()
    heard.close()


def test_a_session_in_the_place_of_code_is_not_run_elsewhere(demo, run):
    asked = run("exec", "demo")
    assert asked.returncode == 2
    assert "demo is a session, and there is no code to run" in asked.stderr
    assert "rlmnb exec demo 'print(1)'" in asked.stderr


@pytest.mark.parametrize(
    ("module", "program", "first"),
    [
        (None, None, "pip install jupyter-console && "),
        ("there", None, ""),
        (None, "/bin/jupyter-console", ""),
    ],
)
def test_a_console_that_is_not_there_is_to_be_fetched_first(monkeypatch, module, program, first):
    monkeypatch.setattr(warming, "find_spec", lambda _name: module)
    monkeypatch.setattr("shutil.which", lambda _name: program)
    assert warming.console("k.json") == f"{first}jupyter console --existing k.json"


def test_headings_of_a_diff_end_between_words(demo, run):
    run("fork", "demo", "--id", "branch")
    run("invalidate", "branch", demo[1])
    told = in_terminal("diff", "branch", columns=40, code=1, NO_COLOR="1")
    assert max(map(width, told.splitlines())) <= 40
    assert f"## modified cell 2 {demo[1]}:\n   status, freshness\n" in told
    fork = in_terminal("replay", "demo", "--on-fork", "--dry-run", columns=40, NO_COLOR="1")
    assert max(map(width, fork.splitlines())) <= 40


@pytest.mark.parametrize("columns", [40, 80])
def test_of_many_stale_cells_those_are_shown_that_began_it(run, run_json, columns):
    rlmnb.append("many", {"source": "limit = 'a 長い text ' * 100  # " + "long " * 40})
    for number in range(30):
        rlmnb.append("many", {"source": f"y{number} = limit * {number}"})
    marked = run("invalidate", "many", "1", "--reason", "nobody can rely on it " * 5)
    assert "1 marked, 31 stale in all" in marked.stdout
    assert len(run_json("status", "many")["stale"]) == 31
    for command in (["status", "many"], ["replay", "many", "--dry-run"]):
        lines = in_terminal(*command, columns=columns, NO_COLOR="1").splitlines()
        assert max(map(width, lines)) <= columns
        assert len(lines) < 20
        told = " ".join(" ".join(lines).split())
        assert "and because of these: cells 2, 3, 4," in told
        assert " and 18 more; all of them with --json" in told
    undone = run("invalidate", "many", "all").stdout
    assert (undone.count("no longer valid"), "and 10 more;" in undone) == (20, True)


def width(line: str) -> int:
    return sum(2 if unicodedata.east_asian_width(letter) == "W" else 1 for letter in line)


def test_colours_are_for_terminals_whose_owner_wants_them(demo):
    assert "\x1b[32m" in in_terminal("cells", "demo")
    assert "\x1b[1m" in in_terminal("show", "demo")
    assert "\x1b[3" not in in_terminal("cells", "demo", NO_COLOR="1")


def test_findings_go_beside_the_answer(demo, run):
    import nbformat

    run("cells", "demo")
    notebook = nbformat.read(notebook_of("demo"), 4)
    notebook.cells.insert(0, nbformat.v4.new_code_cell("mine = 1", id="mine"))
    nbformat.write(notebook, notebook_of("demo"))
    done = run("cells", "demo", "--json")
    assert len(json.loads(done.stdout)) == 4
    assert "note: mine was added by hand" in done.stderr


def test_a_command_does_not_wait_for_what_it_has_no_use_for():
    append_many("demo", 1)
    code = (
        "import sys; from rlmnb.cli.main import main; main(['verify', 'demo']); "
        "sys.exit('jsonschema' not in sys.modules or 'lark' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_commands_that_only_read_load_no_models():
    append_many("demo", 1)
    asked = ["sessions", "cells demo", "chain demo 1", "files demo", "stats demo", "status demo"]
    code = (
        "import sys; from rlmnb.cli.main import main\n"
        f"for each in {asked!r}: assert main(each.split()) == 0, each\n"
        "sys.exit('pydantic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
