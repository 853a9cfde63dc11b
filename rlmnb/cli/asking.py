"""The command `run`: a question, answered step by step in a session of its own."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from dataclasses import asdict

from rlmnb.cli import text
from rlmnb.cli.running import begun
from rlmnb.ids import CellId
from rlmnb.looping import contexts
from rlmnb.looping.run import Finished, Settings, check_question, run
from rlmnb.models import choosing
from rlmnb.models.stepping import Step


def run_question(args: Namespace) -> int:
    """Answer a question, tell each step on the way, and print the answer."""
    question = sys.stdin.read() if args.question == "-" else args.question
    # What is wrong with the question itself is said before a session is begun.
    check_question(question)
    contexts.check_paths(args.context)
    choosing.chosen(args.model, choosing.default_model())
    session = begun(args.session or f"run-{os.urandom(4).hex()}")
    finished = run(session, question, args.context, _settings(args))
    if args.json:
        text.print_json(asdict(finished))
    else:
        _tell(finished)
    return 0 if finished.ending == "answered" else 1


def _settings(args: Namespace) -> Settings:
    return Settings(
        model=args.model,
        activation=args.activation,
        depth=args.depth,
        most_steps=args.steps,
        most_calls=args.budget_calls,
        most_tokens=args.budget_tokens,
        most_usd=args.budget_usd,
        calls=args.calls,
        force=args.force,
        timeout=args.timeout,
        keep_kernel=args.keep_kernel,
        tell=_quiet if args.json else _on_the_way,
    )


def _quiet(cell_id: CellId, step: Step) -> None:
    """Say nothing: a script reads the answer."""


def _on_the_way(cell_id: CellId, step: Step) -> None:
    text.note(f"{step.number}  {cell_id}  {step.decision.action:<12}  {step.decision.goal[:60]}")


def _tell(finished: Finished) -> None:
    for each in finished.degraded:
        text.note(each)
    if finished.answer is not None:
        text.say(finished.answer)
    if finished.ending != "answered":
        text.note(f"no answer ({finished.ending}): {finished.problem}")
    spent = finished.spent
    usd = "price unknown" if spent["usd"] is None else text.money(spent["usd"])
    counted = f"{spent['calls']} calls, {spent['tokens']} tokens, {usd}"
    text.note(f"{len(finished.steps)} steps, {counted}; see them: rlmnb cells {finished.session}")
