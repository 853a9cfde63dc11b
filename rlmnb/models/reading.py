"""Looking at a context that is too long for a prompt: it stays in a variable, slices are shown.

None of this asks a model.
"""

from __future__ import annotations

import os
import re
from typing import Any

_MOST = 100


def peek(context: Any, start: int = 0, size: int = 1000) -> str:
    """Show at most `size` characters of a context, from `start` on; a negative one is from the end.

    Of a list or dict, `start` counts items, and they are shown a line each.
    """
    if isinstance(context, bytes):
        context = context.decode("utf-8", "replace")
    if isinstance(context, dict):
        context = [f"{key!r}: {_shown(value)}" for key, value in context.items()]
    if isinstance(context, list | tuple):
        return "\n".join(_shown(item) for item in context[start:])[:size]
    return _shown(context)[start:][:size]


def _shown(item: Any) -> str:
    return item if isinstance(item, str) else repr(item)


def search(
    context: Any, pattern: str, before: int = 0, after: int = 0, limit: int = _MOST
) -> list[str]:
    """Find the lines of a context that a regular expression matches, each with its number.

    A match comes with `before` lines above and `after` lines below it; a list or dict is searched
    item by item.
    """
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
    lines = _lines(context)
    found: list[str] = []
    for at, line in enumerate(lines):
        if len(found) >= limit:
            break
        if wanted.search(line):
            around = range(max(0, at - before), min(len(lines), at + after + 1))
            found.append("\n".join(f"{each + 1}: {lines[each]}" for each in around))
    return found


def _lines(context: Any) -> list[str]:
    if isinstance(context, bytes):
        context = context.decode("utf-8", "replace")
    if isinstance(context, str):
        return context.splitlines()
    if isinstance(context, dict):
        return [f"{key}: {_shown(value)}" for key, value in context.items()]
    if isinstance(context, list | tuple):
        return [_shown(item) for item in context]
    return _shown(context).splitlines()


def read_file(path: str | os.PathLike[str], encoding: str = "utf-8") -> str:
    """Return the text of a file; the cell depends on it."""
    with open(path, encoding=encoding, errors="replace") as file:
        return file.read()
