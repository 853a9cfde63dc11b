"""What a cell begins with: imports, constants, and settings of libraries.

Such statements look at no setting. So whatever was set before does not matter to a cell that has
nothing else in it; and to one that goes on, what they have set does not matter as it was before.
"""

from __future__ import annotations

import ast
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rlmnb.graph.ambient import keyed
from rlmnb.kernel.sight import mark_on

_Keys = list[str] | None
# Magics that neither read nor set a variable, if their text names none.
_QUIET_MAGICS = frozenset({"matplotlib", "autoreload", "cd", "config", "pip", "conda", "env"})
_FIGURE_KEYS = ["$matplotlib[backend]", "$matplotlib[interactive]"]
_INLINE = {
    "figure_format": "figure_formats",
    **{each: each for each in ("figure_formats", "close_figures", "print_figure_kwargs")},
}


@dataclass(frozen=True)
class Beginning:
    """The first statements of a cell, as far as they may be of this kind by their form."""

    statements: tuple[ast.stmt, ...] = ()
    # The cell has no others.
    is_all: bool = False
    # One of them has a value that may be shown.
    shows: bool = False
    # They look at attributes of what these names stand for, or of modules.
    looks_into: frozenset[str] = frozenset()


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


def beginning_of(tree: ast.Module) -> Beginning:
    """Return the statements that a cell begins with."""
    found: list[ast.stmt] = []
    for statement in tree.body:
        if not _may_begin(statement):
            break
        found.append(statement)
    shows = any(isinstance(each, ast.Expr) for each in found)
    looks_into = frozenset(name for each in found for name in _looked_into(each))
    return Beginning(tuple(found), len(found) == len(tree.body), shows, looks_into)


def _looked_into(node: ast.stmt) -> Iterator[str]:
    """Yield the names of what a statement has attributes of, taken for their value."""
    if isinstance(node, ast.ImportFrom):
        yield (node.module or "").partition(".")[0]
    for part in _evaluated(node):
        for each in ast.walk(part):
            if isinstance(each, ast.Attribute):
                base = each.value
                while isinstance(base, ast.Attribute):
                    base = base.value
                if not isinstance(base, ast.Constant):
                    yield base.id if isinstance(base, ast.Name) else "?"


def _evaluated(node: ast.stmt) -> Iterator[ast.expr]:
    """Yield what a statement of this kind evaluates to have its value."""
    if isinstance(node, ast.ClassDef):
        for part in node.body:
            yield from _evaluated(part)
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from node.args.defaults
        yield from (each for each in node.args.kw_defaults if each is not None)
        yield from _annotations(node)
    elif isinstance(node, ast.AnnAssign):
        yield from (each for each in (node.annotation, node.value) if each is not None)
    elif isinstance(node, ast.Expr | ast.Assign):
        value = node.value
        if isinstance(value, ast.Call):
            yield from [*value.args, *(each.value for each in value.keywords)]
        else:
            yield value


def _may_begin(node: ast.stmt) -> bool:
    if isinstance(node, ast.Import | ast.ImportFrom | ast.Pass):
        return True
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        defaults = [*node.args.defaults, *(each for each in node.args.kw_defaults if each)]
        notes = [*_annotations(node), *node.decorator_list]
        calls = any(isinstance(each, ast.Call) for note in notes for each in ast.walk(note))
        return not node.decorator_list and not calls and all(map(_is_quiet, defaults))
    if isinstance(node, ast.ClassDef):
        plain = not node.decorator_list and not node.keywords
        names = all(isinstance(each, ast.Name) for each in node.bases)
        return plain and names and all(map(_is_plain_part, node.body))
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant | ast.Call)  # whatever else may be shown
    if isinstance(node, ast.AnnAssign):
        calls = any(isinstance(each, ast.Call) for each in ast.walk(node.annotation))
        named = isinstance(node.target, ast.Name) and node.value is not None
        return named and not calls and node.value is not None and _is_quiet(node.value)
    return isinstance(node, ast.Assign) and _is_quiet(node.value)


