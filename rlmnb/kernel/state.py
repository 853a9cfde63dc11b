"""Variables as bytes: stored together where they share objects, and sharing when they come back.

Functions of the notebook come back bound to the live namespace, so rebinding a global has the
effect it always has. What is stored is signed with the user's own key; anything else is never
unpickled.
"""

from __future__ import annotations

import hmac
import io
import os
import pickle
import types
from collections.abc import Callable
from typing import Any

import cloudpickle

from rlmnb.errors import ObjectError
from rlmnb.files import make_directory, open_regular, read_bytes, write_all
from rlmnb.store.variables import MAGIC, SIGNATURE_BYTES, Variables, packed, unpacked

_NAMESPACE, _NAME = "namespace", "name"


def load_key(root: str) -> bytes:
    """Return the user's own key, made when it is first needed and readable by nobody else."""
    path = os.path.join(root, ".key")
    try:
        return read_bytes(path)
    except FileNotFoundError:
        make_directory(root)
    try:
        descriptor = open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        return read_bytes(path)
    try:
        key = os.urandom(32)
        write_all(descriptor, key)
        return key
    finally:
        os.close(descriptor)


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
        if isinstance(value, types.FunctionType | type) and id(value) not in self._roots:
            name = getattr(value, "__name__", "")
            if self._namespace.get(name) is value:
                return (_NAME, name)
        return None

    def reducer_override(self, value: Any) -> Any:
        if type(value) is types.CellType:
            try:
                contents: tuple[Any, ...] = (value.cell_contents,)
            except ValueError:
                contents = ()
            return types.CellType, (), contents, None, None, _fill_cell
        if type(value) is types.FunctionType and value.__globals__ is self._namespace:
            state = {key: getattr(value, key) for key in _FUNCTION_STATE}
            state["__dict__"] = dict(value.__dict__)
            args = (value.__code__, self._namespace, value.__name__, value.__closure__)
            return _make_function, args, state, None, None, _fill_function
        return super().reducer_override(value)


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
        return self._namespace if key[0] == _NAMESPACE else self._find(key[1])


class StateStore:
    """State under its digest, signed with the user's key."""

    def __init__(self, objects: str, key: bytes) -> None:
        self._variables = Variables(objects)
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
        roots = {id(value) for value in values.values()}
        _Pickler(file, namespace, roots, buffers).dump(values)
        raw = [buffer.raw() for buffer in buffers]
        if file.tell() + sum(len(each) for each in raw) > limit:
            return None
        # The buffers are named by their digests, so signing this signs them.
        payload = packed([self._variables.put(each) for each in raw], file.getvalue())
        return self._variables.put(MAGIC + self._sign(payload) + payload)

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
