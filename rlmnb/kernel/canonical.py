"""The digest of a value: equal for equal values in every process, different for different ones.

Pickle's bytes will not do: they depend on which strings are shared objects, on the order of sets,
and for functions and classes on the process. So the object graph is walked, and what is told of
each object is what a program could see of it: contents, sharing, code. The walk also finds which
mutable objects a value is made of, so that variables which share any are known to belong together.
"""

from __future__ import annotations

import abc
import collections
import contextvars
import copyreg
import enum
import functools
import gc
import hashlib
import os
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

from rlmnb.kernel.classes import can_keep_slots
from rlmnb.kernel.codenames import OPAQUE_ATTRIBUTES, names_in
from rlmnb.kernel.findable import importable_name, is_empty_metadata, is_found, singleton_name
from rlmnb.kernel.frames import (
    copies_before_it_writes,
    is_column,
    is_column_type,
    without_cache,
)
from rlmnb.kernel.history import is_history
from rlmnb.kernel.identity import identity
from rlmnb.kernel.lasting import lasting_in
from rlmnb.kernel.sight import CALLS, DEFINES, LASTS, REMEMBERS, UNKNOWN, telling

_ATOMS = frozenset({int, float, bool, type(None), str, bytes, complex, type(Ellipsis)})
_PLAIN = frozenset({list, dict, set, frozenset, bytearray})
# Libraries whose objects come back from a pickle as what they were.
_TRUSTED = frozenset(
    {
        "builtins", "collections", "copyreg", "datetime", "decimal", "fractions", "functools",
        "itertools", "numpy", "pandas", "pathlib", "random", "re", "uuid",
    }
)  # fmt: skip
_FAST = frozenset({int, float, bool, type(None), str, bytes})
# Values of these types never change, so sharing one ties nothing together.
_FROZEN = frozenset(
    {
        "datetime.datetime", "datetime.date", "datetime.time", "datetime.timedelta",
        "datetime.timezone", "decimal.Decimal", "fractions.Fraction", "uuid.UUID", "re.Pattern",
        "pathlib.PosixPath", "pathlib.WindowsPath", "pathlib.PurePosixPath", "builtins.range",
        "builtins.slice", "zoneinfo.ZoneInfo", "operator.itemgetter", "operator.attrgetter",
        "pandas.Timestamp", "pandas.Timedelta", "pandas.Period", "pandas.Interval",
        "pandas.api.typing.NaTType",
    }
)  # fmt: skip
_CLASS_NOISE = frozenset(
    {
        "__dict__", "__weakref__", "__module__", "__firstlineno__", "__static_attributes__",
        "_abc_impl", "__slotnames__",
    }
)  # fmt: skip
_MOST_OBJECTS = 4_000_000
# Deeper than this pickle's own recursion could end the process; such values are made again.
_DEEPEST_STORED = 200
_DEEPEST = 50_000
# Names through which a function can reach any variable; whoever calls it can, too.
ANY_NAME = "globals"


class Unstorable(Exception):  # noqa: N818 - not an error: such values are made again when needed
    """A value that cannot be told apart by looking: a generator, a lock, an open file."""


_single = [object()]
_HELD_HERE_ONLY = sys.getrefcount(_single[0])


class _Shared:
    """What a walk and the walks inside it have in common."""

    __slots__ = ("alive", "count", "items", "settings", "took_apart")

    def __init__(self) -> None:
        self.count = 0
        # Objects were taken apart as for a pickle, into things that were made for that.
        self.took_apart = False
        # Objects made on the way must live until the end, or another could get their id.
        self.alive: list[Any] = []
        # Lists among matplotlib's settings: its objects have them as they are.
        self.settings: list[Any] | None = None
        # Members of sets, walked once each however many sets they are in.
        self.items: dict[int, Walk | None] = {}


