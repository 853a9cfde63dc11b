"""Compare two sides: cells, variables, working memory, files, what was spent, where each stands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from rlmnb import digest
from rlmnb.comparing.matching import matched
from rlmnb.comparing.sides import Side, SideCell
from rlmnb.comparing.spending import Spending, spending_of
from rlmnb.graph.environment import RECORDED

KINDS = ("changed", "added", "removed", "moved", "same")


@dataclass(frozen=True, slots=True)
class CellDifference:
    """A cell of both sides, or of one of them. `changes` says in what it is another."""

    kind: str
    a: SideCell | None
    b: SideCell | None
    changes: tuple[str, ...] = ()
    moved: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return it for a script, with whatever differs from both sides."""
        found: dict[str, Any] = {"kind": self.kind, "changes": list(self.changes)}
        found["moved"] = self.moved
        for name, cell in (("a", self.a), ("b", self.b)):
            found[name] = None if cell is None else _cell_as_dict(cell, self)
        return found


def _cell_as_dict(cell: SideCell, difference: CellDifference) -> dict[str, Any]:
    found: dict[str, Any] = {
        "cell_id": cell.cell_id,
        "number": cell.number,
        "type": cell.type,
        "status": cell.status,
        "freshness": cell.freshness,
    }
    alone = difference.kind in ("added", "removed")
    if alone or "source" in difference.changes:
        found["source"] = cell.source
    if alone or "outputs" in difference.changes:
        found["outputs"] = [piece.as_dict() for piece in cell.pieces]
    return found


@dataclass(frozen=True, slots=True)
class NameDifference:
    """Names with values, by how they stand on the two sides.

    `unknown` are those that different cells made, or that the code of a side sets which never ran,
    and that rlmnb saw on one side at the most.
    """

    same: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    only_a: tuple[str, ...] = ()
    only_b: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def differs(self) -> bool:
        """Whether anything is known to be another; what is not known is not."""
        return bool(self.changed or self.only_a or self.only_b)

    def as_dict(self) -> dict[str, list[str]]:
        """Return it for a script."""
        keys = ("same", "changed", "only_a", "only_b", "unknown")
        return {key: list(getattr(self, key)) for key in keys}


@dataclass(frozen=True, slots=True)
class Comparison:
    """All that two notebooks have in common, and all that they have not."""

    a: Side
    b: Side
    cells: tuple[CellDifference, ...]
    variables: NameDifference
    hidden: NameDifference
    memory: NameDifference
    files: NameDifference
    spending: Spending
    same_task: tuple[str, ...]

    @property
    def counts(self) -> dict[str, int]:
        """How many cells there are of each kind."""
        found = Counter(each.kind for each in self.cells)
        return {kind: found[kind] for kind in KINDS}

    @property
    def equal(self) -> bool:
        """Whether nothing differs. Files that only one side touched show in its cells."""
        return (
            self.counts["same"] == len(self.cells)
            and not any(each.differs for each in (self.variables, self.hidden, self.memory))
            and not self.files.changed
            and not self.spending.differs
        )

    def as_dict(self) -> dict[str, Any]:
        """Return all of it for a script."""
        sides = {"a": self.a, "b": self.b}
        return {
            "equal": self.equal,
            **{key: _about(side) for key, side in sides.items()},
            "same_task": bool(self.same_task),
            "same_task_because": list(self.same_task),
            "changed": self.counts,
            "cells": [each.as_dict() for each in self.cells if each.kind != "same"],
            "variables": self.variables.as_dict(),
            "hidden_state": self.hidden.as_dict(),
            "working_memory": self.memory.as_dict(),
            "files": {
                **self.files.as_dict(),
                "changed": [
                    {"path": path, "a": self.a.files[path], "b": self.b.files[path]}
                    for path in self.files.changed
                ],
            },
            "spent": self.spending.as_dict(),
            "invalidated": {key: _invalidated(side) for key, side in sides.items()},
            "resumable": {key: is_resumable(side) for key, side in sides.items()},
        }


def _about(side: Side) -> dict[str, Any]:
    session_id = side.section("session").get("id")
    return {"name": side.name, "id": session_id, "title": side.title, "cells": len(side.cells)}


def _invalidated(side: Side) -> list[dict[str, Any]]:
    return [
        {"cell_id": cell.cell_id, "number": cell.number, "causes": list(cell.causes)}
        for cell in side.cells
        if cell.causes
    ]


def is_resumable(side: Side) -> bool:
    """Tell whether this is a session that its agent can go on with."""
    return bool(side.state) and not side.section("session").get("ended_at")


