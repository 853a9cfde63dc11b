"""Commands that keep the house: verify, doctor, du, prune, rm, schema."""

from __future__ import annotations

import os
import sys
import time
from argparse import Namespace

from rlmnb import checking, doctor
from rlmnb.cli import text
from rlmnb.errors import RlmnbError
from rlmnb.store import archive, sessions, sweep
from rlmnb.store.layout import (
    Place,
    archive_of,
    looks_like_path,
    notebook_place,
    session_place,
    sessions_root,
)
from rlmnb.store.objects import Objects
from rlmnb.store.variables import Variables


def verify(args: Namespace) -> int:
    """Derive every hash again; exit 1 if anything is not what was recorded."""
    place = sessions.find(args.session)
    verdict = checking.verify(place)
    if args.json:
        text.print_json(
            {
                "session_id": place.session_id,
                "ok": not verdict.problems,
                "cells": verdict.cells,
                "hashes": verdict.hashes,
                "objects": verdict.objects,
                "problems": [problem.as_dict() for problem in verdict.problems],
            }
        )
        return 1 if verdict.problems else 0
    for problem in verdict.problems:
        text.say(text.painted(problem.kind, "error"), f"  {problem.where}: {problem.text}")
    checked = ", ".join(
        [
            text.count(verdict.cells, "cell"),
            f"{verdict.hashes} hashes",
            text.count(verdict.objects, "object"),
        ]
    )
    if verdict.problems:
        text.say(f"{text.count(len(verdict.problems), 'problem')} in {checked}")
        return 1
    text.say(text.painted("ok", "ok"), f"  {checked}; valid nbformat, index as rebuilt")
    return 0


def run_doctor(args: Namespace) -> int:
    """Look for what went wrong while nobody could be told; `--fix` repairs it."""
    if args.hooks:
        return _tell_hooks(args)
    if args.kernel:
        return _try_kernel(args)
    root = sessions_root()
    places = None if args.session is None else [sessions.find(args.session)]
    report = []
    for ailment in doctor.examine_all(root, places):
        row = {"where": ailment.where, "problem": ailment.text, "advice": ailment.advice}
        row["fixable"] = ailment.cure is not None  # type: ignore[assignment]
        if args.fix and ailment.cure is not None:
            try:
                row["fixed"] = ailment.cure()
            except RlmnbError as error:
                row["advice"] = f"could not be repaired: {error.message}"
        report.append(row)
        if not args.json:
            _tell(row)
    left = [row for row in report if not row.get("fixed")]
    if args.json:
        text.print_json({"ok": not left, "root": root, "problems": report})
    elif not report:
        looked_at = places[0].name if places else root
        text.say(text.painted("ok", "ok"), f"  nothing wrong in {looked_at}")
    elif left and not args.fix and any(row["fixable"] for row in left):
        target = f" {places[0].word}" if places else ""
        text.note(f"repair what can be repaired: rlmnb doctor --fix{target}")
    return 1 if left else 0


def _tell(row: dict[str, str | None]) -> None:
    text.say(text.painted(str(row["where"]), "bold"), f": {row['problem']}")
    if row.get("fixed"):
        text.say(f"  fixed: {row['fixed']}")
    elif row.get("advice"):
        text.say(f"  {row['advice']}")


def du(args: Namespace) -> int:
    """Show what takes disk space."""
    root = sessions_root()
    one = None if args.session is None else sessions.find(args.session)
    places = sessions.all_places(root) if one is None else [one]
    objects = Objects(os.path.join(root, "objects") if one is None else one.objects)
    rows, totals = sweep.usage(places, objects)
    rows.sort(key=lambda row: row.total, reverse=True)
    stored = Variables(objects.directory).sizes()
    totals["state"] = sum(size for size, _ in stored.values())
    archived = archive.all_archived(root) if one is None else []
    totals["archive"] = sum(each.size for each in archived)
    totals["archive_count"] = len(archived)
    if args.json:
        text.print_json(
            {
                "root": root,
                "sessions": [
                    {
                        "session_id": row.session_id,
                        "notebook": row.notebook,
                        "journal": row.journal,
                        "other": row.other,
                        "total": row.total,
                        "objects": row.objects,
                        "shared_objects": row.shared_objects,
                    }
                    for row in rows
                ],
                **totals,
            }
        )
        return 0
    text.table(
        ("total", "notebook", "journal", "objects", "session"),
        [
            (
                text.size(row.total),
                text.size(row.notebook),
                text.size(row.journal),
                text.size(row.objects),
                row.session_id,
            )
            for row in rows
        ],
        grow="session",
    )
    if not args.session:
        unused = text.size(totals["unused_objects"])
        whole = sum(row.total for row in rows) + sum(
            totals[key] for key in ("objects", "state", "archive")
        )
        text.note(
            f"{text.size(whole)} in all: {text.count(len(rows), 'session')}, "
            f"{text.count(totals['object_count'], 'object')} of {text.size(totals['objects'])} "
            f"({unused} unused)"
        )
        if totals["state"]:
            text.note(f"{text.size(totals['state'])} of that are variables, kept for replay")
        if archived:
            kept = text.count(len(archived), "archived session")
            text.note(f"{text.size(totals['archive'])} of that is {kept}")
    return 0


