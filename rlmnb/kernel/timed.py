"""Magics that only run Python code: what they run is the cell's own code."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

# With the code's own effects,
_AS_IT_IS = frozenset({"capture", "memit", "prun", "time"})
# and without: they run it as the body of a function, as often as they like.
_APART = frozenset({"timeit"})
# A name that nobody's can be.
_FUNCTION = "@timeit"
_OPTIONS = re.compile(r"(?:\s*-(?:[cnprN]\s*\d+|[DTls]\s+\S+|[A-Za-z]+)(?=\s|$))*\s*")


def unwrapped(tree: ast.Module, transform: Callable[[str], str]) -> ast.Module:
    """Return a cell's code with what such magics run in the place of the magics."""
    return ast.Module(_statements(tree.body, transform), tree.type_ignores)


def _statements(body: list[ast.stmt], transform: Callable[[str], str]) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    for statement in body:
        found += _run_by(statement, transform) or [statement]
    return found


def _run_by(statement: ast.stmt, transform: Callable[[str], str]) -> list[ast.stmt] | None:
    """Return what a magic runs, None if the statement is none or cannot be known."""
    is_value = isinstance(statement, ast.Expr | ast.Assign)
    call = statement.value if isinstance(statement, ast.Expr | ast.Assign) else None
    if not is_value or not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    texts = [each.value for each in call.args if isinstance(each, ast.Constant)]
    kind, given = call.func.attr, [each for each in texts if isinstance(each, str)]
    if kind not in ("run_line_magic", "run_cell_magic") or len(given) != len(call.args):
        return None
    name, line, *rest = given if len(given) > 1 else ("", "")
    if name not in _AS_IT_IS | _APART:
        return None
    try:
        inner = _code("" if name == "capture" else line, rest, transform)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if isinstance(statement, ast.Assign):
        last = inner[-1] if len(inner) == 1 else None
        if name in _APART or not isinstance(last, ast.Expr):
            return None
        inner = [ast.copy_location(ast.Assign(statement.targets, last.value), statement)]
    if name in _APART:
        none = ast.arguments([], [], None, [], [], None, [])
        function = ast.FunctionDef(_FUNCTION, none, inner or [ast.Pass()], [])
        inner = [function, ast.Expr(ast.Call(ast.Name(_FUNCTION, ast.Load()), [], []))]
    if name == "capture" and (kept := [each for each in line.split() if each[:1] != "-"]):
        inner.append(ast.Assign([ast.Name(kept[0], ast.Store())], ast.Constant(None)))
    inner.append(ast.Expr(ast.Call(ast.Name("print", ast.Load()), [], [])))  # how long it took
    return [ast.fix_missing_locations(ast.copy_location(each, statement)) for each in inner]


def _code(line: str, rest: list[str], transform: Callable[[str], str]) -> list[ast.stmt]:
    """Return the statements that a magic is given: behind its options, and below."""
    options = _OPTIONS.match(line)
    source = line[options.end() if options is not None else 0 :]
    parts = [source, *rest] if source.strip() else rest
    body = [each for part in parts for each in ast.parse(transform(part)).body]
    return _statements(body, transform)
