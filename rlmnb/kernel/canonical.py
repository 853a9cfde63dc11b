"""The digest of a value: equal for equal values in every process, different for different ones.

Pickle's bytes will not do: they depend on which strings are shared objects, on the order of sets,
and for functions and classes on the process. So the object graph is walked, and what is told of
each object is what a program could see of it: contents, sharing, code. The walk also finds which
mutable objects a value is made of, so that variables which share any are known to belong together.
"""

from __future__ import annotations

import copyreg
import hashlib
import sys
import types
from collections.abc import Callable
from typing import Any

from rlmnb.kernel.codenames import names_in

_ATOMS = frozenset({int, float, bool, type(None), str, bytes, complex, type(Ellipsis)})
_FAST = frozenset({int, float, bool, type(None), str, bytes})
# Values of these types never change, so sharing one ties nothing together.
_FROZEN = frozenset(
    {
        "datetime.datetime", "datetime.date", "datetime.time", "datetime.timedelta",
        "datetime.timezone", "decimal.Decimal", "fractions.Fraction", "uuid.UUID", "re.Pattern",
        "pathlib.PosixPath", "pathlib.WindowsPath", "pathlib.PurePosixPath", "builtins.range",
        "builtins.slice", "zoneinfo.ZoneInfo", "operator.itemgetter", "operator.attrgetter",
    }
)  # fmt: skip
_CLASS_NOISE = frozenset(
    {"__dict__", "__weakref__", "__module__", "__doc__", "__firstlineno__", "__static_attributes__"}
)
_MOST_OBJECTS = 2_000_000


class Unstorable(Exception):  # noqa: N818 - not an error: such values are made again when needed
    """A value that cannot be told apart by looking: a generator, a lock, an open file."""


