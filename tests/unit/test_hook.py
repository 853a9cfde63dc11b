"""What an agent does becomes cells, and the agent never notices."""

from __future__ import annotations

import io
import json
import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nbformat
import pytest

import rlmnb
from rlmnb import Session, hook
from rlmnb.capture.events import heard, read_event
from rlmnb.files import Lock, polls
from rlmnb.installing import EVENTS, arguments, hook_entry, plugin_hooks
from rlmnb.kernel.tools import Tools
from rlmnb.store import checkpoints
from rlmnb.store.layout import session_place
from rlmnb.views import text_of
from tests.conftest import assert_valid, notebook_of

PAYLOADS = Path(__file__).parents[1] / "payloads"
NAMES = sorted(path.stem for path in PAYLOADS.glob("*.json"))
SESSION = "2716cb5d-b734-481a-9773-73662899a6d1"


def payload(name: str, **changes: Any) -> dict[str, Any]:
    whole = json.loads((PAYLOADS / f"{name}.json").read_text(encoding="utf-8"))
    return {**whole, "session_id": SESSION, **changes}


@pytest.fixture
def feed(monkeypatch, capsys):
    """Give one payload to the hook in this process; nothing may come out."""

    def call(given: Any, *arguments: str) -> None:
        data = given if isinstance(given, bytes) else json.dumps(given).encode()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        monkeypatch.setattr(hook, "_STARTED", time.perf_counter())
        assert hook.main(list(arguments)) == 0
        shown = capsys.readouterr()
        assert (shown.out, shown.err) == ("", "")

    return call


def cells(session: str = SESSION) -> list[Any]:
    return list(Session.open(session).cells)


def failures() -> list[str]:
    path = Path(os.environ["RLMNB_HOME"]) / ".hooks" / "failures"
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


@pytest.mark.parametrize("name", NAMES)
def test_every_real_payload_is_taken_in(name, feed):
    feed(payload(name))
    assert failures() == []
    if notebook_of(SESSION).exists():
        Session.open(SESSION)
        assert_valid(notebook_of(SESSION))


@pytest.mark.parametrize(
    ("name", "source", "shown"),
    [
        ("Read", "tools.Read(file_path='/home/dev/project/README.md')", "# demo\nalpha\n"),
        ("Bash", "tools.Bash(command='sleep 1; echo B', description='second')", "B"),
        ("Glob", "tools.Glob(pattern='**/*.txt')", "data.txt"),
        (
            "Grep",
            "tools.Grep(pattern='alpha', path='/home/dev/project', output_mode='content')",
            "README.md:2:alpha\ndata.txt:1:alpha beta",
        ),
        (
            "Edit",
            (
                "tools.Edit(file_path='/home/dev/project/new.txt', old_string='two', "
                "new_string='TWO', replace_all=False)"
            ),
            "/home/dev/project/new.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+TWO",
        ),
        (
            "Write",
            "tools.Write(file_path='/home/dev/project/new.txt', content='one\\ntwo\\n')",
            "/home/dev/project/new.txt\n2 lines written",
        ),
    ],
)
def test_a_call_becomes_code_that_makes_it_again(name, source, shown, feed):
    feed(payload(f"PostToolUse.{name}"))
    (cell,) = cells()
    assert cell.source == source
    assert text_of(cell.outputs).rstrip("\n") == shown.rstrip("\n")
    assert cell.type == "tool"
    assert cell.record.input.operation == name
    assert cell.record.input.args == payload(f"PostToolUse.{name}")["tool_input"]
    assert cell.record.tool_use_id == payload(f"PostToolUse.{name}")["tool_use_id"]
    assert cell.record.output.execution_time_ms == payload(f"PostToolUse.{name}")["duration_ms"]


def test_a_turn_reads_as_a_story(feed):
    for name in ("SessionStart.startup", "UserPromptSubmit", "PostToolUse.Read", "Stop"):
        feed(payload(name))
    prompt, call, answer = cells()
    assert (prompt.type, answer.type) == ("markdown", "markdown")
    assert "> SCENARIO:tools go" in prompt.source
    assert answer.source == "All done."
    assert call.record.trace.goal == "SCENARIO:tools go"
    state = Session.open(SESSION).state
    assert state.session.title == "SCENARIO:tools go"
    assert state.session.transcript_path.endswith(".jsonl")
    feed(payload("SessionEnd"))
    assert Session.open(SESSION).state.session.ended_at is not None
    feed(payload("SessionStart.resume"))
    assert Session.open(SESSION).state.session.ended_at is None
    feed(payload("UserPromptSubmit", prompt="<task-notification>x</task-notification>"))
    assert len(cells()) == 3


def test_failures_keep_the_agents_own_words(feed):
    feed(payload("PostToolUseFailure.Bash"))
    (cell,) = cells()
    assert cell.status == "failed"
    assert cell.outputs[0]["evalue"] == "Exit code 3\nto-stdout\nto-stderr"


def test_files_have_their_versions_before_and_after_and_reads_depend_on_writes(feed):
    cwd = str(Path.cwd())
    path = f"{cwd}/new.txt"
    write = {"tool_name": "Write", "tool_input": {"file_path": path, "content": "x"}, "cwd": cwd}
    feed(payload("PreToolUse.Write", tool_use_id="w1", **write))
    Path(path).write_text("x")
    feed(payload("PostToolUse.Write", tool_use_id="w1", **write))
    feed(payload("PostToolUse.Read", tool_use_id="r1", tool_input={"file_path": path}, cwd=cwd))
    named = {"command": f"cat {path} && cat nosuch"}
    feed(payload("PostToolUse.Bash", tool_use_id="b1", tool_input=named, cwd=cwd))
    first, read, bash = cells()
    version = first.record.files_written[path]
    assert version.before == "missing"
    assert version.hash == read.record.files_read[path].hash
    assert list(bash.record.files_read) == [path]
    assert [edge.cell_id for edge in read.record.dependencies] == [first.cell_id]
    assert [edge.cell_id for edge in bash.record.dependencies] == [first.cell_id]
    assert read.record.dependencies[0].reason == "file new.txt"
    assert not Session.open(SESSION).stale
    Path(path).write_text("changed")
    assert [Session.open(SESSION).cell(each).number for each in Session.open(SESSION).stale] == [
        2,
        3,
    ]


