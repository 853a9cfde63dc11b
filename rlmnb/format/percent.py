"""Cells as plain text in the percent format, and back: sources and ids, no outputs, no records.

Nothing of a source is lost on the way. What Python would not take (magics, shell lines) and what
would look like the beginning of another cell is commented, so that it can be told apart again:
`# ` before a magic, `#~ ` before anything else. Newlines at the end of a source are counted in its
marker, because editors and formatters treat blank lines between cells as their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from rlmnb.errors import InvalidCellError
from rlmnb.ids import is_nbformat_id

_MARKER = re.compile(r"#\s*%%(.*)", re.DOTALL)
_LIKE_MARKER = re.compile(r"\s*(?:#\s*)*%%")
_MAGIC = re.compile(
    r"""(\s*)((?:\#\ )*
    (?:%[A-Za-z_]                             # a line magic
    |!                                        # a shell line
    |\?+[A-Za-z_%]                            # help before a name
    |[A-Za-z_][\w.]*\?\??\s*\Z                # help behind a name
    |[A-Za-z_][\w.]*\s*=\s*[!%]               # what a magic returns
    ).*)""",
    re.VERBOSE | re.DOTALL,
)
_KIND = re.compile(r"\s*\[(markdown|md|raw)\]")
_OPTION = re.compile(r'\b(id|newlines)=(?:"([^"]*)"|(\S*))')
_MOST_NEWLINES = 1000
_HEADER = "# ---"


@dataclass(frozen=True, slots=True)
class Block:
    """One cell of the text: its id, None if it has none yet, its kind and its source."""

    cell_id: str | None
    kind: str
    source: str


def to_text(blocks: Iterable[Block]) -> str:
    """Write cells as text that ends with one newline."""
    return "\n\n".join(_block_text(block) for block in blocks) + "\n"


def _block_text(block: Block) -> str:
    stripped = block.source.rstrip("\n")
    newlines = len(block.source) - len(stripped)
    many = newlines > _MOST_NEWLINES
    if many:
        stripped, newlines = block.source, 0
    marker = "# %%"
    if block.kind != "code":
        marker += f" [{block.kind}]"
    if block.cell_id is not None:
        marker += f' id="{block.cell_id}"'
    if newlines:
        marker += f" newlines={newlines}"
    if not stripped:
        return marker
    lines = stripped.split("\n")
    if block.kind == "code":
        # What follows a cell magic is not Python, all of it.
        whole = many or lines[0].startswith("%%")
        written = [_escaped(line) if whole else _code_line(line) for line in lines]
    else:
        written = [_prose_line(line) for line in lines]
    return "\n".join((marker, *written))


def _escaped(line: str) -> str:
    return f"#~ {line}" if line else "#~"


def _code_line(line: str) -> str:
    if line.startswith("#~") or _LIKE_MARKER.match(line):
        return _escaped(line)
    magic = _MAGIC.fullmatch(line)
    return f"{magic[1]}# {magic[2]}" if magic else line


def _prose_line(line: str) -> str:
    if not line:
        return "#"
    return _escaped(line) if _LIKE_MARKER.match(line) else f"# {line}"


def from_text(text: str, where: str) -> list[Block]:
    """Read cells from text; refuse what is not in this format, naming the line."""
    lines = _lines(text)
    start = _after_header(lines)
    blocks: list[Block] = []
    seen: dict[str, int] = {}
    marker: tuple[str | None, str, int] | None = None
    body: list[str] = []
    for number, line in enumerate(lines[start:], start + 1):
        found = _MARKER.fullmatch(line)
        if found is None:
            if marker is None and line.strip():
                raise InvalidCellError(
                    f"{where}, line {number}: wanted a line `# %%`, which begins a cell, "
                    f"found {line[:40]!r}",
                    hint="is it the right file? name another one: rlmnb pair --text FILE.py",
                )
            body.append(line)
            continue
        if marker is not None:
            blocks.append(_block(marker, body))
        marker, body = _read_marker(found[1], f"{where}, line {number}"), []
        if (cell_id := marker[0]) is not None:
            if cell_id in seen:
                raise InvalidCellError(
                    f"{where}, line {number}: id {cell_id} is that of the cell in line "
                    f"{seen[cell_id]}",
                    hint=f"remove the id from the marker of the copy, in line {number}",
                )
            seen[cell_id] = number
    if marker is not None:
        blocks.append(_block(marker, body))
    return blocks


def _lines(text: str) -> list[str]:
    """Split text at newlines only; a file that was turned to CRLF as a whole is turned back."""
    lines = text.removeprefix("\ufeff").split("\n")
    if len(lines) > 1 and all(line.endswith("\r") for line in lines[:-1]):
        lines = [line.removesuffix("\r") for line in lines]
    return lines


def _after_header(lines: list[str]) -> int:
    """Pass over the header that some editors' extensions put first."""
    if lines[0] != _HEADER:
        return 0
    for number, line in enumerate(lines[1:], 1):
        if line == _HEADER:
            return number + 1
        if not line.startswith("#"):
            break
    return 0


def _read_marker(rest: str, where: str) -> tuple[str | None, str, int]:
    kind = _KIND.match(rest)
    options = {
        each[1]: each[2] if each[2] is not None else each[3] for each in _OPTION.finditer(rest)
    }
    cell_id = options.get("id")
    if cell_id is not None and not is_nbformat_id(cell_id):
        raise InvalidCellError(
            f"{where}: id {cell_id[:80]!r} is not valid: wanted 1 to 64 letters, digits, '-' "
            "and '_'",
            hint="without an id, the cell is taken for a new one and given one",
        )
    newlines = options.get("newlines", "0")
    if not (newlines.isascii() and newlines.isdigit() and int(newlines[:9]) <= _MOST_NEWLINES):
        raise InvalidCellError(
            f"{where}: newlines is {newlines[:20]!r}, wanted a number up to {_MOST_NEWLINES}"
        )
    named = {"markdown": "markdown", "md": "markdown", "raw": "raw"}
    return cell_id, named[kind[1]] if kind else "code", int(newlines)


def _block(marker: tuple[str | None, str, int], body: list[str]) -> Block:
    cell_id, kind, newlines = marker
    stripped = "\n".join(body).rstrip("\n")
    if not stripped:
        return Block(cell_id, kind, "\n" * newlines)
    read = _read_code if kind == "code" else _read_prose
    source = "\n".join(read(line) for line in stripped.split("\n"))
    return Block(cell_id, kind, source + "\n" * newlines)


def _unescaped(line: str) -> str | None:
    if line == "#~":
        return ""
    return line[3:] if line.startswith("#~ ") else None


def _read_code(line: str) -> str:
    plain = _unescaped(line)
    if plain is not None:
        return plain
    magic = _MAGIC.fullmatch(line)
    if magic and magic[2].startswith("# "):
        return magic[1] + magic[2][2:]
    return line


def _read_prose(line: str) -> str:
    plain = _unescaped(line)
    if plain is not None:
        return plain
    if line == "#":
        return ""
    return line.removeprefix("# ")
