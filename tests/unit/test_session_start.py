"""Where a session comes from, and what is said at its start: only what is worth saying."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rlmnb import Session
from tests.unit.test_hook import SESSION, failures, payload, transcript

OTHER = "16e49658-9a58-4dec-8b1f-10fbe7465ec2"
SILENT: dict[str, Any] = {}


@pytest.fixture
def living() -> Any:
    """Return the pid of a client that stays alive as long as the test does."""
    client = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield client.pid
    client.communicate(b"\n")


def hook(given: dict[str, Any], pid: int | None = None, **environ: str) -> dict[str, Any]:
    """Run the hook as a client with this pid would, and return what it says back."""
    told = {} if pid is None else {"CLAUDE_PID": str(pid)}
    done = subprocess.run(
        [sys.executable, "-m", "rlmnb.hook"],
        input=json.dumps(given).encode(),
        capture_output=True,
        env={**os.environ, **told, **environ},
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return json.loads(done.stdout) if done.stdout else SILENT


def start(source: str, session: str = SESSION, **fields: Any) -> dict[str, Any]:
    return payload("SessionStart.startup", source=source, session_id=session, **fields)


def about(session: str = SESSION) -> Any:
    return Session.open(session).state.session


def test_a_session_that_begins_is_greeted_with_silence() -> None:
    assert hook(start("startup")) == SILENT
    assert failures() == []


def test_the_first_prompt_is_the_goal_and_a_person_may_put_it_in_other_words(run, run_json) -> None:
    hook(start("startup"))
    first = "Refactor the parser across all modules\nand test the parser"
    hook(payload("UserPromptSubmit", prompt=first, prompt_id="p1"))
    hook(payload("UserPromptSubmit", prompt="now the lexer", prompt_id="p2"))
    state = Session.open(SESSION).state
    assert state.session.original_goal == first
    assert (state.session.goal, state.session.prompt_id) == ("now the lexer", "p2")
    assert state.session.keywords[0] == "parser"
    assert {"lexer", "modules"} <= set(state.session.keywords)
    run("set", SESSION, "--goal", "a new parser")
    hook(payload("UserPromptSubmit", prompt="and on", prompt_id="p3"))
    shown = run("show", SESSION).stdout
    assert "a new parser" in shown
    assert "parser, " in shown
    assert run_json("show", SESSION)["session"]["original_goal"] == "a new parser"


def test_a_prompt_is_judged_and_the_mode_decides(run, run_json) -> None:
    hook(payload("UserPromptSubmit", prompt="hello", prompt_id="p1"))
    activation = Session.open(SESSION).state.activation
    assert (activation.rlm_active, activation.complexity_score) == (False, 0)
    hard = "Why do all workers deadlock? Compare a.py, b.py, c.py and d.py"
    hook(payload("UserPromptSubmit", prompt=hard, prompt_id="p2"))
    activation = Session.open(SESSION).state.activation
    assert activation.rlm_active
    assert activation.complexity_score >= 0.5
    assert "4 files named" in activation.activation_reason
    assert "recursion   on (complexity, complexity" in run("show", SESSION).stdout
    for said, prompt, wanted in (
        ("never", hard, False), ("always", "hello", True), ("off", hard, False),
        ("on", "hello", True), ("complexity", "hello", False),
    ):  # fmt: skip
        assert run("set", SESSION, "--activation", said).returncode == 0
        hook(payload("UserPromptSubmit", prompt=prompt, prompt_id=said))
        state = Session.open(SESSION).state.activation
        assert state.rlm_active is wanted, said
        assert state.activation_mode == ("manual" if said in ("on", "off") else said)


def test_the_mode_of_new_sessions_is_in_the_environment() -> None:
    hook(payload("UserPromptSubmit", prompt="hello"), RLMNB_ACTIVATION="always")
    assert Session.open(SESSION).state.activation.rlm_active


def test_a_title_that_a_person_gave_is_told_to_the_client_and_back(run) -> None:
    hook(start("startup"))
    hook(payload("UserPromptSubmit"))
    assert about().title_from == "prompt"
    assert hook(start("resume")) == SILENT  # what the prompt said is no title of anybody's
    run("set", SESSION, "--title", "Ümlaut & co")
    answer = hook(start("resume"))["hookSpecificOutput"]
    assert answer == {"hookEventName": "SessionStart", "sessionTitle": "Ümlaut & co"}
    assert hook(start("resume", session_title="Ümlaut & co")) == SILENT
    assert about().title_from == "person"
    hook(payload("UserPromptSubmit", session_title="named in the client", prompt_id="p2"))
    assert (about().title, about().title_from) == ("named in the client", "client")
    run("set", SESSION, "--title", "mine again")
    hook(payload("UserPromptSubmit", session_title="named in the client", prompt_id="p3"))
    assert about().title == "mine again"


def test_files_that_the_session_touched_are_watched_from_the_next_start_on() -> None:
    cwd = str(Path.cwd())
    for name in ("a.txt", "b.txt", "gone.txt"):
        Path(name).write_text(name)
        call = {"file_path": f"{cwd}/{name}"}
        hook(payload("PostToolUse.Read", tool_use_id=name, tool_input=call, cwd=cwd))
    Path("gone.txt").unlink()
    watched = hook(start("compact"))["hookSpecificOutput"]["watchPaths"]
    assert watched == [f"{cwd}/b.txt", f"{cwd}/a.txt"]
    moved = payload("CwdChanged", old_cwd=cwd, new_cwd=f"{cwd}/below")
    assert hook(moved)["hookSpecificOutput"]["watchPaths"] == watched
    state = Session.open(SESSION).state
    assert state.lifecycle.cwd == f"{cwd}/below"
    assert state.session.cwd == cwd


def test_a_watched_file_that_changes_is_told_with_the_cells_that_no_longer_hold(
    run, run_json
) -> None:
    cwd = str(Path.cwd())
    path = f"{cwd}/auth.py"
    Path(path).write_text("one")
    hook(payload("PostToolUse.Read", tool_input={"file_path": path}, cwd=cwd))
    told = payload("Notification", hook_event_name="FileChanged", file_path=path, event="change")
    assert hook(told) == SILENT  # touched, and the same
    assert Session.open(SESSION).state.context.changed_files == {}
    Path(path).write_text("two")
    assert hook(told) == SILENT
    (cell,) = Session.open(SESSION).cells
    seen = run_json("status", SESSION)
    assert [each["cell_id"] for each in seen["stale"]] == [cell.cell_id]
    assert seen["changed_files"][path]["event"] == "change"
    assert "seen by the client" in run("status", SESSION).stdout
    assert "seen to change" in run("cells", SESSION, "--status", "stale").stderr
    assert run("statusline", SESSION).stdout == "rlmnb: 1 cell, 1 stale (auth.py changed)\n"
    Path(path).write_text("one")  # back as it was: hashing is the truth
    assert "changed_files" not in run_json("status", SESSION)
    assert run("statusline", SESSION).stdout == "rlmnb: 1 cell\n"


def test_a_change_of_a_file_that_no_cell_touched_is_nothing() -> None:
    hook(start("startup"))
    before = Session.open(SESSION).state.appended
    for path in ("/etc/hostname", "", "\0", "relative"):
        told = payload(
            "Notification", hook_event_name="FileChanged", file_path=path, event="change"
        )
        assert hook(told) == SILENT
    assert Session.open(SESSION).state.appended == before
    assert hook({**told, "session_id": OTHER}) == SILENT
    assert not (Path(os.environ["RLMNB_HOME"]) / OTHER).exists()


def test_later_calls_say_where_they_ran_and_find_the_files_of_that_place() -> None:
    cwd = Path.cwd()
    (cwd / "below").mkdir()
    (cwd / "below" / "data.txt").write_text("x")
    hook(start("startup", cwd=str(cwd)))
    call = {"command": "cat data.txt"}
    hook(payload("PostToolUse.Bash", tool_use_id="a", tool_input=call, cwd=str(cwd)))
    hook(payload("PostToolUse.Bash", tool_use_id="b", tool_input=call, cwd=str(cwd / "below")))
    first, second = Session.open(SESSION).cells
    assert (first.record.input.cwd, second.record.input.cwd) == (None, str(cwd / "below"))
    assert list(second.record.files_read) == [str(cwd / "below" / "data.txt")]


@pytest.mark.parametrize("trouble", ["a file", "read-only"])
def test_a_root_that_cannot_be_used_is_told_once_and_stops_nobody(trouble, tmp_path) -> None:
    root = tmp_path / "elsewhere"
    root.write_text("mine")
    place = str(root) if trouble == "a file" else "/proc/nowhere"
    answer = hook(start("startup"), RLMNB_HOME=place)
    assert set(answer) == {"systemMessage"}
    assert answer["systemMessage"].startswith("rlmnb: this session is not recorded: ")
    assert place in answer["systemMessage"]
    assert hook(payload("UserPromptSubmit"), RLMNB_HOME=place) == SILENT
    assert root.read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RLMNB_ACTIVATION", "sometimes"),
        ("RLMNB_REDACT_ENTROPY", "perhaps"),
        ("RLMNB_LARGEST_STATE", "2 GB"),
    ],
)
def test_a_setting_that_means_nothing_is_told(name: str, value: str) -> None:
    answer = hook(start("startup"), **{name: value})
    assert name in answer["systemMessage"]
    assert Session.open(SESSION).state.lifecycle.phase == "running"


def test_a_file_of_globs_that_cannot_be_read_is_told() -> None:
    Path(".rlmnbignore").mkdir()
    assert ".rlmnbignore" in hook(start("startup", cwd=str(Path.cwd())))["systemMessage"]


def test_two_clients_in_one_project_hear_of_each_other_once(living: int) -> None:
    cwd = str(Path.cwd())
    assert hook(start("startup", OTHER, cwd=cwd), living) == SILENT
    said = hook(start("startup", cwd=cwd))["systemMessage"]
    assert "another session records this project now (16e49658)" in said
    assert hook(start("compact", cwd=cwd)) == SILENT
    assert hook(start("startup", "elsewhere", cwd="/")) == SILENT


def test_a_client_behind_a_shell_is_known_by_its_own_process() -> None:
    code = "from rlmnb.recording.clients import client_pid; print(client_pid({}))"
    command = f"{shlex.quote(sys.executable)} -c {shlex.quote(code)}"
    for shell in (f"{command}; true", f"exec {command}"):
        done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=True)
        assert int(done.stdout) == os.getpid()


def test_a_client_that_is_gone_is_not_another() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    cwd = str(Path.cwd())
    hook(start("startup", OTHER, cwd=cwd), gone.pid)
    assert hook(start("startup", cwd=cwd)) == SILENT


def test_a_cleared_session_names_the_one_before_it(living: int) -> None:
    hook(start("startup"), living)
    hook(payload("SessionEnd", reason="clear"), living)
    hook(payload("SessionStart.clear", session_id=OTHER), living)
    assert about(OTHER).parent_session_id == SESSION
    assert about(OTHER).forked_from is None
    assert about(SESSION).ended_at is not None


def test_a_resumed_or_compacted_session_is_the_same_one(living: int) -> None:
    hook(start("startup"), living)
    for name in ("SessionStart.resume", "SessionStart.compact"):
        hook(payload(name), living)
    assert (about().parent_session_id, about().forked_from) == (None, None)
    assert Session.open(SESSION).state.lifecycle.phase == "post_compact"


def test_a_fork_in_the_same_client_names_its_parent_and_the_last_cell(living: int) -> None:
    hook(start("startup"), living)
    hook(payload("PostToolUse.Read"), living)
    (cell,) = Session.open(SESSION).cells
    hook(start("fork", OTHER), living)
    assert about(OTHER).parent_session_id == SESSION
    origin = about(OTHER).forked_from
    assert (origin.session_id, origin.cell_id) == (SESSION, cell.cell_id)


def test_a_client_that_resumes_and_goes_on_under_another_id_has_forked(living: int) -> None:
    hook(start("startup"))
    hook(payload("PostToolUse.Read"))
    hook(payload("SessionEnd"))
    hook(start("resume"), living)
    hook(payload("UserPromptSubmit", session_id=OTHER), living)
    assert about(OTHER).forked_from.session_id == SESSION
    assert about(SESSION).ended_at is not None
    assert about(OTHER).title == payload("UserPromptSubmit")["prompt"]


def test_a_fork_in_a_new_client_is_known_by_its_transcript_and_not_charged_for_its_parent() -> None:
    ours, theirs = Path.cwd() / f"{OTHER}.jsonl", Path.cwd() / f"{SESSION}.jsonl"
    transcript(theirs, ("m1", "big", 10, 1))
    record = {"uuid": "u1", "timestamp": "2020-01-01T00:00:00.000Z"}
    repeated = {**json.loads(theirs.read_text()), **record}
    theirs.write_text(json.dumps(repeated, separators=(",", ":")) + "\n")
    hook(payload("UserPromptSubmit", transcript_path=str(theirs)))
    hook(payload("Stop", transcript_path=str(theirs)))
    hook(start("fork", OTHER, transcript_path=str(ours)))
    ours.write_text(theirs.read_text())
    transcript(ours, ("m2", "big", 5, 5))
    hook(payload("Stop", session_id=OTHER, transcript_path=str(ours)))
    assert about(OTHER).parent_session_id == SESSION
    assert about(OTHER).forked_from.cell_id == Session.open(SESSION).cells[-1].cell_id
    assert Session.open(OTHER).state.budget.total_tokens_used == 10
    assert Session.open(SESSION).state.budget.total_tokens_used == 11


def test_what_the_agent_has_on_its_list_is_the_decision_behind_its_calls() -> None:
    hook(payload("UserPromptSubmit"))
    hook(payload("PostToolUse.TaskCreate"))
    busy = {"taskId": "1", "status": "in_progress"}
    hook(payload("PostToolUse.TaskUpdate", tool_use_id="u1", tool_input=busy))
    hook(payload("PostToolUse.Read"))
    hook(payload("PostToolUse.TaskUpdate"))
    hook(payload("PostToolUse.Bash"))
    plan = {"plan": "# Move the parser\nfirst this"}
    hook(payload("PostToolUse.Bash", tool_name="ExitPlanMode", tool_input=plan, tool_use_id="p"))
    _, *cells = Session.open(SESSION).cells
    assert [cell.record.trace.decision for cell in cells] == [
        "try it", "try it", "try it", None, None, "Move the parser",
    ]  # fmt: skip
