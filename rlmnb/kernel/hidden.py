"""State that no variable holds and cells rely on all the same.

Generators of chance, the working directory, the environment, what libraries keep for themselves:
each is a pseudo-variable whose name begins with `$`. Those of chance count as read when they were
used; the others as read by every cell, because any code may depend on them.
"""

from __future__ import annotations

import _csv
import _signal  # type: ignore[import-not-found]
import _socket
import calendar
import gc
import importlib
import locale
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from rlmnb import digest
from rlmnb.errors import ObjectError
from rlmnb.graph.ambient import INITIAL, WARNED, keyed, split, state_of
from rlmnb.kernel import libraries, streams
from rlmnb.kernel.canonical import behind, value_digest
from rlmnb.kernel.filters import Filters, effective
from rlmnb.kernel.overheard import Listeners
from rlmnb.kernel.sight import is_of_python, mark_on
from rlmnb.kernel.warned import Warned


class Facet:
    """One piece of such state. `now` is None while it is as it was at the start.

    Where `restore` is missing, the cell that brought it to where it is has to run again; `reset`
    alone brings it back to the start. If it has keys, they are told of one by one: those that are
    not as they were at the start.
    """

    def __init__(
        self,
        name: str,
        now: Callable[[], Any],
        restore: Callable[[Any], None] | None = None,
        reset: Callable[[], None] | None = None,
        *,
        has_keys: bool = False,
    ) -> None:
        self.name = name
        self.now = now
        self.restore = restore
        self.reset = reset
        self.has_keys = has_keys

    def put(self, key: str | None, value: Any) -> None:
        """Put it back to a state it was in, or a key of it: a list of the value, None if unset."""
        if key is None and self.has_keys and value is not None:
            raise ObjectError(f"{self.name} was stored as a whole, by an earlier version")
        if key is not None:
            others = {name: each for name, each in (self.now() or {}).items() if name != key}
            value = {**others, key: value[0]} if value else others
            value = value or None
        if self.restore is not None:
            self.restore(value)
        elif self.reset is not None and value is None:
            self.reset()


def _interpreter_facets() -> Iterable[Facet]:
    cwd, path = os.getcwd(), list(sys.path)
    limit = sys.getrecursionlimit()
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

    def restore_path(value: list[str] | None) -> None:
        sys.path[:] = path if value is None else value

    yield Facet("$cwd", lambda: _unless(os.getcwd(), cwd), lambda value: os.chdir(value or cwd))
    yield Facet("$environ", environ_now, restore_environ, has_keys=True)
    yield Facet("$sys.path", lambda: _unless(list(sys.path), path), restore_path)
    handlers = _handlers()
    yield _interpreter()
    yield Facet("$signals", lambda: _signals(handlers))
    yield Facet("$csv", lambda: _dialects() or None)
    argv = list(sys.argv)
    yield Facet(
        "$argv",
        lambda: _unless(list(sys.argv), argv),
        lambda value: _set_argv(argv if value is None else value),
    )
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


# Attributes of modules that are followed as what they are.
FOLLOWED = frozenset({("sys", "argv"), ("sys", "path")})


def _set_argv(value: list[str]) -> None:
    sys.argv[:] = value


# What Python and its library keep for the whole process: how to look at it, how to set it.
_Setting = tuple[Callable[[], Any], Callable[[Any], Any]]
_OF_PYTHON: dict[str, _Setting] = {
    "csv's longest field": (_csv.field_size_limit, _csv.field_size_limit),
    "gc threshold": (gc.get_threshold, lambda value: gc.set_threshold(*value)),
    "int digits": (sys.get_int_max_str_digits, sys.set_int_max_str_digits),
    "switch interval": (sys.getswitchinterval, sys.setswitchinterval),
    "socket timeout": (_socket.getdefaulttimeout, _socket.setdefaulttimeout),
    "first weekday": (calendar.firstweekday, calendar.setfirstweekday),
}


def _interpreter() -> Facet:
    start = {key: get() for key, (get, _) in _OF_PYTHON.items()}

    def now() -> dict[str, Any] | None:
        found = {key: get() for key, (get, _) in _OF_PYTHON.items()}
        return {key: each for key, each in found.items() if each != start[key]} or None

    def restore(value: dict[str, Any] | None) -> None:
        for key, each in (start | (value or {})).items():
            get, put = _OF_PYTHON[key]
            if get() != each:
                put(each)

    return Facet("$python", now, restore, has_keys=True)


# What an interrupt does is the kernel's own business, from cell to cell.
_SIGNALS = sorted(map(int, signal.valid_signals() - {signal.SIGINT}))


def _handlers() -> list[Any]:
    return list(map(_signal.getsignal, _SIGNALS))  # which makes no enumeration of each


def _signals(start: list[Any]) -> dict[int, str] | None:
    now = _handlers()
    if now == start:
        return None
    both = zip(_SIGNALS, now, start, strict=True)
    return {number: value_digest({}, each) for number, each, was in both if each != was}


def _dialects() -> dict[str, list[str]]:
    csv: Any = sys.modules.get("_csv")
    parts = ("delimiter", "quotechar", "escapechar", "doublequote", "quoting", "lineterminator")
    return {
        name: [repr(getattr(csv.get_dialect(name), part)) for part in parts]
        for name in (csv.list_dialects() if csv is not None else ())
        if name not in ("excel", "excel-tab", "unix")
    }


