"""Connections to SQLite that a cell only asks: they are what they were.

Nothing tells one state of a connection from another by looking. So SQLite tells, while a cell runs,
what each statement is about to do, once for each that is compiled.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from rlmnb.kernel.look import Look
from rlmnb.kernel.modules import PREFIX

_LOOKING = frozenset(
    {
        sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE,
        sqlite3.SQLITE_SELECT,
    }
)  # fmt: skip
_LOOKING_PRAGMAS = frozenset(
    {
        "database_list", "foreign_key_list", "index_info", "index_list", "index_xinfo",
        "table_info", "table_list", "table_xinfo",
    }
)  # fmt: skip
# Ways to change a connection, or whom it tells, without a statement.
_UNHEARD = frozenset(
    {
        "backup", "blobopen", "create_aggregate", "create_collation", "create_function",
        "create_window_function", "deserialize", "enable_load_extension", "setconfig", "setlimit",
        "set_authorizer", "set_progress_handler", "set_trace_callback",
    }
)  # fmt: skip
_KEPT = ("autocommit", "in_transaction", "isolation_level", "row_factory", "text_factory")


class Databases:
    """Listens to the connections that variables hold."""

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self._namespace = namespace
        # Those that cells have made themselves: of others nobody knows who else listens.
        self._own: dict[str, int] = {}
        self._names: dict[str, tuple[int, list[Any]]] = {}
        self._changing = False
        # Some cell has used a way that is not heard.
        self._unheard = False

    def listen(self, look: Look) -> None:
        """Begin to listen to those that a cell can reach."""
        self._names, self._changing = {}, False
        if look.code is None:
            return
        self._unheard = self._unheard or not _UNHEARD.isdisjoint(look.code.attributes)
        local = any(name.startswith(PREFIX) for name in look.reads)
        if self._unheard or local or look.opaque:
            return
        for name in look.reads - look.code.writes:
            value: Any = self._namespace.get(name)
            if type(value) is sqlite3.Connection and self._own.get(name) == id(value):
                with suppress(sqlite3.Error):
                    value.set_authorizer(self._hear)
                    self._names[name] = (id(value), _kept(value))

    def _hear(self, action: int, what: str | None, *_: Any) -> int:
        pragma = action == sqlite3.SQLITE_PRAGMA and what in _LOOKING_PRAGMAS
        self._changing = self._changing or not (action in _LOOKING or pragma)
        return 0

    def only_asked(self, look: Look) -> set[str]:
        """Stop to listen; return the variables whose connections nobody has told to do anything."""
        names, self._names = self._names, {}
        self._note_own(look)
        found = set()
        for name, (address, was) in names.items():
            value: Any = self._namespace.get(name)
            if id(value) == address:
                with suppress(sqlite3.Error):
                    value.set_authorizer(None)
                    found |= {name} if _kept(value) == was else set()
        return set() if self._changing else found

    def _note_own(self, look: Look) -> None:
        code = look.code
        if code is None or "connect" not in code.attributes:
            return
        if "sqlite3" in look.reads | code.imports | set(code.bound.values()):
            made = {name: self._namespace.get(name) for name in code.writes}
            is_one = {name for name, value in made.items() if type(value) is sqlite3.Connection}
            self._own |= {name: id(made[name]) for name in is_one}


def _kept(connection: Any) -> list[Any]:
    """Return what a program can set of a connection."""
    return [getattr(connection, each, None) for each in _KEPT]
