"""What two sessions took: tokens, money, calls and time. An unknown price is None, never zero."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rlmnb.comparing.sides import Side, known_amount
from rlmnb.models.budget import spent_by_cells

Number = float | int
_MODEL_KEYS = ("calls", "tokens", "cost_usd")


@dataclass(frozen=True, slots=True)
class Amount:
    """One amount on both sides."""

    a: Number | None
    b: Number | None

    @property
    def difference(self) -> Number | None:
        """How much more the second side has; None if either is unknown."""
        return None if self.a is None or self.b is None else self.b - self.a

    def as_dict(self) -> dict[str, Number | None]:
        """Return it for a script."""
        return {"a": self.a, "b": self.b, "difference": self.difference}


@dataclass(frozen=True, slots=True)
class Spending:
    """The amounts of the whole sessions, of each model, and the sums over the cells."""

    total: Mapping[str, Amount]
    by_model: Mapping[str, Mapping[str, Amount]] = field(default_factory=dict)
    of_cells: Mapping[str, Amount] = field(default_factory=dict)

    @property
    def differs(self) -> bool:
        """Whether more was spent on one side; how long cells took is chance."""
        amounts = [*self.total.values(), self.of_cells["tokens"]]
        amounts += [each for amounts in self.by_model.values() for each in amounts.values()]
        return any(each.a != each.b for each in amounts)

    def as_dict(self) -> dict[str, Any]:
        """Return it for a script."""
        return {
            **_as_dicts(self.total),
            "by_model": {model: _as_dicts(each) for model, each in self.by_model.items()},
            "cells": _as_dicts(self.of_cells),
        }


def _as_dicts(amounts: Mapping[str, Amount]) -> dict[str, Any]:
    return {key: amount.as_dict() for key, amount in amounts.items()}


def spending_of(a: Side, b: Side) -> Spending:
    """Set what the two sides spent against each other."""
    budgets = [a.section("budget"), b.section("budget")]
    total = {
        "tokens": Amount(*(_count(each.get("total_tokens_used")) for each in budgets)),
        "calls": Amount(*(_count(each.get("total_recursive_calls")) for each in budgets)),
        "cost_usd": Amount(*(known_amount(each.get("cost_usd")) for each in budgets)),
    }
    models = [_models(each) for each in budgets]
    by_model = {
        model: {
            key: Amount(*(_model_amount(each.get(model), key) for each in models))
            for key in _MODEL_KEYS
        }
        for model in sorted({*models[0], *models[1]})
    }
    spent = [spent_by_cells(side.state) for side in (a, b)]
    of_cells = {
        "calls": Amount(*(each.calls for each in spent)),
        "cost_usd": Amount(*(each.as_dict()["usd"] for each in spent)),
        "tokens": Amount(*(sum(cell.tokens for cell in side.cells) for side in (a, b))),
        "execution_time_ms": Amount(*(sum(cell.ms for cell in side.cells) for side in (a, b))),
    }
    return Spending(total, by_model, of_cells)


def _models(budget: Mapping[str, Any]) -> Mapping[str, Any]:
    found = budget.get("by_model")
    return found if isinstance(found, dict) else {}


def _model_amount(use: object, key: str) -> Number | None:
    if not isinstance(use, dict):
        return 0  # this side did not call the model, which costs nothing
    return known_amount(use.get(key)) if key == "cost_usd" else _count(use.get(key))


def _count(value: object) -> Number:
    return known_amount(value) or 0
