"""The journal: what was appended, one JSON line each, durable before the notebook is touched.

Every line begins `{"seq":N,` with N one more than the line before. A line without its newline was
never acknowledged; it is closed off and passed over, never cut out.
"""

import os

from rlmnb.files import (
    Lock,
    append_durably,
    open_regular,
    read_all,
    read_at,
    read_bytes,
    remove,
    remove_if_empty,
    storage_error,
)
from rlmnb.ids import new_cell_id
from rlmnb.jsontext import compact, loads, to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from rlmnb.store.layout import Place

    Entry = dict[str, Any]

_WINDOW = 1 << 14


def parse_line(line: bytes) -> "Entry | None":
    """Return the entry on this line, or None if it is torn or foreign."""
    if not line.startswith(b"{"):
        return None
    try:
        entry = loads(line)
    except (ValueError, RecursionError):
        return None
    if isinstance(entry, dict) and type(entry.get("seq")) is int and entry["seq"] >= 0:
        return entry
    return None


def _line(seq: int, entry: "Entry") -> bytes:
    body = compact(entry)
    return to_bytes(f'{{"seq":{seq}{"," if entry else ""}{body[1:]}\n')


def line_of(entry: "Entry") -> bytes:
    """Return the line that an entry with its number stands on, without its end."""
    return _line(entry["seq"], {k: v for k, v in entry.items() if k != "seq"})[:-1]


def _lines_from_end(descriptor: int) -> "Iterator[bytes]":
    """Yield the lines of an open journal, the last one first, reading no more than asked."""
    end = os.fstat(descriptor).st_size
    rest = b""
    window = _WINDOW
    while end > 0:
        start = max(0, end - window)
        lines = (read_at(descriptor, start, end - start) + rest).split(b"\n")
        rest = lines[0]
        for line in reversed(lines[1:]):
            if line:
                yield line
        end = start
        window *= 4
    if rest:
        yield rest


def last_seq(path: str) -> int:
    """Return the newest sequence number, -1 if the journal has none."""
    try:
        descriptor = open_regular(path)
    except FileNotFoundError:
        return -1
    try:
        return _last_seq(descriptor)
    finally:
        os.close(descriptor)


def _last_seq(descriptor: int) -> int:
    for line in _lines_from_end(descriptor):
        if (entry := parse_line(line)) is not None:
            return int(entry["seq"])
    return -1


def has_begun(path: str) -> bool:
    """Tell whether the journal has any entry."""
    return last_seq(path) >= 0


def newest_entries(path: str) -> "Iterator[Entry]":
    """Yield the readable entries from the newest back, reading no more than is asked for."""
    try:
        descriptor = open_regular(path)
    except FileNotFoundError:
        return
    try:
        for line in _lines_from_end(descriptor):
            if (entry := parse_line(line)) is not None:
                yield entry
    finally:
        os.close(descriptor)


def entries_after(path: str, seq: int) -> "list[Entry]":
    """Return the entries with a higher sequence number, in order, reading only the end."""
    try:
        descriptor = open_regular(path)
    except FileNotFoundError:
        return []
    found: list[Entry] = []
    try:
        for line in _lines_from_end(descriptor):
            entry = parse_line(line)
            if entry is None:
                continue
            if entry["seq"] <= seq:
                break
            found.append(entry)
    finally:
        os.close(descriptor)
    found.reverse()
    return found


def all_entries(path: str) -> "list[Entry]":
    """Return every readable entry, in order."""
    return entries_after(path, -1)


def damaged_lines(path: str) -> int:
    """Count lines that no longer say anything, a torn last one included."""
    try:
        data = read_bytes(path)
    except FileNotFoundError:
        return 0
    return sum(1 for line in data.split(b"\n") if line and parse_line(line) is None)