class Walk:
    """One walk over the values of some variables.

    `refs` are the variables it leads to by name; of these, `held` are the functions and classes
    that it holds itself, and `plain` tells that it met nothing but data of Python's own kinds.
    """

    def __init__(
        self,
        namespace: dict[str, Any],
        token: Callable[[], str],
        shared: _Shared | None = None,
    ) -> None:
        self.ids: set[int] = set()
        # What frames hold and copy before they write: one never shows what is done to another,
        # but whoever has such a thing in hand can change it under them.
        self.lent: set[int] = set()
        self.refs: set[str] = set()
        self.held: set[str] = set()
        # The libraries that what was met belongs to; not all of them are known by a reference.
        self._packages: set[str] = set()
        self.problem: str | None = None
        self.plain = True
        # Objects of classes that may come back from a pickle as something else were met.
        self.custom = False
        # Objects that do something when they are let go were met.
        self.has_last_words = False
        self._copied = 0
        self._of_type = 0
        self._shared = shared or _Shared()
        self._depth = 0
        self._namespace = namespace
        self._token = token
        self._hash = hashlib.sha256()
        self._memo: dict[int, int] = {}
        self._roots: set[int] = set()
        self._bases: dict[int, int] = {}

    def variable(self, name: str) -> None:
        """Take in a variable and all that hangs on it."""
        value = self._namespace[name]
        self._tell(b"=", name.encode("utf-8", "surrogatepass"))
        self._roots.add(identity(value))
        self.value(value)

    def value(self, value: Any) -> None:
        """Take in a value that no variable holds."""
        limit = sys.getrecursionlimit()
        # Walking is Python calling Python, which takes no stack of the system's.
        sys.setrecursionlimit(max(limit, 4 * _DEEPEST))
        try:
            self._value(value)
        except RecursionError:
            self.give_up("too large or too deep to look through")
        except BaseException as error:  # noqa: BLE001 - looking at an object runs its own code
            self.give_up(f"cannot be looked through: {type(error).__name__}")
        finally:
            sys.setrecursionlimit(limit)

    def drop_passing(self) -> None:
        """Leave out what was made only to be looked at, once nothing more is taken in.

        It goes with this walk, and whatever stands in its place then shares nothing with anyone.
        """
        alive = self._shared.alive if self._shared.took_apart else []
        # What holds another comes before it, and lets it go.
        for at in range(len(alive)):
            if sys.getrefcount(alive[at]) == _HELD_HERE_ONLY:
                passing = identity(alive[at])
                self.ids.discard(passing)
                self.lent.discard(passing)
                alive[at] = None

    def digest(self) -> str:
        """Return the digest of all that was taken in."""
        return "sha256:" + self._hash.hexdigest()

    @property
    def packages(self) -> set[str]:
        """The libraries that what was met belongs to."""
        found = self._packages.union(ref[1:] for ref in self.refs if ref.startswith("$"))
        return {name.partition(".")[0] for name in found}

    def _tell(self, *parts: bytes) -> None:
        self._hash.update(b"".join([b"%d:%b" % (len(part), part) for part in parts]))

    def give_up(self, why: str) -> None:
        """Take what is being looked at for something that cannot be told apart by looking."""
        self.problem = self.problem or why
        self._packages.add(UNKNOWN)
        self._tell(b"?", self._token().encode())

    def _value(self, value: Any) -> None:
        kind = type(value)
        if kind in _ATOMS:
            self._tell(kind.__name__.encode(), repr(value).encode("utf-8", "surrogatepass"))
            return
        if kind is tuple and set(map(type, value)) <= _FAST:
            self._sequence(b"tuple", value)
            return
        known = self._memo.get(identity(value))
        if known is not None:
            self._tell(b"@", b"%d" % known)
            return
        self._memo[identity(value)] = len(self._memo)
        self._shared.alive.append(value)
        self._shared.count += 1
        self._depth += 1
        if self._shared.count > _MOST_OBJECTS or self._depth > _DEEPEST:
            raise RecursionError
        if self._depth > _DEEPEST_STORED:
            self._packages.add(CALLS)  # to go through it is to call oneself, in C
            self.problem = self.problem or "too deeply nested to store"
        self._told(kind, value)
        self._depth -= 1

    def _told(self, kind: type, value: Any) -> None:
        if kind is tuple:
            self._sequence(b"tuple", value)
            return
        if kind not in _PLAIN:
            self.plain = False
        teller = _TELLERS.get(kind)
        if teller is not None:
            teller(self, value)
        elif issubclass(kind, type):
            self._class(value)
        elif issubclass(kind, types.ModuleType):
            self._module(value)
        elif issubclass(kind, enum.Enum):
            # There is one of each for as long as there is the class, so sharing ties nothing.
            self._tell(b"member", str(value._name_).encode("utf-8", "surrogatepass"))
            self._value(value._value_)
            self._value(kind)
            if own := {key: each for key, each in vars(value).items() if key[:1] != "_"}:
                self._value(own)
                self.problem = self.problem or "a member of an enumeration with more to it"
        elif not self._array(value):
            if kind.__module__.partition(".")[0] not in _TRUSTED:
                self.custom = True
            copied, of_type = copies_before_it_writes(value), is_column_type(value)
            self._copied += copied
            self._of_type += of_type
            self._reduced(value)
            self._copied -= copied
            self._of_type -= of_type
            if issubclass(kind, BaseException) and value.__traceback__ is not None:
                self._value((value.__cause__, value.__context__, _lines_of(value.__traceback__)))
                self.problem = self.problem or "an exception with its traceback"

    # containers

    def _sequence(self, tag: bytes, items: Any) -> None:
        self._tell(tag, b"%d" % len(items))
        if set(map(type, items)) <= _FAST:
            self._tell(repr(list(items)).encode("utf-8", "surrogatepass"))
            return
        for item in items:
            self._value(item)

    def _list(self, value: list[Any]) -> None:
        self.ids.add(identity(value))
        if value is sys.path or value is sys.argv:
            self.problem = self.problem or "a list that is Python's own"
        self._sequence(b"list", value)

    def _dict(self, value: dict[Any, Any]) -> None:
        self.ids.add(identity(value))
        if value is self._namespace:
            self.refs.update(key for key in value if isinstance(key, str))
            self._tell(b"globals")
            return
        if set(map(type, value)) <= _FAST and set(map(type, value.values())) <= _FAST:
            self._tell(b"dict", repr(value).encode("utf-8", "surrogatepass"))
            return
        self._sequence(b"keys", tuple(value))
        self._sequence(b"values", tuple(value.values()))

    def _set(self, value: set[Any]) -> None:
        self.ids.add(identity(value))
        self._unordered(b"set", value)

    def _frozenset(self, value: frozenset[Any]) -> None:
        self._unordered(b"frozenset", value)

    def _unordered(self, tag: bytes, items: Any) -> None:
        if set(map(type, items)) <= _FAST:
            self._tell(tag, *sorted(repr(item).encode("utf-8", "surrogatepass") for item in items))
            return
        self._tell(tag, *sorted(self._member(item) for item in items))

    def _member(self, item: Any) -> bytes:
        """Return the digest of a set's member, which must not depend on the order of the set."""
        known = self._shared.items
        if identity(item) not in known:
            known[identity(item)] = None
            inner = Walk(self._namespace, self._token, self._shared)
            inner._depth = self._depth
            inner._value(item)
            # Going round in a circle, both would live on, and keep alive what was looked at.
            inner._shared = _Shared()
            known[identity(item)] = inner
        found = known[identity(item)]
        if found is None:
            return b"around"  # it is a member of something it holds itself
        self.ids |= found.ids
        self.lent |= found.lent
        self.refs |= found.refs
        self._packages |= found._packages
        self.held |= found.held
        self.plain = self.plain and found.plain
        self.custom = self.custom or found.custom
        self.has_last_words = self.has_last_words or found.has_last_words
        self.problem = self.problem or found.problem
        return found._hash.digest()

    def _bytearray(self, value: bytearray) -> None:
        self.ids.add(identity(value))
        self._tell(b"bytearray", bytes(value))

    def _cell(self, value: types.CellType) -> None:
        self.ids.add(identity(value))
        try:
            contents = value.cell_contents
        except ValueError:
            self._tell(b"empty cell")
            return
        self._tell(b"cell")
        self._value(contents)

    # code

    def _by_name(self, value: Any, name: str) -> bool:
        """Tell of something the notebook has under its own name by that name alone."""
        if identity(value) in self._roots or self._namespace.get(name) is not value:
            return False
        if is_history(name):
            return False  # the next cell may have another thing there
        self.refs.add(name)
        self.held.add(name)
        self._tell(b"name", name.encode())
        return True

    def _function(self, value: types.FunctionType) -> None:
        foreign = value.__globals__ is not self._namespace
        if foreign and importable_name(value) is not None:
            self._importable(value)
            return
        if not foreign and self._by_name(value, value.__name__):
            return
        self.ids.add(identity(value))
        names = names_in(value.__code__)
        self.refs.update(f"${module}" for module in names.imports)
        if foreign:
            self.refs.add(f"${value.__globals__.get('__name__')}")
        else:
            self._packages |= {CALLS, DEFINES}
            self._packages |= {LASTS} if lasting_in(value.__code__) else set()
            self.refs |= names.touched
            if names.attributes & OPAQUE_ATTRIBUTES or "get_ipython" in names.reads:
                self.refs.add(ANY_NAME)
        self._tell(b"function", value.__qualname__.encode())
        self._code(value.__code__)
        self._value(value.__defaults__)
        self._value(value.__kwdefaults__)
        self._value(value.__closure__)
        self._value(value.__doc__)
        if value.__annotations__:
            self._value(value.__annotations__)
        if value.__dict__:
            self._value(value.__dict__)

    def _cached(self, value: Any) -> None:
        """Tell of a function with a cache: what is in the cache can be seen, and changes."""
        if self._by_name(value, getattr(value, "__name__", "")):
            return
        self.ids.add(identity(value))
        self._packages.add(REMEMBERS)
        used = value.cache_info()
        self._tell(b"cached", repr((used, value.cache_parameters())).encode())
        self._value(value.__wrapped__)
        # Of what is in the cache, the keys; the values follow from them and the function.
        self._value([list(each) for each in gc.get_referents(value) if type(each) is dict])
        if used.misses or used.currsize:
            self.problem = self.problem or "a cache that was used"

    def _proxy(self, value: Any) -> None:
        self._tell(b"proxy")
        if is_empty_metadata(value):
            return
        self._value(next(each for each in gc.get_referents(value)))

    def _weak(self, value: Any) -> None:
        """Tie a weak reference to what it refers to; it cannot be stored, and is made again."""
        referent = value()
        if referent is not None:
            self._tie(referent)
        self.give_up("a weak reference")

    def _iterator(self, value: Any) -> None:
        """Tie an iterator to what it goes through; it may come back as one of another kind."""
        self.ids.add(identity(value))
        self.give_up(f"a {type(value).__name__}")
        self._tie_parts(value)

    def _tie(self, *values: Any) -> None:
        """Take in what values are made of and lead to, without telling of it."""
        inner = Walk(self._namespace, lambda: "", self._shared)
        inner._memo = dict.fromkeys(self._memo, 0)
        inner._depth = self._depth
        for value in values:
            inner._value(value)
        self.ids |= inner.ids
        self.lent |= inner.lent
        self.refs |= inner.refs
        self._packages |= inner._packages
        self.held |= inner.held

    def _tie_parts(self, value: Any) -> None:
        """Take in what an object holds that cannot be looked through any other way."""
        code = getattr(value, "gi_code", None) or getattr(value, "cr_code", None)
        if isinstance(code, types.CodeType):
            self.refs |= names_in(code).touched
        for part in gc.get_referents(value):
            around = type(part) is dict and ("__builtins__" in part or part is self._namespace)
            if not around and not isinstance(part, type | types.ModuleType | types.CodeType):
                self._tie(part)

    def _code(self, code: types.CodeType) -> None:
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        self._tell(b"code", code.co_code, repr(counts).encode(), code.co_exceptiontable)
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        self._tell(repr(names).encode("utf-8", "surrogatepass"))
        for constant in code.co_consts:
            self._constant(constant)

    def _constant(self, constant: object) -> None:
        if isinstance(constant, types.CodeType):
            self._code(constant)
        elif isinstance(constant, tuple):
            self._tell(b"constants", b"%d" % len(constant))
            for inner in constant:
                self._constant(inner)
        elif isinstance(constant, frozenset):
            self._unordered(b"frozenset", constant)
        else:
            self._value(constant)

    def _method(self, value: types.MethodType) -> None:
        if _tells_the_shell(value):
            self._tell(b"excepthook")
            return
        self._tell(b"method")
        self._value(value.__func__)
        self._value(value.__self__)

    def _class(self, value: type) -> None:
        if value.__module__ != self._namespace.get("__name__", "__main__"):
            self._importable(value)
            return
        if self._by_name(value, value.__name__):
            return
        self.ids.add(identity(value))
        self._packages.add(DEFINES)
        self._tell(b"class", value.__qualname__.encode())
        self._value(value.__bases__)
        self._value(type(value) if type(value) is not type else None)
        if not can_keep_slots(value):
            self.problem = self.problem or "a class with slots of an iterator"
        for key in sorted(set(vars(value)) - _CLASS_NOISE):
            self._tell(b"attribute", key.encode())
            self._value(vars(value)[key])
        if isinstance(value, abc.ABCMeta):
            known = [each() for each in abc._get_dump(value)[0]]  # type: ignore[attr-defined]
            if registered := [each for each in known if each is not None]:
                self._unordered(b"registered", registered)

    def _descriptor(self, value: Any) -> None:
        self.ids.add(identity(value))
        self._tell(type(value).__name__.encode())
        if isinstance(value, property):
            self._value((value.fget, value.fset, value.fdel))
        else:
            self._value(value.__func__)

    def _module(self, value: types.ModuleType) -> None:
        self._tell(b"module", value.__name__.encode())
        if sys.modules.get(value.__name__) is value:
            self.refs.add(f"${value.__name__}")
            return
        # It was made by hand and cannot be imported: it is an object with attributes.
        self.ids.add(identity(value))
        self.problem = self.problem or "a module that cannot be imported"
        for key in sorted(set(vars(value)) - {"__builtins__"}):
            self._tell(b"attribute", key.encode())
            self._value(vars(value)[key])

    def _importable(self, value: Any) -> None:
        name = importable_name(value)
        if name is None:
            self.give_up(f"a {type(value).__name__} that cannot be imported")
            return
        self._tell(b"import", name[0].encode(), name[1].encode())
        self.refs.add(f"${name[0]}")

    def _builtin(self, value: Any) -> None:
        owner = getattr(value, "__self__", None)
        if owner is None or isinstance(owner, types.ModuleType):
            self._tell(b"builtin", str(value.__module__).encode(), value.__name__.encode())
            self._packages.add(str(value.__module__))
        else:
            self._tell(b"bound", value.__name__.encode())
            self._value(owner)

    # everything else

    def _array(self, value: Any) -> bool:
        numpy = sys.modules.get("numpy")
        if numpy is None or not isinstance(value, numpy.ndarray | numpy.generic):
            return False
        self._packages.add("numpy")
        if isinstance(value, numpy.generic):
            self._tell(b"scalar", value.dtype.str.encode(), value.tobytes())
            return True
        root = value
        while isinstance(root.base, numpy.ndarray):
            root = root.base
        if self._copied:
            self.lent.add(identity(root))
            self._shared.alive.append(root)
            self._array_contents(value, numpy)
            return True
        if root.base is not None and type(root.base) in (bytearray, memoryview):
            self._tie(root.base)
            self.problem = self.problem or "an array in memory of something else"
        self.ids.add(identity(root))
        self._shared.alive.append(root)
        if self._bases.setdefault(identity(root), identity(value)) != identity(value):
            self.problem = self.problem or "arrays that share memory"
        self._array_contents(value, numpy)
        return True

    def _array_contents(self, value: Any, numpy: Any) -> None:
        self._tell(b"array", type(value).__name__.encode(), repr(value.dtype).encode())
        flags = value.flags
        self._tell(repr((value.shape, flags.writeable, flags.f_contiguous)).encode())
        if type(value) is not numpy.ndarray:
            self._value(getattr(value, "__dict__", None))
        if value.dtype.hasobject:
            # What is in a frame may be in another, too, and is not copied.
            copied, self._copied = self._copied, 0
            self._sequence(b"items", value.ravel().tolist())
            self._copied = copied
        else:
            flat = numpy.ascontiguousarray(value).reshape(-1)
            self._hash.update(flat.view(numpy.uint8) if flat.size else b"")

    def _lent_by_library(self, kind: type, state: Any) -> None:
        """Take in what an object of matplotlib's has from it: that ties it to no other."""
        if not kind.__module__.startswith("matplotlib"):
            return
        values = state if isinstance(state, tuple) else (state,)
        parts = {
            identity(each) for part in values if isinstance(part, dict) for each in part.values()
        }
        own = self.ids.copy()
        if self._shared.settings is None:
            settings: Any = getattr(sys.modules.get("matplotlib"), "rcParams", {})
            self._shared.settings = [
                each for each in dict.values(settings) if isinstance(each, list)
            ]
        for each in (*self._shared.settings, *_objects_around(kind)):
            if identity(each) in parts:
                self._value(each)
        self.ids = own

    def _global(self, value: Any, name: str) -> None:
        """Tell of an object for which its name stands, if it can be had by that."""
        if not is_found(value, name):
            self.give_up(f"a {type(value).__name__} that cannot be imported")
            self._tie_parts(value)
            return
        self._tell(b"global", name.encode())
        self._packages.add(DEFINES)
        if type(value).__module__ != "__main__":
            # A library's own, such as a compiled function: to have it too is to share nothing.
            self.ids.discard(identity(value))

    def _reduced(self, value: Any) -> None:
        kind = type(value)
        name = f"{kind.__module__}.{kind.__qualname__}"
        if kind.__module__ != "__main__":
            self._packages.add(kind.__module__)
        elif hasattr(kind, "__del__"):
            self.has_last_words = True
        if (known := singleton_name(value)) is not None:
            self._tell(b"import", known[0].encode(), known[1].encode())
            self.refs.add(f"${known[0]}")
            return
        if self._of_type or (self._copied and is_column(value)):
            self.lent.add(identity(value))
        elif name not in _FROZEN and kind.__module__ != "numpy.dtypes":
            self.ids.add(identity(value))
        try:
            reducer = copyreg.dispatch_table.get(kind)
            reduced: Any = reducer(value) if reducer is not None else value.__reduce_ex__(4)
        except RecursionError:
            raise
        except BaseException:  # noqa: BLE001 - whatever a class does when asked, it is not storable
            self.give_up(f"a {name}")
            self._tie_parts(value)
            return
        if _is_in_force(value):
            self.problem = self.problem or "the context that decimal goes by"
        self._tell(b"object", name.encode())
        if kind.__module__ == "__main__" and hasattr(kind, "__dict__"):
            # What a class of the notebook leaves out of its pickles is part of it all the same.
            self._value(getattr(value, "__dict__", None))
        if isinstance(reduced, str):
            self._global(value, reduced)
            return
        parts: tuple[Any, ...] = (*reduced, None, None, None, None)
        make, args, state, items, pairs = parts[:5]
        state = without_cache(value, state)
        self._shared.took_apart = True
        self._shared.alive.append(reduced)
        self._lent_by_library(kind, state)
        self._value(make)
        self._value(args)
        self._value(state)
        if isinstance(state, dict) and kind.__module__.partition(".")[0] in _TRUSTED:
            # What an object has from its class, all of that class have: they share no more by it.
            held = {
                identity(each)
                for key, each in state.items()
                if each is getattr(kind, str(key), None)
            }
            self.ids -= held
        self._value(list(items) if items is not None else None)
        self._value([tuple(pair) for pair in pairs] if pairs is not None else None)


