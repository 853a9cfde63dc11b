"""What an agent asks over MCP is answered, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rlmnb import Session


def asked(*requests: Any) -> list[Any]:
    """Give requests to a real server and return its answers."""
    lines = "".join(
        (each if isinstance(each, str) else json.dumps(each)) + "\n" for each in requests
    )
    done = subprocess.run(
        [sys.executable, "-m", "rlmnb", "mcp"],
        input=lines,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def call(name: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}


@pytest.fixture
def session() -> Session:
    Path("auth.py").write_text("x")
    session = Session.create("demo", cwd=".")
    session.append("code = tools.Read(file_path='auth.py')", type="tool", output="x")
    session.append("print(code)", output="x")
    return session


def test_the_handshake_and_the_list_of_tools():
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize",
             "params": {"protocolVersion": "2024-11-05"}}  # fmt: skip
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    first, second = asked(hello, ready, {"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
    assert first["result"]["protocolVersion"] == "2024-11-05"
    assert first["result"]["serverInfo"]["name"] == "rlmnb"
    names = [tool["name"] for tool in second["result"]["tools"]]
    assert names == [
        "session", "cells", "cell", "chain", "status", "replay", "calls", "budget", "invalidate",
        "peek", "search", "summarize", "llm_query", "map_reduce", "memory_query",
        "conversation",
    ]  # fmt: skip
    assert all(tool["inputSchema"]["type"] == "object" for tool in second["result"]["tools"])


def test_tools_answer_what_the_commands_do(session):
    Path("auth.py").write_text("changed")
    answers = asked(
        call("session", session="demo"),
        call("cells", session="demo", type="tool"),
        call("cell", session="demo", cell="2"),
        call("chain", session="demo", cell="1", reverse=True),
        call("status", session="demo"),
        call("replay", session="demo", dry_run=True, cells="1"),
    )
    assert not any(each["result"]["isError"] for each in answers)
    show, cells, cell, chain, status, plan = (
        json.loads(each["result"]["content"][0]["text"]) for each in answers
    )
    assert show["session"]["id"] == "demo"
    assert [row["number"] for row in cells] == [1]
    assert cell["code"] == "print(code)"
    assert [row["number"] for row in chain["chain"]] == [2]
    assert len(status["stale"]) == 2
    assert len(plan["would_execute"]) == 1


def test_marks_are_made_and_taken_back(session):
    asked(call("invalidate", session="demo", what="2", reason="a guess"))
    session.refresh()
    assert session.cell(2).status == "invalidated"
    asked(call("invalidate", session="demo", what="2", undo=True))
    session.refresh()
    assert session.cell(2).status == "completed"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("session", {"session": "--help"}),
        ("session", {"session": "nosuch"}),
        ("cell", {"session": "demo"}),
        ("cell", {"session": "demo", "cell": 5}),
        ("cells", {"session": "demo", "cells": "nonsense:x"}),
        ("replay", {"session": "demo", "allow_effects": True}),
        ("peek", {"session": "demo", "context": "open('x', 'w')"}),
        ("peek", {"session": "demo", "context": "class"}),
        ("peek", {"session": "demo", "context": "code", "start": True}),
        ("llm_query", {"session": "demo", "prompt": "q", "into": "a; b"}),
        ("search", {"session": "demo", "context": "code"}),
        ("conversation", {"session": "demo", "last": "2"}),
    ],
)
def test_mistakes_are_answered_and_the_server_goes_on(session, name, arguments):
    wrong, right = asked(call(name, **arguments), call("status", session="demo"))
    assert wrong["result"]["isError"] is True
    assert wrong["result"]["content"][0]["text"]
    assert right["result"]["isError"] is False


def test_what_is_no_request_gets_an_error_and_no_more():
    answers = asked("not json", [1], {"id": 1, "method": 5}, {"id": 2, "method": "nosuch"},
                    {"id": 3, "method": "tools/call", "params": {"name": "rm"}})  # fmt: skip
    assert [each["error"]["code"] for each in answers] == [-32700, -32600, -32600, -32601, -32602]
