"""Commands that deal with a session's own kernel: exec, restore --at."""

from __future__ import annotations

import shlex
import sys
from argparse import Namespace
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import asdict
from functools import partial

from rlmnb.capture.toolnames import CHANGING, READING
from rlmnb.cli import text
from rlmnb.cli.following import numbered, waits
from rlmnb.cli.meaning import what_is
from rlmnb.cli.reading import opened
from rlmnb.cli.warming import console
from rlmnb.errors import InvalidNameError, KernelError, SessionNotFoundError, UsageError
from rlmnb.graph.effects import effects_of, of_its_agent, tools_called
from rlmnb.graph.index import upstream
from rlmnb.ids import check_session_id
from rlmnb.replay.cells import code_cells
from rlmnb.replay.language import require_python
from rlmnb.replay.report import Report
from rlmnb.replay.run import replay
from rlmnb.replay.wishes import Wishes
from rlmnb.session import Session
from rlmnb.store.layout import looks_like_path
from rlmnb.views import Cell, seen_text, text_of

_NAMES = 30
_FAILED = 10
_LEAVE = "--allow-effects"


def execute(args: Namespace) -> int:
    """Run code in the session's kernel as a new cell, and print what it prints."""
    code = sys.stdin.read() if args.cell == "-" else args.cell
    if not code.strip():
        named = f"{shlex.quote(args.session)} " if args.session else ""
        hint = f"run: rlmnb exec {named}'print(1)'"
        raise InvalidNameError("there is no code to run", hint=hint)
    if args.session is None and (what := what_is(code)):
        # It would be run, and fail, in another session than the one that is meant.
        hint = f"run: rlmnb exec {shlex.quote(code)} 'print(1)'"
        raise InvalidNameError(f"{code} is a {what}, and there is no code to run", hint=hint)
    if foreign := of_its_agent(tools_called(code)):
        raise UsageError(
            f"only its agent has {', '.join(foreign)}, and nothing was run",
            hint=f"the tools that a cell can call are {', '.join(sorted(READING | CHANGING))}",
        )
    if (tools := effects_of(code, None, None)) and not args.allow_effects:
        named = f"{shlex.quote(args.session)} " if args.session else ""
        raise UsageError(
            f"this changes things outside the notebook ({', '.join(tools)}), and nothing was run",
            hint=f"run: rlmnb exec {named}{_LEAVE} {shlex.quote(args.cell)}",
        )
    session = begun(args.session)
    require_python(session)
    # Until it has come to its end, nobody may rely on it.
    cell_id = session.append(code, status="running")
    # A stale cell it builds on runs first, unless that one changes things outside the notebook:
    # what was allowed is what the code itself does.
    above = set(upstream(session.index, cell_id))
    cells = code_cells(session)
    effects = {cell.cell_id for cell in cells if cell.effects}
    kept = {cell.cell_id for cell in cells if cell.frozen}
    try:
        report = replay(
            session,
            only=frozenset({cell_id, *(above - effects)}),
            force=frozenset({cell_id}),
            allow_effects=args.allow_effects,
            effects_of=frozenset({cell_id}),
            keep_kernel=True,
            timeout=args.timeout,
            tell=partial(_tell_wait, args),
        )
    except KernelError as error:
        session.refresh()
        session.complete(cell_id, error=f"KernelError: {error.message}")
        raise
    session.refresh()
    if cell_id in report.skipped:
        session.complete(cell_id, error=f"not run: {report.causes[cell_id][-1]}")
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
        sys.stdout.write(text.printable(seen_text(cell.outputs)))
    if cell_id in report.skipped:
        _tell_refused(session, report, session.cell(cell_id), above, effects - kept)
    elif failed:
        told = report.errors.get(cell_id, "")
        # A timeout shows itself only as an interrupt.
        why = f": {told}" if told and told not in text_of(cell.outputs) else ""
        text.note(f"{cell_id} failed{why}; see it with: rlmnb cell {session.place.word} {cell_id}")
    return 1 if failed else 0


