"""The words of shell commands, as far as they may be names of files."""

from __future__ import annotations

import shlex
from contextlib import suppress
from itertools import pairwise

_LONGEST_COMMAND = 16 * 1024


def is_plausible(text: str) -> bool:
    """Tell whether a piece of text can be the name of a file at all."""
    return 0 < len(text) < 1024 and "\0" not in text and "\n" not in text


def words_in(command: str) -> list[str]:
    """Return the words of a shell command, without what the shell itself understands."""
    if len(command) > _LONGEST_COMMAND or not any(letter.isspace() for letter in command):
        return []
    found = command.split()  # with brackets, which shlex takes for something of their own
    with suppress(ValueError):
        found += shlex.shlex(command, posix=True, punctuation_chars=True)
    return list(dict.fromkeys(found))


def overwritten_by(command: str) -> set[str]:
    """Return the files that a shell command begins anew: it says nothing else of them."""
    if ">" not in command or len(command) > _LONGEST_COMMAND:
        return set()
    try:
        words = list(shlex.shlex(command, posix=True, punctuation_chars=True))
    except ValueError:
        return set()
    pairs = pairwise(words)
    return {word for sign, word in pairs if sign in (">", ">|", "&>") and words.count(word) == 1}
