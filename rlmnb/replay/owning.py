"""One replay of a session at a time: the others wait, and then see what the first has done.

Whoever only looks sees which cell is running.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from rlmnb.errors import LockTimeoutError, RlmnbError
from rlmnb.files import Lock, read_bytes, remove, write_atomic
from rlmnb.replay.report import Teller
from rlmnb.session import Session
from rlmnb.store.layout import Place

if TYPE_CHECKING:
    from asyncio import TimerHandle

_LOCK, _RUNNING = ".replay.lock", ".replay.cell"
_MOMENT = 0.1


@contextmanager
def ownership(session: Session, patience: float, tell: Teller) -> Iterator[None]:
    """Be the only one who replays a session; the lock ends with the process, however it ends."""
    session.place.prepare()
    path = os.path.join(session.place.directory, _LOCK)
    lock = Lock(path, timeout=patience)
    if not lock.attempt():
        tell("", 0, "another replay of this session is running: waiting for it")
        try:
            lock.__enter__()
        except LockTimeoutError as error:
            raise LockTimeoutError(
                f"{session.place.name}: another replay has been running for {patience:g} s",
                hint=f"wait for it, or find it with: fuser {path}",
            ) from error
        session.refresh()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def shown_to_others(place: Place, tell: Teller) -> Iterator[Teller]:
    """Have others see which cell is running; only whoever owns the session's replay may."""
    sign = _Sign(os.path.join(place.directory, _RUNNING))

    def tell_all(cell_id: str, number: int, state: str, /) -> None:
        if cell_id:
            sign.take_down()
        if cell_id and state == "running":
            sign.put_up_soon(cell_id)
        tell(cell_id, number, state)

    try:
        yield tell_all
    finally:
        sign.take_down()


class _Sign:
    """Says which cell is running, once it does for a moment: most are over before anyone looks."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._waiting: TimerHandle | None = None
        self._is_up = False

    def put_up_soon(self, cell_id: str) -> None:
        # Whoever only looks does without it, and so starts sooner.
        from asyncio import get_running_loop

        loop = get_running_loop()
        self._waiting = loop.call_later(_MOMENT, self._put_up, cell_id)

    def _put_up(self, cell_id: str) -> None:
        self._is_up = True
        # A replay does not fail because nobody can look at it.
        with suppress(OSError, RlmnbError):
            write_atomic(self._path, cell_id.encode(), wait=False)

    def take_down(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
        if self._is_up:
            self._is_up = False
            with suppress(OSError):
                remove(self._path)


def running_cell(place: Place) -> str | None:
    """Return the cell that a replay is running just now."""
    try:
        cell_id = read_bytes(os.path.join(place.directory, _RUNNING)).decode()
        lock = Lock(os.path.join(place.directory, _LOCK), timeout=0)
        ended = lock.attempt()
    except (OSError, RlmnbError, ValueError):
        return None
    if ended:
        # It was killed before it could take its word back.
        lock.release()
    return None if ended else cell_id
