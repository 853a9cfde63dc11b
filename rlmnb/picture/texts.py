"""A picture as text: for a terminal, as Mermaid, and as dot for Graphviz."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from rlmnb.picture.model import Edge, Node, Picture
from rlmnb.picture.palette import INKS, ink_of
from rlmnb.picture.wording import (
    brief,
    columns,
    cut,
    ending,
    fitting,
    listed,
    named,
    plain,
    short_reason,
)

Line = tuple[tuple[str, str], ...]
"""The parts of a line, each with the style it is shown in."""

_SHORT_ID = 13
_MOST_EDGES = 8
_LABEL = 60
_ENOUGH = 36
_NAMED_TOGETHER = 3


@dataclass(frozen=True, slots=True)
class Marks:
    """The signs of the text form."""

    needs: str = "◀"
    dash: str = "—"
    ellipsis: str = "…"


UNICODE = Marks()
ASCII = Marks(needs="<-", dash="--", ellipsis="...")


def lines(picture: Picture, *, width: int | None = None, marks: Marks = UNICODE) -> Iterator[Line]:
    """Yield the picture line by line, in notebook order, what a cell needs below the cell.

    Without a width, for a pipe, nothing is left out.
    """
    return map(_without_end, _lines(picture, width, marks))


def _lines(picture: Picture, width: int | None, marks: Marks) -> Iterator[Line]:
    page = _Page(picture, width, marks)
    yield from page.broken(_summary(picture), 0)
    yield ()
    incoming = picture.incoming()
    known = {node.key: node for node in picture.nodes}
    titles = {turn.number: turn.title for turn in picture.turns}
    turn = 0
    for node in picture.nodes:
        if not picture.collapsed and node.turn != turn:
            if node is not picture.nodes[0]:
                yield ()
            turn = node.turn
            yield ((page.fit(f"turn {turn}: {titles[turn]}"), "bold"),)
        yield from page.node(node)
        yield from page.edges(incoming.get(node.key, ()), known)
    yield ()
    for sentence in _legend(picture, marks):
        yield from page.broken([(f"{word} ", "dim") for word in sentence.split(" ")], 0)


def _without_end(line: Line) -> Line:
    """Return a line without the spaces at its end, which part it from nothing."""
    parts = list(line)
    while parts:
        text, style = parts.pop()
        if kept := text.rstrip():
            return (*parts, (kept, style))
    return ()


def _summary(picture: Picture) -> Line:
    total = f"{picture.cells} cell{'' if picture.cells == 1 else 's'}"
    parts: list[tuple[str, str]] = [(total, "bold")]
    for number, (word, count) in enumerate(picture.counts.items()):
        parts += [(", " if number else ": ", ""), (f"{count} {word}", word)]
    return tuple(parts)


def _legend(picture: Picture, marks: Marks) -> Iterator[str]:
    known = {node.key: node for node in picture.nodes if node.kind != "file"}
    for edge in picture.edges:
        if edge.source in known and edge.target in known:
            source = known[edge.source].name
            why = cut(short_reason(edge.reasons[0]), 20, marks.ellipsis)
            what, need = _spoken_of(known[edge.target])
            line = f"{marks.needs} {source}  {why}"
            yield f"{line}: the {what} above such a line {need} {source}, because of {why}"
            break
    if "effectful" in picture.counts and not picture.collapsed:
        yield "! effectful: acts on the world outside the notebook when it runs"


def _spoken_of(node: Node) -> tuple[str, str]:
    """Return the noun for what a line stands for, and the verb that goes with it."""
    if node.kind == "cell":
        return "cell", "needs"
    if not node.turn:
        return "group of cells", "needs"
    return ("turns", "need") if node.last_turn > node.turn else ("turn", "needs")


def _place(node: Node) -> str:
    return "file" if node.kind == "file" else node.numbers


def _tally_parts(tally: str) -> Iterator[tuple[str, str]]:
    for number, part in enumerate(tally.split(", ")):
        if number:
            yield ", ", ""
        yield part, part.split()[-1]


class _Page:
    """Lays out the lines of one picture."""

    def __init__(self, picture: Picture, width: int | None, marks: Marks) -> None:
        self._width = width
        self._marks = marks
        self._chosen = picture.chosen
        self._collapsed = picture.collapsed
        numbers = [_place(node) for node in picture.nodes]
        self._numbers = max(map(len, numbers), default=2)
        self._ids = max(
            (len(self._id(node)) for node in picture.nodes if node.kind == "cell"), default=0
        )

    def fit(self, text: str, used: int = 0) -> str:
        """Return as much of a text as the rest of the line has room for."""
        if self._width is None:
            return text
        return cut(text, max(self._width - used, 4), self._marks.ellipsis)

    def broken(self, parts: Iterable[tuple[str, str]], margin: int) -> Iterator[Line]:
        """Yield parts that belong together, on more lines than one where the first is too short."""
        indent = (" " * margin, "")
        line, used = [indent], margin
        for text, style in parts:
            if self._width is not None and used + columns(text.rstrip()) > self._width:
                yield tuple(line)
                line, used = [indent], margin
            line.append((text, style))
            used += columns(text)
        yield tuple(line)

    def _code(self, node: Node, used: int) -> str:
        """Return as much of a cell's first line as the rest of the line has room for."""
        if self._width is None:
            return node.title
        return brief(node.title, max(self._width - used, 4), self._marks.ellipsis)

    def _path(self, node: Node, used: int) -> str:
        if self._width is None:
            return node.title
        return ending(node.title, max(self._width - used, 4), self._marks.ellipsis)

    def _id(self, node: Node) -> str:
        # The beginning of an id is all that a command needs; a foreign notebook's fill half a line.
        return node.key if self._width is None else node.key[:_SHORT_ID]

    def node(self, node: Node) -> Iterator[Line]:
        """Yield the lines of a node itself."""
        margin = " " * (self._numbers + 2)
        number = (f"{_place(node):>{self._numbers}}  ", "")
        if node.kind == "file":
            yield number, (self._path(node, len(margin)), "")
            return
        style = "bold" if node.key == self._chosen else ""
        if node.kind == "group":
            yield from self._group(node, number, style)
            return
        state = f"{node.state:<7}"
        head = f"{self._id(node):<{self._ids}}  "
        mark = (" ! ", "bold") if node.effectful else ("   ", "")
        used = len(margin) + len(head) + len(state) + len(mark[0])
        yield (
            number,
            (head, "dim"),
            (state, str(node.state)),
            mark,
            (self._code(node, used), style),
        )
        if node.state == "stale":
            more = f" (and {len(node.causes) - 1} more)" if len(node.causes) > 1 else ""
            why = self.fit(node.causes[0], len(margin) + len("because ") + len(more))
            yield (margin, ""), (f"because {why}{more}", "dim")

    def _group(self, node: Node, number: tuple[str, str], style: str) -> Iterator[Line]:
        """Yield what a group is and how its cells stand, on two lines where one is too short."""
        dash = f" {self._marks.dash} "
        margin = len(number[0])
        tally = tuple(_tally_parts(node.tally))
        fitted = self.fit(node.heading, margin + len(dash) + len(node.tally))
        if columns(fitted) >= min(columns(node.heading), _ENOUGH):
            yield number, (fitted, style), (dash, ""), *tally
            return
        yield number, (self.fit(node.heading, margin), style)
        yield from self.broken(tally, margin)

    def _why(self, edge: Edge, used: int) -> str:
        if self._collapsed:
            return self.fit(named(edge.reasons, _NAMED_TOGETHER), used)
        if self._width is None:
            return named(edge.reasons, len(edge.reasons))
        return fitting(edge.reasons, max(self._width - used, 8), self._marks.ellipsis)

    def edges(self, edges: Sequence[Edge], known: Mapping[str, Node]) -> Iterator[Line]:
        """Yield a line for each edge that leads to a node."""
        margin = " " * (self._numbers + 2)
        shown = edges if self._width is None else edges[:_MOST_EDGES]
        for edge in shown:
            source = known[edge.source]
            head = f"{self._marks.needs} {_called(source)}  "
            if self._width is not None:
                head = cut(head, self._width // 2, f"{self._marks.ellipsis}  ")
            why = self._why(edge, len(margin) + columns(head))
            yield (margin, ""), (head, ""), (why, "dim")
        if len(shown) < len(edges):
            yield (margin, ""), (f"{self._marks.needs} and {len(edges) - len(shown)} more", "dim")


def _called(node: Node) -> str:
    """Return what an edge calls the node it comes from; a path is told in full where it stands."""
    if node.kind == "file":
        return short_reason(node.key.replace("file:", "file ", 1))
    return node.name


def joined(found: Iterable[Line]) -> str:
    """Return lines without their styles, for a file."""
    return "".join("".join(text for text, _ in line) + "\n" for line in found)


def _label_lines(node: Node) -> list[str]:
    """Return what stands in the box of a node."""
    if node.kind == "file":
        return [plain(node.title, _LABEL)]
    if node.kind == "group":
        head = f"{node.name} · {node.numbers}" if node.turn else node.name
        return [head, plain(node.title, _LABEL), node.tally]
    return [listed_words(node), brief(node.title, _LABEL)]


def listed_words(node: Node) -> str:
    """Return a cell's number, tool and state, for the first line of its box."""
    words = [node.name, node.operation, node.state, "effectful" if node.effectful else None]
    return " · ".join(word for word in words if word)


def _clusters(picture: Picture) -> Iterator[tuple[str | None, list[Node]]]:
    """Yield the nodes with the heading they stand under, if any; files belong to no turn."""
    titles = {turn.number: f"turn {turn.number}: {turn.title}" for turn in picture.turns}
    yield None, [node for node in picture.nodes if node.kind != "cell"]
    cells = (node for node in picture.nodes if node.kind == "cell")
    for turn, nodes in groupby(cells, lambda node: node.turn):
        yield titles.get(turn), list(nodes)


# Mermaid

_SHAPES = {"cell": ('["', '"]'), "group": ('("', '")'), "file": ('[/"', '"/]')}
_EFFECTFUL_SHAPE = ('{{"', '"}}')
# Mermaid reads Markdown, HTML, entities and its own directives inside a quoted label.
_ODD = re.compile(r"[^\w .,:=/-]|_|^[-=.]|(?<=^\d)\.|(?<=^\d\d)\.|(?<=^\d\d\d)\.")


def mermaid(picture: Picture) -> str:
    """Return the picture as a Mermaid flowchart."""
    keys = {node.key: f"n{number}" for number, node in enumerate(picture.nodes, 1)}
    found = ["flowchart TD"]
    for number, (title, nodes) in enumerate(_clusters(picture), 1):
        if title is not None:
            found.append(f'  subgraph t{number}["{_mermaid_text(plain(title, _LABEL))}"]')
        for node in nodes:
            shape = _SHAPES[node.kind]
            if node.kind == "cell" and node.effectful:
                shape = _EFFECTFUL_SHAPE
            label = "<br/>".join(_mermaid_text(line) for line in _label_lines(node))
            found.append(f"    {keys[node.key]}{shape[0]}{label}{shape[1]}:::{_class_of(node)}")
        if title is not None:
            found.append("  end")
    for edge in picture.edges:
        why = _mermaid_text(plain(named(edge.reasons), _LABEL))
        found.append(f'  {keys[edge.source]} -->|"{why}"| {keys[edge.target]}')
    for state, ink in INKS.items():
        found.append(f"  classDef {state} fill:{ink.fill},stroke:{ink.stroke},color:{ink.words}")
    if picture.chosen is not None and picture.chosen in keys:
        found.append(f"  style {keys[picture.chosen]} stroke-width:4px")
    return "\n".join(found) + "\n"


def _class_of(node: Node) -> str:
    return node.state or "file"


def _mermaid_text(text: str) -> str:
    return _ODD.sub(lambda odd: f"#{ord(odd[0])};", text) or "#32;"


# dot

_DOT_SHAPES = {"cell": "box", "group": "box3d", "file": "note"}


def dot(picture: Picture) -> str:
    """Return the picture as a Graphviz digraph."""
    keys = {node.key: f"n{number}" for number, node in enumerate(picture.nodes, 1)}
    found = [
        "digraph session {",
        '  graph [rankdir=TB, bgcolor="#ffffff", fontname="Helvetica"];',
        '  node [style=filled, fontname="Helvetica", fontsize=11];',
        '  edge [color="#57606a", fontcolor="#24292f", fontname="Helvetica", fontsize=9];',
    ]
    for number, (title, nodes) in enumerate(_clusters(picture), 1):
        if title is not None:
            found.append(f"  subgraph cluster_{number} {{")
            found.append(f'    label="{_dot_text(plain(title, _LABEL))}"; color="#c4c9d0";')
        found += [f"    {keys[node.key]} [{_dot_node(node, picture.chosen)}];" for node in nodes]
        if title is not None:
            found.append("  }")
    for edge in picture.edges:
        why = _dot_text(plain(named(edge.reasons), _LABEL))
        found.append(f'  {keys[edge.source]} -> {keys[edge.target]} [label="{why}"];')
    return "\n".join([*found, "}"]) + "\n"


def _dot_node(node: Node, chosen: str | None) -> str:
    ink = ink_of(node.state)
    shape = _DOT_SHAPES[node.kind]
    if node.kind == "cell" and node.effectful:
        shape = "hexagon"
    label = "\\n".join(_dot_text(line) for line in _label_lines(node))
    tip = _dot_text(listed(node.causes) or node.title)
    wide = ", penwidth=3" if node.key == chosen else ""
    return (
        f'label="{label}", tooltip="{tip}", shape={shape}, fillcolor="{ink.fill}", '
        f'color="{ink.stroke}", fontcolor="{ink.words}"{wide}'
    )


def _dot_text(text: str) -> str:
    """Escape for a quoted string, and for Graphviz, which reads HTML's entities in it."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;")
