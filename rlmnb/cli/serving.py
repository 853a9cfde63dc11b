"""An MCP server on standard input and output: what an agent may ask of its own sessions.

Each tool is a command of ours with `--json`, or one of the functions that cells have, called in a
cell of its own. Effects are never allowed from here: an agent that wants them has its own tools,
where its user is asked.
"""

from __future__ import annotations

import contextlib
import io
import json
import keyword
import sys
from argparse import Namespace
from collections.abc import Callable
from typing import Any, TextIO

from rlmnb.format.version import PACKAGE
from rlmnb.selecting import GRAMMAR

_PROTOCOL = "2025-06-18"
_LONGEST_ANSWER = 200_000
_SESSION = "a session's id or its beginning, or a notebook's path; without it, the agent's own"
_CELL = "a cell's id, the beginning of it, or its number"


class _Tool:
    """A command as an agent sees it: what it is for, what it takes."""

    def __init__(self, command: str, summary: str, last: str = "", /, **arguments: str) -> None:
        self.command = command
        self.summary = summary
        # The argument that the command takes without a name, after the session.
        self.last = last
        self.required: tuple[str, ...] = (last,) if last else ()
        self.arguments = {"session": _SESSION, **arguments}

    def described(self, name: str) -> dict[str, Any]:
        """Return the tool as `tools/list` tells of it."""
        properties = {
            key: {"type": _kind(key), "description": what} for key, what in self.arguments.items()
        }
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        if self.required:
            schema["required"] = list(self.required)
        return {"name": name, "description": self.summary, "inputSchema": schema}

    def line(self, given: dict[str, Any]) -> list[str]:
        """Return the command line for these arguments; a value is never taken for an option."""
        self.check(given)
        options, session = [], given.get("session")
        for key, value in given.items():
            if key in _SWITCHES and value:
                options.append(f"--{key.replace('_', '-')}")
            elif key not in ("session", self.last, *_SWITCHES):
                options.append(f"--{key}={value}")
        if self.command == "replay":
            # An agent may ask for a cell to run again, not for more money than its person allows.
            options.append("--within-budget")
        if not self.last:
            return [self.command, *options, "--json", *(["--", session] if session else [])]
        options += [f"--session={session}"] if session else []
        return [self.command, *options, "--json", "--", str(given[self.last])]

    def check(self, given: dict[str, Any]) -> None:
        """Complain of arguments that nobody asked for, that are missing, or of another kind."""
        unknown = sorted(set(given) - set(self.arguments))
        if unknown:
            raise ValueError(
                f"no argument {', '.join(unknown)}; wanted {', '.join(self.arguments)}"
            )
        for key in self.required:
            if key not in given:
                raise ValueError(f"{key} is missing")
        for key, value in given.items():
            if type(value) is not _KINDS[_kind(key)]:
                raise ValueError(f"{key} is {value!r}; wanted {self.described('')['inputSchema']}")


class _Operation(_Tool):
    """A function that cells have, called in a new cell: what it found is kept, and can be replayed.

    Variables are given by name and all else as values, so no other code gets into the cell.
    """

    def __init__(self, function: str, summary: str, required: str, /, **arguments: str) -> None:
        super().__init__("exec", summary, into=_INTO, **arguments)
        self.function = function
        self.required = tuple(required.split())

    def line(self, given: dict[str, Any]) -> list[str]:
        """Return the command line that runs the call as a cell, and shows what it returns."""
        self.check(given)
        for key in _VARIABLES & given.keys():
            if not given[key].isidentifier() or keyword.iskeyword(given[key]):
                raise ValueError(f"{key} is {given[key]!r}; wanted the name of a variable")
        shown = {
            key: value if key in _VARIABLES else repr(value)
            for key, value in given.items()
            if key not in ("session", "into")
        }
        first = [shown.pop(key) for key in self.required]
        call = ", ".join([*first, *(f"{key}={value}" for key, value in shown.items())])
        name = given.get("into")
        code = f"{name or 'found'} = {self.function}({call})\nprint({name or 'found'})"
        session = given.get("session")
        options = [f"--session={session}"] if session else []
        return [self.command, *options, "--json", "--", code]


def _kind(key: str) -> str:
    if key in _SWITCHES:
        return "boolean"
    return "integer" if key in _NUMBERS else "string"


