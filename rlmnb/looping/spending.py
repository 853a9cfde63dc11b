"""What decisions cost: asked within the session's budget, counted in it, kept with their cells."""

from __future__ import annotations

import contextlib
from dataclasses import asdict, dataclass, field
from typing import Any

from rlmnb.format.session import SpentByCells
from rlmnb.models import budget, choosing, patience
from rlmnb.models.asking import Desk, Rules
from rlmnb.models.budget import Spent, Tally
from rlmnb.models.deciding import Ask
from rlmnb.models.keeping import Call, kept_in
from rlmnb.models.modes import Mode
from rlmnb.models.nested import asking_as
from rlmnb.models.typed import Form
from rlmnb.session import Session


@dataclass
class Purse:
    """What may be spent on a session's questions, and what was."""

    session: Session
    model: str
    mode: Mode = "once"
    force: bool = False
    tries: int | None = None
    # For how many seconds an answer is waited for, at most.
    timeout: float | None = None
    # The calls by which the next step was decided.
    decisions: list[Call] = field(default_factory=list)

    def desk(self) -> Desk:
        """Return where to ask, with what may still be spent."""
        state = self.session.stored_state()
        more: dict[str, Any] = {} if self.tries is None else {"tries": self.tries}
        cells = self.session.whole()["cells"]
        return Desk(
            choosing.provider_for,
            rules=Rules(self.mode, limits=budget.limits_of(state), force=self.force, **more),
            kept=kept_in((str(cell.get("id")), cell["metadata"].get("rlmnb")) for cell in cells),
            spent=budget.spent_by_cells(state),
            put=self.session.objects.put,
            get=self.session.objects.get,
        )

    def asking(self) -> Ask:
        """Return how a policy asks: what it asks is counted, also when it comes to nothing."""

        def asked(system: str, prompt: str, form: Form) -> Any:
            desk = self.desk()
            try:
                with patience.at_most(self.timeout):
                    asking = asking_as(desk, self.model, 0, contextlib.nullcontext)
                    return asking(system, prompt, form)
            finally:
                self.decisions += desk.done()
                self.count(desk.done())

        return asked

    def take_decisions(self) -> list[Call]:
        """Return the calls by which a step was decided, once."""
        taken, self.decisions = self.decisions, []
        return taken

    def count(self, calls: list[Call]) -> None:
        """Add calls to what the session has spent and saved."""
        if not calls:
            return
        tally = Tally()
        for call in calls:
            tally.add(call)
        kept = self.session.state.budget.cells
        for side, found in ((kept.made, tally.made), (kept.reused, tally.reused)):
            for model, spent in found.items():
                before = side.get(model)
                known = budget.spent_of(before.model_dump()) if before is not None else Spent()
                side[model] = SpentByCells(**asdict(known.plus(spent)))
        self.session.save()

    def spent(self) -> Spent:
        """Return what all calls of the session have cost so far."""
        return budget.spent_by_cells(self.session.stored_state())
