"""What may be spent and what was. The decision is pure: it is made before a call, of numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from rlmnb.format.keptcalls import is_paid
from rlmnb.models.keeping import Call

DEEPEST = 3
# No model answers at more length than this many tokens.
LONGEST_ANSWER = 128 * 1024
# With less room than this an answer is not worth asking for.
SHORTEST_ANSWER = 16
# While there is that much, calls that are made side by side share what is left.
_SHARE = 1024
# What a message takes beside its text, and a guess at what a picture takes.
_MESSAGE, _ATTACHMENT = 10, 2000


@dataclass(frozen=True, slots=True)
class Limits:
    """What may be spent in one session; None is no limit."""

    tokens: int | None = None
    calls: int | None = None
    usd: float | None = None
    recursive_calls: int | None = 10
    depth: int = 2


@dataclass
class Spent:
    """What calls of cells have cost. A price that is not known adds to `unpriced`, not to `usd`."""

    calls: int = 0
    tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    usd: float = 0.0
    unpriced: int = 0
    recursive_calls: int = 0

    def add(self, call: Call) -> None:
        """Count one call."""
        usage = call.get("usage") or {}
        self.calls += 1
        self.input_tokens += usage.get("input") or 0
        self.output_tokens += usage.get("output") or 0
        self.cache_read_tokens += usage.get("cache_read") or 0
        self.cache_write_tokens += usage.get("cache_write") or 0
        self.tokens = self.input_tokens + self.output_tokens
        self.recursive_calls += bool(call.get("depth"))
        cost = call.get("cost_usd")
        if cost is None:
            self.unpriced += 1
        else:
            # Sums of floats are shown to people: no more digits than a price has.
            self.usd = round(self.usd + cost, 10)

    def plus(self, other: Spent) -> Spent:
        """Return the sum of two."""
        mine, theirs = asdict(self), asdict(other)
        total = Spent(**{name: mine[name] + theirs[name] for name in mine})
        total.usd = round(total.usd, 10)
        return total

    def as_dict(self) -> dict[str, Any]:
        """Return it for a report: the money is null where no price at all was known."""
        known = self.calls > self.unpriced or not self.calls
        return {**asdict(self), "usd": self.usd if known else None}


def spent_of(value: Any) -> Spent:
    """Read what was spent from a notebook's state, whatever stands there."""
    found = Spent()
    for name in found.__dataclass_fields__:
        number = value.get(name) if isinstance(value, Mapping) else None
        if isinstance(number, int | float) and not isinstance(number, bool) and number >= 0:
            setattr(found, name, float(number) if name == "usd" else int(number))
    return found


@dataclass
class Tally:
    """What was spent and what was saved by reuse, by model."""

    made: dict[str, Spent] = field(default_factory=dict)
    reused: dict[str, Spent] = field(default_factory=dict)

    def add(self, call: Call) -> None:
        """Count a call that was made, or whose answer was there already."""
        if not is_paid(call):
            return  # nobody answered
        side = self.reused if call.get("from_cache") else self.made
        side.setdefault(str(call.get("answered_by") or call["model"]), Spent()).add(call)

    def take_in(self, other: Tally) -> None:
        """Add what another one counted."""
        for mine, theirs in ((self.made, other.made), (self.reused, other.reused)):
            for model, spent in theirs.items():
                mine[model] = mine[model].plus(spent) if model in mine else spent

    def as_dict(self) -> dict[str, Any]:
        """Return it for a report."""
        made, reused = self.total_made().as_dict(), self.total_reused().as_dict()
        return {
            "made": made["calls"],
            "reused": reused["calls"],
            "tokens_made": made["tokens"],
            "tokens_saved": reused["tokens"],
            "usd_made": made["usd"],
            "usd_saved": reused["usd"],
            "unpriced": made["unpriced"] + reused["unpriced"],
            "by_model": {
                model: {
                    "made": self.made.get(model, Spent()).as_dict(),
                    "reused": self.reused.get(model, Spent()).as_dict(),
                }
                for model in sorted({*self.made, *self.reused})
            },
        }

    def total_made(self) -> Spent:
        """Return what all calls cost that were made."""
        return sum_of(self.made)

    def total_reused(self) -> Spent:
        """Return what the calls would have cost whose answers were there already."""
        return sum_of(self.reused)


