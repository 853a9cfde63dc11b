"""Which cells belong together when a picture of each of them would be too much."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from rlmnb.picture.wording import plain

PICTURE = "**What the cells need from one another**"
"""The first line of a picture that was put into a notebook; it tells of cells and begins none."""

_TITLE = 200


@dataclass(frozen=True, slots=True)
class Turn:
    """What began with one text cell: a person's prompt, or a heading of a notebook."""

    number: int
    title: str


def turns_of(
    entries: Iterable[Mapping[str, Any]], replies: Collection[str] = ()
) -> tuple[list[Turn], dict[str, int]]:
    """Return the turns, and the turn of each code cell; cells above the first are in none.

    `replies` are the texts in which the agent speaks: with them no turn begins.
    """
    turns: list[Turn] = []
    turn_of: dict[str, int] = {}
    for entry in entries:
        if entry["type"] == "markdown":
            if _begins(entry, replies):
                title = plain(entry["title"].lstrip("#> "), _TITLE)
                turns.append(Turn(len(turns) + 1, title))
        elif entry["type"] != "raw":
            turn_of[entry["cell_id"]] = len(turns)
    return turns, turn_of


def _begins(text: Mapping[str, Any], replies: Collection[str]) -> bool:
    """Tell whether a turn begins with this text."""
    return text["cell_id"] not in replies and not text["title"].startswith(PICTURE)


def grouped(
    places: Sequence[tuple[int, int]], spans: Sequence[tuple[int, int]], most: int
) -> list[range]:
    """Return runs of neighbours: one for each turn, or fewer where there are too many turns.

    `places` has the number and the turn of each cell, `spans` the places that edges join. Where
    there is no more than one turn it says nothing, and the runs end where few edges cross.
    """
    if not places:
        return []
    turns = [at for at in range(1, len(places)) if places[at][1] != places[at - 1][1]]
    if not turns and len(places) > most:
        cuts = _quiet_cuts(len(places), spans, 2 * most // 3)
    else:
        step = -(-(len(turns) + 1) // most)
        cuts = turns[step - 1 :: step]
    return [range(start, end) for start, end in pairwise([0, *cuts, len(places)])]


def _quiet_cuts(count: int, spans: Sequence[tuple[int, int]], runs: int) -> list[int]:
    """Return where to cut `count` cells into about so many runs, near even, at few edges."""
    changes = [0] * (count + 1)
    for one, other in spans:
        low, high = sorted((one, other))
        changes[low + 1] += 1
        changes[high + 1] -= 1
    crossing = list(accumulate(changes))
    size = count / runs
    reach = int(size / 3)
    cuts = []
    for run in range(1, runs):
        middle = round(run * size)
        window = range(max(middle - reach, 1), min(middle + reach, count - 1) + 1)
        cuts.append(min((crossing[at], abs(at - middle), at) for at in window)[2])
    return sorted(set(cuts))
