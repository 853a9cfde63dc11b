"""Who asks whether a file is there only to clear its place, or to say that it is replaced.

`if os.path.exists(out): os.remove(out)` does the same whether or not an earlier run has left it.
"""

from __future__ import annotations

import ast
import genericpath
import linecache
import os
import pathlib
import sysconfig
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
_LIBRARIES = ("<frozen", *{os.path.dirname(os.__file__), *sysconfig.get_paths().values()})
_MOST_KNOWN = 64
_CLEARS, _MAKES = "clears", "makes"


def asks_for_nothing(frame: FrameType) -> bool:
    """Tell whether whoever asks, from this frame, does so whatever the answer is."""
    return _is_of(frame, _PILLOW)


def asks_to_replace(frame: FrameType) -> bool:
    """Tell whether whoever asks for something that is there will have it gone, or overwritten."""
    return _is_of(frame, _WRITEFILE) or _form(frame) == _CLEARS


def asks_to_make(frame: FrameType) -> bool:
    """Tell whether whoever asks for a directory makes it if it is not there."""
    return _form(frame) == _MAKES


def who_asks(frame: FrameType) -> FrameType:
    """Return the frame from which something is asked, by way of Python's own library."""
    while frame.f_back is not None and frame.f_code.co_filename in _PASSING_ON:
        frame = frame.f_back
    return frame


def _is_of(frame: FrameType, place: tuple[str, str]) -> bool:
    file, function = place
    return frame.f_code.co_name == function and frame.f_code.co_filename.endswith(file)


_known: dict[str, tuple[list[str], dict[int, str]]] = {}


def _form(frame: FrameType) -> str | None:
    file = frame.f_code.co_filename
    if file.startswith(_LIBRARIES):
        return None  # long files, and nobody's own
    lines = linecache.getlines(file)
    known = _known.get(file)
    if known is None or known[0] is not lines:
        if len(_known) > _MOST_KNOWN:
            _known.clear()
        known = _known[file] = (lines, _forms("".join(lines)))
    return known[1].get(frame.f_lineno)


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
    test, does, form = node.test, _REMOVING, _CLEARS
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, does, form = test.operand, _MAKING, _MAKES
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
