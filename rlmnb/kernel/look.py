"""What is seen of a cell, and of what is around it, before it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rlmnb.kernel.codenames import CodeNames

# Names of what runs other programs.
COMMANDS = frozenset(
    {
        "system", "popen", "Popen", "run", "call", "check_call", "check_output", "getoutput",
        "getstatusoutput", "run_line_magic", "run_cell_magic", "create_subprocess_shell",
        "Bash",
    }
)  # fmt: skip


@dataclass
class Look:
    """What was seen before a cell ran."""

    reads: frozenset[str]
    opaque: bool
    # Which object each variable was: the objects themselves would live longer for being held.
    bindings: dict[str, int]
    hidden: dict[str, str]
    code: CodeNames | None = None
    source: str = ""
    # What libraries held that it may change without naming it.
    libraries: list[tuple[Any, dict[str, Any]]] = field(default_factory=list)
    named: dict[str, tuple[int, ...] | None] = field(default_factory=dict)
    contents: dict[str, dict[str, Any]] = field(default_factory=dict)
    # Names it never looks at, and has set.
    replaced: frozenset[str] = frozenset()
    # Files that commands begin anew.
    overwritten: frozenset[str] = frozenset()
    # Directories that commands go through.
    listed: list[str] = field(default_factory=list)

    @property
    def may_run_commands(self) -> bool:
        """Whether a cell has anything to do with other programs."""
        return self.code is not None and not COMMANDS.isdisjoint(self.code.attributes)

    @property
    def inert(self) -> bool:
        """Whether a cell could run no code but its own constants: it reads, calls, replaces none.

        Replacing a value can run code, too: that of whatever is let go.
        """
        code = self.code
        if code is None or self.opaque or self.reads or code.attributes or code.imports:
            return False
        return not code.stars and self.bindings.keys().isdisjoint(code.writes)
