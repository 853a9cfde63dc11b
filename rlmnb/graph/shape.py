"""What a cell's code is made of, as far as it says what the cell is for."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom)
_ASSIGNMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign)
# Modules whose calls are made for what they do, not for what they return.
_DOERS = re.compile(
    r"\b(subprocess|requests|httpx|urllib|socket|shutil|os|sqlite3|smtplib|boto3)\s*\."
    r"|\.(write|save|savefig|to_\w+|commit|send|post|put)\s*\("
    r"|^\s*[!%]",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Shape:
    """The statements of a cell, by what they do."""

    lines: int = 0
    statements: int = 0
    # Names that are worked out here: not imported, not defined, not plain constants.
    computed: frozenset[str] = frozenset()
    # Only imports, definitions and constants: what a notebook begins with.
    is_setup: bool = False
    only_imports: bool = False
    # Nothing but names are left behind: no bare call, no loop, nothing known to have an effect.
    only_assigns: bool = False


def shape_of(source: str) -> Shape:
    """Look at a cell's code; code that cannot be read as Python has lines and nothing else."""
    lines = [line for line in source.splitlines() if line.strip() and line.strip()[0] != "#"]
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Shape(lines=len(lines))
    # A text that stands alone is a comment.
    body = [each for each in body if not _is_constant_expression(each)]
    computed = {name for each in body for name in _computed(each)}
    assigning = (*_IMPORTS, *_DEFINITIONS, *_ASSIGNMENTS)
    return Shape(
        lines=len(lines),
        statements=len(body),
        computed=frozenset(computed),
        is_setup=not computed and all(isinstance(each, (*assigning, ast.Expr)) for each in body),
        only_imports=bool(body) and all(isinstance(each, _IMPORTS) for each in body),
        only_assigns=bool(body)
        and all(_only_names(each) for each in body)
        and not _DOERS.search(source),
    )


def _only_names(node: ast.stmt) -> bool:
    """Tell whether a statement binds names; to set a part may change what others hold as well."""
    if isinstance(node, (*_IMPORTS, *_DEFINITIONS)):
        return True
    targets = node.targets if isinstance(node, ast.Assign) else []
    if isinstance(node, ast.AnnAssign):
        targets = [node.target]
    parts = (ast.Name, ast.Tuple, ast.List, ast.Starred)
    return bool(targets) and all(isinstance(each, parts) for each in targets)


def _is_constant_expression(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _computed(node: ast.stmt) -> set[str]:
    if not isinstance(node, ast.Assign) or _is_constant(node.value):
        return set()
    return {
        name.id
        for target in node.targets
        for name in ast.walk(target)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
    }


def _is_constant(node: ast.expr) -> bool:
    """Tell whether a value is written out in the code, however it is nested."""
    kinds = (
        ast.Constant, ast.Tuple, ast.List, ast.Set, ast.Dict, ast.UnaryOp, ast.BinOp,
        ast.operator, ast.unaryop, ast.expr_context,
    )  # fmt: skip
    return all(isinstance(each, kinds) for each in ast.walk(node))
