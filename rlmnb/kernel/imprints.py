"""What cells have done to libraries: attributes that they set, calls that set something there.

What a cell names in its code is looked at there. Where a function does it, or a name that is worked
out, what the modules and classes in reach hold is compared with what they held before the cell.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import re
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rlmnb.digest import of_value
from rlmnb.kernel.codenames import CodeNames
from rlmnb.kernel.findable import importable_name
from rlmnb.kernel.groups import Groups
from rlmnb.kernel.hidden import FOLLOWED, Hidden
from rlmnb.kernel.lasting import PUTS, VERBS, Dotted, Lasting, lasting_in
from rlmnb.kernel.look import Look
from rlmnb.kernel.modules import PREFIX, Modules
from rlmnb.kernel.reach import Reach, code_names
from rlmnb.kernel.sight import LASTS
from rlmnb.kernel.timed import unwrapped

ABSENT = "absent"
# Where what functions set is followed for itself; None: all that they set.
_FOLLOWED_CALLS: dict[str, frozenset[str] | None] = {
    **dict.fromkeys(
        (
            "IPython", "asyncio", "builtins", "calendar", "decimal", "gc", "locale", "numpy", "os",
            "pandas", "random", "rlmnb", "signal", "socket", "time", "warnings",
        )
    ),
    "csv": frozenset({"register_dialect", "unregister_dialect"}),
    "logging": frozenset(
        {
            "addFilter", "addHandler", "append", "clear", "disable", "insert", "pop", "remove",
            "removeFilter", "removeHandler", "setLevel",
        }
    ),
    "matplotlib": frozenset({"set_cmap", "update", "use", PUTS}),
    "sys": frozenset({"set_int_max_str_digits"}),
}  # fmt: skip
# But for these: they change what only other programs see.
_UNFOLLOWED = frozenset({("os", "putenv"), ("os", "unsetenv")})
# They set what they are told to, by a name in a text too, and put it back later.
_STAND_INS = frozenset({"_pytest", "mock", "pytest", "unittest"})
_NAMED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
# These are called again and again, each time with something else.
_MANY = ("add", "register", "pickle", "unregister")
# How objects are shown.
_OF_DISPLAYS = ("_repr_", "_ipython_")
_Place = types.ModuleType | type
_Before = list[tuple[_Place, dict[str, Any]]]


class Imprints:
    """Follows what cells do to libraries."""

    def __init__(
        self,
        groups: Groups,
        modules: Modules,
        hidden: Hidden,
        transform: Callable[[str], str],
        closure: Callable[[CodeNames | None], Reach],
    ) -> None:
        self._groups = groups
        self._modules = modules
        self._hidden = hidden
        self._transform = transform
        self._closure = closure
        # What was in the place of each attribute that cells have set unnamed, with that place.
        self._originals: dict[str, tuple[_Place, Any]] = {}

    # attributes

    def before(self, look: Look) -> _Before:
        """Return what the modules and classes hold that a cell may change without naming them."""
        if look.code is None or not self._may_set_unnamed(look):
            return []
        found: dict[int, _Place] = {id(each): each for each in self._in_reach(look, look.code)}
        if self._has_stand_ins(look, look.code):
            places = [*self._named_in(look.code.strings), *self._to_be_replaced(look)]
            places += [place for place, _ in self._originals.values()]
            found |= {id(each): each for each in places}
        return [(each, dict(vars(each))) for each in found.values()]

    def _may_set_unnamed(self, look: Look) -> bool:
        code = look.code
        assert code is not None
        unnamed = code.lasting.sets_unnamed or self._has_stand_ins(look, code)
        return unnamed or self._reaches_more(look)

    def _has_stand_ins(self, look: Look, code: CodeNames) -> bool:
        """Tell whether a cell can reach a library that puts other things in the place of some."""
        known = self._groups.known
        packages = {name.partition(".")[0] for name in code.imports}
        packages = packages.union(*(known[name].packages for name in look.reads if name in known))
        return not _STAND_INS.isdisjoint(packages)

    def _named_in(self, texts: frozenset[str]) -> Iterator[_Place]:
        """Yield what texts name an attribute of: `json.dumps`."""
        for text in texts:
            if _NAMED.fullmatch(text):
                root, *path = text.split(".")[:-1]
                place = _find([f"${root}", *path], {})
                if self._may_have_imprints(place):
                    yield place

    def _to_be_replaced(self, look: Look) -> Iterator[_Place]:
        """Yield what variables are about to set an attribute of: `p = mock.patch("json.dumps")`."""
        for name in look.reads:
            value: Any = self._groups.namespace.get(name)
            if type(value).__module__ == "unittest.mock" and hasattr(value, "getter"):
                # A library that is not there yet cannot have been looked at by anybody.
                with contextlib.suppress(ImportError, AttributeError):
                    if self._may_have_imprints(place := value.getter()):
                        yield place

    def _may_have_imprints(self, place: Any) -> bool:
        return isinstance(place, types.ModuleType | type) and self._is_library(place)

    def _reaches_more(self, look: Look) -> bool:
        """Tell whether a cell can reach functions that may leave something behind."""
        return any(map(self._lasts, look.reads)) or bool(self._local_among(look.reads))

    def _lasts(self, name: str) -> bool:
        """Tell whether a variable leads to code that may leave something behind."""
        group = self._groups.known.get(name)
        return group is not None and LASTS in group.packages

    def _in_reach(self, look: Look, code: CodeNames) -> Iterator[_Place]:
        values = [self._groups.namespace.get(name) for name in look.reads]
        for name in self._local_among(look.reads):
            values += vars(sys.modules[name]).values()
        for name in look.reads:
            if self._lasts(name):
                known = self._groups.known[name].packages
                values += [sys.modules.get(each) for each in known]
                for function in functions_of(self._groups.namespace.get(name)):
                    patches = lasting_in(function.__code__).patches
                    values += [_find([*path], function.__globals__) for *path, _ in patches]
        values += [sys.modules.get(each) for each in (*code.imports, *code.strings)]
        for value in values:
            if isinstance(value, types.ModuleType) and self._is_library(value):
                yield value
                for name in code.attributes:
                    inner = vars(value).get(name)
                    if isinstance(inner, types.ModuleType | type) and self._is_library(inner):
                        yield inner
            elif isinstance(value, type) and self._is_library(value):
                yield value

    def _is_library(self, place: _Place) -> bool:
        name = place.__name__ if isinstance(place, types.ModuleType) else place.__module__
        known = name != "__main__" and self._modules.path(name) is None
        return known and not name.startswith("rlmnb.")

    def after(self, look: Look) -> None:
        """Take down what a cell has done."""
        code = look.code
        if code is None:
            return
        for dotted in code.lasting.patches:
            self._note_patch(dotted, self._groups.namespace)
        for place, was in look.libraries:
            self._note_changes(place, was, look)
        if code.lasting.calls or self._reaches_more(look):
            self._note_calls(look.source)

    def _local_among(self, reads: frozenset[str]) -> list[str]:
        """Return the local modules that a cell can reach."""
        names = [name.removeprefix(PREFIX) for name in reads if name.startswith(PREFIX)]
        return [name for name in names if self._modules.path(name) is not None]

    def _note_patch(self, dotted: Dotted, around: Mapping[str, Any]) -> None:
        *path, attribute = dotted
        where = self._where(path, around)
        base = _find(path, around)
        if where is None or (where, attribute) in FOLLOWED:
            return
        place = isinstance(base, types.ModuleType | type)
        # Of a function, what it has from Python itself can be set, too.
        found = vars(base).get(attribute, ABSENT) if place else getattr(base, attribute, ABSENT)
        self._hidden.patched[f"{where}.{attribute}"] = found

    def _note_changes(self, place: _Place, was: dict[str, Any], look: Look) -> None:
        now = vars(place)
        for name in was.keys() | now.keys():
            value = now.get(name, ABSENT)
            before = was.get(name, ABSENT)
            if before is value or not _may_be_set(name, value):
                continue
            where = _name_of(place)
            if (where, name) in FOLLOWED:
                continue
            key = f"{where}.{name}"
            self._hidden.patched.pop(key, None)
            self._hidden.called.pop(key, None)
            _, original = self._originals.setdefault(key, (place, before))
            if value is original:
                del self._originals[key]  # it was put back
            elif type(value).__module__.partition(".")[0] in _STAND_INS:
                # Nothing tells one of these from another but how it was made.
                self._hidden.called[key] = of_value([look.source, self._given(look.reads)])
            else:
                self._hidden.patched[key] = value

    def _where(self, path: list[str], around: Mapping[str, Any]) -> str | None:
        """Return what a dotted name leads to if it is a library's: by the library's own name."""
        root, base = _find(path[:1], around), _find(path, around)
        if isinstance(base, types.ModuleType | type):
            return _name_of(base) if self._is_library(base) else None
        if base is None or not isinstance(root, types.ModuleType) or not self._is_library(root):
            return None
        # Options of pandas are followed key by key.
        options = (root.__name__, path[1]) == ("pandas", "options")
        return None if options else ".".join((root.__name__, *path[1:]))

    # calls

    def _note_calls(self, source: str) -> None:
        """Take down which functions a cell has called that set something, and with what."""
        found: dict[str, list[Any]] = {}
        for node in unwrapped(ast.parse(self._transform(source)), self._transform).body:
            text = ast.unparse(node)
            names = code_names(text, lambda each: each)
            if names is None:
                continue
            reads = self._closure(names).reads
            keys = dict.fromkeys(self._named_by(node, names.lasting))
            keys |= dict.fromkeys(self._called_behind(reads, names.attributes))
            if not keys:
                continue
            given = self._given(reads)
            for key in keys:
                found.setdefault(key, []).append([text, given])
                self._hidden.called_with[key] = reads & self._groups.known.keys()
        self._hidden.called |= {key: of_value(calls) for key, calls in found.items()}

    def _given(self, reads: frozenset[str]) -> dict[str, str]:
        """Return the digests of what code can read."""
        known = self._groups.known
        given = {name: known[name].own[name] for name in sorted(reads & known.keys())}
        return given | {
            name: seen.digest
            for name in sorted(reads)
            if (seen := self._modules.known.get(name.removeprefix(PREFIX))) is not None
        }

    def _named_by(self, node: ast.stmt, lasting: Lasting) -> Iterator[str]:
        calls = [each for each in ast.walk(node) if isinstance(each, ast.Call)]
        named = {".".join(dotted) for dotted in lasting.calls}
        for each in calls:
            if ast.unparse(each.func) in named and (key := self.key_of_call(each)) is not None:
                yield key
        for item in ast.walk(node):
            if isinstance(item, ast.Subscript) and not isinstance(item.ctx, ast.Load):
                dotted = (*ast.unparse(item.value).split("."), PUTS)
                known = ".".join(dotted) in named
                where = self._where_called(dotted, self._groups.namespace) if known else None
                if where is not None:
                    yield f"{where}({ast.unparse(item.slice)})"

    def key_of_call(self, call: ast.Call) -> str | None:
        """Return the name of what a call sets, if it is of a function that is there to set it."""
        dotted = tuple(ast.unparse(call.func).split("."))
        if not all(map(str.isidentifier, dotted)) or not VERBS.match(dotted[-1]):
            return None
        where = self._where_called(dotted, self._groups.namespace)
        if where is not None and call.args and dotted[-1].startswith(_MANY):
            where = f"{where}({ast.unparse(call.args[0])})"
        return where

    def _called_behind(self, reads: frozenset[str], attributes: frozenset[str]) -> Iterator[str]:
        """Yield what functions set that code can reach, those of local modules included."""
        values = [self._groups.namespace.get(name) for name in reads if self._lasts(name)]
        named = reads | attributes
        for module in self._local_among(reads):
            values += [value for name, value in vars(sys.modules[module]).items() if name in named]
        values += [self._groups.namespace.get(name) for name in reads]
        seen: set[types.FunctionType] = set()
        for function in (each for value in values for each in functions_of(value)):
            self._with_those_it_calls(function, seen)
        for function in seen:
            for dotted in lasting_in(function.__code__).calls:
                if (where := self._where_called(dotted, function.__globals__)) is not None:
                    yield where

    def _with_those_it_calls(
        self, function: types.FunctionType, seen: set[types.FunctionType]
    ) -> None:
        """Add a function, and those of its local module that it goes on to call."""
        around = function.__globals__
        ours = around is self._groups.namespace
        if function in seen or not (ours or self._is_local(function)):
            return
        seen.add(function)
        for name in () if ours else function.__code__.co_names:
            for each in functions_of(around.get(name)):
                self._with_those_it_calls(each, seen)

    def _is_local(self, value: Any) -> bool:
        name = getattr(value, "__module__", None)
        return isinstance(name, str) and self._modules.path(name) is not None

    def _where_called(self, dotted: Dotted, around: Mapping[str, Any]) -> str | None:
        """Return the name of a library's function that sets something nobody else follows."""
        *path, function = dotted
        if path:
            where = self._where(path, around)
            if tuple(path) in FOLLOWED:
                return None
        else:
            home = importable_name(_find(list(dotted), around))
            module = sys.modules.get(home[0]) if home is not None else None
            where = _name_of(module) if module and self._is_library(module) else None
            function = home[1] if home is not None else function
        if where is None:
            return None
        if (where, function) in _UNFOLLOWED:
            return f"{where}.{function}"
        followed = _FOLLOWED_CALLS.get(where.partition(".")[0], frozenset())
        return None if followed is None or function in followed else f"{where}.{function}"


