"""Marks in the place of values, to see whether a cell has set them: equal, and never the same.

Whoever should look at one after all finds the value that it stands for.
"""

from __future__ import annotations

from typing import Any


class _Int(int):
    def __reduce__(self) -> tuple[Any, ...]:
        return int, (int(self),)


class _Float(float):
    def __reduce__(self) -> tuple[Any, ...]:
        return float, (float(self),)


class _Str(str):
    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str(self),)


class _Bytes(bytes):
    def __reduce__(self) -> tuple[Any, ...]:
        return bytes, (bytes(self),)


_KINDS: dict[type, type] = {int: _Int, float: _Float, str: _Str, bytes: _Bytes}
# What is longer is made anew each time, and is not the same either.
_LONGEST = 4096


def mark_for(value: Any) -> Any:
    """Return a mark for a value, None if there can be none."""
    kind = _KINDS.get(type(value))
    if kind is None or (isinstance(value, str | bytes) and len(value) > _LONGEST):
        return None
    return kind(value)
