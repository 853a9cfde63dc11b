"""The loop inside one cell: how `rlm_query` works on a question of its own.

Its steps are run beside the cell's variables, not among them. All that it asks is asked as the
cell's own calls, and kept with them: a replay decides the same and asks nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from rlmnb import models
from rlmnb.errors import BudgetError, ModelError
from rlmnb.models import current
from rlmnb.models.asking import Desk, ask
from rlmnb.models.calling import request_for
from rlmnb.models.contexts import outline
from rlmnb.models.deciding import Ask
from rlmnb.models.decisions import Seen
from rlmnb.models.looping import Outcome, Result, work
from rlmnb.models.reading import peek
from rlmnb.models.stepping import Step
from rlmnb.models.typed import Form, read_or_asked_again

MOST_STEPS = 4


def loop(prompt: str, context: Any, *, model: str | None, system: str | None) -> str:
    """Answer a question over a context step by step; for `recursing.plug`."""
    here = current.surroundings()
    with here.apart():
        desk = here.desk()
    depth = current.depth.get()
    seen = Seen(
        question=prompt if system is None else f"{system}\n\n{prompt}",
        outline=outline(context),
        has_context=context is not None,
        depth=desk.depth + depth,
        deepest=min(desk.rules.limits.depth, current.deepest.get()),
    )
    runner = _Beside(context)
    outcome = work(
        seen, runner, asking_as(desk, model, depth, here.apart), model=model, most_steps=MOST_STEPS
    )
    return _answer(outcome)


def _answer(outcome: Outcome) -> str:
    if outcome.ending == "answered":
        return str(outcome.answer)
    kind = BudgetError if outcome.ending == "budget" else ModelError
    raise kind(f"this recursive question came to no answer: {outcome.problem}")


def asking_as(desk: Desk, model: str | None, depth: int, apart: Callable[[], Any]) -> Ask:
    """Return how a policy asks: through a desk, with the answer checked and asked for again."""

    def asked(system: str, prompt: str, form: Form) -> Any:
        request = replace(request_for(prompt, model, system, (), {}), schema=form.schema)

        def once(again: Any) -> Any:
            with apart():
                return ask(again, desk, depth=depth, role="decide")

        return read_or_asked_again(form, once(request), request, once)

    return asked


class _Beside:
    """Runs steps in a namespace of their own, in this process."""

    def __init__(self, context: Any) -> None:
        self._names: dict[str, Any] = {"context": context, "__name__": "rlmnb_step"}
        self._names |= {name: getattr(models, name) for name in models.HOMES}

    def run(self, step: Step) -> Result:
        """Run a step's code; whatever it raises is what it showed."""
        with _Caught() as caught:
            exec(compile(step.code, f"<step {step.number}>", "exec"), self._names)  # noqa: S102 - what a step is
            value = self._names.get(step.variable)
            return Result(value if isinstance(value, str) else peek(value))
        error = caught.error
        said = f"{type(error).__name__}: {error}"
        if isinstance(error, BudgetError):
            return Result("", said, "budget")
        return Result("", said, "model" if isinstance(error, ModelError) else None)


class _Caught:
    """Keeps what the code of a step raises; an interrupt goes on."""

    error: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> bool:
        self.error = error
        return isinstance(error, Exception)
