"""Scripts that a command runs: what they import, open and write is seen by another process only."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator

# A script that imports more of its own than this is a project; its first part will do.
_MOST = 200
# A script with more texts than this is no script, and one of more bytes neither.
_MOST_TEXTS = 2000
_MOST_BYTES = 1024 * 1024
_SHELL = (".sh", ".bash", ".zsh")
_WORD = re.compile(r"[^\s'\"`;|&<>()=]+")


def mentioned_by(words: Iterable[str], where: str = "") -> set[str]:
    """Return the texts in the scripts among a command's words that can name files.

    They are all that can be known of what a script opens and makes.
    """
    found: set[str] = set()
    for word in words:
        path = os.path.join(where, word)
        if word.endswith((".py", *_SHELL)) and os.path.isfile(path):
            for each in (path, *(modules_of(path) if word.endswith(".py") else ())):
                found.update(_texts_in(each))
    return found if len(found) <= _MOST_TEXTS else set()


def _texts_in(path: str) -> Iterator[str]:
    source = _source(path)
    if path.endswith(_SHELL):
        yield from _WORD.findall(source.decode("utf-8", "replace"))
        return
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _source(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_MOST_BYTES)
    except OSError:
        return b""


def modules_of(script: str) -> set[str]:
    """Return the files beside a Python script that it imports, and those that they import."""
    root = os.path.dirname(os.path.abspath(script))
    found: set[str] = set()
    waiting = [os.path.abspath(script)]
    while waiting and len(found) < _MOST:
        for path in _imported_by(waiting.pop(), root):
            if path not in found:
                found.add(path)
                waiting.append(path)
    return found


def _imported_by(path: str, root: str) -> Iterator[str]:
    for name in _names_in(path, root):
        stem = os.path.join(root, *name.split("."))
        for each in (f"{stem}.py", os.path.join(stem, "__init__.py")):
            if os.path.isfile(each):
                yield each


def _names_in(path: str, root: str) -> Iterator[str]:
    """Yield the names of modules that a file imports, and of the packages that they are in."""
    try:
        tree = ast.parse(_source(path))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # what Python cannot read imports nothing
    own = os.path.relpath(os.path.dirname(path), root).split(os.sep)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _with_packages(alias.name)
        elif isinstance(node, ast.ImportFrom):
            above = own[: len(own) - node.level + 1] if node.level else []
            parts = [each for each in above if each != os.curdir]
            base = ".".join([*parts, *([node.module] if node.module else [])])
            yield from _with_packages(base)
            # What is imported from a package may be a module of it.
            yield from (f"{base}.{alias.name}" if base else alias.name for alias in node.names)


def _with_packages(name: str) -> Iterator[str]:
    parts = name.split(".") if name else []
    for length in range(1, len(parts) + 1):
        yield ".".join(parts[:length])