def test_each_call_is_there_once_whoever_tells_of_it_and_in_the_order_of_the_batch(feed):
    told = [
        {"tool_name": "Read", "tool_input": {"file_path": f"/f{n}"}, "tool_use_id": f"t{n}",
         "tool_response": f"{n}"}
        for n in range(4)
    ]  # fmt: skip
    for number in (2, 0, 3):  # they end in another order, and the second fires nothing
        call = {**told[number]}
        feed(payload("PostToolUse.Read", **call))
        feed(payload("PostToolUse.Read", **call))
    feed(payload("PostToolBatch", tool_calls=told))
    feed(payload("PostToolBatch", tool_calls=told))
    assert [cell.record.tool_use_id for cell in cells()] == ["t0", "t1", "t2", "t3"]
    assert_valid(notebook_of(SESSION))


def test_sub_agents_stand_below_their_call(feed):
    for name in ("PreToolUse.Agent", "SubagentStart", "PostToolUse.Read.subagent", "SubagentStop"):
        feed(payload(name))
    feed(payload("PostToolUse.Agent", tool_use_id=payload("PreToolUse.Agent")["tool_use_id"]))
    agent, inner = cells()
    assert agent.record.status == "completed"
    assert "subagent says: alpha beta" in text_of(agent.outputs)
    assert inner.record.parent_id == agent.cell_id
    assert agent.record.evidence == [inner.cell_id]


def test_compaction_keeps_a_checkpoint_and_the_summary(feed):
    feed(payload("PostToolUse.Read"))
    Session.open(SESSION)
    before = notebook_of(SESSION).read_bytes()
    feed(payload("PreCompact"))
    feed(payload("PostCompact"))
    place = Session.open(SESSION).place
    (kept,) = checkpoints.all_kept(place)
    assert checkpoints.contents(place, kept["name"]) == before
    assert "a scripted summary" in cells()[-1].source
    assert Session.open(SESSION).state.lifecycle.phase == "post_compact"


def transcript(path: Path, *messages: tuple[str, str, int, int]) -> None:
    with path.open("a", encoding="utf-8") as file:
        for name, model, given, made in messages:
            usage = {"input_tokens": given, "output_tokens": made, "cache_read_input_tokens": 5}
            message = {"role": "assistant", "id": name, "model": model, "usage": usage}
            file.write(json.dumps({"type": "assistant", "message": message}) + "\n")


def test_usage_is_counted_once_for_each_message(feed):
    path = Path.cwd() / "transcript.jsonl"
    transcript(path, ("m1", "big", 10, 1), ("m1", "big", 10, 3), ("m2", "small", 7, 1))
    feed(payload("Stop", transcript_path=str(path)))
    feed(payload("Stop", transcript_path=str(path)))
    transcript(path, ("m1", "big", 10, 4), ("m3", "big", 1, 1))
    feed(payload("Stop", transcript_path=str(path)))
    budget = Session.open(SESSION).state.budget
    assert budget.total_tokens_used == 14 + 8 + 2
    assert (budget.by_model["big"].calls, budget.by_model["big"].tokens) == (2, 16)
    assert budget.by_model["small"].cost_usd is None


def test_what_was_said_before_a_call_is_why_it_was_made(feed):
    path = Path.cwd() / "transcript.jsonl"
    said = {"type": "text", "text": "I look at the readme first."}
    call = {"type": "tool_use", "id": payload("PostToolUse.Read")["tool_use_id"], "name": "Read"}
    message = {"role": "assistant", "content": [said, call]}
    path.write_text(json.dumps({"type": "assistant", "message": message}) + "\n")
    feed(payload("UserPromptSubmit"))
    feed(payload("PostToolUse.Read"))
    feed(payload("Stop", transcript_path=str(path)))
    trace = cells()[1].record.trace
    assert trace.rationale == "I look at the readme first."
    assert trace.goal == "SCENARIO:tools go"


@pytest.mark.parametrize("kind", ["missing", "fifo", "link", "directory"])
def test_a_strange_transcript_harms_nothing(kind, feed, tmp_path):
    path = tmp_path / "strange"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to("/etc/passwd")
    elif kind == "directory":
        path.mkdir()
    feed(payload("Stop", transcript_path=str(path)))
    assert cells()[-1].source == "All done."


def test_tools_nobody_has_heard_of_and_odd_arguments(feed):
    odd = {"-i": True, "class": 1, "ok": [1, None, {"a b": 2.5}]}
    feed(
        payload("PostToolUse.Read", tool_name="mcp__my-db__query", tool_input=odd, tool_use_id="a")
    )
    feed(payload("PostToolUse.Read", tool_name="Hologram", tool_input={"x": 1}, tool_use_id="b"))
    feed(payload("PostToolUse.Read", hook_event_name="SomethingNew", tool_use_id="c", extra=[1]))
    first, second, third = cells()
    assert first.source == (
        "tools.call('mcp__my-db__query', ok=[1, None, {'a b': 2.5}], **{'-i': True, 'class': 1})"
    )
    assert second.source == "tools.Hologram(x=1)"
    assert third.type == "markdown"
    assert "SomethingNew" in third.source
    for cell in (first, second):
        compile(cell.source, "cell", "exec")


