"""Who asks whether a file is there only to clear its place, or to say that it is replaced.

`if os.path.exists(out): os.remove(out)` does the same whether or not an earlier run has left it.
"""

from __future__ import annotations

import ast
import genericpath
import linecache
import os
import pathlib
from types import FrameType

# Pillow, and so every figure that is saved, asks only to know whether to remove what has failed.
_PILLOW = (os.path.join("PIL", "Image.py"), "save")
# `%%writefile` says whether it overwrites something.
_WRITEFILE = (os.path.join("IPython", "core", "magics", "osm.py"), "writefile")
_ASKING = frozenset({"exists", "is_dir", "is_file", "isdir", "isfile", "lexists"})
_REMOVING = frozenset({"remove", "rmdir", "rmtree", "unlink"})
_MAKING = frozenset({"makedirs", "mkdir"})
_PASSING_ON = frozenset(
    each.__code__.co_filename for each in (genericpath.exists, os.path.lexists, pathlib.Path.exists)
)
_MOST_KNOWN = 64
# Why somebody asks: whatever the answer is; to have it gone, or overwritten; to make it if missing.
FOR_NOTHING, TO_REPLACE, TO_MAKE = "for nothing", "to replace", "to make"


def why_asked(frame: FrameType, libraries: tuple[str, ...]) -> str | None:
    """Return why whoever asks from a frame does so, if it makes no difference what is there.

    The code of `libraries`, by the paths that theirs begin with, is not looked at.
    """
    while frame.f_back is not None and frame.f_code.co_filename in _PASSING_ON:
        frame = frame.f_back
    if _is_of(frame, _PILLOW):
        return FOR_NOTHING
    if _is_of(frame, _WRITEFILE):
        return TO_REPLACE
    file = frame.f_code.co_filename
    return None if file.startswith(libraries) else _forms_in(file).get(frame.f_lineno)


def _is_of(frame: FrameType, place: tuple[str, str]) -> bool:
    file, function = place
    return frame.f_code.co_name == function and frame.f_code.co_filename.endswith(file)


_known: dict[str, tuple[list[str], dict[int, str]]] = {}


def _forms_in(file: str) -> dict[int, str]:
    lines = linecache.getlines(file)
    known = _known.get(file)
    if known is None or known[0] is not lines:
        if len(_known) > _MOST_KNOWN:
            _known.clear()
        known = _known[file] = (lines, _forms("".join(lines)))
    return known[1]


def _forms(source: str) -> dict[int, str]:
    """Return the lines on which code asks for something only to remove it, or to make it."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    return {
        line: form
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and not node.orelse and (form := _form_of(node)) is not None
        for line in range(node.test.lineno, (node.test.end_lineno or node.test.lineno) + 1)
    }


def _form_of(node: ast.If) -> str | None:
    test, does, form = node.test, _REMOVING, TO_REPLACE
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, does, form = test.operand, _MAKING, TO_MAKE
    what = _what(test, _ASKING)
    alone = all(
        isinstance(each, ast.Expr) and _what(each.value, does) == what for each in node.body
    )
    return form if what is not None and alone else None


def _what(call: ast.expr, names: frozenset[str]) -> str | None:
    """Return what a method or a function of this name is called for."""
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    if call.func.attr not in names:
        return None
    if ast.unparse(call.func.value) in ("os", "os.path", "shutil"):
        return ast.dump(call.args[0]) if call.args else None
    return None if call.args else ast.dump(call.func.value)
