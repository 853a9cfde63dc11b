"""How a replay is to go, as whoever asks for it says."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypedDict

from rlmnb.graph.environment import CodeCell
from rlmnb.models.modes import Mode
from rlmnb.replay.report import Teller


@dataclass(frozen=True)
class Wishes:
    """How a replay is to go."""

    force: frozenset[str] = frozenset()
    # The cells that may run, where not all of them may.
    only: frozenset[str] | None = None
    allow_effects: bool = False
    # The cells that are allowed to, where not all that may run are.
    effects_of: frozenset[str] | None = None
    fail_fast: bool = False
    timeout: float | None = None
    memory: int | None = None
    # Leave the kernel running for the next replay.
    keep_kernel: bool = False
    # When cells may call models, and from which age on, in seconds, answers are asked for again.
    calls: Mode = "once"
    calls_expire: float | None = None
    # Make calls that the session's budget does not allow.
    over_budget: bool = False
    # How long to wait for another replay of the same session, in seconds.
    patience: float = 600.0
    tell: Teller = lambda *_: None

    def hinders(self, cell: CodeCell) -> str | None:
        """Say why a cell must not be run, None if it may."""
        if cell.frozen:
            return cell.frozen
        if cell.effects and not self.lets_change(cell):
            return refusal(cell.effects)
        return None

    def lets_change(self, cell: CodeCell) -> bool:
        """Tell whether a cell may change things outside the notebook."""
        among = [each for each in (self.only, self.effects_of) if each is not None]
        return self.allow_effects and all(cell.cell_id in each for each in among)


def refusal(tools: Iterable[str]) -> str:
    """Say why a cell that calls these tools is left as it is."""
    named = ", ".join(tools)
    return f"it changes things outside the notebook ({named}): allow it with --allow-effects"


class WishesGiven(TypedDict, total=False):
    """The fields of `Wishes`, as a caller may give them."""

    force: frozenset[str]
    only: frozenset[str] | None
    allow_effects: bool
    effects_of: frozenset[str] | None
    fail_fast: bool
    timeout: float | None
    memory: int | None
    keep_kernel: bool
    calls: Mode
    calls_expire: float | None
    over_budget: bool
    patience: float
    tell: Teller