def test_long_texts_are_kept_whole_and_named(feed):
    content = "".join(f"line {n}\n" for n in range(5000))
    feed(payload("PostToolUse.Write", tool_input={"file_path": "/f", "content": content}))
    response = {"stdout": content, "stderr": "", "interrupted": False, "isImage": False}
    feed(payload("PostToolUse.Bash", tool_use_id="b", tool_response=response))
    write, bash = cells()
    assert len(write.source) < 300
    name = write.record.input.args["content"]["object"]
    assert f"tools.kept('{name}')" in write.source
    assert Session.open(SESSION).objects.get(name).decode() == content
    shown = text_of(bash.outputs)
    assert "line 0\n" in shown
    assert "line 4999" in shown
    assert "lines left out" in shown
    (kept,) = bash.record.output.objects
    assert Session.open(SESSION).objects.get(kept.object).decode() == content


def test_two_prompts_of_one_turn_are_both_kept_and_one_told_twice_is_not(feed) -> None:
    for text in ("first", "first", "typed while it worked"):
        feed(payload("UserPromptSubmit", prompt=text, prompt_id="p1"))
    assert [cell.source for cell in cells()] == ["> first", "> typed while it worked"]


def test_a_document_and_a_notebook_read_are_shown_as_a_replay_shows_them(
    feed, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pages = {"filePath": "d.pdf", "base64": "JVBERg==", "originalSize": 4}
    (tmp_path / "d.pdf").write_bytes(b"%PDF")
    feed(
        payload("PostToolUse.Read", tool_use_id="one", tool_response={"type": "pdf", "file": pages})
    )
    code = {"cell_type": "code", "id": "c1", "source": ["print(1)\n", "2"], "metadata": {}}
    code["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["1\n"]}]
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": [code], "nbformat": 4}))
    told = {"cellType": "code", "source": "print(1)\n2", "cell_id": "c1", "language": "python"}
    told["outputs"] = [{"output_type": "stream", "text": "1\n"}]
    whole = {"type": "notebook", "file": {"filePath": "a.ipynb", "cells": [told]}}
    feed(payload("PostToolUse.Read", tool_use_id="two", tool_response=whole))
    document, notebook = (cell.outputs[0]["data"] for cell in cells())
    assert document["application/pdf"] == "JVBERg=="
    assert document["text/plain"] == [repr(Tools().Read(file_path="d.pdf"))]
    assert "".join(notebook["text/plain"]) == "code c1\nprint(1)\n2\n\n1"
    assert repr(Tools().Read(file_path="a.ipynb")) == "".join(notebook["text/plain"])


def test_pictures_and_output_that_the_client_kept_elsewhere(feed, tmp_path):
    picture = {"base64": "iVBORw0KGgo=", "type": "image/png", "originalSize": 8}
    feed(payload("PostToolUse.Read", tool_response={"type": "image", "file": picture}))
    (tmp_path / "whole.txt").write_text("all of it\x1b[31m red")
    cut = {"stdout": "all", "persistedOutputPath": str(tmp_path / "whole.txt")}
    feed(payload("PostToolUse.Bash", tool_use_id="b", tool_response=cut))
    first, second = cells()
    assert first.outputs[0]["data"]["image/png"] == "iVBORw0KGgo="
    assert text_of(second.outputs).startswith("all of it\x1b[31m red")
    nbformat.validate(nbformat.read(notebook_of(SESSION), 4))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"   ",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"hook_event_name": 5}',
        b'{"hook_event_name": "PostToolUse"}',
        b'{"hook_event_name": "PostToolUse", "session_id": "../../etc"}',
        b'{"hook_event_name": "PostToolUse", "session_id": "a\\u0000b"}',
        b'{"hook_event_name": "PostToolUse", "session_id": "' + b"x" * 1000 + b'"}',
        b"\xff\xfe not text",
        b'{"a":' * 5000,
    ],
)
def test_what_is_no_event_is_noted_and_nothing_else(data, feed, run_json):
    feed(data)
    assert len(failures()) == 1
    told = run_json("doctor", "--hooks", code=1)
    assert told["failures"][0]["count"] == 1
    assert "p50_ms" in told


def mutated(value: Any, chance: random.Random) -> Any:
    """Return a payload with something in it that should not be there."""
    if chance.random() < 0.04:
        return chance.choice(
            [None, True, -1, 1e308, "", "\ud800", "x" * 3000, [], {}, [[]], {"": None}, "../..",
             "\x00", {"file_path": 5}, ["a"] * 50]
        )  # fmt: skip
    if isinstance(value, dict):
        changed = {key: mutated(item, chance) for key, item in value.items()}
        if changed and chance.random() < 0.1:
            del changed[chance.choice(list(changed))]
        return changed
    return [mutated(item, chance) for item in value] if isinstance(value, list) else value


def test_whatever_comes_the_hook_ends_well_and_the_notebook_is_valid(feed):
    chance = random.Random(int(os.environ.get("RLMNB_FUZZ_SEED", "0")))
    count = int(os.environ.get("RLMNB_FUZZ", "600"))
    for number in range(count):
        given = mutated(payload(chance.choice(NAMES), tool_use_id=f"t{number}"), chance)
        if chance.random() < 0.8 and isinstance(given, dict):
            given["session_id"] = f"{SESSION}-{number % 7}"
        data = json.dumps(given).encode()
        feed(data[: chance.randrange(len(data))] if chance.random() < 0.05 else data)
    wrong = [line for line in failures() if not line.split("\t")[2].startswith(
        ("ValueError", "InvalidNameError", "InvalidCellError", "JSONDecodeError"))]  # fmt: skip
    assert wrong == []
    for number in range(7):
        Session.open(f"{SESSION}-{number}")
        assert_valid(notebook_of(f"{SESSION}-{number}"))


def run_hook(data: bytes, **environ: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "rlmnb.hook"],
        input=data,
        capture_output=True,
        env={**os.environ, **environ},
        timeout=60,
        check=False,
    )


