"""Claude Code's own record of a session: where it is, and reading on from where one stopped.

A hook is told the path and that is taken; the rule here is for when nobody said. A transcript
grows while it is read, its last line may be half written, and it may be cut down or replaced:
a bookmark says up to which byte it was taken in and what stood there.
"""

import os

from rlmnb import digest
from rlmnb.files import open_regular, read_at
from rlmnb.ids import check_session_id
from rlmnb.jsontext import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, Self

    # `offset` bytes were taken in; `hash` is of the last of them, to know the place again.
    Bookmark = dict[str, Any]

_CHUNK = 1 << 20
_MARK = 1024
# Claude Code cuts what is longer than this and appends a hash of the path; such a path is told by
# hooks and cannot be derived.
_LONGEST_NAME = 200
# One record can hold a file that was read or an image, never this much.
_LONGEST_LINE = 64 * 1024 * 1024


def default_path(
    session_id: str, cwd: str, environ: "Mapping[str, str] | None" = None
) -> "str | None":
    """Return where Claude Code keeps the transcript of a session, None where no rule tells."""
    environ = os.environ if environ is None else environ
    home = environ.get("CLAUDE_CONFIG_DIR") or os.path.join("~", ".claude")
    name = "".join(
        letter if letter.isascii() and letter.isalnum() else "-" for letter in os.path.abspath(cwd)
    )
    if len(name) > _LONGEST_NAME:
        return None
    file = f"{check_session_id(session_id)}.jsonl"
    return os.path.join(os.path.expanduser(home), "projects", name, file)


def path_of(session_id: str, cwd: str, told: "str | None" = None) -> "str | None":
    """Return the transcript's path: the one that was told, else the rule's if it is there."""
    if told:
        return told
    path = default_path(session_id, cwd)
    return path if path is not None and os.path.isfile(path) else None


class Reader:
    """Reads a transcript on from a bookmark, a line at a time, never more than it needs."""

    def __init__(self, path: str, bookmark: "Bookmark | None" = None) -> None:
        self.path = path
        self.skipped = 0
        self.restarted = False
        self._offset = 0
        self._descriptor = open_regular(path)
        if bookmark is not None:
            self._continue(bookmark)

    def _continue(self, bookmark: "Bookmark") -> None:
        offset = bookmark.get("offset")
        seen = bookmark.get("hash")
        if type(offset) is int and offset >= 0 and seen and self._mark(offset) == seen:
            self._offset = offset
        else:
            # Another file than was read before: counting from its beginning loses nothing,
            # because what is taken from a transcript is known by its uuid and counted once.
            self.restarted = True

    def _mark(self, offset: int) -> "str | None":
        if offset > os.fstat(self._descriptor).st_size:
            return None
        start = max(0, offset - _MARK)
        return digest.of_bytes(read_at(self._descriptor, start, offset - start))

    @property
    def offset(self) -> int:
        """Up to which byte records were read."""
        return self._offset

    @property
    def bookmark(self) -> "Bookmark":
        """Where the next reader goes on."""
        return self.bookmark_at(self._offset)

    def bookmark_at(self, offset: int) -> "Bookmark":
        """Return the bookmark of a place that was passed."""
        return {"offset": offset, "hash": self._mark(offset)}

    def __iter__(self) -> "Iterator[dict[str, Any]]":
        """Yield each finished record. Lines that are none are counted and passed over.

        A last line without its end is still being written, and left for the next reader.
        """
        rest = b""
        while chunk := read_at(self._descriptor, self._offset + len(rest), _CHUNK):
            rest += chunk
            if len(rest) > _LONGEST_LINE and b"\n" not in chunk:
                self._offset += len(rest)
                rest = b""
                continue
            *lines, rest = rest.split(b"\n")
            for line in lines:
                self._offset += len(line) + 1
                record = _parsed(line)
                if record is not None:
                    yield record
                elif line.strip():
                    self.skipped += 1

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


def _parsed(line: bytes) -> "dict[str, Any] | None":
    if not line.startswith(b"{"):
        return None
    try:
        record = loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None
