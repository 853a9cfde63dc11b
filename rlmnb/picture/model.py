"""What a picture of a session shows: nodes with their state, edges with their reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlmnb.graph.effects import is_effectful
from rlmnb.graph.index import Index, downstream, upstream
from rlmnb.picture.grouping import Turn, grouped, turns_of
from rlmnb.picture.wording import listed, plain, reasons_in

STATES = ("failed", "running", "stale", "fresh")
"""How a cell can stand, what needs a person's eye first."""

MANY = 60
"""With more code cells than this, a picture of each of them is not readable."""

_STORY = ("markdown", "raw")
_TITLE = 200


@dataclass(frozen=True, slots=True)
class Node:
    """A cell, a group of cells (a turn, or a run of cells), or a file."""

    key: str
    kind: str
    title: str
    state: str | None = None
    effectful: bool = False
    number: int = 0
    last: int = 0
    operation: str | None = None
    turn: int = 0
    last_turn: int = 0
    causes: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    cells: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What edges and readers call it."""
        if self.kind == "cell":
            return f"#{self.number}"
        if self.kind == "file":
            return self.title
        if not self.turn:
            return self.numbers
        several = self.last_turn > self.turn
        return f"turns {self.turn}-{self.last_turn}" if several else f"turn {self.turn}"

    @property
    def numbers(self) -> str:
        """Where its cells stand in the notebook."""
        return f"#{self.number}" if self.number >= self.last else f"#{self.number}-{self.last}"

    @property
    def heading(self) -> str:
        """What a group is about."""
        return f"{self.name}: {self.title}" if self.turn else self.title

    @property
    def tally(self) -> str:
        """How many cells a group has, and how many of them are not fresh."""
        total = len(self.cells)
        return listed(
            [
                f"{total} cell{'' if total == 1 else 's'}",
                *(
                    f"{self.counts[word]} {word}"
                    for word in ("stale", "failed", "running", "effectful")
                    if self.counts.get(word)
                ),
            ]
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the node for a script."""
        found: dict[str, Any] = {"id": self.key, "kind": self.kind, "title": self.title}
        if self.kind == "file":
            return found
        found |= {
            "number": self.number,
            "turn": self.turn or None,
            "state": self.state,
            "effectful": self.effectful,
            "causes": list(self.causes),
        }
        if self.kind == "group":
            label = f"{self.heading} — {self.tally}"
            counts, cells = dict(self.counts), list(self.cells)
            return {**found, "label": label, "counts": counts, "cells": cells}
        return {**found, "operation": self.operation}


@dataclass(frozen=True, slots=True)
class Edge:
    """Something that goes from one node to another, and why."""

    source: str
    target: str
    reasons: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the edge for a script, its reason whole."""
        return {"from": self.source, "to": self.target, "reason": ", ".join(self.reasons)}


@dataclass(frozen=True, slots=True)
class Picture:
    """All that is drawn, in notebook order."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    turns: tuple[Turn, ...] = ()
    collapsed: bool = False
    cells: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    chosen: str | None = None

    def incoming(self) -> dict[str, list[Edge]]:
        """Return the edges by the node they lead to."""
        found: dict[str, list[Edge]] = {}
        for edge in self.edges:
            found.setdefault(edge.target, []).append(edge)
        return found

    def as_dict(self) -> dict[str, Any]:
        """Return the picture for a script."""
        return {
            "nodes": [node.as_dict() for node in self.nodes],
            "edges": [edge.as_dict() for edge in self.edges],
            "collapsed": self.collapsed,
        }


