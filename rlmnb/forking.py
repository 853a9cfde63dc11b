"""Begin a session on the disk: a new one, or one that goes on from cells of another."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from rlmnb.errors import InvalidCellError, StorageError
from rlmnb.format import times
from rlmnb.format.state import new_state
from rlmnb.jsontext import portable
from rlmnb.store import append as appending
from rlmnb.store import journal, sessions, working
from rlmnb.store.fold import fold
from rlmnb.store.layout import Place, session_place
from rlmnb.store.objects import Objects


def begin(
    place: Place,
    state: Mapping[str, Any],
    kept: Sequence[dict[str, Any]] = (),
    *,
    start: int = 0,
) -> None:
    """Write the first journal entries of a session, and let the notebook be made from them.

    A fork numbers its cells past those of its parent, so that an id is never given twice.
    """
    queue: list[dict[str, Any]] = [{"op": "append", "cell": cell} for cell in kept]

    def create() -> dict[str, Any]:
        return {"at": times.now(), "op": "create", "state": dict(state)}

    try:
        seq = journal.begin(place, create, queue, start=start, timeout=appending.TIMEOUT)
    except StorageError:
        journal.withdraw(place, timeout=appending.TIMEOUT)  # no session, then, and not a hollow one
        raise
    fold(place, seq, timeout=appending.TIMEOUT)


def place_of_fork(parent: Place, session_id: str | None) -> Place:
    """Return where a fork is to be; refuse what is there already."""
    root = None if parent.plain else os.path.dirname(parent.directory)
    name = session_id or f"{parent.session_id[:100]}-{os.urandom(4).hex()}"
    place = session_place(name, root)
    if place.exists():
        hint = f"give the fork another --id, or look at what is there: rlmnb show {name}"
        raise InvalidCellError(f"there is a session {name} already", hint=hint)
    return place


def begin_fork(
    parent: Place,
    place: Place,
    state: dict[str, Any],
    kept: Sequence[dict[str, Any]],
    *,
    memory: Mapping[str, Any],
    trial: bool,
) -> None:
    """Begin a session with these cells of its parent, and with the parent's state."""
    if parent.plain:  # it has a store of its own
        objects = Objects(place.objects)
        _copy_objects(parent, kept, objects)
        fitted = working.fitted(dict(memory), objects)
        state["context"] = {**sessions.section(state, "context"), "working_memory": fitted}
    place.prepare()
    notebook = {"notebook": parent.notebook} if parent.plain else {}
    forked_from = {
        "session_id": parent.session_id,
        "cell_id": kept[-1]["id"] if kept else None,
        **notebook,
        **({"trial": True} if trial else {}),
    }
    session = {
        **sessions.section(state),
        **new_state(place.session_id)["session"],
        **({"cwd": os.path.dirname(parent.notebook)} if parent.plain else {}),
        "parent_session_id": parent.session_id,
        "forked_from": portable(forked_from),
    }
    session.pop("ended_at", None)
    state = {**state, "session": session, "lifecycle": {"phase": "running"}}
    begin(place, state, kept, start=int(state.pop("appended", 0)))
    if not trial:
        sessions.make_current(place)


def _copy_objects(parent: Place, cells: Sequence[Mapping[str, Any]], target: Objects) -> None:
    """Take along outputs, answers and variables."""
    from rlmnb.format.keptcalls import objects_of_calls
    from rlmnb.store.sweep import digests_in
    from rlmnb.store.variables import Variables

    objects = Objects(parent.objects)
    states = digests_in(json.dumps([cell["metadata"] for cell in cells]).encode())
    mine, theirs = Variables(parent.objects), Variables(target.directory)
    with closing(mine), closing(theirs):
        mine.give(states, theirs)
    for cell in cells:
        record = cell["metadata"].get("rlmnb")
        output = record.get("output") if isinstance(record, dict) else None
        for item in (output.get("objects") or ()) if isinstance(output, dict) else ():
            target.put(objects.get(item["object"]))
        for name in objects_of_calls(record):
            if name in objects:
                target.put(objects.get(name))
