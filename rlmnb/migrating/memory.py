"""The database of facts and experiences, copied row by row into a file of JSON lines.

There is no memory yet that could take them in: each line is `{"table": name, "row": {…}}`, bytes
as `{"base64": text}`. The database is read from a private copy, its write-ahead log included,
because opening it where it is could change it.
"""

from __future__ import annotations

import base64
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from rlmnb.capture.secrets import redact
from rlmnb.errors import StorageError
from rlmnb.files import write_atomic
from rlmnb.jsontext import compact, portable, to_bytes
from rlmnb.migrating.reading import Tree, read_file

_BESIDE = ("", "-wal")


def parts(tree: Tree, path: str) -> list[str]:
    """Return the files that a database consists of."""
    return [path + end for end in _BESIDE if os.path.isfile(tree.absolute(path + end))]


def exported(tree: Tree, path: str) -> tuple[bytes, dict[str, int]]:
    """Return every row as a line of JSON, and how many there are of each table."""
    lines: list[bytes] = []
    counts: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="rlmnb-") as private:
        copy = os.path.join(private, "memory.db")
        for part in parts(tree, path):
            write_atomic(copy + part.removeprefix(path), read_file(tree.absolute(part)), wait=False)
        try:
            with closing(sqlite3.connect(copy)) as database:
                for table, row in _rows(database):
                    counts[table] = counts.get(table, 0) + 1
                    lines.append(to_bytes(compact(redact({"row": row, "table": table})) + "\n"))
        except (sqlite3.Error, ValueError, OverflowError) as error:
            raise StorageError(f"is no database that can be read ({error})") from None
    return b"".join(lines), counts


def _rows(database: sqlite3.Connection) -> Iterator[tuple[str, dict[str, Any]]]:
    database.text_factory = lambda data: data.decode("utf-8", "replace")
    # Whoever made the file must not choose what is run by reading it.
    database.execute("PRAGMA trusted_schema = OFF")
    known = database.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' "
        "ESCAPE '\\' AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY name"
    )
    for (table,) in known.fetchall():
        quoted = '"' + str(table).replace('"', '""') + '"'
        found = database.execute(f"SELECT * FROM {quoted}")  # noqa: S608 - a name, quoted
        names = [column[0] for column in found.description]
        for row in found:
            yield str(table), {name: _plain(value) for name, value in zip(names, row, strict=True)}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode("ascii")}
    return portable(value)
