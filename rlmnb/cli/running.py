"""Commands that deal with a session's own kernel: exec, kernel, restore --at."""

from __future__ import annotations

import shlex
import sys
from argparse import Namespace
from dataclasses import asdict
from typing import Any

from rlmnb.cli import text
from rlmnb.cli.following import numbered
from rlmnb.cli.reading import opened
from rlmnb.errors import InvalidNameError, KernelError, SessionNotFoundError
from rlmnb.graph.index import upstream
from rlmnb.ids import check_session_id
from rlmnb.replay import warm
from rlmnb.replay.cells import code_cells, working_directory
from rlmnb.replay.run import replay
from rlmnb.session import Session
from rlmnb.store.layout import looks_like_path, session_place
from rlmnb.views import text_of

_NAMES = 30


def execute(args: Namespace) -> int:
    """Run code in the session's kernel as a new cell, and print what it prints."""
    code = sys.stdin.read() if args.cell == "-" else args.cell
    if not code.strip():
        raise InvalidNameError("there is no code to run", hint="run: rlmnb exec 'print(1)'")
    if args.session is None and (what := _what_is(code)):
        # It would be run, and fail, in another session than the one that is meant.
        hint = f"run: rlmnb exec {shlex.quote(code)} 'print(1)'"
        raise InvalidNameError(f"{code} is a {what}, and there is no code to run", hint=hint)
    session = begun(args.session)
    # Until it has come to its end, nobody may rely on it.
    cell_id = session.append(code, status="running")
    # It was asked for, with all it does; a stale cell it builds on runs first, unless that one
    # changes things outside the notebook.
    above = set(upstream(session.index, cell_id))
    effects = {cell.cell_id for cell in code_cells(session) if cell.effects}
    try:
        report = replay(
            session,
            only=frozenset({cell_id, *(above - effects)}),
            force=frozenset({cell_id}),
            allow_effects=True,
            effects_of=frozenset({cell_id}),
            keep_kernel=True,
            timeout=args.timeout,
        )
    except KernelError as error:
        session.refresh()
        session.complete(cell_id, error=f"KernelError: {error.message}")
        raise
    session.refresh()
    if cell_id in report.skipped:
        session.complete(cell_id, error=f"not run: {'; '.join(report.causes[cell_id])}")
    cell = session.cell(cell_id)
    failed = cell_id in report.failed or cell_id in report.skipped
    if args.json:
        text.print_json(
            {
                "session": session.id,
                "cell_id": cell_id,
                "status": "failed" if failed else "completed",
                "outputs": cell.outputs,
                "error": report.errors.get(cell_id),
                "ran_first": [each for each in report.executed if each != cell_id],
                "causes": report.causes.get(cell_id, []) if cell_id in report.skipped else [],
                "seconds": report.seconds,
            }
        )
        return 1 if failed else 0
    first = [each for each in report.executed if each != cell_id]
    if first:
        text.note(f"{numbered(session, first)} ran first: what comes from there was needed")
    if cell_id not in report.skipped:
        sys.stdout.write(text.printable(text_of(cell.outputs)))
    if cell_id in report.skipped:
        text.note(f"not run: {'; '.join(report.causes[cell_id])}")
        refused = above & {*(effects & {*report.left}), *report.skipped}
        leave = " --allow-effects" if refused else ""
        text.note(f"bring the session up to date: rlmnb replay {session.place.word}{leave}")
    elif failed:
        told = report.errors.get(cell_id, "")
        # A timeout shows itself only as an interrupt.
        why = f": {told}" if told and told not in text_of(cell.outputs) else ""
        text.note(f"{cell_id} failed{why}; see it with: rlmnb cell {session.place.word} {cell_id}")
    return 1 if failed else 0


def _what_is(code: str) -> str:
    """Say what a word names that stands where the code should; nothing if it is code."""
    if looks_like_path(code):
        return "notebook"
    try:
        return "session" if session_place(code).exists() else ""
    except InvalidNameError:
        return ""


