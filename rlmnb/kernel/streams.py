"""Where cells print: the kernel's own streams, and what a user has put in their place."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# The kernel's own; a variable that holds one is stored with its name here.
stdout: Any = None
stderr: Any = None
_aside: list[tuple[Any, Any]] = []


def remember() -> None:
    """Know the kernel's own streams, before any cell can put another there."""
    global stdout, stderr
    stdout, stderr = sys.stdout, sys.stderr


def own_name(value: Any) -> str | None:
    """Return what one of the kernel's own streams is called."""
    if value is None:
        return None
    return "stdout" if value is stdout else "stderr" if value is stderr else None


@contextmanager
def set_aside() -> Iterator[None]:
    """Know what stands there while something else does for a moment."""
    _aside.append((sys.stdout, sys.stderr))
    try:
        yield
    finally:
        _aside.pop()


def replacements() -> list[Any]:
    """Return what a user has put in the place of the kernel's own."""
    if stdout is None:
        return []
    now = _aside[0] if _aside else (sys.stdout, sys.stderr)
    return [each for each, own in zip(now, (stdout, stderr), strict=True) if each is not own]


def reset() -> None:
    """Print into the kernel's own again."""
    if stdout is not None:
        sys.stdout, sys.stderr = stdout, stderr