def does_nothing_else(node: ast.stmt) -> bool:
    """Tell whether a statement does nothing but give names to constants, functions or classes."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    named = not isinstance(node, ast.Assign) or all(isinstance(x, ast.Name) for x in node.targets)
    return named and not isinstance(node, ast.Import | ast.ImportFrom) and _may_begin(node)


def _is_plain_part(node: ast.stmt) -> bool:
    """Tell whether a part of a class runs no code when the class is made."""
    if isinstance(node, ast.FunctionDef):
        plain = [each for each in node.decorator_list if isinstance(each, ast.Name)]
        ours = len(plain) == len(node.decorator_list) and {each.id for each in plain} <= _PLAIN
        return ours and _may_begin(_undecorated(node))
    if isinstance(node, ast.Assign):
        named = all(isinstance(each, ast.Name) for each in node.targets)
        return named and not any(map(_is_named, ast.walk(node.value))) and _is_quiet(node.value)
    if isinstance(node, ast.AnnAssign) and node.value is None:
        return not any(isinstance(each, ast.Call) for each in ast.walk(node.annotation))
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        return _may_begin(node) and not any(map(_is_named, ast.walk(node.value)))
    return isinstance(node, ast.Pass) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )


# Decorators of Python's own that run none of a function.
_PLAIN = frozenset({"classmethod", "property", "staticmethod"})


def _undecorated(node: ast.FunctionDef) -> ast.FunctionDef:
    return ast.FunctionDef(**{**vars(node), "decorator_list": []})


def _is_named(node: ast.AST) -> bool:
    """Tell whether this is something that could hear of being put into a class."""
    return isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)


def _annotations(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.expr]:
    given = node.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    found = [each.annotation for each in every if each is not None]
    return [each for each in [*found, node.returns] if each is not None]


def _is_quiet(node: ast.expr) -> bool:
    """Tell whether an expression runs no code but its own."""
    if isinstance(node, ast.Constant | ast.Name | ast.Lambda):
        return True
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return all(map(_is_quiet, node.elts))
    if isinstance(node, ast.Dict):
        return all(each is not None and _is_quiet(each) for each in [*node.keys, *node.values])
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.operand, ast.Constant)
    if isinstance(node, ast.BinOp):
        return isinstance(node.left, ast.Constant) and isinstance(node.right, ast.Constant)
    # '{:.2f}'.format, or sys.maxsize; whether the latter is that of a module is for later
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Constant | ast.Name)


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
        key = lasting(call) if isinstance(call, ast.Call) and _is_quietly_given(call) else None
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
    names = _Names(namespace, moved, is_local)
    if not names.are_of_modules(node):
        return False
    if isinstance(node, ast.ClassDef):
        return _PLAIN.isdisjoint(namespace) and _is_plain_class(namespace.get(node.name), node)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return _take_in_call(node.value, names, found)
    if isinstance(node, ast.Assign):
        for target in node.targets:
            keys = [] if isinstance(target, ast.Name) else _set_by(target, names)
            if keys is None:
                return False
            found.keys.update(keys)
    return True


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


_GENERIC = frozenset({*typing.__all__, "dict", "frozenset", "list", "set", "tuple", "type"})


def _modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [each.name for each in node.names]
    module = node.module or ""
    return [module, *(f"{module}.{each.name}" for each in node.names)] if not node.level else ["."]


class _Names:
    """Finds what stands under a dotted name, going through modules alone."""

    def __init__(
        self, namespace: Mapping[str, Any], moved: set[str], is_local: Callable[[str], bool]
    ) -> None:
        self._namespace = namespace
        self._moved = moved
        self.is_local = is_local

    def are_of_modules(self, node: ast.stmt) -> bool:
        """Tell whether what a statement takes is what modules have, and no object's property."""
        inside = [each for part in _evaluated(node) for each in ast.walk(part)]
        return all(
            isinstance(each.value, ast.Constant)
            or isinstance(self.find(each.value), types.ModuleType)
            for each in inside
            if isinstance(each, ast.Attribute)
        ) and all(
            _is_generic(each.value) or isinstance(self.find(each.value), types.ModuleType)
            for each in inside
            if isinstance(each, ast.Subscript)
        )

    def find(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Name):
            return None if node.id in self._moved else self._namespace.get(node.id)
        if isinstance(node, ast.Attribute):
            base = self.find(node.value)
            if isinstance(base, types.ModuleType):
                return vars(base).get(node.attr)
        return None


