"""What IPython keeps of the cells that ran, and how code looks at it."""

from __future__ import annotations

import ast
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any

from rlmnb.graph.names import order_of_use

_INPUTS = frozenset({"In", "_i", "_ii", "_iii", "_ih"})
_OUTPUTS = frozenset({"Out", "_", "__", "___", "_oh", "_dh"})
# Through these, code looks at both without naming either.
_KEEPERS = frozenset({"history_manager", "execution_count"})
_MAGICS = frozenset({"run_line_magic", "run_cell_magic"})
_OF_HISTORY = frozenset(
    {"history", "hist", "recall", "rep", "rerun", "macro", "save", "pastebin", "notebook"}
)
# Through these, code looks at a name that only a text of its own has.
_BY_TEXT = frozenset({"eval", "exec", "globals", "locals", "vars", "compile"})
_NAMESPACES = frozenset({"user_ns", "__main__", "__globals__", "f_globals", "ev", "ex"})
_LONGEST_TEXT = 4096


@lru_cache(maxsize=65536)
def is_history(name: str) -> bool:
    """Tell whether IPython itself sets this name after each cell."""
    return is_input(name) or name in _OUTPUTS or _numbered(name, "_")


@lru_cache(maxsize=65536)
def is_input(name: str) -> bool:
    """Tell whether this name stands for the code of cells, and not for what came of it."""
    return name in _INPUTS or _numbered(name, "_i")


def _numbered(name: str, start: str) -> bool:
    return name.startswith(start) and name[len(start) :].isdigit() and len(name) < 12


def unnamed_history(
    reads: AbstractSet[str], attributes: AbstractSet[str], strings: AbstractSet[str]
) -> frozenset[str]:
    """Return the names of history that code looks at in another way than by name."""
    found: set[str] = set()
    if attributes & _KEEPERS or (attributes & _MAGICS and strings & _OF_HISTORY):
        found |= {"In", "Out"}
    if reads & _BY_TEXT or attributes & _NAMESPACES:
        found |= {name for name in attributes if is_history(name)}
        for text in strings:
            found |= _looked_at(text)
    return frozenset(found)


@lru_cache(maxsize=4096)
def _looked_at(text: str) -> frozenset[str]:
    """Return the names of history that a text looks at, if it is code or a name."""
    if len(text) > _LONGEST_TEXT or not ("_" in text or "In" in text or "Out" in text):
        return frozenset()
    try:
        order = order_of_use(ast.parse(text.strip()))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    return frozenset(filter(is_history, order[1])) if order is not None else frozenset()


def count_from(shell: Any, number: int) -> None:
    """Give the next cell a number, also one that another had: the history has each only once.

    Of a number that comes twice, IPython complains in the output of a cell.
    """
    shell.execution_count = number
    history = shell.history_manager
    for cache in (history.db_input_cache, history.db_output_cache):
        cache[:] = [entry for entry in cache if entry[0] < number]
    if history.hist_file == ":memory:":
        later = (history.session_number, number)
        history.db.execute("DELETE FROM history WHERE session = ? AND line >= ?", later)
    else:
        history.enabled = False  # it is the user's, of all sessions
