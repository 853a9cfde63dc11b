"""Read files of the earlier tools: never changed, never followed out of their tree, never trusted.

Secrets are taken out as soon as a file is parsed, so that nothing further on has them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from rlmnb import digest
from rlmnb.capture.secrets import redact
from rlmnb.errors import RlmnbError, StorageError
from rlmnb.files import open_regular, read_at, storage_error
from rlmnb.jsontext import loads, portable

# What the earlier tools wrote is a thousand times smaller; anything near this was not theirs.
LARGEST_FILE = 256 * 1024 * 1024
_MARK = b"\xef\xbb\xbf"
_MILLISECONDS = 1e11
_LATEST = 253_402_300_799.0  # the last second of the year 9999


@dataclass
class Problems:
    """What could not be taken in, and why: each names its file."""

    found: list[dict[str, str]] = field(default_factory=list)

    def add(self, path: str, reason: str) -> None:
        """Note that something of a file could not be taken in."""
        self.found.append({"path": path, "reason": reason})


def read_file(path: str) -> bytes:
    """Return the bytes of an old file; a link, a pipe or something huge is refused."""
    try:
        descriptor = open_regular(path)
    except OSError as error:
        raise storage_error(error, "read", path) from error
    try:
        size = os.fstat(descriptor).st_size
        if size > LARGEST_FILE:
            raise StorageError(f"{path}: has {size} bytes, {LARGEST_FILE} is the most that is read")
        return read_at(descriptor, 0, LARGEST_FILE + 1)
    finally:
        os.close(descriptor)


def hash_of(path: str) -> str:
    """Return the digest of an old file, or that it cannot be read."""
    try:
        descriptor = open_regular(path)
    except (OSError, RlmnbError):
        return digest.UNREADABLE
    os.close(descriptor)
    return str(digest.of_file(path)["hash"])


class Tree:
    """The old files below one root, read once each, with what went wrong on the way."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.problems = Problems()
        # The digests of file contents as they were, before secrets were taken out of them.
        self.versions: dict[tuple[str, str], dict[str, Any]] = {}

    def absolute(self, path: str) -> str:
        """Return where an old file is."""
        return os.path.join(self.root, *path.split("/"))

    def value(self, path: str) -> Any:
        """Return what a JSON file says, without its secrets; None if that cannot be known."""
        try:
            raw = _parsed(read_file(self.absolute(path)))
            self._note_versions(path, raw)
            return redact(raw)
        except RlmnbError as error:
            self.problems.add(path, error.message.removeprefix(f"{self.absolute(path)}: "))
        except RecursionError:
            self.problems.add(path, "is nested too deeply")
        return None

    def object(self, path: str) -> dict[str, Any]:
        """Return what a JSON file says if that is an object."""
        found = self.value(path)
        if found is not None and not isinstance(found, dict):
            self.problems.add(path, f"is {_kind(found)}, wanted an object")
        return found if isinstance(found, dict) else {}

    def lines(self, path: str) -> list[dict[str, Any]]:
        """Return the objects that stand on the lines of a file; other lines are told of."""
        try:
            data = read_file(self.absolute(path))
        except RlmnbError as error:
            self.problems.add(path, error.message.removeprefix(f"{self.absolute(path)}: "))
            return []
        found, bad = [], 0
        for line in data.removeprefix(_MARK).splitlines():
            if not line.strip():
                continue
            try:
                value = redact(_parsed(line))
            except (RlmnbError, RecursionError):
                value = None
            if isinstance(value, dict):
                found.append(value)
            else:
                bad += 1
        if bad:
            self.problems.add(path, f"{bad} of {bad + len(found)} lines are not JSON objects")
        return found

    def _note_versions(self, path: str, raw: Any) -> None:
        whole = raw if isinstance(raw, dict) else {}
        tables = [whole.get("files"), whole.get("file_cache")]
        if path.rpartition("/")[2].startswith("files_"):
            tables.append(raw)
        for table in tables:
            for name, content in table.items() if isinstance(table, dict) else ():
                if isinstance(content, str):
                    data = content.encode("utf-8", "surrogatepass")
                    version = {"hash": digest.of_bytes(data), "size_bytes": len(data)}
                    self.versions[name, redact(content)] = version


def _parsed(data: bytes) -> Any:
    try:
        return portable(loads(data.removeprefix(_MARK)))
    except ValueError as error:
        what = "is empty" if not data.strip() else f"is not JSON ({error})"
        raise StorageError(what) from None


def _kind(value: Any) -> str:
    names: Mapping[type, str] = {list: "a list", str: "text", bool: "a boolean"}
    return names.get(type(value), "a number")


def moment(value: Any) -> str | None:
    """Return a time of the earlier tools as records keep it; None if it is none.

    They wrote seconds since 1970, and local times without their zone.
    """
    try:
        if isinstance(value, str):
            then = datetime.fromisoformat(value.strip()).astimezone(UTC)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value / 1000 if value > _MILLISECONDS else value
            if not math.isfinite(seconds) or not 0 <= seconds <= _LATEST:
                return None
            then = datetime.fromtimestamp(seconds, UTC)
        else:
            return None
        if then.year < 1970:
            return None
        return then.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    except (ValueError, OverflowError, OSError):
        return None


def text(value: Any) -> str | None:
    """Return a value if it is text that says something."""
    return value if isinstance(value, str) and value else None


def count(value: Any) -> int | None:
    """Return a value if it is a whole number no less than zero."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def amount(value: Any) -> float | None:
    """Return a value if it is a number no less than zero."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    return value if good else None


def flag(value: Any) -> bool | None:
    """Return a value if it is a truth value."""
    return value if isinstance(value, bool) else None
