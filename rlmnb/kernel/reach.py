"""What a cell's code can reach: its names, followed through all that they lead to."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any

from rlmnb.graph.names import surely_set
from rlmnb.kernel.codenames import CodeNames, names_in

# Through these a cell can reach any variable by a name that its code does not show.
_OPAQUE_NAMES = frozenset(
    {"exec", "eval", "globals", "locals", "vars", "dir", "get_ipython", "__import__", "compile"}
)
_OPAQUE_ATTRIBUTES = frozenset(
    {"__globals__", "f_globals", "f_locals", "_getframe", "user_ns", "__main__", "get_objects"}
)


class _Dormant(ast.NodeTransformer):
    """Empties functions that a cell defines and does not call: their bodies do not run in it."""

    def __init__(self, loaded: set[str]) -> None:
        self._loaded = loaded

    def _function(self, node: Any) -> Any:
        if not node.decorator_list and node.name not in self._loaded:
            node.body = [ast.copy_location(ast.Pass(), node)]
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = _function  # noqa: N815 - ast's own names

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        if node.name not in self._loaded and not node.decorator_list and not node.keywords:
            inside = {
                each.id
                for part in node.body
                if not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)
                for each in ast.walk(part)
                if isinstance(each, ast.Name)
            }
            inner = _Dormant(inside)
            node.body = [inner.visit(part) for part in node.body]
        return node

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        return node


def _without_dormant(tree: ast.Module) -> ast.Module:
    """Return a cell's code without the bodies of functions that cannot run while it does."""
    loaded: set[str] = set()
    for statement in tree.body:
        own = None
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            own = statement.name
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id != own:
                loaded.add(node.id)
    tree.body = [_Dormant(loaded).visit(statement) for statement in tree.body]
    return tree


def code_names(source: str, transform: Callable[[str], str]) -> CodeNames | None:
    """Return the names in a cell's code, None if it does not compile and so does nothing."""
    try:
        tree = _without_dormant(ast.parse(transform(source)))
        sure = surely_set(tree)
        code = compile(tree, "<cell>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found = names_in(code)
    return CodeNames(
        found.reads, found.writes, found.attributes, found.strings, sure, found.patches
    )


def follow(
    names: CodeNames, refs_of: Callable[[str], Iterable[str]]
) -> tuple[frozenset[str], bool]:
    """Close a cell's names over what each refers to; tell whether it may touch any name."""
    found: set[str] = set()
    waiting = list(names.reads | names.writes)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(refs_of(name))
    opaque = bool(found & _OPAQUE_NAMES) or bool(names.attributes & _OPAQUE_ATTRIBUTES)
    # A name that is surely set, and not looked at, is not read: what it was does not matter.
    refs = {ref for name in found for ref in refs_of(name)}
    only_stored = (names.sure & names.writes) - names.reads - refs
    return frozenset(found - only_stored), opaque
