"""The agent's tools as cells call them: its arguments, its answers, its words for what fails."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from rlmnb.files import polls
from rlmnb.kernel.tools import ToolError, Tools


@pytest.fixture
def tools() -> Tools:
    return Tools()


def keys(value: Any) -> Any:
    """Return the shape of an answer: its keys, level by level."""
    if isinstance(value, dict):
        return {key: keys(item) for key, item in value.items()}
    return [keys(value[0])] if isinstance(value, list) and value else type(value).__name__


def has_ended(pid: str) -> bool:
    """Tell whether a process is gone; one that nobody waits for remains as a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


# What Claude Code answered to these calls in a directory with these two files.
READ = {
    "type": "text",
    "file": {
        "filePath": "README.md",
        "content": "# demo\nalpha\n",
        "numLines": 3,
        "startLine": 1,
        "totalLines": 3,
    },
}
EDITED = {
    "filePath": "new.txt",
    "oldString": "two",
    "newString": "TWO",
    "originalFile": "one\ntwo\n",
    "structuredPatch": [
        {
            "oldStart": 1,
            "oldLines": 2,
            "newStart": 1,
            "newLines": 2,
            "lines": [" one", "-two", "+TWO"],
        }
    ],
    "userModified": False,
    "replaceAll": False,
}


@pytest.fixture(autouse=True)
def project() -> None:
    Path("README.md").write_text("# demo\nalpha\n")
    Path("data.txt").write_text("alpha beta\n")


def test_read_answers_as_the_agent_was_answered(tools):
    assert tools.Read(file_path="README.md") == READ
    assert str(tools.Read(file_path="README.md")) == "# demo\nalpha\n"
    part = tools.Read(file_path="README.md", offset=2, limit=1)["file"]
    assert (part["content"], part["numLines"], part["startLine"]) == ("alpha", 1, 2)


def test_write_edit_and_what_they_refuse(tools):
    made = tools.Write(file_path="new.txt", content="one\ntwo\n")
    assert made["type"] == "create"
    assert made["originalFile"] is None
    assert tools.Edit(file_path="new.txt", old_string="two", new_string="TWO") == EDITED
    assert Path("new.txt").read_text() == "one\nTWO\n"
    for content in (tools.Read(file_path="new.txt"), 5, None, "half \ud800"):
        with pytest.raises(ToolError, match="is left as it was"):
            tools.Write(file_path="new.txt", content=content)
    assert Path("new.txt").read_text() == "one\nTWO\n"
    assert tools.Write(file_path="new.txt", content="x\nx\n")["type"] == "update"
    for old, said in (("nosuch", "not found"), ("x", "Found 2 matches")):
        with pytest.raises(ToolError, match=said):
            tools.Edit(file_path="new.txt", old_string=old, new_string="y")
    tools.Edit(file_path="new.txt", old_string="x", new_string="y", replace_all=True)
    assert Path("new.txt").read_text() == "y\ny\n"
    tools.Write(file_path="deep/er/file.txt", content="made")
    assert Path("deep/er/file.txt").read_text() == "made"
    tools.Edit(file_path="by/edit.txt", old_string="", new_string="made")
    assert Path("by/edit.txt").read_text() == "made"
    with pytest.raises(ToolError, match="file already exists"):
        tools.Edit(file_path="by/edit.txt", old_string="", new_string="again")


def test_several_edits_are_all_or_none(tools):
    edits = [
        {"old_string": "alpha", "new_string": "gamma"},
        {"old_string": "nosuch", "new_string": "y"},
    ]
    with pytest.raises(ToolError):
        tools.MultiEdit(file_path="data.txt", edits=edits)
    assert Path("data.txt").read_text() == "alpha beta\n"
    tools.MultiEdit(file_path="data.txt", edits=edits[:1])
    assert Path("data.txt").read_text() == "gamma beta\n"


def test_an_edit_never_loses_bytes_or_line_ends(tools):
    Path("data.txt").write_bytes(b"a\r\nb\r\n")
    tools.Edit(file_path="data.txt", old_string="a", new_string="c")
    assert Path("data.txt").read_bytes() == b"c\r\nb\r\n"
    Path("raw").write_bytes(b"\xff\xfe a")
    with pytest.raises(ToolError, match="not UTF-8"):
        tools.Edit(file_path="raw", old_string="a", new_string="b")
    assert Path("raw").read_bytes() == b"\xff\xfe a"


