"""The commands that write sessions and cells, and their options."""

from __future__ import annotations

from rlmnb.cli.arguments.common import (
    Commands,
    new_id,
    session,
)
from rlmnb.format.cells import CELL_TYPES


def add_writing(commands: Commands) -> None:
    """Add what writes them."""
    parser = commands.add(
        "append",
        "writing:append_cell",
        "append a cell, beginning the session if need be, and print the cell's id",
        "rlmnb append demo --type tool --source 'tools.Read(file_path=\"auth.py\")' --output -",
    )
    parser.add_argument("session", metavar="SESSION", help="a session's id, or a notebook's path")
    parser.add_argument("--source", required=True, metavar="CODE", help="the code; - is stdin")
    parser.add_argument("--type", default="repl", choices=CELL_TYPES, help="repl unless said")
    parser.add_argument("--output", metavar="TEXT", help="what it printed; - is stdin")
    parser.add_argument("--error", metavar="TEXT", help="the error it failed with")
    parser.add_argument(
        "--depends",
        action="append",
        default=[],
        metavar="CELL",
        help="a cell it depends on; may be repeated",
    )
    parser.add_argument(
        "--reads",
        action="append",
        default=[],
        metavar="PATH",
        help="a file it read; may be repeated",
    )
    parser.add_argument(
        "--writes",
        action="append",
        default=[],
        metavar="PATH",
        help="a file it wrote; may be repeated",
    )
    parser.add_argument("--goal", metavar="TEXT", help="what it was for")
    parser.add_argument("--record", metavar="JSON", help="any other fields of the record")
    parser = commands.add(
        "set",
        "writing:set_state",
        "change a session's title, tags and working memory, or end it",
        "rlmnb set demo --title 'fix the login' --tag auth",
    )
    session(parser)
    parser.add_argument("--title", help="the new title; empty removes it")
    parser.add_argument("--goal", metavar="TEXT", help="what it was begun for, in other words")
    parser.add_argument(
        "--activation",
        choices=("complexity", "always", "never", "on", "off"),
        help="recursive work: by the prompt's complexity, always, never; on and off are by hand",
    )
    parser.add_argument("--tag", action="append", default=[], help="add a tag")
    parser.add_argument("--untag", action="append", default=[], help="remove a tag")
    parser.add_argument(
        "--remember",
        action="append",
        default=[],
        metavar="NAME=JSON",
        help="keep a value at hand in working_memory; what is not JSON is taken as text",
    )
    parser.add_argument(
        "--forget", action="append", default=[], metavar="NAME", help="drop such a value"
    )
    parser.add_argument("--end", action="store_true", help="mark the session as ended now")
    parser = commands.add(
        "fork",
        "writing:fork",
        "begin a session with the cells of another, up to one of them",
        "rlmnb fork demo --at cell_4f0z",
    )
    session(parser)
    parser.add_argument("--at", metavar="CELL", help="the last cell to take; all unless said")
    parser.add_argument(
        "--id", type=new_id, metavar="ID", help="the new session's id; made up unless said"
    )
    parser = commands.add(
        "pair",
        "pairing:keep_in_step",
        "keep a notebook and a plain text of its cells in step, whichever was edited",
        "rlmnb pair analysis.ipynb                  # writes analysis.py, merges edits\n"
        "  rlmnb pair analysis.ipynb --check          # for a git hook; changes nothing\n"
        "\nexit code 1: one cell was edited on both sides, or with --check: they are not in step",
    )
    session(parser)
    parser.add_argument(
        "--text",
        metavar="FILE.py",
        help="where the text is; without it, as the last time, or beside the notebook",
    )
    parser.add_argument(
        "--prefer",
        choices=("text", "notebook"),
        help="whose version counts of a cell that was edited on both sides",
    )
    parser.add_argument(
        "--check", action="store_true", help="only say whether they are in step; write nothing"
    )
