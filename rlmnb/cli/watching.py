"""The command that stays: watch a session, say what becomes stale, replay it if asked to."""

from __future__ import annotations

import os
from argparse import Namespace
from dataclasses import dataclass, field

from rlmnb.cli import text
from rlmnb.cli.following import numbered, parted
from rlmnb.cli.reading import opened
from rlmnb.errors import RlmnbError
from rlmnb.graph.freshness import begins
from rlmnb.replay.cells import stale_cells
from rlmnb.replay.watching import changes, grounds
from rlmnb.session import Session

# Of each kind, as many cells as a person reads while things change.
_SHOWN = 20


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
            except RlmnbError as error:
                # Half of an edit, a notebook that is being saved: the next change will tell.
                text.note(f"rlmnb: {error.message}")
            if not os.path.exists(target):
                text.note(f"{target} is gone")
                return 3
    except KeyboardInterrupt:
        pass
    return 0


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
            causes = [{"cell_id": each, "causes": why} for each, why in stale.items()]
            text.print_json({"event": "stale", "stale": causes, "fresh_again": gone})
    else:
        _tell(session, new, gone, len(stale), first=first)
    now = grounds(session)
    # Our own replay changes the notebook, too: what it could not do is not tried for ever.
    if args.replay and stale and not (seen and seen.holds(stale, now)):
        after = _replay(session, args)
        # Of what a cell has come to read meanwhile, only the version of now is known.
        seen = _Seen(stale_cells(after), {**grounds(after), **now})
    else:
        seen = _Seen(stale, seen.grounds if seen else {})
    _flush()
    return seen


def _tell(
    session: Session, new: dict[str, list[str]], gone: list[str], count: int, *, first: bool
) -> None:
    shown, followers = parted(list(new), lambda each: begins(new[each]))
    for cell_id in shown[:_SHOWN]:
        head = f"{session.cell(cell_id).number:>4}  {cell_id}  "
        told = text.cut("; ".join(new[cell_id]), 6 + len(head))
        text.say(text.painted("stale ", "stale"), head, told)
    if len(shown) > _SHOWN:
        text.say(f"and {len(shown) - _SHOWN} more")
    if followers:
        text.say(text.wrapped(f"and because of these: {numbered(session, followers)}", 0, 2))
    for cell_id in gone[:_SHOWN]:
        text.say(text.painted("fresh ", "fresh"), f"      {cell_id}")
    if len(gone) > _SHOWN:
        text.say(f"and {len(gone) - _SHOWN} more that hold again")
    if new or gone or first:
        text.say(f"{text.count(count, 'stale cell')}")


def _replay(session: Session, args: Namespace) -> Session:
    """Bring a session up to date, and return it as it is then."""
    from rlmnb.replay.run import replay

    report = replay(session, keep_kernel=True, allow_effects=False)
    session = Session.open(session.place.notebook)
    if args.json:
        done = {"executed": report.executed, "failed": report.failed, "skipped": report.skipped}
        text.print_json({"event": "replay", **done, "seconds": report.seconds})
    else:
        shown = report.executed[:_SHOWN]
        failed = [each for each in report.failed if each not in shown]
        for cell_id in [*shown, *failed[:_SHOWN]]:
            word = "failed" if cell_id in report.failed else "ran"
            head = f"{session.cell(cell_id).number:>4}  {cell_id}  "
            text.say(text.painted(f"{word:<6}", "failed" if word == "failed" else "fresh"),
                     head, text.cut(report.errors.get(cell_id, ""), 6 + len(head)))  # fmt: skip
        text.say(f"{len(report.executed)} ran, {len(report.reused)} reused; "
                 f"{report.seconds:.2f} s, kernel {report.kernel}")  # fmt: skip
    return session


def _flush() -> None:
    import sys

    sys.stdout.flush()
