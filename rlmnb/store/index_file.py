"""The index on disk: derived from the notebook, trusted only while it describes that notebook."""

from __future__ import annotations

import json
import os
from typing import Any

from rlmnb import digest
from rlmnb.errors import LockTimeoutError, StorageError, UnsafePathError
from rlmnb.files import Lock, read_bytes, remove_leftovers, write_atomic
from rlmnb.format.version import INDEX
from rlmnb.store.layout import Place

# Two writes within one tick of the file system's clock leave the same time of change.
_TICK_NS = 50_000_000


def load(place: Place) -> dict[str, Any] | None:
    """Return the index as it is on disk, or None if it is missing, garbage or another version's."""
    try:
        index = json.loads(read_bytes(place.index))
    except (OSError, ValueError, RecursionError, UnsafePathError):
        return None
    if not isinstance(index, dict) or index.get("version") != INDEX:
        return None
    whole = isinstance(index.get("cells"), dict) and isinstance(index.get("notebook"), dict)
    return index if whole and index.get("session_id") == place.session_id else None


def describe(status: os.stat_result) -> dict[str, Any]:
    """Return what can be seen of the notebook from outside."""
    return {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "ino": status.st_ino}


def matches(index: dict[str, Any], place: Place, status: os.stat_result) -> bool:
    """Tell, without reading the notebook, that it is surely the one the index describes."""
    seen = index["notebook"]
    same = all(seen.get(key) == value for key, value in describe(status).items())
    try:
        settled = os.stat(place.index).st_mtime_ns - status.st_mtime_ns > _TICK_NS
    except OSError:
        return False
    return same and settled


def text_of(index: dict[str, Any]) -> str:
    """Write an index with a line for each cell: quick to write, and git can show what changed."""
    rest = {key: value for key, value in index.items() if key != "cells"}
    head = json.dumps(rest, ensure_ascii=False, sort_keys=True, indent=None)
    rows = ",\n".join(
        f"{json.dumps(cell_id)}: {json.dumps(entry, ensure_ascii=False, sort_keys=True)}"
        for cell_id, entry in index["cells"].items()
    )
    return f'{{"cells": {{\n{rows}\n}},\n{head[1:]}\n'


def save(place: Place, index: dict[str, Any]) -> bool:
    """Write the index unless somebody is writing the session now: it can be derived again."""
    try:
        place.prepare()
        with Lock(place.lock, timeout=0):
            remove_leftovers(place.directory, os.path.basename(place.index))
            write_atomic(place.index, text_of(index).encode("utf-8", "backslashreplace"))
    except (LockTimeoutError, StorageError):
        return False
    return True


def settle(place: Place) -> None:
    """Note that the index was found right after the notebook's clock tick was over."""
    try:
        os.utime(place.index)
    except OSError:
        return


def digest_from(data: bytes) -> str:
    """Return the digest of a notebook's bytes, as the index names it."""
    return digest.of_bytes(data)
