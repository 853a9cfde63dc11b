"""Pickling objects without a mark on their classes.

Python notes on a class, as `__slotnames__`, which slots its objects have, the first time that one
of them is taken apart. A program sees it there, in `vars` and `dir`, and has pickled nothing.
"""

from __future__ import annotations

import copyreg
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rlmnb.kernel.identity import identity

_python: Any = copyreg
_NO_SLOTS = frozenset({"__dict__", "__weakref__"})


@contextmanager
def unmarked() -> Iterator[None]:
    """Let classes go without the mark while objects are taken apart."""
    known: dict[int, list[str]] = {}

    def slots_of(cls: type) -> list[str]:
        # By identity: a class of a class may have its own idea of what equals what.
        found = known.get(identity(cls))
        if found is None:
            found = known[identity(cls)] = _slots_of(cls)
        return found

    usual = _python._slotnames
    _python._slotnames = slots_of
    try:
        yield
    finally:
        _python._slotnames = usual


def _slots_of(cls: type) -> list[str]:
    """Return the names of the slots that objects of a class have, as `copyreg` finds them."""
    if not hasattr(cls, "__slots__"):
        return []
    found: list[str] = []
    for each in cls.__mro__:
        slots = vars(each).get("__slots__", ())
        names = (slots,) if isinstance(slots, str) else slots
        found += [_mangled(each, name) for name in names if name not in _NO_SLOTS]
    return found


def _mangled(cls: type, name: str) -> str:
    """Return what a name that begins with two underscores is called inside a class."""
    owner = cls.__name__.lstrip("_")
    private = name.startswith("__") and not name.endswith("__") and owner
    return f"_{owner}{name}" if private else name