def _take_in_call(call: ast.Call, names: _Names, found: Found) -> bool:
    if not _is_quietly_given(call):
        return False
    if is_quiet_magic(call):
        keys = _keys_of_magic([_constant(each) for each in call.args])
        found.keys.update(keys or [])
        return keys is not None
    if not isinstance(call.func, ast.Attribute):
        return False
    base = names.find(call.func.value)
    if isinstance(base, types.ModuleType) and base.__name__ == "warnings":
        wanted = _filter_of(call.func.attr, call, names)
        found.filters += [wanted] if wanted is not None else []
        return wanted is not None
    keys = _keys_of(base, call.func.attr, call)
    found.keys.update(keys or [])
    if getattr(base, "__name__", "") == "matplotlib.style" and _names_default(call):
        found.sees.add("$matplotlib")
    return keys is not None


def _is_quietly_given(call: ast.Call) -> bool:
    quiet = all(map(_is_quiet, [*call.args, *(each.value for each in call.keywords)]))
    return quiet and all(each.arg is not None for each in call.keywords)


def is_quiet_magic(call: ast.Call) -> bool:
    """Tell whether a call is a magic, or a command, that has nothing to do with variables."""
    func, given = call.func, [getattr(each, "value", None) for each in call.args]
    texts = [each for each in given if isinstance(each, str)]
    if not isinstance(func, ast.Attribute) or not _is_shell(func.value):
        return False
    if call.keywords or not texts or len(texts) != len(given):
        return False
    if any(mark in text for text in texts for mark in "${"):
        return False
    if func.attr == "run_line_magic" and texts[0] == "load_ext":
        return texts[-1].strip() == "autoreload"
    if func.attr == "run_line_magic":
        return texts[0] in _QUIET_MAGICS and (texts[0] != "config" or _is_literal(texts[-1]))
    return func.attr in ("system", "getoutput")


