"""Commands about model calls: calls, budget."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from rlmnb.cli import text
from rlmnb.cli.reading import opened
from rlmnb.errors import InvalidNameError
from rlmnb.format import times
from rlmnb.format.keptcalls import calls_of, is_call
from rlmnb.models.budget import DEEPEST
from rlmnb.models.keeping import expired
from rlmnb.models.spending import overview
from rlmnb.replay.owning import ownership
from rlmnb.session import Session

_SHOWN_KEY = 15
# How long to wait for a replay of the same session, in seconds.
_PATIENCE = 60.0
_LIMITS = {
    "tokens": "max_tokens",
    "calls": "max_calls",
    "usd": "max_usd",
    "recursive": "max_recursive_calls",
    "depth": "max_depth",
}


def run_calls(args: Namespace) -> int:
    """List the calls of a session, or prune them."""
    words = list(args.what)
    pruning = words[:1] == ["prune"]
    words = words[1:] if pruning else words
    if len(words) > 1:
        raise InvalidNameError(f"wanted one session, found {' '.join(words)}")
    session = opened(Namespace(**{**vars(args), "session": words[0] if words else None}))
    return _prune(session, args) if pruning else _list(session, args)


def _rows(session: Session, args: Namespace) -> list[tuple[str, dict[str, Any]]]:
    only = session.cell(args.cell).cell_id if args.cell else None
    found: list[tuple[str, dict[str, Any]]] = []
    for cell in session.cells:
        if cell.raw.get("cell_type") != "code" or (only and cell.cell_id != only):
            continue
        found += [
            (str(cell.cell_id), call)
            for call in calls_of(cell.raw["metadata"].get("rlmnb"))
            if _is_to(call, args.model)
        ]
    return found


def _is_to(call: dict[str, Any], model: str | None) -> bool:
    return model in (None, call.get("model"), call.get("answered_by"))


def _list(session: Session, args: Namespace) -> int:
    rows = _rows(session, args)
    if args.json:
        text.print_json([{"cell_id": cell_id, **call} for cell_id, call in rows])
        return 0
    shown = [
        (
            cell_id,
            call["model"],
            call["key"].removeprefix("sha256:")[:_SHOWN_KEY],
            _tokens(call),
            text.money(call.get("cost_usd")),
            text.ago(call.get("at")),
            _state(call),
        )
        for cell_id, call in rows
    ]
    if not rows:
        text.note("no model calls")
        return 0
    text.table(("cell", "model", "key", "tokens", "cost", "age", "answer"), shown, "model")
    return 0


def _tokens(call: dict[str, Any]) -> str:
    usage = call.get("usage") or {}
    known = [usage.get(name) for name in ("input", "output")]
    return "-" if None in known else f"{known[0]}+{known[1]}"


def _state(call: dict[str, Any]) -> str:
    if not is_call(call):
        return "failed"
    if not call.get("current", True):
        return "former"
    return "kept" if call.get("from_cache") else "made"


def _prune(session: Session, args: Namespace) -> int:
    """Remove answers that no cell uses any more, and those that are too old."""
    with ownership(session, _PATIENCE, lambda *_: None):
        return _pruned(session, args)


def _pruned(session: Session, args: Namespace) -> int:
    # A replay that has just ended may have changed what is kept.
    session.refresh()
    now = times.now()
    gone: dict[str, list[int]] = {}
    for cell_id in dict.fromkeys(cell_id for cell_id, _ in _rows(session, args)):
        calls = session.cell(cell_id).raw["metadata"]["rlmnb"]["calls"]
        out = [
            at
            for at, call in enumerate(calls)
            if _is_to(call, args.model)
            and (
                not call.get("current", True)
                or (args.older_than is not None and expired(call, now, args.older_than))
            )
        ]
        if out:
            gone[cell_id] = out
    count = sum(map(len, gone.values()))
    if args.yes and gone:
        session.drop_calls(gone)
    if args.json:
        text.print_json({"dry_run": not args.yes, "removed": count, "cells": gone})
        return 0
    verb = "removed" if args.yes else "would remove"
    text.say(f"{verb} {text.count(count, 'answer')} from {text.count(len(gone), 'cell')}")
    if gone and not args.yes:
        text.note("nothing was touched; to do it: add --yes")
    return 0


def run_budget(args: Namespace) -> int:
    """Show what calls have cost and may cost; set limits."""
    session = opened(args)
    if args.set:
        _set(session, args.set)
    found = overview(session.stored_state())
    if args.json:
        text.print_json(found)
        return 0
    limits, spent, saved = found["limits"], found["spent"], found["saved"]
    for name, used in (("calls", spent["calls"]), ("tokens", spent["tokens"])):
        text.labelled(name, _of(used, limits[name]), 12)
    text.labelled("cost", _of(_cost(spent), _limit_usd(limits["usd"])), 12)
    text.labelled("recursive", _of(spent["recursive_calls"], limits["recursive_calls"]), 12)
    text.labelled("depth", f"at most {limits['depth']}", 12)
    text.labelled("saved", f"{saved['calls']} calls, {saved['tokens']} tokens, {_cost(saved)}", 12)
    for model, each in found["by_model"].items():
        made = each["spent"]
        line = f"{made['calls']} calls, {made['tokens']} tokens, {_cost(made)}; saved "
        text.say(f"  {model}: ", line, f"{each['saved']['calls']} calls, {_cost(each['saved'])}")
    for model, use in found["agent"]["by_model"].items():
        beside = f"{use.get('cache_read_tokens') or 0} from cache"
        beside += f", {use['subagent_tokens']} by sub-agents" if use.get("subagent_tokens") else ""
        cost = text.money(use["cost_usd"]) if use["cost_usd"] is not None else "price unknown"
        text.say(f"  agent, {model}: ", f"{use.get('tokens') or 0} tokens ({beside}), {cost}")
    return 0


def _of(used: object, limit: object) -> str:
    return f"{used} of {limit}" if limit is not None else f"{used}, no limit"


def _limit_usd(limit: float | None) -> str | None:
    return None if limit is None else f"${limit:g}"


def _cost(spent: dict[str, Any]) -> str:
    if spent["usd"] is None:
        return "price unknown"
    shown = text.money(spent["usd"])
    return f"{shown} and {spent['unpriced']} calls of unknown price" if spent["unpriced"] else shown


def _set(session: Session, wanted: list[str]) -> None:
    for each in wanted:
        name, said, value = each.partition("=")
        if name not in _LIMITS or not said:
            raise InvalidNameError(
                f"{each!r} sets no limit", hint=f"one of {', '.join(f'{n}=' for n in _LIMITS)}"
            )
        number = _number(name, value)
        if name == "depth":
            session.state.activation.max_depth = int(number or 1)
        else:
            setattr(session.state.budget, _LIMITS[name], number)
    session.save()


def _number(name: str, value: str) -> float | int | None:
    fixed = name in ("depth", "recursive")
    if value == "none" and not fixed:
        return None
    try:
        number = float(value) if name == "usd" else int(value)
    except ValueError:
        raise InvalidNameError(f"{name}={value} is no number") from None
    if not 0 <= number < float("inf") or (name == "depth" and not 1 <= number <= DEEPEST):
        wanted = f"from 1 to {DEEPEST}" if name == "depth" else "0 or more"
        raise InvalidNameError(f"{name} is {wanted}, found {value}")
    return number
