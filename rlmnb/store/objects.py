"""Objects: bytes under their digest, shared by all sessions, checked whenever they are read.

Large ones are a file each. Small ones share a SQLite file, because ten thousand small files take
eight times as long to write as ten thousand rows of one transaction. The rollback journal is used
and not WAL, so that no SQLite version's WAL bug can reach what cannot be rebuilt.
"""

import os
import time

from rlmnb import digest
from rlmnb.errors import ObjectError, StorageError
from rlmnb.files import (
    make_directory,
    open_regular,
    read_bytes,
    refuse_link,
    remove,
    rename,
    write_atomic,
)
from rlmnb.ids import Digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator
    from typing import Any

# Below this a row is cheaper than a file of its own, in time and in blocks.
SMALL = 16 * 1024
_BUSY_SECONDS = 30.0
# Bytes that are there already are in use again, and damaged ones are mended.
_PUT = """
INSERT INTO object VALUES (?, ?, ?)
ON CONFLICT (digest) DO UPDATE SET bytes = excluded.bytes, stored_at = excluded.stored_at
"""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS object (
    digest TEXT PRIMARY KEY,
    bytes BLOB NOT NULL,
    stored_at REAL NOT NULL
) WITHOUT ROWID
"""


class Objects:
    """The object store under one directory."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._database = os.path.join(directory, "small.db")

    def put(self, data: bytes) -> Digest:
        """Keep these bytes and return their digest; bytes that are there already cost a look."""
        if len(data) < SMALL:
            return self.put_many([data])[0]
        name = digest.of_bytes(data)
        path = self._path(name)
        if self._same(path, data):
            os.utime(path)  # in use again, so not to be pruned for a while
        else:
            self._prepare(os.path.dirname(path))
            write_atomic(path, data)
        return name

    def put_many(self, items: "Iterable[bytes]") -> "list[Digest]":
        """Keep many small things in one transaction; large ones go to files of their own."""
        names: list[Digest] = []
        rows = []
        moment = time.time()
        for data in items:
            if len(data) >= SMALL:
                names.append(self.put(data))
                continue
            names.append(digest.of_bytes(data))
            rows.append((names[-1], data, moment))
        if rows:
            with self._open() as database:
                database.executemany(_PUT, rows)
        return names

    def get(self, name: str) -> bytes:
        """Return the bytes of this digest, having checked that they are."""
        if not digest.is_digest(name):
            raise ObjectError(f"{name!r} is not the digest of an object")
        try:
            data = read_bytes(self._path(name))
        except FileNotFoundError:
            data = self._row(name)
        if digest.of_bytes(data) != name:
            raise ObjectError(
                f"object {name} holds other bytes than its digest says ({len(data)} of them)",
                hint="what made it can make it again; to list such objects run: rlmnb doctor",
            )
        return data

    def __contains__(self, name: object) -> bool:
        if not digest.is_digest(name):
            return False
        return os.path.isfile(self._path(str(name))) or any(
            True for _ in self._select("SELECT 1 FROM object WHERE digest = ?", str(name))
        )

    def sizes(self) -> "dict[Digest, tuple[int, float]]":
        """Return every object with its size in bytes and when it was stored."""
        found = {
            Digest(name): (size, stored)
            for name, size, stored in self._select(
                "SELECT digest, length(bytes), stored_at FROM object"
            )
        }
        for name, path in self._files():
            status = os.stat(path)
            found[name] = (status.st_size, status.st_mtime)
        return found

    def damaged(self) -> "list[Digest]":
        """Read every object and return those whose bytes are not what their digest says."""
        return [name for name in self.sizes() if not self._sound(name)]

    def drop(self, names: "Iterable[Digest]", *, older_than: "float | None" = None) -> None:
        """Remove objects for good and give their disk space back.

        With `older_than`, one that was put again after that moment stays: it is in use.
        """
        names = list(names)
        limit = time.time() + 1 if older_than is None else older_than
        for name in names:
            path = self._path(name)
            if os.path.exists(path) and os.stat(path).st_mtime < limit:
                remove(path)
        if os.path.exists(self._database):
            with self._open() as database:
                database.executemany(
                    "DELETE FROM object WHERE digest = ? AND stored_at < ?",
                    [(name, limit) for name in names],
                )
            with self._open() as database:
                database.execute("VACUUM")

    def file_of(self, name: str) -> str:
        """Return where a large object is, or would be."""
        if not digest.is_digest(name):
            raise ObjectError(f"{name!r} is not the digest of an object")
        return self._path(name)

    def _sound(self, name: Digest) -> bool:
        try:
            self.get(name)
        except ObjectError:
            return False
        return True

    def _path(self, name: str) -> str:
        hexadecimal = name[7:]
        return os.path.join(self.directory, hexadecimal[:2], hexadecimal[2:])

    def _files(self) -> "Iterator[tuple[Digest, str]]":
        if not os.path.isdir(self.directory):
            return
        for first in sorted(os.listdir(self.directory)):
            shelf = os.path.join(self.directory, first)
            if len(first) != 2 or not os.path.isdir(shelf) or os.path.islink(shelf):
                continue
            for rest in sorted(os.listdir(shelf)):
                name = Digest(f"sha256:{first}{rest}")
                path = os.path.join(shelf, rest)
                if digest.is_digest(name) and os.path.isfile(path):
                    yield name, path

    @staticmethod
    def _same(path: str, data: bytes) -> bool:
        """Tell whether these very bytes are there; damaged ones are written again."""
        try:
            return read_bytes(path) == data
        except FileNotFoundError:
            return False

    def set_aside(self) -> str:
        """Move a database that cannot be read out of the way; say where."""
        aside = f"{self._database}.broken-{time.strftime('%Y%m%dT%H%M%S')}"
        rename(self._database, aside)
        return f"moved to {aside}; small objects in it are lost unless SQLite can recover them"

    def _prepare(self, directory: str) -> None:
        refuse_link(self.directory)
        refuse_link(directory)
        make_directory(directory)

    def _row(self, name: str) -> bytes:
        for (data,) in self._select("SELECT bytes FROM object WHERE digest = ?", name):
            return bytes(data)
        raise ObjectError(
            f"object {name} is not in {self.directory}",
            hint="it was pruned, or belongs to another root: see RLMNB_HOME",
        )

    def _select(self, statement: str, *values: str) -> "list[tuple[Any, ...]]":
        import sqlite3

        if not os.path.exists(self._database):
            return []
        try:
            with self._open() as database:
                return database.execute(statement, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise ObjectError(
                f"{self._database}: {error}", hint="run: rlmnb doctor --fix"
            ) from error

    def _open(self) -> "_Connection":
        self._prepare(self.directory)
        os.close(open_regular(self._database, os.O_RDWR | os.O_CREAT))
        return _Connection(self._database)


class _Connection:
    """One transaction on the small objects: committed at the end of the block, then closed."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> "sqlite3.Connection":
        import sqlite3

        self._connection = sqlite3.connect(self._path, timeout=_BUSY_SECONDS)
        try:
            self._connection.execute(_SCHEMA)
        except sqlite3.OperationalError as error:
            self._connection.close()
            raise StorageError(f"{self._path}: cannot store objects: {error}") from error
        return self._connection

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is None:
            self._connection.commit()
        self._connection.close()
