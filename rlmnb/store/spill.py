"""Side files for entries that the journal could not take, until the next writer takes them in."""

import os
import time

from rlmnb.digest import of_text
from rlmnb.errors import RlmnbError
from rlmnb.files import make_directory, read_bytes, write_atomic
from rlmnb.jsontext import compact, loads, to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlmnb.store.layout import Place


def _foreign_root() -> "str | None":
    """Return a directory that is on no session's disk, or None if others could get at it."""
    import tempfile

    user = getattr(os, "getuid", lambda: 0)()
    path = os.path.join(tempfile.gettempdir(), f"rlmnb-spill-{user}")
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        status = os.lstat(path)
    except OSError:
        return None
    ours = status.st_uid == user and (status.st_mode & 0o170077) == 0o040000
    return path if ours or os.name == "nt" else None


def _elsewhere(place: "Place") -> "str | None":
    root = _foreign_root()
    name = of_text(place.directory)[7:23]
    return os.path.join(root, f"{place.session_id}-{name}") if root else None


def places_elsewhere() -> "list[Place]":
    """Return every place that something is kept for off its own disk."""
    from rlmnb.store.layout import NOTEBOOK, notebook_place, session_place

    root = _foreign_root()
    found = {}
    for name in os.listdir(root) if root else ():
        for path in _files(os.path.join(root or "", name)):
            notebook = _read(path).get("notebook")
            if not isinstance(notebook, str):
                continue
            directory, base = os.path.split(notebook)
            if base == NOTEBOOK:
                place = session_place(os.path.basename(directory), os.path.dirname(directory))
            else:
                place = notebook_place(notebook)
            found[place.directory] = place
    return list(found.values())


def keep(place: "Place", entry: "dict[str, Any]") -> str:
    """Write an entry to a file of its own: in the session, or off its disk if that is full."""
    name = f"{time.time_ns():020d}-{os.getpid()}-{os.urandom(3).hex()}.json"
    data = to_bytes(compact({**entry, "notebook": place.notebook}) + "\n")
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
        entry = _read(path)
        if isinstance(entry.pop("notebook", None), str) and isinstance(entry.get("op"), str):
            found.append((path, entry))
    return found


def _read(path: str) -> "dict[str, Any]":
    try:
        entry = loads(read_bytes(path))
    except (OSError, ValueError, RecursionError, RlmnbError):
        return {}
    return entry if isinstance(entry, dict) else {}
