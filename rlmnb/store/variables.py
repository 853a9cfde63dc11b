"""Kernel variables on disk: bytes under their digest, beside the objects and apart from them.

All of it can be made again by running cells, so nothing here waits for the disk, and what no
notebook names any more can go. Small pieces share one SQLite file; large buffers are files of
their own. What is stored as one state begins with a line that names the buffers it needs.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator

from rlmnb import digest
from rlmnb.errors import ObjectError
from rlmnb.files import (
    make_directory,
    open_regular,
    polls,
    read_bytes,
    read_into_memory,
    remove,
    share,
    write_atomic,
)

SMALL = 64 * 1024
SIGNATURE_BYTES = 32
MAGIC = b"rlmnb state 2\n"
_BUSY_SECONDS = 30
_MOST_PENDING = 200


def _prepare(connection: sqlite3.Connection) -> None:
    """Have the database as we want it, whoever else begins it at the same moment.

    SQLite does not wait for others when the kind of journal changes: it says at once that the
    database is locked.
    """
    for _ in polls(_BUSY_SECONDS):
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=OFF")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS state "
                "(digest TEXT PRIMARY KEY, bytes BLOB, stored_at REAL) WITHOUT ROWID"
            )
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
    raise ObjectError("the database of variables is locked; see which process has it open")


class Variables:
    """The state store below one directory of objects."""

    def __init__(self, objects: str) -> None:
        self.directory = os.path.join(objects, "state")
        self._path_of_database = os.path.join(self.directory, "state.db")
        self._connection: sqlite3.Connection | None = None
        # Small pieces that wait to be written together, by whichever thread comes first.
        self._pending: dict[str, bytes] = {}
        self._lock = threading.RLock()

    def _database(self) -> sqlite3.Connection:
        if self._connection is None:
            make_directory(self.directory)
            os.close(open_regular(self._path_of_database, os.O_RDWR | os.O_CREAT))
            connection = sqlite3.connect(
                self._path_of_database,
                timeout=_BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,  # the lock sees to that
            )
            try:
                _prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def close(self) -> None:
        """Let the database go."""
        self.flush()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def put(self, data: bytes | memoryview, *, later: bool = False) -> str:
        """Keep these bytes and return their digest; what is there already is in use again.

        With `later`, a small piece may wait until `flush` for others to be written with it.
        """
        name = digest.of_bytes(data)
        if len(data) < SMALL:
            with self._lock:
                self._pending[name] = bytes(data)
            if not later or len(self._pending) > _MOST_PENDING:
                self.flush()
            return name
        path = self._path(name)
        if os.path.exists(path):
            os.utime(path)
        else:
            make_directory(os.path.dirname(path))
            write_atomic(path, data, wait=False)
        return name

    def flush(self) -> None:
        """Write what waits: a transaction costs ten times what a row in it does."""
        with self._lock:
            if not self._pending:
                return
            now = time.time()
            rows = [(name, data, now) for name, data in self._pending.items()]
            database = self._database()
            database.execute("BEGIN IMMEDIATE")
            try:
                database.executemany(
                    "INSERT INTO state VALUES (?, ?, ?) "
                    "ON CONFLICT (digest) DO UPDATE SET stored_at = excluded.stored_at",
                    rows,
                )
                database.execute("COMMIT")
            except BaseException:
                database.execute("ROLLBACK")
                raise
            self._pending.clear()

    def _path(self, name: str) -> str:
        return os.path.join(self.directory, name[7:9], name[9:])

    def get(self, name: str) -> bytes:
        """Return the bytes of this digest, having checked that they are."""
        if not digest.is_digest(name):
            raise ObjectError(f"{name!r} is not the digest of an object")
        with self._lock:
            self.flush()
            asked = "SELECT bytes FROM state WHERE digest = ?"
            row = self._database().execute(asked, (name,)).fetchone()
        if row is not None:
            data = bytes(row[0])
        else:
            try:
                data = read_bytes(self._path(name))
            except FileNotFoundError:
                raise ObjectError(f"state {name} is not in {self.directory}") from None
        if digest.of_bytes(data) != name:
            raise ObjectError(f"state {name} holds other bytes than its digest says")
        return data

    def get_writable(self, name: str) -> bytearray:
        """Return a buffer that arrays can be made of: in memory of its own, read into it once."""
        if not digest.is_digest(name):
            raise ObjectError(f"{name!r} is not the digest of an object")
        try:
            data = read_into_memory(self._path(name))
        except FileNotFoundError:
            return bytearray(self.get(name))
        if digest.of_bytes(memoryview(data)) != name:
            raise ObjectError(f"state {name} holds other bytes than its digest says")
        return data

    def give(self, names: Iterable[str], other: Variables) -> None:
        """Let another store have these states and their buffers; what is not here is left out."""
        for name in self.with_buffers(self.sizes().keys() & set(names)):
            path = other._path(name)
            if os.path.exists(self._path(name)):
                make_directory(os.path.dirname(path))
                share(self._path(name), path)
                continue
            try:
                other.put(self.get(name), later=True)
            except ObjectError:
                continue
        other.flush()

    # what takes space

    def sizes(self) -> dict[str, tuple[int, float]]:
        """Return every piece with its size in bytes and when it was last stored."""
        if not os.path.isdir(self.directory):
            return {}
        try:
            rows = self._database().execute("SELECT digest, length(bytes), stored_at FROM state")
            found = {str(name): (int(size), float(stored)) for name, size, stored in rows}
        except sqlite3.DatabaseError as error:
            raise ObjectError(
                f"{self._path_of_database}: {error}",
                hint=f"all in it can be made again: rm -r {self.directory}",
            ) from error
        for name, path in self._files():
            status = os.stat(path)
            found[name] = (status.st_size, status.st_mtime)
        return found

    def _files(self) -> Iterator[tuple[str, str]]:
        for first in sorted(os.listdir(self.directory)):
            shelf = os.path.join(self.directory, first)
            if len(first) == 2 and os.path.isdir(shelf) and not os.path.islink(shelf):
                for rest in sorted(os.listdir(shelf)):
                    name = f"sha256:{first}{rest}"
                    if digest.is_digest(name):
                        yield name, os.path.join(shelf, rest)

    def with_buffers(self, names: Iterable[str]) -> set[str]:
        """Return these states and the buffers they need."""
        found = set()
        for name in names:
            found.add(name)
            try:
                found.update(buffers_of(self.get(name)))
            except (ObjectError, OSError):
                continue  # gone or damaged: it needs nothing
        return found

    def drop(self, names: Iterable[str], *, older_than: float) -> None:
        """Remove pieces for good, except those that were stored again meanwhile."""
        names = list(names)
        for name in names:
            path = self._path(name)
            if os.path.exists(path) and os.stat(path).st_mtime < older_than:
                remove(path)
        database = self._database()
        database.execute("BEGIN")
        database.executemany(
            "DELETE FROM state WHERE digest = ? AND stored_at < ?",
            [(name, older_than) for name in names],
        )
        database.execute("COMMIT")
        database.execute("VACUUM")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def packed(buffers: list[str], data: bytes) -> bytes:
    """Put a state together: which buffers it needs, then its bytes."""
    return json.dumps(buffers).encode() + b"\n" + data


def unpacked(payload: bytes) -> tuple[list[str], bytes]:
    """Take a state apart again."""
    line, _, data = payload.partition(b"\n")
    return [str(each) for each in json.loads(line)], data


def buffers_of(blob: bytes) -> list[str]:
    """Return the buffers that a stored state names, without looking further into it."""
    if not blob.startswith(MAGIC):
        return []
    try:
        return unpacked(blob[len(MAGIC) + SIGNATURE_BYTES :])[0]
    except ValueError:
        return []
