"""All sessions under one root: list them, and find the one a person means."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from rlmnb.errors import (
    AmbiguousSessionError,
    InvalidNameError,
    RlmnbError,
    SessionNotFoundError,
)
from rlmnb.files import point_link
from rlmnb.processes import is_alive
from rlmnb.store import journal, notebook, project
from rlmnb.store.layout import (
    Place,
    archive_of,
    looks_like_path,
    notebook_place,
    session_place,
    sessions_root,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_SHOWN = 10


def all_places(root: str) -> list[Place]:
    """Return every session under the root, by name. What is not a session is passed over."""
    try:
        names = sorted(os.listdir(root))
    except (FileNotFoundError, NotADirectoryError):
        return []
    places = []
    for name in names:
        try:
            place = session_place(name, root)
        except InvalidNameError:
            continue
        if not os.path.islink(place.directory) and place.exists():
            places.append(place)
    return places


def state_of(place: Place) -> dict[str, Any]:
    """Return a session's state: from the end of its notebook, else from its journal."""
    try:
        tail = notebook.peek_tail(place.notebook)
        if tail is not None and tail.state is not None:
            return tail.state
        whole = notebook.read_whole(place.notebook, patience=0)
        state = whole["metadata"].get("rlmnb")
        if isinstance(state, dict):
            return state
    except (OSError, RlmnbError):
        pass  # one session that cannot be read must not hide the others
    try:
        for entry in journal.all_entries(place.journal)[:1]:
            if isinstance(entry.get("state"), dict):
                return dict(entry["state"])
    except (OSError, RlmnbError):
        pass
    return {}


def section(state: Mapping[str, Any], name: str = "session") -> Mapping[str, Any]:
    """Return a section of a state, empty if a hand has made it something else."""
    found = state.get(name)
    return found if isinstance(found, dict) else {}


def described(place: Place, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a list of sessions says of one."""
    return {
        **about(place.session_id, section(state)),
        "active": is_active(state),
        "path": place.notebook,
    }


def about(session_id: str, session: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is known of a session from its own section."""
    keys = ("title", "project", "branch", "created_at", "updated_at", "ended_at", "cwd")
    texts = {key: session.get(key) for key in keys}
    return {
        "id": session_id,
        **{key: value if isinstance(value, str) else None for key, value in texts.items()},
        "tags": tags_of(session),
        "parent_session_id": session.get("parent_session_id"),
    }


def tags_of(session: Mapping[str, Any]) -> list[str]:
    """Return a session's tags, as far as they are any."""
    tags = session.get("tags")
    return [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []


def newest_first(places: list[Place]) -> list[tuple[Place, dict[str, Any]]]:
    """Return sessions with their states, the one updated last first."""
    known = [(place, state_of(place)) for place in places]
    return sorted(known, key=lambda item: str(section(item[1]).get("updated_at", "")), reverse=True)


def is_running(place: Place) -> bool:
    """Tell whether a session's agent is known to be at work."""
    state = state_of(place)
    pid = section(state, "lifecycle").get("pid")
    return not section(state).get("ended_at") and isinstance(pid, int) and is_alive(pid)


def is_active(state: Mapping[str, Any]) -> bool:
    """Tell whether a session is still going on: not ended, and its process, if known, alive."""
    if section(state).get("ended_at"):
        return False
    pid = section(state, "lifecycle").get("pid")
    return not isinstance(pid, int) or is_alive(pid)


def find(
    target: str | None,
    *,
    root: str | None = None,
    environ: Mapping[str, str] | None = None,
    cwd: str | None = None,
) -> Place:
    """Find the session or notebook that is meant.

    A given target is a full id, a path, or a prefix that only one id has. Without one it is the
    session of the agent that runs us, else the newest of this project that is not only a trial.
    """
    environ = os.environ if environ is None else environ
    root = root or sessions_root(environ)
    if target is not None:
        return _named(target, root)
    agent = environ.get("CLAUDE_CODE_SESSION_ID")
    if agent:
        place = session_place(agent, root)
        if place.exists():
            return place
    here = project.describe(cwd or os.getcwd())["project"]
    for place, state in newest_first(all_places(root)):
        if section(state).get("project") == here and not _is_trial(state):
            return place
    raise SessionNotFoundError(
        f"no session of the project {here} is in {root}",
        hint="name one (rlmnb sessions lists all), or begin one: "
        "rlmnb append my-session --source 'x = 1'",
    )


def _is_trial(state: Mapping[str, Any]) -> bool:
    """Tell whether a session was only made to see what would be if."""
    fork = section(state).get("forked_from")
    return isinstance(fork, dict) and fork.get("trial") is True


def _named(target: str, root: str) -> Place:
    if looks_like_path(target):
        place = notebook_place(target)
        if not os.path.lexists(place.notebook) and (
            place.plain or not os.path.lexists(place.journal)
        ):
            raise SessionNotFoundError(
                f"{target}: there is no notebook",
                hint="name one that is there, or a session: rlmnb sessions",
            )
        return place
    if target == "current":
        link = os.path.join(root, "current")
        if os.path.islink(link):
            return _named(os.path.basename(os.readlink(link)), root)
        raise SessionNotFoundError(f"{link}: no session has been made current yet")
    try:
        place = session_place(target, root)
    except InvalidNameError:
        if not os.path.exists(target):
            raise
        raise SessionNotFoundError(
            f"{target}: is no notebook: wanted a name that ends in .ipynb, or a session's directory"
        ) from None
    if place.exists():
        return place
    found = [each for each in all_places(root) if each.session_id.startswith(target)]
    if len(found) == 1:
        return found[0]
    if not found and os.path.isfile(archive_of(target, root)):
        raise SessionNotFoundError(
            f"session {target} is archived", hint=f"bring it back with: rlmnb restore {target}"
        )
    if not found:
        raise SessionNotFoundError(
            f"no session in {root} is called {target!r} or begins so", hint="run: rlmnb sessions"
        )
    shown = "\n".join(f"  {_line(each)}" for each in found[:_SHOWN])
    more = f"\n  and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    raise AmbiguousSessionError(
        f"{len(found)} sessions begin with {target!r}:\n{shown}{more}",
        hint="give more of the id",
    )


def _line(place: Place) -> str:
    session = section(state_of(place))
    return "  ".join(str(part) for part in (place.session_id, session.get("title")) if part)


def make_current(place: Place) -> None:
    """Let the link `current` in the root point to this session, for people."""
    if not place.plain:
        point_link(os.path.join(os.path.dirname(place.directory), "current"), place.session_id)


def older_than(days: float, root: str) -> list[Place]:
    """Return the sessions that were last updated longer ago than this."""
    limit = datetime.now(UTC) - timedelta(days=days)
    found = []
    for place in all_places(root):
        try:
            moment = datetime.fromisoformat(str(section(state_of(place)).get("updated_at")))
        except ValueError:
            continue
        if moment.tzinfo is not None and moment < limit:
            found.append(place)
    return found
