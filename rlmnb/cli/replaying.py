"""Commands that bring a session up to date: status, replay, invalidate."""

from __future__ import annotations

import os
from argparse import Namespace
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rlmnb import digest
from rlmnb.cli import text
from rlmnb.cli.following import because, numbered, outcome, parted, waits
from rlmnb.cli.meaning import selector_of
from rlmnb.cli.reading import judged, opened
from rlmnb.errors import CellNotFoundError, InvalidNameError, KernelError
from rlmnb.graph.freshness import begins
from rlmnb.replay.cells import code_cells, stale_cells
from rlmnb.replay.owning import running_cell
from rlmnb.replay.planning import Planned, asked_for, plan, plan_as_dict
from rlmnb.replay.report import Report
from rlmnb.replay.run import replay
from rlmnb.replay.wishes import Wishes
from rlmnb.session import Session
from rlmnb.store.sweep import remove_session
from rlmnb.views import same_file

if TYPE_CHECKING:
    from rlmnb.comparing.compare import Comparison
    from rlmnb.comparing.sides import Side

_SHOWN, _MARKS = 50, 20
_OF_PATHS = frozenset("./\\")
_MADE_AGAIN = "a later cell needs what it makes, and that is not stored"


def status(args: Namespace) -> int:
    """Say which cells hold and which do not, and why; nothing is run."""
    session = opened(args)
    cells = code_cells(session)
    stale = stale_cells(session, cells)
    fresh = [cell.cell_id for cell in cells if cell.cell_id not in stale]
    running = running_cell(session.place)
    if args.json:
        causes = [{"cell_id": cell_id, "causes": why} for cell_id, why in stale.items()]
        found: dict[str, Any] = {"fresh": fresh, "stale": causes}
        if seen := session.changes_seen():
            found["changed_files"] = seen
        if running is not None:
            found["running"] = running
        text.print_json(found)
        return 0
    _tell_stale(session, [Planned(cell_id, causes) for cell_id, causes in stale.items()])
    tell_changes(session)
    text.say(f"{len(fresh)} fresh, {len(stale)} stale")
    if running is not None:
        told = f"a replay is under way, at cell {session.cell(running).number} ({running})"
        text.note(text.wrapped(told, 0, 2))
    if not stale or running is not None:
        return 0
    hinders = Wishes().hinders
    hindered = any(cell.cell_id in stale and hinders(cell) for cell in cells) and not any(
        planned.would_run for planned in plan(session, Wishes())
    )
    word = session.place.word
    how = f"bring them up to date: rlmnb replay {word}"
    why = f"a replay would run none of them; why: rlmnb replay {word} --dry-run"
    text.note(text.wrapped(why if hindered else how, 0, 2))
    return 0


def tell_changes(session: Session) -> None:
    """Say which files were seen to change while the agent was at work, and when."""
    for path, change in session.changes_seen().items():
        event = {"add": "was made", "unlink": "was removed"}.get(str(change.get("event")))
        text.say(f"{path} {event or 'changed'} {text.ago(change.get('at'))}, seen by the client")


def _tell_stale(session: Session, stale: list[Planned]) -> None:
    shown, followers = parted(stale, _is_told)
    for planned in shown[:_SHOWN]:
        cell = session.cell(planned.cell_id)
        head = f"{cell.number:>4}  {cell.cell_id}  "
        text.say(text.painted(head, "stale"), text.cut(cell.entry["title"], len(head)))
        for cause in planned.causes:
            _say_below(6, because(cause))
        if planned.hindered:
            _say_below(6, f"not run: {planned.hindered}")
        elif planned.builds_on:
            _say_below(6, f"not run: it builds on {planned.builds_on}, which is not")
        elif planned.asks:
            _say_below(6, "may call a model")
        if planned.effects and planned.would_run:
            _say_below(6, f"changes things outside the notebook: {', '.join(planned.effects)}")
    if len(shown) > _SHOWN:
        text.say(f"and {len(shown) - _SHOWN} more; all of them with --json")
    if followers:
        ids = [each.cell_id for each in followers]
        _say_below(0, f"and because of these: {numbered(session, ids)}; all of them with --json")


