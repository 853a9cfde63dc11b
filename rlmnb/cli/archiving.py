"""Commands that put sessions away and bring them back: archive, restore."""

from __future__ import annotations

from argparse import Namespace

from rlmnb.cli import text
from rlmnb.cli.meaning import hinted
from rlmnb.errors import CellNotFoundError, InvalidNameError, RlmnbError, SessionNotFoundError
from rlmnb.session import Session
from rlmnb.store import archive, sessions
from rlmnb.store.layout import Place, sessions_root


def put_away(args: Namespace) -> int:
    """Archive one session, or every one that is old enough; the latter dry unless --yes."""
    if (args.session is None) == (args.older_than is None):
        raise RlmnbError(
            "name the session to archive, or say --older-than DAYS",
            hint="see which there are with: rlmnb sessions",
        )
    if args.session is not None:
        place = sessions.find(args.session)
        _refuse(place, force=args.force)
        return _report([_archive(place)], args)
    root = sessions_root()
    old = sessions.older_than(args.older_than, root)
    old = [place for place in old if args.force or not sessions.is_running(place)]
    if args.yes:
        return _report([_archive(place) for place in old], args)
    if args.json:
        text.print_json({"dry_run": True, "sessions": [place.session_id for place in old]})
        return 0
    for place in old:
        text.say(f"would archive session {place.session_id}")
    text.note("nothing was touched; to do it: add --yes" if old else "no session is that old")
    return 0


def _refuse(place: Place, *, force: bool) -> None:
    if place.plain:
        raise RlmnbError(
            f"{place.notebook}: is a notebook of your own and stays where it is",
            hint="to keep a copy as a session first: rlmnb fork " + place.notebook,
        )
    if not force and sessions.is_running(place):
        raise RlmnbError(
            f"session {place.session_id} belongs to an agent that is still running",
            hint="end it first (rlmnb set --end), or add --force",
        )


def _archive(place: Place) -> archive.Archived:
    Session(place)  # takes in what waits in the journal, and brings the index up to date
    return archive.put_away(place)


def _report(done: list[archive.Archived], args: Namespace) -> int:
    if args.json:
        rows = [
            {"session_id": each.session_id, "path": each.path, "bytes": each.size} for each in done
        ]
        text.print_json({"dry_run": False, "archived": rows})
        return 0
    for each in done:
        text.say(f"archived {each.session_id}: {text.size(each.size)} in {each.path}")
    if done:
        text.note(f"bring one back with: rlmnb restore {done[0].session_id}")
    return 0


def bring_back(args: Namespace) -> int:
    """Bring an archived session back to where it was, or a kernel to where it was."""
    if args.at is not None:
        return _bring_kernel_back(args)
    if args.session is None:
        raise InvalidNameError(
            "restore wants an archived session, or a cell to bring the kernel back to",
            hint="list them: rlmnb sessions --archived; or run: rlmnb restore SESSION --at CELL",
        )
    try:
        place = archive.bring_back(sessions_root(), args.session)
    except (SessionNotFoundError, InvalidNameError):
        if (there := _there(args.session)) is None:
            raise
        raise InvalidNameError(
            f"{there.name} is not archived, so there is no session to bring back",
            hint=f"to bring its kernel to where it was after a cell: "
            f"rlmnb restore {there.word} --at CELL",
        ) from None
    if args.json:
        text.print_json({"session_id": place.session_id, "path": place.notebook})
    else:
        text.say(place.session_id)
        text.note(f"restored to {place.notebook}")
    return 0


def _bring_kernel_back(args: Namespace) -> int:
    from rlmnb.cli.running import restore_at

    try:
        return restore_at(args)
    except CellNotFoundError as error:
        further = f"name one further down: rlmnb cells {sessions.find(args.session).word}"
        raise hinted(error, error.hint or further) from None


def _there(target: str) -> Place | None:
    """Return the session or notebook that is meant, if it is not archived."""
    try:
        return sessions.find(target)
    except RlmnbError:
        return None
