"""The form of what a cell begins with: statements that run no code but their own."""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

# Decorators of Python's own that run none of a function.
PLAIN = frozenset({"classmethod", "property", "staticmethod"})
# Magics that neither read nor set a variable but those that their text names.
_QUIET_MAGICS = frozenset({"matplotlib", "autoreload", "cd", "config", "pip", "conda", "env"})
# Of these, what is asked for in their first line can be put into variables.
_SCRIPTS = frozenset({"bash", "sh"})
_QUIET_CELL_MAGICS = _SCRIPTS | {
    "HTML", "SVG", "file", "html", "javascript", "js", "latex", "markdown", "svg", "writefile",
}  # fmt: skip
_FORMATTER = string.Formatter()
_DOLLAR = re.compile(r"\$(\$?[\w.]+)")


@dataclass(frozen=True)
class Beginning:
    """The first statements of a cell, as far as they may be of this kind by their form."""

    statements: tuple[ast.stmt, ...] = ()
    # The cell has no others.
    is_all: bool = False
    # One of them has a value that may be shown.
    shows: bool = False
    # They look at attributes of what these names stand for, or of modules.
    looks_into: frozenset[str] = frozenset()


def beginning_of(tree: ast.Module) -> Beginning:
    """Return the statements that a cell begins with."""
    found: list[ast.stmt] = []
    for statement in tree.body:
        if not _may_begin(statement):
            break
        found.append(statement)
    shows = any(isinstance(each, ast.Expr) for each in found)
    looks_into = frozenset(name for each in found for name in _looked_into(each))
    return Beginning(tuple(found), len(found) == len(tree.body), shows, looks_into)


def _looked_into(node: ast.stmt) -> Iterator[str]:
    """Yield the names of what a statement has attributes of, taken for their value."""
    if isinstance(node, ast.ImportFrom):
        yield (node.module or "").partition(".")[0]
    for part in evaluated(node):
        for each in ast.walk(part):
            if isinstance(each, ast.Attribute):
                base = each.value
                while isinstance(base, ast.Attribute):
                    base = base.value
                if not isinstance(base, ast.Constant):
                    yield base.id if isinstance(base, ast.Name) else "?"


def evaluated(node: ast.stmt) -> Iterator[ast.expr]:
    """Yield what a statement of this kind evaluates to have its value."""
    if isinstance(node, ast.ClassDef):
        for part in node.body:
            yield from evaluated(part)
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from node.args.defaults
        yield from (each for each in node.args.kw_defaults if each is not None)
        yield from _annotations(node)
    elif isinstance(node, ast.AnnAssign):
        yield from (each for each in (node.annotation, node.value) if each is not None)
    elif isinstance(node, ast.Expr | ast.Assign):
        value = node.value
        if isinstance(value, ast.Call):
            yield from [*value.args, *(each.value for each in value.keywords)]
        else:
            yield value


def _may_begin(node: ast.stmt) -> bool:
    if isinstance(node, ast.Import | ast.ImportFrom | ast.Pass):
        return True
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        defaults = [*node.args.defaults, *(each for each in node.args.kw_defaults if each)]
        notes = [*_annotations(node), *node.decorator_list]
        calls = any(isinstance(each, ast.Call) for note in notes for each in ast.walk(note))
        return not node.decorator_list and not calls and all(map(_is_quiet, defaults))
    if isinstance(node, ast.ClassDef):
        plain = not node.decorator_list and not node.keywords
        names = all(isinstance(each, ast.Name) for each in node.bases)
        return plain and names and all(map(_is_plain_part, node.body))
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant | ast.Call)  # whatever else may be shown
    if isinstance(node, ast.AnnAssign):
        calls = any(isinstance(each, ast.Call) for each in ast.walk(node.annotation))
        named = isinstance(node.target, ast.Name) and node.value is not None
        return named and not calls and node.value is not None and _is_quiet(node.value)
    return isinstance(node, ast.Assign) and _is_quiet(node.value)


