"""The commands that read sessions and cells, and their options."""

from __future__ import annotations

import argparse
import time

from rlmnb.cli.arguments.common import (
    Commands,
    depth,
    one_cell,
    selectors,
    session,
)
from rlmnb.errors import InvalidNameError, ModelError
from rlmnb.format.cells import CELL_TYPES, STATUSES
from rlmnb.format.times import from_seconds
from rlmnb.models.modes import seconds
from rlmnb.views import moment

_WHEN = "2026-11-17, 2026-11-17T09:30, or how long ago: 90m, 2h, 7d"


def when_said(value: str) -> str:
    """Read a moment from the command line; a length of time is meant to be that long ago."""
    try:
        return from_seconds(time.time() - seconds(value))
    except (ModelError, OverflowError):
        pass
    try:
        moment(value)
    except InvalidNameError:
        raise argparse.ArgumentTypeError(f"{value!r} is no time; wanted {_WHEN}") from None
    return value


def add_reading(commands: Commands) -> None:
    """Add what reads sessions."""
    add = commands.add
    parser = add(
        "sessions", "reading:list_sessions", "list sessions", "rlmnb sessions --active --here"
    )
    parser.add_argument("--active", action="store_true", help="only those that have not ended")
    parser.add_argument("--here", action="store_true", help="only those of this project")
    parser.add_argument("--tag", help="only those with this tag")
    parser.add_argument("--archived", action="store_true", help="those in the archive instead")
    session(add("show", "reading:show", "show one session", "rlmnb show 2716cb5d"))
    parser = add(
        "cells",
        "reading:list_cells",
        "list the cells of a session",
        "rlmnb cells --type tool --file auth.py --status stale\n"
        "  rlmnb cells --text login --since 2h\n"
        "  rlmnb cells demo 2-4,downstream:7",
    )
    session(parser)
    selectors(parser, "only these")
    parser.add_argument(
        "--type", help=f"of this type ({', '.join(CELL_TYPES)}, markdown), or of a tool like Read"
    )
    statuses = ("fresh", "stale", "new", *STATUSES)
    parser.add_argument(
        "--status", choices=statuses, metavar="STATUS", help=f"one of {', '.join(statuses)}"
    )
    parser.add_argument("--file", metavar="PATH", help="that read or wrote this file")
    parser.add_argument("--text", help="with this in their source or output, in any case")
    parser.add_argument("--since", type=when_said, metavar="WHEN", help=f"begun since {_WHEN}")
    parser.add_argument("--until", type=when_said, metavar="WHEN", help="begun until then")
    parser = add(
        "cell", "reading:show_cell", "show one cell", "rlmnb cell cell_4f0z --session demo"
    )
    one_cell(parser)
    parser.add_argument(
        "--output", action="store_true", help="print the whole output, exactly, and nothing else"
    )
    parser = add(
        "chain",
        "reading:show_chain",
        "show what a cell depends on",
        "rlmnb chain 7 --session demo --reverse",
    )
    one_cell(parser)
    parser.add_argument(
        "--reverse", action="store_true", help="show what depends on the cell instead"
    )
    parser.add_argument(
        "--depth", type=depth, metavar="N", help="only what is at most N edges away"
    )
    session(add("files", "reading:list_files", "list the files a session touched", "rlmnb files"))
    session(add("stats", "reading:show_stats", "count and sum up a session", "rlmnb stats --json"))