def write(
    place: "Place",
    make: "Callable[[int], Entry] | None",
    *,
    floor: "Callable[[], int]",
    first: "Callable[[], Entry]",
    fit: "Callable[[Entry], Entry | None]",
    timeout: float,
) -> int:
    """Write one entry with the next sequence number and return the newest number.

    Entries that had to be spilled go in first; without `make` they are all that is written. `make`
    gets the number, because a cell's id is made from it. `floor` tells the number the notebook
    has already taken in, -1 for none; `first` makes the entry that begins a new session; `fit`
    makes a spilled one short enough for a notebook, or None of it if it has to wait on.
    """
    with Lock(place.journal, timeout=timeout) as lock:
        data = b""
        size = os.fstat(lock.descriptor).st_size
        if size and read_at(lock.descriptor, size - 1, 1) != b"\n":
            data = b"\n"
        # A journal that went back in time must not number below what the notebook has taken in:
        # such an entry would count as old and never reach it.
        seq = max(_last_seq(lock.descriptor), floor())
        if seq < 0:
            seq = 0
            data += _line(seq, first())
        spilled = [
            (path, fitted)
            for path, entry in _waiting(place, everywhere=make is None)
            if (fitted := fit(entry)) is not None
        ]
        for _, entry in spilled:
            if not _holds(lock.descriptor, entry):
                seq += 1
                data += _line(seq, _with_free_id(lock.descriptor, entry, seq))
        if make is not None:
            seq += 1
            data += _line(seq, make(seq))
        try:
            append_durably(lock.descriptor, data)
        except OSError as error:
            raise storage_error(error, "write the journal", place.journal) from error
        for path, _ in spilled:
            remove(path)
    return seq


def begin(
    place: "Place",
    first: "Callable[[], Entry]",
    following: "list[Entry]",
    *,
    start: int,
    timeout: float,
) -> int:
    """Write the first entries of a journal, all or none; a journal that has begun is left alone."""
    with Lock(place.journal, timeout=timeout) as lock:
        seq = _last_seq(lock.descriptor)
        if seq >= 0:
            return seq
        lines = [_line(start, first())]
        lines += [_line(seq, entry) for seq, entry in enumerate(following, start=start + 1)]
        try:
            append_durably(lock.descriptor, b"".join(lines))
        except OSError as error:
            raise storage_error(error, "write the journal", place.journal) from error
    return start + len(following)


def never_began(place: "Place") -> bool:
    """Tell whether a session's directory holds nothing but an empty journal."""
    try:
        left = set(os.listdir(place.directory))
    except OSError:
        return False
    spilled = os.path.isdir(place.spill) and os.listdir(place.spill)
    names = {os.path.basename(path) for path in (place.journal, place.lock, place.spill)}
    if spilled or not left <= names | {f"{os.path.basename(place.journal)}.lock"}:
        return False
    try:
        return os.lstat(place.journal).st_size == 0
    except FileNotFoundError:
        return False


def withdraw(place: "Place", *, timeout: float) -> bool:
    """Remove what a session left that could not begin; False if it has begun by now."""
    with Lock(place.journal, timeout=timeout) as lock:
        if not never_began(place):
            return False
        remove(place.lock)
        remove_if_empty(place.spill)
        lock.close_content()
        remove(place.journal)
    if lock.guard != place.journal:
        remove(lock.guard)
    return remove_if_empty(place.directory)


def _waiting(place: "Place", *, everywhere: bool) -> "list[tuple[str, Entry]]":
    if not everywhere and not os.path.isdir(place.spill):
        return []
    from rlmnb.store import spill

    return spill.waiting(place, everywhere=everywhere)


def _holds(descriptor: int, entry: "Entry") -> bool:
    """Tell whether a spilled entry got in before whoever took it in could remove it."""
    return to_bytes(compact(entry)[1:]) in read_all(descriptor)


def _with_free_id(descriptor: int, entry: "Entry", seq: int) -> "Entry":
    """Give a spilled cell another id if its own was taken meanwhile: both were acknowledged."""
    cell = entry.get("cell")
    if not isinstance(cell, dict):
        return entry
    taken = to_bytes(compact({"id": cell.get("id")})[1:-1]) in read_all(descriptor)
    return {**entry, "cell": {**cell, "id": new_cell_id(seq)}} if taken else entry
