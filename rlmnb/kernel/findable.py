"""Objects that any process can have by a name: what is imported, what a library keeps one of."""

from __future__ import annotations

import pickle
import sys
from typing import Any

from rlmnb.kernel import streams
from rlmnb.kernel.identity import identity


def importable_name(value: Any) -> tuple[str, str] | None:
    """Return the module and name by which any process can have this, None if there are none."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module == "__main__":
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return (module, name) if found is value else None


_SINGLETONS: dict[str, tuple[int, dict[int, str]]] = {}


def singleton_name(value: Any) -> tuple[str, str] | None:
    """Return the module and name of an object that a library keeps: there is only one of it."""
    if (stream := streams.own_name(value)) is not None:
        return streams.__name__, stream
    name = getattr(type(value), "__module__", None)
    module = sys.modules.get(name) if isinstance(name, str) and name != "__main__" else None
    if module is None or not isinstance(name, str):
        return None
    contents = vars(module)
    known = _SINGLETONS.get(name)
    if known is None or known[0] != len(contents):
        known = (len(contents), {identity(each): key for key, each in contents.items()})
        _SINGLETONS[name] = known
    key = known[1].get(identity(value))
    return (name, key) if key is not None and contents.get(key) is value else None


def is_found(value: Any, name: str) -> bool:
    """Tell whether a library has an object under the name that stands for it in a pickle."""
    module = sys.modules.get(pickle.whichmodule(value, name))  # type: ignore[attr-defined]
    return vars(module).get(name) is value if module is not None else False


def is_empty_metadata(value: Any) -> bool:
    """Tell whether this is what every field of every dataclass has that has no metadata."""
    return value is getattr(sys.modules.get("dataclasses"), "_EMPTY_METADATA", None)
