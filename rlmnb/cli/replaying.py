"""Commands that bring a session up to date: status, replay."""

from __future__ import annotations

import sys
from argparse import Namespace
from dataclasses import asdict

from rlmnb.cli import text
from rlmnb.cli.reading import opened
from rlmnb.errors import KernelError
from rlmnb.replay.cells import code_cells, stale_cells
from rlmnb.replay.report import Report
from rlmnb.replay.run import replay
from rlmnb.session import Session

_SHOWN = 50


def status(args: Namespace) -> int:
    """Say which cells hold and which do not, and why; nothing is run."""
    session = opened(args)
    stale = stale_cells(session)
    fresh = [cell.cell_id for cell in code_cells(session) if cell.cell_id not in stale]
    if args.json:
        causes = [{"cell_id": cell_id, "causes": why} for cell_id, why in stale.items()]
        text.print_json({"fresh": fresh, "stale": causes})
        return 0
    _tell_stale(session, stale)
    text.say(f"{len(fresh)} fresh, {len(stale)} stale")
    if stale:
        text.note(f"bring them up to date: rlmnb replay {session.place.name}")
    return 0


def _tell_stale(session: Session, stale: dict[str, list[str]]) -> None:
    for cell_id, causes in list(stale.items())[:_SHOWN]:
        cell = session.cell(cell_id)
        head = f"{cell.number:>4}  {cell_id}  "
        text.say(text.painted(head, "stale"), cell.entry["title"][:60])
        for cause in causes:
            text.say("      because ", cause)
    if len(stale) > _SHOWN:
        text.say(f"and {len(stale) - _SHOWN} more")


def run_replay(args: Namespace) -> int:
    """Run the cells whose inputs changed, and reuse the rest."""
    session = opened(args)
    if args.check or args.dry_run:
        stale = stale_cells(session)
        if args.json:
            causes = [{"cell_id": cell_id, "causes": why} for cell_id, why in stale.items()]
            text.print_json({"would_execute": causes})
        else:
            _tell_stale(session, stale)
            text.say(f"{len(stale)} cells would run, or may once those above them have")
        return 1 if args.check and stale else 0
    force = frozenset(cell.cell_id for cell in code_cells(session)) if args.force else frozenset()

    def tell(cell_id: str, number: int, state: str) -> None:
        if not args.json and sys.stderr.isatty():
            text.note(f"{state}  {number:>4}  {cell_id}")

    try:
        report = replay(
            session,
            force=force,
            fail_fast=args.fail_fast,
            timeout=args.timeout,
            memory=args.memory,
            tell=tell,
        )
    except KernelError as error:
        if not args.json:
            raise
        shown = {"type": "KernelError", "message": error.message, "hint": error.hint}
        text.print_json({"kernel": "unavailable", "error": shown})
        return error.exit_code
    if args.verify:
        return _verify(session, report, as_json=args.json)
    if args.json:
        text.print_json(_as_dict(report))
    else:
        _tell_report(session, report)
    return 1 if report.failed else 0


def _as_dict(report: Report) -> dict[str, object]:
    return {**asdict(report), "calls": {"made": 0, "reused": 0}}


def _tell_report(session: Session, report: Report) -> None:
    for cell_id in report.executed:
        cell = session.cell(cell_id)
        word = "failed" if cell_id in report.failed else "ran"
        style = "failed" if word == "failed" else "fresh"
        text.say(text.painted(f"{word:<7}", style), f"{cell.number:>4}  {cell_id}  ",
                 cell.entry["title"][:60])  # fmt: skip
        for cause in report.causes.get(cell_id, ["what a later cell needs cannot be stored"]):
            text.say("        because ", cause)
        if cell_id in report.errors:
            text.say("        ", report.errors[cell_id])
    for cell_id in report.skipped:
        text.say(text.painted("skipped", "stale"), f"  {cell_id}  ", *report.causes[cell_id])
    parts = [f"{len(report.executed)} ran", f"{len(report.reused)} reused"]
    parts += [f"{len(report.failed)} failed"] if report.failed else []
    parts += [f"{len(report.skipped)} skipped"] if report.skipped else []
    text.say(f"{', '.join(parts)}; {report.seconds:.2f} s, kernel {report.kernel}")


def _verify(session: Session, report: Report, *, as_json: bool) -> int:
    ok = not report.executed and not report.failed
    if as_json:
        text.print_json({**_as_dict(report), "verified": ok})
    elif ok:
        text.say(f"nothing ran: all {len(report.reused)} cells hold, no call was made")
    else:
        _tell_report(session, report)
    return 0 if ok else 1
