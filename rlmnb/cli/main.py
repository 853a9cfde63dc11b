"""Run a command; the way from a mistake to its message."""

from __future__ import annotations

import argparse
import gc
import importlib
import io
import json
import os
import sys
from collections.abc import Sequence

from rlmnb.cli.options import build_parser
from rlmnb.errors import RlmnbError, StorageError, UsageError
from rlmnb.processes import import_lightly


def _split_names(args: argparse.Namespace) -> None:
    """Read `CELL` or `SESSION CELL`, whatever the command calls the second."""
    if len(args.names) > 2 or (len(args.names) == 2 and args.session):
        args.refuse(f"wanted {args.wanted}, or SESSION {args.wanted}")
    args.cell = args.names[-1]
    if len(args.names) == 2:
        args.session = args.names[0]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    _open_streams()
    import_lightly()
    return run(arguments)


def run(arguments: Sequence[str] | None) -> int:
    """Run a command with the streams as they are."""
    parser = build_parser()
    try:
        args = parser.parse_args(arguments)
        if hasattr(args, "names"):
            _split_names(args)
    except UsageError as error:
        # What could not be parsed cannot say whether it is for a script; the words themselves can.
        _complain(error, as_json="--json" in (sys.argv if arguments is None else arguments))
        return error.exit_code
    if args.command is None:
        parser.print_help()
        return 0
    module, function = args.function.split(":")
    # A command makes many small objects and then ends: looking for garbage among them costs a
    # third of its time and finds none.
    gc.disable()
    try:
        code: int = getattr(importlib.import_module(f"rlmnb.cli.{module}"), function)(args)
        sys.stdout.flush()
        return code
    except RlmnbError as error:
        _complain(error, as_json=args.json)
        return error.exit_code
    except BrokenPipeError:
        # Whoever read our output has seen enough; closing it here keeps Python from saying so.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        where = error.filename or "the working directory"
        shown = f"{where}: {error.strerror or error}"
        _complain(StorageError(shown), as_json=args.json)
        return StorageError.exit_code
    except KeyboardInterrupt:
        return 130
    finally:
        gc.enable()
        if (telling := sys.modules.get("rlmnb.cli.text")) is not None:
            telling.end_progress()


def _open_streams() -> None:
    """Let no character, and no closed stream, be in the way of a message."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for the whole run
    for stream, errors in (
        (sys.stdout, "backslashreplace"),
        (sys.stderr, "backslashreplace"),
        (sys.stdin, "surrogateescape"),
    ):
        if isinstance(stream, io.TextIOWrapper):
            # Into a pipe, Windows would write what its user's language had in the last century.
            stream.reconfigure(encoding="utf-8" if os.name == "nt" else None, errors=errors)


def _complain(error: RlmnbError, *, as_json: bool) -> None:
    if as_json:
        shown = {"type": type(error).__name__, "message": error.message, "hint": error.hint}
        sys.stdout.write(json.dumps({"error": shown}) + "\n")
    from rlmnb.cli.text import note

    note(f"rlmnb: {error.message}")
    if error.hint:
        note(f"  {error.hint}")
