"""Read a notebook that others rewrite, and put a new version in its place without losing theirs.

JupyterLab saves by truncating the file and writing it again, so for up to a third of a second a
reader finds an empty or short file: reading is tried again. Writing goes to a new file that is
renamed over the old one, and the old one is watched across that moment.
"""

import os
import time

from rlmnb.errors import NotebookError
from rlmnb.files import (
    Replacement,
    copy_range,
    open_regular,
    polls,
    read_all,
    read_at,
    write_atomic,
)
from rlmnb.format.nbjson import notebook_bytes, tail_text
from rlmnb.jsontext import loads, scan_value, to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any, Self

_HEAD = b'{\n "cells": ['
_EMPTY = _HEAD + b"],\n"
_END_OF_CELLS = b'\n ],\n "metadata": {'
_WINDOW = 1 << 15
# A save in place takes JupyterLab a third of a second for a few megabytes.
SAVE_PATIENCE = 2.0
_SAVE_TAKES = 5.0
_LOST_SAVE_PATIENCE = 15.0
_LIMIT = 1 << 52


class Tail:
    """The end of a canonical notebook: where the cells stop, and all that follows them."""

    __slots__ = ("cells_end", "empty", "metadata", "minor")

    def __init__(self, cells_end: int, empty: bool, metadata: "dict[str, Any]", minor: int) -> None:
        self.cells_end = cells_end
        self.empty = empty
        self.metadata = metadata
        self.minor = minor

    @property
    def state(self) -> "dict[str, Any] | None":
        """The session's state, if the notebook has one."""
        state = self.metadata.get("rlmnb")
        return state if isinstance(state, dict) else None

    @property
    def appended(self) -> int:
        """The sequence number this notebook has taken in, -1 if it does not say."""
        return appended_of(self.metadata)


def appended_of(metadata: "dict[str, Any]") -> int:
    """Return the sequence number in a notebook's metadata, -1 if there is none to trust."""
    state = metadata.get("rlmnb")
    number = state.get("appended") if isinstance(state, dict) else None
    return number if type(number) is int and 0 <= number < _LIMIT else -1


