"""The command line as a person and as a script use it."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

import rlmnb
from rlmnb.cli.main import build_parser
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
        (["frobnicate"], 2, "invalid choice"),
    ],
)
def test_mistakes_get_a_message_a_next_step_and_a_code(demo, run, arguments, code, told):
    done = run(*arguments)
    assert done.returncode == code
    assert told in done.stderr
    assert "Traceback" not in done.stderr


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


def test_a_session_in_the_place_of_code_is_not_run_elsewhere(demo, run):
    asked = run("exec", "demo")
    assert asked.returncode == 2
    assert "demo is a session, and there is no code to run" in asked.stderr
    assert "rlmnb exec demo 'print(1)'" in asked.stderr


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