def test_a_hundred_hooks_at_once_lose_nothing():
    def one(number: int) -> int:
        given = payload("PostToolUse.Read", tool_use_id=f"t{number}")
        return run_hook(json.dumps(given).encode()).returncode

    with ThreadPoolExecutor(20) as pool:
        assert set(pool.map(one, range(100))) == {0}
    found = [cell.record.tool_use_id for cell in cells()]
    assert sorted(found) == sorted(f"t{number}" for number in range(100))
    assert_valid(notebook_of(SESSION))


def test_nobody_waits_for_a_large_event_and_it_is_kept():
    run_hook(json.dumps(payload("SessionStart.startup")).encode())
    long = payload("PostToolUse.Bash")
    long["tool_response"]["stdout"] = "all is well\n" * 200_000
    place = Session.open(SESSION).place
    with Lock(place.journal, timeout=10):
        # While nothing at all can be written, the agent is let go on.
        done = run_hook(json.dumps(long).encode())
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert any(
        long["tool_use_id"] in Path(place.journal).read_text(encoding="utf-8") for _ in polls(30)
    )
    (cell,) = [each for each in Session.open(SESSION).cells() if each.type == "tool"]
    assert cell.record.tool_use_id == long["tool_use_id"]
    assert failures() == []


def test_a_real_process_is_silent_and_light():
    listed = (
        "import sys; sys.argv = ['x']; from rlmnb import hook; hook.main([]); "
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", listed],
        input=json.dumps(payload("PostToolUse.Read")).encode(),
        capture_output=True,
        check=True,
    )
    assert done.stdout == b""
    modules = set(done.stderr.decode().split())
    heavy = {"json", "pydantic", "nbformat", "asyncio", "subprocess", "ast", "typing"}
    assert modules & heavy == set()
    assert len(cells()) == 1


@pytest.mark.parametrize("trouble", ["no home", "read-only", "a file", "off"])
def test_an_agent_is_never_harmed(trouble, tmp_path):
    data = json.dumps(payload("PostToolUse.Read")).encode()
    root = tmp_path / "elsewhere"
    environ = {"RLMNB_HOME": str(root)}
    if trouble == "no home":
        environ = {"RLMNB_HOME": "", "HOME": "/proc/nonexistent"}
    elif trouble == "read-only":
        environ = {"RLMNB_HOME": "/proc/nowhere"}
    elif trouble == "a file":
        root.write_text("mine")
    else:
        environ["RLMNB_OFF"] = "1"
    done = run_hook(data, **environ)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    if trouble == "a file":
        assert root.read_text() == "mine"
    if trouble == "off":
        assert not (root / SESSION).exists()


def test_a_broken_notebook_keeps_the_call_in_the_journal(feed):
    feed(payload("PostToolUse.Read", tool_use_id="a"))
    whole = notebook_of(SESSION).read_text()
    notebook_of(SESSION).write_text(whole[: len(whole) // 2])
    feed(payload("PostToolUse.Bash", tool_use_id="b"))
    assert '"b"' in notebook_of(SESSION).with_name("journal.jsonl").read_text()


def test_other_agents_are_a_table(feed):
    gemini = {
        "hook_event_name": "AfterTool",
        "session_id": SESSION,
        "cwd": "/",
        "tool_name": "read_file",
        "tool_input": {"absolute_path": "/etc/hostname"},
        "tool_response": {"llmContent": "x"},
    }
    feed(gemini, "--agent", "gemini")
    codex = payload("PostToolUse.Bash", tool_name="shell")
    codex["call_id"] = codex.pop("tool_use_id")
    feed(codex, "--agent", "codex")
    first, second = cells()
    assert first.source == "tools.Read(file_path='/etc/hostname')"
    assert second.record.input.operation == "Bash"
    assert second.record.tool_use_id == codex["call_id"]


def test_the_plugin_says_what_is_installed():
    root = Path(__file__).parents[2]
    assert json.loads((root / "hooks" / "hooks.json").read_text()) == plugin_hooks()
    assert json.loads((root / ".claude-plugin" / "plugin.json").read_text())["name"] == "rlmnb"
    done = subprocess.run(
        [sys.executable, "-I", str(root / "hooks" / "run.py")],
        input=json.dumps(payload("PostToolUse.Read")).encode(),
        capture_output=True,
        env={**os.environ, "CLAUDE_PLUGIN_DATA": str(Path.cwd() / "data")},
        check=True,
    )
    assert done.stdout == b""
    assert len(cells()) == 1
    assert list(Path("data/pycache").rglob("*.pyc"))


@pytest.mark.parametrize(
    ("system", "there"),
    [
        ("", {"python3": "exec {python} {given}"}),
        ("Windows_NT", {"py": "exec {python} {after}", "python3": "exit 49"}),
        ("Windows_NT", {"py": "exit 103", "python": "exec {python} {given}"}),
        ("Windows_NT", {"python": "echo a shop >&2; exit 49", "python3": "exec {python} {given}"}),
    ],
)
def test_the_plugin_finds_the_python_that_is_there(tmp_path, system, there):
    names = tmp_path / "bin"
    names.mkdir()
    for name, line in there.items():
        given = line.format(python=sys.executable, given='"$@"', after='"${@:2}"')
        (names / name).write_text(f"#!/bin/bash\n{given}\n")
        (names / name).chmod(0o755)
    entry = plugin_hooks()["hooks"]["PostToolUse"][0]["hooks"][0]
    plugin = str(Path(__file__).parents[2])
    done = subprocess.run(
        ["/bin/sh", "-c", entry["command"].replace("${CLAUDE_PLUGIN_ROOT}", plugin)],
        input=json.dumps(payload("PostToolUse.Read")).encode(),
        capture_output=True,
        env={"PATH": str(names), "OS": system, "RLMNB_HOME": os.environ["RLMNB_HOME"],
             "CLAUDE_PLUGIN_DATA": str(tmp_path / "data")},
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert len(cells()) == 1


def test_installing_keeps_what_others_put_there(run, run_json, monkeypatch, tmp_path):
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    path = tmp_path / "claude" / "settings.json"
    path.parent.mkdir()
    theirs = {
        "model": "x",
        "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]},
    }
    path.write_text(json.dumps(theirs))
    path.chmod(0o640)
    shown = run("hooks", "install")
    assert shown.returncode == 1
    assert "+" in shown.stdout
    assert json.loads(path.read_text()) == theirs
    assert run("hooks", "status").returncode == 1
    assert run_json("hooks", "install", "--yes")["changed"] is True
    settings = json.loads(path.read_text())
    assert settings["model"] == "x"
    assert settings["hooks"]["Stop"][0] == theirs["hooks"]["Stop"][0]
    ours = settings["hooks"]["Stop"][1]["hooks"][0]
    assert ours["command"].endswith("; from rlmnb.hook import run; run()'")
    assert settings["hooks"]["SessionEnd"][0]["hooks"][0]["timeout"] == 10
    assert path.stat().st_mode & 0o777 == 0o640
    assert run_json("hooks", "install", "--yes")["changed"] is False
    assert run_json("hooks", "status")["installed"]["user"] is True
    assert run_json("hooks", "uninstall", "--yes")["changed"] is True
    assert json.loads(path.read_text()) == theirs
    path.write_text("{ not json")
    assert run("hooks", "install", "--yes").returncode == 3
    assert path.read_text() == "{ not json"


def test_a_hook_without_a_shell_takes_the_event_in_as_well(run_json, monkeypatch, tmp_path):
    entry = hook_entry(5, windows=True)
    done = subprocess.run(
        [entry["command"], *entry["args"]],
        input=json.dumps(payload("PostToolUse.Read")).encode(),
        capture_output=True,
        check=True,
    )
    assert (done.stdout, done.stderr, len(cells())) == (b"", b"", 1)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"hooks": {"Stop": [{"hooks": [entry]}]}}))
    assert run_json("hooks", "uninstall", "--yes")["changed"] is True
    assert json.loads(path.read_text()) == {}


