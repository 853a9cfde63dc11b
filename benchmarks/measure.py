"""Time two things side by side, so that whatever else the machine does slows both."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Row:
    """One comparison: ours beside a peer, and the bound it should keep."""

    name: str
    peer: str
    ours_ms: float
    peer_ms: float
    bound: str
    kept: bool

    @property
    def ratio(self) -> float:
        """How long ours takes, in units of the peer's time."""
        return self.ours_ms / self.peer_ms if self.peer_ms else float("inf")

    def as_dict(self) -> dict[str, object]:
        """Return the row for a script."""
        return {**asdict(self), "ratio": self.ratio}


def seconds(action: Callable[[], object]) -> float:
    """Return how long an action takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def side_by_side(
    ours: Callable[[], object],
    peer: Callable[[], object],
    *,
    rounds: int,
    peer_rounds: int | None = None,
) -> tuple[float, float]:
    """Return the median milliseconds of both, their rounds taking turns."""
    mine, theirs = [], []
    for number in range(rounds):
        mine.append(seconds(ours))
        if number < (peer_rounds or rounds):
            theirs.append(seconds(peer))
    return statistics.median(mine) * 1000, statistics.median(theirs) * 1000


def fair(pairs: list[tuple[float, float]]) -> tuple[float, float]:
    """Return the milliseconds of the pair, measured next to each other, whose ratio is median."""
    ours, peer = sorted(pairs, key=lambda pair: pair[0] / pair[1])[len(pairs) // 2]
    return ours * 1000, peer * 1000


def at_most(name: str, peer: str, times: tuple[float, float], bound: float) -> Row:
    """Make a row that should take at most `bound` times as long as its peer."""
    ours, theirs = times
    return Row(name, peer, ours, theirs, f"at most {bound:g}x", ours <= bound * theirs)


def at_least_faster(name: str, peer: str, times: tuple[float, float], bound: float) -> Row:
    """Make a row that should be at least `bound` times as fast as its peer."""
    ours, theirs = times
    return Row(name, peer, ours, theirs, f"{bound:g}x faster", theirs >= bound * ours)


def within(name: str, peer: str, times: tuple[float, float], target: float, most: float) -> Row:
    """Make a row with a target in milliseconds, beside a plain write to the same disk."""
    ours, theirs = times
    return Row(name, peer, ours, theirs, f"{target:g} ms, {most:g} at most", ours <= most)
