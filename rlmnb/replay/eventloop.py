"""The event loop in which a kernel is talked to."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


def run_to_its_end(work: Coroutine[Any, Any, _T]) -> _T:
    """Run what talks to a kernel.

    ZeroMQ's sockets can be listened to in one of the two loops that Windows has: not its usual one.
    """
    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        return runner.run(work)
