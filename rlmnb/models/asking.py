"""Asking: from what is kept where a mode allows it, else of a provider, within the budget."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from rlmnb.digest import of_bytes
from rlmnb.errors import (
    BudgetError,
    CallNotKeptError,
    ModelBusyError,
    ModelError,
    ModelSilentError,
    ObjectError,
    RlmnbError,
)
from rlmnb.format import times
from rlmnb.models import keeping, prices
from rlmnb.models.budget import Limits, Spent
from rlmnb.models.keeping import Call, Kept
from rlmnb.models.modes import Mode
from rlmnb.models.provider import Provider
from rlmnb.models.request import Answer, Request, Try
from rlmnb.models.reserving import Reserved, Till

_TRIES = 5
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0
# Who hangs twice is not busy: each time costs minutes.
_HANGS = 2
# Among how many calls, at most, what is left of a budget is shared: so many are made at once.
_SHARING = 8
_MORE = (
    "see it with: rlmnb budget; raise it with: rlmnb budget --set calls=… (or tokens=…, usd=…); "
    "or go past it once with --force"
)


@dataclass(frozen=True, slots=True)
class Rules:
    """How calls are to go.

    `none` makes none; `once` makes those whose answer no cell of the session has; `new_episodes`
    those whose answer this cell itself has not; `all` makes every one anew.
    """

    mode: Mode = "once"
    # Answers older than this many seconds are asked for again.
    expire: float | None = None
    limits: Limits = field(default_factory=Limits)
    # Go past the budget: somebody has asked for it.
    force: bool = False
    tries: int = _TRIES


def _kept_nowhere(digest: str) -> bytes:
    raise ObjectError(f"{digest} is kept nowhere")


@dataclass
class Desk:
    """Where the calls of one cell are asked: what is kept, what may be spent, who answers.

    `calls` are those of the cell so far, in the order in which its code asked for them.
    """

    provider_for: Callable[[str], Provider]
    rules: Rules = field(default_factory=Rules)
    kept: Kept = field(default_factory=Kept)
    spent: Spent = field(default_factory=Spent)
    cell_id: str = ""
    depth: int = 0
    # Where long texts go. A program that keeps none of its calls needs only their digests.
    put: keeping.Put = of_bytes
    get: keeping.Get = _kept_nowhere
    wait: Callable[[float], None] = time.sleep
    now: Callable[[], str] = times.now
    # Whoever wants to have each call as soon as it is answered.
    tell: Callable[[Call], None] = lambda _: None
    calls: list[Call | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[str, int] = {}
        self.till = Till(self.rules.limits, self.spent, force=self.rules.force)

    def done(self) -> list[Call]:
        """Return the calls that came to an answer, or were refused."""
        return [call for call in self.calls if call is not None]


@dataclass(frozen=True, slots=True)
class Ticket:
    """A call's place in the order of its cell: taken at once, answered whenever."""

    request: Request
    place: int
    nth: int
    depth: int
    # What is kept with the call.
    more: dict[str, Any]


def take(request: Request, desk: Desk, *, depth: int = 0, **more: Any) -> Ticket:
    """Take a place for a call. Equal requests are told apart by the order of this."""
    key = request.key()
    with desk._lock:
        nth = desk._seen.get(key, 0)
        desk._seen[key] = nth + 1
        desk.calls.append(None)
        deep = desk.depth + depth
        more = {**more, "depth": deep} if deep else more
        return Ticket(request, len(desk.calls) - 1, nth, deep, more)


def ask(request: Request, desk: Desk, *, depth: int = 0, **more: Any) -> Answer:
    """Return the answer to a request; `more` is kept with the call."""
    return fulfil(take(request, desk, depth=depth, **more), desk)


def fulfil(ticket: Ticket, desk: Desk) -> Answer:
    """Return the answer to a request that has its place."""
    request = ticket.request
    call = _from_kept(ticket, desk)
    if call is not None:
        try:
            answer = keeping.as_answer(call, desk.get)
        except ObjectError:
            pass  # a long answer whose object is gone is no answer
        else:
            desk.calls[ticket.place] = {**call, **ticket.more, "from_cache": True, "current": True}
            return answer
    if desk.rules.mode == "none":
        raise _not_kept(request, desk)
    attempts: list[Try] = []
    try:
        return _within_budget(ticket, desk, attempts)
    except RlmnbError as error:
        if desk.calls[ticket.place] is None:
            note(ticket, desk, error.message, attempts)
        raise


def note(ticket: Ticket, desk: Desk, why: str, attempts: Iterable[Try] = ()) -> None:
    """Keep that a call came to no answer."""
    failed = keeping.as_failed(ticket.request, why, attempts, desk.now(), **ticket.more)
    desk.calls[ticket.place] = failed


def reject(tickets: Iterable[Ticket], desk: Desk) -> None:
    """Keep that answers could not be used: they are paid for, but the next run asks anew."""
    for ticket in tickets:
        call = desk.calls[ticket.place]
        if call is not None:
            desk.calls[ticket.place] = {**call, "rejected": True}