def test_an_installed_hook_loads_what_its_call_needs_and_no_more(feed):
    feed(payload("PostToolUse.Read"))
    loaded = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments()],
        input=json.dumps(payload("PostToolUse.Bash", tool_response={"stdout": "ok"})).encode(),
        capture_output=True,
        check=True,
    ).stderr.decode()
    names = {line.rpartition("|")[2].strip() for line in loaded.splitlines()}
    assert {"rlmnb.hook", "rlmnb.recording.calls", "rlmnb.store.fold"} <= names
    assert not names & {"site", "re", "json", "typing", "hashlib", "subprocess", "rlmnb.processes"}
    assert not names & {"rlmnb.capture.complexity", "rlmnb.recording.answers", "rlmnb.store.byhand"}
    assert len(cells()) == 2


def test_a_hook_whose_package_has_moved_since_finds_it_among_all_that_is_installed():
    *flags, code = arguments()
    gone = code.replace(str(Path(rlmnb.__file__).parents[1]), str(Path.cwd() / "gone"))
    assert gone != code
    done = subprocess.run(
        [sys.executable, *flags, gone],
        input=json.dumps(payload("PostToolUse.Read")).encode(),
        capture_output=True,
    )
    assert (done.returncode, done.stdout, done.stderr, len(cells())) == (0, b"", b"", 1)


def test_nothing_of_an_ignored_file_is_kept(feed):
    cwd = str(Path.cwd())
    Path(".rlmnbignore").write_text("*.env\n")
    Path("prod.env").write_text("the contents")
    call = {"file_path": f"{cwd}/prod.env"}
    answer = {"type": "text", "file": {"content": "the contents"}}
    feed(payload("PreToolUse.Read", tool_use_id="a", tool_input=call, cwd=cwd))
    feed(
        payload("PostToolUse.Read", tool_use_id="a", tool_input=call, tool_response=answer, cwd=cwd)
    )
    wrote = {**call, "content": "the contents"}
    feed(payload("PostToolUse.Write", tool_use_id="b", tool_input=wrote, cwd=cwd))
    read, write = cells()
    assert read.source == "tools.call('Read', withheld=['prod.env'])"
    assert write.record.input.args is None
    for path in Path(os.environ["RLMNB_HOME"]).rglob("*"):
        assert path.is_dir() or b"the contents" not in path.read_bytes()


def test_no_secret_is_anywhere_under_the_root(feed):
    secrets = [
        "ghp" + "_" + "a1B2c3D4e5" * 3 + "F6g7H8",
        "AKIA" + "Z7QX" * 4,
        "sk-ant-" + "api03-" + "x9Y8z7W6v5" * 5,
        "xoxb-" + "123456789012-" + "aBcDeFgHiJkLmNoPqRsTuVwX",
    ]
    for number, secret in enumerate(secrets):
        command = {"command": f"curl -H 'Authorization: Bearer {secret}' https://x", "n": number}
        answer = {"stdout": f"token={secret}\n" * 2000, "stderr": ""}
        feed(payload("PreToolUse.Bash", tool_use_id=f"s{number}", tool_input=command))
        done = {"tool_use_id": f"s{number}", "tool_input": command, "tool_response": answer}
        feed(payload("PostToolUse.Bash", **done))
        feed(payload("UserPromptSubmit", prompt=f"use {secret}", prompt_id=str(number)))
    assert len(cells()) == 2 * len(secrets)
    for path in Path(os.environ["RLMNB_HOME"]).rglob("*"):
        data = b"" if path.is_dir() else path.read_bytes()
        assert not [secret for secret in secrets if secret.encode() in data], path


def test_the_status_line(feed, run):
    feed(payload("PostToolUse.Read"))
    shown = run("statusline", input=json.dumps({"session_id": SESSION}))
    assert shown.stdout.startswith("rlmnb: 1 cell")
    assert run("statusline", input="nonsense{").returncode == 0
    told = {"session_id": SESSION, "cost": {"total_cost_usd": 1.25}}
    assert run("statusline", input=json.dumps(told)).stdout.endswith(", $1.25\n")


