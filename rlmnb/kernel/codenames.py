"""Which global names a code object uses, from its instructions: no source needed, no guess."""

from __future__ import annotations

import dis
from functools import lru_cache
from types import CodeType

_READS = frozenset({"LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"})
_WRITES = frozenset({"STORE_NAME", "STORE_GLOBAL", "DELETE_NAME", "DELETE_GLOBAL"})
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "IMPORT_FROM", "IMPORT_NAME"})


class CodeNames:
    """The names that a piece of code can touch, nested functions and classes included."""

    __slots__ = ("attributes", "reads", "strings", "sure", "writes")

    def __init__(
        self,
        reads: frozenset[str],
        writes: frozenset[str],
        attributes: frozenset[str],
        strings: frozenset[str],
        sure: frozenset[str] = frozenset(),
    ) -> None:
        self.sure = sure
        self.reads = reads
        self.writes = writes
        self.attributes = attributes
        self.strings = strings

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
    for step in dis.get_instructions(code):
        if step.opname in _READS:
            reads.add(str(step.argval))
        elif step.opname in _WRITES:
            writes.add(str(step.argval))
        elif step.opname in _ATTRIBUTES:
            attributes.add(str(step.argval))
    # Inside a function, a class body's own names look like the notebook's; counting them as
    # touched is too much, never too little.
    for constant in _constants(code.co_consts):
        if isinstance(constant, CodeType):
            inner = names_in(constant)
            reads |= inner.reads
            writes |= inner.writes
            attributes |= inner.attributes
            strings |= inner.strings
        elif isinstance(constant, str):
            strings.add(constant)
    return CodeNames(frozenset(reads), frozenset(writes), frozenset(attributes), frozenset(strings))


def _constants(constants: tuple[object, ...]) -> list[object]:
    found: list[object] = []
    for constant in constants:
        if isinstance(constant, tuple | frozenset):
            found += _constants(tuple(constant))
        else:
            found.append(constant)
    return found
