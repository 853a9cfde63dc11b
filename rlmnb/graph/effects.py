"""Which tools change the world, which only look at it, and which only their agent can run."""

from __future__ import annotations

import ast

from rlmnb.capture.toolnames import CHANGING, ELSEWHERE

# In the place of a tool's name, where any of them may be meant.
ANY = "tools"


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
        return frozenset()
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


def _is_rebound(nodes: list[ast.AST]) -> bool:
    """Tell whether code has something of its own under this name: a list of tools, a module."""
    return any(
        (isinstance(node, ast.Name) and node.id == "tools" and not isinstance(node.ctx, ast.Load))
        or (isinstance(node, ast.alias) and "tools" in (node.asname, node.name))
        or (isinstance(node, ast.arg) and node.arg == "tools")
        for node in nodes
    )