def _is_shell(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return node.value is ...  # it was taken out
    called = node.func if isinstance(node, ast.Call) else None
    return isinstance(called, ast.Name) and called.id == "get_ipython"


def _keys_of_magic(texts: list[Any]) -> _Keys:
    """Return the keys that a magic sets: how figures are shown, a variable of the environment."""
    if texts[0] == "matplotlib":
        return _FIGURE_KEYS if str(texts[-1]).isidentifier() else None
    told, sets, _ = str(texts[-1]).partition("=")
    if texts[0] == "env":
        return [keyed("$environ", told.strip())] if sets and " " not in told.strip() else None
    name, _, option = told.strip().partition(".")
    known = sets and texts[0] == "config" and name == "InlineBackend" and option in _INLINE
    return [keyed("$inline", _INLINE[option])] if known else None


def _is_literal(line: str) -> bool:
    try:
        ast.literal_eval(line.partition("=")[2].strip() or "0")
    except (SyntaxError, ValueError):
        return False
    return True


# A style that puts back whatever was set.
_DEFAULT = "default"


def _keys_of(base: Any, name: str, call: ast.Call) -> _Keys:
    """Return the keys that a call of a library sets, None if it is not known to."""
    given = [_constant(each) for each in call.args]
    named = [str(each.arg) for each in call.keywords]
    matplotlib: Any = sys.modules.get("matplotlib")
    if base is None:
        return None
    if isinstance(base, types.ModuleType):
        setter = _SETTERS.get((base.__name__, name))
        if base.__name__ == "numpy" and not all(_is_some(each.value) for each in call.keywords):
            return None  # to numpy, None means to leave it as it was
        return setter(given, named) if setter is not None else None
    if name == "update" and base is getattr(matplotlib, "rcParams", None):
        keys = call.args[0].keys if call.args and isinstance(call.args[0], ast.Dict) else None
        texts = [_constant(each) for each in keys or [] if each is not None]
        known = keys is not None and not named and all(isinstance(each, str) for each in texts)
        return [keyed("$matplotlib", str(each)) for each in texts] if known else None
    return None


def _names_default(call: ast.Call) -> bool:
    constants = [each for given in call.args for each in ast.walk(given)]
    return any(isinstance(each, ast.Constant) and each.value == _DEFAULT for each in constants)


def _constant(node: ast.expr) -> Any:
    if isinstance(node, ast.List | ast.Tuple):
        return tuple(map(_constant, node.elts))
    return node.value if isinstance(node, ast.Constant) else None


def _is_some(node: ast.expr) -> bool:
    """Tell whether a value is known not to be None."""
    if isinstance(node, ast.Constant):
        return node.value is not None
    return not isinstance(node, ast.Name)


def _whole(state: str, given: int = 1) -> Callable[[list[Any], list[str]], _Keys]:
    """Return what tells that all of a state is set: what it was before is then no matter."""
    return lambda values, named: [state] if len(values) == given and not named else None


def _pandas(given: list[Any], named: list[str]) -> _Keys:
    config: Any = sys.modules.get("pandas._config.config")
    if named or config is None or len(given) % 2 or not given:
        return None
    found: list[str] = []
    for pattern in given[::2]:
        options = config._select_options(pattern) if isinstance(pattern, str) else []
        if len(options) != 1:
            return None
        found.append(keyed("$pandas", options[0]))
    return found


def _numpy_prints(given: list[Any], named: list[str]) -> _Keys:
    if given or "legacy" in named:
        return None
    # These two are set to nothing where they are not given.
    return [keyed("$numpy", f"print.{each}") for each in (*named, "formatter", "override_repr")]


def _numpy_errors(given: list[Any], named: list[str]) -> _Keys:
    kinds = ("divide", "over", "under", "invalid")
    if given:
        return None
    return [keyed("$numpy", f"error.{each}") for each in (kinds if "all" in named else named)]


def _matplotlib_group(given: list[Any], named: list[str]) -> _Keys:
    params: Any = sys.modules["matplotlib"].rcParams
    groups = given[:1] if all(isinstance(each, str) for each in given) else []
    found = [f"{group}.{each}" for group in groups for each in named]
    known = len(given) == 1 and groups and all(dict.__contains__(params, each) for each in found)
    return [keyed("$matplotlib", each) for each in found] if known else None


def _matplotlib_style(given: list[Any], named: list[str]) -> _Keys:
    style: Any = sys.modules["matplotlib.style"]
    names = given[0] if len(given) == 1 and isinstance(given[0], tuple) else tuple(given)
    known = [style.library[each] for each in names if each in style.library]
    if named or not names or len(known) + names.count(_DEFAULT) != len(names):
        return None
    return [keyed("$matplotlib", key) for each in known for key in dict.keys(each)]


def _matplotlib_backend(given: list[Any], named: list[str]) -> _Keys:
    known = len(given) == 1 and isinstance(given[0], str) and not named
    return ["$matplotlib[backend]", "$matplotlib[backend_fallback]"] if known else None


_SETTERS: dict[tuple[str, str], Callable[[list[Any], list[str]], _Keys]] = {
    ("random", "seed"): _whole("$random"),
    ("numpy.random", "seed"): _whole("$numpy.random"),
    ("sys", "setrecursionlimit"): _whole("$recursion limit"),
    ("gc", "disable"): _whole("$gc", given=0),
    ("gc", "enable"): _whole("$gc", given=0),
    ("pandas", "set_option"): _pandas,
    ("numpy", "set_printoptions"): _numpy_prints,
    ("numpy", "seterr"): _numpy_errors,
    ("matplotlib", "rc"): _matplotlib_group,
    ("matplotlib.pyplot", "rc"): _matplotlib_group,
    ("matplotlib.style", "use"): _matplotlib_style,
    ("matplotlib", "use"): _matplotlib_backend,
}


def _set_by(target: ast.expr, names: _Names) -> _Keys:
    """Return the key that an assignment to a part of something sets, None if it is not known to."""
    if isinstance(target, ast.Subscript) and isinstance(_constant(target.slice), str):
        base, key = names.find(target.value), str(_constant(target.slice))
        if base is None:
            return None
        if base is getattr(sys.modules.get("matplotlib"), "rcParams", None):
            return [keyed("$matplotlib", key)]
        if base is getattr(sys.modules.get("os"), "environ", None):
            return [keyed("$environ", key)]
        return None
    if not isinstance(target, ast.Attribute):
        return None
    if target.attr == "argv" and names.find(target.value) is sys:
        return ["$argv"]
    if isinstance(target.value, ast.Call):
        decimal: Any = sys.modules.get("decimal")
        called = names.find(target.value.func)
        ours = called is not None and called is getattr(decimal, "getcontext", None)
        return [keyed("$decimal", target.attr)] if ours and not target.value.args else None
    return _option_of_pandas(target, names) or _patched(target, names)


def _option_of_pandas(target: ast.Attribute, names: _Names) -> _Keys:
    """Return which option `pd.options.display.width = …` sets."""
    parts: list[str] = []
    node: ast.expr = target
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    root = names.find(node)
    config: Any = sys.modules.get("pandas._config.config")
    key = ".".join(parts[1:])
    if root is None or root is not sys.modules.get("pandas") or parts[0] != "options":
        return None
    return [keyed("$pandas", key)] if key in config._registered_options else None


def _patched(target: ast.Attribute, names: _Names) -> _Keys:
    """Return which attribute of a library's module or plain class is set."""
    base = names.find(target.value)
    if isinstance(base, types.ModuleType):
        where, home = base.__name__, base.__name__
    elif type(base) is type:
        where, home = f"{base.__module__}.{base.__qualname__}", base.__module__
    else:
        return None
    ours = home == "__main__" or names.is_local(home)
    return None if ours or home == "sys" else [mark_on(f"{where}.{target.attr}")]


def _filter_of(name: str, call: ast.Call, names: _Names) -> tuple[Any, ...] | None:
    """Return the filter of warnings that a call puts before all others."""
    order = {
        "filterwarnings": ("action", "message", "category", "module", "lineno", "append"),
        "simplefilter": ("action", "category", "lineno", "append"),
    }.get(name)
    if order is None or len(call.args) > len(order):
        return None
    given: dict[str, ast.expr] = dict(zip(order, call.args, strict=False))
    given |= {str(each.arg): each.value for each in call.keywords}
    found = {key: _constant(each) for key, each in given.items() if key != "category"}
    if found.get("append") or any(value is None for value in found.values()):
        return None
    category = _category(given.get("category"), names)
    message, module = found.get("message") or "", found.get("module") or ""
    return category and (
        found.get("action"),
        re.compile(message, re.IGNORECASE) if message else None,
        category,
        re.compile(module) if module else None,
        found.get("lineno", 0),
    )


def _category(node: ast.expr | None, names: _Names) -> Any:
    if node is None:
        return Warning
    found = names.find(node)
    if found is None and isinstance(node, ast.Name):
        builtins: Any = sys.modules["builtins"]
        found = getattr(builtins, node.id, None)
    return found if isinstance(found, type) and issubclass(found, Warning) else None