def _is_told(planned: Planned) -> bool:
    """Tell whether a person has to see this cell, also among many."""
    return bool(planned.hindered or planned.effects) or begins(planned.causes)


def _say_below(indent: int, sentence: str) -> None:
    text.say(" " * indent, text.wrapped(sentence, indent, indent + 2))


def run_replay(args: Namespace) -> int:
    """Run the cells whose inputs changed, and reuse the rest."""
    session = opened(args)
    if args.edit and not args.on_fork:
        raise InvalidNameError(
            "--edit changes a fork, never the session itself",
            hint=f"run: rlmnb replay {session.place.word} --on-fork --edit CELL CODE",
        )
    before = _side(session, "before") if args.diff or args.on_fork else None
    if args.on_fork:
        _wishes(session, args, [])  # what is wrong with them is said of the session that was named
        session = _fork(session, args)
    ran: list[str] = []
    try:
        wishes = _wishes(session, args, ran)
        if args.check or args.dry_run:
            return _tell_plan(session, plan(session, wishes), args)
        if args.verify:
            return _verify(session, wishes, as_json=args.json)
    finally:
        if args.on_fork and (args.check or args.dry_run or args.verify):
            remove_session(session.place)  # it was made for the look alone
    try:
        report = _replayed(session, wishes, ran, as_json=args.json)
    except KernelError as error:
        if not args.json:
            raise
        shown = {"type": "KernelError", "message": error.message, "hint": error.hint}
        text.print_json({"kernel": "unavailable", "error": shown})
        return error.exit_code
    if args.json:
        found = report.as_dict()
        if before is not None:
            found |= {"session": session.id, "diff": _difference(session, before).as_dict()}
        text.print_json(found)
    else:
        _tell_report(session, report)
        if before is not None:
            _tell_difference(session, before)
    return 1 if report.failed else 0


def _replayed(session: Session, wishes: Wishes, ran: list[str], *, as_json: bool) -> Report:
    """Bring a session up to date; where that ends early, say what is not lost."""
    try:
        return replay(session, **vars(wishes))
    except (KernelError, KeyboardInterrupt):
        kept = f"{text.count(len(ran), 'cell')} ran, and {'is' if len(ran) == 1 else 'are'} kept"
        kept = kept if ran else "no cell has run to its end"
        if not as_json:
            text.note(text.wrapped(f"{kept}; go on with: rlmnb replay {session.place.word}", 0, 2))
        raise


def _note_no_match(session: Session, selector: str) -> None:
    text.note(f"no cell matches {selector}; see them with: rlmnb cells {session.place.word}")


def _wishes(session: Session, args: Namespace, ran: list[str]) -> Wishes:
    """Put together what was asked for: which cells, and how; `ran` grows with each that has run."""
    selector = selector_of(args)
    only: frozenset[str] | None = None
    chosen: list[str] | None = None
    if selector is not None:
        only, chosen = asked_for(session, selector)
        if not chosen:
            _note_no_match(session, selector)
    force = frozenset[str]()
    if args.force:
        named = {cell.cell_id for cell in code_cells(session)}
        force = frozenset(named if chosen is None else named.intersection(chosen))

    def tell(cell_id: str, number: int, state: str) -> None:
        if cell_id and state != "running":
            ran.append(cell_id)
        if not args.json and not cell_id:
            text.note(state)
        elif not args.json and state == "running":
            text.progress(f"{state} cell {number} of {len(session.cells)}  {cell_id}")

    return Wishes(
        force=force,
        only=only,
        allow_effects=args.allow_effects,
        fail_fast=args.fail_fast,
        timeout=args.timeout,
        memory=args.memory,
        keep_kernel=args.keep_kernel,
        calls="none" if args.verify else args.calls,
        calls_expire=args.calls_expire,
        over_budget=args.force and not args.within_budget,
        tell=tell,
    )


