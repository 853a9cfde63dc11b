"""Answers that were paid for and are not in the notebook yet, because their cell still runs.

Should the kernel end before the cell does, the cell's next run finds them here.
"""

from __future__ import annotations

import contextlib
import json
import os

from rlmnb.files import make_directory, open_regular, read_bytes, remove, write_all
from rlmnb.format.keptcalls import is_call
from rlmnb.ids import is_nbformat_id
from rlmnb.models.keeping import Call
from rlmnb.store.layout import notebook_place


class Pending:
    """The calls that one running cell has made so far."""

    def __init__(self, notebook: str | None, cell_id: str) -> None:
        self._path = None
        if notebook and is_nbformat_id(cell_id):
            directory = os.path.join(notebook_place(notebook).directory, "calls")
            self._path = os.path.join(directory, f"{cell_id}.jsonl")

    def add(self, call: Call) -> None:
        """Keep a call; a disk that will not take it is no reason to lose the answer."""
        if self._path is None:
            return
        with contextlib.suppress(OSError):
            make_directory(os.path.dirname(self._path))
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            descriptor = open_regular(self._path, flags)
            try:
                write_all(descriptor, json.dumps(call).encode() + b"\n")
            finally:
                os.close(descriptor)

    def calls(self) -> list[Call]:
        """Return what a run that came to no end has left."""
        if self._path is None:
            return []
        try:
            lines = read_bytes(self._path).splitlines()
        except OSError:
            return []
        found = []
        for line in lines:
            with contextlib.suppress(ValueError):  # the last one may be cut short
                call = json.loads(line)
                if is_call(call):
                    found.append(call)
        return found

    def clear(self) -> None:
        """Forget them: the cell has come to its end, and its record has all of them."""
        if self._path is not None and os.path.lexists(self._path):
            with contextlib.suppress(OSError):
                remove(self._path)
