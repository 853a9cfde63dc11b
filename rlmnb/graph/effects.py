"""Which tools change the world, which only look at it, and which only their agent can run."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

from rlmnb.capture.toolnames import CHANGING, ELSEWHERE, HELPERS, READING
from rlmnb.digest import source_hash

# In the place of a tool's name, where any of them may be meant.
ANY = "tools"
_NAMED = re.compile(r"(?<![\w.])tools\.(\w+)")


def is_effectful(operation: str | None) -> bool:
    """Tell whether a tool changes files, runs programs or talks to others."""
    if operation is None:
        return False
    return operation in CHANGING | ELSEWHERE | {ANY} or operation.startswith("mcp__")


def tools_called(source: str) -> frozenset[str]:
    """Return the tools that code names, as in `tools.Bash(command="make")`.

    Code that hands `tools` itself on can call any of them: it is told by `ANY`.
    """
    if "tools" not in source:
        return frozenset()
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # IPython's own syntax, as in `%time tools.Bash(command="x")`: what is named may be called.
        return frozenset(_NAMED.findall(source))
    called = [
        node
        for node in nodes
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "tools"
    ]
    bare = sum(
        isinstance(node, ast.Name) and node.id == "tools" and isinstance(node.ctx, ast.Load)
        for node in nodes
    )
    handed_on = {ANY} if bare > len(called) and not _is_rebound(nodes) else set()
    return frozenset({node.attr for node in called} | handed_on)


def of_its_agent(called: frozenset[str]) -> list[str]:
    """Return those of the tools called that nobody but their agent has."""
    return sorted(called - READING - CHANGING - HELPERS - {ANY})


def effects_of(source: str, operation: str | None, run: Mapping[str, Any] | None) -> list[str]:
    """Return the tools by which a cell changes the world.

    They are those that its code names, the one that its record does, and those that its last run
    has called through functions of other cells; the latter only while its code is what ran then.
    """
    called = {*tools_called(source), *([operation] if operation else ())}
    if run is not None and run.get("text") == source_hash(source):
        called.update(str(each) for each in run.get("effects") or ())
    return sorted(filter(is_effectful, called))


def _is_rebound(nodes: list[ast.AST]) -> bool:
    """Tell whether code has something of its own under this name: a list of tools, a module."""
    return any(
        (isinstance(node, ast.Name) and node.id == "tools" and not isinstance(node.ctx, ast.Load))
        or (isinstance(node, ast.alias) and "tools" in (node.asname, node.name))
        or (isinstance(node, ast.arg) and node.arg == "tools")
        for node in nodes
    )
