"""The commands that take care of the disk, and their options."""

from __future__ import annotations

from rlmnb.cli.arguments.common import (
    SESSION,
    Commands,
    days,
    session,
)


def add_keeping(commands: Commands) -> None:
    """Add what takes care of the disk."""
    add = commands.add
    session(
        add(
            "verify",
            "keeping:verify",
            "derive every hash again, validate, compare the index with a rebuild",
            "rlmnb verify demo && echo unchanged",
        )
    )
    parser = add("doctor", "keeping:run_doctor", "find what went wrong", "rlmnb doctor --fix")
    session(parser, without="all sessions")
    parser.add_argument("--fix", action="store_true", help="repair what can be repaired")
    parser.add_argument(
        "--hooks", action="store_true", help="how long hooks have taken, and what went wrong"
    )
    parser.add_argument(
        "--kernel",
        action="store_true",
        help="start a kernel, run a cell in it, and say how it went",
    )
    parser = add(
        "recover",
        "keeping:run_doctor",
        "bring back what a crash, a full disk or a broken notebook left behind: doctor --fix",
        "rlmnb recover fix-login",
    )
    session(parser, without="all sessions")
    parser.set_defaults(fix=True, hooks=False, kernel=False)
    parser = add(
        "scrub",
        "scrubbing:scrub",
        "find secrets in what was written before, and with --yes take them out",
        "rlmnb scrub demo\n  rlmnb scrub --all --yes\n"
        "\nexit code 1: something was found and left as it is",
    )
    parser.add_argument("session", nargs="?", metavar="SESSION", help=SESSION)
    parser.add_argument("--all", action="store_true", help="every session, archived ones too")
    parser.add_argument(
        "--entropy", action="store_true", help="what only looks random too; takes some ids with it"
    )
    parser.add_argument("--yes", action="store_true", help="do it; without this, only say")
    parser = add("du", "keeping:du", "show what takes disk space", "rlmnb du")
    session(parser, without="all sessions")
    parser = add(
        "prune",
        "keeping:prune",
        "show what nothing needs, and with --yes remove it",
        "rlmnb prune --older-than 90 --yes",
    )
    session(parser, without="all sessions")
    parser.add_argument("--older-than", type=days, metavar="DAYS", help="sessions too, if this old")
    parser.add_argument("--yes", action="store_true", help="do it; without this, only say")
    parser = add(
        "archive",
        "archiving:put_away",
        "put a session away as one zip file with its manifest, and free its space",
        "rlmnb archive --older-than 30 --yes",
    )
    parser.add_argument("session", nargs="?", metavar="SESSION", help=SESSION)
    parser.add_argument(
        "--older-than", type=days, metavar="DAYS", help="every session that is this old instead"
    )
    parser.add_argument("--yes", action="store_true", help="with --older-than: do it, do not ask")
    parser.add_argument("--force", action="store_true", help="also one whose agent still runs")
    parser = add(
        "restore",
        "archiving:bring_back",
        "bring an archived session back, or a kernel to where it was after a cell",
        "rlmnb restore 2716cb5d\n  rlmnb restore demo --at 7    # the variables after cell 7",
    )
    parser.add_argument(
        "session",
        nargs="?",
        metavar="SESSION",
        help="an archived session's id or its beginning, or a zip; with --at, any session",
    )
    parser.add_argument(
        "--at",
        metavar="CELL",
        help="bring the session's kernel to its variables after this cell; nothing is run that "
        "can be restored",
    )
    parser = add("rm", "keeping:remove", "remove one session for good", "rlmnb rm demo --yes")
    parser.add_argument("session", metavar="SESSION", help=SESSION)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add(
        "schema",
        "keeping:schema",
        "print the JSON Schema of a session notebook",
        "rlmnb schema > rlmnb.schema.json",
    )
