"""What a cell begins with: imports, constants, and settings of libraries.

Such statements look at no setting. So whatever was set before does not matter to a cell that has
nothing else in it; and to one that goes on, what they have set does not matter as it was before.
"""

from __future__ import annotations

import ast
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rlmnb.kernel.beginning import PLAIN, Beginning, evaluated, is_quiet_magic, is_quietly_given
from rlmnb.kernel.settingkeys import (
    Names,
    constant,
    filter_of,
    keys_of_call,
    keys_of_magic,
    keys_of_target,
    names_default,
)
from rlmnb.kernel.sight import mark_on


@dataclass
class Found:
    """What the beginning of a cell has set."""

    keys: set[str] = field(default_factory=set)
    # Filters of warnings, in the order in which they were put before all others.
    filters: list[tuple[Any, ...]] = field(default_factory=list)
    # All of the cell is of this kind.
    is_all: bool = False
    # State that it builds on all the same.
    sees: set[str] = field(default_factory=set)


_GENERIC = frozenset({*typing.__all__, "dict", "frozenset", "list", "set", "tuple", "type"})


def settings_of(
    beginning: Beginning,
    namespace: Mapping[str, Any],
    is_local: Callable[[str], bool],
    moved: Iterable[str],
    shows_all: bool,
    lasting: Callable[[ast.Call], str | None] = lambda _: None,
) -> Found:
    """Return what the beginning of a cell that has run has set.

    `moved` are the names that the cell has given another value: only if it imported them before
    they were used, they are now what they were then. `lasting` tells what a call of a library sets
    that is not known any better: it may look at other settings, and is the last that may.
    """
    found, moved = Found(), set(moved)
    given: set[str] = set()
    for statement in beginning.statements:
        last = beginning.is_all and statement is beginning.statements[-1]
        if (last or shows_all) and _shows_what_was(statement):
            break
        call = statement.value if isinstance(statement, ast.Expr) else None
        key = lasting(call) if isinstance(call, ast.Call) and is_quietly_given(call) else None
        if key is not None:
            given.add(mark_on(key))
        elif given or not _take_in(statement, namespace, is_local, moved, found):
            break
    else:
        found.is_all = beginning.is_all and not given
    found.keys |= given
    return found


def _shows_what_was(node: ast.stmt) -> bool:
    """Tell whether a statement gives the settings from before, which is shown if it is the last."""
    call = node.value if isinstance(node, ast.Expr) else None
    called = call.func if isinstance(call, ast.Call) else None
    return isinstance(called, ast.Attribute) and called.attr == "seterr"


def _take_in(
    node: ast.stmt,
    namespace: Mapping[str, Any],
    is_local: Callable[[str], bool],
    moved: set[str],
    found: Found,
) -> bool:
    if isinstance(node, ast.Import | ast.ImportFrom):
        if any(map(is_local, _modules(node))):
            return False  # it runs code of the user's own
        moved.difference_update((each.asname or each.name).partition(".")[0] for each in node.names)
        return True
    names = Names(namespace, moved, is_local)
    if not _are_of_modules(node, names):
        return False
    if isinstance(node, ast.ClassDef):
        return PLAIN.isdisjoint(namespace) and _is_plain_class(namespace.get(node.name), node)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return _take_in_call(node.value, names, found)
    if isinstance(node, ast.Assign):
        for target in node.targets:
            keys = [] if isinstance(target, ast.Name) else keys_of_target(target, names)
            if keys is None:
                return False
            found.keys.update(keys)
    return True


def _take_in_call(call: ast.Call, names: Names, found: Found) -> bool:
    if not is_quietly_given(call):
        return False
    if is_quiet_magic(call):
        keys = keys_of_magic([constant(each) for each in call.args])
        found.keys.update(keys or [])
        return keys is not None
    if not isinstance(call.func, ast.Attribute):
        return False
    base = names.find(call.func.value)
    if isinstance(base, types.ModuleType) and base.__name__ == "warnings":
        wanted = filter_of(call.func.attr, call, names)
        found.filters += [wanted] if wanted is not None else []
        return wanted is not None
    keys = keys_of_call(base, call.func.attr, call)
    found.keys.update(keys or [])
    if getattr(base, "__name__", "") == "matplotlib.style" and names_default(call):
        found.sees.add("$matplotlib")
    return keys is not None


def _are_of_modules(node: ast.stmt, names: Names) -> bool:
    """Tell whether what a statement takes is what modules have, and no object's property."""
    inside = [each for part in evaluated(node) for each in ast.walk(part)]
    return all(
        isinstance(each.value, ast.Constant) or isinstance(names.find(each.value), types.ModuleType)
        for each in inside
        if isinstance(each, ast.Attribute)
    ) and all(
        _is_generic(each.value) or isinstance(names.find(each.value), types.ModuleType)
        for each in inside
        if isinstance(each, ast.Subscript)
    )


def _is_plain_class(found: Any, node: ast.ClassDef) -> bool:
    """Tell whether a class is made without any code but Python's own."""
    wanted = [each.id for each in node.bases if isinstance(each, ast.Name)] or ["object"]
    if type(found) is not type or [each.__name__ for each in found.__bases__] != wanted:
        return False
    return not any("__init_subclass__" in vars(each) for each in found.__mro__[1:-1])


def _is_generic(node: ast.expr) -> bool:
    """Tell whether this has parameters between brackets and runs no code of the notebook's."""
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name in _GENERIC


def _modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [each.name for each in node.names]
    module = node.module or ""
    return [module, *(f"{module}.{each.name}" for each in node.names)] if not node.level else ["."]