def test_glob_and_grep(tools):
    Path("src").mkdir()
    Path("src/deep.txt").write_text("beta\n")
    assert tools.Glob(pattern="*.txt")["filenames"] == ["data.txt"]
    assert tools.Glob(pattern="**/*.txt")["filenames"] == ["data.txt", "src/deep.txt"]
    assert tools.Glob(pattern="**/*.{md,txt}")["numFiles"] == 3
    assert tools.Glob(pattern="*.txt", path="src")["filenames"] == ["src/deep.txt"]
    assert set(tools.Glob(pattern="*")) == {
        "filenames", "durationMs", "numFiles", "truncated", "totalMatches", "countIsComplete",
    }  # fmt: skip
    assert tools.Grep(pattern="alpha", output_mode="content") == {
        "mode": "content",
        "numFiles": 0,
        "filenames": [],
        "content": "README.md:2:alpha\ndata.txt:1:alpha beta",
        "numLines": 2,
    }
    assert tools.Grep(pattern="beta")["filenames"] == ["data.txt", "src/deep.txt"]
    assert tools.Grep(pattern="BETA", **{"-i": True}, glob="src/*")["numFiles"] == 1
    assert tools.Grep(pattern="a", output_mode="count")["content"] == (
        "README.md:1\ndata.txt:1\nsrc/deep.txt:1"
    )
    around = tools.Grep(pattern="alpha", path="README.md", output_mode="content", **{"-B": 1})
    assert around["content"] == "README.md-1-# demo\nREADME.md:2:alpha"
    # What is found is named so that the next tool can be given it.
    for where in ("src", os.path.abspath("src"), "src/deep.txt"):
        assert tools.Grep(pattern="beta", path=where)["filenames"] == ["src/deep.txt"]
    assert tools.Glob(pattern="*", path=os.path.abspath("src"))["filenames"] == ["src/deep.txt"]
    os.chdir("src")
    assert tools.Grep(pattern="alpha", path="..", glob="*.md")["filenames"] == [
        os.path.abspath("../README.md")
    ]
    os.chdir("..")
    page = tools.Grep(pattern="a", output_mode="count", head_limit=1, offset=1)
    assert page["content"] == "data.txt:1"
    with pytest.raises(ToolError, match="regex parse error"):
        tools.Grep(pattern="(")
    with pytest.raises(ToolError, match="does not exist"):
        tools.Grep(pattern="a", path="nowhere")


def test_ls_names_what_is_there(tools):
    Path("src").mkdir()
    lines = tools.LS(path=".").splitlines()
    assert lines[1:] == ["  - README.md", "  - data.txt", "  - src/"]
    assert tools.LS(path=".", ignore=["*.md", "src/"]).splitlines()[1:] == ["  - data.txt"]


def test_bash_merges_its_streams_and_fails_in_the_agents_words(tools):
    answer = tools.Bash(command="echo out; echo err >&2", description="both")
    assert answer == {
        "stdout": "out\nerr",
        "stderr": "",
        "interrupted": False,
        "isImage": False,
        "noOutputExpected": False,
    }
    with pytest.raises(ToolError) as caught:
        tools.Bash(command="echo to-stdout; echo to-stderr >&2; exit 3")
    assert str(caught.value) == "Exit code 3\nto-stdout\nto-stderr"


def test_a_command_that_takes_too_long_ends_with_its_children(tools):
    with pytest.raises(ToolError, match="timed out") as caught:
        tools.Bash(command="sleep 60 & echo $!; sleep 60", timeout=500)
    child = str(caught.value).splitlines()[1]
    # A process that was killed closes its pipe a moment before it is gone.
    assert any(has_ended(child) for _ in polls(10))


def test_a_notebook_is_edited_cell_by_cell(tools):
    whole = {
        "cells": [
            {
                "cell_type": "code",
                "execution_count": 3,
                "id": "c0000001",
                "metadata": {"rlm": {"k": 1}},
                "outputs": [{"name": "stdout", "output_type": "stream", "text": ["1\n"]}],
                "source": ["print(1)"],
            }
        ],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    Path("nb.ipynb").write_text(json.dumps(whole))
    call = {"notebook_path": "nb.ipynb", "cell_id": "c0000001"}
    answer = tools.NotebookEdit(**call, new_source="print(2)")
    assert answer["old_source"] == "print(1)"
    assert answer["updated_file"] == Path("nb.ipynb").read_text()
    cell = json.loads(answer["updated_file"])["cells"][0]
    assert (cell["source"], cell["outputs"], cell["metadata"]) == (
        "print(2)",
        [],
        {"rlm": {"k": 1}},
    )
    tools.NotebookEdit(**call, new_source="# t", cell_type="markdown", edit_mode="insert")
    assert [each["source"] for each in json.loads(Path("nb.ipynb").read_text())["cells"]] == [
        "print(2)",
        "# t",
    ]
    tools.NotebookEdit(**call, edit_mode="delete")
    assert len(json.loads(Path("nb.ipynb").read_text())["cells"]) == 1
    with pytest.raises(ToolError, match="not found"):
        tools.NotebookEdit(**call, new_source="x")


def test_effects_are_refused_where_they_are_not_allowed():
    tools = Tools(allowed=lambda _: False)
    for sly in ("_effects", "_allowed"):
        with pytest.raises(AttributeError):
            setattr(tools, sly, lambda: True)
    for call in (
        lambda: tools.Bash(command="rm README.md"),
        lambda: tools.Write(file_path="README.md", content=""),
        lambda: tools.Edit(file_path="README.md", old_string="demo", new_string="x"),
        lambda: tools.MultiEdit(file_path="README.md", edits=[]),
        lambda: tools.NotebookEdit(notebook_path="README.md", new_source=""),
    ):
        with pytest.raises(ToolError, match="--allow-effects"):
            call()
    assert Path("README.md").read_text() == "# demo\nalpha\n"
    assert tools.Read(file_path="README.md")["file"]["totalLines"] == 3


def test_missing_files_unknown_tools_and_pictures(tools):
    with pytest.raises(ToolError, match="File does not exist"):
        tools.Read(file_path="missing.txt")
    with pytest.raises(AttributeError, match="no tool WebSearch here"):
        tools.WebSearch(query="x")
    Path("p.png").write_bytes(b"\x89PNG not really")
    assert tools.Read(file_path="p.png")["file"]["type"] == "image/png"


def test_an_answer_survives_being_stored(tools):
    answer = tools.Read(file_path="README.md")
    again = pickle.loads(pickle.dumps(answer))
    assert again == answer
    assert repr(again) == repr(answer)
    assert keys(again) == keys(READ)
