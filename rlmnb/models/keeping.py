"""Calls as a cell's record keeps them, and finding an answer among those that are kept.

`rlmnb.format.calls` is the definition of a kept call; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from rlmnb.capture.secrets import redact_text
from rlmnb.format.keptcalls import calls_of, is_call, merged
from rlmnb.jsontext import clean_text
from rlmnb.models.request import Answer, Request, Try, Usage, changed_parts

Call = dict[str, Any]
_LONGEST_INLINE = 16 * 1024
_LONGEST_PROMPT = 2 * 1024
_PREVIEW = 400
Put = Callable[[bytes], str]
Get = Callable[[str], bytes]


def as_call(request: Request, answer: Answer, at: str, put: Put, **more: Any) -> Call:
    """Return a call as the record keeps it; what is long goes among the objects."""
    call: Call = {
        "key": request.key(),
        "parts": request.parts(),
        "model": request.model,
        "request": _summary(request, put),
        **cost_of(answer),
        "attempts": _attempts(answer.attempts),
        "from_cache": False,
        "at": at,
        **more,
    }
    data = answer.text.encode("utf-8", "surrogatepass")
    # What no notebook can hold as text is kept as bytes, however short.
    if len(data) > _LONGEST_INLINE or clean_text(answer.text) != answer.text:
        return {**call, "response": None, "object": put(data)}
    return {**call, "response": answer.text}


def cost_of(answer: Answer) -> Call:
    """Return what an answer took, as the record keeps it."""
    return {
        "answered_by": answer.model,
        "usage": asdict(answer.usage),
        "cost_usd": answer.cost_usd,
        "duration_ms": round(answer.duration_ms, 3),
    }


def as_failed(request: Request, error: str, attempts: Iterable[Try], at: str, **more: Any) -> Call:
    """Return a call that came to no answer, so that it can be seen why."""
    return {
        "key": request.key(),
        "parts": request.parts(),
        "model": request.model,
        "request": {"prompt": clean_text(request.prompt[:_PREVIEW])},
        "attempts": _attempts(attempts),
        "error": clean_text(redact_text(error)[:_LONGEST_PROMPT]),
        "from_cache": False,
        "at": at,
        **more,
    }


def _attempts(attempts: Iterable[Try]) -> list[dict[str, Any]]:
    """Return attempts for the record; what a server says in an error may repeat a key."""
    return [{**asdict(each), "error": redact_text(each.error)} for each in attempts]


def _summary(request: Request, put: Put) -> dict[str, Any]:
    """Say what was asked: all of it where it is short, else its beginning and where the rest is."""
    found: dict[str, Any] = {"parameters": dict(request.parameters)} if request.parameters else {}
    text = "\n\n".join(
        each.content if each.role == "user" else f"[{each.role}] {each.content}"
        for each in request.messages
    )
    for name, said in (("prompt", text), ("system", request.system or "")):
        if len(said) > _LONGEST_PROMPT:
            found[name] = clean_text(said[:_PREVIEW]) + "…"
            found[f"{name}_object"] = put(said.encode("utf-8", "surrogatepass"))
        elif said:
            found[name] = clean_text(said)
    if request.attachments:
        found["attachments"] = [each.described() for each in request.attachments]
    return found


def as_answer(call: Call, get: Get) -> Answer:
    """Return the answer that a kept call has, exactly."""
    text = call.get("response")
    if text is None:
        text = get(call["object"]).decode("utf-8", "surrogatepass")
    return Answer(
        text=text,
        model=call.get("answered_by") or call["model"],
        usage=Usage(**_known(call.get("usage"), Usage)),
        duration_ms=call.get("duration_ms") or 0.0,
        attempts=tuple(Try(**_known(each, Try)) for each in call.get("attempts") or ()),
        cost_usd=call.get("cost_usd"),
        from_cache=True,
    )


def _known(given: Any, kind: Any) -> dict[str, Any]:
    """Return the fields that we know: a newer version may have written more."""
    if not isinstance(given, Mapping):
        return {}
    return {name: given[name] for name in kind.__dataclass_fields__ if name in given}


def expired(call: Call, now: str, seconds: float | None) -> bool:
    """Tell whether an answer is older than it may be."""
    if seconds is None:
        return False
    try:
        age = datetime.fromisoformat(now) - datetime.fromisoformat(call["at"])
    except (KeyError, TypeError, ValueError):
        return True
    return age.total_seconds() > seconds


@dataclass
class Kept:
    """The calls that cells have made, by cell, in the order in which they were made."""

    by_cell: dict[str, list[Call]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._by_key: dict[str, list[tuple[str, Call]]] = {}
        for cell_id, calls in self.by_cell.items():
            for call in calls:
                self._by_key.setdefault(call["key"], []).append((cell_id, call))

    def put(self, cell_id: str, calls: list[Call]) -> None:
        """Take in what a cell has called now, in the place of what it called before."""
        self.by_cell[cell_id] = merged(self.by_cell.get(cell_id, []), calls)
        self.__post_init__()

    def add(self, cell_id: str, calls: list[Call]) -> None:
        """Take in more calls of a cell, after those that it has."""
        self.by_cell[cell_id] = [*self.by_cell.get(cell_id, ()), *calls]
        self.__post_init__()

    def find(
        self, cell_id: str, key: str, nth: int, *, elsewhere: bool, rejected: bool = False
    ) -> Call | None:
        """Return the n-th call with this key of a cell, else, if asked, of the other cells.

        Answers that did not have the form that was asked for count only where they are wanted.
        """
        found = [
            (at, call)
            for at, call in self._by_key.get(key, ())
            if is_call(call) and (rejected or not call.get("rejected"))
        ]
        own = [call for at, call in found if at == cell_id]
        if nth < len(own):
            return own[nth]
        others = [call for at, call in found if at != cell_id] if elsewhere else []
        return others[nth] if nth < len(others) else None

    def nearest(self, cell_id: str, parts: Mapping[str, str]) -> tuple[str, ...] | None:
        """Say which parts differ from the most similar call of a cell, None if it has none."""
        differences = [
            changed_parts(parts, call.get("parts") or {})
            for call in self.by_cell.get(cell_id, ())
            if is_call(call)
        ]
        return min(differences, key=len, default=None)


def kept_in(cells: Iterable[tuple[str, Any]]) -> Kept:
    """Return the calls of a notebook, given each cell's id and record as they are found there."""
    found: dict[str, list[Call]] = {}
    for cell_id, record in cells:
        if calls := calls_of(record):
            found.setdefault(cell_id, calls)
    return Kept(found)
