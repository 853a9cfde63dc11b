"""What takes disk space, what refers to it, and removing what nothing needs."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rlmnb.errors import UnsafePathError
from rlmnb.files import Lock, read_bytes, refuse_link, remove_tree
from rlmnb.ids import Digest
from rlmnb.store.layout import Place
from rlmnb.store.objects import Objects
from rlmnb.store.variables import Variables

_DIGEST = re.compile(rb"sha256:[0-9a-f]{64}")
# An object is stored before the cell that names it; nothing this young is taken for unused.
GRACE_SECONDS = 3600.0


def digests_in(data: bytes) -> list[str]:
    """Return every digest that stands in this text."""
    return [match.decode() for match in _DIGEST.findall(data)]


def files_below(directory: str) -> list[str]:
    """Return every regular file below a directory, following no link."""
    found = []
    for here, directories, names in os.walk(directory):
        directories.sort()
        for name in sorted(names):
            path = os.path.join(here, name)
            if os.path.isfile(path) and not os.path.islink(path):
                found.append(path)
    return found


def references(places: Iterable[Place]) -> dict[str, Counter[str]]:
    """Count, for each session, the objects it names anywhere in its files.

    The text is searched and not the structure, so that a broken notebook keeps its objects.
    """
    found: dict[str, Counter[str]] = {}
    for place in places:
        counts = found.setdefault(place.session_id, Counter())
        paths = set(files_below(place.directory)) | {place.notebook}
        for path in sorted(paths):
            try:
                data = read_bytes(path)
            except (OSError, UnsafePathError):
                continue
            counts.update(digests_in(data))
    return found


def named_in_notebooks(paths: Iterable[str]) -> set[str]:
    """Return the digests that notebooks name themselves; their journals remember older ones."""
    found: set[str] = set()
    for path in paths:
        try:
            found.update(digests_in(read_bytes(path)))
        except (OSError, UnsafePathError):
            continue
    return found


def unused_state(
    notebooks: Iterable[str], variables: Variables, *, now: float | None = None
) -> Mapping[str, int]:
    """Return the stored variables that no notebook needs and that are old enough to be sure."""
    moment = time.time() if now is None else now
    stored = variables.sizes()
    needed = variables.with_buffers(named_in_notebooks(notebooks) & set(stored))
    return {
        name: size
        for name, (size, at) in stored.items()
        if name not in needed and moment - at > GRACE_SECONDS
    }


@dataclass(frozen=True, slots=True)
class Usage:
    """What one session takes on disk, and the objects it refers to."""

    session_id: str
    notebook: int
    journal: int
    other: int
    objects: int
    shared_objects: int

    @property
    def total(self) -> int:
        return self.notebook + self.journal + self.other


def usage(places: Iterable[Place], objects: Objects) -> tuple[list[Usage], dict[str, int]]:
    """Return what each session takes, and the sums over all objects."""
    places = list(places)
    sizes: dict[str, int] = {name: size for name, (size, _) in objects.sizes().items()}
    named = references(places)
    users = Counter(name for counts in named.values() for name in counts if name in sizes)
    rows = []
    for place in places:
        files = {path: os.stat(path).st_size for path in files_below(place.directory)}
        notebook = os.stat(place.notebook).st_size if os.path.exists(place.notebook) else 0
        journal = files.get(place.journal, 0)
        other = sum(files.values()) - journal - files.get(place.notebook, 0)
        mine = [name for name in named[place.session_id] if name in sizes]
        rows.append(
            Usage(
                place.session_id,
                notebook,
                journal,
                other,
                sum(sizes[name] for name in mine),
                sum(sizes[name] for name in mine if users[name] > 1),
            )
        )
    unused = [name for name in sizes if name not in users]
    totals = {
        "objects": sum(sizes.values()),
        "object_count": len(sizes),
        "unused_objects": sum(sizes[name] for name in unused),
        "unused_count": len(unused),
    }
    return rows, totals


def unused_objects(
    places: Iterable[Place], objects: Objects, *, now: float | None = None
) -> Mapping[Digest, int]:
    """Return the objects that no session names and that are old enough to be sure, with sizes."""
    moment = time.time() if now is None else now
    stored = objects.sizes()
    named = {name for counts in references(places).values() for name in counts}
    return {
        name: size
        for name, (size, at) in stored.items()
        if name not in named and moment - at > GRACE_SECONDS
    }


def remove_session(place: Place) -> None:
    """Remove a session's directory; of a plain notebook, only what rlmnb kept beside it."""
    refuse_link(place.directory)
    with Lock(place.lock, timeout=5.0) as lock:
        remove_tree(place.directory, lock)
