"""Outputs as a person sees them: text by its lines, pictures by their size, errors by their words.

Tracebacks are left out: they name the kernel's temporary files, which are others at every run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rlmnb import digest
from rlmnb.jsontext import compact, portable

_PLAIN = "text/plain"


@dataclass(frozen=True, slots=True)
class Piece:
    """One part of what a cell shows. `text` is None where it is not for reading."""

    kind: str
    text: str | None
    hash: str
    size: int

    def as_dict(self) -> dict[str, Any]:
        """Return it for a script."""
        return {"kind": self.kind, "text": self.text, "hash": self.hash, "size_bytes": self.size}


def pieces_of(outputs: Sequence[Any]) -> tuple[Piece, ...]:
    """Return the parts of a cell's outputs in order; a stream that came in pieces is one."""
    found: list[Piece] = []
    streamed: list[str] = []
    stream: str | None = None
    for output in outputs:
        if not isinstance(output, dict):
            continue
        name = str(output.get("name", "stdout")) if output.get("output_type") == "stream" else None
        if stream is not None and name != stream:
            found.append(_readable(stream, "".join(streamed)))
            streamed = []
        stream = name
        if name is not None:
            streamed.append(str(digest.value_of_lines(output.get("text", ""))))
        elif output.get("output_type") == "error":
            found.append(_readable("error", f"{output.get('ename')}: {output.get('evalue')}"))
        else:
            found += _bundle(output.get("data"))
    if stream is not None:
        found.append(_readable(stream, "".join(streamed)))
    return tuple(found)


def _bundle(data: object) -> list[Piece]:
    if not isinstance(data, dict):
        return []
    # Plain text comes first: it is what a terminal can show of any result.
    mimes = sorted(data, key=lambda mime: (mime != _PLAIN, mime))
    return [_shown(str(mime), digest.value_of_lines(data[mime])) for mime in mimes]


def _shown(mime: str, value: Any) -> Piece:
    if mime == _PLAIN and isinstance(value, str):
        return _readable(mime, value)
    text = value if isinstance(value, str) else compact(portable(value))
    size = len(text.encode("utf-8", "backslashreplace"))
    if mime.startswith(("image/", "audio/", "video/")) and mime != "image/svg+xml":
        size = size * 3 // 4  # base64
    return Piece(mime, None, digest.of_text(text), size)


def _readable(kind: str, text: str) -> Piece:
    return Piece(kind, text, digest.of_text(text), len(text.encode("utf-8", "backslashreplace")))
