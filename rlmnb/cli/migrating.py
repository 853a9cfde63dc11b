"""The command for what earlier tools have left: migrate."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import Counter
from dataclasses import asdict

from rlmnb.cli import text
from rlmnb.errors import InvalidNameError
from rlmnb.migrating import run
from rlmnb.migrating.finding import default_root
from rlmnb.migrating.run import Report, Result

_GOOD = {"migrated": "ok", "updated": "ok", "rolled back": "ok"}


def migrate(args: Namespace) -> int:
    """Say what a migration would do, do it, take it back, or write the old shapes."""
    if args.dual_write is not None:
        return _write_old(args)
    if args.session is not None or args.links is not None:
        raise InvalidNameError(
            "--session and --links go with --dual-write",
            hint="run: rlmnb migrate --dual-write DIR --session SESSION",
        )
    if args.rollback is not None:
        return _roll_back(args)
    report = run.migrate(
        args.old_root or default_root(), execute=args.execute, force=args.force, tell=_progress
    )
    _progress("")
    if args.json:
        text.print_json(report.as_json())
    else:
        _show(report)
    return 1 if any(each.status in run.BAD for each in report.results) else 0


def _progress(name: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{name[:60]}\033[K")


def _show(report: Report) -> None:
    for each in report.results:
        _line(each)
        if each.status == "planned":
            becomes = Counter(file["becomes"] for file in each.files)
            for what, count in becomes.items():
                text.say(f"  {text.count(count, 'file'):>8}  {what}")
        for path, keys in each.unmapped.items():
            told = f"has no place for {', '.join(keys)} of {path}: kept in legacy/"
            text.say("  ", text.wrapped(told, 2, 4))
        for problem in each.problems:
            text.say("  ", text.painted("not read", "failed"), f" {problem['path']}: ",
                     problem["reason"])  # fmt: skip
        for said in each.notes:
            text.say(f"  {said}")
    for orphan in report.orphans:
        text.say(text.painted("left", "dim"), f"      {orphan['path']}: {orphan['reason']}")
    if not report.results:
        text.say(f"nothing to migrate in {report.old_root}")
    elif not report.executed:
        text.note(f"nothing was touched; to do it: rlmnb migrate {report.old_root} --execute")
    elif all(each.status in ("unchanged", "skipped") for each in report.results):
        text.note("there was nothing to do")
    else:
        text.note("the old files are as they were; to take it back: rlmnb migrate --rollback")


def _line(result: Result) -> None:
    word = f"{result.status:<9} "
    bad = result.status in run.BAD or result.status == "kept"
    shown = text.painted(word, "failed" if bad else _GOOD.get(result.status, ""))
    counts = text.count(result.cells, "cell") if result.cells else ""
    if result.checkpoints:
        counts += f", {text.count(result.checkpoints, 'checkpoint')}"
    parts = [result.session_id, counts, result.reason]
    text.say(shown, "  ".join(part for part in parts if part))


def _roll_back(args: Namespace) -> int:
    if args.old_root is not None:
        raise InvalidNameError("--rollback wants no ROOT: it knows what was made")
    results = run.rollback(args.rollback or None, force=args.force)
    if args.json:
        text.print_json([asdict(each) for each in results])
    else:
        for each in results:
            _line(each)
            for hint in each.notes:
                text.note(f"  {hint}")
    return 1 if any(each.status == "kept" for each in results) else 0


def _write_old(args: Namespace) -> int:
    from rlmnb.migrating import exporting
    from rlmnb.session import Session

    if args.old_root is not None:
        raise InvalidNameError(
            "--dual-write takes the session from --session",
            hint=f"run: rlmnb migrate --dual-write {args.dual_write} --session {args.old_root}",
        )
    session = Session.open(args.session)
    done = exporting.write(session, args.dual_write, links=args.links, force=args.force)
    if args.json:
        text.print_json({"session_id": session.id, **asdict(done)})
    else:
        for path in done.written:
            text.say(f"wrote  {path}")
        for path in done.unchanged:
            text.say(f"same   {path}")
        for path in done.links:
            text.say(f"linked {path}")
        for path, reason in done.left.items():
            text.say(f"left   {path}: {reason}")
    return 0
