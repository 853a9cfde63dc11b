"""The commands that read sessions and cells, and their options."""

from __future__ import annotations

from rlmnb.cli.arguments.common import (
    Commands,
    one_cell,
    selectors,
    session,
)
from rlmnb.format.cells import CELL_TYPES, STATUSES


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
        "  rlmnb cells demo 2-4,downstream:7",
    )
    session(parser)
    selectors(parser, "only these")
    parser.add_argument(
        "--type", help=f"of this type ({', '.join(CELL_TYPES)}, markdown), or of a tool like Read"
    )
    parser.add_argument(
        "--status", choices=("fresh", "stale", "new", *STATUSES), help="in this status"
    )
    parser.add_argument("--file", metavar="PATH", help="that read or wrote this file")
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
    parser.add_argument("--depth", type=int, metavar="N", help="only what is at most N edges away")
    session(add("files", "reading:list_files", "list the files a session touched", "rlmnb files"))
    session(add("stats", "reading:show_stats", "count and sum up a session", "rlmnb stats --json"))
