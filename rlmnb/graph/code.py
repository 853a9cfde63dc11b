"""The code of a cell as what it does: comments, blank lines and layout do not count."""

from __future__ import annotations

import ast

from rlmnb import digest


def code_hash(source: str) -> str:
    """Hash a cell's code; source that only IPython can read is hashed as text."""
    try:
        return digest.of_text(ast.dump(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return digest.of_text(source.strip())
