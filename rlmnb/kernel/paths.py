"""What stands at a path, whatever a cell has been given in the place of `os.stat`."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import Any

from rlmnb.digest import MISSING

_STAT = os.stat


def version_of(path: str) -> tuple[int, ...] | None:
    """Return what tells one version of a file from the next, None if there is no file."""
    try:
        status = _STAT(path)
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return (status.st_size, status.st_mtime_ns, status.st_ino)


def kind_of(path: str) -> str:
    """Return what is at a path: a file, a directory, or nothing."""
    if os.path.isdir(path):
        return "directory"
    return "file" if os.path.exists(path) else MISSING


def beside(path: Any, descriptor: Any) -> Any:
    """Return the path that is meant by one which counts from an open directory."""
    if not isinstance(descriptor, int) or descriptor < 0 or isinstance(path, int):
        return path
    try:
        return os.path.join(os.readlink(f"/proc/self/fd/{descriptor}"), os.fsdecode(path))
    except OSError:
        return None


def open_among(paths: set[str]) -> list[str]:
    """Return which of these files are open still: what is written to them may come later."""
    if not paths:
        return []
    try:
        numbers = os.listdir("/proc/self/fd")
    except OSError:
        return []
    found = set()
    for number in numbers:
        with suppress(OSError):  # the one that we list them with is closed by now
            found.add(os.readlink(f"/proc/self/fd/{number}"))
    return sorted(path for path in paths if os.path.realpath(path) in found)
