"""Which cell reads what another has set, each variable by itself, going down the notebook."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from rlmnb.graph.environment import ABSENT, Run
from rlmnb.graph.facts import Facts
from rlmnb.graph.names import reads_at_once
from rlmnb.graph.shape import Shape, shape_of

_TEXT = ("markdown", "raw")


@dataclass(frozen=True)
class Subject:
    """A cell as rules look at it: its entry in the index, its code, its trace if it has one."""

    entry: Facts
    source: str
    run: Run | None = None
    shows: bool = False
    tags: frozenset[str] = frozenset()

    @property
    def cell_id(self) -> str:
        """The id that the index knows the cell by."""
        return str(self.entry["cell_id"])

    @property
    def number(self) -> int:
        """The place in the notebook, from 1."""
        return int(self.entry["number"])

    @property
    def is_code(self) -> bool:
        """Whether there is anything to run."""
        return self.entry["type"] not in _TEXT and bool(self.source.strip())

    @property
    def is_plain(self) -> bool:
        """Whether this is code that replay runs, not a call of a tool or a model."""
        return self.is_code and self.entry["type"] in ("repl", "verification")

    @cached_property
    def trace(self) -> Run | None:
        """The trace, unless the code was edited since."""
        return None if self.entry.get("edited") else self.run

    @cached_property
    def shape(self) -> Shape:
        """What its code is made of."""
        return shape_of(self.source)

    @cached_property
    def reads(self) -> frozenset[str]:
        """The variables it takes from above: those it really read, else those its code names."""
        if self.trace is None:
            return frozenset(self.entry.get("reads", ()))
        return frozenset(
            name
            for name, then in self.trace["reads"].items()
            if name[:1] not in ("$", "&", "~") and then != ABSENT
        )

    @cached_property
    def reads_at_once(self) -> frozenset[str]:
        """Those that its code reads as it runs, whatever functions read when they are called."""
        return reads_at_once(self.source)

    @cached_property
    def writes(self) -> frozenset[str]:
        """The variables it leaves set or changed."""
        if self.trace is None:
            return frozenset(self.entry.get("writes", ()))
        written = (name for version in self.trace["writes"] for name in version["names"])
        return frozenset(name for name in written if not name.startswith(("$", "__")))

    @property
    def hidden_writes(self) -> list[str]:
        """The state without a variable that its trace shows it changed."""
        versions: Iterable[Any] = () if self.trace is None else self.trace["writes"]
        return [name for version in versions for name in version["names"] if name[:1] == "$"]


@dataclass
class Flow:
    """Who reads what from whom."""

    cells: Sequence[Subject]
    # For each cell, and each name it sets, the cells further down that read it from there.
    readers: dict[str, dict[str, list[Subject]]] = field(default_factory=dict)
    writers: dict[str, list[Subject]] = field(default_factory=dict)
    # Names that some function reads when it is called, which may be anywhere.
    called_for: set[str] = field(default_factory=set)
    # The last cell whose code may read any variable.
    opaque_until: int = 0

    def read_from(self, cell: Subject) -> dict[str, list[Subject]]:
        """Return what others read of a cell, by name."""
        return self.readers.get(cell.cell_id, {})


def flow_of(cells: Sequence[Subject]) -> Flow:
    """Go down the notebook once."""
    flow = Flow([cell for cell in cells if cell.is_code])
    latest: dict[str, Subject] = {}
    for cell in flow.cells:
        for name in cell.reads:
            writer = latest.get(name)
            if writer is not None:
                flow.readers.setdefault(writer.cell_id, {}).setdefault(name, []).append(cell)
        for name in cell.writes:
            latest[name] = cell
            flow.writers.setdefault(name, []).append(cell)
        flow.called_for |= frozenset(cell.entry.get("reads", ())) - cell.reads_at_once
        if cell.trace is None and cell.entry.get("opaque"):
            flow.opaque_until = cell.number
    return flow
