"""What code may do to libraries that outlasts it: attributes that it sets, calls that set things.

Found in its instructions, for functions of other cells have no source at hand. A call counts that
nobody takes the value of, by the name of a function that is there to set something: `set_config`,
`register`, `manual_seed`.
"""

from __future__ import annotations

import dis
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType

Dotted = tuple[str, ...]
_NAMES = frozenset({"LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"})
_LOCALS = frozenset({"LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW", "LOAD_DEREF"})
_KEEPS = frozenset({"STORE_FAST", "STORE_DEREF"})
_DOTS = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_SETS = frozenset({"STORE_ATTR", "DELETE_ATTR"})
_CALLS = frozenset({"CALL", "CALL_KW", "CALL_FUNCTION_EX"})
# `library.table[key] = …` counts as a call of this.
PUTS = "__setitem__"
_PUTTING = frozenset({"DELETE_SUBSCR", "STORE_SLICE", "STORE_SUBSCR"})
# What an object is told to do to itself is its own matter.
_OWN = ("cls", "self")
# Ways to set what the instructions do not name.
_BY_TEXT = frozenset({"delattr", "setattr", "vars"})
_ATTRIBUTES = frozenset({"__dict__", "__setattr__", "__delattr__"})
VERBS = re.compile(
    r"(?:activate|add|allow|apply|config|configure|deactivate|disable|disallow|enable|extension"
    r"|init|initialize|install|manual|option|options|output|pandas|patch|prefer|register|require"
    r"|reset|seed|set|setup|uninstall|unregister|update|use|pickle)(?=_|$)"
    r"|(?:add|enable|disable|register|set|use)(?=[A-Z])"
    # What changes a list, a set or a dictionary.
    r"|set(?:priority|profile|rlimit|trace)$|(?:put|unset)env$|stack_size$"
    r"|(?:append|clear|discard|extend|insert|pop|popitem|remove|reverse|setdefault|sort)$"
)


@dataclass(frozen=True, slots=True)
class Lasting:
    """What code may leave behind in libraries.

    A dotted name that begins with `$` begins with a module that the code imports for itself.
    """

    # Attributes that it sets, each with the dotted name of what it sets them on.
    patches: frozenset[Dotted] = frozenset()
    calls: frozenset[Dotted] = frozenset()
    # It sets attributes of things that it does not name.
    sets_unnamed: bool = False

    def __bool__(self) -> bool:
        return bool(self.patches or self.calls or self.sets_unnamed)


@lru_cache(maxsize=4096)
def lasting_in(code: CodeType) -> Lasting:
    """Return what a code object, and those inside it, may leave behind."""
    found = _Reader(code).read()
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            found = _both(found, lasting_in(inner))
    return found


def _both(one: Lasting, other: Lasting) -> Lasting:
    unnamed = one.sets_unnamed or other.sets_unnamed
    return Lasting(one.patches | other.patches, one.calls | other.calls, unnamed)


class _Reader:
    """Goes through the instructions of one code object."""

    def __init__(self, code: CodeType) -> None:
        self._code = code
        self._imported: dict[str, Dotted] = {}
        # Where in the source a dotted name begins that a call may be of.
        self._begun: dict[tuple[int | None, int | None], Dotted] = {}
        around = code.co_qualname.rpartition(".")[0]
        self._is_method = bool(around) and not around.endswith("<locals>")
        self._by_text = not _BY_TEXT.isdisjoint(code.co_names)
        self._unnamed = self._by_text or not _ATTRIBUTES.isdisjoint(code.co_names)

    def read(self) -> Lasting:
        patches: set[Dotted] = set()
        calls: set[Dotted] = set()
        dotted: Dotted = ()
        own = False
        steps = list(dis.get_instructions(self._code))
        self._take_imports(steps)
        for step, after in zip(steps, [*steps[1:], None], strict=True):
            if (root := self._root(step)) is not None:
                dotted, own = root, self._is_method and str(step.argval) in _OWN
                self._begun[_place(step)] = dotted
                continue
            if dotted and step.opname in _DOTS:
                dotted = (*dotted, str(step.argval))
                self._begun[_place(step)] = dotted
                continue
            if step.opname in _DOTS:
                self._begun.pop(_place(step), None)  # it is what a call has given that is gone into
            named = step.opname == "LOAD_CONST" and isinstance(step.argval, str) and self._by_text
            if step.opname in _SETS or named:
                if dotted:
                    patches.add((*dotted, str(step.argval)))
                elif step.opname in _SETS and not own:
                    self._unnamed = True
            if step.opname in _PUTTING and len(table := self._begun.get(_place(step), ())) > 1:
                calls.add((*table, PUTS))
            if step.opname in _CALLS and after is not None and after.opname == "POP_TOP":
                called = self._begun.get(_place(step), ())
                if called and VERBS.match(called[-1]):
                    calls.add(called)
            dotted, own = (), own and step.opname in _DOTS
        return Lasting(frozenset(patches), frozenset(calls), self._unnamed)

    def _take_imports(self, steps: Iterable[dis.Instruction]) -> None:
        """Take down which variables of a function's own are modules, or come from one."""
        module, inside, from_it = "", "", False
        for step in steps:
            if step.opname == "LOAD_CONST":
                from_it = isinstance(step.argval, tuple)
            elif step.opname == "IMPORT_NAME":
                module, inside = str(step.argval), ""
            elif step.opname == "IMPORT_FROM":
                inside = str(step.argval)
            elif step.opname in _KEEPS and module:
                root = "$" + (module if inside else module.partition(".")[0])
                self._imported[str(step.argval)] = (root, inside) if inside and from_it else (root,)
            elif step.opname not in ("SWAP", "POP_TOP"):
                module = ""

    def _root(self, step: dis.Instruction) -> Dotted | None:
        """Return what a dotted name begins with, () if it is a variable of the function's own."""
        if step.opname in _NAMES:
            return (str(step.argval),)
        if step.opname in _LOCALS:
            return self._imported.get(str(step.argval), ())
        return None


def _place(step: dis.Instruction) -> tuple[int | None, int | None]:
    where = step.positions
    return (where.lineno, where.col_offset) if where is not None else (None, None)
