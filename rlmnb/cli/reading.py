"""Commands that look: sessions, show, cells, cell, chain, files, stats."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rlmnb.cli import asked, text
from rlmnb.cli.following import because, numbered, parted
from rlmnb.cli.meaning import selector_of, session_of
from rlmnb.errors import SchemaError
from rlmnb.graph.freshness import begins
from rlmnb.ids import CellId
from rlmnb.picture.wording import named, reasons_in
from rlmnb.replay.owning import running_cell
from rlmnb.session import Session
from rlmnb.store import archive, project, sessions
from rlmnb.store.layout import sessions_root
from rlmnb.views import Cell, seen_text, whole_output

if TYPE_CHECKING:
    from rlmnb.format.record import CellRecord

_STORY = ("markdown", "raw")
# In a terminal, as many cells of a chain as a person reads.
_NEAREST = 40


def opened(args: Namespace) -> Session:
    """Open the session that is meant, and say what was found of other people's edits."""
    session = session_of(args)
    for finding in session.findings[:20]:
        text.note(f"note: {finding.cell_id} {finding.text}")
    if len(session.findings) > 20:
        text.note(f"note: and {len(session.findings) - 20} more changes made outside rlmnb")
    return session


def judged(session: Session) -> Session:
    """Return a session that says of its cells what a replay would, where any of them was run.

    One that was only recorded is judged by its index alone, which takes no parsing.
    """
    if session.index.get("traced"):
        from rlmnb.replay.cells import stale_cells

        session.judge(stale_cells(session))
    if running := running_cell(session.place):
        session.judge(session.stale)
        session.show_running(running)
    return session


def list_sessions(args: Namespace) -> int:
    """List sessions, the one updated last first."""
    if args.archived:
        return _list_archived(args)
    here = project.describe(".")["project"] if args.here else None
    rows = [
        sessions.described(place, state)
        for place, state in sessions.newest_first(sessions.all_places(sessions_root()))
        if (not args.active or sessions.is_active(state))
        and (here is None or sessions.section(state).get("project") == here)
        and (not args.tag or args.tag in sessions.tags_of(sessions.section(state)))
    ]
    if args.json:
        text.print_json(rows)
    elif not rows and (args.active or args.here or args.tag):
        text.note(f"no session in {sessions_root()} matches; all of them: rlmnb sessions")
    elif not rows:
        text.note(f"no sessions in {sessions_root()}")
        text.note("begin one: rlmnb append my-session --source 'x = 1'")
        if archive.all_archived(sessions_root()):
            text.note("some are archived: rlmnb sessions --archived")
    else:
        names = shortened([row["id"] for row in rows]) if sys.stdout.isatty() else {}
        text.table(
            ("session", "updated", "state", "project", "title"),
            [
                (
                    names.get(row["id"], row["id"]),
                    text.ago(row["updated_at"]),
                    "active" if row["active"] else "ended",
                    _project_directory(row["project"]).rsplit("/", 1)[-1],
                    row["title"] or "",
                )
                for row in rows
            ],
            grow="title",
        )
    return 0


def _list_archived(args: Namespace) -> int:
    here = project.describe(".")["project"] if args.here else None
    rows = [
        {
            **sessions.about(each.session_id, sessions.section(each.manifest)),
            "archived_at": each.manifest.get("archived_at"),
            "cells": each.manifest.get("cells"),
            "files": each.manifest.get("files"),
            "bytes": each.size,
            "path": each.path,
        }
        for each in archive.all_archived(sessions_root())
    ]
    rows = [
        row
        for row in rows
        if (here is None or row["project"] == here) and (not args.tag or args.tag in row["tags"])
    ]
    if args.json:
        text.print_json(rows)
    elif not rows:
        text.note(
            f"no archived session in {sessions_root()}{' matches' * (args.here or bool(args.tag))}"
        )
    else:
        text.table(
            ("session", "archived", "cells", "size", "title"),
            [
                (
                    row["id"],
                    text.ago(row["archived_at"]),
                    str(row["cells"] if row["cells"] is not None else "-"),
                    text.size(row["bytes"]),
                    row["title"] or "",
                )
                for row in rows
            ],
            grow="title",
        )
    return 0


