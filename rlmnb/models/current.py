"""Where the code that runs now asks its models: the cell's desk in a kernel, else the program's."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from rlmnb import models
from rlmnb.errors import CellNotFoundError
from rlmnb.models import choosing
from rlmnb.models.asking import Desk

# How deep calls nest here: 0 in a cell, 1 in a call that a cell makes recursively.
depth: ContextVar[int] = ContextVar("rlmnb_depth", default=0)


def _no_cell(name: str | int) -> Any:
    raise CellNotFoundError(
        f"there is no cell {name} here: this program is no notebook",
        hint="in Python: rlmnb.Session.open(…).cell(…)",
    )


@dataclass
class Surroundings:
    """What a call needs to know of the place it is made in."""

    desk: Callable[[], Desk]
    # The model that is meant where none is named; whoever asks depends on it.
    default_model: Callable[[], str | None] = choosing.default_model
    # Whatever is done inside of this is ours, not the cell's.
    apart: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext
    cell: Callable[[str | int], Any] = _no_cell
    # What is to be kept in the record of the cell that runs.
    notes: dict[str, Any] = field(default_factory=dict)


_program = Desk(choosing.provider_for)
_now: list[Surroundings] = []
# Threads of one cell may make its first calls at once; one of them settles for all.
_settling = threading.RLock()


def surroundings() -> Surroundings:
    """Return where we are: in a kernel, which says so itself, else in a program of its own."""
    with _settling:
        if not _now and models.settle is not None:
            models.settle()
        if not _now:
            _now.append(Surroundings(lambda: _program))
        return _now[0]


def settle_in(there: Surroundings) -> None:
    """Let all calls of this process be made there from now on."""
    _now[:] = [there]
