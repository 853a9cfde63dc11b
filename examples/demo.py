"""What rlmnb does, from an agent's first call to the last replay, with no key and no network.

Every line that begins with `$` is a command you can type yourself.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat

from rlmnb.testing.chat_api import chat_api, model_directory

HERE = Path(__file__).resolve().parents[1]
# What the agent of the payloads was asked, where it worked, and what it found there.
PROMPT = "What do we have about alpha? Note what is missing in new.txt."
WORKED_IN = "/home/dev/project"
FILES = {"README.md": "# demo\nalpha\n", "data.txt": "alpha beta\n"}
EVENTS = (
    *("SessionStart.startup", "UserPromptSubmit", "PreToolUse.Read", "PostToolUse.Read"),
    *("PreToolUse.Grep", "PostToolUse.Grep", "PreToolUse.Write", "PostToolUse.Write"),
    *("PreToolUse.Edit", "PostToolUse.Edit", "PreToolUse.Bash", "PostToolUse.Bash", "Stop"),
)
AUTH = "def login(user):\n    return user in USERS\n"
# Its price is known, so that what is saved has a sum.
MODEL = "gpt-4o-mini"


def quoted(argument: str) -> str:
    """Quote an argument the way a person would."""
    if "'" in argument and not set(argument) & set('"$`\\'):
        return f'"{argument}"'
    return shlex.quote(argument)


def run(*arguments: str) -> None:
    """Show a command and run it as a user would."""
    print(f"\n$ rlmnb {' '.join(quoted(each) for each in arguments)}", flush=True)
    subprocess.run([sys.executable, "-m", "rlmnb", *arguments], check=True)


def tell(text: str) -> None:
    """Say what is about to happen."""
    print(f"\n# {text}", flush=True)


def write(name: str, text: str) -> None:
    """Write a file, the same bytes on every system."""
    Path(name).write_text(text, encoding="utf-8", newline="\n")


def edit(session: str, number: int, source: str) -> None:
    """Change a cell's source, as a person does in JupyterLab."""
    notebook = Path(os.environ["RLMNB_HOME"]) / session / "session.ipynb"
    whole = nbformat.read(notebook, as_version=4)
    whole.cells[number - 1].source = source
    nbformat.write(whole, notebook)


def leave_files(event: dict[str, Any]) -> None:
    """Leave on the disk what the call of a payload had left there."""
    answer = event.get("tool_response", {})
    if event["hook_event_name"] != "PostToolUse":
        return
    if event["tool_name"] == "Write":
        write(answer["filePath"], answer["content"])
    elif event["tool_name"] == "Edit":
        new = answer["originalFile"].replace(answer["oldString"], answer["newString"])
        write(answer["filePath"], new)


def hand_over(session: str) -> None:
    """Give the hook real payloads of Claude Code, as the client does, for a project here."""
    project = Path("project").resolve()
    project.mkdir(exist_ok=True)
    for name, text in FILES.items():
        write(str(project / name), text)
    for name in EVENTS:
        print(f"$ python -m rlmnb.hook < {name}.json", flush=True)
        payload = (HERE / "tests" / "payloads" / f"{name}.json").read_text(encoding="utf-8")
        event = json.loads(payload.replace(WORKED_IN, project.as_posix()))
        event |= {"session_id": session} | ({"prompt": PROMPT} if "prompt" in event else {})
        leave_files(event)
        data = json.dumps(event).encode()
        subprocess.run([sys.executable, "-m", "rlmnb.hook"], input=data, check=True)


def an_agent_works() -> None:
    """Record a session through the hooks, change a file, and make only its reader's calls again."""
    tell("Claude Code works; its hooks hand over what it does, one event each.")
    hand_over("agent")
    tell("Each thing it did is a cell of a real notebook.")
    run("cells", "agent")
    tell("Somebody changes a file that it read: what looked at it is stale, and nothing else.")
    write("project/README.md", "# demo\nalpha, and now beta\n")
    run("status", "agent")
    tell("Only that runs again. Commands and writes never do, unless you allow it.")
    run("replay", "agent")
    run("cell", "agent", "2")


