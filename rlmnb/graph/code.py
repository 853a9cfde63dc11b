"""The code of a cell as what it does: comments, blank lines and layout do not count."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from functools import lru_cache

from rlmnb import digest

_LAYOUT = (
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENDMARKER,
)  # fmt: skip


# A magic whose cell is Python, and one, or a command, that is a line: `x = !ls`, `%time f()`.
_CELL_MAGIC = re.compile(r"\s*%%(?:time|timeit|capture|prun)\b.*\n")
_MAGIC = re.compile(r"^([ \t]*)([^=!%#'\"(\n]+=[ \t]*)?([!%].*)$", re.MULTILINE)


@lru_cache(maxsize=4096)
def code_hash(source: str) -> str:
    """Hash a cell's code; source that only IPython can read is hashed as text."""
    try:
        # IPython shows no value where the code ends in a semicolon.
        quiet = ";" if ";" in source and _ends_quietly(source) else ""
        return digest.of_text(ast.dump(ast.parse(source)) + quiet)
    except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError):
        plain = _without_magics(source)
        return digest.of_text(source.strip()) if plain is None else digest.of_text(plain)


def _without_magics(source: str) -> str | None:
    """Return the code of a cell with magics and commands in it, None if it cannot be told."""
    head, body = _CELL_MAGIC.match(source), source
    if head is not None:
        body = source[head.end() :]
    plain = _MAGIC.sub(lambda found: f"{found[1]}{found[2] or ''}__magic__({found[3]!r})", body)
    try:
        code = ast.dump(ast.parse(plain))
        quiet = ";" if ";" in plain and _ends_quietly(plain) else ""
    except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError):
        return None
    return f"{head[0].strip() if head is not None else ''}\n{code}{quiet}"


def _ends_quietly(source: str) -> bool:
    """Tell whether the last thing in the code, comments apart, is a semicolon."""
    kept = [
        token
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in _LAYOUT
    ]
    return bool(kept) and kept[-1].string == ";"
