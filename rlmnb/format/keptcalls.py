"""Model calls in records, as plain dicts: which of them can answer, and what a run leaves of them.

`rlmnb.format.calls` is the definition of a call.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    Call = dict[str, Any]

LOOKED = "cell()"
"""The reason of a dependency on a cell that code has looked at by its name."""

_MOST_FORMER = 200


def is_call(value: "Any") -> bool:
    """Tell whether something in a record is a call that can answer."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("key"), str)
        and isinstance(value.get("model"), str)
        and (isinstance(value.get("response"), str) or isinstance(value.get("object"), str))
    )


def is_paid(value: "Any") -> bool:
    """Tell whether something in a record is a call that was answered, be it with half an answer."""
    usage = value.get("usage") if isinstance(value, dict) else None
    return is_call(value) or (isinstance(usage, dict) and isinstance(usage.get("output"), int))


def calls_of(record: "Any") -> "list[Call]":
    """Return the calls in a record, whatever else stands there."""
    calls = record.get("calls") if isinstance(record, dict) else None
    if not isinstance(calls, list):
        return []
    return [
        call
        for call in calls
        if isinstance(call, dict)
        and isinstance(call.get("key"), str)
        and isinstance(call.get("model"), str)
    ]


def objects_of_calls(record: "Any") -> "list[str]":
    """Return the objects that hold what was too long for a record: answers, prompts."""
    found = []
    for call in calls_of(record):
        asked: Any = call.get("request")
        asked = asked if isinstance(asked, dict) else {}
        names = (call.get("object"), asked.get("prompt_object"), asked.get("system_object"))
        found += [name for name in names if isinstance(name, str)]
    return found


def merged(before: "Iterable[Call]", now: "Iterable[Call]") -> "list[Call]":
    """Return a cell's calls after a run: those it made, then those it no longer makes.

    The latter stay for the day somebody takes an edit back; what was asked anew replaces what was
    answered before. What came to no answer replaces nothing.
    """
    current = [{**call, "current": True} for call in now]
    answered = [call for call in current if is_call(call)]
    anew = {call["key"] for call in answered if not call.get("from_cache")}
    again: dict[str, int] = {}
    for call in answered:
        again[call["key"]] = again.get(call["key"], 0) + 1
    former: list[Call] = []
    known = [call for call in before if is_call(call)]
    for call in known:
        left = again.get(call["key"], 0)
        if left:
            again[call["key"]] = left - 1
        elif call["key"] not in anew:
            former.append({**call, "current": False})
    # A run that ends early, by a slip of the pen, drops none of what is paid for.
    return current + former[: max(_MOST_FORMER, len(known) - len(answered))]


def looked_at(run: "dict[str, Any]", edges: "Any") -> "list[Any] | None":
    """Return the dependencies of a cell that looks at others; None if they are as they were."""
    known = edges if isinstance(edges, list) else []
    others = [edge for edge in known if not isinstance(edge, dict) or edge.get("reason") != LOOKED]
    named = {edge.get("cell_id") for edge in others if isinstance(edge, dict)}
    looked = [
        {"cell_id": other, "reason": LOOKED}
        for other in run.get("looked") or ()
        if other not in named
    ]
    return others + looked if looked or len(others) != len(known) else None
