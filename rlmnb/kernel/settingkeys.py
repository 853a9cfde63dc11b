"""Which keys of state a call, an assignment or a magic sets, where that is known."""

from __future__ import annotations

import ast
import re
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

from rlmnb.graph.ambient import keyed
from rlmnb.kernel.sight import mark_on, option_of_numpy, option_of_pandas

Keys = list[str] | None
_FIGURE_KEYS = ["$matplotlib[backend]", "$matplotlib[interactive]"]
_INLINE = {
    "figure_format": "figure_formats",
    **{each: each for each in ("figure_formats", "close_figures", "print_figure_kwargs")},
}
# A style that puts back whatever was set.
_DEFAULT = "default"


class Names:
    """Finds what stands under a dotted name, going through modules alone."""

    def __init__(
        self, namespace: Mapping[str, Any], moved: set[str], is_local: Callable[[str], bool]
    ) -> None:
        self._namespace = namespace
        self._moved = moved
        self.is_local = is_local

    def find(self, node: ast.expr) -> Any:
        """Return what stands there, None if it is not known."""
        if isinstance(node, ast.Name):
            return None if node.id in self._moved else self._namespace.get(node.id)
        if isinstance(node, ast.Attribute):
            base = self.find(node.value)
            if isinstance(base, types.ModuleType):
                return vars(base).get(node.attr)
        return None


def keys_of_magic(texts: list[Any]) -> Keys:
    """Return the keys that a magic sets: how figures are shown, a variable of the environment."""
    if texts[0] == "matplotlib":
        return _FIGURE_KEYS if str(texts[-1]).isidentifier() else None
    told, sets, _ = str(texts[-1]).partition("=")
    if texts[0] == "env":
        return [keyed("$environ", told.strip())] if sets and " " not in told.strip() else None
    name, _, option = told.strip().partition(".")
    known = sets and texts[0] == "config" and name == "InlineBackend" and option in _INLINE
    return [keyed("$inline", _INLINE[option])] if known else None


def keys_of_call(base: Any, name: str, call: ast.Call) -> Keys:
    """Return the keys that a call of a library sets, None if it is not known to."""
    given = [constant(each) for each in call.args]
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
        texts = [constant(each) for each in keys or [] if each is not None]
        known = keys is not None and not named and all(isinstance(each, str) for each in texts)
        return [keyed("$matplotlib", str(each)) for each in texts] if known else None
    return None


def names_default(call: ast.Call) -> bool:
    """Tell whether a call puts back the style that there is without any other."""
    constants = [each for given in call.args for each in ast.walk(given)]
    return any(isinstance(each, ast.Constant) and each.value == _DEFAULT for each in constants)


def constant(node: ast.expr) -> Any:
    """Return the constant that is written there, None if it is something else."""
    if isinstance(node, ast.List | ast.Tuple):
        return tuple(map(constant, node.elts))
    return node.value if isinstance(node, ast.Constant) else None


def _is_some(node: ast.expr) -> bool:
    """Tell whether a value is known not to be None."""
    if isinstance(node, ast.Constant):
        return node.value is not None
    return not isinstance(node, ast.Name)


def _whole(state: str, given: int = 1) -> Callable[[list[Any], list[str]], Keys]:
    """Return what tells that all of a state is set: what it was before is then no matter."""
    return lambda values, named: [state] if len(values) == given and not named else None


def _pandas(given: list[Any], named: list[str]) -> Keys:
    config: Any = sys.modules.get("pandas._config.config")
    if named or config is None or len(given) % 2 or not given:
        return None
    found: list[str] = []
    for pattern in given[::2]:
        options = config._select_options(pattern) if isinstance(pattern, str) else []
        if len(options) != 1:
            return None
        found.append(option_of_pandas(options[0]))
    return found


def _numpy_prints(given: list[Any], named: list[str]) -> Keys:
    if given or "legacy" in named:
        return None
    # These two are set to nothing where they are not given.
    return [option_of_numpy(f"print.{each}") for each in (*named, "formatter", "override_repr")]


def _numpy_errors(given: list[Any], named: list[str]) -> Keys:
    kinds = ("divide", "over", "under", "invalid")
    if given:
        return None
    return [option_of_numpy(f"error.{each}") for each in (kinds if "all" in named else named)]


def _matplotlib_group(given: list[Any], named: list[str]) -> Keys:
    params: Any = sys.modules["matplotlib"].rcParams
    groups = given[:1] if all(isinstance(each, str) for each in given) else []
    found = [f"{group}.{each}" for group in groups for each in named]
    known = len(given) == 1 and groups and all(dict.__contains__(params, each) for each in found)
    return [keyed("$matplotlib", each) for each in found] if known else None


def _matplotlib_style(given: list[Any], named: list[str]) -> Keys:
    style: Any = sys.modules["matplotlib.style"]
    names = given[0] if len(given) == 1 and isinstance(given[0], tuple) else tuple(given)
    known = [style.library[each] for each in names if each in style.library]
    if named or not names or len(known) + names.count(_DEFAULT) != len(names):
        return None
    return [keyed("$matplotlib", key) for each in known for key in dict.keys(each)]


def _matplotlib_backend(given: list[Any], named: list[str]) -> Keys:
    known = len(given) == 1 and isinstance(given[0], str) and not named
    return ["$matplotlib[backend]", "$matplotlib[backend_fallback]"] if known else None


_SETTERS: dict[tuple[str, str], Callable[[list[Any], list[str]], Keys]] = {
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


def keys_of_target(target: ast.expr, names: Names) -> Keys:
    """Return the key that an assignment to a part of something sets, None if it is not known to."""
    if isinstance(target, ast.Subscript) and isinstance(constant(target.slice), str):
        base, key = names.find(target.value), str(constant(target.slice))
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


def _option_of_pandas(target: ast.Attribute, names: Names) -> Keys:
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
    return [option_of_pandas(key)] if key in config._registered_options else None


def _patched(target: ast.Attribute, names: Names) -> Keys:
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


def filter_of(name: str, call: ast.Call, names: Names) -> tuple[Any, ...] | None:
    """Return the filter of warnings that a call puts before all others."""
    order = {
        "filterwarnings": ("action", "message", "category", "module", "lineno", "append"),
        "simplefilter": ("action", "category", "lineno", "append"),
    }.get(name)
    if order is None or len(call.args) > len(order):
        return None
    given: dict[str, ast.expr] = dict(zip(order, call.args, strict=False))
    given |= {str(each.arg): each.value for each in call.keywords}
    found = {key: constant(each) for key, each in given.items() if key != "category"}
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


def _category(node: ast.expr | None, names: Names) -> Any:
    if node is None:
        return Warning
    found = names.find(node)
    if found is None and isinstance(node, ast.Name):
        builtins: Any = sys.modules["builtins"]
        found = getattr(builtins, node.id, None)
    return found if isinstance(found, type) and issubclass(found, Warning) else None
