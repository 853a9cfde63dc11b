"""Which transcript another one was forked from: a fork repeats its parent's records."""

import os

from rlmnb.errors import RlmnbError
from rlmnb.files import open_regular, read_at
from rlmnb.ids import check_session_id

_BEGINNING = 1 << 18
_MOST_UUIDS = 200
_MOST_SIBLINGS = 200
_UUID = b'"uuid":"'


def parent_of(path: str) -> "str | None":
    """Return the session whose transcript a fork begins with, as far as one beside it does.

    Of several, the one that shares most; of equals, the one that was not written to for longest:
    a parent was there before its forks.
    """
    ours = _uuids(path)
    if not ours:
        return None
    directory, own = os.path.split(path)
    best: tuple[int, float, str] | None = None
    for name in _siblings(directory, own):
        beside = os.path.join(directory, name)
        theirs = _uuids(beside)
        shared = len(ours & theirs)
        if shared:
            rank = (-shared, os.stat(beside).st_mtime, name.removesuffix(".jsonl"))
            best = rank if best is None else min(best, rank)
    return best[2] if best is not None else None


def _siblings(directory: str, own: str) -> "list[str]":
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    found = []
    for name in names:
        if not name.endswith(".jsonl") or name == own:
            continue
        try:
            check_session_id(name.removesuffix(".jsonl"))
            found.append((os.stat(os.path.join(directory, name)).st_mtime, name))
        except (OSError, RlmnbError):
            continue
    return [name for _, name in sorted(found, reverse=True)[:_MOST_SIBLINGS]]


def _uuids(path: str) -> "set[bytes]":
    """Return the names of the records that a transcript begins with."""
    try:
        descriptor = open_regular(path)
    except (OSError, RlmnbError):
        return set()
    try:
        data = read_at(descriptor, 0, _BEGINNING)
    finally:
        os.close(descriptor)
    parts = data.split(_UUID)[1 : _MOST_UUIDS + 1]
    return {part.partition(b'"')[0] for part in parts}
