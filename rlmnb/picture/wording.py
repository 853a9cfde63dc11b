"""Words that are safe and short enough for a picture, whatever an agent's tool put into them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from unicodedata import combining, east_asian_width

ELLIPSIS = "…"
_LONGEST = 400
# The directories of an absolute path that is quoted, and the name of a tool's first argument.
_DIRECTORIES = re.compile(r"(?<=['\"])/[^'\"\s]*/(?=[^'\"\s/]+['\"])")
_FIRST_NAME = re.compile(r"^((?:\w+ = )?tools\.\w+\()\w+=")
# Where the index joined two reasons; an explicit reason or a path may have commas of its own.
_JOINT = re.compile(r", (?=variable |file |may set |may read any variable)")


def plain(text: str, most: int = _LONGEST) -> str:
    """Return `text` on one line, control characters spelled out, at most `most` columns wide."""
    # What is cut anyway is not looked at: a title may be as long as somebody's file.
    words = " ".join(text[: 8 * most].split())
    shown = "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in words)
    return cut(shown, most)


def columns(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return len(text) if text.isascii() else sum(_columns_of(letter) for letter in text)


def _columns_of(letter: str) -> int:
    if combining(letter):
        return 0
    return 2 if east_asian_width(letter) in "WF" else 1


def cut(text: str, most: int, ellipsis: str = ELLIPSIS) -> str:
    """Return `text`, or as much of its beginning as fits with an ellipsis behind it."""
    if len(text) <= most and columns(text) <= most:
        return text
    room = max(most - len(ellipsis), 0)
    taken = used = 0
    for letter in text[: 4 * most]:
        used += _columns_of(letter)
        if used > room:
            break
        taken += 1
    return (text[:taken].rstrip() + ellipsis)[: max(most, 1)]


def brief(code: str, most: int, ellipsis: str = ELLIPSIS) -> str:
    """Return a line of code that fits: which file it names is the last that is left out.

    All calls of an agent begin alike: the tool, its argument, the directories of the project.
    """
    if columns(code) > most:
        code = _DIRECTORIES.sub(f"{ellipsis}/", code)
    if columns(code) > most:
        code = _FIRST_NAME.sub(r"\1", code)
    return cut(code, most, ellipsis)


def ending(path: str, most: int, ellipsis: str = ELLIPSIS) -> str:
    """Return a path that fits: its end tells more than its beginning."""
    if columns(path) <= most:
        return path
    while path and columns(path) > most - len(ellipsis):
        path = path[1:]
    return ellipsis + path


def reasons_in(joined: str) -> tuple[str, ...]:
    """Return the reasons of an edge one by one, as the index joined them."""
    return tuple(dict.fromkeys(_JOINT.split(joined or "explicit")))


def short_reason(reason: str) -> str:
    """Return a reason as a picture says it: the variable's name, the last part of a path."""
    if reason.startswith("variable "):
        return plain(reason.removeprefix("variable "))
    if reason.startswith("file "):
        path = reason.removeprefix("file ").rstrip("/")
        return plain("file " + path.rsplit("/", 1)[-1])
    return plain(reason)


def named(reasons: Sequence[str], most: int = 3) -> str:
    """Name the first few reasons and count the rest."""
    short = list(dict.fromkeys(short_reason(each) for each in reasons))
    shown = ", ".join(short[:most])
    return f"{shown} and {len(short) - most} more" if len(short) > most else shown


def fitting(reasons: Sequence[str], room: int, ellipsis: str = ELLIPSIS) -> str:
    """Name as many reasons as there is room for, one at least."""
    for most in range(min(len(reasons), 12), 1, -1):
        shown = named(reasons, most)
        if columns(shown) <= room:
            return shown
    return cut(named(reasons, 1), room, ellipsis)


def listed(parts: Iterable[str]) -> str:
    """Put the parts that say something after one another."""
    return ", ".join(part for part in parts if part)