def test_a_session_that_is_over_has_all_in_its_notebook_and_one_that_goes_on_is_sound(feed, run):
    for name in ("SessionStart.startup", "UserPromptSubmit", "PreToolUse.Agent", "Stop"):
        feed(payload(name))
    assert run("verify", SESSION).returncode == 0
    assert run("doctor").returncode == 0
    feed(payload("PostToolUse.Agent", tool_use_id=payload("PreToolUse.Agent")["tool_use_id"]))
    feed(payload("SessionEnd"))
    whole = json.loads(notebook_of(SESSION).read_text())
    assert whole["metadata"]["rlmnb"]["session"]["ended_at"]
    assert whole["cells"][1]["metadata"]["rlmnb"]["status"] == "completed"


def test_a_refusal_is_told_without_the_tag_around_it(feed):
    told = "<tool_use_error>Error: No such tool available: X</tool_use_error>"
    refused = {"tool_name": "X", "tool_input": {}, "tool_use_id": "x1", "tool_response": told}
    feed(payload("PostToolBatch", tool_calls=[refused]))
    assert cells()[0].record.output.error == "No such tool available: X"


def test_a_payload_may_begin_with_the_mark_of_its_encoding(feed):
    feed(b"\xef\xbb\xbf" + json.dumps(payload("PostToolUse.Read")).encode())
    assert len(cells()) == 1


def test_a_prompt_is_kept_to_the_letter(feed):
    feed(payload("UserPromptSubmit", prompt="one\u2028two\x0cthree\n\nfour\r\nfive\n"))
    assert cells()[0].source == "> one\u2028two\x0cthree\n>\n> four\n> five"


def call(feed, tool: str, given: Any, answer: Any, **more: Any) -> Any:
    """Let a tool be called, with both of its events, and return its cell."""
    name = f"call-{len(more)}-{os.urandom(4).hex()}"
    told = {"tool_name": tool, "tool_input": given, "tool_use_id": name, "cwd": str(Path.cwd())}
    extra = {key: value for key, value in more.items() if key != "meanwhile"}
    feed(payload("PreToolUse.Bash", **told, **extra))
    more.get("meanwhile", lambda: None)()
    feed(payload("PostToolUse.Bash", **told, tool_response=answer, **extra))
    return next(cell for cell in cells() if cell.record and cell.record.tool_use_id == name)


@pytest.mark.parametrize(
    ("tool", "answer", "wanted"),
    [
        ("Bash", {"output": "under a new name", "exitCode": 0}, "under a new name"),
        ("Bash", {"stdout": ["a", "list"], "stderr": None}, "list"),
        ("Bash", {"stdout": "", "stderr": "", "backgroundTaskId": "b7x"}, "backgroundTaskId: b7x"),
        ("PowerShell", {"stdout": "one\ntwo", "stderr": ""}, "one\ntwo"),
        ("mcp__a__b", [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}], "x\ny"),
        ("mcp__a__b", {"content": [{"type": "text", "text": "x"}], "isError": False}, "x"),
        ("mcp__a__b", [{"type": "resource", "uri": "file:///q"}], "file:///q"),
        ("NotebookEdit", {"message": "another shape"}, "another shape"),
    ],
)
def test_an_answer_of_another_shape_is_shown_and_not_lost(tool, answer, wanted, feed):
    shown = text_of(call(feed, tool, {}, answer).outputs).removesuffix("\n")
    assert wanted in shown
    if "\n" in wanted or wanted == "x":
        assert shown == wanted


def test_pictures_in_an_answer_are_pictures(feed):
    one = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
    two = {"type": "image", "data": "BB==", "mimeType": "image/jpeg"}
    cell = call(feed, "mcp__a__look", {}, [{"type": "text", "text": "two of them"}, one, two])
    first, second = cell.outputs
    assert first["data"] == {"image/png": "AA==", "text/plain": ["two of them"]}
    assert second["data"] == {"image/jpeg": "BB=="}
    assert_valid(notebook_of(SESSION))


@pytest.mark.parametrize("given", ["as text", ["as", "list"], 7])
def test_what_a_tool_was_given_is_kept_whatever_it_is(given, feed):
    cell = call(feed, "Freeform", given, "done")
    assert cell.source == f"tools.Freeform(input={given!r})"
    assert cell.record.input.args == {"input": given}


def test_the_code_of_a_call_can_be_run_whatever_its_names_are(feed):
    def refused(source: str) -> str:
        with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is asserted below
            exec(source, {"tools": Tools()})
        return f"{type(caught.value).__name__}: {caught.value}"

    odd = {"name": "n", "self": "s", "tool": "t"}
    assert "only its agent has mcp__a-b" in refused(call(feed, "mcp__a-b", odd, "x").source)
    assert "only its agent has call" in refused(call(feed, "call", {"name": "n"}, "x").source)
    assert "only its agent has kept" in refused(call(feed, "kept", {"digest": "n"}, "x").source)
    huge = b'{"a": 1e999, "b": -1e999}'
    whole = json.dumps(payload("PostToolUse.Bash", tool_name="X-1", tool_input="IN")).encode()
    feed(whole.replace(b'"IN"', huge))
    assert "only its agent has X-1" in refused(cells()[-1].source)


