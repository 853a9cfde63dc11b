"""What a call may cost is taken out of the budget before it is made, and settled afterwards.

A question is estimated. Its answer is given room: what the caller bounds it to, else a share of
what is left, which the provider is told. So calls that are made side by side do not go past the
budget together; one for which there is no room while others are under way waits for them.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, replace

from rlmnb.models import budget, prices
from rlmnb.models.budget import Limits, Spent
from rlmnb.models.keeping import Call
from rlmnb.models.request import ANSWER_BOUNDS, Request


@dataclass(frozen=True, slots=True)
class Reserved:
    """What a call may come to, and how many tokens its answer may take; None for any number."""

    spent: Spent
    room: int | None = None
    # Whether more is left than this call was given.
    shared: bool = False


class Till:
    """What may be spent, what was, and what the calls under way may come to."""

    def __init__(self, limits: Limits, spent: Spent, *, force: bool = False) -> None:
        self._limits = limits
        self._spent = spent
        self._force = force
        self._under_way = Spent()
        self._changed = threading.Condition()

    def reserve(
        self, request: Request, *, recursive: bool, among: int = 1, alone: bool = False
    ) -> Reserved | str:
        """Take what a call may cost out of the budget, or say why it must not be made.

        As many calls as `among` are about to be made, and share what is left. Who is `alone` waits
        until no other call is under way, and may have all of it.
        """
        question = _Question(request, recursive, self._limits)
        with self._changed:
            self._changed.wait_for(lambda: not alone or not self._under_way.calls)
            while True:
                together = self._spent.plus(self._under_way)
                why = None if self._force else question.refused(together)
                if why is None:
                    break
                if question.refused(self._without_what_may_come_back(together)) is not None:
                    return why
                self._changed.wait()
            room = None if self._force else question.room(together, among)
            most = None if self._force else question.room(self._spent, 1)
            told = room if room is not None and room < budget.LONGEST_ANSWER else None
            reserved = Reserved(question.spent(room), told, shared=room != most)
            self._under_way = self._under_way.plus(reserved.spent)
            return reserved

    def _without_what_may_come_back(self, together: Spent) -> Spent:
        """Return what is gone for good: calls take less than was reserved, never fewer calls."""
        return replace(self._spent, calls=together.calls, recursive_calls=together.recursive_calls)

    def settle(self, reserved: Reserved, made: Call | None) -> None:
        """Put the real cost of a call in the place of what was reserved for it."""
        with self._changed:
            less = {name: -value for name, value in vars(reserved.spent).items()}
            self._under_way = self._under_way.plus(Spent(**less))
            if made is not None:
                self._spent.add(made)
            self._changed.notify_all()


class _Question:
    """What is known of a call before it is made."""

    def __init__(self, request: Request, recursive: bool, limits: Limits) -> None:
        self._limits = limits
        self._recursive = recursive
        self._model = request.model
        given = (_number(request.parameters.get(name)) for name in ANSWER_BOUNDS)
        self._bound = next((bound for bound in given if bound), None)
        texts = [each.content for each in request.messages]
        more = (request.system, *request.tools, request.schema)
        texts += [each if isinstance(each, str) else json.dumps(each) for each in more if each]
        self._tokens = budget.estimated_tokens(texts, len(request.attachments))

    def _cost(self, answer: int) -> float | None:
        if self._limits.usd is None:
            return None
        return prices.cost(self._model, self._tokens, answer)

    def refused(self, spent: Spent) -> str | None:
        """Say why this call must not be made after so much was spent."""
        answer = self._bound or budget.SHORTEST_ANSWER
        return budget.refusal(
            self._limits,
            spent,
            tokens=self._tokens + answer,
            usd=self._cost(answer),
            recursive=self._recursive,
        )

    def room(self, spent: Spent, among: int) -> int | None:
        """Return how many tokens the answer may take after so much was spent; None for any."""
        if self._bound is not None:
            return None
        usd = self._cost(0) or 0.0
        each = ((self._cost(_MANY) or 0.0) - usd) / _MANY
        return budget.room(
            self._limits, spent, tokens=self._tokens, usd=usd, each=each, among=among
        )

    def spent(self, room: int | None) -> Spent:
        """Return what the call comes to if its answer takes all the room it has."""
        answer = self._bound or room or 0
        return Spent(
            calls=1,
            tokens=self._tokens + answer,
            input_tokens=self._tokens,
            output_tokens=answer,
            usd=self._cost(answer) or 0.0,
            recursive_calls=int(self._recursive),
        )


# So many that rounding does not count.
_MANY = 1_000_000


def _number(value: object) -> int | None:
    return value if type(value) is int and value > 0 else None
