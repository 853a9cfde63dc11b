"""What hooks of one session have to know of each other, in a small file beside the notebook.

Everything in it follows from what was recorded: without it, dependencies are not inferred and a
call may be told of twice, but nothing is lost.
"""

import os

from rlmnb.files import read_bytes, write_atomic
from rlmnb.jsontext import compact, loads, to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FILE = "progress.json"
_MOST = {
    "calls": 400,
    "writers": 2000,
    "pending": 200,
    "agents": 200,
    "messages": 400,
    "seen": 200,
    "words": 400,
    "tasks": 200,
}


class Progress:
    """How far the hooks of a session have got."""

    def __init__(self, directory: str) -> None:
        self._path = os.path.join(directory, FILE)
        self._known: dict[str, Any] = {}
        try:
            found = loads(read_bytes(self._path))
        except (OSError, ValueError, RecursionError):
            found = None
        if isinstance(found, dict):
            self._known = {key: _table(value) for key, value in found.items()}

    def table(self, name: str) -> "dict[str, Any]":
        """Return one table: `calls` by tool_use_id, `writers` by path, `agents`, `pending`."""
        found = self._known.get(name)
        if not isinstance(found, dict):
            found = self._known[name] = {}
        return found

    def text(self, name: str) -> "str | None":
        """Return one text that was kept."""
        value = self._known.get(name)
        return value if isinstance(value, str) else None

    def keep(self, name: str, value: "Any") -> None:
        """Keep one value under a name."""
        self._known[name] = value

    def value(self, name: str) -> "Any":
        """Return whatever was kept under a name."""
        return self._known.get(name)

    def save(self) -> None:
        """Write it, without what is too old to matter."""
        # As pairs, because the order tells which are old, and keys are written sorted.
        written = {
            key: [list(pair) for pair in list(value.items())[-_MOST.get(key, 100) :]]
            if isinstance(value, dict)
            else value
            for key, value in self._known.items()
        }
        write_atomic(self._path, to_bytes(compact(written)), wait=False)


def _table(value: "Any") -> "Any":
    if not isinstance(value, list) or set(map(type, value)) - {list} or set(map(len, value)) - {2}:
        return value
    return {str(key): item for key, item in value}
