"""Kernels that are forked off a process which has loaded already what they load.

A kernel takes half a second of processor time to start, nearly all of it to import the same
modules as the one before, and the tables of cases start a thousand of them. Run as
`python -m tests.nursery MODULE`, this loads what a kernel does, and then begins one for each line
that it reads.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
MODELS = "LLM_USER_PATH"
PLAIN, OURS = "ipykernel_launcher", "rlmnb.kernel"
_LOADED = {PLAIN: "ipykernel.kernelapp", OURS: "rlmnb.kernel.app"}


def load(module: str) -> None:
    """Import what a kernel imports, but for a debugger; it starts no thread and opens no socket."""
    sys.modules["debugpy"] = None  # type: ignore[assignment]
    import ipykernel.debugger  # noqa: F401

    del sys.modules["debugpy"]
    importlib.import_module(_LOADED[module])
    load_models()


def load_models() -> None:
    """Import the library of models where one is served: that takes longer than all the rest."""
    if MODELS in os.environ:
        for name in ("llm.default_plugins.openai_models", "genai_prices"):
            importlib.import_module(name)


def serve() -> dict[str, Any]:
    """Answer until it is the child that goes on: what it is to be is returned there."""
    for line in iter(sys.stdin.readline, ""):
        asked = json.loads(line)
        if "poll" in asked:
            pid, status = os.waitpid(asked["poll"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        else:
            answer = os.fork()
            if not answer:
                return asked
        print(json.dumps(answer), flush=True)
    raise SystemExit


def become(asked: dict[str, Any]) -> None:
    """Be as a kernel that was started with these arguments, there, in that environment."""
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    settle({**asked, "env": {**asked["env"], "JPY_PARENT_PID": str(os.getppid())}})


def settle(asked: dict[str, Any]) -> None:
    """Be as a process that was started with these arguments, there, in that environment."""
    os.environ.clear()
    os.environ.update(asked["env"])
    time.tzset()
    os.chdir(asked["cwd"])
    sys.argv[1:] = asked["arguments"]
    # As for `python -m`, which a kernel takes off again, and what the environment says.
    sys.path[:0] = [asked["cwd"], *filter(None, asked["env"].get("PYTHONPATH", "").split(":"))]


if __name__ == "__main__":
    wanted = sys.argv[1]
    del sys.path[0]
    # ipykernel asks while it is imported who is to end before a kernel does.
    os.environ["JPY_PARENT_PID"] = str(os.getpid())
    load(wanted)
    become(serve())
    runpy.run_module(wanted, run_name="__main__", alter_sys=True)
