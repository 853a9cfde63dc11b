"""Which cells ask a model, as far as their code shows, and which are nothing but one call."""

from __future__ import annotations

import ast
from typing import TypeGuard

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
_SHOWING = frozenset({"display", "print"})


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
    """Return the type of a cell that is one call, kept or shown; None if it is more."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not body or not isinstance(body[0], ast.Expr | ast.Assign | ast.AnnAssign):
        return None
    if not all(_only_shows(each) for each in body[1:]):
        return None
    value = body[0].value
    if isinstance(body[0], ast.Expr) and _is_showing(value) and len(value.args) == 1:
        value = value.args[0]
    if isinstance(value, ast.Await):
        value = value.value
    if not isinstance(value, ast.Call):
        return None
    called = value.func
    if isinstance(called, ast.Attribute) and called.attr == "aio":
        called = called.value
    return ASKING.get(called.id) if isinstance(called, ast.Name) else None


def _is_showing(value: ast.expr | None) -> TypeGuard[ast.Call]:
    """Tell whether code prints or displays something."""
    return (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Name)
        and value.func.id in _SHOWING
        and not value.keywords
    )


def _only_shows(statement: ast.stmt) -> bool:
    """Tell whether a statement does nothing but show what variables hold."""
    if not isinstance(statement, ast.Expr):
        return False
    value = statement.value
    shown = value.args if _is_showing(value) else [value]
    return all(isinstance(each, ast.Name | ast.Constant) for each in shown)
