"""The index on disk: derived from the notebook, trusted only while it describes that notebook.

It has a line for each cell, so that a query parses the cells it needs and copies the lines of
those it does not, and so that git can show what changed. Its last line is a checksum of the rest.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from rlmnb import digest
from rlmnb.errors import LockTimeoutError, StorageError, UnsafePathError
from rlmnb.files import Lock, read_bytes, remove_leftovers, write_atomic
from rlmnb.format.version import INDEX
from rlmnb.store.layout import Place

# Two writes within one tick of the file system's clock leave the same time of change.
_TICK_NS = 50_000_000
_HEAD = '{"cells": {\n'
_CHECKSUM = ',\n"checksum": "'


class Entries(Mapping[str, dict[str, Any]]):
    """The cells of an index by id, in notebook order, each parsed when it is first looked at."""

    def __init__(
        self, lines: Mapping[str, str], parsed: Mapping[str, dict[str, Any]] | None = None
    ) -> None:
        self._lines = dict(lines)
        self._parsed = dict(parsed or {})

    def __getitem__(self, cell_id: str) -> dict[str, Any]:
        found = self._parsed.get(cell_id)
        if found is None:
            found = self._parsed[cell_id] = json.loads(self._lines[cell_id])
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)

    def __contains__(self, cell_id: object) -> bool:
        return cell_id in self._lines

    def line(self, cell_id: str) -> str:
        """Return the JSON text of a cell's entry, as the index has it."""
        return self._lines[cell_id]

    def with_changes(self, changed: Mapping[str, Mapping[str, Any]]) -> Entries:
        """Return these entries with some replaced, and new ones at the end."""
        lines = self._lines | {cell_id: line_of(entry) for cell_id, entry in changed.items()}
        parsed = {
            cell_id: self._parsed[cell_id] for cell_id in self._parsed.keys() - changed.keys()
        }
        return Entries(lines, parsed)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Entries):
            return list(self._lines.items()) == list(other._lines.items())
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]


def line_of(entry: Mapping[str, Any]) -> str:
    """Return the JSON text of one entry."""
    text = json.dumps(entry, ensure_ascii=False, sort_keys=True, check_circular=False)
    # A lone surrogate is written as its escape, on disk and here alike.
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def as_entries(
    cells: Mapping[str, Mapping[str, Any]],
    before: Entries | None = None,
    same: Collection[str] = (),
) -> Entries:
    """Return linked cells as they go to disk.

    Of those that are the `same`, the line they had `before` is taken where their links are, too.
    """
    if isinstance(cells, Entries):
        return cells
    lines, parsed = {}, {}
    for cell_id, entry in cells.items():
        if before is not None and cell_id in same and before[cell_id] == entry:
            lines[cell_id], parsed[cell_id] = before.line(cell_id), before[cell_id]
        else:
            lines[cell_id] = line_of(entry)
    return Entries(lines, parsed)


def text_of(index: Mapping[str, Any]) -> str:
    """Return an index as its file has it."""
    entries = as_entries(index["cells"])
    rows = ",\n".join(f"{json.dumps(cell_id)}: {entries.line(cell_id)}" for cell_id in entries)
    rest = {key: value for key, value in index.items() if key != "cells"}
    tail = json.dumps(rest, ensure_ascii=False, sort_keys=True, check_circular=False)
    body = f"{_HEAD}{rows}\n}},\n{tail[1:-1]}"
    return f'{body}{_CHECKSUM}{digest.of_text(body)}"}}\n'


def parse(data: bytes) -> dict[str, Any] | None:
    """Return an index from its bytes, or None if they are not whole, or not of this version."""
    body, found, checksum = data.rpartition(_CHECKSUM.encode())
    if not found or checksum != f'{digest.of_bytes(body)}"}}\n'.encode():
        return None
    rows, _, tail = body.decode("utf-8").removeprefix(_HEAD).partition("\n},\n")
    rest = json.loads("{" + tail + "}")
    if rest.get("version") != INDEX:
        return None
    lines = {}
    for row in rows.split(",\n") if rows else ():
        cell_id, _, line = row.partition(": ")
        lines[cell_id[1:-1]] = line
    return {"cells": Entries(lines), **rest}


def load(place: Place) -> dict[str, Any] | None:
    """Return the index as it is on disk, or None if it is missing, garbage or another version's."""
    try:
        index = parse(read_bytes(place.index))
    except (OSError, ValueError, RecursionError, UnsafePathError):
        return None
    return index if index and index["session_id"] == place.session_id else None


def describe(status: os.stat_result) -> dict[str, Any]:
    """Return what can be seen of the notebook from outside."""
    return {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "ino": status.st_ino}


def matches(index: Mapping[str, Any], place: Place, status: os.stat_result) -> bool:
    """Tell, without reading the notebook, that it is surely the one the index describes."""
    seen = index["notebook"]
    same = all(seen.get(key) == value for key, value in describe(status).items())
    try:
        settled = os.stat(place.index).st_mtime_ns - status.st_mtime_ns > _TICK_NS
    except OSError:
        return False
    return same and settled


def save(place: Place, index: Mapping[str, Any]) -> bool:
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
