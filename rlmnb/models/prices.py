"""What calls cost, by a table of prices that others maintain. What is not known is None.

`RLMNB_PRICES` names a JSON file with prices of one's own, in USD for a million tokens:
`{"my-model": {"input": 0.5, "output": 1.5, "cache_read": 0.05, "cache_write": 0.6}}`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from rlmnb.errors import ModelError
from rlmnb.models.request import Usage

_MILLION = 1_000_000
# It runs on this machine: there is a price, and it is nothing.
_FREE = "offline"
_KINDS = ("input", "output", "cache_read", "cache_write")


def cost(model: str, tokens_in: int, tokens_out: int) -> float | None:
    """Return what so many tokens of a model cost in USD, None if nobody knows."""
    return cost_of(model, Usage(tokens_in, tokens_out))


def cost_of(model: str, usage: Usage) -> float | None:
    """Return what a call cost in USD, None if its price or its tokens are not known."""
    if usage.input is None or usage.output is None:
        return None
    own = _own_prices(os.environ.get("RLMNB_PRICES"))
    if model in own:
        return _by_own_price(own[model], usage)
    if model == _FREE:
        return 0.0
    return _by_table(model, usage)


@lru_cache(maxsize=8)
def _own_prices(path: str | None) -> Mapping[str, Mapping[str, float]]:
    if not path:
        return {}
    try:
        with open(path, encoding="utf-8") as file:
            table = json.load(file)
    except (OSError, ValueError) as error:
        raise ModelError(f"RLMNB_PRICES names {path}, which cannot be read: {error}") from error
    if not isinstance(table, dict) or not all(_is_price(each) for each in table.values()):
        raise ModelError(
            f"{path} is no table of prices",
            hint='it reads {"my-model": {"input": 0.5, "output": 1.5}}, USD for a million tokens',
        )
    return table


def _is_price(value: Any) -> bool:
    return isinstance(value, dict) and all(
        name in _KINDS and isinstance(price, int | float) and price >= 0
        for name, price in value.items()
    )


def _by_own_price(price: Mapping[str, float], usage: Usage) -> float | None:
    read, written = usage.cache_read or 0, usage.cache_write or 0
    plain = max(0, (usage.input or 0) - read - written)
    counts = {"input": plain, "output": usage.output, "cache_read": read, "cache_write": written}
    total = 0.0
    for kind, count in counts.items():
        if not count:
            continue
        # Without a price of its own, what a cache holds costs what other input does.
        each = price.get(kind, price.get("input") if kind.startswith("cache") else None)
        if each is None:
            return None
        total += count * each
    return round(total / _MILLION, 10)


def _by_table(model: str, usage: Usage) -> float | None:
    try:
        from genai_prices import Usage as Tokens
        from genai_prices import calc_price
    except ImportError:
        return None
    tokens = Tokens(
        input_tokens=usage.input,
        output_tokens=usage.output,
        cache_read_tokens=usage.cache_read or None,
        cache_write_tokens=usage.cache_write or None,
    )
    provider, _, rest = model.partition("/")
    for name, whose in ((model, None), (rest, provider)):
        if not name:
            continue
        try:
            return round(float(calc_price(tokens, name, provider_id=whose).total_price), 10)
        except (LookupError, ValueError):
            continue
    return None
