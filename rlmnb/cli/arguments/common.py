"""What commands have in common: their collector, sessions, cells, sizes and ages."""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn

from rlmnb.errors import UsageError
from rlmnb.selecting import GRAMMAR

SESSION = "a session's id, the beginning of it, or the path of any notebook"


class Parser(argparse.ArgumentParser):
    """A parser that leaves it to its caller how a mistake is told: scripts asked for JSON."""

    def error(self, message: str) -> NoReturn:
        """Refuse the command line."""
        self.print_usage(sys.stderr)
        raise UsageError(message, hint=f"run: {self.prog} --help")


class Commands:
    """Collects the commands; each names the function that does it, loaded only when it is run."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._subparsers = parser.add_subparsers(
            dest="command", metavar="COMMAND", title="commands"
        )

    def add(self, name: str, function: str, summary: str, example: str) -> argparse.ArgumentParser:
        """Add a command, and return its parser for more."""
        parser = self._subparsers.add_parser(
            name,
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            epilog=f"example:\n  {example}\n",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        parser.add_argument("--json", action="store_true", help="print JSON, for scripts")
        parser.set_defaults(function=function)
        return parser


def session(
    parser: argparse.ArgumentParser,
    without: str = "the agent's own or the newest of this project",
) -> None:
    """Add the session that a command is about."""
    parser.add_argument(
        "session", nargs="?", metavar="SESSION", help=f"{SESSION}; without it, {without}"
    )


def one_cell(parser: argparse.ArgumentParser) -> None:
    """Add the cell that a command is about."""
    last(parser, "CELL", "its id, the beginning of it, or its number")


def last(parser: argparse.ArgumentParser, name: str, what: str) -> None:
    """Let a command take one thing, and a session before it if it is not the usual one."""
    parser.add_argument("names", nargs="+", metavar=f"[SESSION] {name}", help=argparse.SUPPRESS)
    parser.add_argument("--session", metavar="SESSION", help=SESSION)
    parser.usage = f"{parser.prog} [SESSION] {name} [options]"
    parser.description = f"{parser.description} {name} is {what}."
    parser.set_defaults(wanted=name)


def selectors(parser: argparse.ArgumentParser, what: str) -> None:
    """Add cells, by selectors."""
    parser.add_argument("selectors", nargs="*", metavar="SELECTOR", help=f"{what}: {GRAMMAR}")
    parser.add_argument(
        "--cells", metavar="SELECTOR", help="the same, where no session is named before it"
    )


def megabytes(text: str) -> int:
    """Read a size in megabytes."""
    amount = int(text)
    if amount < 256:
        raise argparse.ArgumentTypeError(f"{text} MB is too little for a kernel; 256 is the least")
    return amount


def positive(text: str) -> float:
    """Read how long something may take."""
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no length of time: wanted more than zero")
    return number


def port(text: str) -> int:
    """Read the number of a port."""
    number = int(text)
    if not 0 <= number <= 65_535:
        raise argparse.ArgumentTypeError(f"{text} is not a port from 0 to 65535")
    return number


def days(text: str) -> float:
    """Read an age in days."""
    days = float(text)
    if not 0 <= days <= 36_500:
        raise argparse.ArgumentTypeError(f"{text} is not a number of days from 0 to 36500")
    return days
