"""What a command goes through: the directories that it lists for itself or has the shell list."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from itertools import islice

# Without a directory they list the one they are in.
_LISTERS = frozenset({"ls", "find", "tree", "du", "dir"})
_MOST_FOUND = 1000


def listed_by(words: Iterable[str], where: str = "") -> list[str]:
    """Return the directories that a command with these words lists."""
    found: list[str] = []
    for word in words:
        path = os.path.join(where, word)
        if word in _LISTERS:
            found.append(where or ".")
        elif glob.has_magic(word):
            found += _listed_for(path)
        elif os.path.isdir(path):
            found.append(path)
    return list(dict.fromkeys(found))


def found_by(words: Iterable[str], where: str = "") -> list[str]:
    """Return the files that the wildcards among these words stand for."""
    found = (
        path
        for word in words
        if glob.has_magic(word)
        for path in glob.iglob(os.path.join(where, word))
        if os.path.isfile(path)
    )
    return list(islice(found, _MOST_FOUND))


def _listed_for(pattern: str) -> Iterator[str]:
    """Yield each directory in which the shell looks for names that match."""
    head, name = os.path.split(pattern)
    if head and glob.has_magic(head):
        yield from _listed_for(head)
        folders = [path for path in islice(glob.iglob(head), _MOST_FOUND) if os.path.isdir(path)]
    else:
        folders = [head]
    # A pattern in plain text is seldom one of files, unless there are such or it says where.
    if glob.has_magic(name) and (head or next(glob.iglob(name), None) is not None):
        yield from (folder or "." for folder in folders if not folder or os.path.isdir(folder))
