"""What commands have in common: their collector, sessions, cells, sizes and ages."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Sequence
from typing import Any, NoReturn

from rlmnb.errors import InvalidNameError, UsageError
from rlmnb.ids import check_session_id
from rlmnb.selecting import GRAMMAR

SESSION = "a session's id, the beginning of it, or the path of any notebook"


class Parser(argparse.ArgumentParser):
    """A parser that leaves it to its caller how a mistake is told: scripts asked for JSON."""

    def error(self, message: str) -> NoReturn:
        """Refuse the command line."""
        self.print_usage(sys.stderr)
        raise UsageError(message, hint=f"run: {self.prog} --help")


class CommandParser(Parser):
    """The parser of one command: what it is about may stand before, between and after options."""

    _mixing = False

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Read all of the words, and refuse them here, where the usage is that of the command."""
        found, left = super().parse_known_args(args, namespace)
        if self._mixing:
            return found, left
        if left:
            # Only now, as it takes `--` for nothing.
            found, left = self._mixed(args, namespace)
        if left:
            self.error(f"unrecognized arguments: {' '.join(left)}")
        return found, left

    def _mixed(self, args: Sequence[str] | None, namespace: Any) -> tuple[Any, list[str]]:
        # It asks for known arguments itself: first for the options, then for the others.
        self._mixing = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._mixing = False


class Help(argparse.RawDescriptionHelpFormatter):
    """Breaks sentences at the edge of the terminal, and leaves examples as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines = super()._fill_text(text, width, indent).splitlines()
        return "\n".join(
            line if line.startswith(" ") else textwrap.fill(line, width) for line in lines
        )


class Commands:
    """Collects the commands; each names the function that does it, loaded only when it is run."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._subparsers = parser.add_subparsers(
            dest="command", metavar="COMMAND", title="commands", parser_class=CommandParser
        )

    def add(self, name: str, function: str, summary: str, example: str) -> argparse.ArgumentParser:
        """Add a command, and return its parser for more."""
        parser = self._subparsers.add_parser(
            name,
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            epilog=f"example:\n  {example}\n",
            formatter_class=Help,
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
    parser.set_defaults(wanted=name, refuse=parser.error)


def selectors(parser: argparse.ArgumentParser, what: str) -> None:
    """Add cells, by selectors."""
    parser.add_argument("selectors", nargs="*", metavar="SELECTOR", help=f"{what}: {GRAMMAR}")
    parser.add_argument(
        "--cells", metavar="SELECTOR", help="the same, where no session is named before it"
    )


def new_id(text: str) -> str:
    """Read the id of a session that is to be begun."""
    try:
        return check_session_id(text)
    except InvalidNameError as error:
        raise argparse.ArgumentTypeError(f"{error.message}; name it like: demo-2") from None


def megabytes(text: str) -> int:
    """Read a size in megabytes."""
    amount = int(text)
    if amount < 512:  # threads alone reserve much of that
        raise argparse.ArgumentTypeError(f"{text} MB is too little for a kernel; 512 is the least")
    return amount


def positive(text: str) -> float:
    """Read how long something may take."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no length of time: wanted more than zero")
    return number


def depth(text: str) -> int:
    """Read how far away something may be."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is no depth: wanted 1 or more")
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