def _tell_refused(
    session: Session,
    report: Report,
    cell: Cell,
    above: AbstractSet[str],
    effects: AbstractSet[str],
) -> None:
    """Say why a cell did not run, or those that it builds on, and how they would."""
    word, why = session.place.word, report.causes[cell.cell_id][-1]
    text.note(text.wrapped(f"not run: {why}", 0, 2))
    if _LEAVE in why:
        text.note(f"run: rlmnb exec {word} {_LEAVE} {shlex.quote(cell.source)}")
        return
    failed = [each for each in report.failed if each in above]
    for other in failed[:_FAILED]:
        head = f"cell {session.cell(other).number} ({other}) failed"
        text.note(text.wrapped(f"{head}: {report.errors.get(other, 'see its output')}", 0, 2))
    refused = [each for each in report.skipped if each in above]
    refused = [each for each in refused if not waits(report.causes[each])]
    for other in refused:
        text.note(text.wrapped(f"{other}: {report.causes[other][-1]}", 0, 2))
    if failed:
        how = f"change it or take it out, in JupyterLab for one: rlmnb open {word}"
        text.note(text.wrapped(f"see it with: rlmnb cell {word} {failed[0]}; {how}", 0, 2))
        return
    acts = effects & above & {*report.left}
    acts |= {each for each in refused if _LEAVE in report.causes[each][-1]}
    if acts or not refused:
        leave = f" {_LEAVE}" if acts else ""
        text.note(f"bring the session up to date: rlmnb replay {word}{leave}")


def _tell_wait(args: Namespace, cell_id: str, _number: int, state: str) -> None:
    """Say what is not about a cell: that another replay has to end first, or why a kernel did."""
    if not args.json and not cell_id:
        text.note(state)


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
    arrival = restore_at(session, args.at, Wishes(tell=partial(_tell_wait, args)))
    if args.json:
        text.print_json(asdict(arrival))
        return 1 if arrival.missing else 0
    cell = session.cell(arrival.cell_id)
    but = ", but for what is missing" if arrival.missing else ""
    told = f"the kernel is as it was after cell {cell.number} ({cell.cell_id}){but}"
    text.say(text.wrapped(told, 0, 2))
    names = ", ".join(arrival.names[:_NAMES]) or "none"
    more = len(arrival.names) - _NAMES
    shown = names + (f" and {more} more; all of them with --json" if more > 0 else "")
    text.labelled("variables", text.wrapped(shown, 12, 12), 12)
    if arrival.executed:
        text.labelled("ran again", text.wrapped(numbered(session, arrival.executed), 12, 12), 12)
    for cell_id, error in [*arrival.failed.items()][:_FAILED]:
        told = f"cell {session.cell(cell_id).number} ({cell_id}): {error}"
        text.labelled("failed", text.wrapped(told, 12, 12), 12)
    if len(arrival.failed) > _FAILED:
        text.labelled("", f"and {len(arrival.failed) - _FAILED} more; all of them with --json", 12)
    _tell_missing(arrival.missing)
    if arrival.outdated:
        verb = "do not hold" if len(arrival.outdated) > 1 else "does not hold"
        told = f"{numbered(session, arrival.outdated)} {verb} any more: this is what was left when"
        why = f"rlmnb status {session.place.word}"
        text.labelled("outdated", text.wrapped(f"{told} they last ran; why: {why}", 12, 12), 12)
    text.labelled("talk to it", console(arrival.connection_file), 12)
    return 1 if arrival.missing else 0


def _tell_missing(missing: Mapping[str, str]) -> None:
    """Say what could not be had, all that has one reason together."""
    reasons: dict[str, list[str]] = {}
    for name, why in missing.items():
        reasons.setdefault(why, []).append(name)
    for why, names in [*reasons.items()][:_NAMES]:
        shown = ", ".join(names[:_NAMES])
        more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
        text.labelled("missing", text.wrapped(f"{shown}{more}: {why}", 12, 12), 12)
    if left := sum(len(names) for names in [*reasons.values()][_NAMES:]):
        text.labelled("", f"and {left} more; all of them with --json", 12)
