"""Commands that judge: diff holds two sessions against each other, lint one against good habits."""

from __future__ import annotations

import os
import shlex
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from rlmnb.cli import differences, fitting, text
from rlmnb.cli.reading import judged, opened
from rlmnb.comparing.compare import CellDifference, Comparison, compare
from rlmnb.comparing.sides import side_of
from rlmnb.errors import CellNotFoundError, RlmnbError, SessionNotFoundError
from rlmnb.graph.linting import RULES, Remark, Subject, remarks_on
from rlmnb.graph.runs import run_of
from rlmnb.ids import check_session_id
from rlmnb.session import Session
from rlmnb.store import sessions

_SHOWN = 10


def diff(args: Namespace) -> int:
    """Show what two sessions have not in common; 1 if there is anything."""
    a, b = _both(args)
    comparison = compare(*(replace(side_of(judged(each)), name=_name(each)) for each in (a, b)))
    if args.cell is not None:
        comparison = replace(comparison, cells=_only(comparison, a, b, args.cell))
        differs = any(each.kind != "same" for each in comparison.cells)
    else:
        differs = not comparison.equal
    if args.json:
        found = comparison.as_dict()
        text.print_json({"cells": found["cells"]} if args.cell is not None else found)
    elif args.cell is not None:
        _show_cell(comparison, full=args.full, stat=args.stat)
    else:
        tell_comparison(comparison, full=args.full, stat=args.stat)
    return 1 if differs else 0


def _name(session: Session) -> str:
    """Return what to type to mean a session, as short as it can be from here."""
    name = session.place.name
    return os.path.relpath(name) if name.startswith(os.getcwd() + os.sep) else name


def _both(args: Namespace) -> tuple[Session, Session]:
    first = opened(Namespace(session=args.a))
    if args.b is not None:
        return first, opened(Namespace(session=args.b))
    fork = sessions.section(first.stored_state()).get("forked_from")
    fork = fork if isinstance(fork, dict) else {}
    origin = fork.get("session_id")
    if not isinstance(origin, str):
        raise RlmnbError(
            f"{first.place.name} is no fork, so there is nothing to compare it with",
            hint=f"name the other: rlmnb diff {first.place.word} OTHER",
        )
    # A notebook's word must not make us open just any path.
    check_session_id(origin)
    if isinstance(path := fork.get("notebook"), str):
        raise RlmnbError(
            f"{first.place.name} was forked from {path}, which is no session",
            hint=f"if that is what you want: rlmnb diff {shlex.quote(path)} {first.place.word}",
        )
    try:
        return opened(Namespace(session=origin)), first
    except SessionNotFoundError as error:
        raise SessionNotFoundError(
            f"{first.place.name} was forked from {origin}, which is not there: {error.message}",
            hint=error.hint or f"name the other: rlmnb diff OTHER {first.place.word}",
        ) from None


def _only(
    comparison: Comparison, a: Session, b: Session, wanted: str
) -> tuple[CellDifference, ...]:
    """Return the one cell that is meant: by its id on either side, or its number on the first."""
    try:
        found, in_first = a.cell(wanted).cell_id, True
    except CellNotFoundError:
        found, in_first = b.cell(wanted).cell_id, False
    return tuple(
        each
        for each in comparison.cells
        if (cell := each.a if in_first else each.b) is not None and cell.cell_id == found
    )


def _show_cell(comparison: Comparison, *, full: bool, stat: bool) -> None:
    if stat:
        differences.list_cells(comparison.cells)
    else:
        differences.show_cells(comparison.cells, full=full)
    for each in comparison.cells:
        if each.kind == "same" and each.b is not None:
            same = f"cell {each.b.number} {each.b.cell_id} is the same"
            text.say(fitting.broken(same, 0, 2))


def tell_comparison(comparison: Comparison, *, full: bool = False, stat: bool = False) -> None:
    """Show how two sides differ, as much of it as is wanted."""
    if comparison.equal:
        same = f"{comparison.a.name} and {comparison.b.name} are the same"
        text.say(fitting.broken(same, 0, 2))
        differences.show_summary(comparison)
        return
    differences.show_sides(comparison)
    if stat:
        text.say()
        differences.list_cells(comparison.cells)
    else:
        differences.show_cells(comparison.cells, full=full)
        differences.show_names("variables at the end", comparison.variables, comparison)
        differences.show_names("hidden state at the end", comparison.hidden, comparison)
        differences.show_names("working memory", comparison.memory, comparison)
        differences.show_files(comparison)
        differences.show_spending(comparison)
        differences.show_stale(comparison)
    differences.show_summary(comparison)


def lint(args: Namespace) -> int:
    """Point out what makes a session hard to follow and to replay; 1 if there is anything."""
    for rule in (*args.only, *args.ignore):
        if rule not in RULES:
            raise RlmnbError(f"there is no rule {rule!r}", hint=f"there are: {', '.join(RULES)}")
    session = opened(args)
    wanted = [rule for rule in RULES if rule in (args.only or RULES) and rule not in args.ignore]
    found = [each for each in remarks_on(subjects_of(session)) if each.rule in wanted]
    if args.json:
        text.print_json([each.as_dict() for each in found])
    else:
        _tell(session, found, all_of_them=bool(args.only))
    return 1 if found else 0


def subjects_of(session: Session) -> list[Subject]:
    """Return the cells of a session as the rules look at them."""
    found = []
    for cell in session.cells:
        raw = cell.raw
        metadata = raw.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        tags = metadata.get("tags")
        found.append(
            Subject(
                cell.entry,
                cell.source,
                run=None if "copy_of" in cell.entry else run_of(metadata.get("rlmnb")),
                shows=bool(raw.get("outputs")),
                tags=frozenset(
                    tag for tag in (tags if isinstance(tags, list) else ()) if isinstance(tag, str)
                ),
            )
        )
    return found


def _tell(session: Session, found: Sequence[Remark], *, all_of_them: bool) -> None:
    if not found:
        text.say(f"nothing to say about {text.count(len(session.cells), 'cell')}")
        return
    counts = Counter(each.rule for each in found)
    for rule, number in counts.items():
        text.say(text.painted(rule, "bold"), f"  {RULES[rule]}")
        shown = [each for each in found if each.rule == rule]
        for each in shown if all_of_them else shown[:_SHOWN]:
            head = f"  {each.number:>4}  {each.cell_id}  "
            text.say(text.painted(head, "stale"), text.wrapped(each.message, len(head), 8))
            text.say(text.painted(f"        {text.wrapped(each.advice, 8, 8)}", "dim"))
        if number > _SHOWN and not all_of_them:
            text.say(f"  … {number - _SHOWN} more: rlmnb lint {session.place.word} --only {rule}")
        text.say()
    cells = len({each.cell_id for each in found})
    text.say(f"{text.count(len(found), 'remark')} on {text.count(cells, 'cell')}")
