"""The command `model`: which models there are, and the one that works without a network."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from rlmnb.cli import text
from rlmnb.errors import MissingExtraError, RlmnbError
from rlmnb.models import choosing, offline, through_llm, weights
from rlmnb.models.choosing import default_model


def model(args: Namespace) -> int:
    """Fetch the offline model, list models, or say whether the default one can answer."""
    return {"fetch": _fetch, "list": _list, "status": _status}[args.action](args)


def _fetch(args: Namespace) -> int:
    if not args.json:
        text.note(f"fetching {weights.FILE} ({text.size(weights.SIZE)}) unless it is there")
    found = weights.fetch(args.source)
    missing = _missing_library()
    if args.json:
        text.print_json({**found.as_dict(), "ready": missing is None})
    else:
        text.say(f"{found.path}: ", text.painted("verified", "ok"))
        text.note("use it with: export RLMNB_MODEL=offline")
        if missing is not None:
            text.note(f"it needs one more thing: {missing}")
    return 0


def _missing_library() -> str | None:
    try:
        offline.installed()
    except MissingExtraError as error:
        return error.hint
    return None


def _list(args: Namespace) -> int:
    """List the offline model, providers of one's own and all that the `llm` library reaches."""
    rows: list[dict[str, Any]] = [
        {"model": offline.MODEL, "through": "xllamacpp", "ready": weights.look().present}
    ]
    rows += [
        {"model": f"{name}/…", "through": place, "ready": None}
        for name, place in choosing.providers().items()
        if name != offline.MODEL
    ]
    try:
        rows += [{"model": name, "through": "llm", "ready": None} for name in through_llm.names()]
    except MissingExtraError as error:
        if not args.json:
            text.note(f"more models: {error.hint}")
    if args.json:
        text.print_json(rows)
        return 0
    chosen = default_model()
    words = {True: "ready", False: "not fetched", None: ""}
    text.table(
        ("model", "through", "state", "default"),
        [
            (
                each["model"],
                each["through"],
                words[each["ready"]],
                "default" if each["model"] == chosen else "",
            )
            for each in rows
        ],
        grow="model",
    )
    return 0


def _status(args: Namespace) -> int:
    """Say which model answers where none is named, and whether the offline one can."""
    found = weights.look()
    problem = None
    try:
        weights.verified()
        offline.installed()
    except RlmnbError as error:
        problem = error
    chosen = default_model()
    told: dict[str, Any] = {
        "default": chosen,
        "offline": {
            **found.as_dict(),
            "ready": problem is None,
            "problem": problem and problem.message,
            "hint": problem and problem.hint,
        },
    }
    if args.json:
        text.print_json(told)
    else:
        text.labelled("default", chosen or "none; set RLMNB_MODEL", 10)
        text.labelled("offline", "ready" if problem is None else problem.message, 10)
        text.labelled("weights", found.path, 10)
        if problem is not None and problem.hint:
            text.note(problem.hint)
    return 0 if problem is None else 1
