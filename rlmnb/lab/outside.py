"""Changes to the file of a live document: those that are ours need not come from the file.

jupyter-collaboration lets the file win whenever somebody else has written it, and what people typed
in that second is gone. Where all that changed is what the journal has anyway, which happens when
hooks wrote before the lease was taken or after it ran out, the document gets it from the journal,
as always, and the file is left alone.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from rlmnb.errors import RlmnbError
from rlmnb.format.nbjson import cell_text
from rlmnb.store import fold, notebook
from rlmnb.store.layout import Place


def is_explained(place: Place, base: dict[str, Any]) -> bool:
    """Tell whether the notebook on disk is the one we knew and what the journal has since."""
    try:
        disk = notebook.read_whole(place.notebook)
        known = notebook.checked(base, place.notebook)
    except (OSError, RlmnbError):
        return False
    entries = fold.sound_entries(place.journal, notebook.appended_of(known["metadata"]))
    added = {entry["cell"]["id"] for entry in entries if entry["op"] == "append"}
    touched = {entry["cell_id"] for entry in entries if entry["op"] == "update"}
    moved = any(entry["op"] == "order" for entry in entries)
    now = [cell for cell in disk["cells"] if cell.get("id") not in added]
    then = [cell for cell in known["cells"] if cell.get("id") not in added]
    if moved or [cell.get("id") for cell in now] != [cell.get("id") for cell in then]:
        return False
    return all(
        cell_text(one) == cell_text(other)
        for one, other in zip(now, then, strict=True)
        if one.get("id") not in touched
    )


def guard(room: Any, room_id: str, explained: Callable[[], Awaitable[bool]]) -> None:
    """Ask before the file is let in; a version of the library that works otherwise is let be."""
    subscriptions = getattr(getattr(room, "_file", None), "_subscriptions", None)
    if not isinstance(subscriptions, dict) or room_id not in subscriptions:
        return
    let_in = subscriptions[room_id]

    async def asked() -> None:
        if not await explained():
            await let_in()

    subscriptions[room_id] = asked


def unheard(room: Any, place: Place) -> datetime | None:
    """Return of when the latest version of the file is, None if the room has heard of it."""
    known = getattr(getattr(room, "_file", None), "last_modified", None)
    latest = datetime.fromtimestamp(os.stat(place.notebook).st_mtime, UTC)
    return latest if isinstance(known, datetime) and known < latest else None


def acknowledge(room: Any, version: datetime) -> None:
    """Let the room take a version of the file for one that it knows."""
    room._file.last_modified = max(room._file.last_modified, version)
