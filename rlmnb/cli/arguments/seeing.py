"""The commands that draw, compare and judge, and their options."""

from __future__ import annotations

from rlmnb.cli.arguments.common import (
    SESSION,
    Commands,
    session,
)
from rlmnb.graph.rules import RULES


def add_seeing(commands: Commands) -> None:
    """Add pictures and differences."""
    parser = commands.add(
        "open",
        "opening:open_in_lab",
        "open a session in JupyterLab, starting one if none shows it, and print the address",
        "rlmnb open demo --no-browser",
    )
    session(parser)
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser = commands.add(
        "graph",
        "drawing:show_graph",
        "draw what the cells need from one another, and which of them no longer hold",
        "rlmnb graph analysis.ipynb\n  rlmnb graph demo --cell 7 --files --svg -o graph.svg",
    )
    session(parser)
    forms = parser.add_mutually_exclusive_group()
    for form, summary in (
        ("mermaid", "a Mermaid flowchart, for Markdown on GitHub and in JupyterLab"),
        ("dot", "for Graphviz"),
        ("svg", "an image; needs: pip install 'rlmnb[graph]'"),
    ):
        forms.add_argument(f"--{form}", dest="form", action="store_const", const=form, help=summary)
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write to a file, whose ending can name the form"
    )
    parser.add_argument(
        "--into-notebook",
        action="store_true",
        help="put a Mermaid picture into the notebook, which any Jupyter draws; again refreshes it",
    )
    parser.add_argument("--cell", metavar="CELL", help="only what it needs and what needs it")
    parser.add_argument("--files", action="store_true", help="files read and written are nodes too")
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument(
        "--by-turn", action="store_true", help="one node a turn, as is done with many cells"
    )
    amount.add_argument(
        "--all", action="store_true", help="one node a cell, however many there are"
    )


def add_judging(commands: Commands) -> None:
    """Add what finds faults."""
    parser = commands.add(
        "diff",
        "judging:diff",
        "show what two sessions, or a fork and its origin, have not in common",
        "rlmnb diff demo demo-2 --stat\n"
        "  rlmnb diff demo-2                       # a fork with what it was forked from\n"
        "  rlmnb diff monday.ipynb tuesday.ipynb   # any two notebooks; 1: they differ",
    )
    parser.add_argument("a", nargs="?", metavar="A", help=f"{SESSION}")
    parser.add_argument(
        "b", nargs="?", metavar="B", help="the other; without it, A is compared with its origin"
    )
    parser.add_argument("--stat", action="store_true", help="one line for each cell, no lines")
    parser.add_argument("--full", action="store_true", help="cut nothing short")
    parser.add_argument("--cell", metavar="CELL", help="only this cell: its id or number")
    parser = commands.add(
        "lint",
        "judging:lint",
        "point out cells that make a session hard to follow and to replay, with the reason",
        "rlmnb lint analysis.ipynb --ignore unused\n"
        "\nthe tag rlmnb:lint-ignore on a cell keeps it out; exit code 1: something was found",
    )
    session(parser)
    for option, word in (("--only", "apply only this rule"), ("--ignore", "leave this rule out")):
        parser.add_argument(
            option, action="append", default=[], metavar="RULE", help=f"{word}; may be repeated"
        )
    width = max(len(rule) for rule in RULES)
    listed = "".join(f"  {rule:<{width}}  {what}\n" for rule, what in RULES.items())
    parser.epilog = f"rules:\n{listed}\n{parser.epilog}"
