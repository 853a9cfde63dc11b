"""Tools in cells: reading ones run again, those that change things only when allowed."""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import IO

import pytest

from rlmnb import Session
from rlmnb.cli import watching
from rlmnb.replay import warm
from rlmnb.replay.cells import stale_cells
from rlmnb.replay.run import replay
from rlmnb.views import text_of
from tests.conftest import notebook_of, read

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("forked")]


def change(number: int, source: str, session: str = "demo") -> None:
    """Edit a cell the way a person does, in the notebook itself."""
    whole = read(session)
    whole["cells"][number - 1]["source"] = source
    notebook_of(session).write_text(json.dumps(whole, indent=1), encoding="utf-8")


def shown(number: int, session: str = "demo") -> str:
    return text_of(Session.open(session).cell(number).outputs)


def numbers(session: Session, ids: list[str]) -> list[int]:
    return [session.cell(each).number for each in ids]


def test_a_read_is_replayed_when_its_file_changed_and_the_rest_is_not():
    Path("auth.py").write_text("limit = 3")
    session = Session.create("demo", cwd=".")
    session.append("code = tools.Read(file_path='auth.py')", type="tool", output="limit = 3")
    session.append("print(str(code).upper())", output="LIMIT = 3")
    session.append("other = 1")
    assert stale_cells(session) == {}
    Path("auth.py").write_text("limit = 4")
    report = replay(Session.open("demo"))
    assert numbers(session, report.executed) == [1, 2]
    assert shown(2) == "LIMIT = 4\n"
    assert stale_cells(Session.open("demo")) == {}
    assert replay(Session.open("demo")).executed == []


def test_what_is_refused_changes_nothing_for_what_depends_on_it():
    session = Session.create("demo", cwd=".")
    write, edit = "tools.Write(file_path='a', content='b')", "tools.Edit(file_path='a')"
    first = session.append(write, type="tool", output="")
    session.append(edit, type="tool", output="", dependencies=[first])
    assert stale_cells(session) == {}
    report = replay(session, force=frozenset(session.index["cells"]))
    assert numbers(session, report.skipped) == [1, 2]
    assert stale_cells(Session.open("demo")) == {}


def test_without_leave_nothing_is_deleted(run, run_json):
    Path("precious.txt").write_text("mine")
    session = Session.create("demo", cwd=".")
    session.append("name = 'nothing.txt'")
    session.append("tools.Bash(command=f'rm -f {name}')", type="tool", output="")
    session.append("print('after', name)", output="after nothing.txt")
    change(1, "name = 'precious.txt'")
    plan = run_json("replay", "demo", "--dry-run")
    assert numbers(session, [row["cell_id"] for row in plan["would_skip"]]) == [2]
    assert plan["would_skip"][0]["effects"] == ["Bash"]
    report = run_json("replay", "demo")
    assert numbers(session, report["executed"]) == [1, 3]
    assert numbers(session, report["skipped"]) == [2]
    # What does not hold is not proven, though nothing ran.
    proof = run_json("replay", "demo", "--verify", code=1)
    assert (proof["executed"], proof["verified"]) == ([], False)
    assert numbers(session, proof["left"]) == [2]
    assert numbers(session, proof["reused"]) == [1, 3]
    assert Path("precious.txt").read_text() == "mine"
    for sly in (
        "t = tools\nt.Bash(command='rm -f precious.txt')",
        "getattr(tools, 'Ba' + 'sh')(command='rm -f precious.txt')",
    ):
        change(3, sly)
        assert "--allow-effects" in run("replay", "demo").stdout
        assert Path("precious.txt").read_text() == "mine"
    change(3, "print('after', name)")
    assert "--allow-effects" in run("replay", "demo", "--dry-run").stdout
    report = run_json("replay", "demo", "--allow-effects")
    assert numbers(session, report["executed"]) == [2, 3]
    assert not Path("precious.txt").exists()
    assert stale_cells(Session.open("demo")) == {}


