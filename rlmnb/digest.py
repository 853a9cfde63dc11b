"""Canonical hashes: tagged with their algorithm, equal for equal values, made of whole input."""

import os
import time

from rlmnb.ids import CellId, Digest, spread_id
from rlmnb.jsontext import compact, portable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

# Loading OpenSSL costs a hook three milliseconds; the interpreter's own SHA-256 gives the same
# digest and is fast enough below this many bytes.
_SMALL = 1 << 18
_CHUNK = 1 << 20
# A clock tick can hide a second write: a time of change younger than this proves nothing yet.
_TICK_NS = 100_000_000

MISSING = Digest("missing")
"""The digest of a file that is not there: a value of its own, equal only to itself."""

UNREADABLE = Digest("unreadable")
"""The digest of what cannot be read as a file: a directory, a pipe, no permission."""

REST = "|"
"""Between the digest of variables that shared objects, and the names of those that are left."""


def _small_sha256() -> "Any":
    try:
        from _sha2 import sha256  # type: ignore[import-not-found]  # Python 3.12 and later
    except ImportError:
        try:
            from _sha256 import sha256  # type: ignore[import-not-found]  # Python 3.11
        except ImportError:
            from hashlib import sha256
    return sha256


_sha256_of_small = _small_sha256()


def of_bytes(data: "bytes | memoryview") -> Digest:
    """Hash bytes."""
    if len(data) <= _SMALL:
        return Digest("sha256:" + _sha256_of_small(data).hexdigest())
    import hashlib

    return Digest("sha256:" + hashlib.sha256(data).hexdigest())


def of_text(text: str) -> Digest:
    """Hash text as UTF-8; lone surrogates count as their escapes."""
    return of_bytes(text.encode("utf-8", "backslashreplace"))


def of_rest(digest: str, names: "Iterable[str]") -> Digest:
    """Name what is left of variables that shared objects, when only these are what they were.

    It is named by what is left, so that it counts for nothing in which order the others went.
    """
    return Digest(f"{digest.partition(REST)[0]}{REST}{','.join(names)}")


def of_value(value: "Any") -> Digest:
    """Hash a JSON value; key order does not count, nor whole floats, which JupyterLab rewrites."""
    return of_text(compact(portable(value)))


def is_digest(value: object) -> bool:
    """Tell whether `value` is a SHA-256 digest as this module writes it."""
    return (
        isinstance(value, str)
        and len(value) == 71
        and value.startswith("sha256:")
        and set(value[7:]) <= set("0123456789abcdef")
    )


def of_file(path: str) -> "dict[str, Any]":
    """Describe the file at `path` as records keep it: hash, size, and the time it was changed.

    Whatever stands at the path is described; nothing here raises for a missing or odd file, and a
    pipe is never opened, because opening one can block for ever.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        return {"hash": MISSING, "size_bytes": None, "mtime_ns": None}
    except (OSError, ValueError):
        return {"hash": UNREADABLE, "size_bytes": None, "mtime_ns": None}
    try:
        status = os.fstat(descriptor)
        if (status.st_mode & 0o170000) != 0o100000:
            return {"hash": UNREADABLE, "size_bytes": None, "mtime_ns": None}
        hasher = _sha256_of_small()
        if status.st_size > _SMALL:
            import hashlib

            hasher = hashlib.sha256()
        while chunk := os.read(descriptor, _CHUNK):
            hasher.update(chunk)
        settled = time.time_ns() - status.st_mtime_ns > _TICK_NS
        return {
            "hash": Digest("sha256:" + hasher.hexdigest()),
            "size_bytes": status.st_size,
            # Nanoseconds since 1970 are past what JavaScript can count, so they travel as text.
            "mtime_ns": str(status.st_mtime_ns) if settled else None,
        }
    except OSError:
        return {"hash": UNREADABLE, "size_bytes": None, "mtime_ns": None}
    finally:
        os.close(descriptor)


def file_changed(path: str, recorded: "Mapping[str, Any]") -> "Digest | None":
    """Return today's digest if the file is no longer what was recorded, else None.

    An equal size and time of change count as unchanged; anything else is hashed.
    """
    try:
        status = os.stat(path)
        same = str(status.st_mtime_ns) == recorded.get("mtime_ns")
        if same and status.st_size == recorded.get("size_bytes"):
            return None
    except (OSError, ValueError):
        pass
    now = Digest(of_file(path)["hash"])
    return None if now == recorded.get("hash") else now


def source_hash(source: str) -> Digest:
    """Hash a cell's source."""
    return of_text(source)


def output_hash(outputs: "Any") -> Digest:
    """Hash a cell's outputs, the same whether text is one string or a list of lines.

    Execution counts are left out: they number the runs of a kernel and say nothing of the result.
    """
    return of_value([_joined(output) for output in outputs])


def _joined(output: "Mapping[str, Any]") -> "dict[str, Any]":
    joined: dict[str, Any] = {}
    for key, value in output.items():
        if key == "execution_count":
            continue
        if key == "data" and isinstance(value, dict):
            joined[key] = {
                mime: value_of_lines(item) if not mime.endswith("json") else item
                for mime, item in value.items()
            }
        elif key == "text":
            joined[key] = value_of_lines(value)
        else:
            joined[key] = value
    return joined


def value_of_lines(value: "Any") -> "Any":
    """Join a list of lines, which is how nbformat writes a long text; leave anything else."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "".join(value)
    return value


def context_hash(record: "Mapping[str, Any]") -> Digest:
    """Hash everything the record says went into the cell: source, arguments, files, cells."""
    given = record.get("input") or {}
    return of_value(
        {
            "args": given.get("args"),
            "context_snapshot": given.get("context_snapshot"),
            "dependencies": sorted(edge["cell_id"] for edge in record.get("dependencies") or ()),
            "files_read": {
                path: entry.get("hash") for path, entry in (record.get("files_read") or {}).items()
            },
            "operation": given.get("operation"),
            "source": record.get("source_hash"),
        }
    )


def derived_id(*parts: str) -> CellId:
    """Make an id for a cell that has none of its own, the same at every read."""
    return spread_id(of_value(list(parts)))


def frame_id(parent_id: "str | None", source: str, context: Digest) -> str:
    """Name a frame: sixteen hex digits over its parent, its whole code and its context."""
    return of_value({"context": context, "parent": parent_id, "source": source})[7:23]
