"""The command that stays: watch a session, say what becomes stale, replay it if asked to."""

from __future__ import annotations

import os
from argparse import Namespace
from dataclasses import dataclass, field

from rlmnb.cli import text
from rlmnb.cli.following import numbered, outcome, parted
from rlmnb.cli.reading import opened
from rlmnb.errors import RlmnbError
from rlmnb.graph.freshness import begins
from rlmnb.ids import CellId
from rlmnb.replay.cells import stale_cells
from rlmnb.replay.report import Report
from rlmnb.replay.watching import changes, grounds
from rlmnb.session import Session

# Of each kind, as many cells as a person reads while things change.
_SHOWN = 20
_STYLES = {"ran": "fresh", "skipped": "stale"}


def watch(args: Namespace) -> int:
    """Say after every change what became stale; with --replay, bring it up to date."""
    session = opened(args)
    target = session.place.notebook
    seen: _Seen | None = None
    try:
        for _ in changes(session, debounce=args.debounce):
            if seen is None and not args.json:
                text.note(f"watching {session.place.name}; Ctrl-C ends it")
            try:
                session = Session.open(target)
                seen = _look(session, seen, args)
            except (RlmnbError, OSError) as error:
                if os.path.exists(target):
                    # Half of an edit, a notebook that is being saved: the next change will tell.
                    text.note(f"rlmnb: {error}")
            if not os.path.exists(target):
                break
    except KeyboardInterrupt:
        return 0
    if args.json:
        text.print_json({"event": "gone", "notebook": target})
    text.note(f"{target} is gone")
    return 3


@dataclass(frozen=True)
class _Seen:
    """How things stood after the last look."""

    stale: dict[str, list[str]]
    # What the last replay went by, if there was one.
    grounds: dict[str, object] = field(default_factory=dict)

    def holds(self, stale: dict[str, list[str]], now: dict[str, object]) -> bool:
        """Tell whether a replay would only do what the last one has done."""
        return self.stale == stale and now.items() <= self.grounds.items()


def _look(session: Session, seen: _Seen | None, args: Namespace) -> _Seen:
    """Say what changed since the last look; return how things stand now."""
    first, known = seen is None, seen.stale if seen else {}
    stale = stale_cells(session)
    new = {each: causes for each, causes in stale.items() if known.get(each) != causes}
    gone = [each for each in known if each not in stale]
    if args.json:
        if new or gone or first:
            text.print_json({"event": "stale", "stale": _as_rows(stale), "fresh_again": gone})
    else:
        _tell(session, new, gone, len(stale), first=first)
    now = grounds(session)
    # Our own replay changes the notebook, too: what it could not do is not tried for ever.
    if args.replay and stale and not (seen and seen.holds(stale, now)):
        after, left = _replay(session, args)
        # Of what a cell has come to read meanwhile, only the version of now is known.
        seen = _Seen(left, {**grounds(after), **now})
    else:
        seen = _Seen(stale, seen.grounds if seen else {})
    _flush()
    return seen


def _as_rows(stale: dict[str, list[str]]) -> list[dict[str, object]]:
    return [{"cell_id": each, "causes": why} for each, why in stale.items()]


def _tell(
    session: Session, new: dict[str, list[str]], gone: list[str], count: int, *, first: bool
) -> None:
    shown, followers = parted(list(new), lambda each: begins(new[each]))
    for cell_id in shown[:_SHOWN]:
        _say_of(session, cell_id, "stale", "; ".join(new[cell_id]))
    if len(shown) > _SHOWN:
        text.say(f"and {len(shown) - _SHOWN} more")
    if followers:
        text.say(text.wrapped(f"and because of these: {numbered(session, followers)}", 0, 2))
    numbers = {cell.cell_id: cell.number for cell in session.cells}
    for cell_id in gone[:_SHOWN]:
        # One that was deleted is not stale either, and has no number.
        text.say(
            text.painted("fresh ", "fresh"), f"{numbers.get(CellId(cell_id), ''):>4}  {cell_id}"
        )
    if len(gone) > _SHOWN:
        text.say(f"and {len(gone) - _SHOWN} more that hold again")
    if new or gone or first:
        text.say(f"{text.count(count, 'stale cell')}")


def _say_of(session: Session, cell_id: str, word: str, why: str) -> None:
    """Print what has become of a cell, and why, whole in the narrowest of terminals."""
    head = f" {session.cell(cell_id).number:>{9 - len(word)}}  {cell_id}"
    line = text.wrapped(f"{word}{head}  {why}".rstrip(), 0, 8)
    text.say(text.painted(word, _STYLES.get(word, word)), line.removeprefix(word))


def _replay(session: Session, args: Namespace) -> tuple[Session, dict[str, list[str]]]:
    """Bring a session up to date; return it as it is then, and what is stale all the same."""
    from rlmnb.replay.run import replay

    report = replay(session, keep_kernel=True, allow_effects=False)
    session = Session.open(session.place.notebook)
    stale = stale_cells(session)
    if args.json:
        done = {"executed": report.executed, "failed": report.failed, "skipped": report.skipped}
        why = {each: report.causes[each] for each in report.skipped}
        told = {"causes": why, "errors": report.errors, "seconds": report.seconds}
        text.print_json({"event": "replay", **done, **told, "stale": _as_rows(stale)})
    else:
        _tell_replay(session, report)
        text.say(f"{text.count(len(stale), 'stale cell')}")
    return session, stale


def _tell_replay(session: Session, report: Report) -> None:
    shown = report.executed[:_SHOWN]
    failed = [each for each in report.failed if each not in shown]
    for cell_id in [*shown, *failed[:_SHOWN]]:
        word = "failed" if cell_id in report.failed else "ran"
        _say_of(session, cell_id, word, report.errors.get(cell_id, ""))
    if (more := len(report.executed) - len(shown) - len(failed[:_SHOWN])) > 0:
        text.say(f"and {more} more")
    for cell_id in report.skipped[:_SHOWN]:
        _say_of(session, cell_id, "skipped", "; ".join(report.causes[cell_id]))
    if len(report.skipped) > _SHOWN:
        text.say(f"and {len(report.skipped) - _SHOWN} more that were skipped")
    text.say(text.wrapped(outcome(report), 0, 2))
    causes = [cause for each in report.skipped for cause in report.causes[each]]
    if any("--allow-effects" in cause for cause in causes):
        # A watch never has that leave: nobody looks on while it runs things.
        allow = f"rlmnb replay {session.place.word} --allow-effects"
        text.note(f"to run what changes things outside the notebook: {allow}")


def _flush() -> None:
    import sys

    sys.stdout.flush()
