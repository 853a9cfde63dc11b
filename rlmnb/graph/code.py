"""The code of a cell as what it does: comments, blank lines and layout do not count."""

from __future__ import annotations

import ast
import io
import tokenize
from functools import lru_cache

from rlmnb import digest

_LAYOUT = (
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENDMARKER,
)  # fmt: skip


@lru_cache(maxsize=4096)
def code_hash(source: str) -> str:
    """Hash a cell's code; source that only IPython can read is hashed as text."""
    try:
        # IPython shows no value where the code ends in a semicolon.
        quiet = ";" if ";" in source and _ends_quietly(source) else ""
        return digest.of_text(ast.dump(ast.parse(source)) + quiet)
    except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError):
        return digest.of_text(source.strip())


def _ends_quietly(source: str) -> bool:
    """Tell whether the last thing in the code, comments apart, is a semicolon."""
    kept = [
        token
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in _LAYOUT
    ]
    return bool(kept) and kept[-1].string == ";"