@functools.cache
def _objects_around(kind: type) -> tuple[Any, ...]:
    """Return what a class of matplotlib, those above it and beside it hold for all objects."""
    beside = vars(sys.modules[kind.__module__]) if kind.__module__ in sys.modules else {}
    classes = [each for each in beside.values() if isinstance(each, type)]
    places: list[Any] = [*kind.__mro__[:-1], *classes]
    return tuple(
        value
        for value in [
            *beside.values(),
            *(each for place in places for each in vars(place).values()),
        ]
        if type(value).__module__.startswith(("matplotlib", "numpy"))
        and not isinstance(value, type)
    )


def _is_in_force(value: Any) -> bool:
    """Tell whether this is the context that decimal goes by."""
    if type(value).__module__ != "decimal" or type(value).__name__ != "Context":
        return False
    return any(each is value for each in contextvars.copy_context().values())


def _lines_of(traceback: types.TracebackType | None) -> list[tuple[str, int]]:
    """Return where an exception came along, as any kernel would tell."""
    found = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        found.append((f"{os.path.basename(code.co_filename)} {code.co_name}", traceback.tb_lineno))
        traceback = traceback.tb_next
    return found


def _tells_the_shell(value: types.MethodType) -> bool:
    """Tell whether a method is how the shell hears of errors.

    Every thread holds it. It leads to the whole shell, which is nothing that a thread is made of.
    """
    package = type(value.__self__).__module__.partition(".")[0]
    return value.__name__ == "excepthook" and package in ("IPython", "ipykernel", "rlmnb")