_KINDS: dict[str, type] = {"boolean": bool, "integer": int, "string": str}
_SWITCHES = frozenset({"reverse", "dry_run", "force", "undo"})
_NUMBERS = frozenset({"start", "size", "before", "after", "last"})
_VARIABLES = frozenset({"context", "items", "into"})
_INTO = "the variable that keeps what is found; `found` if there is none"
_CONTEXT = "the name of a variable in the session's kernel"
_MODEL = "the model; without it, the one that is configured"
TOOLS = {
    "session": _Tool("show", "Show a session: its state, files, budget."),
    "cells": _Tool(
        "cells",
        "List the cells of a session, all or those that match.",
        type="of this type, or of a tool like Read",
        status="fresh, stale, failed, ...",
        file="that read or wrote this file",
        text="with this in their source or output",
        since="begun since then: 2026-11-17T09:30, or how long ago: 2h, 7d",
        until="begun until then",
        cells=GRAMMAR,
    ),
    "cell": _Tool("cell", "Show one cell: source, outputs, edges, record.", "cell", cell=_CELL),
    "chain": _Tool(
        "chain",
        "Show what a cell depends on and why, or (reverse) what depends on it.",
        "cell",
        cell=_CELL,
        reverse="what depends on it instead",
    ),
    "status": _Tool("status", "Say which cells no longer hold, and why. Nothing is run."),
    "replay": _Tool(
        "replay",
        "Run the cells whose inputs changed and reuse the rest. Effects are never run from here.",
        cells=f"only these, and what they need: {GRAMMAR}",
        dry_run="only say what would run",
        force="run the selected cells also if they hold",
    ),
    "calls": _Tool("calls", "List the model calls of a session: what was asked, what it cost."),
    "budget": _Tool("budget", "Show what model calls have cost, saved, and may cost."),
    "invalidate": _Tool(
        "invalidate",
        "Mark cells as no longer valid, or (undo) take the marks back.",
        "what",
        what=f"a file that cells read, or {GRAMMAR}",
        reason="why",
        undo="take the marks back",
    ),
    "peek": _Operation(
        "peek",
        "Show a slice of a variable of the session's kernel that is too long to see whole.",
        "context",
        context=_CONTEXT,
        start="the first character, or item of a list",
        size="the most characters; 1000 if unset",
    ),
    "search": _Operation(
        "search",
        "Find the lines of a variable that a regular expression matches.",
        "context pattern",
        context=_CONTEXT,
        pattern="a regular expression of Python",
        before="how many lines above each",
        after="how many lines below each",
    ),
    "summarize": _Operation(
        "summarize",
        "Let a model summarize a variable, in parts if it is long. Answers are kept.",
        "context",
        context=_CONTEXT,
        instructions="what to keep, instead of names, numbers and decisions",
        model=_MODEL,
    ),
    "llm_query": _Operation(
        "llm_query",
        "Ask a model, within the session's budget. The answer is kept in the cell.",
        "prompt",
        prompt="the question",
        system="the system prompt",
        model=_MODEL,
    ),
    "map_reduce": _Operation(
        "map_reduce",
        "Ask a model about each item of a list, and then about all the answers.",
        "items map_prompt reduce_prompt",
        items="the name of a variable that is a list",
        map_prompt="{item} stands for the item",
        reduce_prompt="{results} stands for the answers",
        model=_MODEL,
    ),
    "memory_query": _Operation(
        "memory_query", "Ask what is known from earlier sessions.", "query", query="the question"
    ),
    "conversation": _Operation(
        "conversation",
        "Show what was said in the session so far: its prompts and answers.",
        "",
        last="only so many of the last",
    ),
}


def serve(args: Namespace) -> int:
    """Answer requests until standard input ends."""
    from rlmnb.cli.main import run

    del args  # it has none
    answers = sys.stdout
    # Whatever else is printed on the way is not part of the conversation.
    with contextlib.redirect_stdout(sys.stderr):
        return answer_all(sys.stdin, answers, run)


def answer_all(requests: TextIO, answers: TextIO, run: Callable[[list[str]], int]) -> int:
    """Answer every line that is a request; `run` runs a command."""
    for line in requests:
        if not line.strip():
            continue
        try:
            request = json.loads(line)
        except (ValueError, RecursionError):
            reply: Any = _failed(None, -32700, "this is not JSON")
        else:
            reply = _reply(request, run)
        if reply is not None:
            answers.write(json.dumps(reply) + "\n")
            answers.flush()
    return 0


def _reply(request: Any, run: Callable[[list[str]], int]) -> dict[str, Any] | None:
    if not isinstance(request, dict) or not isinstance(request.get("method"), str):
        return _failed(None, -32600, "wanted a request with a method")
    if "id" not in request:
        return None  # a notification: nobody waits
    method, name = request["method"], request["id"]
    given = request.get("params")
    given = given if isinstance(given, dict) else {}
    if method == "initialize":
        asked = given.get("protocolVersion")
        result: dict[str, Any] = {
            "protocolVersion": asked if isinstance(asked, str) else _PROTOCOL,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "rlmnb", "version": PACKAGE},
        }
    elif method == "ping":
        result = {}
    elif method == "tools/list":
        result = {"tools": [tool.described(each) for each, tool in TOOLS.items()]}
    elif method == "tools/call":
        tool = TOOLS.get(str(given.get("name")))
        if tool is None:
            return _failed(name, -32602, f"no tool {given.get('name')!r}; {', '.join(TOOLS)}")
        result = _called(tool, given.get("arguments"), run)
    else:
        return _failed(name, -32601, f"no method {method}")
    return {"jsonrpc": "2.0", "id": name, "result": result}


def _failed(name: Any, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": name, "error": {"code": code, "message": message}}


def _called(tool: _Tool, given: Any, run: Callable[[list[str]], int]) -> dict[str, Any]:
    out, beside = io.StringIO(), io.StringIO()
    try:
        line = tool.line(given if isinstance(given, dict) else {})
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(beside):
            code = run(line)
    except ValueError as error:
        code, out = 2, io.StringIO(str(error))
    except SystemExit:
        code = 2
    text = out.getvalue().strip() or beside.getvalue().strip()
    if len(text) > _LONGEST_ANSWER:
        text = f"{text[:_LONGEST_ANSWER]}\n… cut; ask for fewer cells"
    return {"content": [{"type": "text", "text": text}], "isError": code not in (0, 1)}