def test_what_depends_on_an_effect_stays_as_it_was_and_is_marked():
    session = Session.create("demo", cwd=".")
    first = session.append("x = 1\nprint(x)", output="1")
    effect = session.append(
        "tools.Bash(command='date > made')", type="tool", output="", dependencies=[first]
    )
    session.append("print('on top')", output="on top", dependencies=[effect])
    change(1, "x = 2\nprint(x)")
    report = replay(Session.open("demo"))
    session = Session.open("demo")
    assert numbers(session, report.executed) == [1]
    assert numbers(session, report.skipped) == [2, 3]
    assert shown(3) == "on top"
    assert numbers(session, list(stale_cells(session))) == [2, 3]
    assert not Path("made").exists()
    done = replay(session, allow_effects=True)
    assert numbers(session, done.executed) == [2, 3]
    assert Path("made").exists()
    assert stale_cells(Session.open("demo")) == {}


def test_a_dependency_that_shows_the_same_stops_the_cascade():
    session = Session.create("demo", cwd=".")
    first = session.append("x = 1\nprint('same')", output="same\n")
    session.append("print('second')", output="second\n", dependencies=[first])
    change(1, "x = 2\nprint('same')")
    report = replay(Session.open("demo"))
    assert numbers(session, report.executed) == [1]
    change(1, "x = 2\nprint('other')")
    assert numbers(session, replay(Session.open("demo")).executed) == [1, 2]
    change(1, "x = 3\nprint('other')")
    assert numbers(session, replay(Session.open("demo")).executed) == [1]


def test_foreign_tools_are_kept_and_never_run():
    session = Session.create("demo", cwd=".")
    session.append("tools.mcp__db__query(sql='drop table x')", type="tool", output="1 row")
    session.append("tools.WebSearch(query='x')", type="tool", output="found")
    change(1, "tools.mcp__db__query(sql='drop table y')")
    report = replay(Session.open("demo"), allow_effects=True, force=frozenset())
    assert report.executed == []
    assert numbers(session, report.skipped) == [1]
    assert "only its agent has mcp__db__query" in report.causes[report.skipped[0]][-1]
    assert shown(1) == "1 row"


def test_an_effect_is_not_repeated_for_its_value_and_a_users_later_edit_is_kept():
    session = Session.create("demo", cwd=".")
    session.append("tools.Write(file_path='out.txt', content='one')", type="tool", output="")
    session.append("text = tools.Read(file_path='out.txt')\nprint(text)", output="one")
    replay(session, allow_effects=True, force=frozenset(session.index["cells"]))
    assert Path("out.txt").read_text() == "one"
    Path("out.txt").write_text("the user's own")
    report = replay(Session.open("demo"), allow_effects=True)
    assert numbers(session, report.executed) == [2]
    assert Path("out.txt").read_text() == "the user's own"
    assert shown(2) == "the user's own\n"


def test_an_effect_that_holds_is_never_repeated_for_what_it_made():
    session = Session.create("demo", cwd=".")
    session.append("tools.Bash(command='echo x >> log')\ng = (n for n in range(3))")
    session.append("print(next(g))")
    replay(session, allow_effects=True, force=frozenset(session.index["cells"]))
    change(2, "print(next(g), 'again')")
    report = replay(Session.open("demo"), allow_effects=True)
    assert report.executed == []
    assert "--force" in report.causes[report.skipped[0]][-1]
    assert Path("log").read_text() == "x\n"


def test_what_a_person_wrote_between_two_cells_is_no_cells_work(run_json):
    Path("notes.txt").write_text("old")
    edit = "tools.Edit(file_path='notes.txt', old_string='old', new_string='new')"
    for code in ("p = 1", edit, "open('out.txt', 'w').write('mine')"):
        run_json("exec", "demo", code, "--allow-effects")
    for name in ("notes.txt", "out.txt"):
        Path(name).write_text("a person wrote this")
    run_json("exec", "demo", "q = 1")
    change(1, "p = 2")
    run_json("replay", "demo", "1", "--keep-kernel")
    for name in ("notes.txt", "out.txt"):
        assert Path(name).read_text() == "a person wrote this"
    session = Session.open("demo")
    assert "was changed since it was written" in str(stale_cells(session)[session.cell(3).cell_id])
    run_json("kernel", "stop", "demo")