class OpenNotebook:
    """One version of the notebook, held open so that a later change to it can be seen."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.descriptor = -1

    def __enter__(self) -> "Self":
        self.descriptor = open_regular(self.path)
        self.status = os.fstat(self.descriptor)
        self._first = _version(self.status)
        return self

    def __exit__(
        self,
        kind: "type[BaseException] | None",
        error: "BaseException | None",
        trace: "TracebackType | None",
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let the file go."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def age(self) -> float:
        """Return the seconds since the file was last written."""
        return time.time() - os.fstat(self.descriptor).st_mtime

    def in_place(self) -> bool:
        """Tell whether the path still leads to exactly what was opened."""
        try:
            return _version(os.stat(self.path, follow_symlinks=False)) == self._first
        except FileNotFoundError:
            return False

    def written_since(self) -> bool:
        """Tell whether somebody wrote into this very file after it was opened."""
        return _version(os.fstat(self.descriptor)) != self._first

    def tail(self) -> "Tail | None":
        """Return the end of the notebook, or None where it is not in canonical form."""
        return _find_tail(
            lambda start, length: read_at(self.descriptor, start, length), self.status.st_size
        )

    def read(self) -> bytes:
        """Return all bytes."""
        return read_all(self.descriptor)


def _version(status: os.stat_result) -> "tuple[int, int, int]":
    return status.st_ino, status.st_size, status.st_mtime_ns


def tail_of(data: bytes) -> "Tail | None":
    """Return the end of a notebook that has been read whole."""
    return _find_tail(lambda start, length: data[start : start + length], len(data))


def _find_tail(read: "Callable[[int, int], bytes]", size: int) -> "Tail | None":
    if read(0, len(_HEAD)) != _HEAD:
        return None
    if read(0, len(_EMPTY)) == _EMPTY:
        return _parsed_tail(read(len(_EMPTY), size - len(_EMPTY)), len(_HEAD), empty=True)
    window = _WINDOW
    while True:
        start = max(0, size - window)
        block = read(start, size - start)
        at = block.rfind(_END_OF_CELLS)
        last = block.rfind(b"\n  {\n", 0, at) if at >= 0 else -1
        if last >= 0:
            if not _is_last_cell(block, last, at):
                return None
            return _parsed_tail(block[at + len(b"\n ],\n") :], start + at, empty=False)
        if start == 0:
            return None
        window *= 4


def _is_last_cell(block: bytes, start: int, end: int) -> bool:
    """Tell whether this is a cell, and the list that ends here is the one it stands in."""
    first_key = block[start + len(b"\n  {\n") :].startswith(
        (b'   "attachments": ', b'   "cell_type": ')
    )
    other_list = block.find(b'\n "', start, end) >= 0
    return first_key and block[:end].endswith(b"\n  }") and not other_list


def _parsed_tail(rest: bytes, cells_end: int, *, empty: bool) -> "Tail | None":
    try:
        tail = loads(b"{" + rest)
    except (ValueError, RecursionError):
        return None
    if not isinstance(tail, dict) or set(tail) != {"metadata", "nbformat", "nbformat_minor"}:
        return None
    minor = tail["nbformat_minor"]
    known = tail["nbformat"] == 4 and type(minor) is int and minor >= 5
    if not known or not isinstance(tail["metadata"], dict):
        return None
    return Tail(cells_end, empty, tail["metadata"], minor)


def texts_of(data: bytes, tail: Tail, after: int = 0) -> "list[tuple[dict[str, Any], str]] | None":
    """Return the cells of a canonical notebook, each with its own text; None if it is not quite.

    Only those that follow the byte `after`, where one is given: there another cell ends.
    """
    if tail.empty:
        return []
    found: list[tuple[dict[str, Any], str]] = []
    before = ",\n  {" if after else "\n  {"
    try:
        text = data[after or len(_HEAD) : tail.cells_end].decode("utf-8")
        at = 0
        while at < len(text):
            if not text.startswith(before, at):
                return None
            start = at + len(before) - 1
            cell, at = scan_value(text, start)
            found.append((cell, text[start:at]))
            before = ",\n  {"
    except (ValueError, RecursionError):
        return None
    return found


def peek_tail(path: str) -> "Tail | None":
    """Return the end of the notebook as it is now; None if missing, half saved or not canonical."""
    try:
        with OpenNotebook(path) as opened:
            return opened.tail()
    except OSError:
        return None


def _quoted(path: str) -> str:
    import shlex  # only where something is wrong: a hook reads notebooks, too

    return shlex.quote(path)


def _repair(path: str) -> str:
    return f"run: rlmnb doctor --fix {_quoted(path)}"


def parse(data: bytes, path: str) -> "dict[str, Any]":
    """Return a notebook as a dict, its cells a list of dicts; refuse what is not nbformat 4."""
    if not data.strip():
        raise NotebookError(f"{path}: is empty, wanted a notebook", hint=_repair(path))
    try:
        notebook = loads(data)
    except UnicodeDecodeError as error:
        message = f"{path}: is not UTF-8: byte {error.start} is 0x{data[error.start]:02x}"
        raise NotebookError(message, hint=_repair(path)) from None
    except RecursionError:
        raise NotebookError(
            f"{path}: is nested too deeply to be a notebook", hint=_repair(path)
        ) from None
    except ValueError as error:
        message = f"{path}: is not JSON, perhaps cut short: {error} ({len(data)} bytes)"
        raise NotebookError(message, hint=_repair(path)) from None
    return checked(notebook, path)


def checked(notebook: "Any", path: str) -> "dict[str, Any]":
    """Return `notebook` if it has the shape of nbformat 4, whatever its details."""
    if not isinstance(notebook, dict) or "nbformat" not in notebook:
        raise NotebookError(f"{path}: is JSON but no notebook: it has no nbformat")
    major = notebook["nbformat"]
    if major != 4:
        raise NotebookError(
            f"{path}: is nbformat {major!r}, rlmnb reads nbformat 4",
            hint=f"run: jupyter nbconvert --to notebook --nbformat 4 --inplace {_quoted(path)}",
        )
    cells = notebook.get("cells")
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise NotebookError(f"{path}: its cells are not a list of objects")
    if not isinstance(notebook.setdefault("metadata", {}), dict):
        raise NotebookError(f"{path}: its metadata is not an object")
    for cell in cells:
        mend(cell)
    return notebook


def mend(cell: "dict[str, Any]") -> None:
    """Give a cell the shape that every reader relies on, where a hand has broken it."""
    if not isinstance(cell.get("metadata"), dict):
        cell["metadata"] = {}
    if not isinstance(cell.get("id", ""), str):
        del cell["id"]
    cell["source"] = _of_type(cell.get("source"), str)
    if cell.get("cell_type") == "code" or "outputs" in cell:
        cell["outputs"] = _of_type(cell.get("outputs"), dict) or []
    if "attachments" in cell and not isinstance(cell["attachments"], dict):
        del cell["attachments"]


def _of_type(found: "Any", kind: type) -> "Any":
    """Return what can be read of a text or list that is to have nothing but these in it."""
    if isinstance(found, list):
        return [each for each in found if isinstance(each, kind)]
    return found if kind is str and isinstance(found, str) else ""


def read_whole(path: str, patience: float = SAVE_PATIENCE) -> "dict[str, Any]":
    """Read and parse a notebook, again while another program is in the middle of saving it."""
    return read_version(path, patience)[2]


def read_version(
    path: str, patience: float = SAVE_PATIENCE
) -> "tuple[bytes, os.stat_result, dict[str, Any], list[str] | None]":
    """Return the bytes of a notebook, what the system said of that version, and the notebook.

    And the text of each of its cells, where it is in canonical form.
    """
    for left in polls(patience):
        with OpenNotebook(path) as opened:
            data = opened.read()
            fresh = opened.age() < _SAVE_TAKES
        try:
            return data, opened.status, *_parsed_by_cell(data, path)
        except NotebookError:
            # A file that nobody has touched for a while is not being saved, it is broken.
            if left <= 0 or not fresh:
                raise
    raise AssertionError("polls ended before its time was over")


def _parsed_by_cell(data: bytes, path: str) -> "tuple[dict[str, Any], list[str] | None]":
    tail = tail_of(data)
    found = texts_of(data, tail) if tail is not None else None
    if tail is None or found is None:
        return parse(data, path), None
    whole = {
        "cells": [cell for cell, _ in found],
        "metadata": tail.metadata,
        "nbformat": 4,
        "nbformat_minor": tail.minor,
    }
    return checked(whole, path), [text for _, text in found]


def splice(
    opened: OpenNotebook, tail: Tail, cell_texts: "list[str]", metadata: "dict[str, Any]"
) -> bool:
    """Add cells at the end without parsing what is there; False if the file has changed meanwhile.

    Everything before the end of the cells is copied byte for byte.
    """
    parts = []
    if cell_texts:
        parts.append(("\n" if tail.empty else ",\n") + ",\n".join(cell_texts))
    parts.append("],\n" if tail.empty and not cell_texts else "\n ],\n")
    parts.append(tail_text(metadata, tail.minor))

    def write(new: Replacement) -> None:
        copy_range(opened.descriptor, new.descriptor, tail.cells_end)
        new.write(to_bytes("".join(parts)))

    return _replace(opened, write)


def rewrite(opened: OpenNotebook, notebook: "dict[str, Any]") -> bool:
    """Put a whole new version in place; False if the file has changed meanwhile."""
    data = notebook_bytes(notebook)
    return _replace(opened, lambda new: new.write(data))


def rewrite_cells(
    opened: OpenNotebook, cell_texts: "list[str]", metadata: "dict[str, Any]", minor: int
) -> bool:
    """Put these cells in place, at least one; False if the file has changed meanwhile."""
    text = ",\n".join(cell_texts) + "\n ],\n" + tail_text(metadata, minor)
    data = _HEAD + b"\n" + to_bytes(text)
    return _replace(opened, lambda new: new.write(data))


def write_new(path: str, notebook: "dict[str, Any]") -> bool:
    """Write a notebook where none is; False if somebody else has put one there meanwhile."""
    with Replacement(path) as new:
        new.write(notebook_bytes(notebook))
        return new.commit_new()


def _replace(opened: OpenNotebook, write: "Callable[[Replacement], None]") -> bool:
    with Replacement(opened.path) as new:
        write(new)
        new.keep_mode_of(opened.status)
        if os.name == "nt":
            opened.close()  # a file that is open cannot be replaced there
        if not new.commit(opened.in_place):
            return False
    if os.name != "nt" and opened.written_since():
        # Somebody opened the file for saving after our last look and before the rename. What they
        # save goes to the file we have just replaced; put it back, the caller then adds to that.
        _bring_back(opened)
        return False
    return True


def _bring_back(opened: OpenNotebook) -> None:
    for _ in polls(_LOST_SAVE_PATIENCE):
        data = opened.read()
        try:
            parse(data, opened.path)
        except NotebookError:
            continue
        write_atomic(opened.path, data)
        return
