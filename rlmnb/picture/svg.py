"""A picture as one SVG file that needs nothing else: no script, no font, no other file."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from xml.etree import ElementTree as ET

from rlmnb.picture.layout import ROW, Point, Size, Tie, laid_out
from rlmnb.picture.model import Edge, Node, Picture
from rlmnb.picture.palette import INKS, ink_of
from rlmnb.picture.texts import listed_words
from rlmnb.picture.wording import brief, columns, cut, ending, named

_NAMESPACE = "http://www.w3.org/2000/svg"
_FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_SIZE = 11.0
_SMALL = 10.0
_LETTER = 0.605
_MARGIN = 24.0
_LEGEND = 34.0
_CELL_WIDTH, _GROUP_WIDTH = 208.0, 250.0
_INDENT = 14.0
_PAPER, _LINE, _WORDS = "#ffffff", "#6e7781", "#24292f"
_LONGEST_REASON = 30


def svg(picture: Picture) -> str:
    """Return the picture as the text of an SVG file."""
    width = _GROUP_WIDTH if picture.collapsed else _CELL_WIDTH
    rows = max((len(_box_lines(node, width)) for node in picture.nodes), default=1)
    box = Size(width, 12.0 + rows * 15.0)
    place = {node.key: at for at, node in enumerate(picture.nodes)}
    ties = [
        Tie(place[edge.source], place[edge.target], _wide(_words_of(edge), _SMALL) + 8)
        for edge in picture.edges
    ]
    layout = laid_out(len(picture.nodes), ties, box)
    layout = layout.moved(_MARGIN, _MARGIN + _LEGEND)
    width = max(layout.width, _legend_width(picture)) + 2 * _MARGIN
    height = layout.height + 2 * _MARGIN + _LEGEND
    root = _root(width, height)
    _legend(root, picture)
    for at, edge in enumerate(picture.edges):
        if at in layout.curves:
            _curve(root, layout.curves[at], _about_edge(edge, picture.nodes, place))
    for at, node in enumerate(picture.nodes):
        _box(root, node, layout.boxes[at], box, chosen=node.key == picture.chosen)
    # Words come last: a curve that crosses them goes below.
    for at, spot in layout.labels.items():
        edge = picture.edges[at]
        _reason(root, _words_of(edge), spot, _about_edge(edge, picture.nodes, place))
    ET.indent(root, " ")
    return ET.tostring(root, encoding="unicode") + "\n"


def _root(width: float, height: float) -> ET.Element:
    root = ET.Element(
        "svg",
        {
            "xmlns": _NAMESPACE,
            "width": _number(width),
            "height": _number(height),
            "viewBox": f"0 0 {_number(width)} {_number(height)}",
            "font-family": _FONT,
            "font-size": _number(_SIZE),
        },
    )
    _child(root, "title").text = "What the cells of a session need from one another"
    marker = _child(
        _child(root, "defs"),
        "marker",
        id="arrow", viewBox="0 0 8 8", refX="7", refY="4", markerWidth="7", markerHeight="7",
        orient="auto",
    )  # fmt: skip
    _child(marker, "path", d="M0 0 L8 4 L0 8 z", fill=_LINE)
    _child(root, "rect", width="100%", height="100%", fill=_PAPER, rx="6")
    return root


def _child(parent: ET.Element, tag: str, **attributes: str) -> ET.Element:
    named_as_in_svg = {key.replace("_", "-"): value for key, value in attributes.items()}
    return ET.SubElement(parent, tag, named_as_in_svg)


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _wide(text: str, size: float) -> float:
    return columns(text) * size * _LETTER


def _text(parent: ET.Element, at: Point, text: str, **attributes: str) -> None:
    _child(parent, "text", x=_number(at.x), y=_number(at.y), **attributes).text = text


def _box_lines(node: Node, width: float) -> list[str]:
    most = int((width - 2 * _INDENT) / (_SIZE * _LETTER))
    if node.kind == "file":
        return ["file", ending(node.title, most)]
    if node.kind == "group":
        head = f"{node.name} · {node.numbers}" if node.turn else node.name
        return [cut(head, most), brief(node.title, most), *_split(node.tally, most)]
    return [cut(listed_words(node).removesuffix(" · effectful"), most), brief(node.title, most)]


def _split(tally: str, most: int) -> list[str]:
    """Break a tally in two where it is too long for a line."""
    if len(tally) <= most:
        return [tally]
    at = tally.rfind(", ", 0, most)
    return [tally[: at + 1], cut(tally[at + 2 :], most)]


def _shape(x: float, y: float, width: float, height: float) -> str:
    """Return the outline of an effectful cell: pointed at both sides."""
    point = min(10.0, height / 2)
    middle = y + height / 2
    corners = [
        (x + point, y), (x + width - point, y), (x + width, middle),
        (x + width - point, y + height), (x + point, y + height), (x, middle),
    ]  # fmt: skip
    return "M" + " L".join(f"{_number(a)} {_number(b)}" for a, b in corners) + " z"


def _outline(
    parent: ET.Element, kind: str, state: str | None, at: Point, size: tuple[float, float], pen: str
) -> None:
    ink = ink_of(state)
    drawn = {"fill": ink.fill, "stroke": ink.stroke, "stroke_width": pen}
    if kind == "effectful":
        _child(parent, "path", d=_shape(at.x, at.y, *size), **drawn)
        return
    if kind == "file":
        drawn["stroke_dasharray"] = "4 3"
    _child(
        parent, "rect",
        x=_number(at.x), y=_number(at.y), width=_number(size[0]), height=_number(size[1]),
        rx="6" if kind == "cell" else ("10" if kind == "group" else "0"), **drawn,
    )  # fmt: skip


def _box(root: ET.Element, node: Node, at: Point, box: Size, *, chosen: bool) -> None:
    drawn = _child(root, "g")
    drawn.set("class", f"node {node.kind} {node.state or 'file'}")
    _child(drawn, "title").text = _about_node(node)
    kind = "effectful" if node.kind == "cell" and node.effectful else node.kind
    pen = "3.5" if chosen else ("2" if kind == "group" else "1.4")
    _outline(drawn, kind, node.state, at, box, pen)
    shown = _box_lines(node, box.width)
    first = at.y + (box.height - 15.0 * len(shown)) / 2 + 11.5
    for row, line in enumerate(shown):
        weight = {"font_weight": "bold"} if row == 0 else {}
        spot = Point(at.x + _INDENT, first + 15.0 * row)
        _text(drawn, spot, line, fill=ink_of(node.state).words, **weight)


def _about_node(node: Node) -> str:
    """Return the tooltip of a node: who it is, and why it is stale."""
    if node.kind == "file":
        return node.title
    head = f"{node.name} {node.key}" if node.kind == "cell" else f"{node.name} ({node.tally})"
    state = f"{node.state}, effectful" if node.effectful else str(node.state)
    return "\n".join([f"{head}: {state}", node.title, *(f"because {why}" for why in node.causes)])


def _words_of(edge: Edge) -> str:
    return cut(named(edge.reasons), _LONGEST_REASON)


def _about_edge(edge: Edge, nodes: tuple[Node, ...], place: dict[str, int]) -> str:
    source, target = nodes[place[edge.source]], nodes[place[edge.target]]
    return f"{source.name} → {target.name}: {named(edge.reasons, 20)}"


def _curve(root: ET.Element, points: list[Point], about: str) -> None:
    """Draw a smooth line through the points, upright at each of them."""
    parts = [f"M{_number(points[0].x)} {_number(points[0].y)}"]
    for here, there in pairwise(points):
        third = (there.y - here.y) / 3
        parts.append(
            f"C{_number(here.x)} {_number(here.y + third)} "
            f"{_number(there.x)} {_number(there.y - third)} {_number(there.x)} {_number(there.y)}"
        )
    drawn = _child(
        root, "path",
        d=" ".join(parts), fill="none", stroke=_LINE, stroke_width="1.2", marker_end="url(#arrow)",
    )  # fmt: skip
    drawn.set("class", "edge")
    _child(drawn, "title").text = about


def _reason(root: ET.Element, words: str, at: Point, about: str) -> None:
    drawn = _child(root, "g")
    drawn.set("class", "reason")
    _child(drawn, "title").text = about
    width = _wide(words, _SMALL) + 4
    _child(
        drawn, "rect",
        x=_number(at.x - width / 2), y=_number(at.y - ROW / 2 + 1.5),
        width=_number(width), height=_number(ROW - 3), fill=_PAPER, fill_opacity="0.9", rx="3",
    )  # fmt: skip
    _text(
        drawn, Point(at.x, at.y + 3.5), words,
        fill=_WORDS, font_size=_number(_SMALL), text_anchor="middle",
    )  # fmt: skip


def _legend_entries(picture: Picture) -> Iterable[tuple[str, str, str | None]]:
    """Return the words of the legend with the kind of box and the state that they are for."""
    for state in INKS:
        if state != "file":
            yield state, "cell", state
    yield "effectful", "effectful", "fresh"
    if picture.collapsed:
        yield "several cells", "group", "fresh"
    if any(node.kind == "file" for node in picture.nodes):
        yield "file", "file", None


def _legend_width(picture: Picture) -> float:
    return sum(_wide(words, _SIZE) + 50 for words, _, _ in _legend_entries(picture))


def _legend(root: ET.Element, picture: Picture) -> None:
    drawn = _child(root, "g")
    drawn.set("class", "legend")
    x = _MARGIN
    for words, kind, state in _legend_entries(picture):
        _outline(drawn, kind, state, Point(x, 16), (24.0, 15.0), "1.4")
        _text(drawn, Point(x + 31, 27.5), words, fill=_WORDS)
        x += _wide(words, _SIZE) + 50