def shortened(ids: list[str]) -> dict[str, str]:
    """Return the beginning of each id that names only it: the whole one unless it is long."""
    found = {}
    for each in ids:
        length = 8 if len(each) > 20 else len(each)
        while length < len(each) and sum(other.startswith(each[:length]) for other in ids) > 1:
            length += 1
        found[each] = each[:length]
    return found


def _project_directory(path: str | None) -> str:
    return (path or "-").removesuffix("/.git")


def show(args: Namespace) -> int:
    """Show one session: what it is, and how its cells stand."""
    session = judged(opened(args))
    state = session.view()
    if args.json:
        text.print_json({**state, "cells": {**state["cells"], "stale": len(session.stale)}})
        return 0
    about = state["session"]
    text.say(text.painted(about["title"] or f"session {session.id}", "bold"))
    lines = {
        "id": session.id,
        "notebook": session.path,
        "project": _project_directory(about["project"]),
        "branch": about["branch"],
        "goal": text.first_line(about["original_goal"]),
        "now at": text.first_line(about["goal"] if about["goal"] != about["title"] else None),
        "about": ", ".join(about["keywords"]),
        "recursion": _activation_line(state["activation"]),
        "begun": text.ago(about["created_at"]),
        "updated": text.ago(about["updated_at"]),
        "ended": text.ago(about["ended_at"]) if about["ended_at"] else None,
        "forked from": _origin(about),
        "tags": ", ".join(about["tags"]),
        "transcript": session.transcript_path,
        "at hand": ", ".join(state["context"]["working_memory"]),
        "cells": _cells_line(session),
        "files": len(state["context"]["files"]) or None,
        "tokens": state["budget"]["total_tokens_used"] or None,
        "cost": _cost_line(state["budget"]),
        "calls": _calls_line(state),
    }
    for label, value in lines.items():
        # A path that is broken is none.
        tell = text.labelled if label in ("notebook", "project", "transcript") else text.described
        if value:
            tell(label, str(value), 12)
    if session.stale:
        text.say(f"\nsee what is stale and why: rlmnb cells {session.place.word} --status stale")
    return 0


def _origin(about: Mapping[str, Any]) -> str | None:
    origin = about["forked_from"] or {}
    if not origin:
        return about["parent_session_id"] and str(about["parent_session_id"])
    cell = origin.get("cell_id")
    return f"{origin['session_id']}{f' after {cell}' if cell else ''}"


def _activation_line(activation: Mapping[str, Any]) -> str | None:
    """Say whether recursive work is on for the last prompt, and why."""
    if activation["complexity_score"] is None and not activation["activation_reason"]:
        return None
    word = "on" if activation["rlm_active"] else "off"
    score = activation["complexity_score"]
    shown = f", complexity {score:.2f}" if score is not None else ""
    reason = activation["activation_reason"]
    return f"{word} ({activation['activation_mode']}{shown})" + (f": {reason}" if reason else "")


def _cost_line(budget: dict[str, Any]) -> str | None:
    """Say what the agent's own use cost, as far as prices are known."""
    if not budget["by_model"]:
        return None
    if budget["cost_usd"] is not None:
        return f"${budget['cost_usd']:.2f}"
    costs = [use["cost_usd"] for use in budget["by_model"].values()]
    known = sum(cost for cost in costs if cost is not None)
    unknown = costs.count(None)
    some = f"${known:.2f} and " if unknown < len(costs) else ""
    return f"{some}{text.count(unknown, 'model')} of unknown price"


def _calls_line(state: dict[str, Any]) -> str | None:
    """Say how many model calls the cells have made and were spared."""
    made, reused = (
        sum(each["calls"] for each in state["budget"]["cells"][side].values())
        for side in ("made", "reused")
    )
    if not made and not reused:
        return None
    return f"{made} made, {reused} spared; see: rlmnb budget"


def _cells_line(session: Session) -> str:
    kinds = Counter(cell.type for cell in session.cells)
    parts = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
    return f"{len(session.cells)} ({parts}), {len(session.stale)} stale" if kinds else "none yet"


