"""Where a session begins, comes from, goes on and ends."""

import os

from rlmnb.capture import calls
from rlmnb.errors import LockTimeoutError
from rlmnb.format import times
from rlmnb.recording.calls import Calls
from rlmnb.recording.writing import LOCK_SECONDS
from rlmnb.store import append as appending

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# A client that goes on in another session in the same process ends the first one for these.
_GOES_ON = ("clear", "resume")
_MOST_WATCHED = 100


class Starting(Calls):
    """Events at the ends of a session."""

    @property
    def _root(self) -> str:
        return os.path.dirname(self._place.directory)

    def _begin(self) -> None:
        if self._place.exists():
            return
        told: dict[str, Any] = {"transcript_path": self._event.text("transcript_path")}
        if not self._together:
            told |= self._lineage()
        state = appending.begin_state(self._place, self._cwd, **told)
        state["session"]["agent"] = self._event.agent
        self._progress.keep("cwd", self._cwd)
        if told.get("forked_from") or self._event.text("source") == "fork":
            # What its transcript repeats of its parent's was counted there.
            self._progress.keep("since", state["session"]["created_at"])
            self._progress.keep("orphan", not told.get("parent_session_id"))

        def create() -> "dict[str, Any]":
            return {"at": times.now(), "op": "create", "state": state}

        from rlmnb.store import journal
        from rlmnb.store.fold import fold
        from rlmnb.store.sessions import make_current

        try:
            seq = journal.begin(self._place, create, [], start=0, timeout=LOCK_SECONDS)
        except LockTimeoutError:
            return  # many begin it at once; what this event comes to is kept all the same
        fold(self._place, seq, timeout=self._left)
        make_current(self._place)
        if self._together:
            # An import that is cut short is known for one, and goes on at the next.
            self._progress.keep("imported_seq", -1)
            self._progress.save()

    # where it comes from

    def _lineage(self) -> "dict[str, Any]":
        """Return where a session that begins came from, as far as its client lets us know.

        A client says that it cleared or forked, and not what. It was at another session before,
        in the same process; or, in older versions, it resumed that one and then went on under a
        new id without a word.
        """
        told = self._event.text("parent_session_id")
        if told is not None:
            return {"parent_session_id": told} if _is_name(told) else {}
        source = self._event.text("source") if self._event.name == "SessionStart" else None
        if source in ("startup", "resume", "compact"):
            return {}
        from rlmnb.recording import clients

        known = clients.session_of(self._root, clients.client_pid(os.environ))
        if known is None or known[0] == self._place.session_id:
            return {}
        if source == "clear":
            return {"parent_session_id": known[0]}
        if source == "fork" or (
            self._event.name == "UserPromptSubmit" and self._was_only_resumed(known[0])
        ):
            return self._fork_of(known[0])
        return {}

    def _fork_of(self, parent: str, before: "str | None" = None) -> "dict[str, Any]":
        return {
            "parent_session_id": parent,
            "forked_from": {"session_id": parent, "cell_id": self._last_cell(parent, before)},
        }

    def _last_cell(self, session: str, before: "str | None") -> "str | None":
        """Return the last cell that another session had, before a moment if one is given."""
        from rlmnb.store import journal
        from rlmnb.store.layout import session_place

        for entry in journal.newest_entries(session_place(session, self._root).journal):
            if entry.get("op") == "append" and (before is None or str(entry.get("at")) <= before):
                cell = entry.get("cell")
                found = cell.get("id") if isinstance(cell, dict) else None
                return found if isinstance(found, str) else None
        return None

    def _was_only_resumed(self, session: str) -> bool:
        """Tell whether nothing has happened in a session since its client resumed it."""
        from rlmnb.store import journal
        from rlmnb.store.layout import session_place

        place = session_place(session, self._root)
        for entry in journal.newest_entries(place.journal):
            put = entry.get("set")
            life = put.get("lifecycle") if isinstance(put, dict) else None
            resumed = isinstance(life, dict) and life.get("source") == "resume"
            if resumed:
                self._end_other(place)
            return resumed
        return False

    def _end_other(self, place: "Any") -> None:
        """Let a session be over that its client has left for a fork of it."""
        ended = {"session": {"ended_at": times.now(), "end_reason": "fork"}}
        entry = {"op": "state", "set": {**ended, "lifecycle": {"phase": "ended"}}}
        whole = {**entry, "at": times.now()}
        appending.write_entry(place, lambda _: whole, timeout=LOCK_SECONDS)

    def _find_parent(self) -> None:
        """Find the session that a fork repeats, once its transcript is there."""
        if not self._progress.value("orphan"):
            return
        from rlmnb.capture.lineage import parent_of

        path = self._event.text("transcript_path")
        parent = parent_of(path) if path and calls.is_path(path) and os.path.isabs(path) else None
        if parent is not None and parent != self._place.session_id:
            self._progress.keep("orphan", False)
            self._set(session=self._fork_of(parent, self._progress.text("since")))

    # its start and its end

    def _session_start(self) -> None:
        from rlmnb.recording import clients

        source = self._event.text("source") or "startup"
        phase = "post_compact" if source == "compact" else "running"
        session: dict[str, Any] = {"ended_at": None} if source == "resume" else {}
        if path := self._event.text("transcript_path"):
            session["transcript_path"] = path
        pid = clients.client_pid(os.environ)
        self._take_title()
        lifecycle = {"phase": phase, "pid": pid or None, "source": source}
        self._set(session=session, lifecycle=lifecycle)
        if not self._together:
            self._answer_start(source, pid)

    def _answer_start(self, source: str, pid: int) -> None:
        from rlmnb.recording import answers, clients

        about = self._about()
        project = str(about.get("project") or self._cwd)
        others = clients.others_at(self._root, pid, project, self._place.session_id)
        clients.note_session(self._root, pid, self._place.session_id, project)
        messages = [] if source == "compact" else answers.problems(self._cwd, os.environ)
        if others and self._progress.value("others") != others:
            messages.append(answers.two_at_once(others))
        self._progress.keep("others", others)
        title = about.get("title") if about.get("title_from") == "person" else None
        if source not in ("startup", "resume") or title == self._event.text("session_title"):
            title = None  # the client takes a title at these, and knows this one
        self.answer = answers.answer(
            "SessionStart", title=title, watched=self._watched(), messages=messages
        )

    def _watched(self) -> "list[str]":
        """Return the files that the session read or wrote last and that are there."""
        seen = [path for path in reversed(self._progress.table("seen")) if os.path.isfile(path)]
        return seen[:_MOST_WATCHED]

    def _take_title(self) -> None:
        """Take the name over that a session was given in the client, when it is a new one."""
        told = self._event.text("session_title")
        if told is None or told == self._progress.text("client_title"):
            return
        self._progress.keep("client_title", told)
        self._progress.keep("titled", True)
        if self._about().get("title") != told:
            self._set(session={"title": told[:200], "title_from": "client"})

    def _session_end(self) -> None:
        reason = self._event.text("reason")
        self._find_parent()
        self._set(
            session={"ended_at": times.now(), **({"end_reason": reason} if reason else {})},
            lifecycle={"phase": "ended"},
        )
        if reason not in _GOES_ON and not self._together:
            from rlmnb.recording import clients

            clients.forget(self._root, clients.client_pid(os.environ))

    # while it goes on

    def _cwd_changed(self) -> None:
        from rlmnb.recording import answers

        if new := self._event.text("new_cwd"):
            self._set(lifecycle={"cwd": new})
        # The client forgets what it watched when it moves, unless it is told again.
        self.answer = answers.answer("CwdChanged", watched=self._watched())

    def _file_changed(self) -> None:
        """Note that a file the session had to do with has changed, whoever changed it."""
        path = self._event.text("file_path")
        seen = self._progress.table("seen")
        if path is None or path not in seen or not calls.is_path(path):
            self._untold = False  # nothing of it matters here
            return
        version = calls.versions_of([path]).get(path)
        now = version["hash"] if version else None
        if now is not None and now == seen[path]:
            return  # as the session left it
        kind = self._event.text("event") or "change"
        changed = self._progress.table("changed")
        changed.pop(path, None)
        changed[path] = True
        dropped = list(changed)[:-_MOST_WATCHED]
        for old in dropped:
            del changed[old]
        note = {"at": times.now(), "event": kind[:40], **({"hash": now} if now else {})}
        self._write(
            {
                "op": "state",
                "set": {"context": {"changed_files": {path: note}}},
                "remove": [["context", "changed_files", old] for old in dropped],
            }
        )


def _is_name(text: str) -> bool:
    from rlmnb.errors import InvalidNameError
    from rlmnb.ids import check_session_id

    try:
        check_session_id(text)
    except InvalidNameError:
        return False
    return True
