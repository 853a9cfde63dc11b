"""Model calls in a replay: how each cell is to make them, what they cost, what was spared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from rlmnb.format import times
from rlmnb.format.keptcalls import calls_of, is_call, is_paid, looked_at, merged
from rlmnb.graph.environment import CodeCell, Run
from rlmnb.graph.modelcalls import ASKING, type_of_call
from rlmnb.kernel.calls import ABOUT
from rlmnb.models import budget, choosing, tags
from rlmnb.models.budget import Tally
from rlmnb.models.keeping import Call, expired
from rlmnb.replay.wishes import Wishes
from rlmnb.session import Session


class Calling:
    """What a replay knows of model calls."""

    def __init__(
        self, session: Session, cells: list[CodeCell], wishes: Wishes, tally: Tally
    ) -> None:
        state = session.stored_state()
        self._session = session
        self._wishes = wishes
        for cell in cells:
            # A tag that says nothing is complained of before anything runs.
            tags.mode_of(cell.tags, "once")
            tags.expiry_of(cell.tags, None)
        self._limits = asdict(budget.limits_of(state))
        self._tally = tally
        self._model = choosing.default_model()
        # What all replays have made and reused so far, this one included.
        self._ever = Tally(budget.spent_by_model(state), budget.spent_by_model(state, "reused"))
        self._made: dict[str, list[str]] = {}
        # The cell that runs because it is stale; others may run to make something again.
        self.due = ""

    def about(self, cell: CodeCell) -> dict[str, Any]:
        """Return what the kernel is told with a cell."""
        mode = tags.mode_of(cell.tags, self._wishes.calls)
        if mode == "all" and cell.cell_id != self.due:
            mode = "once"
        told = {
            "notebook": self._session.path,
            "mode": mode,
            "expire": tags.expiry_of(cell.tags, self._wishes.calls_expire),
            "force": self._wishes.over_budget,
            "limits": self._limits,
            "spent": asdict(budget.sum_of(self._ever.made)),
            "model": self._model,
        }
        return {"cellId": cell.cell_id, ABOUT: told}

    def heard(self, cell: CodeCell, trace: Mapping[str, Any]) -> None:
        """Count the calls of a cell that has just run, and those that a run cut short had paid."""
        for call in trace.get("left_over", ()):
            self._ever.add({**call, "from_cache": False})
        mine = self._made.setdefault(cell.cell_id, [])
        for call in (call for call in trace.get("calls", ()) if is_paid(call)):
            if not call["from_cache"]:
                mine.append(call["key"])
            elif call["key"] in mine:
                continue  # made a moment ago: the cell ran twice
            self._tally.add(call)
            self._ever.add(call)

    def spared(self, cells: Iterable[CodeCell]) -> None:
        """Count the calls of cells that had not to be run."""
        for cell in cells:
            count_reused(cell, self._ever)

    def spent(self) -> dict[str, Any]:
        """Return what calls have cost and spared so far, for the session's state."""
        return {
            "made": {model: asdict(each) for model, each in self._ever.made.items()},
            "reused": {model: asdict(each) for model, each in self._ever.reused.items()},
        }


def count_reused(cell: CodeCell, tally: Tally) -> None:
    """Count the calls that a cell would have made, had it been run."""
    for call in cell.calls:
        tally.add({**call, "from_cache": True})


def current_calls(record: Any) -> tuple[Call, ...]:
    """Return the calls that a cell made when it last ran."""
    if not isinstance(record, dict) or not record.get("calls"):
        return ()
    return tuple(call for call in calls_of(record) if call.get("current", True) and is_call(call))


def renewal(
    calls: tuple[Call, ...], cell_tags: frozenset[str], wishes: Wishes | None = None
) -> str:
    """Say why answers of a cell are to be asked for again, nothing if they are not."""
    if not calls:
        return ""
    if wishes is not None and wishes.calls == "all":
        return "its model calls are to be made anew"
    age = tags.expiry_of(cell_tags, wishes.calls_expire if wishes is not None else None)
    now = times.now()
    if any(expired(call, now, age) for call in calls):
        return "an answer of a model is too old"
    return ""


def as_recorded(
    cell: CodeCell, run: Run, known: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a run's calls add to a cell's record: what is laid over it, and what replaces."""
    calls: list[Call] = run.pop("calls", None) or []
    run.pop("left_over", None)
    verdict = run.pop("verification", None)
    before = calls_of(known)
    laid: dict[str, Any] = {}
    replaced: dict[str, Any] = {}
    if calls or before:
        replaced["calls"] = merged(before, calls)
    answered = [call for call in calls if is_call(call)]
    output = known.get("output") if isinstance(known.get("output"), dict) else {}
    kept = _cached_response(cell, answered)
    if kept is not None or (output or {}).get("cached_response"):
        replaced["output"] = {**(output or {}), "cached_response": kept}
    if answered:
        laid["metadata"] = _how(answered)
    kind = type_of_call(cell.source) if calls or verdict else None
    if kind is not None and known.get("type", "repl") == "repl":
        laid["type"] = kind
    elif known.get("run") and not calls and known.get("type") in ASKING.values():
        laid["type"] = "repl"  # it was one call once, and was edited
    if verdict is not None:
        laid |= {"type": "verification", "confidence": verdict["confidence"]}
        replaced |= {"verification": verdict, "evidence": [verdict["of"]]}
    elif known.get("verification"):
        replaced |= {"verification": None}
    edges = looked_at(run, known.get("dependencies"))
    if edges is not None:
        replaced["dependencies"] = edges
    return laid, replaced


def _cached_response(cell: CodeCell, calls: list[Call]) -> dict[str, Any] | None:
    """Return the answer of a cell that is one call, as it is kept for whoever reads the record."""
    if len(calls) != 1 or type_of_call(cell.source) is None:
        return None
    call = calls[0]
    if call.get("object"):
        return {"key": call["key"], "response": None, "object": call["object"]}
    return {"key": call["key"], "response": call["response"]}


def _how(calls: list[Call]) -> dict[str, Any]:
    spent = Tally()
    for call in calls:
        spent.add({**call, "from_cache": False})
    found: dict[str, Any] = {
        "model": calls[-1]["model"],
        "tokens_used": spent.total_made().tokens,
        "depth": max(call.get("depth") or 0 for call in calls),
    }
    heat = (calls[-1].get("request") or {}).get("parameters", {}).get("temperature")
    if isinstance(heat, int | float) and heat >= 0:
        found["temperature"] = heat
    return found