def does_nothing_else(node: ast.stmt) -> bool:
    """Tell whether a statement does nothing but give names to constants, functions or classes."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    named = not isinstance(node, ast.Assign) or all(isinstance(x, ast.Name) for x in node.targets)
    return named and not isinstance(node, ast.Import | ast.ImportFrom) and _may_begin(node)


def _is_plain_part(node: ast.stmt) -> bool:
    """Tell whether a part of a class runs no code when the class is made."""
    if isinstance(node, ast.FunctionDef):
        plain = [each for each in node.decorator_list if isinstance(each, ast.Name)]
        ours = len(plain) == len(node.decorator_list) and {each.id for each in plain} <= PLAIN
        return ours and _may_begin(_undecorated(node))
    if isinstance(node, ast.Assign):
        named = all(isinstance(each, ast.Name) for each in node.targets)
        return named and not any(map(_is_named, ast.walk(node.value))) and _is_quiet(node.value)
    if isinstance(node, ast.AnnAssign) and node.value is None:
        return not any(isinstance(each, ast.Call) for each in ast.walk(node.annotation))
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        return _may_begin(node) and not any(map(_is_named, ast.walk(node.value)))
    return isinstance(node, ast.Pass) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )


def _undecorated(node: ast.FunctionDef) -> ast.FunctionDef:
    return ast.FunctionDef(**{**vars(node), "decorator_list": []})


def _is_named(node: ast.AST) -> bool:
    """Tell whether this is something that could hear of being put into a class."""
    return isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)


def _annotations(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.expr]:
    given = node.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    found = [each.annotation for each in every if each is not None]
    return [each for each in [*found, node.returns] if each is not None]


def _is_quiet(node: ast.expr) -> bool:
    """Tell whether an expression runs no code but its own."""
    if isinstance(node, ast.Constant | ast.Name | ast.Lambda):
        return True
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return all(map(_is_quiet, node.elts))
    if isinstance(node, ast.Dict):
        return all(each is not None and _is_quiet(each) for each in [*node.keys, *node.values])
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.operand, ast.Constant)
    if isinstance(node, ast.BinOp):
        return isinstance(node.left, ast.Constant) and isinstance(node.right, ast.Constant)
    # '{:.2f}'.format, or sys.maxsize; whether the latter is that of a module is for later
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Constant | ast.Name)


def is_quietly_given(call: ast.Call) -> bool:
    """Tell whether what a call is given runs no code but its own."""
    if isinstance(call.func, ast.Attribute) and getattr(call.func.value, "elts", None):
        return False  # a magic whose text has expressions in it
    quiet = all(map(_is_quiet, [*call.args, *(each.value for each in call.keywords)]))
    return quiet and all(each.arg is not None for each in call.keywords)


def is_quiet_magic(call: ast.Call) -> bool:
    """Tell whether a call is a magic, or a command, that has nothing to do with variables.

    But for those that its text names, which `what_it_expands` tells.
    """
    func, given = call.func, [getattr(each, "value", None) for each in call.args]
    texts = [each for each in given if isinstance(each, str)]
    if not isinstance(func, ast.Attribute) or not _is_shell(func.value):
        return False
    if call.keywords or not texts or len(texts) != len(given):
        return False
    if func.attr == "run_cell_magic":
        name, line, *body = texts
        quiet = name in _QUIET_CELL_MAGICS and (name not in _SCRIPTS or not line.strip())
        return quiet and len(body) == 1
    if func.attr in ("system", "getoutput"):
        return True
    if func.attr != "run_line_magic":
        return False
    if texts[0] == "load_ext":
        return texts[-1].strip() == "autoreload"
    return texts[0] in _QUIET_MAGICS and (texts[0] != "config" or _is_literal(texts[-1]))


def what_it_expands(call: ast.Call) -> list[ast.expr]:
    """Return the expressions that stand in the text of a quiet magic, as the shell finds them.

    If one of them has no value, the shell leaves the text as it is.
    """
    func, texts = call.func, [getattr(each, "value", "") for each in call.args]
    in_line = isinstance(func, ast.Attribute) and func.attr.startswith("run_")
    found: list[ast.expr] = []
    # After a brace that stands alone nothing is replaced, here or there.
    with suppress(ValueError, SyntaxError):
        for before, field, spec, _ in _FORMATTER.parse(texts[1 if in_line else 0]):
            names = [each.lstrip("$") for each in _DOLLAR.findall(before)]
            # To the shell a colon is part of the expression: a slice, a lambda.
            whole = [f"{field}:{spec}" if spec else field] if field is not None else []
            found.extend(ast.parse(each.strip(), mode="eval").body for each in [*names, *whole])
    return found


def _is_shell(node: ast.expr) -> bool:
    if isinstance(node, ast.Tuple):
        return True  # what it expands is in its place
    called = node.func if isinstance(node, ast.Call) else None
    return isinstance(called, ast.Name) and called.id == "get_ipython"


def _is_literal(line: str) -> bool:
    try:
        ast.literal_eval(line.partition("=")[2].strip() or "0")
    except (SyntaxError, ValueError):
        return False
    return True
