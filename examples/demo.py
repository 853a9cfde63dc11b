"""A session from its first cell to its last, with no key and no network.

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

AUTH = "def login(user):\n    return user in USERS\n"


def quoted(argument: str) -> str:
    """Quote an argument the way a person would."""
    if "'" in argument and not set(argument) & set('"$`\\'):
        return f'"{argument}"'
    return shlex.quote(argument)


def run(*arguments: str) -> None:
    """Show a command and run it as a user would."""
    print(f"\n$ rlmnb {' '.join(quoted(each) for each in arguments)}", flush=True)
    subprocess.run([sys.executable, "-m", "rlmnb", *arguments], check=True)


def hand_over(session: str) -> None:
    """Give the hook real payloads of Claude Code, as the client does."""
    payloads = Path(__file__).resolve().parents[1] / "tests" / "payloads"
    for name in (
        *("SessionStart.startup", "UserPromptSubmit", "PreToolUse.Read", "PostToolUse.Read"),
        *("PreToolUse.Write", "PostToolUse.Write", "PreToolUse.Edit", "PostToolUse.Edit"),
        *("PreToolUse.Bash", "PostToolUse.Bash", "PostToolUseFailure.Bash", "Stop"),
    ):
        print(f"$ python -m rlmnb.hook < {name}.json", flush=True)
        event = json.loads((payloads / f"{name}.json").read_text(encoding="utf-8"))
        data = json.dumps({**event, "session_id": session}).encode()
        subprocess.run([sys.executable, "-m", "rlmnb.hook"], input=data, check=True)


def tell(text: str) -> None:
    """Say what is about to happen."""
    print(f"\n# {text}", flush=True)


def main() -> None:
    """Append, look, change a file, see what no longer holds, verify."""
    Path("auth.py").write_text(AUTH, encoding="utf-8")
    tell("An agent works; each thing it does becomes a cell of a real notebook.")
    run("append", "demo", "--type", "tool", "--source", 'code = tools.Read(file_path="auth.py")')
    run("append", "demo", "--source", "users = ['ann', 'bob']")
    run("append", "demo", "--source", "print(len(users), 'users')", "--output", "2 users")
    run(
        *("append", "demo", "--type", "llm_call", "--output", "USERS is not defined"),
        *("--source", "answer = llm_query(f'does this run? {code}')"),
    )
    run("set", "demo", "--title", "fix the login")

    tell("What it did, and what depends on what.")
    run("show", "demo")
    run("cells", "demo")
    run("chain", "demo", "4")

    tell("Somebody changes a file that the agent read. Only what came from it is stale.")
    Path("auth.py").write_text(AUTH.replace("USERS", "users"), encoding="utf-8")
    run("cells", "demo", "--status", "stale")

    tell("Try another way from the second cell on; the first session stays as it is.")
    run("fork", "demo", "--at", "2", "--id", "demo-2")

    tell("Every hash is derived again; the notebook is valid nbformat.")
    run("verify", "demo")

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
    notebook = Path(os.environ["RLMNB_HOME"]) / "words" / "session.ipynb"
    whole = json.loads(notebook.read_text(encoding="utf-8"))
    whole["cells"][3]["source"] = ["longest = min(words, key=len)\n", "print(longest)"]
    notebook.write_text(json.dumps(whole, indent=1), encoding="utf-8")
    run("status", "words")
    run("replay", "words")

    tell("Replay again: nothing is stale, no kernel is started.")
    run("replay", "words", "--verify")

    tell("What if? A fork is replayed with another first cell; the session stays as it is.")
    run("replay", "words", "--on-fork", "--edit", "1", "text = 'a bee and a bee'")

    tell("The file that the agent read has changed: its call is made again. Commands never are.")
    run("append", "demo", "--type", "tool", "--source", "tools.Bash(command='touch done')")
    run("replay", "demo", "file:auth.py", "--dry-run")
    run("replay", "demo", "file:auth.py")

    tell("Ask the session's own kernel something; the question becomes a cell.")
    run("exec", "words", "print(len(words), 'words')")
    run("kernel", "stop", "words")
    run("graph", "words")

    tell("Claude Code does all this by itself: its hooks hand over what it does, one event each.")
    hand_over("agent")
    run("cells", "agent")
    run("show", "agent")
    tell("Go on by yourself; it is a notebook like any other:")
    here = Path(__file__).resolve().parents[1]
    print(f"export RLMNB_HOME={os.environ['RLMNB_HOME']} PATH={here}/.venv/bin:$PATH")
    print("rlmnb cells demo")
    print("jupyter lab $RLMNB_HOME/demo/session.ipynb    # with any JupyterLab you have")


if __name__ == "__main__":
    place = Path(__file__).resolve().parents[1] / "build" / "demo"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    os.environ["RLMNB_HOME"] = str(place / "sessions")
    os.environ.pop("CLAUDE_CODE_SESSION_ID", None)
    os.chdir(place)
    main()