def test_a_write_that_changes_is_followed_by_the_edit_and_the_read_below_it():
    session = Session.create("demo", cwd=".")
    session.append("tools.Write(file_path='f.txt', content='a b')", type="tool")
    session.append("tools.Edit(file_path='f.txt', old_string='b', new_string='c')", type="tool")
    session.append("print(tools.Read(file_path='f.txt'))")
    everything = frozenset(session.index["cells"])
    replay(Session.open("demo"), allow_effects=True, force=everything)
    assert shown(3) == "a c\n"
    change(1, "tools.Write(file_path='f.txt', content='x b')")
    report = replay(Session.open("demo"), allow_effects=True)
    assert numbers(session, report.executed) == [1, 2, 3]
    assert shown(3) == "x c\n"
    assert Path("f.txt").read_text() == "x c"


def test_an_effect_through_a_function_of_another_cell_is_an_effect(run, run_json):
    session = Session.create("demo", cwd=".")
    session.append("def note(n):\n    return tools.Bash(command=f'echo {n} >> log')")
    session.append("n = 1")
    session.append("note(n)\nprint('noted', n)")
    session.append("print('below')", dependencies=[session.cell(3).cell_id])
    replay(session, allow_effects=True, force=frozenset(session.index["cells"]))
    change(2, "n = 2")
    planned, below = run_json("replay", "demo", "--dry-run")["would_skip"]
    assert (session.cell(planned["cell_id"]).number, planned["effects"]) == (3, ["Bash"])
    assert (session.cell(below["cell_id"]).number, below["builds_on"]) == (4, planned["cell_id"])
    assert [n["effectful"] for n in run_json("graph", "demo")["nodes"]] == [
        True,
        False,
        True,
        False,
    ]
    report = replay(Session.open("demo"))
    assert numbers(session, report.skipped) == [3, 4]
    assert shown(3) == "noted 1\n"
    # Code that nobody has seen run: the kernel says no, and all stays as it was.
    for source in (
        "note(n + 1)\nprint('noted', n)",
        "try:\n    note(n + 1)\nexcept Exception:\n    n = 'caught'\nprint(n)",
    ):
        change(3, source)
        report = replay(Session.open("demo"))
        assert numbers(session, report.skipped) == [3, 4]
        assert "(Bash): allow it with --allow-effects" in report.causes[report.skipped[0]][-1]
        assert (report.executed, report.failed, shown(3)) == ([], [], "noted 1\n")
    asked = run("exec", "demo", "print(n)")
    assert asked.returncode == 1
    assert "rlmnb replay demo --allow-effects" in asked.stderr
    assert Path("log").read_text() == "1\n"
    report = replay(Session.open("demo"), allow_effects=True)
    assert shown(3) == "2\n"
    assert Path("log").read_text() == "1\n3\n"
    assert numbers(session, report.skipped) == []


def test_an_effect_among_magics_is_an_effect():
    Path("precious.txt").write_text("mine")
    session = Session.create("demo", cwd=".")
    for line in ("%time ", "%%time\n", "there = !ls\n"):
        session.append(line + "tools.Bash(command='rm -f precious.txt')")
    report = replay(session, force=frozenset(session.index["cells"]))
    assert numbers(session, report.skipped) == [1, 2, 3]
    assert Path("precious.txt").read_text() == "mine"