def cells_are_appended() -> None:
    """Append from a script; see what depends on what, and what no longer holds."""
    write("auth.py", AUTH)
    tell("Anything can append: a script, another agent, you.")
    run("append", "demo", "--type", "tool", "--source", 'code = tools.Read(file_path="auth.py")')
    run("append", "demo", "--source", "users = ['ann', 'bob']")
    run("append", "demo", "--source", "print(len(users), 'users')", "--output", "2 users")
    run(
        *("append", "demo", "--type", "llm_call", "--output", "USERS is not defined"),
        *("--source", "answer = llm_query(f'does this run? {code}')"),
    )
    run("set", "demo", "--title", "fix the login")
    run("show", "demo")
    run("chain", "demo", "4")
    write("auth.py", AUTH.replace("USERS", "users"))
    run("cells", "demo", "--status", "stale")
    tell("Try another way from the second cell on; the first session stays as it is.")
    run("fork", "demo", "--at", "2", "--id", "demo-2")
    tell("Every hash is derived again; the notebook is valid nbformat.")
    run("verify", "demo")


def a_cell_is_edited() -> None:
    """Run a notebook once, edit a cell, and run only what that changes."""
    tell("Code that can run is run once, in a kernel that notes what each cell reads and writes.")
    for source in (
        "text = 'the cat and the dog and the bird'",
        "words = text.split()",
        "counts = {word: words.count(word) for word in words}",
        "longest = max(words, key=len)\nprint(longest)",
        "print(max(counts, key=counts.get))",
    ):
        run("append", "words", "--source", source)
    run("replay", "words", "--force")
    tell("Edit one cell, as you would in JupyterLab, and replay: only what it changes runs.")
    edit("words", 4, "longest = min(words, key=len)\nprint(longest)")
    run("status", "words")
    run("replay", "words")
    tell("Replay again: nothing is stale, no kernel is started.")
    run("replay", "words", "--verify")
    tell("What if? A fork is replayed with another first cell; the session stays as it is.")
    run("replay", "words", "--on-fork", "--edit", "1", "text = 'a bee and a bee'")
    tell("Ask the session's own kernel something; the question becomes a cell.")
    run("exec", "words", "print(len(words), 'words')")
    run("kernel", "stop", "words")
    run("graph", "words")


def a_model_is_asked() -> None:
    """Ask a model in cells, change one of the questions, and pay for that alone."""
    tell("Cells ask a model; here a scripted one answers, on this machine.")
    with chat_api() as api:
        os.environ["LLM_USER_PATH"] = model_directory("llm", api, model=MODEL)
        os.environ["RLMNB_MODEL"] = MODEL
        notes = ["late again", "fast and friendly", "box was open", "would buy again"]
        run("append", "review", "--source", f"notes = {notes}")
        asking = r'map_reduce(notes, "Is this a complaint?\n{item}", "Sum up:\n{results}")'
        run("append", "review", "--source", f"report = {asking}\nprint(report)")
        run("replay", "review", "--force")
        tell("One note of four changes: one question and the summing up are asked again.")
        edit("review", 1, f"notes = {[*notes[:3], 'would not buy again']}")
        run("replay", "review")
    run("budget", "review")


def main() -> None:
    """Show it scene by scene."""
    an_agent_works()
    a_cell_is_edited()
    a_model_is_asked()
    cells_are_appended()
    tell("Go on by yourself; it is a notebook like any other:")
    print(f"export RLMNB_HOME={os.environ['RLMNB_HOME']} PATH={HERE}/.venv/bin:$PATH")
    print("rlmnb cells agent")
    print("jupyter lab $RLMNB_HOME/agent/session.ipynb    # with any JupyterLab you have")


if __name__ == "__main__":
    place = HERE / "build" / "demo"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    os.environ["RLMNB_HOME"] = str(place / "sessions")
    os.environ.pop("CLAUDE_CODE_SESSION_ID", None)
    os.chdir(place)
    main()