def prune(args: Namespace) -> int:
    """Remove what no session names, and sessions older than asked; dry unless --yes."""
    root = sessions_root()
    old = sessions.older_than(args.older_than, root) if args.older_than is not None else []
    gone = {place.session_id for place in old}
    target = None if args.session is None else sessions.find(args.session)
    if target is not None and not target.plain:
        target = None  # sessions share their objects, so it is all of them or none
    kept = [place for place in sessions.all_places(root) if place.session_id not in gone]
    kept = neighbours(target) if target is not None else kept
    store = target.objects if target is not None else os.path.join(root, "objects")
    objects, variables = Objects(store), Variables(store)
    began = time.time()
    unused = sweep.unused_objects(kept, objects)
    state = sweep.unused_state(
        [path for place in kept for path in (place.notebook, place.by_hand)], variables
    )
    freed = sum(unused.values()) + sum(state.values())
    if args.yes:
        for place in old:
            sweep.remove_session(place)
        if unused:
            objects.drop(unused, older_than=began)
        if state:
            variables.drop(state, older_than=began)
    if args.json:
        text.print_json(
            {
                "dry_run": not args.yes,
                "objects": sorted(unused),
                "state": sorted(state),
                "bytes": freed,
                "sessions": sorted(gone),
            }
        )
        return 0
    verb = "removed" if args.yes else "would remove"
    for place in old:
        text.say(f"{verb} session {place.session_id}")
    stale = text.count(len(state), "stored variable")
    text.say(f"{verb} {text.count(len(unused), 'object')} and {stale}, {text.size(freed)}")
    if not args.yes and (unused or old or state):
        text.note("nothing was touched; to do it: add --yes")
    return 0


def neighbours(place: Place) -> list[Place]:
    """Return every notebook that shares a store with this one: those in its directory."""
    directory = os.path.dirname(place.notebook)
    return [
        notebook_place(os.path.join(directory, name))
        for name in sorted(os.listdir(directory))
        if name.endswith(".ipynb")
    ]


def remove(args: Namespace) -> int:
    """Remove one session for good, wherever it is kept."""
    if _only_archived(args.session):
        return _remove_archived(args)
    place = sessions.find(args.session)
    if not place.plain and args.session not in (place.session_id, "current"):
        raise RlmnbError(
            f"{args.session!r} is only the beginning of a session's id, {place.session_id}",
            hint=f"what is gone is gone, so give all of it: rlmnb rm {place.session_id}",
        )
    files = sweep.files_below(place.directory)
    total = sum(os.stat(path).st_size for path in files)
    what = (
        f"session {place.session_id}" if not place.plain else f"what is kept for {place.notebook}"
    )
    shown = f"{what}: {text.count(len(files), 'file')}, {text.size(total)}"
    if not _agreed(args, shown):
        return 1
    sweep.remove_session(place)
    if args.json:
        text.print_json({"removed": place.session_id, "bytes": total})
    else:
        text.say(f"removed {shown}")
        text.note("objects that only it named go with: rlmnb prune")
    return 0


def _agreed(args: Namespace, shown: str) -> bool:
    """Ask before what cannot be undone; a script has to say --yes."""
    if args.yes:
        return True
    if args.json or not sys.stdin.isatty():
        raise RlmnbError(f"this would remove {shown}", hint="to do it: add --yes")
    text.say(f"this removes {shown}")
    if input("type yes to go on: ").strip() == "yes":
        return True
    text.say("nothing was touched")
    return False


def _only_archived(target: str) -> bool:
    root = sessions_root()
    if looks_like_path(target) or target == "current" or session_place(target, root).exists():
        return False
    return os.path.isfile(archive_of(target, root))


def _remove_archived(args: Namespace) -> int:
    size = os.stat(archive_of(args.session, sessions_root())).st_size
    shown = f"archived session {args.session}: {text.size(size)}"
    if not _agreed(args, shown):
        return 1
    archive.drop(sessions_root(), args.session)
    if args.json:
        text.print_json({"removed": args.session, "bytes": size})
    else:
        text.say(f"removed {shown}")
    return 0


def schema(_: Namespace) -> int:
    """Print the JSON Schema of a session notebook."""
    from rlmnb.format.schema import text as schema_text

    sys.stdout.write(schema_text())
    return 0


def _tell_hooks(args: Namespace) -> int:
    from rlmnb.cli.hooking import hook_figures, tell_figures

    figures = hook_figures()
    if args.json:
        text.print_json(figures)
    else:
        tell_figures()
    return 1 if figures["failures"] else 0


def _try_kernel(args: Namespace) -> int:
    """Start a kernel for a notebook of one cell, as a replay would."""
    import tempfile

    from rlmnb.replay.run import replay
    from rlmnb.session import Session

    # A kernel that is still ending may write a last time.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        path = os.path.join(directory, "trial.ipynb")
        session = Session.open(_trial(path))
        try:
            report = replay(session)
        except RlmnbError as error:
            if args.json:
                text.print_json({"ok": False, "python": sys.executable, "error": error.message})
            else:
                text.say(text.painted("failed", "failed"), f"  {sys.executable}: {error.message}")
                text.note(f"  {error.hint}")
            return 1
    if args.json:
        text.print_json({"ok": True, "python": sys.executable, "seconds": report.seconds})
    else:
        seconds = f"{report.seconds:.2f} s"
        text.say(text.painted("ok", "ok"), f"  {sys.executable} ran a cell in {seconds}")
    return 0


def _trial(path: str) -> str:
    import nbformat

    cells = [nbformat.v4.new_code_cell("print(1 + 1)")]  # type: ignore[no-untyped-call]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)  # type: ignore[no-untyped-call]
    return path
