"""Checkpoints: a session's notebook as it was at a moment, with what is needed to trust it.

Taken around compaction, when an agent forgets. Each is the notebook's own bytes, compressed, beside
a manifest with their digest. The last one is never removed.
"""

import os
import zlib

from rlmnb import digest
from rlmnb.errors import InvalidNameError, ObjectError, StorageError
from rlmnb.files import make_directory, read_bytes, remove, write_atomic
from rlmnb.format import times
from rlmnb.jsontext import compact, loads, to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlmnb.store.layout import Place

_MOST = 10


def _directory(place: "Place") -> str:
    return os.path.join(place.directory, "checkpoints")


def keep(place: "Place", why: str, trigger: str = "") -> str:
    """Keep the notebook as it is now and return the checkpoint's name."""
    name = put(place, read_bytes(place.notebook), times.now(), why, trigger)
    for old in all_kept(place)[:-_MOST]:
        _remove(place, old["name"])
    return name


def put(place: "Place", data: bytes, at: str, why: str, trigger: str = "") -> str:
    """Keep a notebook as it was at a moment and return the checkpoint's name."""
    name = at.replace(":", "").replace("-", "").replace(".", "")
    directory = _directory(place)
    make_directory(directory)
    write_atomic(os.path.join(directory, f"{name}.ipynb.z"), zlib.compress(data, 1))
    manifest = {
        "name": name,
        "at": at,
        "why": why,
        "trigger": trigger,
        "hash": digest.of_bytes(data),
        "bytes": len(data),
    }
    write_atomic(os.path.join(directory, f"{name}.json"), to_bytes(compact(manifest)))
    return name


def all_kept(place: "Place") -> "list[dict[str, Any]]":
    """Return the manifests of a session's checkpoints, the oldest first."""
    try:
        names = sorted(os.listdir(_directory(place)))
    except FileNotFoundError:
        return []
    found = []
    for name in names:
        if name.endswith(".json"):
            try:
                manifest = loads(read_bytes(os.path.join(_directory(place), name)))
            except (OSError, ValueError, RecursionError):
                continue
            if isinstance(manifest, dict) and manifest.get("name") == name.removesuffix(".json"):
                found.append(manifest)
    return found


def contents(place: "Place", name: str) -> bytes:
    """Return the notebook that a checkpoint has, having checked that it is what was kept."""
    manifest = next((each for each in all_kept(place) if each["name"] == name), None)
    if manifest is None:
        raise InvalidNameError(f"{place.name} has no checkpoint {name!r}")
    try:
        data = zlib.decompress(read_bytes(os.path.join(_directory(place), f"{name}.ipynb.z")))
    except (OSError, zlib.error) as error:
        raise StorageError(f"checkpoint {name} cannot be read: {error}") from error
    if digest.of_bytes(data) != manifest.get("hash"):
        raise ObjectError(f"checkpoint {name} holds other bytes than its manifest says")
    return data


def _remove(place: "Place", name: str) -> None:
    for ending in (".ipynb.z", ".json"):
        path = os.path.join(_directory(place), name + ending)
        if os.path.exists(path):
            remove(path)
