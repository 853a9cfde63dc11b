"""Which global names a code object uses, from its instructions: no source needed, no guess."""

from __future__ import annotations

import dis
import re
from functools import lru_cache
from inspect import CO_OPTIMIZED
from types import CodeType

from rlmnb.kernel.beginning import Beginning
from rlmnb.kernel.history import is_history, unnamed_history
from rlmnb.kernel.lasting import Lasting

_READS = frozenset({"LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"})
_WRITES = frozenset({"STORE_NAME", "STORE_GLOBAL", "DELETE_NAME", "DELETE_GLOBAL"})
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "IMPORT_FROM", "IMPORT_NAME"})
# `pandas.eval`, `numexpr.evaluate`; a query marks variables with an @.
_EVALUATES = frozenset({"eval", "evaluate"})
LOOK_UP = _EVALUATES | {"query"}
_WORD, _AT_NAME = re.compile(r"[A-Za-z_]\w*"), re.compile(r"@([A-Za-z_]\w*)")
_DELETES = frozenset({"DELETE_NAME", "DELETE_GLOBAL"})
_IN_CLASS = frozenset({"STORE_NAME", "DELETE_NAME"})
_JUMPS = frozenset({*dis.hasjrel, *dis.hasjabs})
# Through these, code can reach any variable by a name that it does not show.
OPAQUE_ATTRIBUTES = frozenset(
    {
        "__globals__", "f_globals", "f_locals", "_getframe", "user_ns", "__main__", "get_objects",
        "get_ipython", "get_type_hints", "__subclasses__", "testmod",
    }
)  # fmt: skip


class CodeNames:
    """The names that a piece of code can touch, nested functions and classes included."""

    __slots__ = (
        "attributes", "beginning", "bound", "dormant", "early", "imports", "lasting",
        "looks_up", "may_call", "reads", "stars", "strings", "sure", "within", "writes",
    )  # fmt: skip

    def __init__(
        self,
        reads: frozenset[str],
        writes: frozenset[str],
        attributes: frozenset[str],
        strings: frozenset[str],
        sure: frozenset[str] = frozenset(),
        imports: frozenset[str] = frozenset(),
    ) -> None:
        self.imports = imports
        # Of these, what functions import for themselves.
        self.within = imports
        self.beginning = Beginning()
        # Variables that it gives to a library as a text in which others may be named.
        self.looks_up: frozenset[str] = frozenset()
        # It has functions that it may call.
        self.may_call = False
        # Names that it gives to what it imports, each with the library.
        self.bound: dict[str, str] = {}
        self.stars: frozenset[str] = frozenset()
        # What is read before it is sure to be set; without an analysis, all that is read.
        self.early = reads
        # Functions that the code defines and does not call itself, with the names in them.
        self.dormant: dict[str, frozenset[str]] = {}
        # What it may do to libraries.
        self.lasting = Lasting()
        self.sure = sure
        self.reads = reads
        self.writes = writes
        self.attributes = attributes
        self.strings = strings

    @property
    def looked_up(self) -> frozenset[str]:
        """Every name whose value before the code it can read, in functions it defines, too."""
        return self.reads.union(*self.dormant.values()) - self.set_itself

    @property
    def set_itself(self) -> frozenset[str]:
        """The names of IPython's history that it sets before it reads them."""
        return frozenset(filter(is_history, self.writes - self.early))

    @property
    def touched(self) -> frozenset[str]:
        """Every global name in it."""
        return self.reads | self.writes


@lru_cache(maxsize=4096)
def names_in(code: CodeType) -> CodeNames:
    """Return the names in a code object and in those inside it."""
    reads: set[str] = set()
    writes: set[str] = set()
    attributes: set[str] = set()
    strings: set[str] = set()
    imports: set[str] = set()
    own = _set_in_class(code)
    for step in dis.get_instructions(code):
        if step.opname in _READS and own.get(str(step.argval), step.offset) >= step.offset:
            reads.add(str(step.argval))
        elif step.opname in _WRITES and (step.opname not in _IN_CLASS or not _is_of_class(code)):
            writes.add(str(step.argval))
            if step.opname in _DELETES:
                reads.add(str(step.argval))  # it has to be there, and is let go
        elif step.opname in _ATTRIBUTES:
            attributes.add(str(step.argval))
            if step.opname == "IMPORT_NAME":
                imports.add(str(step.argval))
    for constant in _constants(code.co_consts):
        if isinstance(constant, CodeType):
            inner = names_in(constant)
            reads |= inner.reads
            writes |= inner.writes
            attributes |= inner.attributes
            strings |= inner.strings
            imports |= inner.imports
        elif isinstance(constant, str):
            strings.add(constant)
    return CodeNames(
        frozenset(reads)
        | unnamed_history(reads, attributes, strings)
        | asked_for(attributes, strings),
        frozenset(writes),
        frozenset(attributes),
        frozenset(strings),
        imports=frozenset(imports),
    )


def asked_for(attributes: set[str], strings: set[str]) -> frozenset[str]:
    """Return the variables that texts name to a library, which looks them up in the frame."""
    if attributes.isdisjoint(_EVALUATES) and "query" not in attributes:
        return frozenset()
    pattern = _AT_NAME if attributes.isdisjoint(_EVALUATES) else _WORD
    return frozenset(name for text in strings for name in pattern.findall(text))


def _is_of_class(code: CodeType) -> bool:
    """Tell whether this is the body of a class: what it sets by name becomes an attribute."""
    return not code.co_flags & CO_OPTIMIZED and code.co_name != "<module>"


def _set_in_class(code: CodeType) -> dict[str, int]:
    """Return the names that the body of a class is sure to set for itself, each with the place."""
    if not _is_of_class(code):
        return {}
    found = {"__annotations__": 0}
    if code.co_exceptiontable:
        return found
    for step in dis.get_instructions(code):
        if step.opcode in _JUMPS or step.opname == "DELETE_NAME":
            break
        if step.opname == "STORE_NAME":
            found.setdefault(str(step.argval), step.offset)
    for step in dis.get_instructions(code):
        if step.opname == "DELETE_NAME":
            found.pop(str(step.argval), None)
    return found


def _constants(constants: tuple[object, ...]) -> list[object]:
    found: list[object] = []
    for constant in constants:
        if isinstance(constant, tuple | frozenset):
            found += _constants(tuple(constant))
        else:
            found.append(constant)
    return found
