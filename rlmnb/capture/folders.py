"""What is in directories: the names that an agent's or a cell's look at them has found.

A listing is told under the directory, or under the directory and the pattern of a search in it.
"""

import os
import time

from rlmnb import digest
from rlmnb.capture.privacy import ignores
from rlmnb.capture.toolnames import LISTING
from rlmnb.digest import MISSING
from rlmnb.files import is_temporary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    Listing = list[str] | str

# What Python, Jupyter and rlmnb put beside a notebook.
KEPT_BESIDE = frozenset({"__pycache__", ".ipynb_checkpoints", ".rlmnb"})
_MOST_NAMES = 500
_MOST_LOOKS = 5
# A hook has no time to go through a whole disk.
_MOST_FILES = 20_000
# Stands between a directory and what is searched for in it: no plain path has it.
_SEARCHED_FOR = "//"


def names_in(path: str) -> "list[str] | None":
    """Return the names in a directory, in order, None if there is no such directory.

    What Python, Jupyter and rlmnb put there in passing says nothing, and comes and goes: the
    notebook may be written while a cell looks. A file that is replaced in that moment may not be
    told of at all, so it is looked again until two looks agree.
    """
    found: list[str] | None = None
    try:
        for _ in range(_MOST_LOOKS):
            names = {*os.listdir(path)} - KEPT_BESIDE
            seen = sorted(name for name in names if not is_temporary(name))
            if seen == found:
                break
            found = seen
    except OSError:
        return None
    return found


def names_of(key: str) -> "list[str] | None":
    """Return the names that a listing has today, None if it is gone or has become too long."""
    base, pattern = _parted(key)
    return names_in(base) if pattern is None else _names_found(base, pattern)


def folders_of(key: str) -> "set[str]":
    """Return the directories in which something may come or go that changes a listing."""
    base, pattern = _parted(key)
    if pattern is None or "/" not in pattern:
        return {base}
    from rlmnb.capture.globs import folders

    return {base, *folders(base)}


def name_within(key: str) -> "Callable[[str], str | None]":
    """Return what tells of a path under which name a listing has it, None if it has not."""
    base, pattern = _parted(key)
    if pattern is None:
        return lambda path: os.path.basename(path) if os.path.dirname(path) == base else None
    from rlmnb.capture.globs import is_passed, matcher

    fits, start = matcher(pattern), base.rstrip(os.sep) + os.sep

    def within(path: str) -> "str | None":
        name = path[len(start) :]
        return name if path.startswith(start) and fits(name) and not is_passed(name) else None

    return within


def called(key: str) -> str:
    """Say what a listing is of."""
    base, pattern = _parted(key)
    if pattern in (None, "**/*"):
        return f"the files in {base}"
    return f"what {pattern} finds in {base}"


def listed(names: "Iterable[str]", like: "Listing | None" = None) -> "Listing":
    """Return a listing as records have it: of very many names only the digest.

    It is told in the way of another that it is to be compared with.
    """
    found = sorted(names)
    short = len(found) <= _MOST_NAMES and not (isinstance(like, str) and like != MISSING)
    return found if short else digest.of_value(found)


def listed_by_call(
    tool: str, args: "Mapping[str, Any]", cwd: str, deadline: float = float("inf")
) -> "dict[str, Listing]":
    """Return what a call of an agent's has looked through, with the names that are there.

    Where some are not to be recorded only their digest is told, and nothing of what takes too long.
    """
    key = _looked_through(tool, args, cwd) if tool in LISTING else None
    if key is None:
        return {}
    base, pattern = _parted(key)
    names = names_in(base) if pattern is None else _names_found(base, pattern, deadline)
    if names is None:
        return {}
    return {key: digest.of_value(names) if ignores(cwd) else listed(names)}


def _looked_through(tool: str, args: "Mapping[str, Any]", cwd: str) -> "str | None":
    """Return the name of a call's listing, None if it looks through no directory."""
    path, pattern = args.get("path") or cwd, args.get("pattern")
    if not isinstance(path, str) or "\0" in path:
        return None
    if tool == "Glob":
        if not isinstance(pattern, str) or "\0" in pattern:
            return None
        from rlmnb.capture.globs import rooted

        path, pattern = rooted(pattern, path)
    base = os.path.normpath(os.path.join(cwd, os.path.expanduser(path)))
    if not os.path.isdir(base) or _SEARCHED_FOR in base:
        return None
    if tool == "LS":
        return base
    if tool == "Grep":
        from rlmnb.capture.globs import globs_of

        pattern = next(iter(globs_of(args)), "**/*")
    return f"{base}{_SEARCHED_FOR}{pattern}"


def _names_found(base: str, pattern: str, deadline: float = float("inf")) -> "list[str] | None":
    from rlmnb.capture.globs import matcher, walk

    if not os.path.isdir(base):
        return None
    fits = matcher(pattern)
    found = []
    for seen, name in enumerate(walk(base)):
        if fits(name) and not is_temporary(os.path.basename(name)):
            found.append(name)
        if seen > _MOST_FILES or time.perf_counter() > deadline:
            return None
    return found


def _parted(key: str) -> "tuple[str, str | None]":
    base, found, pattern = key.partition(_SEARCHED_FOR)
    return (base or os.sep, pattern) if found else (key, None)
