"""Which tools change the world, which only look at it, and which only their agent can run."""

from __future__ import annotations

import ast

from rlmnb.capture.toolnames import CHANGING, ELSEWHERE


def is_effectful(operation: str | None) -> bool:
    """Tell whether a tool changes files, runs programs or talks to others."""
    if operation is None:
        return False
    return operation in CHANGING | ELSEWHERE or operation.startswith("mcp__")


def tools_called(source: str) -> frozenset[str]:
    """Return the tools that code names, as in `tools.Bash(command="make")`."""
    if "tools" not in source:
        return frozenset()
    try:
        nodes = ast.walk(ast.parse(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    return frozenset(
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "tools"
    )
