"""Where everything in an SVG goes: boxes in layers, curves between them, words on the curves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import sqrt
from typing import NamedTuple

from rlmnb.errors import MissingExtraError
from rlmnb.picture.settling import pull, settled

ROW = 17.0
_GAP = 26.0
_NARROWEST_GAP = 40.0
_MOST_ROWS = 14
_MOST_IN_LAYER = 8
_BETWEEN = 56.0


class Point(NamedTuple):
    """A place in the drawing."""

    x: float
    y: float


class Size(NamedTuple):
    """How large every box is."""

    width: float
    height: float

    @property
    def unit(self) -> float:
        """How far two boxes beside each other are apart, from left side to left side."""
        return self.width + _GAP


@dataclass(frozen=True, slots=True)
class Tie:
    """An edge to be laid out: its ends, and how wide the words on it are."""

    source: int
    target: int
    words: float = 0.0


@dataclass(slots=True)
class Block:
    """One connected part of the graph, or a node alone, with its own corner at zero."""

    boxes: dict[int, Point] = field(default_factory=dict)
    curves: dict[int, list[Point]] = field(default_factory=dict)
    labels: dict[int, Point] = field(default_factory=dict)
    width: float = 0.0
    height: float = 0.0

    def moved(self, x: float, y: float) -> Block:
        """Return the block at another place."""
        return Block(
            {key: Point(at.x + x, at.y + y) for key, at in self.boxes.items()},
            {
                key: [Point(at.x + x, at.y + y) for at in points]
                for key, points in self.curves.items()
            },
            {key: Point(at.x + x, at.y + y) for key, at in self.labels.items()},
            self.width,
            self.height,
        )


def laid_out(count: int, ties: Sequence[Tie], box: Size) -> Block:
    """Return the places of nodes 0 to `count` and of the edges among them.

    Nodes are taken in notebook order, and an edge is laid out downwards whichever way it goes, so
    that a cycle is drawn as well. The top left corners of the boxes are given.
    """
    parts = _components(count, ties)
    blocks = [_component(ties, at, box) for _, at in parts if at]
    alone = [nodes[0] for nodes, at in parts if not at]
    area = sum((each.width + _BETWEEN) * (each.height + _BETWEEN) for each in blocks)
    area += len(alone) * box.unit * (box.height + _GAP)
    page = max([sqrt(area) * 1.2, 3 * box.unit, *(block.width for block in blocks)])
    if alone:
        blocks.append(_grid(alone, int((page + _GAP) // box.unit), box))
    return _packed(blocks, page)


def _components(count: int, ties: Sequence[Tie]) -> list[tuple[list[int], list[int]]]:
    """Return each connected part as its nodes and the places of its edges, in notebook order."""
    leader = list(range(count))

    def find(node: int) -> int:
        while leader[node] != node:
            leader[node] = leader[leader[node]]
            node = leader[node]
        return node

    for tie in ties:
        one, other = sorted((find(tie.source), find(tie.target)))
        leader[other] = one
    parts: dict[int, tuple[list[int], list[int]]] = {}
    for node in range(count):
        parts.setdefault(find(node), ([], []))[0].append(node)
    for at, tie in enumerate(ties):
        if tie.source != tie.target:
            parts[find(tie.source)][1].append(at)
    return list(parts.values())


def _grid(nodes: Sequence[int], most: int, box: Size) -> Block:
    boxes = {
        node: Point(at % most * box.unit, at // most * (box.height + _GAP))
        for at, node in enumerate(nodes)
    }
    right = max(at.x for at in boxes.values()) + box.width
    return Block(boxes, width=right, height=max(at.y for at in boxes.values()) + box.height)


def _packed(blocks: Iterable[Block], page: float) -> Block:
    """Put blocks beside one another as long as the page is wide enough, then below."""
    whole = Block()
    x = y = shelf = 0.0
    for block in blocks:
        if x and x + block.width > page + 1:
            x, y, shelf = 0.0, y + shelf + _BETWEEN, 0.0
        placed = block.moved(x, y)
        whole.boxes |= placed.boxes
        whole.curves |= placed.curves
        whole.labels |= placed.labels
        whole.width = max(whole.width, x + block.width)
        x += block.width + _BETWEEN
        shelf = max(shelf, block.height)
    whole.height = y + shelf
    return whole


def _component(ties: Sequence[Tie], places: Sequence[int], box: Size) -> Block:
    downward = {
        at: (min(ties[at].source, ties[at].target), max(ties[at].source, ties[at].target))
        for at in places
    }
    layers, routes = _layered(set(downward.values()))
    level_of = {member: level for level, layer in enumerate(layers) for member in layer}
    x_of = _across(layers, routes.values(), box)
    wanted = {
        at: _Label(ties[at].words, [(x_of[key], level_of[key]) for key in routes[ends]])
        for at, ends in downward.items()
    }
    rows, chosen = _label_rows(wanted, len(layers))
    tops = [0.0]
    for count in rows:
        tops.append(tops[-1] + box.height + max(_NARROWEST_GAP, (count + 1) * ROW))
    block = Block(height=tops[-1] + box.height, width=max(x_of.values()) + box.width / 2)
    nodes = {end for ends in downward.values() for end in ends}
    block.boxes = {node: Point(x_of[node] - box.width / 2, tops[level_of[node]]) for node in nodes}
    for at, (first, last) in downward.items():
        path = _path(routes[first, last], x_of, level_of, tops, box)
        block.curves[at] = path if ties[at].source == first else path[::-1]
    for at, (level, share) in chosen.items():
        top = tops[level] + box.height
        x = wanted[at].x_at(level, share)
        block.labels[at] = Point(x, top + share * (tops[level + 1] - top))
        block.width = max(block.width, x + wanted[at].words / 2)
    # Words on the leftmost edge may begin left of every box.
    left = min([0.0, *(at.x - wanted[key].words / 2 for key, at in block.labels.items())])
    block.width -= left
    return block.moved(-left, 0.0)


def _path(
    route: Sequence[int],
    x_of: Mapping[int, float],
    level_of: Mapping[int, int],
    tops: Sequence[float],
    box: Size,
) -> list[Point]:
    """Return the points of an edge: out of a box, past the layers between, into a box."""
    path = []
    for step, key in enumerate(route):
        top = tops[level_of[key]]
        if step:
            path.append(Point(x_of[key], top))
        if step < len(route) - 1:
            path.append(Point(x_of[key], top + box.height))
    return path


def _across(
    layers: Sequence[Sequence[int]], routes: Iterable[Sequence[int]], box: Size
) -> dict[int, float]:
    """Return the x of the middle of each box and bend."""
    above: dict[int, list[tuple[int, float]]] = {}
    below: dict[int, list[tuple[int, float]]] = {}
    for route in routes:
        for upper, lower in pairwise(route):
            strength = pull(upper, lower)
            above.setdefault(lower, []).append((upper, strength))
            below.setdefault(upper, []).append((lower, strength))
    x_of = settled(layers, above, below, box.unit)
    left = min(x - (box.width / 2 if member >= 0 else 0) for member, x in x_of.items())
    return {member: x - left for member, x in x_of.items()}


def _layered(
    edges: Iterable[tuple[int, int]],
) -> tuple[list[list[int]], dict[tuple[int, int], list[int]]]:
    """Return the layers, each from left to right, and what each edge goes through.

    Beside the nodes a layer has the bends of edges that pass it, numbered below zero.
    """
    try:
        from fast_sugiyama import from_edges
    except ImportError as error:
        raise MissingExtraError(
            "an SVG is laid out with fast-sugiyama, which is not installed here; "
            "--mermaid and --dot need nothing",
            hint="run: pip install 'rlmnb[graph]'",
        ) from error
    edges = sorted(edges)
    nodes = sorted({end for edge in edges for end in edge})
    short = {node: number for number, node in enumerate(nodes)}
    real = [(short[source], short[target]) for source, target in edges]
    unseen = _narrowing(len(nodes), real)
    (found,) = from_edges(real + unseen, dummy_vertices=True, ranking_type="up")
    spots, _, _, steps = found

    def name(number: int | str) -> int:
        return nodes[int(number)] if int(number) < len(nodes) else -int(number)

    following: dict[int, list[int]] = {}
    for source, target in steps or ():
        following.setdefault(name(source), []).append(name(target))
    drawn = set(edges)
    routes = {}
    for node in nodes:
        for step in following.get(node, ()):
            route = [node, step]
            while route[-1] < 0:
                route.append(following[route[-1]][0])
            if (node, route[-1]) in drawn:
                routes[node, route[-1]] = route
    shown = {member for route in routes.values() for member in route}
    layers: dict[float, list[tuple[float, int]]] = {}
    for number, (x, y) in spots:
        if name(number) in shown:
            layers.setdefault(-y, []).append((x, name(number)))
    return _reading_order(
        [[member for _, member in sorted(layers[y])] for y in sorted(layers)]
    ), routes


def _reading_order(layers: list[list[int]]) -> list[list[int]]:
    """Mirror the layers if earlier cells are mostly on the right: people read from the left."""
    score = 0
    for layer in layers:
        boxes = [member for member in layer if member >= 0]
        score += sum(1 if left < right else -1 for left, right in pairwise(boxes))
    return [layer[::-1] for layer in layers] if score < 0 else layers


def _narrowing(count: int, edges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return edges, not to be drawn, that keep every layer narrow enough to be looked at.

    A node goes into the first layer below its parents that has room (as Coffman and Graham do).
    """
    parents: dict[int, list[int]] = {}
    for source, target in edges:
        parents.setdefault(target, []).append(source)
    layers: list[list[int]] = []
    level_of: dict[int, int] = {}
    added = []
    known = set(edges)
    full = 0
    for node in range(count):
        least = max((level_of[parent] + 1 for parent in parents.get(node, ())), default=0)
        level = max(least, full)
        while level < len(layers) and len(layers[level]) >= _MOST_IN_LAYER:
            level += 1
        if level == len(layers):
            layers.append([])
        if level > least:
            above = layers[level - 1][len(layers[level]) % len(layers[level - 1])]
            if (above, node) not in known:
                added.append((above, node))
        layers[level].append(node)
        level_of[node] = level
        while full < len(layers) and len(layers[full]) >= _MOST_IN_LAYER:
            full += 1
    return added


