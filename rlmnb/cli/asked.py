"""What a cell asked of models, and what it found of another cell, as lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rlmnb.cli import text

if TYPE_CHECKING:
    from rlmnb.format.calls import Call
    from rlmnb.format.record import CellRecord


def lines(record: CellRecord) -> Iterator[tuple[str, str]]:
    """Yield what there is to tell of a cell's calls and of its verdict, each with its label."""
    now = [call for call in record.calls if call.current]
    by_model: dict[str, list[Call]] = {}
    for call in (call for call in now if call.error is None):
        by_model.setdefault(call.answered_by or call.model or "?", []).append(call)
    for model, calls in by_model.items():
        yield "model", f"{model}: {_sums(calls)}"
    for error, number in _errors(now).items():
        yield "model", f"{text.count(number, 'call')} without an answer: {error}"
    if (found := record.verification) is not None:
        sure = "unknown" if found.confidence is None else f"{found.confidence:g}"
        word = "holds" if found.holds else "does not hold"
        said = f": {found.reason}" if found.reason else ""
        yield "verdict", f"{found.of} {word}, confidence {sure}, by {found.by}{said}"


def _sums(calls: Sequence[Call]) -> str:
    tokens = sum((call.usage.input or 0) + (call.usage.output or 0) for call in calls)
    costs = [call.cost_usd for call in calls if call.cost_usd is not None]
    cost = text.money(sum(costs)) if len(costs) == len(calls) else "price unknown"
    failed = sum(len(call.attempts) for call in calls)
    again = f", {text.count(failed, 'failed attempt')}" if failed else ""
    return f"{text.count(len(calls), 'call')}, {text.count(tokens, 'token')}, {cost}{again}"


def _errors(calls: Sequence[Call]) -> dict[str, int]:
    found: dict[str, int] = {}
    for call in calls:
        if call.error is not None:
            found[call.error] = found.get(call.error, 0) + 1
    return found