def _from_kept(ticket: Ticket, desk: Desk) -> Call | None:
    if desk.rules.mode == "all":
        return None
    call = desk.kept.find(
        desk.cell_id,
        ticket.request.key(),
        ticket.nth,
        elsewhere=desk.rules.mode != "new_episodes",
        # Where nothing may be asked, a failure is shown as it was.
        rejected=desk.rules.mode == "none",
    )
    if call is None or keeping.expired(call, desk.now(), desk.rules.expire):
        return None
    return call


def _not_kept(request: Request, desk: Desk) -> CallNotKeptError:
    changed = desk.kept.nearest(desk.cell_id, request.parts())
    where = desk.cell_id or "this program"
    why = f"what changed: {', '.join(changed)}" if changed else "it has no such call in its record"
    if changed == ():
        why = "it is asked for more often than it was answered, or its answer is too old"
    return CallNotKeptError(
        f"{where} asks {request.model} for an answer that is not kept, and no call may be made; "
        f"{why}",
        hint="make the call with: rlmnb replay --calls once, and without the tag "
        "rlmnb:calls=none if the cell has it",
    )


def _within_budget(ticket: Ticket, desk: Desk, attempts: list[Try]) -> Answer:
    """Ask where what is left allows it. An answer that had too small a share of it is asked again.

    An answer that was cut has cost what it has cost, and is kept nowhere.
    """
    reserved = _reserve(ticket, desk)
    answer = _asked(ticket, desk, reserved, attempts)
    if answer is None and reserved.shared:
        with desk._lock:
            desk.calls.append(desk.calls[ticket.place])
            desk.calls[ticket.place] = None
        reserved = _reserve(ticket, desk, alone=True)
        answer = _asked(ticket, desk, reserved, attempts)
    if answer is None:
        raise BudgetError(_cut(ticket.request), hint=_MORE)
    return answer


def _asked(ticket: Ticket, desk: Desk, reserved: Reserved, attempts: list[Try]) -> Answer | None:
    """Ask with the room that was reserved, and keep what came of it; None if it was cut there."""
    made: Call | None = None
    request = ticket.request
    try:
        answer = _complete(replace(request, room=reserved.room), desk, attempts)
        if _was_cut(answer, reserved.room):
            failed = keeping.as_failed(request, _cut(request), attempts, desk.now(), **ticket.more)
            made = desk.calls[ticket.place] = {**failed, **keeping.cost_of(answer)}
            return None
        made = keeping.as_call(request, answer, desk.now(), desk.put, **ticket.more)
        desk.calls[ticket.place] = made
        desk.tell(made)
        return answer
    finally:
        desk.till.settle(reserved, made)


def _reserve(ticket: Ticket, desk: Desk, *, alone: bool = False) -> Reserved:
    """Take what a call may cost out of the budget before it is made, or refuse it."""
    among = 1 if alone else min(_SHARING, desk.calls.count(None))
    found = desk.till.reserve(ticket.request, recursive=ticket.depth > 0, among=among, alone=alone)
    if isinstance(found, Reserved):
        return found
    raise BudgetError(
        f"the budget does not allow this call to {ticket.request.model}: {found}", hint=_MORE
    )


def _was_cut(answer: Answer, room: int | None) -> bool:
    """Tell whether an answer ended where it had no more room."""
    if room is None or answer.cut is False:
        return False
    took = answer.usage.output
    return bool(answer.cut) if took is None else took >= room


def _cut(request: Request) -> str:
    return f"the answer of {request.model} was cut: the budget has no more tokens left for it"


def _complete(request: Request, desk: Desk, attempts: list[Try]) -> Answer:
    """Ask until there is an answer, as often as it makes sense, waiting longer each time."""
    provider = desk.provider_for(request.model)
    began = time.perf_counter()
    hangs = 0
    while True:
        try:
            answer = provider.complete(request)
        except ModelBusyError as error:
            hangs += isinstance(error, ModelSilentError)
            last = len(attempts) + 1 >= desk.rules.tries or hangs >= _HANGS
            pause = 0.0 if last else _pause(len(attempts), error.retry_after)
            attempts.append(Try(desk.now(), error.message[:500], round(pause * 1000)))
            if last:
                raise ModelError(
                    f"{request.model} did not answer in {len(attempts)} attempts: {error.message}",
                    hint=error.hint or "try again later: answers that were given are kept",
                ) from error
            desk.wait(pause)
            continue
        took = (time.perf_counter() - began) * 1000
        cost = prices.cost_of(answer.model, answer.usage)
        if cost is None and answer.model != request.model:
            cost = prices.cost_of(request.model, answer.usage)
        return replace(
            answer,
            duration_ms=answer.duration_ms or took,
            attempts=(*attempts, *answer.attempts),
            cost_usd=cost if answer.cost_usd is None else answer.cost_usd,
        )


def _pause(failures: int, wanted: float | None) -> float:
    """Return how long to wait after so many failures: what the server wants, within bounds."""
    grown = _FIRST_WAIT * 2.0**failures
    return float(min(_LONGEST_WAIT, max(grown, wanted or 0.0)))