def draw(
    index: Index,
    stale: Mapping[str, Sequence[str]],
    *,
    effectful: Collection[str] = (),
    replies: Collection[str] = (),
    files: bool = False,
    by_turn: bool | None = None,
    cell: str | None = None,
) -> Picture:
    """Return the picture of an index whose stale cells are these.

    `effectful` are cells that change the world by what their code does; those whose record names
    such a tool are known. `replies` are texts in which the agent speaks: no turn begins there.
    `by_turn` None collapses when there are too many cells; `cell` leaves only what it depends on
    and what depends on it.
    """
    cells = index["cells"]
    wanted = None
    if cell is not None:
        wanted = {cell, *upstream(index, cell), *downstream(index, cell)}
    turns, turn_of = turns_of(cells.values(), replies)
    entries = [
        entry
        for entry in cells.values()
        if entry["type"] not in _STORY and (wanted is None or entry["cell_id"] in wanted)
    ]
    nodes = [_cell_node(entry, stale, effectful, turn_of) for entry in entries]
    edges = _edges_of(entries, {node.key for node in nodes})
    counts = _counted(nodes)
    collapse = len(nodes) > MANY if by_turn is None else by_turn
    holder = {node.key: node.key for node in nodes}
    if collapse:
        groups = grouped([(node.number, node.turn) for node in nodes], _spans(nodes, edges), MANY)
        nodes, holder = _merged(nodes, groups, turns)
        edges = _lifted(edges, holder)
    if files:
        nodes, edges = _with_files(nodes, edges, entries, holder, collapse=collapse)
    return Picture(
        nodes=tuple(nodes),
        edges=tuple(edges),
        turns=tuple(turns),
        collapsed=collapse,
        cells=len(entries),
        counts=counts,
        chosen=holder.get(cell) if cell is not None else None,
    )


def state_of(entry: Mapping[str, Any], causes: Sequence[str]) -> str:
    """Return the one word for how a cell stands; one that waits for its answer still runs."""
    status = entry["status"]
    if status == "failed":
        return "failed"
    if status in ("running", "suspended"):
        return "running"
    return "stale" if causes else "fresh"


def _cell_node(
    entry: Mapping[str, Any],
    stale: Mapping[str, Sequence[str]],
    effectful: Collection[str],
    turn_of: Mapping[str, int],
) -> Node:
    key = entry["cell_id"]
    causes = stale.get(key, ())
    operation = entry.get("operation")
    return Node(
        key=key,
        kind="cell",
        title=plain(entry["title"], _TITLE),
        state=state_of(entry, causes),
        effectful=key in effectful or is_effectful(operation),
        number=entry["number"],
        last=entry["number"],
        operation=plain(operation, 40) if operation else None,
        turn=turn_of.get(key, 0),
        causes=tuple(plain(cause) for cause in causes),
        cells=(key,),
    )


def _edges_of(entries: Iterable[Mapping[str, Any]], shown: set[str]) -> list[Edge]:
    return [
        Edge(parent, entry["cell_id"], reasons_in(entry["reasons"].get(parent, "")))
        for entry in entries
        for parent in entry["dependencies"]
        if parent in shown
    ]


def _counted(nodes: Iterable[Node]) -> dict[str, int]:
    counts = Counter(str(node.state) for node in nodes)
    found = {state: counts[state] for state in reversed(STATES) if counts[state]}
    effectful = sum(node.effectful for node in nodes)
    return found | ({"effectful": effectful} if effectful else {})


def _spans(nodes: Sequence[Node], edges: Iterable[Edge]) -> list[tuple[int, int]]:
    """Return each edge as the places of its two ends."""
    place = {node.key: at for at, node in enumerate(nodes)}
    return [(place[edge.source], place[edge.target]) for edge in edges]


def _merged(
    nodes: Sequence[Node], groups: Sequence[range], turns: Sequence[Turn]
) -> tuple[list[Node], dict[str, str]]:
    """Make each group of neighbouring cells one node; also return which node holds which cell."""
    titles = {turn.number: turn.title for turn in turns}
    parts = Counter(nodes[group[0]].turn for group in groups)
    found: list[Node] = []
    holder: dict[str, str] = {}
    for group in groups:
        members = [nodes[at] for at in group]
        first, last = members[0], members[-1]
        counts = _counted(members)
        # A part of a turn goes by the numbers of its cells: the turn's name is not its own.
        turn = first.turn if parts[first.turn] == 1 else 0
        key = f"turn-{turn}" if turn else f"cells-{first.number}-{last.number}"
        found.append(
            Node(
                key=key,
                kind="group",
                title=titles.get(turn) or first.title,
                state=next(state for state in STATES if state in counts),
                effectful="effectful" in counts,
                number=first.number,
                last=last.number,
                turn=turn,
                last_turn=last.turn,
                causes=_first_causes(members),
                counts=counts,
                cells=tuple(member.key for member in members),
            )
        )
        holder |= dict.fromkeys((member.key for member in members), key)
    return found, holder


