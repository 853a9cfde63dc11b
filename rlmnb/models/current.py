"""Where the code that runs now asks its models: the cell's desk in a kernel, else the program's."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from rlmnb import models
from rlmnb.errors import CellNotFoundError
from rlmnb.models import choosing
from rlmnb.models.asking import Desk
from rlmnb.models.budget import DEEPEST

# How deep calls nest here: 0 in a cell, 1 in a call that a cell makes recursively.
depth: ContextVar[int] = ContextVar("rlmnb_depth", default=0)
# How deep they may, by whoever asked the question that is worked on; the session may allow less.
deepest: ContextVar[int] = ContextVar("rlmnb_deepest", default=DEEPEST)
# What goes to the model with every call that is made for that question.
parameters: ContextVar[Mapping[str, Any]] = ContextVar(
    "rlmnb_parameters", default=MappingProxyType({})
)


def _no_cell(name: str | int) -> Any:
    raise CellNotFoundError(
        f"there is no cell {name} here: this program is no notebook",
        hint="in Python: rlmnb.Session.open(…).cell(…)",
    )


def _no_conversation(last: int | None) -> Any:
    del last  # none of it is here
    raise CellNotFoundError(
        "there is no conversation here: this program is no notebook",
        hint="in Python: rlmnb.Session.open(…).cells(type='markdown')",
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
    conversation: Callable[[int | None], Any] = _no_conversation
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


@contextlib.contextmanager
def one_level_down(limit: int, given: Mapping[str, Any]) -> Iterator[None]:
    """Let all calls in this block be made for one recursive question, within its bounds."""
    before = depth.get(), deepest.get(), parameters.get()
    depth.set(before[0] + 1)
    deepest.set(limit)
    parameters.set({**before[2], **given})
    try:
        yield
    finally:
        depth.set(before[0])
        deepest.set(before[1])
        parameters.set(before[2])


def settle_in(there: Surroundings) -> None:
    """Let all calls of this process be made there from now on."""
    _now[:] = [there]
