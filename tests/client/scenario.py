"""A session with every kind of tool call: what the model asks for, and what becomes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlmnb.testing.messages_api import Call, Request, Turn, routed

# The client offers Glob and Grep only to those who ask for them by name.
FLAGS = (
    "--tools=Agent,Bash,Edit,Glob,Grep,NotebookEdit,Read,Write",
    "--permission-mode=acceptEdits",
    "--allowedTools=Bash",
)
SETTINGS = {"permissions": {"deny": ["Bash(rm:*)"]}}

# By id: calls that fail, and of those the ones that no tool ever saw.
FAILED = {"toolu_exit", "toolu_missing"}
REFUSED = {"toolu_denied", "toolu_outside", "toolu_unknown", "toolu_invalid"}
PARALLEL = ["toolu_batch_bash", "toolu_batch_read", "toolu_batch_glob"]


def make_project(directory: Path) -> Path:
    directory.mkdir()
    (directory / "data.txt").write_text("alpha beta\n")
    (directory / "other.txt").write_text("gamma\n")
    cell = {"cell_type": "code", "id": "c0000001", "metadata": {}, "source": "print(1)"}
    cell |= {"outputs": [], "execution_count": None}
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (directory / "nb.ipynb").write_text(json.dumps(notebook))
    return directory


def tool_turns(project: Path) -> list[list[Call]]:
    """Return the calls that the model makes, those of one answer together."""
    made, data, notebook = (str(project / name) for name in ("new.txt", "data.txt", "nb.ipynb"))
    change = {"notebook_path": notebook, "cell_id": "c0000001", "new_source": "print(2)"}
    alone = [
        _call("read", "Read", file_path=data),
        _call("write", "Write", file_path=made, content="one\ntwo\n"),
        _call("edit", "Edit", file_path=made, old_string="two", new_string="TWO"),
        _call("bash", "Bash", command="echo printed", description="print a word"),
        _call("glob", "Glob", pattern="**/*.txt"),
        _call("grep", "Grep", pattern="alpha", path=str(project), output_mode="content"),
        _call("open", "Read", file_path=notebook),
        _call("notebook", "NotebookEdit", **change),
        _call("exit", "Bash", command="echo out; echo err >&2; exit 3", description="fail"),
        _call("missing", "Read", file_path=str(project / "missing.txt")),
        _call("denied", "Bash", command="rm -rf nothing", description="not allowed"),
        _call("outside", "Write", file_path=str(project.parent / "outside.txt"), content="x"),
        _call("unknown", "Nonsense", word="x"),
        _call("invalid", "Read", wrong=1),
    ]
    together = [
        _call("batch_bash", "Bash", command="sleep 0.3; echo slow", description="slow"),
        _call("batch_read", "Read", file_path=str(project / "other.txt")),
        _call("batch_glob", "Glob", pattern="*.ipynb"),
    ]
    return [*([call] for call in alone), together]


def tools_script(project: Path) -> list[Turn]:
    first, *others = tool_turns(project)
    return [["I look at the data.", *first], *others, "All done."]


def helper_script(project: Path) -> Callable[[Request], Turn]:
    """Return a session whose sub-agent reads a file; it can be gone on with and summed up."""
    helper = [_call("helper_read", "Read", file_path=str(project / "data.txt")), "It says alpha."]
    summary = ["<analysis>short</analysis><summary>The data says alpha.</summary>"]
    return routed(
        {"HELPER:": helper, "detailed summary": summary},
        otherwise=[
            ask_helper("agent", "HELPER: look"),
            "The helper has looked.",
            "Gone on.",
            "Again.",
        ],
    )


def two_helpers_script(project: Path) -> Callable[[Request], Turn]:
    """Return a session with two sub-agents at once, each of which reads a file of its own."""
    first = _call("first_read", "Read", file_path=str(project / "data.txt"))
    second = _call("second_read", "Read", file_path=str(project / "other.txt"))
    both = [ask_helper("first", "FIRST: look"), ask_helper("second", "SECOND: look")]
    return routed(
        {"FIRST:": [first, "It says alpha."], "SECOND:": [second, "It says gamma."]},
        otherwise=[both, "Both have looked."],
    )


def ask_helper(id: str, prompt: str, *, background: bool = False) -> Call:
    """Return the call that begins a sub-agent; versions differ in whether they wait untold."""
    task = {"description": "look", "subagent_type": "general-purpose", "prompt": prompt}
    return _call(id, "Agent", **task, run_in_background=background)


def _call(id: str, name: str, **arguments: Any) -> Call:
    return Call(name, arguments, id=f"toolu_{id}")
