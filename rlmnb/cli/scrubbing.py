"""The command that takes secrets out of what was written before."""

from __future__ import annotations

import os
from argparse import Namespace
from dataclasses import asdict

from rlmnb.capture.redaction import clean_text
from rlmnb.cli import text
from rlmnb.errors import InvalidNameError, RlmnbError
from rlmnb.files import read_bytes, write_atomic
from rlmnb.scrubbing import Found, Scrub, look_into_archive
from rlmnb.store import archive, sessions
from rlmnb.store.layout import Place, sessions_root


def scrub(args: Namespace) -> int:
    """Find secrets in sessions, and with --yes take them out."""
    if args.all and args.session:
        raise InvalidNameError(f"wanted --all or a session, found both --all and {args.session}")
    root = sessions_root()
    places = sessions.all_places(root) if args.all else [sessions.find(args.session)]
    work = Scrub(places, entropy=args.entropy)
    found = list(work.do() if args.yes else work.look())
    if args.all:
        found += _archives(root, entropy=args.entropy, do=args.yes)
        found += _logs(root, entropy=args.entropy, do=args.yes)
    if args.json:
        shown = [asdict(each) for each in found]
        text.print_json({"found": shown, "done": bool(args.yes), "sessions": len(places)})
    else:
        _tell(found, places, done=args.yes)
    return 1 if found and not args.yes else 0


def _tell(found: list[Found], places: list[Place], *, done: bool) -> None:
    if not found:
        text.say(f"no secrets in {text.count(len(places), 'session')}")
        return
    text.table(
        ("session", "kind", "times", "where"),
        [(each.session_id, each.kind, each.count, each.where) for each in found],
        grow="where",
    )
    if done:
        text.say("taken out; a kernel that runs may still hold some: rlmnb kernel list")
    else:
        text.note("nothing was changed; to take them out: add --yes")


def _archives(root: str, *, entropy: bool, do: bool) -> list[Found]:
    """Look into what was put away; to change it, bring it back and put it away again."""
    found: list[Found] = []
    for archived in archive.all_archived(root):
        try:
            here = look_into_archive(archived, entropy=entropy)
            found += here
            if here and do:
                place = archive.bring_back(root, archived.session_id)
                Scrub([place], entropy=entropy).do()
                archive.put_away(place)
        except (OSError, RlmnbError) as error:
            text.note(f"note: {archived.path} was left as it is: {error}")
    return found


def _logs(root: str, *, entropy: bool, do: bool) -> list[Found]:
    """Look into what hooks said of their failures."""
    path = os.path.join(root, ".hooks", "failures")
    try:
        before = read_bytes(path).decode("utf-8", "surrogateescape")
    except (OSError, RlmnbError):
        return []
    after = clean_text(before, entropy=entropy)
    if after == before:
        return []
    if do:
        write_atomic(path, after.encode("utf-8", "surrogateescape"))
    return [Found("-", ".hooks/failures", "secret", 1)]
