"""Commands that change a session: append, set, fork."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from typing import Any

from rlmnb.capture.toolcalls import versions, with_tool_call
from rlmnb.cli import text
from rlmnb.cli.reading import opened
from rlmnb.errors import InvalidCellError, RlmnbError
from rlmnb.format import cells as making
from rlmnb.format.checks import check_record
from rlmnb.session import Session
from rlmnb.store import sessions
from rlmnb.store.append import append
from rlmnb.store.layout import place_of

# What a person can say besides the modes: the mode is then manual.
_SWITCH = ("on", "off")


def _text_or_stdin(value: str | None) -> str | None:
    return sys.stdin.read() if value == "-" else value


def append_cell(args: Namespace) -> int:
    """Append one cell, beginning the session if there is none, and print the cell's id."""
    fields: dict[str, Any] = {
        "source": _text_or_stdin(args.source),
        "type": args.type,
        "output": _text_or_stdin(args.output),
        "error": args.error,
        "trace": {"goal": args.goal} if args.goal else None,
    }
    cwd = os.getcwd()
    for key, paths in (("files_read", args.reads), ("files_written", args.writes)):
        if paths:
            fields[key] = versions(paths, cwd)
    if args.record:
        fields |= _extra(args.record)
    given = {key: value for key, value in fields.items() if value is not None}
    place = place_of(args.session)
    begins = not place.exists()
    wanted = [cell for listed in args.depends for cell in listed.split(",") if cell]
    if wanted:
        known = None if begins else Session(place)
        given["dependencies"] = [known.cell(each).cell_id if known else each for each in wanted]
    whole = with_tool_call(given, cwd)
    check_record(making.complete(whole))
    appended = append(place, whole)
    if begins:
        sessions.make_current(place)
        text.note(f"began session {place.name}")
    if args.json:
        text.print_json(
            {
                "cell_id": appended.cell_id,
                "seq": appended.seq,
                "session_id": place.session_id,
                "path": place.notebook,
                "pending": appended.why_not,
            }
        )
    else:
        text.say(appended.cell_id)
    if appended.why_not:
        text.note(f"note: kept, but not in the notebook yet: {appended.why_not}")
        text.note(f"      bring it in with: rlmnb doctor --fix {'' if begins else place.word}")
    return 0


def _extra(given: str) -> dict[str, Any]:
    try:
        extra = json.loads(given)
    except ValueError as error:
        raise InvalidCellError(f"--record is not JSON: {error}") from None
    if not isinstance(extra, dict):
        raise InvalidCellError("--record is not a JSON object")
    return extra


def _remembered(given: str) -> tuple[str, Any]:
    name, equals, value = given.partition("=")
    if not equals or not name.strip():
        raise RlmnbError(f"--remember {given!r}: wanted NAME=JSON, as in plan='[1, 2]'")
    try:
        return name.strip(), json.loads(value)
    except (ValueError, RecursionError):
        return name.strip(), value


def set_state(args: Namespace) -> int:
    """Change a session's title, tags and working memory, or end it."""
    session = opened(args)
    about = session.state.session
    if args.title is not None:
        about.title = args.title or None
        about.title_from = "person" if args.title else None
    if args.goal is not None:
        about.original_goal = args.goal or None
    if args.activation is not None:
        activation = session.state.activation
        activation.activation_mode = "manual" if args.activation in _SWITCH else args.activation
        if args.activation != "complexity":
            activation.rlm_active = args.activation in ("on", "always")
            activation.activation_reason = f"set to {args.activation} by hand"
    tags = [tag for tag in about.tags if tag not in args.untag]
    about.tags = tags + [tag for tag in args.tag if tag not in tags]
    memory = session.state.context.working_memory
    for name in args.forget:
        memory.pop(name, None)
    memory |= dict(_remembered(each) for each in args.remember)
    if args.end:
        from rlmnb.format import times

        about.ended_at = times.now()
    session.save()
    if args.json:
        text.print_json(session.view()["session"])
    else:
        text.say(f"{session.id}  {session.state.session.title or ''}".rstrip())
    return 0


def fork(args: Namespace) -> int:
    """Begin a session with the cells of another up to one of them."""
    session: Session = opened(args)
    new = session.fork(args.at, session_id=args.id)
    if args.json:
        text.print_json({"session_id": new.id, "path": new.path, "cells": len(new.cells)})
    else:
        text.say(new.id)
        text.note(f"{text.count(len(new.cells), 'cell')} of {session.id}, in {new.path}")
    return 0
