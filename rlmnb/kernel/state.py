"""Variables as bytes: stored together where they share objects, and sharing when they come back.

Functions of the notebook come back bound to the live namespace, so rebinding a global has the
effect it always has. What is stored is signed with the user's own key; anything else is never
unpickled.
"""

from __future__ import annotations

import collections
import enum
import functools
import gc
import hmac
import importlib
import io
import os
import pickle
import sys
import types
from collections.abc import Callable
from typing import Any

import cloudpickle

from rlmnb.errors import ObjectError
from rlmnb.files import Lock, make_directory, read_bytes, write_atomic
from rlmnb.kernel.classes import (
    equal_to_inherited,
    fill_class,
    keep_order,
    make_class,
    move_slots,
    runs_code_when_made,
)
from rlmnb.kernel.findable import importable_name, is_empty_metadata, singleton_name
from rlmnb.kernel.identity import identity
from rlmnb.store.variables import MAGIC, SIGNATURE_BYTES, Variables, packed, unpacked

_NAMESPACE, _NAME, _MODULE, _SINGLE = "namespace", "name", "module", "single"
_Cached = type(functools.lru_cache(int))
_DATA = frozenset({list, tuple, set, frozenset, str, bytes, int, float, bool, type(None), complex})
_SMALL_ARRAY = 1024 * 1024
_LARGEST_FILE = 64 * 1024 * 1024
_KEY_BYTES = 32
_KEY_SECONDS = 10.0


def load_key(root: str) -> bytes:
    """Return the user's own key, made when it is first needed and readable by nobody else."""
    path = os.path.join(root, ".key")
    key = _key_at(path)
    if key is None:
        make_directory(root)
        # Kernels that start together must come to one key, and see none that is half there.
        with Lock(path + ".lock", timeout=_KEY_SECONDS):
            key = _key_at(path)
            if key is None:
                key = os.urandom(_KEY_BYTES)
                write_atomic(path, key)
    return key


def _key_at(path: str) -> bytes | None:
    try:
        key = read_bytes(path)
    except FileNotFoundError:
        return None
    return key if len(key) >= _KEY_BYTES else None


def _make_function(
    code: types.CodeType, namespace: dict[str, Any], name: str, closure: tuple[Any, ...] | None
) -> types.FunctionType:
    return types.FunctionType(code, namespace, name, None, closure)


def _fill_function(function: types.FunctionType, state: dict[str, Any]) -> None:
    function.__dict__.update(state.pop("__dict__"))
    for key, value in state.items():
        setattr(function, key, value)


def _fill_cell(cell: types.CellType, contents: tuple[Any, ...]) -> None:
    if contents:
        cell.cell_contents = contents[0]


_FUNCTION_STATE = (
    "__defaults__",
    "__kwdefaults__",
    "__qualname__",
    "__module__",
    "__doc__",
    "__annotations__",
)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles variables of a namespace, leaving out what the namespace has under its own name."""

    def __init__(
        self,
        file: io.BytesIO,
        namespace: dict[str, Any],
        roots: set[int],
        buffers: list[pickle.PickleBuffer],
    ) -> None:
        super().__init__(file, protocol=5, buffer_callback=buffers.append)
        self._namespace = namespace
        self._roots = roots

    def persistent_id(self, value: Any) -> tuple[str, ...] | None:
        if value is self._namespace:
            return (_NAMESPACE,)
        kind = type(value)
        if kind is dict:
            return _module_of(value)
        if kind in _DATA:
            return _library_nan(value) if kind is float and value != value else None
        if (
            isinstance(value, types.FunctionType | type | _Cached)
            and identity(value) not in self._roots
        ):
            name = getattr(value, "__name__", "")
            if value.__module__ == "__main__" and self._namespace.get(name) is value:
                return (_NAME, name)
        elif (known := singleton_name(value)) is not None:
            return (_SINGLE, *known)
        return None

    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        if kind is types.CellType:
            try:
                contents: tuple[Any, ...] = (value.cell_contents,)
            except ValueError:
                contents = ()
            return types.CellType, (), contents, None, None, _fill_cell
        if kind is types.FunctionType and self._is_ours(value):
            state = {key: getattr(value, key) for key in _FUNCTION_STATE}
            state["__dict__"] = dict(value.__dict__)
            args = (value.__code__, value.__globals__, value.__name__, value.__closure__)
            return _make_function, args, state, None, None, _fill_function
        if kind is _Cached:
            return _make_cached, (value.cache_parameters(), value.__wrapped__)
        if kind is types.MappingProxyType and is_empty_metadata(value):
            return _empty_metadata, ()
        if kind is types.MappingProxyType:
            return types.MappingProxyType, (gc.get_referents(value)[0],)
        is_array = kind.__module__ == "numpy" and kind.__name__ == "ndarray"
        if is_array and (_is_small_owner(value) or not value.flags.writeable):
            # Made of a buffer, an array would not own its memory, which a program can see.
            return value.__reduce__() if value.flags.writeable else (_read_only, (value.copy("K"),))
        if isinstance(value, type) and value.__bases__ == (tuple,) and "_fields" in vars(value):
            return _make_named_tuple, _named_tuple_parts(value)
        reduced = super().reducer_override(value)
        if isinstance(value, type) and isinstance(reduced, tuple) and len(reduced) == 6:
            reduced[2][0]["__qualname__"] = value.__qualname__  # cloudpickle leaves it out
            if isinstance(value, enum.EnumMeta):
                return reduced
            reduced[2][0].update(equal_to_inherited(value))
            move_slots(value, reduced[1][3], reduced[2][0])
            keep_order(value, reduced[2][0])
            if runs_code_when_made(value):
                return (make_class, reduced[1], *reduced[2:5], fill_class)
        return reduced

    def _is_ours(self, value: types.FunctionType) -> bool:
        """Tell whether a function is to live on with live globals: the notebook's, a module's."""
        if value.__globals__ is self._namespace:
            return True
        return importable_name(value) is None and _module_of(value.__globals__) is not None


def _library_nan(value: float) -> tuple[str, ...] | None:
    """Return how to name the one that a library has: `is np.nan` is how people ask for it."""
    for name in ("numpy", "math"):
        if value is getattr(sys.modules.get(name), "nan", None):
            return (_SINGLE, name, "nan")
    return None


def _read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array


def _is_small_owner(array: Any) -> bool:
    return array.base is None and array.nbytes < _SMALL_ARRAY


def _module_of(contents: dict[str, Any]) -> tuple[str, str] | None:
    """Return how to name the contents of a module, None for any other dict."""
    name = contents.get("__name__")
    module = sys.modules.get(name) if isinstance(name, str) and name != "__main__" else None
    return (_MODULE, name) if module is not None and vars(module) is contents else None  # type: ignore[return-value]


def _empty_metadata() -> Any:
    return importlib.import_module("dataclasses")._EMPTY_METADATA


def _make_cached(parameters: dict[str, Any], function: Any) -> Any:
    return functools.lru_cache(**parameters)(function)


_named_tuple: Any = collections.namedtuple  # noqa: PYI024 - made at run time, of any fields
_NAMED_TUPLE = frozenset(vars(_named_tuple("_Empty", ()))) - {"__doc__"}


def _named_tuple_parts(value: Any) -> tuple[Any, ...]:
    """Take a named tuple's class apart: pickled as any other class, it would lose its slots."""
    known = _NAMED_TUPLE | {*value._fields}
    extra = {key: each for key, each in vars(value).items() if key not in known}
    defaults = tuple(value._field_defaults.values())
    return value.__name__, value._fields, defaults, {**extra, "__qualname__": value.__qualname__}


