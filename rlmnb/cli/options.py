"""The whole command line."""

from __future__ import annotations

import argparse

from rlmnb.cli.arguments.agents import add_hooks, add_telling
from rlmnb.cli.arguments.calls import add_calls
from rlmnb.cli.arguments.common import Commands, Help, Parser
from rlmnb.cli.arguments.keeping import add_keeping
from rlmnb.cli.arguments.models import add_model, add_run
from rlmnb.cli.arguments.reading import add_reading
from rlmnb.cli.arguments.replaying import add_replaying, add_running
from rlmnb.cli.arguments.seeing import add_judging, add_seeing
from rlmnb.cli.arguments.writing import add_writing
from rlmnb.format.version import PACKAGE

_TOP = """\
An LLM agent's session, kept as a real Jupyter notebook.

  rlmnb sessions                      what there is
  rlmnb show                          the session of this project
  rlmnb cells --status stale          what no longer holds, and why
  rlmnb append demo --source 'x = 1'  add a cell from a script
"""
_CODES = """\
exit codes: 0 done; 1 the answer is no (verify, doctor, lint found something, diff a difference); \
2 a mistake in what was asked; 3 a notebook, lock or disk that would not do it.
Sessions are kept in $RLMNB_HOME, ~/.claude/rlm-sessions unless set.
"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = Parser(
        prog="rlmnb",
        description=_TOP,
        epilog=_CODES,
        formatter_class=Help,
    )
    parser.add_argument("--version", action="version", version=f"rlmnb {PACKAGE}")
    commands = Commands(parser)
    add_reading(commands)
    add_writing(commands)
    add_replaying(commands)
    add_calls(commands)
    add_running(commands)
    add_run(commands)
    add_model(commands)
    add_hooks(commands)
    add_telling(commands)
    add_seeing(commands)
    add_judging(commands)
    add_keeping(commands)
    return parser
