"""Who has the notebook open as a live document, and writes it for all others.

A server that shares a notebook between people keeps it in memory and saves it when it likes. While
it does, it holds a lease: others write the journal only, and the server takes that in. A lease
lives by its heartbeat and by the process that holds it; without either it is void.
"""

import os
import time

from rlmnb.errors import NotebookError, UnsafePathError
from rlmnb.files import Lock, read_bytes, remove, write_atomic
from rlmnb.jsontext import compact, loads, to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlmnb.store.layout import Place

SECONDS = 5.0
_LOCK_SECONDS = 5.0


def is_held(place: "Place") -> bool:
    """Tell whether a server takes the journal in; one look at the disk where there is none."""
    path = place.lease
    try:
        os.lstat(path)
    except OSError:
        return False
    return read(place) is not None


def read(place: "Place") -> "dict[str, Any] | None":
    """Return a lease that is in force: who holds it, since when, and its last heartbeat."""
    try:
        found = loads(read_bytes(place.lease))
    except (OSError, ValueError, RecursionError, UnsafePathError):
        return None
    if not isinstance(found, dict):
        return None
    pid, here = found.get("pid"), found.get("host") == _host()
    # On one computer by a clock that stands still while it sleeps: both wake at the same time.
    beat, now = (
        (found.get("ticks"), time.monotonic()) if here else (found.get("heartbeat"), time.time())
    )
    # A heartbeat from the future is no promise to write anything.
    if not isinstance(beat, int | float) or not abs(now - beat) <= SECONDS:
        return None
    from rlmnb.processes import is_alive

    return found if type(pid) is int and (not here or is_alive(pid)) else None


def _host() -> str:
    return os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")


def take(place: "Place", who: str) -> bool:
    """Take the lease, or keep it; False if another process has it.

    Under the session's lock, so that nobody is in the middle of writing the notebook.
    """
    with Lock(place.lock, timeout=_LOCK_SECONDS):
        found = read(place)
        if found is not None and not is_mine(found):
            return False
        since = found["since"] if found is not None and "since" in found else time.time()
        renew(place, who, since)
    return True


def renew(place: "Place", who: str, since: float) -> None:
    """Show a sign of life."""
    lease = {
        "heartbeat": time.time(),
        "host": _host(),
        "pid": os.getpid(),
        "since": since,
        "ticks": time.monotonic(),
        "who": who,
    }
    write_atomic(place.lease, to_bytes(compact(lease)), wait=False)


def is_mine(lease: "dict[str, Any]") -> bool:
    """Tell whether this process holds a lease."""
    return lease.get("pid") == os.getpid() and lease.get("host") == _host()


def give_back(place: "Place") -> None:
    """Let others write the notebook again."""
    found = read(place)
    if found is None or is_mine(found):
        remove(place.lease)


def refuse(place: "Place") -> None:
    """Refuse to go on while a server has the notebook open as a live document."""
    found = read(place)
    if found is not None:
        raise NotebookError(
            f"{place.notebook}: is open as a live document in {found.get('who')}",
            hint=f"close it there first; the server is process {found.get('pid')}",
        )