def _make_named_tuple(
    name: str, fields: tuple[str, ...], defaults: tuple[Any, ...], extra: dict[str, Any]
) -> Any:
    made = _named_tuple(name, fields, defaults=defaults or None, module="__main__")
    for key, value in extra.items():
        setattr(made, key, value)
    return made


class _Unpickler(pickle.Unpickler):
    def __init__(
        self,
        file: io.BytesIO,
        namespace: dict[str, Any],
        buffers: list[Any],
        find: Callable[[str], Any],
    ) -> None:
        super().__init__(file, buffers=buffers)
        self._namespace = namespace
        self._find = find

    def persistent_load(self, key: tuple[str, ...]) -> Any:
        if key[0] == _NAMESPACE:
            return self._namespace
        if key[0] == _NAME:
            return self._find(key[1])
        module = importlib.import_module(key[1])
        return vars(module) if key[0] == _MODULE else vars(module)[key[2]]


class StateStore:
    """State under its digest, signed with the user's key.

    With `later`, small pieces wait for `flush`.
    """

    def __init__(self, objects: str, key: bytes, *, later: bool = False) -> None:
        self._variables = Variables(objects)
        self._later = later
        self._key = key

    def save(self, namespace: dict[str, Any], names: tuple[str, ...], limit: int) -> str | None:
        """Store these variables together; None if they are more than `limit` bytes."""
        return self.save_values(namespace, {name: namespace[name] for name in names}, limit)

    def save_values(
        self, namespace: dict[str, Any], values: dict[str, Any], limit: int
    ) -> str | None:
        """Store values that belong together, leaving out what the namespace has by name."""
        buffers: list[pickle.PickleBuffer] = []
        file = io.BytesIO()
        roots = {identity(value) for value in values.values()}
        _Pickler(file, namespace, roots, buffers).dump(values)
        raw = [buffer.raw() for buffer in buffers]
        if file.tell() + sum(len(each) for each in raw) > limit:
            return None
        # The buffers are named by their digests, so signing this signs them.
        payload = packed([self._variables.put(each) for each in raw], file.getvalue())
        return self._variables.put(MAGIC + self._sign(payload) + payload, later=self._later)

    def flush(self) -> None:
        """Have everything on disk that was stored."""
        self._variables.flush()

    def keep_file(self, path: str) -> None:
        """Keep what a cell has written to a file, so that it can be put back."""
        try:
            if os.stat(path).st_size <= _LARGEST_FILE:
                with open(path, "rb") as file:
                    self._variables.put(file.read())
        except OSError:
            return  # gone again, or not to be read: then it cannot be put back

    def load(
        self, namespace: dict[str, Any], name: str, find: Callable[[str], Any]
    ) -> dict[str, Any]:
        """Return the variables stored under this digest; only what we signed is unpickled."""
        blob = self._variables.get(name)
        start = len(MAGIC)
        signature, payload = (
            blob[start : start + SIGNATURE_BYTES],
            blob[start + SIGNATURE_BYTES :],
        )
        if not blob.startswith(MAGIC) or not hmac.compare_digest(signature, self._sign(payload)):
            raise ObjectError(f"state {name} is not signed with your key; it will be made again")
        stored, data = unpacked(payload)
        buffers = [self._variables.get_writable(each) for each in stored]
        found: dict[str, Any] = _Unpickler(io.BytesIO(data), namespace, buffers, find).load()
        return found

    def _sign(self, payload: bytes) -> bytes:
        return hmac.new(self._key, payload, "sha256").digest()
