"""Who wants to hear of what: listeners by the name of what they listen to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rlmnb.errors import LockTimeoutError

_MOST_WAITING = 10_000
_MOST_LISTENERS = 200

Heard = tuple[str, dict[str, Any]]


class Bell:
    """Tells everybody who listens; whoever is too slow hears no more."""

    def __init__(self) -> None:
        self._listeners: dict[str, set[asyncio.Queue[Heard | None]]] = {}

    @contextmanager
    def listen(self, name: str) -> Iterator[asyncio.Queue[Heard | None]]:
        """Return where all that is told from now on arrives; None is the end."""
        if sum(map(len, self._listeners.values())) >= _MOST_LISTENERS:
            raise LockTimeoutError("too many listeners", hint="close some of JupyterLab's tabs")
        queue: asyncio.Queue[Heard | None] = asyncio.Queue(_MOST_WAITING)
        self._listeners.setdefault(name, set()).add(queue)
        try:
            yield queue
        finally:
            listeners = self._listeners[name]
            listeners.discard(queue)
            if not listeners:
                del self._listeners[name]

    def heard(self, name: str) -> bool:
        """Tell whether anybody listens."""
        return name in self._listeners

    def ring(self, name: str, event: str, told: dict[str, Any]) -> None:
        """Tell those who listen to this."""
        for queue in list(self._listeners.get(name, ())):
            if queue.full():
                while not queue.empty():
                    queue.get_nowait()
                queue.put_nowait(None)
                self._listeners[name].discard(queue)
            else:
                queue.put_nowait((event, told))
