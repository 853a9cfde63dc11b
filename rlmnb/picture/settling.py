"""Where in its layer each box and bend goes, once their order there is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

_SWEEPS = 12
_STRAIGHT = 6.0
"""How much more a bend wants to be below another bend than a box below a box."""

Ties = Mapping[int, Sequence[tuple[int, float]]]


def pull(source: int, target: int) -> float:
    """Return how strongly two ends of a step draw each other; bends are numbered below zero."""
    return _STRAIGHT ** ((source < 0) + (target < 0))


def settled(
    layers: Sequence[Sequence[int]], above: Ties, below: Ties, room: float
) -> dict[int, float]:
    """Return the x of each member, near those it is tied to and no nearer to others than `room`.

    The layout library keeps long edges straight at any price, which makes a session of sixty
    cells five thousand points wide; this gives up some straightness for a third of the width.
    """
    x: dict[int, float] = {}
    offsets = [_offsets(layer, room) for layer in layers]
    for layer, offset in zip(layers, offsets, strict=True):
        middle = offset[-1] / 2
        x |= {member: at - middle for member, at in zip(layer, offset, strict=True)}
    order = list(zip(layers, offsets, strict=True))
    for sweep in range(_SWEEPS):
        ties = above if sweep % 2 == 0 else below
        for layer, offset in order if sweep % 2 == 0 else reversed(order):
            _settle(layer, offset, [ties], x)
    for layer, offset in order:
        _settle(layer, offset, [above, below], x)
    return x


def _offsets(layer: Sequence[int], room: float) -> list[float]:
    """Return the least distance of each member from the first."""
    found = [0.0]
    for left, right in pairwise(layer):
        found.append(found[-1] + _half(left, room) + _half(right, room))
    return found


def _half(member: int, room: float) -> float:
    return room / 2 if member >= 0 else 9.0


def _settle(
    layer: Sequence[int], offset: Sequence[float], ties: Iterable[Ties], x: dict[int, float]
) -> None:
    """Move the members of a layer as near to their wishes as the least distances allow.

    Taking the offsets away leaves wishes that must only not decrease: those that do are pooled
    until they do not, which gives the least sum of squares.
    """
    ties = list(ties)
    pools: list[tuple[float, float, int]] = []
    for member, at in zip(layer, offset, strict=True):
        pairs = [pair for each in ties for pair in each.get(member, ())]
        weight = sum(strength for _, strength in pairs)
        wish = (
            sum(x[other] * strength for other, strength in pairs) / weight if pairs else x[member]
        )
        weight = weight or 0.1
        size = 1
        wish -= at
        while pools and pools[-1][0] > wish:
            before, heavy, many = pools.pop()
            wish = (before * heavy + wish * weight) / (heavy + weight)
            weight += heavy
            size += many
        pools.append((wish, weight, size))
    wishes = [wish for wish, _, size in pools for _ in range(size)]
    x.update((member, wish + at) for member, wish, at in zip(layer, wishes, offset, strict=True))
