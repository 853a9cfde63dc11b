"""The commands that replay, run and keep kernels, and their options."""

from __future__ import annotations

from rlmnb.cli.arguments.calls import add_replay_options
from rlmnb.cli.arguments.common import (
    Commands,
    last,
    megabytes,
    positive,
    selectors,
    session,
)
from rlmnb.selecting import GRAMMAR


def add_replaying(commands: Commands) -> None:
    """Add `status` and `replay`."""
    session(
        commands.add(
            "status",
            "replaying:status",
            "show which cells no longer hold, and why; nothing is run",
            "rlmnb status analysis.ipynb",
        )
    )
    parser = commands.add(
        "replay",
        "replaying:run_replay",
        "run the cells whose inputs changed, and reuse the rest",
        "rlmnb replay analysis.ipynb --dry-run\n"
        "  rlmnb replay demo 2-4,7                  # these, and what they need\n"
        "  rlmnb replay demo --on-fork --edit 3 'limit = 5'   # what if?",
    )
    session(parser)
    selectors(parser, "bring only these up to date, and what they need")
    parser.add_argument("--dry-run", action="store_true", help="only say what would run, and why")
    parser.add_argument("--check", action="store_true", help="exit 1 if anything is stale")
    parser.add_argument(
        "--verify", action="store_true", help="exit 1 if anything would have to run; runs nothing"
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="run every cell, or every one that is selected, and past the budget for model calls",
    )
    add_replay_options(parser)
    parser.add_argument(
        "--allow-effects",
        action="store_true",
        help="also run cells that change things outside the notebook (Bash, Write, Edit, ...); "
        "see which with --dry-run first",
    )
    parser.add_argument(
        "--keep-kernel", action="store_true", help="leave the kernel running for the next replay"
    )
    parser.add_argument(
        "--on-fork",
        action="store_true",
        help="replay a fork, leave the session alone, and show the difference",
    )
    parser.add_argument(
        "--edit",
        nargs=2,
        action="append",
        default=[],
        metavar=("CELL", "CODE"),
        help="with --on-fork: give a cell another source there; may be repeated",
    )
    parser.add_argument("--diff", action="store_true", help="show what the replay changed")
    parser.add_argument(
        "--fail-fast", action="store_true", help="stop at the first cell that fails"
    )
    parser.add_argument(
        "--timeout", type=positive, metavar="SECONDS", help="the longest that a cell may run"
    )
    parser.add_argument(
        "--memory", type=megabytes, metavar="MB", help="the most memory that the kernel may take"
    )


def add_running(commands: Commands) -> None:
    """Add what runs code and kernels."""
    parser = commands.add(
        "invalidate",
        "replaying:invalidate",
        "mark cells as no longer valid, so that they and what depends on them are replayed",
        "rlmnb invalidate demo auth.py --reason 'the key was rotated'\n"
        "  rlmnb invalidate demo auth.py --undo",
    )
    last(parser, "FILE|SELECTOR", f"a file that cells read, or {GRAMMAR}")
    parser.add_argument("--reason", metavar="TEXT", help="why, for whoever reads it later")
    parser.add_argument("--undo", action="store_true", help="take the marks back")
    parser = commands.add(
        "exec",
        "running:execute",
        "run code in the session's kernel as a new cell, starting the kernel if need be",
        "rlmnb exec 'print(len(users))'\n  rlmnb exec demo - < script.py",
    )
    last(parser, "CODE", "Python code; - is stdin")
    parser.add_argument(
        "--timeout", type=positive, metavar="SECONDS", help="the longest that it may run"
    )
    parser.add_argument(
        "--allow-effects",
        action="store_true",
        help="also run tools that change things outside the notebook (Bash, Write, Edit, ...)",
    )
    parser = commands.add(
        "kernel",
        "warming:kernel",
        "start, stop and look at kernels that stay warm between replays",
        "rlmnb kernel start demo\n  rlmnb kernel status demo --json\n  rlmnb kernel list",
    )
    parser.add_argument(
        "action",
        choices=("start", "status", "stop", "restart", "list"),
        help="status exits with 1 if none is running",
    )
    session(parser)
    parser.add_argument(
        "--timeout",
        type=positive,
        metavar="SECONDS",
        help="start, restart: how long it may take; 30 if unset",
    )
    parser.add_argument(
        "--idle",
        type=positive,
        metavar="MINUTES",
        help="start, restart: end after so long unused; 30, or as before, if unset",
    )
    parser.add_argument(
        "--memory",
        type=megabytes,
        metavar="MB",
        help="start, restart: the most memory it may take",
    )
    parser = commands.add(
        "watch",
        "watching:watch",
        "stay, and say after every change what became stale",
        "rlmnb watch analysis.ipynb --replay",
    )
    session(parser)
    parser.add_argument("--replay", action="store_true", help="and bring it up to date")
    parser.add_argument(
        "--debounce", type=positive, metavar="SECONDS", help="how long changes are gathered; 0.2"
    )