class Walk:
    """One walk over the values of some variables."""

    def __init__(self, namespace: dict[str, Any], token: Callable[[], str]) -> None:
        self.ids: set[int] = set()
        self.refs: set[str] = set()
        self.problem: str | None = None
        self._namespace = namespace
        self._token = token
        self._hash = hashlib.sha256()
        self._memo: dict[int, int] = {}
        # Objects made on the way must live until the end, or another could get their id.
        self._alive: list[Any] = []
        self._roots: set[int] = set()
        self._bases: dict[int, int] = {}

    def variable(self, name: str) -> None:
        """Take in a variable and all that hangs on it."""
        value = self._namespace[name]
        self._tell(b"=", name.encode("utf-8", "surrogatepass"))
        self._roots.add(id(value))
        self.value(value)

    def value(self, value: Any) -> None:
        """Take in a value that no variable holds."""
        try:
            self._value(value)
        except RecursionError:
            self._give_up("too deeply nested to look through")
        except Exception as error:  # noqa: BLE001 - looking at an object runs its own code
            self._give_up(f"cannot be looked through: {type(error).__name__}")

    def digest(self) -> str:
        """Return the digest of all that was taken in."""
        return "sha256:" + self._hash.hexdigest()

    def _tell(self, *parts: bytes) -> None:
        for part in parts:
            self._hash.update(b"%d:" % len(part))
            self._hash.update(part)

    def _give_up(self, why: str) -> None:
        self.problem = self.problem or why
        self._tell(b"?", self._token().encode())

    def _value(self, value: Any) -> None:
        kind = type(value)
        if kind in _ATOMS:
            self._tell(kind.__name__.encode(), repr(value).encode("utf-8", "surrogatepass"))
            return
        if kind is tuple:
            self._sequence(b"tuple", value)
            return
        known = self._memo.get(id(value))
        if known is not None:
            self._tell(b"@", b"%d" % known)
            return
        self._memo[id(value)] = len(self._memo)
        self._alive.append(value)
        if len(self._memo) > _MOST_OBJECTS:
            raise RecursionError
        teller = _TELLERS.get(kind)
        if teller is not None:
            teller(self, value)
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, types.ModuleType):
            self._module(value)
        elif not self._array(value):
            self._reduced(value)

    # containers

    def _sequence(self, tag: bytes, items: Any) -> None:
        self._tell(tag, b"%d" % len(items))
        if set(map(type, items)) <= _FAST:
            self._tell(repr(list(items)).encode("utf-8", "surrogatepass"))
            return
        for item in items:
            self._value(item)

    def _list(self, value: list[Any]) -> None:
        self.ids.add(id(value))
        self._sequence(b"list", value)

    def _dict(self, value: dict[Any, Any]) -> None:
        self.ids.add(id(value))
        if value is self._namespace:
            self.refs.update(key for key in value if isinstance(key, str))
            self._tell(b"globals")
            return
        self._sequence(b"keys", tuple(value))
        self._sequence(b"values", tuple(value.values()))

    def _set(self, value: set[Any]) -> None:
        self.ids.add(id(value))
        self._unordered(b"set", value)

    def _frozenset(self, value: frozenset[Any]) -> None:
        self._unordered(b"frozenset", value)

    def _unordered(self, tag: bytes, items: Any) -> None:
        if set(map(type, items)) <= _FAST:
            self._tell(tag, *sorted(repr(item).encode("utf-8", "surrogatepass") for item in items))
            return
        digests = []
        for item in items:
            inner = Walk(self._namespace, self._token)
            inner._value(item)
            digests.append(inner._hash.digest())
            self.ids |= inner.ids
            self.refs |= inner.refs
            self.problem = self.problem or inner.problem
        self._tell(tag, *sorted(digests))

    def _bytearray(self, value: bytearray) -> None:
        self.ids.add(id(value))
        self._tell(b"bytearray", bytes(value))

    def _cell(self, value: types.CellType) -> None:
        self.ids.add(id(value))
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
        if id(value) in self._roots or self._namespace.get(name) is not value:
            return False
        self.refs.add(name)
        self._tell(b"name", name.encode())
        return True

    def _function(self, value: types.FunctionType) -> None:
        if value.__globals__ is not self._namespace:
            self._importable(value)
            return
        if self._by_name(value, value.__name__):
            return
        self.ids.add(id(value))
        names = names_in(value.__code__)
        self.refs |= names.touched
        self._tell(b"function", value.__qualname__.encode())
        self._code(value.__code__)
        self._value(value.__defaults__)
        self._value(value.__kwdefaults__)
        self._value(value.__closure__)
        if value.__dict__:
            self._value(value.__dict__)

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
        self._tell(b"method")
        self._value(value.__func__)
        self._value(value.__self__)

    def _class(self, value: type) -> None:
        if value.__module__ != self._namespace.get("__name__", "__main__"):
            self._importable(value)
            return
        if self._by_name(value, value.__name__):
            return
        self.ids.add(id(value))
        self._tell(b"class", value.__qualname__.encode())
        self._value(value.__bases__)
        self._value(type(value) if type(value) is not type else None)
        for key in sorted(set(vars(value)) - _CLASS_NOISE):
            self._tell(b"attribute", key.encode())
            self._value(vars(value)[key])

    def _descriptor(self, value: Any) -> None:
        self.ids.add(id(value))
        self._tell(type(value).__name__.encode())
        if isinstance(value, property):
            self._value((value.fget, value.fset, value.fdel))
        else:
            self._value(value.__func__)

    def _module(self, value: types.ModuleType) -> None:
        self._tell(b"module", value.__name__.encode())
        self.refs.add(f"${value.__name__}")

    def _importable(self, value: Any) -> None:
        module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
        if not isinstance(module, str) or not isinstance(name, str):
            self._give_up(f"a {type(value).__name__} with no name")
            return
        found: Any = sys.modules.get(module)
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is not value:
            self._give_up(f"{module}.{name} is not what that name means")
            return
        self._tell(b"import", module.encode(), name.encode())
        self.refs.add(f"${module}")

    def _builtin(self, value: Any) -> None:
        owner = getattr(value, "__self__", None)
        if owner is None or isinstance(owner, types.ModuleType):
            self._tell(b"builtin", value.__name__.encode())
        else:
            self._tell(b"bound", value.__name__.encode())
            self._value(owner)

    # everything else

    def _array(self, value: Any) -> bool:
        numpy = sys.modules.get("numpy")
        if numpy is None or not isinstance(value, numpy.ndarray | numpy.generic):
            return False
        if isinstance(value, numpy.generic):
            self._tell(b"scalar", value.dtype.str.encode(), value.tobytes())
            return True
        root = value
        while isinstance(root.base, numpy.ndarray):
            root = root.base
        self.ids.add(id(root))
        self._alive.append(root)
        if self._bases.setdefault(id(root), id(value)) != id(value):
            self.problem = self.problem or "arrays that share memory"
        self._tell(b"array", type(value).__name__.encode(), repr(value.dtype).encode())
        self._tell(repr((value.shape, value.flags.writeable)).encode())
        if value.dtype.hasobject:
            self._sequence(b"items", value.ravel().tolist())
        else:
            flat = numpy.ascontiguousarray(value).reshape(-1)
            self._hash.update(flat.view(numpy.uint8) if flat.size else b"")
        return True

    def _reduced(self, value: Any) -> None:
        kind = type(value)
        name = f"{kind.__module__}.{kind.__qualname__}"
        if name not in _FROZEN:
            self.ids.add(id(value))
        try:
            reducer = copyreg.dispatch_table.get(kind)
            reduced: Any = reducer(value) if reducer is not None else value.__reduce_ex__(4)
        except Exception:  # noqa: BLE001 - whatever a class does when asked, it is not storable
            self._give_up(f"a {name}")
            return
        self._tell(b"object", name.encode())
        if isinstance(reduced, str):
            self._tell(b"global", reduced.encode())
            return
        parts: tuple[Any, ...] = (*reduced, None, None, None, None)
        make, args, state, items, pairs = parts[:5]
        self._alive.append(reduced)
        self._value(make)
        self._value(args)
        self._value(state)
        self._value(list(items) if items is not None else None)
        self._value([tuple(pair) for pair in pairs] if pairs is not None else None)


def value_digest(namespace: dict[str, Any], value: Any) -> str:
    """Return the digest of one value; what cannot be told apart is known by its type alone."""
    walk = Walk(namespace, lambda: type(value).__name__)
    walk.value(value)
    return walk.digest()


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
}