def test_selected_cells_run_with_what_they_need_and_the_rest_is_left():
    session = Session.create("demo", cwd=".")
    for source in ("a = 1", "b = 10", "print(a)", "print(b)"):
        session.append(source)
    replay(session, force=frozenset(session.index["cells"]))
    change(1, "a = 2")
    change(2, "b = 20")
    session = Session.open("demo")
    only = frozenset({session.cell(1).cell_id, session.cell(3).cell_id})
    report = replay(session, only=only)
    assert numbers(session, report.executed) == [1, 3]
    assert numbers(session, report.left) == [2, 4]
    assert (shown(3), shown(4)) == ("2\n", "10\n")
    assert numbers(session, list(stale_cells(Session.open("demo")))) == [2, 4]


def test_the_command_selects(run_json):
    session = Session.create("demo", cwd=".")
    for source in ("a = 1", "b = 10", "print(a)", "print(b)"):
        session.append(source)
    assert numbers(session, run_json("replay", "demo", "3", "--force")["executed"]) == [1, 3]
    assert numbers(session, run_json("replay", "demo", "downstream:2", "--force")["executed"]) == [
        2,
        4,
    ]
    assert run_json("replay", "demo", "stale")["executed"] == []


def test_what_if_on_a_fork_leaves_the_session_alone(run, run_json):
    session = Session.create("demo", cwd=".")
    session.append("limit = 3")
    session.append("print(limit * 2)")
    replay(session, force=frozenset(session.index["cells"]))
    before = notebook_of("demo").read_bytes()
    tried = run("replay", "demo", "--on-fork", "--edit", "1", "limit = 5")
    assert tried.returncode == 0, tried.stderr
    assert "-6" in tried.stdout
    assert "+10" in tried.stdout
    assert notebook_of("demo").read_bytes() == before
    told = run_json("replay", "demo", "--on-fork", "--edit", "1", "limit = 7")
    fork = Session.open(told["session"])
    assert text_of(fork.cell(2).outputs) == "14\n"
    assert fork.state.session.forked_from.session_id == "demo"
    assert told["diff"]["equal"] is False
    assert run("replay", "demo", "--edit", "1", "x").returncode == 2


def test_a_cell_that_fails_is_named_however_many_ran(run):
    session = Session.create("demo", cwd=".")
    for number in range(52):
        session.append(f"x{number} = {number}")
    session.append("boom = 1 / 0")
    told = run("replay", "demo", "--force")
    assert told.returncode == 1
    assert "failed   53" in told.stdout
    assert "ZeroDivisionError: division by zero" in told.stdout
    assert "and 2 more; all of them with --json" in told.stdout


def test_the_difference_a_replay_made(run):
    session = Session.create("demo", cwd=".")
    session.append("x = 1\nprint(x)")
    run("replay", "demo", "--force")
    change(1, "x = 2\nprint(x)")
    shown_difference = run("replay", "demo", "--diff").stdout
    assert "-1" in shown_difference
    assert "+2" in shown_difference


def lines(stream: IO[str], event: str) -> dict[str, object]:
    """Return the next line that tells of an event."""
    for line in stream:
        found = json.loads(line)
        if found["event"] == event:
            return found
    raise AssertionError(f"no {event} before the end")


def test_the_difference_judges_as_status_does(run_json):
    session = Session.create("demo", cwd=".")
    for code in ("a = 1", "w = tools.Bash(command=f'echo {a}')", "print(w)"):
        session.append(code)
    replay(Session.open("demo"), force=frozenset(session.index["cells"]), allow_effects=True)
    change(1, "a = 2")
    found = run_json("replay", "demo", "--diff")["diff"]
    stale = list(stale_cells(Session.open("demo")))
    assert [session.cell(each).number for each in stale] == [2, 3]
    assert [each["cell_id"] for each in found["invalidated"]["b"]] == stale
    assert len(found["invalidated"]["a"]) == 3
    there = run_json("restore", "demo", "--at", "3")
    assert there["outdated"] == stale
    run_json("kernel", "stop", "demo")


