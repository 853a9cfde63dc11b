"""The working memory of a session as the variable that its cells find it in."""

from __future__ import annotations

from typing import Any

from rlmnb.errors import RlmnbError
from rlmnb.kernel.canonical import Walk
from rlmnb.store import notebook, sessions, working
from rlmnb.store.layout import Place
from rlmnb.store.objects import Objects

NAME = "working_memory"


def memory_version(memory: dict[str, Any]) -> dict[str, Any]:
    """Return the version of the variable that holds this memory; the value comes with it."""
    walk = Walk({NAME: memory}, lambda: "")
    walk.variable(NAME)
    return {
        "names": [NAME],
        "digest": walk.digest(),
        "own": {NAME: walk.digest()},
        "refs": [],
        "object": None,
        "problem": None,
        "value": memory,
    }


def memory_of(place: Place) -> dict[str, Any]:
    """Return the working memory in a session's notebook, empty if it has none."""
    tail = notebook.peek_tail(place.notebook)
    state = (tail.state if tail is not None else None) or {}
    kept = sessions.section(sessions.section(state, "context"), NAME)
    try:
        return working.whole(kept, Objects(place.objects)) if kept else {}
    except (RlmnbError, OSError):
        return {}  # an object is gone: whoever reads the variable will miss it, and say so