def list_cells(args: Namespace) -> int:
    """List cells, all or those that match."""
    session = judged(opened(args))
    selector = selector_of(args)
    found = session.cells if selector is None else session.select(selector)
    found = found(
        type=args.type,
        status=args.status,
        file=args.file,
        text=args.text,
        since=args.since,
        until=args.until,
    )
    if args.json:
        text.print_lines_as_json(cell.as_json() for cell in found)
        return 0
    if not found:
        text.note("no cells match" if len(session.cells) else "no cells yet")
        return 0
    _cell_table(list(found))
    if "stale" in (args.status, *(term.strip() for term in (selector or "").split(","))):
        told, followers = parted(
            [each for each in found if each.stale], lambda each: begins(each.causes)
        )
        for cell in told:
            text.note(text.wrapped(f"{cell.cell_id}: {'; '.join(cell.causes)}", 0, 2))
        if followers:
            those = numbered(session, [each.cell_id for each in followers])
            text.note(text.wrapped(f"and because of these: {those}", 0, 2))
        for path, change in session.changes_seen().items():
            text.note(f"{path}: seen to change {text.ago(change.get('at'))}")
    return 0


def _cell_table(found: list[Cell]) -> None:
    rows = [
        (
            cell.number,
            cell.cell_id,
            cell.entry.get("operation") or cell.type,
            shown_status(cell),
            text.ago(cell.entry.get("created_at")),
            cell.entry["title"],
        )
        for cell in found
    ]
    text.table(("#", "cell", "type", "status", "age", "source"), rows, grow="source")


def shown_status(cell: Cell) -> str:
    """Return the one word for how a cell stands."""
    if cell.type in _STORY:
        return ""
    if cell.status in ("failed", "running", "suspended"):
        return str(cell.status)
    return "stale" if cell.stale else "fresh"


def show_cell(args: Namespace) -> int:
    """Show one cell: its source, outputs, edges and record."""
    session = judged(opened(args))
    cell = session.cell(args.cell)
    if args.output:
        sys.stdout.buffer.write(whole_output(cell, session.objects.get))
        sys.stdout.flush()
        return 0
    try:
        record = cell.record
    except SchemaError as error:
        text.note(f"note: {error.message}")
        record = None
    if args.json:
        found = record.model_dump(mode="json", exclude_unset=True) if record else {}
        frame = record.frame_id(cell.source) if record else None
        text.print_json(
            {
                **cell.as_dict(),
                **found,
                "cell_id": cell.cell_id,
                "code": cell.source,
                "dependencies": list(cell.dependencies),
                "dependents": list(cell.dependents),
                "outputs": cell.outputs,
                "frame_id": frame,
            }
        )
        return 0
    head = f"{cell.cell_id}  {cell.entry.get('operation') or cell.type}"
    word = shown_status(cell)
    text.say(text.painted(head, "bold"), "  ", text.painted(word, word))
    for cause in cell.causes:
        text.say(f"  {because(cause)}")
    _say_why(record)
    text.say(f"\n{cell.source}\n")
    if shown := seen_text(cell.outputs):
        text.say(text.painted("output", "dim"), f"\n{shown.rstrip()}\n")
    for other, reason in cell.reasons.items():
        text.labelled("needs", f"{other}  {reason}", 9)
    for other in cell.dependents:
        text.labelled("feeds", other, 9)
    for path in cell.entry.get("files_read", ()):
        text.labelled("read", path, 9)
    for path in cell.entry.get("files_written", ()):
        text.labelled("wrote", path, 9)
    for label, told in asked.lines(record) if record else ():
        text.labelled(label, told, 9)
    return 0


def _say_why(record: CellRecord | None) -> None:
    """Show what a cell was for, where its agent has told."""
    if record is None:
        return
    trace = record.trace
    for label, told in (
        ("goal", trace.goal),
        ("decision", trace.decision),
        ("why", trace.rationale),
    ):
        if told:
            text.described(label, told, 9)


def show_chain(args: Namespace) -> int:
    """Show what a cell depends on, in the order it ran; or what depends on it."""
    session = judged(opened(args))
    cell = session.cell(args.cell)
    chain = [
        (each, depth)
        for each, depth in session.chain(cell.cell_id, reverse=args.reverse)
        if args.depth is None or depth <= args.depth
    ]
    if args.json:
        text.print_json(
            {
                "cell_id": cell.cell_id,
                "direction": "downstream" if args.reverse else "upstream",
                "depth": max((depth for _, depth in chain), default=0),
                "chain": [{**each.as_dict(), "depth": depth} for each, depth in chain],
            }
        )
        return 0
    if not chain:
        text.note(f"{cell.cell_id} {'feeds no cell' if args.reverse else 'depends on no cell'}")
        return 0
    known = {cell.cell_id: cell, **{each.cell_id: each for each, _ in chain}}
    more = len(chain) - _NEAREST if sys.stdout.isatty() else 0
    if more > 0:
        near = {each.cell_id for each, _ in sorted(chain, key=lambda pair: pair[1])[:_NEAREST]}
        chain = [pair for pair in chain if pair[0].cell_id in near]
    text.table(
        ("#", "cell", "status", "away", "because of", "source"),
        [
            (
                each.number,
                each.cell_id,
                shown_status(each),
                depth,
                _link(each, known, reverse=args.reverse),
                each.entry["title"],
            )
            for each, depth in chain
        ],
        grow="source",
    )
    if more > 0:
        told = f"and {more} further away; all of them: --json, or in a pipe"
        text.note(text.wrapped(told, 0, 2))
    return 0


