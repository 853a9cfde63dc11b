"""Answer a question over files, in a session that anybody can open, edit and replay."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from rlmnb.capture.secrets import redact_text
from rlmnb.errors import InvalidNameError, KernelError, LockTimeoutError
from rlmnb.files import Lock
from rlmnb.format.cells import markdown_cell
from rlmnb.looping import contexts
from rlmnb.looping.cells import Cells, Teller
from rlmnb.looping.spending import Purse
from rlmnb.models import activating, choosing
from rlmnb.models.budget import DEEPEST, Spent
from rlmnb.models.deciding import Ask, Policy, asking
from rlmnb.models.decisions import PROMPT_LIMIT, Action, Decision, Done, Seen
from rlmnb.models.looping import MOST_STEPS, Outcome, work
from rlmnb.models.modes import Mode
from rlmnb.replay import warm
from rlmnb.replay.cells import working_directory
from rlmnb.session import Session

_TITLE = 80


@dataclass(frozen=True, slots=True)
class Settings:
    """How a question is to be worked on. What is None stays as the session has it."""

    model: str | None = None
    policy: Policy = asking
    activation: activating.Mode = "complexity"
    depth: int | None = None
    most_steps: int = MOST_STEPS
    most_calls: int | None = None
    most_tokens: int | None = None
    most_usd: float | None = None
    calls: Mode = "once"
    force: bool = False
    tries: int | None = None
    timeout: float | None = None
    prompt_limit: int = PROMPT_LIMIT
    keep_kernel: bool = False
    tell: Teller = lambda *_: None


@dataclass
class Finished:
    """What came of a question: the answer, or why there is none, and what it took."""

    session: str
    question: str
    answer: str | None
    ending: str
    problem: str | None = None
    degraded: list[str] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)
    activation: dict[str, Any] = field(default_factory=dict)
    spent: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


def run(
    session: Session, question: str, context: Sequence[str] = (), settings: Settings | None = None
) -> Finished:
    """Work on a question until there is an answer, or nothing more may be spent."""
    settings = settings or Settings()
    question = check_question(question)
    contexts.check_paths(context)
    model = choosing.chosen(settings.model, choosing.default_model())
    judged = activating.activation(
        question, contexts.size_of(context), settings.activation, held=_has_context(session)
    )
    with _alone(session):
        return _run(session, question, context, settings, model, judged)


@contextmanager
def _alone(session: Session) -> Iterator[None]:
    """Be the only one who works on a question in a session: its steps share their variables."""
    session.place.prepare()
    lock = Lock(os.path.join(session.place.directory, ".run.lock"), timeout=0)
    if not lock.attempt():
        raise LockTimeoutError(
            f"{session.place.name}: another question is being worked on in this session",
            hint="wait for it, or ask in a session of its own: rlmnb run without --session",
        )
    try:
        yield
    finally:
        lock.release()


def _run(
    session: Session,
    question: str,
    context: Sequence[str],
    settings: Settings,
    model: str,
    judged: activating.Activation,
) -> Finished:
    began = time.perf_counter()
    _prepare(session, question, settings, judged)
    purse = Purse(session, model, settings.calls, settings.force, settings.tries, settings.timeout)
    before = purse.spent()
    cells = Cells(
        session,
        question,
        model,
        purse,
        settings.timeout,
        beginning=lambda: contexts.beginning(context),
        tell=settings.tell,
    )
    try:
        outcome = _worked(cells, context, settings, judged)
    finally:
        if not settings.keep_kernel:
            warm.stop(session.place)
    _close(session, outcome)
    return Finished(
        session=session.place.name,
        question=question,
        answer=outcome.answer,
        ending=outcome.ending,
        problem=outcome.problem,
        degraded=outcome.degraded,
        steps=[
            {**asdict(step), "action": step.action.value, "cell_id": cells.made.get(step.number)}
            for step in outcome.steps
        ],
        activation=asdict(judged),
        spent=_difference(purse.spent(), before).as_dict(),
        seconds=round(time.perf_counter() - began, 3),
    )


def check_question(question: str) -> str:
    """Return a question as it is kept; complain if there is none."""
    question = redact_text(question.strip())
    if not question:
        raise InvalidNameError(
            "there is no question", hint="run: rlmnb run 'how many?' --context F"
        )
    return question


def _prepare(
    session: Session, question: str, settings: Settings, judged: activating.Activation
) -> None:
    """Keep in the session what was asked and what may be spent on it."""
    state = session.state
    state.activation.rlm_active = judged.active
    state.activation.activation_mode = judged.mode
    state.activation.activation_reason = judged.reason
    state.activation.complexity_score = judged.score
    if settings.depth is not None:
        if not 1 <= settings.depth <= DEEPEST:
            raise InvalidNameError(f"--depth is from 1 to {DEEPEST}, found {settings.depth}")
        state.activation.max_depth = settings.depth
    for name, limit in (
        ("max_calls", settings.most_calls),
        ("max_tokens", settings.most_tokens),
        ("max_usd", settings.most_usd),
    ):
        if limit is not None:
            setattr(state.budget, name, limit)
    if not state.session.title:
        state.session.title = question.splitlines()[0][:_TITLE]
    session.save()
    quoted = "\n".join(f"> {line}" for line in question.splitlines())
    session.append_cell(markdown_cell(quoted))


def _worked(
    cells: Cells, context: Sequence[str], settings: Settings, judged: activating.Activation
) -> Outcome:
    session = cells.session
    outline = None
    try:
        if context:
            code = contexts.context_code(context, working_directory(session))
            outline = cells.context(code)
        elif _has_context(session):
            outline = cells.context("print(outline(context))")
    except KernelError as error:
        return _without_kernel(cells, str(error))
    seen = Seen(
        question=cells.question,
        outline=outline or "there is no context",
        has_context=outline is not None,
        prompt_limit=settings.prompt_limit,
        deepest=session.state.activation.max_depth,
    )
    return work(
        seen,
        cells,
        cells.purse.asking(),
        policy=settings.policy if judged.active else _plain(judged),
        model=cells.model,
        most_steps=settings.most_steps,
    )


def _plain(judged: activating.Activation) -> Policy:
    why = f"a plain answer will do: {judged.reason}"

    def policy(seen: Seen, ask: Ask) -> Decision:  # noqa: ARG001 - a policy's own
        return Decision(action=Action.DIRECT, goal="answer", rationale=why)

    return policy


def _has_context(session: Session) -> bool:
    """Tell whether an earlier cell holds a context."""
    return any("context" in entry.get("writes", ()) for entry in session.index["cells"].values())


def _without_kernel(cells: Cells, why: str) -> Outcome:
    result = cells.without_kernel(1, why)
    failed = result.error is not None
    step = Done(1, Action.DIRECT, "answer", result.error or result.shown, failed)
    ending = result.ending or "answered"
    answer = None if failed else result.shown
    return Outcome(answer, ending, [step], degraded=[why], problem=result.error)


def _close(session: Session, outcome: Outcome) -> None:
    """Say in the notebook why the work ended, where no cell does."""
    if outcome.ending == "answered":
        return
    lines = [f"No answer ({outcome.ending}): {outcome.problem}"]
    if outcome.answer:
        lines += ["", "Known so far:", "", outcome.answer]
    session.append_cell(markdown_cell("\n".join(lines)))


def _difference(after: Spent, before: Spent) -> Spent:
    names = after.__dataclass_fields__
    return Spent(**{name: getattr(after, name) - getattr(before, name) for name in names})