def sum_of(spent: Mapping[str, Spent]) -> Spent:
    """Return the sum over models."""
    total = Spent()
    for each in spent.values():
        total = total.plus(each)
    return total


def estimated_tokens(texts: Iterable[str], attachments: int = 0) -> int:
    """Say roughly how many tokens a question takes: rather too many than too few.

    English has four or five characters to a token, code three, other scripts fewer.
    """
    total = attachments * _ATTACHMENT
    for text in texts:
        plain, all_of_it = (len(text.encode(kind, "ignore")) for kind in ("ascii", "utf-8"))
        total += _MESSAGE + math.ceil(plain / 3 + (all_of_it - plain) / 2)
    return total


def room(
    limits: Limits, spent: Spent, *, tokens: int, usd: float, each: float, among: int
) -> int | None:
    """Say how many tokens an answer may take of what is left; None if there is no limit.

    The question takes so many tokens and so much money, and `each` token of the answer costs some;
    as many calls as `among` are about to be made.
    """
    left: list[float] = []
    if limits.tokens is not None:
        left.append(limits.tokens - spent.tokens - tokens)
    if limits.usd is not None and each:
        left.append((limits.usd - spent.usd - usd) / each)
    if not left:
        return None
    return int(min(*left, max(min(left) // among, _SHARE), LONGEST_ANSWER))


def refusal(
    limits: Limits, spent: Spent, *, tokens: int, usd: float | None, recursive: bool
) -> str | None:
    """Say why one more call of this size must not be made, None if it may."""
    if limits.calls is not None and spent.calls + 1 > limits.calls:
        return f"{spent.calls} of {limits.calls} calls were made"
    most = limits.recursive_calls
    if recursive and most is not None and spent.recursive_calls + 1 > most:
        return f"{spent.recursive_calls} of {most} recursive calls were made"
    if limits.tokens is not None and spent.tokens + tokens > limits.tokens:
        return f"{spent.tokens} of {limits.tokens} tokens are used, and this call needs {tokens}"
    if limits.usd is None:
        return None
    if usd is None:
        return f"the model's price is not known, and no more than {limits.usd:g} USD may be spent"
    if spent.usd + usd > limits.usd:
        return f"{spent.usd:.4g} of {limits.usd:g} USD are spent, and this call needs {usd:.4g}"
    return None


def depth_refusal(depth: int, limit: int) -> str | None:
    """Say why calls must not nest this deep, None if they may."""
    most = max(1, min(limit, DEEPEST))
    return f"depth {depth} is past the limit of {most}" if depth > most else None


def limits_of(state: Mapping[str, Any]) -> Limits:
    """Read what may be spent from a session's state, whatever stands there."""
    section, activation = state.get("budget"), state.get("activation")
    section = section if isinstance(section, Mapping) else {}
    activation = activation if isinstance(activation, Mapping) else {}
    depth = activation.get("max_depth")
    return Limits(
        tokens=_whole(section.get("max_tokens")),
        calls=_whole(section.get("max_calls")),
        usd=_amount(section.get("max_usd")),
        recursive_calls=_whole(section.get("max_recursive_calls", 10)),
        depth=depth if isinstance(depth, int) and 1 <= depth <= DEEPEST else 2,
    )


def _amount(value: Any) -> float | None:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    return float(value) if fits else None


def _whole(value: Any) -> int | None:
    number = _amount(value)
    return None if number is None else int(number)


def spent_by_model(state: Mapping[str, Any], side: str = "made") -> dict[str, Spent]:
    """Read what the calls of cells have cost, or saved, from a session's state."""
    section = state.get("budget")
    cells = section.get("cells") if isinstance(section, Mapping) else None
    models = cells.get(side) if isinstance(cells, Mapping) else None
    found = models if isinstance(models, Mapping) else {}
    return {str(model): spent_of(each) for model, each in found.items()}


def spent_by_cells(state: Mapping[str, Any]) -> Spent:
    """Read what all calls of cells have cost from a session's state."""
    return sum_of(spent_by_model(state))


def spent_on(call: Call) -> Spent:
    """Return what one call cost."""
    spent = Spent()
    spent.add(call)
    return spent
