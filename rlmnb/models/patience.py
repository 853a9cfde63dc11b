"""How long one attempt at an answer may take."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextvars import ContextVar

from rlmnb.errors import ModelError
from rlmnb.models.modes import seconds

VARIABLE = "RLMNB_CALL_TIMEOUT"
# Long answers of large models take minutes; who has waited this long waits for nobody.
UNLESS_SET = 300.0
# By whoever asks here and now; never longer than what is set.
_bound: ContextVar[float | None] = ContextVar("rlmnb_patience", default=None)


def longest_wait() -> float:
    """Return for how many seconds an answer is waited for: RLMNB_CALL_TIMEOUT, 300 if not set."""
    bound = _bound.get()
    return _set_wait() if bound is None else min(bound, _set_wait())


def _set_wait() -> float:
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return UNLESS_SET
    wait = seconds(text)
    if not wait:
        raise ModelError(f"{VARIABLE} is {text}: nobody answers in no time", hint="write 90s or 5m")
    return wait


@contextlib.contextmanager
def at_most(wait: float | None) -> Iterator[None]:
    """Wait no longer than this for any answer in this block."""
    before = _bound.set(wait)
    try:
        yield
    finally:
        _bound.reset(before)