def compare(a: Side, b: Side) -> Comparison:
    """Hold one side against the other."""
    shown, hidden = _names(a, b)
    return Comparison(
        a=a,
        b=b,
        cells=tuple(_cells(a.cells, b.cells)),
        variables=shown,
        hidden=hidden,
        memory=_by_name(_memory(a), _memory(b)),
        files=_by_name(a.files, b.files),
        spending=spending_of(a, b),
        same_task=tuple(_same_task(a, b)),
    )


def _cells(a: Sequence[SideCell], b: Sequence[SideCell]) -> Iterator[CellDifference]:
    """Yield every cell in the order of the second side, what is gone where it was."""
    matching = matched(a, b)
    steady = matching.steady
    known_a = {at for at, _ in matching.pairs}
    partner = {other: at for at, other in matching.pairs}
    gone = [at for at in range(len(a)) if at not in known_a][::-1]
    came: list[CellDifference] = []
    for place, cell in enumerate(b):
        at = partner.get(place)
        if at is None:
            came.append(CellDifference("added", None, cell))
        elif (at, place) not in steady:
            came.append(_pair(a[at], cell, moved=True))
        else:
            while gone and gone[-1] < at:
                yield CellDifference("removed", a[gone.pop()], None)
            yield from came
            came = []
            yield _pair(a[at], cell, moved=False)
    yield from (CellDifference("removed", a[at], None) for at in reversed(gone))
    yield from came


def _pair(a: SideCell, b: SideCell, *, moved: bool) -> CellDifference:
    changes = []
    if a.source_hash != b.source_hash:
        changes.append("source")
    if a.raw_outputs != b.raw_outputs and a.pieces != b.pieces:
        changes.append("outputs")
    changes += [
        key for key in ("type", "status", "freshness") if getattr(a, key) != getattr(b, key)
    ]
    kind = "changed" if changes else ("moved" if moved else "same")
    return CellDifference(kind, a, b, tuple(changes), moved)


def _names(a: Side, b: Side) -> tuple[NameDifference, NameDifference]:
    """Compare variables, those that a person sees apart from those that nobody named."""
    both = (a.variables, b.variables)
    shown = [{name: each[name] for name in each if not _is_hidden(name)} for each in both]
    hidden = [{name: each[name] for name in each if _is_hidden(name)} for each in both]
    unseen = a.unseen | b.unseen
    return _by_name(*shown, unseen=unseen), _by_name(*hidden, unseen=unseen)


def _is_hidden(name: str) -> bool:
    return name.startswith(("$", "__"))


def _by_name(
    a: Mapping[str, str], b: Mapping[str, str], *, unseen: AbstractSet[str] = frozenset()
) -> NameDifference:
    """Compare names; of those in `unseen`, one side cannot say whether it has them."""
    both = sorted(a.keys() & b.keys())
    others = [name for name in both if a[name] != b[name]]
    unknown = {
        name for name in others if a[name].startswith(RECORDED) or b[name].startswith(RECORDED)
    }
    unknown |= (a.keys() ^ b.keys()) & unseen
    return NameDifference(
        same=tuple(name for name in both if a[name] == b[name]),
        changed=tuple(name for name in others if name not in unknown),
        only_a=tuple(sorted(a.keys() - b.keys() - unknown)),
        only_b=tuple(sorted(b.keys() - a.keys() - unknown)),
        unknown=tuple(sorted(unknown)),
    )


def _memory(side: Side) -> dict[str, str]:
    memory = side.section("context").get("working_memory")
    if not isinstance(memory, dict):
        return {}
    return {str(name): digest.of_value(value) for name, value in memory.items()}


def _same_task(a: Side, b: Side) -> Iterator[str]:
    """Say why two sessions are about one thing, nothing if it does not show."""
    origins_a, origins_b = _origins(a), _origins(b)
    id_a, id_b = (side.section("session").get("id") for side in (a, b))
    if id_a is not None and id_a == id_b:
        yield "they are one session"
    elif id_a in origins_b:
        yield f"{b.name} comes from {a.name}"
    elif id_b in origins_a:
        yield f"{a.name} comes from {b.name}"
    elif origins_a & origins_b:
        yield f"both come from {min(origins_a & origins_b)}"
    if a.title is not None and a.title == b.title:
        yield "equal titles"
    if (prompt := _prompt(a)) is not None and prompt == _prompt(b):
        yield "equal prompts"


def _origins(side: Side) -> set[str]:
    """Return the sessions that this one was forked from or begun by."""
    session = side.section("session")
    fork = session.get("forked_from")
    origin = fork.get("session_id") if isinstance(fork, dict) else None
    known = (session.get("parent_session_id"), origin)
    return {each for each in known if isinstance(each, str)}


def _prompt(side: Side) -> str | None:
    """Return what a notebook begins with: of a session, what its agent was asked."""
    texts = (cell.source.strip() for cell in side.cells if cell.type == "markdown")
    return next(texts, None) or None
