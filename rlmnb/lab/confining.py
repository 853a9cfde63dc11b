"""From what a request names to a place on disk, and nowhere but where requests may go.

A path is one that the server's file browser knows; a session is known by its id. What either leads
to, links followed, lies below the server's root or the sessions root, or the request is refused.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from rlmnb.errors import InvalidNameError, SessionNotFoundError, UnsafePathError
from rlmnb.ids import check_session_id
from rlmnb.store import sessions
from rlmnb.store.layout import Place, notebook_place, sessions_root

_LONGEST = 4096
# JupyterLab puts this before a path that it shares with others.
_SHARED = "RTC:"


@dataclass(frozen=True)
class Confines:
    """The directory that the server shows."""

    root: str

    def place(self, *, path: str | None = None, session: str | None = None) -> Place:
        """Return the notebook that a request means, having refused what leads elsewhere."""
        if session:
            return self._inside(sessions.find(check_session_id(session)))
        if not path:
            raise InvalidNameError("wanted a path or a session, found neither")
        return self._inside(notebook_place(self.on_disk(path)))

    def path_of(self, notebook: str) -> str | None:
        """Return the path that the server's file browser has for a notebook, None if none."""
        root, real = os.path.realpath(self.root), os.path.realpath(notebook)
        if not _is_below(real, root):
            return None
        return os.path.relpath(real, root).replace(os.sep, "/")

    def on_disk(self, path: str) -> str:
        """Return where a path of the server's file browser is; what it leads to is not checked."""
        if len(path) > _LONGEST or "\0" in path:
            raise InvalidNameError("this is no path of a notebook")
        parts = path.removeprefix(_SHARED).strip("/").split("/")
        if ".." in parts or not parts[-1].endswith(".ipynb"):
            raise InvalidNameError(
                f"{path[:200]!r} is no path of a notebook below the server's root"
            )
        return os.path.join(self.root, *parts)

    def _inside(self, place: Place) -> Place:
        real = os.path.realpath(place.notebook)
        roots = [os.path.realpath(each) for each in (self.root, sessions_root())]
        if not any(_is_below(real, root) for root in roots):
            raise UnsafePathError(
                "this notebook is neither below the server's root nor among the sessions",
                hint="start the server in a directory above it",
            )
        if not os.path.isfile(real) and (place.plain or not place.exists()):
            raise SessionNotFoundError("there is no such notebook", hint="run: rlmnb sessions")
        return place


def _is_below(path: str, root: str) -> bool:
    return path.startswith(root.rstrip(os.sep) + os.sep)


def is_ours(place: Place) -> bool:
    """Tell whether a notebook is a session, or has been replayed and has `.rlmnb/` beside it."""
    return not place.plain or os.path.isdir(place.directory)


def want_ours(place: Place) -> Place:
    """Refuse a notebook that rlmnb has nothing to do with: looking at it must not change that."""
    if not is_ours(place):
        raise SessionNotFoundError(
            f"{os.path.basename(place.notebook)} is not a session, and was never replayed",
            hint=f"run: rlmnb replay {place.word}",
        )
    return place
