"""One replay of a session at a time: the others wait, and then see what the first has done."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from rlmnb.errors import LockTimeoutError
from rlmnb.files import Lock
from rlmnb.replay.report import Teller
from rlmnb.session import Session


@contextmanager
def ownership(session: Session, patience: float, tell: Teller) -> Iterator[None]:
    """Be the only one who replays a session; the lock ends with the process, however it ends."""
    session.place.prepare()
    path = os.path.join(session.place.directory, ".replay.lock")
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
