"""State that no variable holds and cells rely on all the same.

Generators of chance, the working directory, the environment, what libraries keep for themselves:
each is a pseudo-variable whose name begins with `$`. Those of chance count as read when they were
used; the others as read by every cell, because any code may depend on them.
"""

from __future__ import annotations

import gc
import importlib
import locale
import os
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from rlmnb import digest
from rlmnb.kernel import libraries, streams
from rlmnb.kernel.canonical import value_digest

INITIAL = "initial"
CHANCE = frozenset({"$random", "$numpy.random"})
_NUMPYS = frozenset(f"numpy.{each} size changed" for each in ("dtype", "ndarray", "ufunc"))


class Facet:
    """One piece of such state. `now` is None while it is as it was at the start.

    Where `restore` is missing, the cell that brought it to where it is has to run again; `reset`
    alone brings it back to the start.
    """

    def __init__(
        self,
        name: str,
        now: Callable[[], Any],
        restore: Callable[[Any], None] | None = None,
        reset: Callable[[], None] | None = None,
    ) -> None:
        self.name = name
        self.now = now
        self.restore = restore
        self.reset = reset


def _interpreter_facets() -> Iterable[Facet]:
    cwd, path = os.getcwd(), list(sys.path)
    filters, limit = list(warnings.filters), sys.getrecursionlimit()
    environ = dict(os.environ)
    language = _locale()

    raw = dict(getattr(os.environ, "_data", {}))

    def environ_now() -> dict[str, str | None] | None:
        if raw and getattr(os.environ, "_data", None) == raw:
            return None  # the same without decoding it
        changed = {
            key: os.environ.get(key)
            for key in sorted({*os.environ, *environ})
            if os.environ.get(key) != environ.get(key)
        }
        return changed or None

    def restore_environ(changed: dict[str, str | None] | None) -> None:
        wanted = {**environ, **(changed or {})}
        zone = os.environ.get("TZ")
        for key in {*os.environ, *wanted}:
            value = wanted.get(key)
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value
        if os.environ.get("TZ") != zone and hasattr(time, "tzset"):
            time.tzset()  # the C library has a copy of its own

    def filters_now() -> list[Any] | None:
        now = list(warnings.filters)
        if now == filters or [each for each in now if not _is_numpys(each)] == filters:
            return None
        return now

    def restore_filters(value: list[Any] | None) -> None:
        with warnings.catch_warnings():
            pass  # leaving the block makes every module look at the filters again
        theirs = [each for each in warnings.filters if _is_numpys(each)]
        warnings.filters[:] = [*theirs, *filters] if value is None else value  # type: ignore[index]

    def restore_path(value: list[str] | None) -> None:
        sys.path[:] = path if value is None else value

    yield Facet("$cwd", lambda: _unless(os.getcwd(), cwd), lambda value: os.chdir(value or cwd))
    yield Facet("$environ", environ_now, restore_environ)
    yield Facet("$sys.path", lambda: _unless(list(sys.path), path), restore_path)
    yield Facet("$warnings", filters_now, restore_filters)
    yield Facet(
        "$recursion limit",
        lambda: _unless(sys.getrecursionlimit(), limit),
        lambda value: sys.setrecursionlimit(value or limit),
    )
    yield Facet(
        "$gc",
        lambda: None if gc.isenabled() else "off",
        lambda value: gc.disable() if value else gc.enable(),
    )
    yield Facet(
        "$locale",
        lambda: _unless(_locale(), language),
        lambda value: _set_locale(value or language),
    )


def _is_numpys(each: Any) -> bool:
    """Tell whether it is numpy's import that sets this filter of warnings.

    It is for warnings of numpy's alone, so cells that do without numpy do without the filter.
    """
    action, message, category = each[:3]
    if action == "always":
        return bool(category.__module__ == "numpy.exceptions")
    text = getattr(message, "pattern", message)
    return action == "ignore" and category is Warning and text in _NUMPYS


def _unless(now: Any, start: Any) -> Any:
    return None if now == start else now


def _locale() -> str:
    return locale.setlocale(locale.LC_ALL)


def _set_locale(value: str) -> None:
    locale.setlocale(locale.LC_ALL, value)


def _streams_now(namespace: dict[str, Any]) -> list[str] | None:
    return [value_digest(namespace, each) for each in streams.replacements()] or None


def _chance_facets() -> Iterable[Facet]:
    start = random.getstate()
    unseeded: list[Any] = []

    def numpy_now() -> Any:
        module = sys.modules.get("numpy.random")
        if module is None or not hasattr(module, "get_state"):
            return None
        state = module.get_state()
        now = (state[0], state[1].tobytes(), *state[2:])
        if not unseeded:
            generator = module.mtrand._rand._bit_generator
            # Seeded by the system: nobody can rely on it. Seeded by the cell that imported numpy:
            # that is what others will rely on.
            unseeded.append(now if getattr(generator, "seed_seq", None) is not None else None)
        return _unless(now, unseeded[0])

    def restore_numpy(value: Any) -> None:
        if value is None:
            return
        if not unseeded:
            unseeded.append(None)
        numpy = importlib.import_module("numpy")
        kind, keys, *rest = value
        words = numpy.frombuffer(keys, dtype=numpy.uint32).copy()
        numpy.random.set_state((kind, words, *rest))

    def restore_random(value: Any) -> None:
        if value is not None:
            random.setstate(value)

    yield Facet("$random", lambda: _unless(random.getstate(), start), restore_random)
    yield Facet("$numpy.random", numpy_now, restore_numpy)


class Hidden:
    """What this kernel started with, and how it differs now."""

    def __init__(self, shell: Any = None) -> None:
        described = [Facet(*each) for each in libraries.facets(shell)]
        # Attributes of libraries that cells have set, each with the digest of its value.
        self.patched: dict[str, str] = {}
        described.append(Facet("$patched", lambda: dict(sorted(self.patched.items())) or None))
        namespace = shell.user_ns if shell is not None else {}
        described.append(
            Facet("$streams", lambda: _streams_now(namespace), reset=streams.reset),
        )
        facets = [*_interpreter_facets(), *described, *_chance_facets()]
        self._facets = {facet.name: facet for facet in facets}
        self.ambient = tuple(name for name in self._facets if name not in CHANCE)

    def values(self) -> dict[str, Any]:
        """Return the present state of each, None where it is as it was at the start."""
        return {name: facet.now() for name, facet in self._facets.items()}

    def can_restore(self, name: str) -> bool:
        """Tell whether a state can be put back, or has to be made again."""
        return self._facets[name].restore is not None

    def digests(self, values: dict[str, Any] | None = None) -> dict[str, str]:
        """Return the digest of each."""
        values = self.values() if values is None else values
        return {
            name: INITIAL if value is None else digest.of_text(repr(value))
            for name, value in values.items()
        }

    def restore(self, name: str, value: Any) -> None:
        """Put one back to a state it was in."""
        facet = self._facets[name]
        if facet.restore is not None:
            facet.restore(value)
        elif facet.reset is not None and value is None:
            facet.reset()
