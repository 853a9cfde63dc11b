"""What a session has spent, put together: its agent's own use and the calls of its cells, by model.

Money is derived from tokens whenever somebody looks, by today's table of prices, and never stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rlmnb.models import budget, prices
from rlmnb.models.request import Usage


def priced(by_model: Any) -> dict[str, dict[str, Any]]:
    """Return an agent's use by model with what it cost; null where a price is not known."""
    found = {}
    for model, use in (by_model if isinstance(by_model, Mapping) else {}).items():
        if isinstance(use, Mapping):
            found[str(model)] = {**use, "cost_usd": _cost(str(model), use)}
    return found


def _cost(model: str, use: Mapping[str, Any]) -> float | None:
    if isinstance(told := use.get("cost_usd"), int | float):
        return float(told)
    sent, answered = use.get("input_tokens"), use.get("output_tokens")
    if not isinstance(sent, int) or not isinstance(answered, int):
        return None
    if sent + answered != use.get("tokens"):
        return None  # counted in part by a version that did not tell them apart
    read, written = (use.get(f"cache_{kind}_tokens") or 0 for kind in ("read", "write"))
    # Agents count what comes from the provider's cache beside the rest.
    return prices.cost_of(model, Usage(sent + read + written, answered, read, written))


def total_cost(by_model: Mapping[str, Mapping[str, Any]]) -> float | None:
    """Return what all models cost together; None if nothing was used or any price is unknown."""
    costs = [use["cost_usd"] for use in by_model.values() if use.get("calls") or use.get("tokens")]
    if not costs or any(cost is None for cost in costs):
        return None
    return float(round(sum(costs), 10))


def with_costs(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a budget section with what the agent's use cost filled in."""
    found = state.get("budget")
    section = dict(found) if isinstance(found, Mapping) else {}
    section["by_model"] = priced(section.get("by_model"))
    if section.get("cost_usd") is None:
        section["cost_usd"] = total_cost(section["by_model"])
    return section


def overview(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return limits, what cells have spent and saved, and what the agent has used."""
    made, reused = (budget.spent_by_model(state, side) for side in ("made", "reused"))
    section = with_costs(state)
    agent = {
        "tokens": section.get("total_tokens_used") or 0,
        "usd": section["cost_usd"],
        "by_model": section["by_model"],
    }
    return {
        "limits": asdict(budget.limits_of(state)),
        "spent": budget.sum_of(made).as_dict(),
        "saved": budget.sum_of(reused).as_dict(),
        "by_model": {
            model: {
                "spent": made.get(model, budget.Spent()).as_dict(),
                "saved": reused.get(model, budget.Spent()).as_dict(),
            }
            for model in sorted({*made, *reused})
        },
        "agent": agent,
    }
