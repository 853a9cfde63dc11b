"""What each migration has made, file by file with its digest, so that it can be taken back.

One file per session under `.migrations/` in the sessions root. It is written before the session
appears (`begun`), and says `undoing` while it is taken back: whoever dies in between leaves enough
for the next one to finish.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field
from typing import Any

from rlmnb.errors import RlmnbError, StorageError
from rlmnb.files import read_bytes, write_atomic
from rlmnb.jsontext import loads, pretty, to_bytes

DIRECTORY = ".migrations"
LOCK = "lock"
_FORMAT = 1
_STATES = ("begun", "done", "undoing")


@dataclass
class Manifest:
    """One migration: from which files, what it made, and how far it got."""

    id: str
    kind: str
    source_hash: str
    old_root: str
    sources: dict[str, str]
    at: str
    state: str = "begun"
    files: dict[str, str] = field(default_factory=dict)
    objects: list[str] = field(default_factory=list)
    directories: list[str] = field(default_factory=list)
    # When the objects were all there, in seconds: one that was put again later is in use.
    settled: float | None = None
    format: int = _FORMAT


def directory_of(root: str) -> str:
    """Return where manifests are kept."""
    return os.path.join(root, DIRECTORY)


def path_of(root: str, name: str) -> str:
    """Return where the manifest of this name is."""
    return os.path.join(directory_of(root), f"{name}.json")


def save(root: str, manifest: Manifest) -> None:
    """Write a manifest."""
    write_atomic(path_of(root, manifest.id), to_bytes(pretty(asdict(manifest)) + "\n"))


def load(root: str, name: str) -> Manifest | None:
    """Return the manifest of this name, None if there is none."""
    path = path_of(root, name)
    try:
        told = loads(read_bytes(path))
        manifest = Manifest(**told)
        if not _is_sound(manifest, name):
            raise ValueError("it does not say what a manifest says")
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, RecursionError) as error:
        raise StorageError(
            f"{path}: is no manifest that can be read ({error})",
            hint="what it made stays; to forget it, move the file away",
        ) from None
    return manifest


def _is_sound(manifest: Manifest, name: str) -> bool:
    """Tell whether a manifest can be acted on: nothing in it leads out of the root."""
    texts: list[Any] = [*manifest.files, *manifest.objects, *manifest.directories]
    return (
        manifest.format == _FORMAT
        and manifest.id == name
        and manifest.state in _STATES
        and isinstance(manifest.files, dict)
        and isinstance(manifest.settled, float | int | None)
        and all(isinstance(each, str) and is_inside(each) for each in texts)
    )


def is_inside(path: str) -> bool:
    """Tell whether a path with slashes stays below where it begins."""
    return all(part not in ("", "..") for part in path.split("/")) and "\\" not in path


def load_all(root: str) -> list[Manifest]:
    """Return every manifest that can be read, by name."""
    try:
        names = sorted(os.listdir(directory_of(root)))
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = []
    for name in names:
        if name.endswith(".json") and not name.startswith("."):
            try:
                manifest = load(root, name.removesuffix(".json"))
            except (OSError, RlmnbError):
                continue
            found += [manifest] if manifest is not None else []
    return found
