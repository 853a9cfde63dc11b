"""Local modules: which of them a cell can reach, and what cells have changed inside them.

A module is shared by all who import it, so its state is a pseudo-variable of its own,
`$module:NAME`. What cannot be looked through in it (a lock, a socket) is taken to stay as it is.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from typing import Any

from rlmnb.kernel.canonical import Walk

PREFIX = "$module:"
# Bytecode knows its source by size and whole second. Younger than this, a source may be saved
# again within the second that the bytecode has of it, and would then be taken for what it was.
_SETTLED_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Seen:
    """A module's state at one moment."""

    digest: str
    ids: frozenset[int]


class Modules:
    """The modules of the user's own that this kernel has imported."""

    def __init__(self, is_mine: Callable[[str], bool]) -> None:
        self._is_mine = is_mine
        self.known: dict[str, Seen] = {}

    def path(self, name: str) -> str | None:
        """Return the file of a local module, None for any other."""
        path = getattr(sys.modules.get(name), "__file__", None)
        mine = isinstance(path, str) and path.endswith(".py") and self._is_mine(path)
        return path if mine else None

    def behind(self, values: Iterable[Any]) -> set[str]:
        """Return the names of the modules that these values are, or come from."""
        found = (
            value.__name__
            if isinstance(value, types.ModuleType)
            else getattr(value, "__module__", None)
            for value in values
        )
        return {name for name in found if isinstance(name, str)}

    def with_imports(self, names: Iterable[str]) -> set[str]:
        """Return which of these are local modules, and the local modules that they use."""
        found: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name not in found and self.path(name) is not None:
                found.add(name)
                waiting += self.behind(vars(sys.modules[name]).values())
        return found

    def refs(self, names: Iterable[str]) -> set[str]:
        """Return the pseudo-variables of the local modules among these, with what they use."""
        return {PREFIX + name for name in self.with_imports(names)}

    def look(self, name: str) -> Seen:
        """Return what a module holds now."""
        contents = vars(sys.modules[name])
        walk = Walk(contents, lambda: "")
        for each in sorted(contents):
            if not (each.startswith("__") and each.endswith("__")):
                walk.variable(each)
        walk.drop_passing()
        return Seen(walk.digest(), frozenset(walk.ids))

    def data(self, name: str) -> dict[str, Any]:
        """Return what a module holds apart from the code it was made with."""
        found = {}
        for key, value in vars(sys.modules[name]).items():
            own = getattr(value, "__module__", None) == name and isinstance(
                value, types.FunctionType | type
            )
            special = key.startswith("__") and key.endswith("__")
            if not special and not own and not isinstance(value, types.ModuleType):
                found[key] = value
        return found

    def put(self, name: str, data: dict[str, Any] | None, wanted: str) -> bool:
        """Bring a module to a state; tell whether it is there now."""
        importlib.import_module(name)
        if self.look(name).digest != wanted and data is not None:
            contents = vars(sys.modules[name])
            for key in set(self.data(name)) - set(data):
                del contents[key]
            contents.update(data)
        self.known[name] = self.look(name)
        return self.known[name].digest == wanted


def keep_bytecode_honest() -> None:
    """Have no bytecode written of a source that was saved just now."""
    write = SourceFileLoader._cache_bytecode  # type: ignore[attr-defined]

    def write_if_settled(self: Any, source_path: str, bytecode_path: str, data: Any) -> None:
        try:
            age = time.time() - os.stat(source_path).st_mtime
        except OSError:
            return
        if not -_SETTLED_SECONDS < age < _SETTLED_SECONDS:
            write(self, source_path, bytecode_path, data)

    SourceFileLoader._cache_bytecode = write_if_settled  # type: ignore[attr-defined]