def test_watch_tells_of_every_change_and_replays_it():
    Path("data.txt").write_text("one")
    session = Session.create("demo", cwd=".")
    session.append("text = open('data.txt').read()")
    session.append("print(text)")
    replay(session, force=frozenset(session.index["cells"]))
    with subprocess.Popen(
        [sys.executable, "-m", "rlmnb", "watch", "demo", "--replay", "--json"],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert lines(process.stdout, "stale")["stale"] == []
        Path("data.txt").write_text("two")
        done = lines(process.stdout, "replay")
        assert numbers(session, done["executed"]) == [1, 2]
        assert shown(2) == "two\n"
        change(2, "print(text.upper())")
        assert numbers(session, lines(process.stdout, "replay")["executed"]) == [2]
        assert shown(2) == "TWO\n"
        process.terminate()
    warm.stop(session.place)


def test_watch_says_how_many_ran_failed_and_were_skipped(capsys):
    session = Session.create("demo", cwd=".")
    for number in range(22):
        session.append(f"x{number} = {number}")
    session.append("bad = x0 / x0")
    session.append("print(bad)")
    everything = frozenset(session.index["cells"])

    def look(seen: watching._Seen | None) -> tuple[watching._Seen, str]:
        seen = watching._look(Session.open("demo"), seen, Namespace(json=False, replay=True))
        return seen, capsys.readouterr().out

    session.invalidate(",".join(everything), "to see them run")
    seen, told = look(None)
    assert told.count("\nran ") == 20
    assert "\nfailed  23  " in told
    assert "\nand 2 more\nskipped 24  " in told
    assert "\n23 ran, 1 of them failed, 0 reused, 1 skipped; " in told
    change(23, "bad = 1")
    seen, told = look(seen)
    change(23, "bad = 1 / 0")
    seen, told = look(seen)
    assert "\n1 ran, 1 of them failed, 22 reused, 1 skipped; " in told
    warm.stop(session.place)


def test_watch_says_why_a_cell_was_skipped_and_what_is_left(capsys):
    session = Session.create("demo", cwd=".")
    session.append("x = 1")
    touched = session.append("tools.Bash(command='touch x')", type="tool")
    session.invalidate("all", "to see")
    watching._look(Session.open("demo"), None, Namespace(json=False, replay=True))
    told = capsys.readouterr()
    why = "it changes things outside the notebook (Bash): allow it with --allow-effects"
    (skipped,) = (line for line in told.out.splitlines() if line.startswith("skipped "))
    assert skipped.startswith(f"skipped  2  {touched}  ")
    assert skipped.endswith(why)
    assert told.out.endswith("\n1 stale cell\n")
    assert "rlmnb replay demo --allow-effects" in told.err
    watching._look(Session.open("demo"), None, Namespace(json=True, replay=True))
    event = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert event["skipped"] == [touched]
    assert why in event["causes"][touched]
    assert [each["cell_id"] for each in event["stale"]] == [touched]
    warm.stop(session.place)


def test_watch_tries_what_fails_once_and_again_when_there_is_a_reason_to(capsys):
    session = Session.create("demo", cwd=".")
    session.append("text = open('data.txt').read()")
    session.append("print(text)")
    Path("data.txt").write_text("there")
    replay(session, keep_kernel=True, force=frozenset(session.index["cells"]))
    Path("data.txt").unlink()
    seen = None

    def look() -> list[dict[str, object]]:
        nonlocal seen
        how = Namespace(json=True, replay=True)
        seen = watching._look(Session.open("demo"), seen, how)
        told = map(json.loads, capsys.readouterr().out.splitlines())
        return [event for event in told if event["event"] == "replay"]

    (tried,) = look()
    assert numbers(session, tried["failed"]) == [1]
    assert (look(), look()) == ([], [])
    Path("data.txt").write_text("here")
    (done,) = look()
    assert (numbers(session, done["executed"]), done["failed"]) == ([1, 2], [])
    change(2, "print(text, nosuch)")
    assert len(look()) == 1
    assert (look(), shown(1)) == ([], "")
    change(2, "print(text, text)")
    assert len(look()) == 1
    assert shown(2) == "here here\n"
    assert look() == []
    warm.stop(session.place)