def _fork(session: Session, args: Namespace) -> Session:
    """Return a fork to try something on, with the edits that were asked for."""
    edits = {str(session.cell(cell).cell_id): str(code) for cell, code in args.edit}
    fork = session.fork(edits=edits, trial=True)
    looks = args.check or args.dry_run or args.verify
    word = "a fork that is gone again after this look" if looks else f"the fork {fork.id}"
    text.note(text.wrapped(f"on {word}; {session.place.name} stays as it is", 0, 2))
    return fork


def _tell_plan(session: Session, planned: list[Planned], args: Namespace) -> int:
    runs = [each for each in planned if each.would_run]
    hindered = [each for each in planned if each.hindered]
    following = [each for each in planned if each.builds_on]
    if args.json:
        text.print_json(plan_as_dict(planned))
    else:
        _tell_stale(session, planned)
        would = f"{text.count(len(runs), 'cell')} would run, or may once those above them have"
        _say_below(0, would if runs else "nothing would run")
        if hindered:
            them = "it" if len(hindered) == 1 else "them"
            also = f", nor {text.count(len(following), 'cell')} that build on {them}"
            also = also.replace("that build", "that builds") if len(following) == 1 else also
            would_not = f"{text.count(len(hindered), 'cell')} would not"
            _say_below(0, would_not + (also if following else ""))
    return 1 if args.check and planned else 0


def _calls_line(report: Report) -> str:
    """Say what model calls cost and what reuse has spared; nothing if there were none."""
    made, reused = report.calls.total_made(), report.calls.total_reused()
    if not made.calls and not reused.calls:
        return ""
    parts = [
        f"{text.count(each.calls, 'model call')} {word}, {each.tokens} tokens"
        + (f", {text.money(each.usd)}" if each.calls > each.unpriced else "")
        for word, each in (("made", made), ("saved", reused))
        if each.calls
    ]
    return "; ".join(parts)


def _tell_report(session: Session, report: Report) -> None:
    ran = {*report.executed}

    def alone(cell_id: str) -> bool:
        return cell_id in report.failed or begins(report.causes.get(cell_id, ()), ran)

    executed, followers = parted(report.executed, alone)
    failed = [each for each in report.failed if each not in executed[:_SHOWN]]
    for cell_id in [*executed[:_SHOWN], *failed[:_SHOWN]]:
        _tell_run(session, cell_id, "failed" if cell_id in report.failed else "ran", report)
    if (more := len(executed) - _SHOWN - len(failed[:_SHOWN])) > 0:
        text.say(f"and {more} more; all of them with --json")
    if followers:
        _say_below(0, f"and because of these: {numbered(session, followers)}")
    skipped, followers = parted(report.skipped, lambda each: not waits(report.causes[each]))
    for cell_id in skipped[:_SHOWN]:
        _tell_run(session, cell_id, "skipped", report)
    if len(skipped) > _SHOWN:
        text.say(f"and {len(skipped) - _SHOWN} more that were skipped")
    if followers:
        _say_below(0, f"skipped because of these: {numbered(session, followers)}")
    _say_below(0, outcome(report))
    if line := _calls_line(report):
        text.say(line)


def _tell_run(session: Session, cell_id: str, word: str, report: Report) -> None:
    cell = session.cell(cell_id)
    style = {"failed": "failed", "skipped": "stale"}.get(word, "fresh")
    head = f"{cell.number:>4}  {cell_id}  "
    title = text.cut(cell.entry["title"], 7 + len(head))
    text.say(text.painted(f"{word:<7}", style), head, title)
    for cause in report.causes.get(cell_id, [_MADE_AGAIN]):
        _say_below(8, because(cause))
    if cell_id in report.errors:
        _say_below(8, report.errors[cell_id])


def _side(session: Session, name: str) -> Side:
    """Return a session as it is now, judged as `status` judges it."""
    from rlmnb.comparing.sides import side_of

    return replace(side_of(judged(Session(session.place))), name=name)