def _name_of(place: _Place) -> str:
    if isinstance(place, types.ModuleType):
        return place.__name__
    return f"{place.__module__}.{place.__qualname__}"


def _may_be_set(name: str, value: Any) -> bool:
    """Tell whether somebody may have set this, and not the module itself for its own ends."""
    if isinstance(value, types.ModuleType):
        return False
    ours = getattr(value, "__module__", None) == "__main__"
    return ours or not name.startswith("_") or name.startswith(_OF_DISPLAYS)


def _find(path: list[str], around: Mapping[str, Any]) -> Any:
    """Return what a dotted name leads to, going only through libraries and what they keep."""
    name = path[0]
    base = sys.modules.get(name[1:]) if name[:1] == "$" else around.get(name)
    if len(path) > 1 and not isinstance(base, types.ModuleType | type):
        return None
    for part in path[1:]:
        base = getattr(base, part, None)
    return base


def functions_of(value: Any) -> Iterator[types.FunctionType]:
    """Yield the functions that a value is, holds or wraps."""
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, types.FunctionType):
            yield each
            waiting += [cell.cell_contents for cell in each.__closure__ or () if _is_full(cell)]
        elif isinstance(each, types.MethodType | staticmethod | classmethod):
            waiting += [each.__func__, getattr(each, "__self__", None)]
        elif isinstance(each, property):
            waiting += [each.fget, each.fset, each.fdel]
        elif isinstance(each, functools.partial):
            waiting.append(each.func)
        elif isinstance(each, type) and each.__module__ == "__main__":
            waiting += [*vars(each).values(), *each.__bases__]
        elif type(each).__module__ == "__main__":
            waiting.append(type(each))


def _is_full(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - an empty one cannot be looked into
    except ValueError:
        return False
    return True