def begun(target: str | None) -> Session:
    """Open a session, or begin the one that is named."""
    try:
        return Session.open(target)
    except SessionNotFoundError:
        if target is None or looks_like_path(target):
            raise
        session = Session.create(check_session_id(target), cwd=".")
        text.note(f"began session {session.place.name}")
        return session


def restore_at(args: Namespace) -> int:
    """Bring the session's kernel to the variables as they were after a cell."""
    from rlmnb.replay.traveling import restore_at

    session = opened(args)
    arrival = restore_at(session, args.at)
    if args.json:
        text.print_json(asdict(arrival))
        return 1 if arrival.missing else 0
    cell = session.cell(arrival.cell_id)
    text.say(f"the kernel is as it was after cell {cell.number} ({cell.cell_id})")
    names = ", ".join(arrival.names[:_NAMES]) or "none"
    more = len(arrival.names) - _NAMES
    shown = names + (f" and {more} more; all of them with --json" if more > 0 else "")
    text.labelled("variables", text.wrapped(shown, 12, 12), 12)
    if arrival.executed:
        text.labelled("ran again", text.wrapped(numbered(session, arrival.executed), 12, 12), 12)
    for name, why in [*arrival.missing.items()][:_NAMES]:
        text.labelled("missing", text.wrapped(f"{name}: {why}", 12, 12), 12)
    if len(arrival.missing) > _NAMES:
        text.labelled("", f"and {len(arrival.missing) - _NAMES} more; all of them with --json", 12)
    text.labelled("talk to it", f"jupyter console --existing {arrival.connection_file}", 12)
    return 1 if arrival.missing else 0


def kernel(args: Namespace) -> int:
    """Start, stop and look at the kernels that stay warm."""
    if args.action == "list":
        found = [warm.describe(each, timeout=1.0) for each in warm.running()]
        if args.json:
            text.print_json(found)
        elif not found:
            text.note("no kernel is running; start one with: rlmnb kernel start SESSION")
        else:
            text.table(
                ("pid", "state", "age", "memory", "session"),
                [
                    (
                        each["pid"],
                        each["state"],
                        text.ago(each["started_at"]),
                        text.size(each["memory_bytes"]),
                        each["target"],
                    )
                    for each in found
                ],
                grow="session",
            )
        return 0
    session = opened(args)
    return _ACTIONS[args.action](session, args)


def _start(session: Session, args: Namespace) -> int:
    found = warm.start(
        session.place,
        working_directory(session),
        timeout=args.timeout,
        idle=args.idle * 60 if args.idle is not None else warm.IDLE_SECONDS,
        memory=args.memory,
    )
    return _tell(found, args, "runs")


def _status(session: Session, args: Namespace) -> int:
    found = warm.find(session.place)
    if found is not None:
        return _tell(found, args, "runs")
    if args.json:
        text.print_json({"state": "none", "target": session.place.name})
    else:
        text.say(f"no kernel is running for {session.place.name}")
        text.note(f"start one with: rlmnb kernel start {session.place.word}")
    return 1


def _stop(session: Session, args: Namespace) -> int:
    stopped = warm.stop(session.place)
    if args.json:
        text.print_json({"stopped": stopped, "target": session.place.name})
    else:
        text.say("stopped" if stopped else f"no kernel was running for {session.place.name}")
    return 0


def _restart(session: Session, args: Namespace) -> int:
    return _tell(warm.restart(session.place, working_directory(session)), args, "runs anew")


def _tell(found: warm.Warm, args: Namespace, word: str) -> int:
    described = warm.describe(found)
    if args.json:
        text.print_json(described)
        return 0
    text.say(f"the kernel of {found.target} {word}: ", text.painted(described["state"], "ok"))
    lines: dict[str, Any] = {
        "process": f"{found.pid}, {text.size(described['memory_bytes'])}",
        "since": text.ago(found.started_at),
        "ends": f"after {found.idle_seconds / 60:g} min of no use",
        "talk to it": f"jupyter console --existing {found.connection_file}",
    }
    for label, value in lines.items():
        text.labelled(label, value, 12)
    return 0


_ACTIONS = {"start": _start, "status": _status, "stop": _stop, "restart": _restart}
