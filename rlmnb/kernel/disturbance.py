"""Whether anything but cells may have changed variables: widgets, silent requests, threads, tasks.

A replay has a kernel to itself. A person's kernel also answers sliders, debuggers and variable
inspectors between two cells, and cells leave threads and tasks behind that go on working.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any


class Disturbance:
    """Notes, from the end of one cell to the next, whether somebody else may have been at work."""

    def __init__(self) -> None:
        self.noted = False
        # The threads that are the kernel's own.
        self._own: frozenset[int] | None = None

    def rest(self, shell: Any) -> None:
        """See who is still at work when a cell has ended."""
        self.noted = self.noted or not self.nobody(shell)

    def nobody(self, shell: Any) -> bool:
        """Tell whether no thread or task is at work that cells have left behind."""
        alive = frozenset(
            each.ident
            for each in threading.enumerate()
            if each.ident and not _waits_for_scripts(each, shell)
        )
        if self._own is None:
            self._own = alive
        return alive <= self._own and not _has_tasks(shell.user_ns if shell is not None else {})

    def seen(self) -> bool:
        """Tell whether anybody may have been at work since the last cell."""
        noted, self.noted = self.noted, False
        return noted

    def noting(self, answer: Callable[..., Any]) -> Callable[..., Any]:
        """Return what answers a message in the same way, and leaves a note that it did."""

        def noted(*args: Any, **options: Any) -> Any:
            self.noted = True
            return answer(*args, **options)

        return noted


def _waits_for_scripts(thread: threading.Thread, shell: Any) -> bool:
    """Tell whether a thread is the one in which the shell waits for what `%%bash` has begun."""
    loop = getattr(getattr(thread, "_target", None), "__self__", None)
    if loop is None or not hasattr(shell, "magics_manager"):
        return False
    return loop is getattr(shell.magics_manager.registry.get("ScriptMagics"), "event_loop", None)


def _has_tasks(namespace: dict[str, Any]) -> bool:
    """Tell whether code of the notebook's own is waiting to go on."""
    try:
        tasks = asyncio.all_tasks()
    except RuntimeError:
        return False
    for task in tasks:
        frame = getattr(task.get_coro(), "cr_frame", None)
        if frame is not None and frame.f_globals is namespace:
            return True
    return False
