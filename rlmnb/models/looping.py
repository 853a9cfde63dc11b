"""The loop: decide, take a step, look at what it showed, until there is an answer.

It knows neither notebooks nor kernels: whoever runs its steps is a `Runner`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from rlmnb.errors import AnswerError, BudgetError, ModelError
from rlmnb.models.deciding import Ask, Policy, asking
from rlmnb.models.decisions import Action, Decision, Done, Seen
from rlmnb.models.stepping import Step, step_for

MOST_STEPS = 8
_SHOWN = 1_500
# Why the work came to its end.
Ending = Literal["answered", "budget", "model", "failed"]


@dataclass(frozen=True, slots=True)
class Result:
    """What a step came to: what it showed, and what went wrong, if anything did."""

    shown: str
    error: str | None = None
    # An error of a kind that ends the work: nothing more can be asked.
    ending: Ending | None = None
    # Why this is an answer given in a lesser way, which ends the work.
    degraded: str | None = None


class Runner(Protocol):
    """Whoever can take a step."""

    def run(self, step: Step) -> Result:
        """Run a step's code where `context` and the results of earlier steps are."""


@dataclass(slots=True)
class Outcome:
    """What came of a question."""

    answer: str | None
    ending: Ending
    steps: list[Done] = field(default_factory=list)
    # What could not be done as it should have been, and was done in a lesser way.
    degraded: list[str] = field(default_factory=list)
    problem: str | None = None


def work(
    seen: Seen,
    runner: Runner,
    ask: Ask,
    *,
    policy: Policy = asking,
    model: str | None = None,
    most_steps: int = MOST_STEPS,
) -> Outcome:
    """Answer a question step by step; what is known so far is returned if it must end early."""
    outcome = Outcome(None, "failed")
    while True:
        seen = replace(
            seen,
            number=len(outcome.steps) + 1,
            steps=tuple(outcome.steps),
            steps_left=most_steps - len(outcome.steps),
        )
        try:
            decision = _decided(seen, policy, ask, outcome)
        except BudgetError as error:
            return _ended(outcome, "budget", str(error))
        except ModelError as error:
            return _ended(outcome, "model", str(error))
        step = step_for(decision, seen, model)
        result = runner.run(step)
        shown = _bounded(result.shown if result.error is None else result.error)
        failed = result.error is not None
        # What was answered in a lesser way is a plain answer, whatever was decided.
        action = decision.action if result.degraded is None else Action.DIRECT
        outcome.steps.append(Done(step.number, action, decision.goal, shown, failed))
        if result.degraded is not None:
            outcome.degraded.append(f"step {step.number}: {result.degraded}")
        if result.ending is not None:
            return _ended(outcome, result.ending, result.error)
        if (step.final or result.degraded is not None) and not failed:
            outcome.answer, outcome.ending = result.shown, "answered"
            return outcome
        if len(outcome.steps) >= most_steps:
            return _ended(outcome, "failed", f"{most_steps} steps were taken, and none answered")


def _decided(seen: Seen, policy: Policy, ask: Ask, outcome: Outcome) -> Decision:
    """Return the next step; the last one there is room for gives an answer."""
    if seen.steps_left <= 1:
        last = Action.SYNTHESIZE if seen.found else Action.DIRECT
        return Decision(action=last, goal="answer", rationale="no further step is left")
    try:
        return policy(seen, ask)
    except AnswerError as error:
        outcome.degraded.append(f"step {seen.number}: no decision could be used: {error.message}")
        why = f"degraded: {error.message}"
        return Decision(action=Action.DIRECT, goal="answer", rationale=why)


def _ended(outcome: Outcome, ending: Ending, problem: str | None) -> Outcome:
    """End early, with what is known so far in the place of an answer."""
    known = [
        f"{step.number}. {step.goal}: {step.shown}" for step in outcome.steps if not step.failed
    ]
    outcome.answer = "\n".join(known) or None
    outcome.ending, outcome.problem = ending, problem
    return outcome


def _bounded(text: str) -> str:
    text = text.strip()
    half = _SHOWN // 2
    if len(text) <= _SHOWN:
        return text
    return f"{text[:half]}\n… {len(text) - 2 * half:,} characters …\n{text[-half:]}"
