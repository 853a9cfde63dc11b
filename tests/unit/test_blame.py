"""A line of a file leads back to the call that wrote it, its goal and its commit."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rlmnb import Session
from tests.unit.test_hook import SESSION, payload
from tests.unit.test_session_start import hook

GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")


def git(*arguments: str) -> str:
    done = subprocess.run([*GIT, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def call(tool: str, name: str, session: str = SESSION, **args: Any) -> None:
    """Change the file as an agent's tool would, and let the hook hear of it."""
    path = Path("app.py").absolute()
    given = {"file_path": str(path), **args}
    before = path.read_text() if path.exists() else ""
    if tool == "Write":
        path.write_text(args["content"])
    elif tool == "Edit":
        assert args["old_string"] in before
        path.write_text(before.replace(args["old_string"], args["new_string"], 1))
    answer: Any = {}
    if tool == "Read":
        lines = before.count("\n")
        about = {"startLine": 1, "numLines": lines, "totalLines": lines}
        answer = {"type": "text", "file": {"content": before, **about}}
    hook(
        payload(
            f"PostToolUse.{tool}",
            session_id=session,
            tool_use_id=name,
            tool_input=given,
            tool_response=answer,
            cwd=str(Path.cwd()),
        )
    )


def cell_of(tool_use_id: str, session: str = SESSION) -> str:
    records = {
        cell.cell_id: cell.raw["metadata"].get("rlmnb", {}) for cell in Session.open(session).cells
    }
    return next(name for name, each in records.items() if each.get("tool_use_id") == tool_use_id)


def prompt(text: str, session: str = SESSION) -> None:
    told = {"prompt": text, "prompt_id": text, "cwd": str(Path.cwd())}
    hook(payload("UserPromptSubmit", session_id=session, **told))


def test_each_line_is_of_the_call_that_brought_it_in(run_json) -> None:
    prompt("make it")
    call("Write", "w", content="one\ntwo\nthree\n")
    prompt("double it")
    call("Edit", "e", old_string="two\n", new_string="two\ntwo and a half\n")
    call("Write", "again", content="zero\none\ntwo\ntwo and a half\nthree\n")
    owners = {n: run_json("blame", f"app.py:{n}")["authors"][0] for n in (1, 2, 4, 5)}
    assert [owners[n]["cell_id"] for n in (1, 2, 4, 5)] == [
        cell_of("again"), cell_of("w"), cell_of("e"), cell_of("w"),
    ]  # fmt: skip
    assert (owners[2]["goal"], owners[4]["goal"]) == ("make it", "double it")
    assert owners[2]["session_id"] == SESSION
    whole = run_json("blame", "app.py")
    assert [each["cell_id"] for each in whole["authors"]] == [
        cell_of("again"), cell_of("e"), cell_of("w"),
    ]  # fmt: skip
    assert whole["lines"] == {cell_of("w"): 3, cell_of("e"): 1, cell_of("again"): 1}


def test_a_file_that_was_there_before_is_known_from_what_was_read(run, run_json) -> None:
    Path("app.py").write_text("old\nolder\n")
    call("Read", "r")
    call("Edit", "e", old_string="older\n", new_string="newer\nnewest\n")
    with Path("app.py").open("a") as file:
        file.write("by hand\n")
    assert run_json("blame", "app.py:3")["how"] == "line"
    assert run_json("blame", "app.py:2")["authors"][0]["cell_id"] == cell_of("e")
    old = run_json("blame", "app.py:1")
    assert (old["how"], old["authors"][0]["cell_id"]) == ("file", cell_of("e"))
    assert "no recorded call brought this line in" in run("blame", "app.py:4").stderr


def test_where_the_way_of_a_file_is_lost_the_text_of_the_line_is_looked_for(run_json) -> None:
    Path("app.py").write_text("a\nb\n")
    call("Edit", "e", old_string="b\n", new_string="unmistakable\n")
    found = run_json("blame", "app.py:2")
    assert (found["how"], found["authors"][0]["cell_id"]) == ("text", cell_of("e"))


def test_the_newest_session_counts_and_long_contents_are_found(run_json) -> None:
    long = "".join(f"line {n}\n" for n in range(4000))
    call("Write", "w", content=long)
    call("Write", "x", session="other", content=long.replace("line 7\n", "LINE 7\n"))
    assert run_json("blame", "app.py:8")["authors"][0]["session_id"] == "other"
    assert run_json("blame", "app.py:9")["authors"][0]["session_id"] == SESSION


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("worktree", [False, True])
def test_the_commit_is_read_without_git(packed, worktree, run, run_json, monkeypatch) -> None:
    git("init", "-q", "-b", "trunk")
    git("commit", "-q", "--allow-empty", "-m", "first")
    if worktree:
        git("worktree", "add", "-q", "-b", "side", "tree")
        monkeypatch.chdir("tree")
    if packed:
        git("pack-refs", "--all")
    first = git("rev-parse", "HEAD")
    call("Write", "w", content="one\n")
    git("add", "app.py")
    git("commit", "-q", "-m", "second")
    commit = {"command": "git commit -m second"}
    hook(payload("PostToolUse.Bash", tool_use_id="b", tool_input=commit, cwd=str(Path.cwd())))
    author = run_json("blame", "app.py:1")["authors"][0]
    assert author["head"] == first
    assert author["branch"] == ("side" if worktree else "trunk")
    assert author["next_head"] == git("rev-parse", "HEAD")
    assert first[:12] in run("blame", "app.py").stdout


@pytest.mark.parametrize(
    ("place", "code"), [("app.py:9", 2), ("app.py:0", 2), ("nowhere.py", 1), ("nowhere.py:1", 2)]
)
def test_what_is_not_there_is_said(place: str, code: int, run) -> None:
    call("Write", "w", content="one\n")
    assert run("blame", place).returncode == code


def test_traces_decisions_and_events_are_lines_of_json(run) -> None:
    prompt("make it")
    hook(payload("PostToolUse.TaskCreate"))
    call("Write", "w", content="one\n")

    def exported(kind: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in run("export", kind, SESSION).stdout.splitlines()]

    traces = exported("traces")
    assert [each["goal"] for each in traces] == ["make it", "make it"]
    assert [each["decision"] for each in exported("decisions")] == ["try it"]
    events = exported("events")
    assert [each["seq"] for each in events] == list(range(len(events)))
    assert [each["type"] for each in events if each["op"] == "append"] == ["prompt", "tool", "tool"]
    assert run("export", "events", SESSION, "--output", "e.jsonl").stdout == ""
    assert len(Path("e.jsonl").read_text().splitlines()) == len(events)
    assert run("export", "events", SESSION, "--output", "no/such/dir").returncode == 3
