"""Side files for entries that the journal could not take, until the next writer takes them in."""

import os
import time

from rlmnb.errors import RlmnbError
from rlmnb.files import make_directory, read_bytes, write_atomic
from rlmnb.jsontext import compact, loads, to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlmnb.store.layout import Place


def _elsewhere(place: "Place") -> "str | None":
    """Return a directory off the root's disk, or None if others could get at it."""
    import tempfile

    user = getattr(os, "getuid", lambda: 0)()
    path = os.path.join(tempfile.gettempdir(), f"rlmnb-spill-{user}")
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        status = os.lstat(path)
    except OSError:
        return None
    ours = status.st_uid == user and (status.st_mode & 0o170077) == 0o040000
    if not ours and os.name != "nt":
        return None
    # Two roots may hold the same session id.
    root = os.path.dirname(place.directory).replace(os.sep, "%")
    return os.path.join(path, root[-120:], place.session_id)


def keep(place: "Place", entry: "dict[str, Any]") -> str:
    """Write an entry to a file of its own: in the session, or off its disk if that is full."""
    name = f"{time.time_ns():020d}-{os.getpid()}-{os.urandom(3).hex()}.json"
    data = to_bytes(compact(entry) + "\n")
    try:
        return _write(place.spill, name, data)
    except RlmnbError:
        directory = _elsewhere(place)
        if directory is None:
            raise
    return _write(directory, name, data)


def _write(directory: str, name: str, data: bytes) -> str:
    make_directory(directory)
    path = os.path.join(directory, name)
    write_atomic(path, data)
    return path


def _files(directory: "str | None") -> "list[str]":
    if directory is None:
        return []
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    return [os.path.join(directory, name) for name in names if name.endswith(".json")]


def waiting(place: "Place", *, everywhere: bool = False) -> "list[tuple[str, dict[str, Any]]]":
    """List the kept entries with their files, oldest first.

    `everywhere` looks off the session's disk too: doctor does, an append has no time for it.
    """
    paths = _files(place.spill) + (_files(_elsewhere(place)) if everywhere else [])
    found = []
    for path in sorted(paths, key=os.path.basename):
        try:
            entry = loads(read_bytes(path))
        except (OSError, ValueError, RecursionError, RlmnbError):
            continue
        if isinstance(entry, dict) and isinstance(entry.get("op"), str):
            found.append((path, entry))
    return found