def _unless(now: Any, start: Any) -> Any:
    return None if now == start else now


def _locale() -> str:
    return locale.setlocale(locale.LC_ALL)


def _set_locale(value: str) -> None:
    locale.setlocale(locale.LC_ALL, value)


def _digest(name: str, value: Any) -> str:
    if name == "$warnings":
        value = effective(value)
    elif split(name)[1] is not None and not _is_atom(value[0]):
        # A function shows itself by its address.
        value = value_digest({}, value)
    return digest.of_text(f"{name} {value!r}")


def _is_atom(value: Any) -> bool:
    return isinstance(value, str | int | float | None)


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
        described = [
            Facet(*each, has_keys=each[0] in libraries.WITH_KEYS)
            for each in libraries.facets(shell)
        ]
        namespace = shell.user_ns if shell is not None else {}
        self._namespace, self._shell = namespace, shell
        # Attributes of libraries that cells have set.
        self.patched: dict[str, Any] = {}
        # Functions of libraries that cells have called to set something, with the digest of what
        # they were given, and the variables in it.
        self.called: dict[str, str] = {}
        self.called_with: dict[str, frozenset[str]] = {}
        self._builtins = libraries.Builtins()
        # The variables that such things lead to: any code may reach them there.
        self.leads_to: dict[str, set[str]] = {}
        # And the libraries.
        self._reaches: dict[str, frozenset[str]] = {}
        for state, of_python in (("$patched", False), ("$patched.python", True)):
            now = partial(self._done_to_libraries, of_python=of_python)
            described.append(Facet(state, now, has_keys=True))
        if shell is not None:
            described.append(Facet("$builtins", lambda: self._digests_of(self._builtins.changed())))
        described.append(
            Facet("$streams", lambda: _streams_now(namespace), reset=streams.reset),
        )
        self.filters = Filters()
        described.append(Facet("$warnings", self.filters.now, self.filters.restore))
        self.warned = Warned()
        described.append(Facet(WARNED, self.warned.now, self.warned.restore, has_keys=True))
        # Of what a cell asks for while it runs.
        self.listeners = Listeners()
        facets = [*_interpreter_facets(), *described, *_chance_facets()]
        self._facets = {facet.name: facet for facet in facets}

    def _patches(self) -> dict[str, Any]:
        return self.patched | libraries.accessors_of_pandas()

    def _done_to_libraries(self, *, of_python: bool) -> dict[str, str] | None:
        """Return what cells did to parts of Python, which any code may go through, or to others."""
        found = (self._digests_of(self._patches()) or {}) | self.called
        return {
            where: each for where, each in found.items() if is_of_python(where) is of_python
        } or None

    def _digests_of(self, values: dict[str, Any]) -> dict[str, str] | None:
        found = sorted(values.items())
        return {name: value_digest(self._namespace, each) for name, each in found} or None

    def follow(self, now: dict[str, Any]) -> None:
        """Look what state that holds objects leads to."""
        held: dict[str, Any] = {
            **{mark_on(where): [value] for where, value in self._patches().items()},
            "$builtins": self._builtins.changed(),
            "$logging": libraries.given_to_logging(),
        }
        if self._shell is not None:
            given = libraries.registered(self._shell)
            held |= {keyed("$shell", kind): functions for kind, functions in given.items()}
        # How a number is shown can be a function.
        held |= {
            name: value
            for name, value in now.items()
            if split(name)[1] is not None and name not in held and not _is_atom(value[0])
        }
        self.leads_to = {
            mark_on(where): set(names) for where, names in self.called_with.items() if names
        }
        self._reaches = {}
        for name, values in held.items():
            if values:
                names, packages = behind(self._namespace, values)
                state = state_of(name)
                self._reaches[state] = self._reaches.get(state, frozenset()) | packages
                if names:
                    self.leads_to[name] = names

    def reached_from(self, unseen: frozenset[str]) -> frozenset[str]:
        """Return the libraries that state leads to, but for what cannot be seen of it."""
        seen = [packages for state, packages in self._reaches.items() if state not in unseen]
        return frozenset().union(*seen)

    def values(self) -> dict[str, Any]:
        """Return the present state of each, and of each key that is not as it was at the start."""
        found: dict[str, Any] = {}
        for name, facet in self._facets.items():
            now = facet.now()
            if facet.has_keys:
                # In a list: None is a value that an option can have.
                found |= {keyed(name, key): [each] for key, each in (now or {}).items()}
            else:
                found[name] = now
        return found

    def can_restore(self, name: str) -> bool:
        """Tell whether a state can be put back, or has to be made again."""
        return self._facets[split(name)[0]].restore is not None

    def digests(self, values: dict[str, Any] | None = None) -> dict[str, str]:
        """Return the digest of each."""
        values = self.values() if values is None else values
        return {
            name: INITIAL if value is None else _digest(name, value)
            for name, value in values.items()
        }

    def filters_below(self, filters: list[tuple[Any, ...]]) -> str:
        """Return the digest of what may have been there when a cell set these filters."""
        others = self.filters.could_have_been(filters)
        return INITIAL if others is None else _digest("$warnings", others)

    @property
    def shows_all(self) -> bool:
        """Whether the value of every line is shown, and not of the last alone."""
        return getattr(self._shell, "ast_node_interactivity", "last_expr") == "all"

    def restore(self, name: str, value: Any) -> None:
        """Put one back to a state it was in."""
        state, key = split(name)
        self._facets[state].put(key, value)
