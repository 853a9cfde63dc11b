"""State that no variable holds and cells rely on all the same.

Generators of chance, the working directory, the environment, the module path and the warnings
filters: each is a pseudo-variable whose name begins with `$`. Those of chance count as read when
they were used; the others as read by every cell, because any code may depend on them.
"""

from __future__ import annotations

import importlib
import os
import random
import sys
import warnings
from typing import Any

from rlmnb import digest

INITIAL = "initial"
CHANCE = ("$random", "$numpy.random")
AMBIENT = ("$cwd", "$environ", "$sys.path", "$warnings")


class Hidden:
    """What this kernel started with, and how it differs now."""

    def __init__(self) -> None:
        self._cwd = os.getcwd()
        self._environ = dict(os.environ)
        self._path = list(sys.path)
        self._filters = list(warnings.filters)
        self._random = random.getstate()
        self._numpy: Any = None

    def values(self) -> dict[str, Any]:
        """Return the present state of each, None where it is as it was at the start."""
        return {
            "$cwd": os.getcwd() if os.getcwd() != self._cwd else None,
            "$environ": self._environ_changes(),
            "$sys.path": list(sys.path) if sys.path != self._path else None,
            "$warnings": list(warnings.filters) if warnings.filters != self._filters else None,
            "$random": random.getstate() if random.getstate() != self._random else None,
            "$numpy.random": self._numpy_now(),
        }

    def _environ_changes(self) -> dict[str, str | None] | None:
        keys = {*os.environ, *self._environ}
        changed = {
            key: os.environ.get(key)
            for key in sorted(keys)
            if os.environ.get(key) != self._environ.get(key)
        }
        return changed or None

    def _numpy_now(self) -> Any:
        numpy = sys.modules.get("numpy")
        if numpy is None or "numpy.random" not in sys.modules:
            return None
        state = numpy.random.get_state()
        now = (state[0], state[1].tobytes(), *state[2:])
        if self._numpy is None:
            # Seeded by the system when numpy was imported: nobody can rely on it.
            self._numpy = now
        return None if now == self._numpy else now

    def digests(self, values: dict[str, Any] | None = None) -> dict[str, str]:
        """Return the digest of each."""
        values = self.values() if values is None else values
        return {
            name: INITIAL if value is None else digest.of_text(repr(value))
            for name, value in values.items()
        }

    def restore(self, name: str, value: Any) -> None:
        """Put one back to a state it was in."""
        if name == "$cwd":
            os.chdir(self._cwd if value is None else value)
        elif name == "$environ":
            self._restore_environ(value or {})
        elif name == "$sys.path":
            sys.path[:] = self._path if value is None else value
        elif name == "$warnings":
            with warnings.catch_warnings():
                pass  # leaving the block makes every module look at the filters again
            warnings.filters[:] = self._filters if value is None else value  # type: ignore[index]
        elif name == "$random" and value is not None:
            random.setstate(value)
        elif name == "$numpy.random" and value is not None:
            numpy = importlib.import_module("numpy")
            kind, keys, *rest = value
            words = numpy.frombuffer(keys, dtype=numpy.uint32).copy()
            numpy.random.set_state((kind, words, *rest))

    def _restore_environ(self, changed: dict[str, str | None]) -> None:
        wanted = {**self._environ, **changed}
        for key in {*os.environ, *wanted}:
            value = wanted.get(key)
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value