def _link(cell: Cell, known: dict[CellId, Cell], *, reverse: bool) -> str:
    """Say what ties a cell to the next one of its chain."""
    if reverse:
        reasons = [reason for parent, reason in cell.reasons.items() if parent in known]
    else:
        reasons = [
            known[child].reasons[cell.cell_id] for child in cell.dependents if child in known
        ]
    if sys.stdout.isatty():
        return named([each for joined in reasons for each in reasons_in(joined)])
    return ", ".join(dict.fromkeys(reasons))


def list_files(args: Namespace) -> int:
    """List the files a session touched, and whether they are still as it left them."""
    session = opened(args)
    from rlmnb import digest

    rows = []
    for path, version in session.context_files().items():
        cells = [cell.cell_id for cell in session.cells if touches(cell, path)]
        now = digest.file_changed(path, version)
        state = "same" if now is None else ("missing" if now == digest.MISSING else "changed")
        rows.append({"path": path, **version, "now": state, "cells": cells})
    if args.json:
        text.print_json(rows)
        return 0
    if not rows:
        text.note("no cell read or wrote a file that is known")
        return 0
    text.table(
        ("role", "now", "cells", "size", "path"),
        [
            (
                row["role"],
                row["now"],
                len(row["cells"]),
                text.size(row["size_bytes"]),
                row["path"],
            )
            for row in rows
        ],
        grow="path",
    )
    return 0


def _spent(session: Session) -> dict[str, Any]:
    """Return what the agent and the cells' calls cost; null where a price is not known."""
    state = session.stored_state()
    budget = sessions.section(state, "budget")
    if not budget.get("by_model") and not budget.get("cells"):
        return {"cost_usd": None}
    from rlmnb.models.spending import overview

    found = overview(state)
    return {
        "cost_usd": found["agent"]["usd"],
        "calls_made": found["spent"]["calls"],
        "calls_cost_usd": found["spent"]["usd"],
        "calls_saved_usd": found["saved"]["usd"],
    }


def touches(cell: Cell, path: str) -> bool:
    """Tell whether a cell read or wrote exactly this file."""
    return path in cell.entry.get("files_read", ()) or path in cell.entry.get("files_written", ())


def show_stats(args: Namespace) -> int:
    """Count cells by type, operation and status, and sum up time and tokens."""
    session = judged(opened(args))
    entries = [cell.entry for cell in session.cells]
    stats = {
        "session_id": session.id,
        "cells": len(entries),
        "by_type": dict(Counter(entry["type"] for entry in entries)),
        "by_operation": dict(
            Counter(entry["operation"] for entry in entries if entry.get("operation"))
        ),
        "by_status": dict(Counter(cell.status for cell in session.cells if cell.status)),
        "stale": len(session.stale),
        "roots": len(session.index["roots"]),
        "leaves": len(session.index["leaves"]),
        "edges": sum(len(entry["dependencies"]) for entry in entries),
        "files": len(session.context_files()),
        "execution_time_ms": sum(entry.get("ms") or 0 for entry in entries),
        "tokens": sum(entry.get("tokens") or 0 for entry in entries),
        **_spent(session),
    }
    if args.json:
        text.print_json(stats)
        return 0
    for label, value in stats.items():
        shown = "-" if value is None else value
        if label.endswith("_usd"):
            shown = text.money(value)
        if isinstance(value, dict):
            shown = ", ".join(f"{number} {name}" for name, number in value.items()) or "-"
        text.described(label.removesuffix("_usd").replace("_", " "), str(shown), 19)
    return 0