def value_digest(namespace: dict[str, Any], value: Any) -> str:
    """Return the digest of one value; what cannot be told apart is known by its type alone."""
    walk = Walk(namespace, lambda: type(value).__name__)
    walk.value(value)
    return walk.digest()


def behind(namespace: dict[str, Any], value: Any) -> tuple[set[str], frozenset[str]]:
    """Return the variables that a value leads to by name, and the libraries it is made with."""
    walk = Walk(namespace, lambda: "")
    walk.value(value)
    return {ref for ref in walk.refs if not ref.startswith("$")}, telling(walk.packages)


_EMPTY: tuple[Any, ...] = ({}, {}.values(), {}.items())
_ITERATORS = frozenset(
    type(each)
    for each in (
        *map(iter, (*_EMPTY, set(), collections.OrderedDict())),
        *map(reversed, (*_EMPTY, [])),
    )
)
_TELLERS: dict[type, Callable[[Walk, Any], None]] = {
    list: Walk._list,
    dict: Walk._dict,
    set: Walk._set,
    frozenset: Walk._frozenset,
    bytearray: Walk._bytearray,
    types.CellType: Walk._cell,
    types.FunctionType: Walk._function,
    types.MethodType: Walk._method,
    types.BuiltinFunctionType: Walk._builtin,
    staticmethod: Walk._descriptor,
    classmethod: Walk._descriptor,
    property: Walk._descriptor,
    type(functools.lru_cache(int)): Walk._cached,
    types.MappingProxyType: Walk._proxy,
    weakref.ref: Walk._weak,
    **dict.fromkeys(_ITERATORS, Walk._iterator),
}
