"""The options of what has to do with model calls."""

from __future__ import annotations

import argparse

from rlmnb.cli.arguments.common import SESSION, Commands
from rlmnb.errors import ModelError
from rlmnb.models.modes import MODES, seconds


def add_replay_options(parser: argparse.ArgumentParser) -> None:
    """Add what a replay can be told about model calls."""
    parser.add_argument(
        "--calls",
        choices=MODES,
        default="once",
        help="model calls: none = never, an answer that is not kept is an error; once = those "
        "whose answer no cell has (the default); new_episodes = those whose answer this very cell "
        "has not; all = every one anew",
    )
    parser.add_argument(
        "--calls-expire",
        type=span,
        metavar="AGE",
        help="ask again for answers older than this: 12h, 7d",
    )
    parser.add_argument(
        "--within-budget", action="store_true", help="with --force: keep to the budget all the same"
    )


def span(value: str) -> float:
    """Read a length of time from the command line."""
    try:
        return seconds(value)
    except ModelError as error:
        raise argparse.ArgumentTypeError(f"{error.message}; {error.hint}") from None


def add_calls(commands: Commands) -> None:
    """Add the commands that look at calls and at what they cost."""
    parser = commands.add(
        "calls",
        "calling:run_calls",
        "list the model calls of a session, or prune answers that are no longer used",
        "rlmnb calls demo\n"
        "  rlmnb calls prune demo --older-than 30d   # what it would remove; then --yes",
    )
    parser.add_argument(
        "what", nargs="*", metavar="[prune] [SESSION]", help=f"{SESSION}, after `prune` or alone"
    )
    parser.add_argument("--cell", metavar="CELL", help="only those of one cell")
    parser.add_argument("--model", help="only those to one model")
    parser.add_argument(
        "--older-than", type=span, metavar="AGE", help="prune: also used answers of this age"
    )
    parser.add_argument("--yes", action="store_true", help="prune: do it, and not only say what")
    parser = commands.add(
        "budget",
        "calling:run_budget",
        "show what model calls have cost and may cost",
        "rlmnb budget demo --set usd=2.50 calls=100 depth=2",
    )
    parser.add_argument("session", nargs="?", metavar="SESSION", help=SESSION)
    parser.add_argument(
        "--set",
        nargs="+",
        default=[],
        metavar="LIMIT=NUMBER",
        help="tokens=, calls=, usd=, recursive= (calls), depth= (1 to 3); `none` for no limit",
    )