def test_what_a_command_wrote_is_written_and_the_next_reader_depends_on_it(feed):
    Path("old.txt").write_text("old")
    Path("gone.txt").write_text("gone")
    Path("same.txt").write_text("same")

    def run() -> None:
        Path("old.txt").write_text("new")
        Path("two words.txt").write_text("made")
        Path("gone.txt").unlink()

    command = "sed -i s/old/new/ old.txt && cp same.txt 'two words.txt' && rm gone.txt"
    bash = call(feed, "Bash", {"command": command}, {"stdout": "", "stderr": ""}, meanwhile=run)
    read = call(feed, "Read", {"file_path": "two words.txt"}, "made")
    again = call(feed, "Bash", {"command": "cat 'two words.txt'"}, {"stdout": "made"})
    cwd = str(Path.cwd())
    written = bash.record.files_written
    assert set(written) == {f"{cwd}/{name}" for name in ("old.txt", "gone.txt", "two words.txt")}
    assert list(bash.record.files_read) == [f"{cwd}/same.txt"]
    assert written[f"{cwd}/two words.txt"].before == "missing"
    assert written[f"{cwd}/gone.txt"].hash == "missing"
    assert written[f"{cwd}/old.txt"].before.startswith("sha256:")
    for reader in (read, again):
        assert [edge.cell_id for edge in reader.record.dependencies] == [bash.cell_id]
    assert Session.open(SESSION).stale == {}


def test_a_search_and_a_tool_nobody_knows_depend_on_the_files_they_name(feed):
    given = {"file_path": "a.py", "content": "x = 1\n"}
    write = call(feed, "Write", given, "ok", meanwhile=lambda: Path("a.py").write_text("x = 1\n"))
    found = {"mode": "content", "content": "a.py:1:x = 1", "filenames": [], "numLines": 1}
    searches = [
        call(feed, "Grep", {"pattern": "x", "path": "a.py"}, "1:x = 1"),
        call(feed, "Grep", {"pattern": "x"}, {"mode": "x", "filenames": ["a.py"]}),
        call(feed, "Grep", {"pattern": "x", "output_mode": "content"}, found),
        call(feed, "mcp__fs__read", {"paths": ["a.py", "nosuch.py"]}, "x = 1"),
    ]
    for cell in searches:
        assert list(cell.record.files_read) == [str(Path("a.py").absolute())]
        assert [edge.cell_id for edge in cell.record.dependencies] == [write.cell_id]
    change = call(
        feed, "mcp__fs__put", {"to": "a.py"}, "ok", meanwhile=lambda: Path("a.py").write_text("y")
    )
    assert list(change.record.files_written) == [str(Path("a.py").absolute())]


def test_a_search_shows_nothing_of_an_ignored_file(feed):
    Path(".rlmnbignore").write_text("*.env\n")
    Path("prod.env").write_text("colour = the contents")
    found = {"mode": "content", "content": "prod.env:1:colour = the contents", "numLines": 1}
    cell = call(feed, "Grep", {"pattern": "colour", "output_mode": "content"}, found)
    assert cell.source == "tools.call('Grep', withheld=['prod.env'])"
    for path in Path(os.environ["RLMNB_HOME"]).rglob("*"):
        assert path.is_dir() or b"the contents" not in path.read_bytes()


@pytest.mark.parametrize("first", ["its call", "it"])
def test_an_agent_that_outlives_its_call_is_kept_with_what_it_came_to(first, feed):
    agent = payload("SubagentStop")["agent_id"]
    name = payload("PreToolUse.Agent")["tool_use_id"]
    launched = {"isAsync": True, "status": "async_launched", "agentId": agent, "outputFile": "/x"}
    feed(payload("PreToolUse.Agent"))
    over = payload("PostToolUse.Agent", tool_use_id=name, tool_response=launched)
    if first == "its call":
        feed(over)
    for event in ("SubagentStart", "PostToolUse.Read.subagent", "Stop", "SubagentStop"):
        feed(payload(event))
    if first == "it":
        feed(over)
    call, inner, _ = cells()
    assert text_of(call.outputs) == "subagent says: alpha beta\n"
    assert call.record.status == "completed"
    assert inner.record.parent_id == call.cell_id
    assert call.record.evidence == [inner.cell_id]


def test_a_turn_that_failed_is_over_too(feed):
    feed(payload("UserPromptSubmit"))
    feed(payload("StopFailure"))
    assert cells()[-1].source == "API Error: 400 scripted failure"
    assert Session.open(SESSION).state.lifecycle.phase == "stopped"


def test_fields_nobody_has_heard_of_are_kept(feed):
    new = {"weather": {"sky": "blue"}, "long": "x" * 20_000}
    cell = call(feed, "Bash", {"command": "true"}, {"stdout": "", "stderr": ""}, **new)
    kept = cell.record.metadata.also_told
    assert kept["weather"] == {"sky": "blue"}
    assert Session.open(SESSION).objects.get(kept["long"]["object"]) == b"x" * 20_000
    feed(payload("PreToolUse.Read", tool_use_id="only-before", before=[1]))
    feed(payload("PostToolUse.Read", tool_use_id="only-before"))
    assert cells()[-1].record.metadata.also_told == {"before": [1]}
    feed(payload("Stop", weather="fine"))
    told = json.loads(notebook_of(SESSION).read_text())["cells"][-1]["metadata"]["rlmnb_event"]
    assert told["also_told"] == {"weather": "fine"}
    feed(payload("SessionEnd", weather="bad"))
    lifecycle = Session.open(SESSION).state.lifecycle.model_dump()
    assert lifecycle["also_told"] == {"SessionEnd": {"weather": "bad"}}


@pytest.mark.parametrize("name", [name for name in NAMES if name.partition(".")[0] in EVENTS])
def test_every_field_of_a_real_payload_is_known(name):
    event = read_event(payload(name))
    assert event is not None
    assert event.others() == {}


def test_an_event_nobody_has_heard_of_is_kept_whole(feed):
    feed(payload("Stop", hook_event_name="SomethingNew", big="z" * 10_000, end="the end"))
    assert "the end" in cells()[-1].source
    feed(payload("Stop", hook_event_name="SomethingNew", big="z\n" * 50_000))
    shown = cells()[-1].source
    assert len(shown) < 20_000
    name = shown.partition("kept as ")[2].partition(" ")[0]
    assert json.loads(Session.open(SESSION).objects.get(name))["big"] == "z\n" * 50_000


