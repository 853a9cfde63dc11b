"""Which cells ask a model, as far as their code shows, and which are nothing but one call."""

from __future__ import annotations

import ast

# The functions that ask, each with the type of a cell that is one call of it.
ASKING = {
    "allm_query": "llm_call",
    "llm_query": "llm_call",
    "llm_query_batched": "llm_call",
    "map_reduce": "map_reduce",
    "rlm_query": "llm_call",
    "summarize": "map_reduce",
    "verify": "verification",
}


def asks(source: str) -> bool:
    """Tell whether code names a function that asks a model, and does not define it itself."""
    if not any(name in source for name in ASKING):
        return False
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    loaded = {node.id for node in nodes if isinstance(node, ast.Name) and _is_load(node)}
    stored = {node.id for node in nodes if isinstance(node, ast.Name) and not _is_load(node)}
    stored |= {
        node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    through = {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "rlmnb"
    }
    return not ASKING.keys().isdisjoint((loaded - stored) | through)


def _is_load(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Load)


def type_of_call(source: str) -> str | None:
    """Return the type of a cell that is one call, or one assignment of one; None if it is more."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if len(body) != 1 or not isinstance(body[0], ast.Expr | ast.Assign | ast.AnnAssign):
        return None
    value = body[0].value
    if isinstance(value, ast.Await):
        value = value.value
    if not isinstance(value, ast.Call):
        return None
    called = value.func
    if isinstance(called, ast.Attribute) and called.attr == "aio":
        called = called.value
    return ASKING.get(called.id) if isinstance(called, ast.Name) else None
