"""A session as replay sees it: its code cells with their traces, and the world they are held to."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from rlmnb import digest
from rlmnb.capture.folders import listed, name_within, names_of
from rlmnb.format.conversation import turns_hash, turns_in
from rlmnb.graph.disk import Files, abandoned_by, first_versions, last_writes, makers
from rlmnb.graph.effects import effects_of, of_its_agent, tools_called
from rlmnb.graph.environment import CodeCell, Environment
from rlmnb.graph.freshness import condition_causes
from rlmnb.graph.modelcalls import asks
from rlmnb.graph.runs import run_of
from rlmnb.graph.traces import survey
from rlmnb.kernel.paths import kind_of
from rlmnb.kernel.remembering import NAME, memory_version
from rlmnb.models import choosing
from rlmnb.replay.calling import current_calls, renewal
from rlmnb.replay.wishes import Wishes
from rlmnb.session import Session

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
_DONE = ("completed", "promoted")
_MARKED = "was marked as no longer valid"
_LOST = "what its last run has left in the notebook cannot be read"


def code_cells(session: Session, wishes: Wishes | None = None) -> list[CodeCell]:
    """Return the code cells of a session with their traces."""
    found = []
    model = choosing.default_model()
    entries = session.index["cells"]
    turns: list[dict[str, str]] = []
    now = time.time()
    for cell in session.cells:
        raw, entry = cell.raw, cell.entry
        if raw.get("cell_type") != "code":
            turns += turns_in([raw])
            continue
        record = raw["metadata"].get("rlmnb")
        record = record if isinstance(record, dict) else {}
        own = "copy_of" not in entry
        tags = raw["metadata"].get("tags")
        source = cell.source
        tags = frozenset(tags if isinstance(tags, list) else ())
        # What was emptied, or is left out, does nothing: what it did before counts no more.
        does_nothing = not source.strip() or "skip-execution" in tags
        run = run_of(record) if own and not does_nothing else None
        lost = own and run is None and not does_nothing and record.get("run") is not None
        called = tools_called(source)
        calls = current_calls(record) if own else ()
        found.append(
            CodeCell(
                cell_id=cell.cell_id,
                source=source,
                source_hash=entry["source_hash"],
                run=run,
                recorded=own and entry["status"] in _DONE and not entry.get("edited") and not lost,
                edited=own and bool(entry.get("edited")),
                broken=own and entry["status"] == "failed",
                tags=tags,
                number=entry["number"],
                frozen=_frozen(entry, called, source, can_ask=model is not None, ran=bool(run)),
                effects=tuple(effects_of(source, None, run)),
                marked=_mark(record)
                if entry["status"] == "invalidated"
                else _LOST
                if lost
                else None,
                depends={
                    other: entries[other]["output_hash"] if other in entries else None
                    for other in entry.get("explicit", ())
                    if other not in entries or entries[other]["status"] is not None
                },
                output_hash=entry["output_hash"],
                reshown=own and bool(entry.get("reshown")),
                files_read=entry.get("files_read", {}),
                files_written=entry.get("files_written", {}),
                listed=entry.get("listed", {}),
                calls=calls,
                renew=renewal(calls, tags, wishes),
                lapsed=tuple(condition_causes(entry, entries, now)) if own else (),
                conversation=turns_hash(turns) if run and "conversation" in run else None,
            )
        )
    return found


def _frozen(
    entry: dict[str, Any], called: frozenset[str], source: str, *, can_ask: bool, ran: bool
) -> str:
    """Say why a cell is never run, nothing if it may be."""
    if entry["type"] in ("llm_call", "map_reduce") and not ran:
        if not asks(source):
            return "it is a model call, and is kept as it was recorded"
        if not can_ask and "model=" not in source:
            return (
                "it is a model call, and no model is configured: it is kept as it was recorded "
                "until RLMNB_MODEL names one"
            )
    if "call" in called:
        return "only its agent has this tool: it is kept as it was recorded"
    if foreign := of_its_agent(called):
        return f"only its agent has {', '.join(foreign)}: it is kept as it was recorded"
    if entry["type"] == "tool" and not called:
        return "it is no call of a tool that can be run, and is kept as it was recorded"
    return ""


def _mark(record: dict[str, Any]) -> str:
    why = record.get("invalidated")
    why = why.get("reason") if isinstance(why, dict) else why
    return f"was marked as no longer valid: {why}" if isinstance(why, str) else _MARKED


def working_directory(session: Session) -> str:
    """Return where the cells of a session run: where its agent did, or beside the notebook."""
    if session.place.plain:
        return os.path.dirname(session.path)
    known = session.stored_state().get("session", {}).get("cwd")
    return known if isinstance(known, str) and os.path.isdir(known) else os.getcwd()


def _file_now(path: str, recorded: Any) -> str:
    changed = digest.file_changed(path, recorded)
    return str(recorded["hash"] if changed is None else changed)


def _listing(
    path: str,
    now: list[str] | None,
    there: Mapping[str, bool | None],
    then: list[str] | str,
) -> list[str] | str:
    """Return what is in a directory, given what is there now and what cells do to it."""
    within = name_within(path)
    own = {name: is_there for each, is_there in there.items() if (name := within(each)) is not None}
    as_then = then if isinstance(then, list) else now or ()
    own = {
        name: name in as_then if is_there is None else is_there for name, is_there in own.items()
    }
    if now is None and not there.get(path) and not any(own.values()):
        return digest.MISSING
    names = {*(now or ()), *(name for name, is_there in own.items() if is_there)}
    return listed((name for name in names if own.get(name, True)), like=then)


def files_now(cells: list[CodeCell]) -> Files:
    """Return the view of the disk that freshness is judged by: as it is when first looked at.

    What a replay itself does to files is told by the cells it runs, not by the disk.
    """
    writers, written = last_writes(cells)
    seen: dict[str, str] = {}

    def now(path: str, recorded: Any) -> str:
        if path not in seen:
            seen[path] = _file_now(path, recorded)
        return seen[path]

    kind, names = lru_cache(maxsize=None)(kind_of), lru_cache(maxsize=None)(names_of)

    def listing(
        path: str, there: Mapping[str, bool | None], then: list[str] | str
    ) -> list[str] | str:
        return _listing(path, names(path), there, then)

    before, model = first_versions(cells), choosing.default_model()
    abandoned = abandoned_by(cells)
    made_by = makers(cells) | {path: cell_id for path, (_, cell_id) in abandoned.items()}

    def look_again() -> None:
        for path in seen.keys() - written.keys():
            del seen[path]

    return Files(
        now, listing, kind, PYTHON, writers, written, made_by, before, model, abandoned, look_again
    )


def stale_cells(session: Session, cells: list[CodeCell] | None = None) -> dict[str, list[str]]:
    """Return the cells a replay would run, or may, with the causes."""
    cells = code_cells(session) if cells is None else cells
    return survey(cells, files_now(cells), starting_environment(session))


def starting_environment(session: Session) -> Environment:
    """Return what is there before the first cell: the working memory, if the session has one."""
    memory = session.working_memory
    if not memory:
        return Environment()
    return Environment(names={NAME: memory_version(memory)})
