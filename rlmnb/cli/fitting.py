"""Lines of a comparison within the edge of the terminal; a pipe gets them whole."""

from __future__ import annotations

import shutil
import sys

from rlmnb.cli import text
from rlmnb.picture import wording

# Less of a text says nothing.
_LEAST = 8


def room(begin: int = 0) -> int | None:
    """Return how many columns there are from this one on; None where there is no edge."""
    return max(shutil.get_terminal_size().columns - begin, 0) if sys.stdout.isatty() else None


def broken(words: str, begin: int, indent: int) -> str:
    """Break a sentence between its words, and cut a word that is longer than a line.

    Its first line begins in column `begin`, the others in column `indent`.
    """
    first, *others = text.wrapped(words, begin, indent).split("\n")
    return "\n".join([text.cut(first, begin), *(text.cut(line, 0) for line in others)])


def ending(path: str, taken: int) -> str:
    """Return as much of the end of a path as what else is on its line leaves room for."""
    left = room(taken)
    return path if left is None else wording.ending(path, max(left, _LEAST))


def folded(line: str) -> str:
    """Break a line of code wherever the terminal ends, which loses none of it.

    What it goes on with has a sign in its first column, as lines have that of their side.
    """
    width = room()
    if width is None:
        return line
    whole = text.printable(line).expandtabs()
    if wording.columns(whole) <= width:
        return whole
    goes_on = "…" if text.unicode_output() else ">"
    rows, row, used = [], "", 0
    for letter in whole:
        used += wording.columns(letter)
        if used > width:
            rows.append(row.rstrip())
            row, used = goes_on, 1 + wording.columns(letter)
        row += letter
    return "\n".join([*rows, row])
