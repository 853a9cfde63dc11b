"""Marks in the place of values, to see whether a cell has set them: equal, and never the same.

Whoever should look at one after all finds the value that it stands for.
"""

from __future__ import annotations

import io
import types
from collections.abc import Callable, Sized
from typing import Any


class _Int(int):
    def __reduce__(self) -> tuple[Any, ...]:
        return int, (int(self),)


class _Float(float):
    def __reduce__(self) -> tuple[Any, ...]:
        return float, (float(self),)


class _Bool(int):
    def __repr__(self) -> str:
        return repr(bool(self))

    __str__ = __repr__

    def __reduce__(self) -> tuple[Any, ...]:
        return bool, (int(self),)


class _Str(str):
    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str(self),)


class _Bytes(bytes):
    def __reduce__(self) -> tuple[Any, ...]:
        return bytes, (bytes(self),)


class _Tuple(tuple[Any, ...]):
    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (list(self),)


_KINDS: dict[type, Callable[[Any], Any]] = {
    bool: _Bool,
    bytes: _Bytes,
    dict: dict,
    float: _Float,
    int: _Int,
    list: list,
    set: set,
    str: _Str,
    tuple: _Tuple,
}
# What is longer is made anew each time, and is not the same either.
_LONGEST = 4096


# What ends, or lets others go on, when nobody has it any more.
_ENDS = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType, type(None))


def may_stay(value: Any) -> bool:
    """Tell whether it makes no difference that a value is let go a little later."""
    if isinstance(value, io.IOBase):
        return value.closed
    kind = type(value)
    return not isinstance(value, _ENDS) and not hasattr(kind, "__exit__") and _is_data(kind)


def _is_data(kind: type) -> bool:
    return kind.__module__ in ("builtins", "__main__", "re") or kind.__module__.partition(".")[
        0
    ] in ("collections", "datetime", "decimal", "numpy", "pandas", "pathlib", "matplotlib")


def mark_for(value: Any) -> Any:
    """Return a mark for a value, None if there can be none."""
    make = _KINDS.get(type(value))
    if make is None:
        return _twin(value)
    return None if isinstance(value, Sized) and len(value) > _LONGEST else make(value)


def _twin(value: Any) -> Any:
    """Return an object of a class of the notebook's that has the very attributes of another.

    Or an array that has the very numbers of another.
    """
    kind = type(value)
    if kind.__module__ == "numpy" and kind.__name__ == "ndarray":
        return value.view()
    if kind.__module__ != "__main__" or hasattr(kind, "__del__"):
        return None
    try:
        twin = object.__new__(kind)  # which runs no code of the class
        object.__setattr__(twin, "__dict__", object.__getattribute__(value, "__dict__"))
    except (AttributeError, TypeError):
        return None
    return twin
