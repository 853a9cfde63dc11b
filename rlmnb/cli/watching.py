"""The command that stays: watch a session, say what becomes stale, replay it if asked to."""

from __future__ import annotations

import os
from argparse import Namespace

from rlmnb.cli import text
from rlmnb.cli.reading import opened
from rlmnb.errors import RlmnbError
from rlmnb.replay.cells import stale_cells
from rlmnb.replay.watching import changes
from rlmnb.session import Session


def watch(args: Namespace) -> int:
    """Say after every change what became stale; with --replay, bring it up to date."""
    session = opened(args)
    target = session.place.notebook
    known: dict[str, list[str]] = {}
    first = True
    try:
        for _ in changes(session, debounce=args.debounce):
            if first and not args.json:
                text.note(f"watching {session.place.name}; Ctrl-C ends it")
            try:
                session = Session.open(target)
                known = _look(session, known, args, first=first)
                first = False
            except RlmnbError as error:
                # Half of an edit, a notebook that is being saved: the next change will tell.
                text.note(f"rlmnb: {error.message}")
            if not os.path.exists(target):
                text.note(f"{target} is gone")
                return 3
    except KeyboardInterrupt:
        pass
    return 0


def _look(
    session: Session, known: dict[str, list[str]], args: Namespace, *, first: bool
) -> dict[str, list[str]]:
    """Say what changed since the last look; return what is stale now."""
    stale = stale_cells(session)
    new = {each: causes for each, causes in stale.items() if known.get(each) != causes}
    gone = [each for each in known if each not in stale]
    if args.json:
        if new or gone or first:
            causes = [{"cell_id": each, "causes": why} for each, why in stale.items()]
            text.print_json({"event": "stale", "stale": causes, "fresh_again": gone})
    else:
        _tell(session, new, gone, len(stale), first=first)
    if args.replay and stale:
        stale = _replay(session, args)
    _flush()
    return stale


def _tell(
    session: Session, new: dict[str, list[str]], gone: list[str], count: int, *, first: bool
) -> None:
    for cell_id, causes in new.items():
        cell = session.cell(cell_id)
        text.say(text.painted("stale ", "stale"), f"{cell.number:>4}  {cell_id}  ",
                 "; ".join(causes))  # fmt: skip
    for cell_id in gone:
        text.say(text.painted("fresh ", "fresh"), f"      {cell_id}")
    if new or gone or first:
        text.say(f"{text.count(count, 'stale cell')}")


def _replay(session: Session, args: Namespace) -> dict[str, list[str]]:
    from rlmnb.replay.run import replay

    report = replay(session, keep_kernel=True, allow_effects=False)
    session = Session.open(session.place.notebook)
    if args.json:
        done = {"executed": report.executed, "failed": report.failed, "skipped": report.skipped}
        text.print_json({"event": "replay", **done, "seconds": report.seconds})
    else:
        for cell_id in report.executed:
            word = "failed" if cell_id in report.failed else "ran"
            text.say(text.painted(f"{word:<6}", "failed" if word == "failed" else "fresh"),
                     f"{session.cell(cell_id).number:>4}  {cell_id}")  # fmt: skip
        text.say(f"{len(report.executed)} ran, {len(report.reused)} reused; "
                 f"{report.seconds:.2f} s, kernel {report.kernel}")  # fmt: skip
    return stale_cells(session)


def _flush() -> None:
    import sys

    sys.stdout.flush()
