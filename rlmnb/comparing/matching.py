"""Which cell of one notebook is which of the other.

By id first, because forks and replays keep ids; then by equal source, in order; then by likeness,
among those that stand between the same neighbours.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from rlmnb.comparing.sides import SideCell

Pair = tuple[int, int]
_ALIKE = 0.6
# A cell is held against this many neighbours at most, and only by its beginning.
_BAND = 8
_WORDS = 100
_TEXT_TYPES = ("markdown", "raw")


@dataclass(frozen=True, slots=True)
class Matching:
    """Which places belong together, in the order of the first side, and which of them stayed."""

    pairs: list[Pair]
    steady: frozenset[Pair]


def matched(a: Sequence[SideCell], b: Sequence[SideCell]) -> Matching:
    """Match the cells of two notebooks, the same whichever side is given first.

    Ties are broken by order, which is another one seen from the other side, so it is not left to
    the caller which side that is.
    """
    if _key(b) < _key(a):
        pairs = _matched(b, a)
        return Matching(_swapped(pairs), frozenset(_swapped(in_order(pairs))))
    pairs = _matched(a, b)
    return Matching(pairs, frozenset(in_order(pairs)))


def _swapped(pairs: Sequence[Pair]) -> list[Pair]:
    return sorted((other, at) for at, other in pairs)


def _key(cells: Sequence[SideCell]) -> list[tuple[str, str, str]]:
    return [(cell.cell_id, cell.source_hash, cell.type) for cell in cells]


def _matched(a: Sequence[SideCell], b: Sequence[SideCell]) -> list[Pair]:
    pairs = _by_id(a, b)
    pairs += _by_source(a, b, pairs)
    pairs += _by_likeness(a, b, pairs)
    return sorted(pairs)


def _by_id(a: Sequence[SideCell], b: Sequence[SideCell]) -> list[Pair]:
    places = {cell.cell_id: at for at, cell in enumerate(b)}
    return [
        (at, places[cell.cell_id])
        for at, cell in enumerate(a)
        if cell.cell_id in places and _same_kind(cell, b[places[cell.cell_id]])
    ]


def _same_kind(one: SideCell, other: SideCell) -> bool:
    return (one.type in _TEXT_TYPES) == (other.type in _TEXT_TYPES)


def _by_source(a: Sequence[SideCell], b: Sequence[SideCell], pairs: list[Pair]) -> list[Pair]:
    left, right = _unmatched(a, b, pairs)
    waiting: dict[tuple[bool, str], list[int]] = {}
    for at in reversed(right):
        cell = b[at]
        waiting.setdefault((cell.type in _TEXT_TYPES, cell.source_hash), []).append(at)
    found = []
    for at in left:
        places = waiting.get((a[at].type in _TEXT_TYPES, a[at].source_hash))
        if places:
            found.append((at, places.pop()))
    return found


def _unmatched(
    a: Sequence[SideCell], b: Sequence[SideCell], pairs: list[Pair]
) -> tuple[list[int], list[int]]:
    in_a, in_b = {at for at, _ in pairs}, {at for _, at in pairs}
    return (
        [at for at in range(len(a)) if at not in in_a],
        [at for at in range(len(b)) if at not in in_b],
    )


def _by_likeness(a: Sequence[SideCell], b: Sequence[SideCell], pairs: list[Pair]) -> list[Pair]:
    left, right = _unmatched(a, b, pairs)
    steady = in_order(sorted(pairs))
    anchors_a, anchors_b = [at for at, _ in steady], [at for _, at in steady]
    windows: dict[int, tuple[list[int], list[int]]] = {}
    for at in left:
        windows.setdefault(bisect_left(anchors_a, at), ([], []))[0].append(at)
    for at in right:
        windows.setdefault(bisect_left(anchors_b, at), ([], []))[1].append(at)
    found: list[Pair] = []
    for ours, theirs in windows.values():
        if ours and theirs:
            found += _alike(a, b, ours, theirs)
    return found


def _alike(
    a: Sequence[SideCell], b: Sequence[SideCell], ours: list[int], theirs: list[int]
) -> list[Pair]:
    """Pair the cells of one window, the most alike first.

    The words they share rank them, which is cheap; their order decides, only for the best.
    """
    words_a = [_words(a[at]) for at in ours]
    words_b = [_words(b[at]) for at in theirs]
    bags_a, bags_b = [Counter(each) for each in words_a], [Counter(each) for each in words_b]
    scored = []
    for j, bag in enumerate(bags_b):
        # In a long window only near neighbours are looked at, where an edit leaves a cell.
        middle = j * len(ours) // len(theirs)
        for i in range(max(0, middle - _BAND), min(len(ours), middle + _BAND + 1)):
            shared = _shared(bags_a[i], bag)
            if shared >= _ALIKE and _same_kind(a[ours[i]], b[theirs[j]]):
                scored.append((-shared, abs(i - j), i, j))
    found, taken_a, taken_b = [], set(), set()
    for _, _, i, j in sorted(scored):
        if i in taken_a or j in taken_b:
            continue
        if SequenceMatcher(None, words_a[i], words_b[j], autojunk=False).ratio() >= _ALIKE:
            taken_a.add(i)
            taken_b.add(j)
            found.append((ours[i], theirs[j]))
    return found


def _words(cell: SideCell) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", cell.source[: _WORDS * 10])[:_WORDS]


def _shared(one: Counter[str], other: Counter[str]) -> float:
    """Return how much of two bags of words is the same, from 0 to 1, whatever their order."""
    total = one.total() + other.total()
    shared = sum(min(count, other[word]) for word, count in one.items() if word in other)
    return 2 * shared / total if total else 0.0


def in_order(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the most pairs that stand in the same order on both sides; the others were moved."""
    ends: list[int] = []  # the least last place of a run of each length
    at_end: list[int] = []
    before: list[int | None] = []
    for number, (_, place) in enumerate(pairs):
        length = bisect_left(ends, place)
        before.append(at_end[length - 1] if length else None)
        if length == len(ends):
            ends.append(place)
            at_end.append(number)
        else:
            ends[length] = place
            at_end[length] = number
    kept = []
    step = at_end[-1] if at_end else None
    while step is not None:
        kept.append(pairs[step])
        step = before[step]
    return kept[::-1]
