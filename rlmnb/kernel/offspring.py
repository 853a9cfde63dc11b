"""What processes that a cell forks off do to files: workers of a pool, `os.fork`.

They have a copy of all that listens, and nobody to ask it. So they write what they hear into a file
that they share with the kernel, which takes it in before it goes by what it knows.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from typing import Any

from rlmnb.kernel.overheard import is_for_a_terminal

_BYTES = 8


class Offspring:
    """Takes part in each fork, on both sides."""

    def __init__(self, unheard: Callable[[], AbstractContextManager[None]]) -> None:
        self._unheard = unheard
        self._file: int | None = None
        self._taken = 0
        # Which cell runs, for all to see: a worker may outlive the one that made it.
        self._cell: mmap.mmap | None = None
        self._number = 0
        # The one that is forked off now goes on in Python.
        self._known = False
        # This process is no kernel, but was forked off one.
        self.is_one = False
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self._prepare, after_in_child=self._begin)

    def _prepare(self) -> None:
        self._known = not is_for_a_terminal(sys._getframe(1))
        if self._file is None and self._known:
            with suppress(OSError), self._unheard():
                handle, path = tempfile.mkstemp(prefix="rlmnb-")
                self._file = os.open(path, os.O_RDWR | os.O_APPEND)
                os.close(handle)
                os.unlink(path)
                self._cell = mmap.mmap(-1, _BYTES)
                self._tell_number()

    def _begin(self) -> None:
        self.is_one = self._known and self._file is not None

    def _tell_number(self) -> None:
        if self._cell is not None:
            self._cell[:] = self._number.to_bytes(_BYTES, "little")

    # in the kernel

    def next_cell(self) -> None:
        """Let those that are still there know that another cell begins."""
        self._number += 1
        self._tell_number()

    def told(self) -> Iterator[dict[str, Any]]:
        """Yield what they have told since, in order."""
        if self._file is None or self.is_one:
            return
        with suppress(OSError, ValueError):
            size = os.fstat(self._file).st_size
            if size > self._taken:
                data = os.pread(self._file, size - self._taken, self._taken)
                whole = data[: data.rfind(b"\n") + 1]
                self._taken += len(whole)
                yield from map(json.loads, whole.splitlines())

    # in a process that was forked off

    def is_another_cell(self) -> bool:
        """Tell whether a cell has begun that this process has not heard of."""
        if self._cell is None:
            return False
        now = int.from_bytes(self._cell[:], "little")
        before, self._number = self._number, now
        return now != before

    def tell(self, heard: dict[str, Any]) -> None:
        """Tell the kernel something."""
        if self._file is not None:
            with suppress(OSError, TypeError, ValueError):
                os.write(self._file, json.dumps(heard).encode() + b"\n")
