"""Steps as cells: appended with why they are taken, run in the session's kernel, and read back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rlmnb.errors import KernelError, RlmnbError
from rlmnb.graph.index import upstream
from rlmnb.ids import CellId
from rlmnb.looping.spending import Purse
from rlmnb.models import patience
from rlmnb.models.asking import ask
from rlmnb.models.calling import request_for
from rlmnb.models.decisions import PROMPT_LIMIT, Action, Decision
from rlmnb.models.looping import Ending, Result
from rlmnb.models.stepping import Step
from rlmnb.replay import warm
from rlmnb.replay.cells import code_cells, working_directory
from rlmnb.replay.run import replay
from rlmnb.session import Session
from rlmnb.views import whole_output

# Errors after which nothing more can be asked, by the names they have in a notebook.
_ENDINGS: dict[str, Ending] = {
    "BudgetError": "budget",
    "ModelError": "model",
    "NoModelError": "model",
    "CallNotKeptError": "model",
    "MissingExtraError": "model",
}
Teller = Callable[[CellId, Step], None]


@dataclass
class Cells:
    """Runs steps as cells of a session; answers without a kernel if there is none."""

    session: Session
    question: str
    model: str
    purse: Purse
    timeout: float | None = None
    # What can be said of the context without a kernel.
    beginning: Callable[[], str | None] = lambda: None
    tell: Teller = lambda *_: None
    # The cell of each step, and what it found.
    made: dict[int, CellId] = field(default_factory=dict)
    found: dict[int, str] = field(default_factory=dict)

    def context(self, code: str) -> str:
        """Run the cell that holds the context, and return what it shows of it."""
        self._start()
        trace = {"goal": "hold the context", "decision": Action.EXECUTE.value}
        cell_id = self.session.append(code, status="running", trace=trace)
        try:
            result = self._ran(cell_id)
        except KernelError as error:
            self._failed(cell_id, error)
            raise
        if result.error is not None:
            raise RlmnbError(
                f"the context could not be read: {result.error}",
                hint=f"see it with: rlmnb cell {self.session.place.word} {cell_id}",
            )
        return result.shown

    def run(self, step: Step) -> Result:
        """Append a step as a cell and run it."""
        try:
            self._start()
        except KernelError as error:
            return self.without_kernel(step.number, str(error))
        cell_id = self.session.append(
            step.source,
            type=step.type,
            status="running",
            trace=_trace(step.decision),
            metadata={"depth": 0, "model": self.model},
            calls=self.purse.take_decisions(),
        )
        self.made[step.number] = cell_id
        self.tell(cell_id, step)
        try:
            result = self._ran(cell_id)
        except KernelError as error:
            self._failed(cell_id, error)
            # Nobody's next replay is to end as this one did.
            self.session.tag(cell_id, "skip-execution")
            return self.without_kernel(step.number, str(error))
        if result.error is None:
            self.found[step.number] = f"{step.decision.goal}: {result.shown}"
        elif step.decision.action is Action.EXECUTE and result.ending is None:
            # It stays as it was tried, and a replay takes it as it is.
            self.session.tag(cell_id, "raises-exception")
        return result

    def _start(self) -> None:
        # Nobody else waits for this session: its kernel may take its time to start.
        warm.start(self.session.place, working_directory(self.session))

    def _failed(self, cell_id: CellId, error: KernelError) -> None:
        self.session.refresh()
        self.session.complete(cell_id, error=f"KernelError: {error}")

    def _ran(self, cell_id: CellId) -> Result:
        """Bring a cell up to date, and what it needs, and nothing else."""
        above = set(upstream(self.session.index, cell_id))
        effects = {cell.cell_id for cell in code_cells(self.session) if cell.effects}
        report = replay(
            self.session,
            only=frozenset({cell_id, *(above - effects)}),
            keep_kernel=True,
            timeout=self.timeout,
            calls=self.purse.mode,
            over_budget=self.purse.force,
        )
        self.session.refresh()
        if cell_id in report.skipped:
            return Result("", f"not run: {'; '.join(report.causes[cell_id])}")
        error = report.errors.get(cell_id)
        if error is not None:
            return Result("", error, _ENDINGS.get(error.partition(":")[0]))
        shown = whole_output(self.session.cell(cell_id), self.session.objects.get)
        return Result(shown.decode("utf-8", "replace").rstrip("\n"))

    def without_kernel(self, number: int, why: str) -> Result:
        """Answer in one plain call, made here; its cell can be replayed when there is a kernel."""
        degraded = f"degraded: {why}"
        prompt = self._whole_prompt()
        fields: dict[str, Any] = {
            "source": f"answer = llm_query({prompt!r}, model={self.model!r})\nprint(answer)",
            "type": "llm_call",
            "trace": _trace(Decision(action=Action.DIRECT, goal="answer", rationale=degraded)),
            "metadata": {"depth": 0, "model": self.model},
            "escalation_reason": [degraded],
        }
        desk = self.purse.desk()
        decisions = self.purse.take_decisions()
        try:
            with patience.at_most(self.timeout):
                answer = ask(request_for(prompt, self.model, None, (), {}), desk)
        except RlmnbError as error:
            said = f"{type(error).__name__}: {error}"
            calls = [*decisions, *desk.done()]
            self.made[number] = self.session.append(**fields, error=said, calls=calls)
            return Result("", said, _ENDINGS.get(type(error).__name__, "model"), degraded)
        self.purse.count(desk.done())
        calls = [*decisions, *desk.done()]
        self.made[number] = self.session.append(**fields, output=f"{answer.text}\n", calls=calls)
        return Result(answer.text, degraded=degraded)

    def _whole_prompt(self) -> str:
        found = "".join(f"\n\n{number}. {text}" for number, text in self.found.items())
        known = self.beginning()
        prompt = self.question
        if found:
            prompt += f"\n\nAnswer from what was found, step by step:{found}"
        if known:
            prompt += f"\n\nThe context, or its beginning if it is longer:\n{known[:PROMPT_LIMIT]}"
        return prompt


def _trace(decision: Decision) -> dict[str, str]:
    found = {
        "goal": decision.goal,
        "decision": decision.action.value,
        "rationale": decision.rationale,
    }
    return {name: text for name, text in found.items() if text}