def _difference(session: Session, before: Side) -> Comparison:
    from rlmnb.comparing.compare import compare

    session.refresh()
    return compare(before, _side(session, "after"))


def _tell_difference(session: Session, before: Side) -> None:
    from rlmnb.cli.judging import tell_comparison

    text.say("")
    tell_comparison(_difference(session, before))


def _verify(session: Session, wishes: Wishes, *, as_json: bool) -> int:
    """Tell whether all cells hold. Where they do not, none is run: a look changes nothing."""
    planned = plan(session, wishes)
    if planned:
        causes = {each.cell_id: each.causes for each in planned}
        holding = [
            cell.cell_id for cell in code_cells(session, wishes) if cell.cell_id not in causes
        ]
        report = Report(reused=holding, left=list(causes), causes=causes)
    else:
        report = replay(session, **vars(wishes))
    if as_json:
        text.print_json({**report.as_dict(), "verified": not planned})
    elif planned:
        _tell_stale(session, planned)
        text.say(f"nothing ran: {text.count(len(planned), 'cell')} would have to")
    else:
        asked = [each for each in report.reused if wishes.only is None or each in wishes.only]
        held = {0: "there is no cell", 1: "its one cell holds"}
        told = held.get(len(asked), f"all {len(asked)} cells hold")
        if wishes.only is not None:
            told = f"what was asked for holds, {text.count(len(asked), 'cell')}"
        text.say(f"nothing ran: {told}, no call was made")
        if line := _calls_line(report):
            text.say(line)
    return 1 if planned else 0


def invalidate(args: Namespace) -> int:
    """Mark cells as no longer valid, or take such marks back."""
    session = opened(args)
    asked = args.cell
    readers = _readers(session, asked)
    named = readers or _chosen(session, asked)
    if args.undo:
        changed = session.revalidate(",".join(readers) or asked)
    elif readers:
        changed = []
        for cell_id in readers:
            path, then = next(
                (path, version["hash"])
                for path, version in session.cell(cell_id).entry["files_read"].items()
                if same_file(path, asked)
            )
            now = digest.of_file(path)["hash"]
            why = args.reason or f"{path} is not to be relied on"
            changed += session.invalidate(cell_id, why, path=path, then=then, now=now)
    else:
        changed = session.invalidate(asked, args.reason or "marked by hand")
    stale = stale_cells(session)
    if args.json:
        causes = [{"cell_id": cell_id, "causes": why} for cell_id, why in stale.items()]
        text.print_json({"valid" if args.undo else "invalidated": changed, "stale": causes})
        return 0
    word = "valid again" if args.undo else "no longer valid"
    for cell_id in changed[:_MARKS]:
        head = f"{cell_id}  {word}  "
        text.say(head, text.cut(session.cell(cell_id).entry["title"], len(head)))
    if len(changed) > _MARKS:
        text.say(f"and {len(changed) - _MARKS} more; all of them with --json")
    if not named:
        _note_no_match(session, asked)
    elif not changed:
        state = "is marked" if args.undo else "can be marked: it is already, or has no result"
        text.note(f"no cell that {asked} names {state}")
    done = "no longer marked" if args.undo else "marked"
    _say_below(0, f"{len(changed)} {done}, {len(stale)} stale in all; outputs stay until a replay")
    return 0


def _readers(session: Session, asked: str) -> list[str]:
    """Return the cells that read a file, if it is one that this names."""
    if ":" in asked and not os.path.exists(asked):
        return []
    return [
        cell.cell_id
        for cell in session.cells
        if any(same_file(path, asked) for path in cell.entry.get("files_read", ()))
    ]


def _chosen(session: Session, asked: str) -> list[str]:
    """Return the cells that a selector names; what can be no name of a cell was meant as a file."""
    try:
        return [cell.cell_id for cell in session.select(asked)]
    except CellNotFoundError:
        if not _OF_PATHS.intersection(asked):
            raise
        raise CellNotFoundError(
            f"{session.place.name}: no cell has read {asked}",
            hint=f"list the files with: rlmnb files {session.place.word}",
        ) from None
