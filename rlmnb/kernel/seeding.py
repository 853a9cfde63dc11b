"""Whether code can put a generator of chance to a certain place.

A generator that was seeded twice to the same place looks as if nobody had touched it. Code that
seeds says so by the names it uses, in the cell or in functions of the notebook's own.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from typing import Any

from rlmnb.kernel.codenames import CodeNames

_WORDS = frozenset({"setstate", "set_state"})


def may_seed(reads: Iterable[str], code: CodeNames | None, value_of: Callable[[str], Any]) -> bool:
    """Tell whether a cell with this code, that can reach these names, may seed a generator."""
    if code is None:
        return False
    reads = list(reads)
    if _named([*code.attributes, *code.imports, *code.strings, *reads]):
        return True
    return any(_does(value_of(name)) for name in reads)


def _named(names: Iterable[str]) -> bool:
    return any("seed" in name or name in _WORDS for name in names)


def _does(value: Any) -> bool:
    """Tell whether functions of a value's own name what seeds."""
    if isinstance(value, types.ModuleType | type):
        own = value.__name__ if isinstance(value, types.ModuleType) else value.__module__
        found = [each for each in vars(value).values() if getattr(each, "__module__", None) == own]
        return any(_code_does(each) for each in found)
    return _code_does(value)


def _code_does(value: Any) -> bool:
    code = getattr(getattr(value, "__wrapped__", value), "__code__", None)
    waiting = [code] if isinstance(code, types.CodeType) else []
    while waiting:
        code = waiting.pop()
        if _named(code.co_names):
            return True
        waiting += [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return False