@dataclass(frozen=True, slots=True)
class _Label:
    """The words of an edge, and the x of the edge at each layer it passes."""

    words: float
    passes: list[tuple[float, int]]

    def x_at(self, level: int, share: float) -> float:
        """Return where the curve is in the gap below a layer, a share of the way down."""
        xs = {at: x for x, at in self.passes}
        bend = share * share * (3 - 2 * share)
        return xs[level] + (xs[level + 1] - xs[level]) * bend

    @property
    def levels(self) -> range:
        """The layers below which the edge can be written on."""
        return range(self.passes[0][1], self.passes[-1][1])


def _label_rows(
    labels: Mapping[int, _Label], levels: int
) -> tuple[list[int], dict[int, tuple[int, float]]]:
    """Give each label a row in one of the gaps its edge crosses, so that no two overlap.

    Return how many rows each gap needs, and for each label its gap and the share of the way down.
    A label for which there is no room is left out; its words are in the tooltip.
    """
    in_gap: list[list[int]] = [[] for _ in range(max(levels - 1, 0))]
    for at, label in sorted(labels.items(), key=lambda item: (len(item[1].levels), item[0])):
        if label.words:
            gap = min(label.levels, key=lambda level: (len(in_gap[level]), -level))
            in_gap[gap].append(at)
    rows: list[int] = []
    chosen: dict[int, tuple[int, float]] = {}
    for gap, members in enumerate(in_gap):
        placed: dict[int, float] = {}
        count = 0
        while members and len(placed) < len(members) and count < _MOST_ROWS:
            count += 1
            placed = _placed(labels, members, gap, count)
        rows.append(count)
        chosen |= {at: (gap, share) for at, share in placed.items()}
    return rows, chosen


def _placed(
    labels: Mapping[int, _Label], members: Sequence[int], gap: int, count: int
) -> dict[int, float]:
    shares = [(row + 1) / (count + 1) for row in range(count)]
    taken: list[list[tuple[float, float]]] = [[] for _ in shares]
    found = {}
    for at in sorted(members, key=lambda at: labels[at].x_at(gap, 0.5)):
        for row in sorted(range(count), key=lambda row: (len(taken[row]), row)):
            middle = labels[at].x_at(gap, shares[row])
            low, high = middle - labels[at].words / 2, middle + labels[at].words / 2
            if all(high < start or low > end for start, end in taken[row]):
                taken[row].append((low, high))
                found[at] = shares[row]
                break
    return found
