"""What a replay tells: on the way, and in the end."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from rlmnb.models.budget import Tally


@dataclass
class Report:
    """What a replay did, each list in notebook order."""

    executed: list[str] = field(default_factory=list)
    reused: list[str] = field(default_factory=list)
    restored: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    # Stale, and not among the cells that were asked for.
    left: list[str] = field(default_factory=list)
    causes: dict[str, list[str]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    kernel: str = "not started"
    calls: Tally = field(default_factory=Tally)

    def ran(self, cell_id: str) -> None:
        """Count a cell as run, also if it was first taken for one that holds."""
        if cell_id not in self.executed:
            self.executed.append(cell_id)
        if cell_id in self.reused:
            self.reused.remove(cell_id)

    def as_dict(self) -> dict[str, Any]:
        """Return the report for a script."""
        return {**asdict(self), "calls": self.calls.as_dict()}

    def take_in(self, rest: Report, order: list[str]) -> None:
        """Add what a second kernel did to what the first had done."""
        ran = {*self.executed, *rest.executed}
        place = {cell_id: at for at, cell_id in enumerate(order)}
        self.executed = sorted(ran, key=place.__getitem__)
        self.restored = sorted({*self.restored, *rest.restored}, key=place.__getitem__)
        self.reused = [each for each in rest.reused if each not in ran]
        self.failed, self.skipped, self.left = rest.failed, rest.skipped, rest.left
        self.causes = {**rest.causes, **self.causes}
        self.errors = rest.errors
        self.kernel = rest.kernel
        # What the first kernel's cells were spared is counted again by the second.
        self.calls.reused = {}
        self.calls.take_in(rest.calls)


class Teller(Protocol):
    """Whoever wants to know how far a replay is."""

    def __call__(self, cell_id: str, number: int, state: str, /) -> None:
        """Hear that a cell has come to a state."""
