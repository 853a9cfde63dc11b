"""Working memory: what a session wants at hand, by name, as JSON; small, because it is read often.

A long value goes to the objects and leaves its digest behind, so the state of a session stays a
few kilobytes however much is remembered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlmnb.errors import WorkingMemoryError
from rlmnb.jsontext import compact, loads, portable, to_bytes
from rlmnb.store.objects import SMALL, Objects

MOST_BYTES = 256 * 1024
_OBJECT = "$object"


def fitted(memory: Mapping[str, Any], objects: Objects) -> dict[str, Any]:
    """Return working memory as it is stored, its long values among the objects."""
    stored = {name: _fitted(name, value, objects) for name, value in memory.items()}
    size = len(to_bytes(compact(stored)))
    if size > MOST_BYTES:
        raise WorkingMemoryError(
            f"working memory would take {size} bytes, {MOST_BYTES} is the most; "
            f"it has {len(stored)} names",
            hint="remove what is not needed: rlmnb set --forget NAME",
        )
    return stored


def _fitted(name: str, value: Any, objects: Objects) -> Any:
    if is_kept_apart(value):
        return value
    try:
        data = to_bytes(compact(portable(value)))
    except (TypeError, ValueError, RecursionError) as error:
        raise WorkingMemoryError(f"{name!r} is not JSON: {error}") from None
    if len(data) < SMALL:
        return portable(value)
    return {_OBJECT: objects.put(data), "size_bytes": len(data)}


def is_kept_apart(value: Any) -> bool:
    """Tell whether this stands for a value among the objects."""
    return isinstance(value, dict) and set(value) == {_OBJECT, "size_bytes"}


def whole(memory: Mapping[str, Any], objects: Objects) -> dict[str, Any]:
    """Return working memory with every value as it was given."""
    return {
        name: loads(objects.get(str(value[_OBJECT]))) if is_kept_apart(value) else value
        for name, value in memory.items()
    }
