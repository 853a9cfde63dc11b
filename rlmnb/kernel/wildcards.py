"""What a command goes through: the directories that it lists for itself or has the shell list."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice

# They go into the directories that they find,
_WALKERS = frozenset({"find", "tree", "du", "rg", "ag", "ack"})
# and these do if they are asked to.
_ASKED_TO = {
    **dict.fromkeys(("grep", "egrep", "fgrep", "diff"), re.compile(r"-\w*[rR]|--\S*recursive$")),
    "ls": re.compile(r"-\w*R|--recursive$"),
}
# They look into files, those that they find or those that others hand to them.
_READERS = frozenset({"grep", "egrep", "fgrep", "diff", "rg", "ag", "ack", "xargs", "wc", "cat"})
# Without a directory they go through the one they are in.
_LISTERS = frozenset({"ls", "dir", *_WALKERS})
_MOST_FOUND = 1000
# What a command finds by itself is looked into up to this many bytes in all.
_MOST_BYTES = 256 * 1024 * 1024


def listed_by(words: Iterable[str], where: str = "") -> list[str]:
    """Return the directories that a command with these words lists."""
    words = set(words)
    found = [where or "."] if words & _LISTERS else []
    for word in sorted(words):
        if glob.has_magic(word):
            found += _listed_for(os.path.join(where, word))
    found += _named(words, where)
    walked = _walked(words, where)
    return list(dict.fromkeys([*found, *(folder for folder, _ in _below(walked))]))


def found_by(words: Iterable[str], where: str = "") -> list[str]:
    """Return the files that a command with these words finds: by wildcards, or by going about."""
    words = set(words)
    walked = _walked(words, where) if words & _READERS else []
    below = (os.path.join(folder, name) for folder, names in _below(walked) for name in names)
    found = (
        path
        for word in words
        if glob.has_magic(word)
        for path in glob.iglob(os.path.join(where, word))
        if os.path.isfile(path)
    )
    return [*islice(found, _MOST_FOUND), *islice(_not_too_large(below), _MOST_FOUND)]


def opened_whole(words: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return what a library goes through that is given directories to read: these, and files."""
    words = set(words)
    walked = list(_below(_named(words, "")))
    folders = [folder for folder, _ in walked]
    folders += [
        each for word in sorted(words) if glob.has_magic(word) for each in _listed_for(word)
    ]
    below = (os.path.join(folder, name) for folder, names in walked for name in names)
    return folders, [*found_by(words), *islice(_not_too_large(below), _MOST_FOUND)]


def _not_too_large(paths: Iterable[str]) -> Iterator[str]:
    total = 0
    for path in paths:
        with suppress(OSError):  # it may be gone by now
            total += os.path.getsize(path)
            if total > _MOST_BYTES:
                return
            yield path


def _named(words: Iterable[str], where: str) -> list[str]:
    return [path for word in sorted(words) if os.path.isdir(path := os.path.join(where, word))]


def _walked(words: set[str], where: str) -> list[str]:
    """Return the directories that a command goes through with all that is below them."""
    asked = {
        program
        for program, how in _ASKED_TO.items()
        if program in words and any(map(how.match, words))
    }
    if not asked and words.isdisjoint(_WALKERS):
        return []
    return _named(words, where) or ([where or "."] if asked != {"diff"} else [])


def _below(folders: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield directories with the files in them, a thousand at the most, without what is hidden."""
    for folder in folders:
        for at, inner, names in islice(os.walk(folder), _MOST_FOUND):
            inner[:] = sorted(name for name in inner if not name.startswith((".", "__pycache__")))
            yield at, sorted(name for name in names if os.path.isfile(os.path.join(at, name)))


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