def _first_causes(members: Iterable[Node]) -> tuple[str, ...]:
    told = [f"#{node.number}: {node.causes[0]}" for node in members if node.causes]
    return tuple(told[:5]) + ((f"and {len(told) - 5} more",) if len(told) > 5 else ())


def _lifted(edges: Iterable[Edge], holder: Mapping[str, str]) -> list[Edge]:
    """Return the edges between groups, the reasons of all their cells together."""
    reasons: dict[tuple[str, str], dict[str, None]] = {}
    for edge in edges:
        ends = holder[edge.source], holder[edge.target]
        if ends[0] != ends[1]:
            reasons.setdefault(ends, {}).update(dict.fromkeys(edge.reasons))
    place = {key: at for at, key in enumerate(dict.fromkeys(holder.values()))}
    ends_in_order = sorted(reasons, key=lambda ends: (place[ends[1]], place[ends[0]]))
    return [Edge(*ends, tuple(reasons[ends])) for ends in ends_in_order]


def _with_files(
    nodes: Sequence[Node],
    edges: Sequence[Edge],
    entries: Sequence[Mapping[str, Any]],
    holder: Mapping[str, str],
    *,
    collapse: bool,
) -> tuple[list[Node], list[Edge]]:
    """Add the files as nodes, each before the first cell that reads it or after the one that wrote.

    An edge that only says what a file with one writer says is left out: the file stands there.
    """
    touched = [
        (path, key, entry["cell_id"])
        for entry in entries
        for key in ("files_read", "files_written")
        for path in entry.get(key, ())
    ]
    writers = Counter(path for path, key, _ in touched if key == "files_written")
    paths = list(dict.fromkeys(path for path, _, _ in touched))
    file_of = _by_directory(paths, MANY * 2 // 3) if collapse else {path: path for path in paths}
    known = Counter(file_of.values())
    ties: dict[tuple[str, str], str] = {}
    before: dict[str, list[Node]] = {}
    after: dict[str, list[Node]] = {}
    seen: set[str] = set()
    turns = {node.key: node.turn for node in nodes}
    for path, key, cell_id in touched:
        name, cell = file_of[path], holder[cell_id]
        file, reads = f"file:{name}", key == "files_read"
        ties.setdefault((file, cell) if reads else (cell, file), "read" if reads else "written")
        if name not in seen:
            seen.add(name)
            more = f" ({known[name]} files)" if known[name] > 1 else ""
            title = plain(name, _TITLE) + more
            node = Node(key=file, kind="file", title=title, turn=turns[cell])
            (before if reads else after).setdefault(cell, []).append(node)
    said = {f"file {path}" for path in paths if writers[path] == 1 == known[file_of[path]]}
    kept = []
    for edge in edges:
        rest = tuple(reason for reason in edge.reasons if reason not in said)
        if rest:
            kept.append(Edge(edge.source, edge.target, rest))
    kept += [Edge(source, target, (word,)) for (source, target), word in ties.items()]
    order = [
        each
        for node in nodes
        for each in (*before.get(node.key, ()), node, *after.get(node.key, ()))
    ]
    return order, kept


def _by_directory(paths: Sequence[str], most: int) -> dict[str, str]:
    """Return what each file is shown as: itself, or a directory above when there are too many."""
    depth = max((path.count("/") for path in paths), default=0)
    shown = {path: path for path in paths}
    while len(set(shown.values())) > most and depth > 0:
        shown = {
            path: path if path.count("/") < depth else "/".join(path.split("/")[:depth]) + "/"
            for path in paths
        }
        depth -= 1
    return shown