def test_long_errors_and_what_agents_say_at_length_go_to_the_objects(feed):
    long = "".join(f"line {n}\n" for n in range(5000))
    feed(payload("PostToolUseFailure.Bash", error="Exit code 1\n" + long))
    feed(payload("PreToolUse.Agent"))
    answer = {**payload("PostToolUse.Agent")["tool_response"], "prompt": long}
    name = payload("PreToolUse.Agent")["tool_use_id"]
    feed(payload("PostToolUse.Agent", tool_use_id=name, tool_response=answer))
    failed, agent = cells()
    assert notebook_of(SESSION).stat().st_size < 60_000
    (kept,) = failed.record.output.objects
    assert Session.open(SESSION).objects.get(kept.object).decode() == "Exit code 1\n" + long
    assert "lines left out" in failed.outputs[0]["evalue"]
    (kept,) = agent.record.output.objects
    assert "line 2500" in Session.open(SESSION).objects.get(kept.object).decode()
    assert_valid(notebook_of(SESSION))


def test_other_agents_answers_and_patches_are_read(feed):
    cwd = str(Path.cwd())
    told = {"session_id": SESSION, "cwd": cwd, "hook_event_name": "AfterTool"}
    ran = {"llmContent": "what it printed", "returnDisplay": "shorter"}
    shell = {"tool_name": "run_shell_command", "tool_input": {"command": "ls"}}
    feed({**told, **shell, "tool_response": ran}, "--agent", "gemini")
    failed = {**ran, "error": {"message": "it broke", "type": "x"}}
    feed({**told, **shell, "tool_response": failed}, "--agent", "gemini")
    words = {"command": ["bash", "-lc", "echo hi"]}
    codex = payload("PostToolUse.Bash", tool_name="shell", tool_input=words, tool_use_id="c1")
    feed(codex, "--agent", "codex")
    Path("new.py").write_text("x")
    patch = "*** Begin Patch\n*** Add File: new.py\n+x\n*** End Patch"
    given = {"tool_name": "apply_patch", "tool_input": {"command": patch}, "tool_use_id": "c2"}
    feed(payload("PostToolUse.Bash", cwd=cwd, tool_response="Done!", **given), "--agent", "codex")
    printed, broke, said, patched = cells()
    assert text_of(printed.outputs) == "what it printed\n"
    assert (broke.status, broke.record.output.error) == ("failed", "it broke")
    assert said.source == "tools.Bash(command='echo hi')"
    assert list(patched.record.files_written) == [f"{cwd}/new.py"]


def test_answers_of_parts_are_shown_and_the_agents_own_time_is_kept(feed):
    told = {"session_id": SESSION, "cwd": "/p", "hook_event_name": "AfterTool"}
    told |= {"tool_name": "read_file", "tool_input": {"file_path": "/p/a.png"}}
    picture = {"inlineData": {"mimeType": "image/png", "data": "AA=="}}
    parts = {"llmContent": [{"text": "a picture"}, picture], "returnDisplay": ""}
    at = "2026-01-02T03:04:05.678Z"
    feed({**told, "tool_response": parts, "timestamp": at}, "--agent", "gemini")
    chunk = {**told, "hook_event_name": "AfterModel", "llm_response": {"candidates": []}}
    feed(chunk, "--agent", "gemini")  # one for every few words of the model
    (shown,) = cells()
    assert shown.outputs[0]["data"] == {"image/png": "AA==", "text/plain": ["a picture"]}
    assert shown.entry["created_at"] == at


@pytest.mark.parametrize("agent", ["codex", "gemini"])
def test_an_agent_hears_only_what_its_contract_has_a_place_for(agent):
    told = {"hookEventName": "SessionStart", "sessionTitle": "x", "watchPaths": ["/p/a"]}
    assert heard(agent, {"hookSpecificOutput": told}) is None
    assert heard(agent, {"hookSpecificOutput": told, "systemMessage": "m"}) == {
        "systemMessage": "m"
    }
    context = {"hookEventName": "SessionStart", "additionalContext": "c"}
    both = {"hookSpecificOutput": {**told, **context}}
    assert heard(agent, both) == {"hookSpecificOutput": context}
    assert heard("claude", both) == both


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_an_output_kept_in_what_is_no_file_leaves_the_call_as_it_was_told(feed, tmp_path):
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(tmp_path / "nowhere")
    for path in (pipe, link):
        answer = {"stdout": "what there was", "persistedOutputPath": str(path)}
        told = {"tool_use_id": path.name, "tool_response": answer}
        feed(payload("PostToolUse.Bash", transcript_path=str(tmp_path / "t.jsonl"), **told))
    assert [text_of(cell.outputs) for cell in cells()] == ["what there was\n"] * 2
    assert not failures()


def test_an_event_that_cannot_be_understood_is_kept_as_it_was_told(feed, monkeypatch):
    def broken(*_: Any) -> None:
        raise KeyError("a mistake of ours")

    monkeypatch.setattr("rlmnb.capture.calls.source_of_call", broken)
    feed(payload("PostToolUse.Bash", tool_use_id="t1"))
    (kept,) = cells()
    assert kept.source.startswith("*PostToolUse*")
    assert '"tool_use_id":"t1"' in kept.source
    assert "a mistake of ours" in failures()[0]


def test_a_session_that_others_are_beginning_loses_no_event(feed, monkeypatch):
    monkeypatch.setattr("rlmnb.recording.starting.LOCK_SECONDS", 0.01)
    monkeypatch.setattr("rlmnb.recording.writing.LOCK_SECONDS", 0.01)
    place = session_place(SESSION)
    place.prepare()
    with Lock(place.journal, timeout=10):
        feed(payload("PostToolUse.Bash", tool_use_id="t1"))
    feed(payload("PostToolUse.Bash", tool_use_id="t2"))
    assert sorted(cell.record.tool_use_id for cell in cells()) == ["t1", "t2"]
    assert failures() == []
