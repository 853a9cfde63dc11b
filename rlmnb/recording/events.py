"""From an agent's events to the cells of its session. Standard library only.

One table says what each event comes to. An event or a tool that is not in it is kept as well: as
what it said, in a cell that is never run.
"""

import os

from rlmnb.capture.progress import Progress
from rlmnb.errors import LockTimeoutError
from rlmnb.files import Lock
from rlmnb.format import times
from rlmnb.recording.turns import Turns
from rlmnb.recording.writing import signature
from rlmnb.store.layout import Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rlmnb.capture.events import Event

_BATCH_SECONDS = 60.0
_QUIET = frozenset(
    {
        "Notification", "PermissionRequest", "MessageDisplay", "InstructionsLoaded", "Setup",
        "TaskCreated", "TaskCompleted", "UserPromptExpansion", "ConfigChange",
        "TeammateIdle", "BeforeModel", "AfterModel", "BeforeToolSelection",
    }
)  # fmt: skip


class Recording(Turns):
    """Events on their way into a session: one, or many of the past together."""

    @classmethod
    def batch(cls, place: Place) -> "_Batch":
        """Begin to take in many events: the journal has each at once, the notebook in the end."""
        return _Batch(cls(place, None, float("inf")))

    def take(self, event: "Event") -> None:
        """Take in one of many."""
        self._event = event
        action = _ACTIONS.get(event.name)
        if action is not None:
            self._begin()
            action(self)

    def reached_turn(self) -> None:
        """Note how far an import has got: what is written after this may be told of again."""
        from rlmnb.store import journal

        self._progress.keep("imported_seq", journal.last_seq(self._place.journal))

    def recall(self) -> None:
        """Learn what an import wrote after the turn that it will begin with again."""
        from rlmnb.store import journal

        reached = self._progress.value("imported_seq")
        calls = self._progress.table("calls")
        finished = set()
        for entry in journal.newest_entries(self._place.journal):
            if not isinstance(reached, int) or entry["seq"] <= reached:
                break
            finished.add(entry.get("cell_id"))
            cell = entry.get("cell")
            metadata = cell.get("metadata") if isinstance(cell, dict) else None
            record = metadata.get("rlmnb") if isinstance(metadata, dict) else None
            if not isinstance(cell, dict):
                continue
            if isinstance(record, dict) and isinstance(record.get("tool_use_id"), str):
                calls.setdefault(record["tool_use_id"], str(cell.get("id")))
                if record.get("status") == "running" and cell.get("id") not in finished:
                    pending = self._progress.table("pending")
                    pending.setdefault(record["tool_use_id"], {"cell": cell.get("id")})
            elif (known := signature(cell)) is not None:
                self._taken[known] = self._taken.get(known, 0) + 1

    def keep_unknown(self, records: "list[Any]", kinds: "dict[str, int]") -> None:
        """Keep what a transcript has that nobody knows yet: all of it as one object."""
        if not records:
            return
        from rlmnb.jsontext import compact

        text = "".join(compact(record) + "\n" for record in records)
        self._set(session={"unknown_records": {self._keep(text): kinds}})

    def take_in_usage(self, path: str, *, subagent: bool) -> None:
        """Count what models have used, as a transcript has it."""
        if self.count:
            self._usage(path, subagent=subagent)

    def take_in(self) -> None:
        """Do what the event asks for, alone among the hooks of its session."""
        action = _ACTIONS.get(self._event.name)
        if action is None and self._event.name in _QUIET:
            return
        if self._event.name == "FileChanged" and not self._place.exists():
            return  # nothing of it can have been read here
        self._place.prepare()
        path = os.path.join(self._place.directory, ".hooks.lock")
        try:
            with Lock(path, timeout=self._left):
                self._go(action or Recording._unknown)
                self._progress.save()
        except LockTimeoutError:
            # Better without what the hooks know of each other than not at all.
            self._go(action or Recording._unknown)

    def _go(self, action: "Callable[[Recording], None]") -> None:
        self._progress = Progress(self._place.directory)
        self._begin()
        before, done = self.count, False
        try:
            action(self)
            done = True
        finally:
            # Better as nothing but what it said than not at all; what went wrong is noted too.
            if not done and self.count == before:
                self._unknown()
        if self._untold and (told := self._also_told()):
            # The same at every event of its kind, as like as not: once is enough.
            known = self._progress.table("also_told")
            if known.get(self._event.name) != told["also_told"]:
                known[self._event.name] = told["also_told"]
                self._set(lifecycle={"also_told": {self._event.name: told["also_told"]}})

    # compaction, and what is left

    def _before_compaction(self) -> None:
        from rlmnb.store.checkpoints import keep

        trigger = self._event.text("trigger") or ""
        kept = keep(self._place, "before compaction", trigger)
        self._set(lifecycle={"phase": "pre_compact", "checkpoint": kept})

    def _after_compaction(self) -> None:
        summary = self._event.text("compact_summary")
        if summary:
            source = f"**What came before, in short**\n\n{summary}"
            self._append(self._text_cell("compaction", source))
        self._set(lifecycle={"phase": "post_compact"})

    def _agent_stop(self) -> None:
        super()._agent_stop()
        self._usage(self._event.text("agent_transcript_path"), subagent=True)

    def _unknown(self) -> None:
        """Keep an event that nobody has heard of: what it said, as a text nobody runs."""
        from rlmnb.format.cells import PREVIEW_LIMIT, preview
        from rlmnb.jsontext import compact, to_bytes

        payload = {
            key: value
            for key, value in self._event.payload.items()
            if key not in ("session_id", "transcript_path", "cwd")
        }
        told = compact(payload)
        if (size := len(to_bytes(told))) > PREVIEW_LIMIT:
            told = preview(told, self._keep(told), size)
        self._untold = False
        record = {"type": "event", "event": self._event.name, "created_at": times.now()}
        source = f"*{self._event.name}*\n\n```json\n{told}\n```"
        self._append(
            {"cell_type": "markdown", "source": source, "metadata": {"rlmnb_event": record}}
        )


class _Batch:
    """Many events under one lock; in the end the notebook has them all."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._place = recording._place
        self._lock = Lock(
            os.path.join(self._place.directory, ".hooks.lock"), timeout=_BATCH_SECONDS
        )

    def __enter__(self) -> Recording:
        self._place.prepare()
        self._lock.__enter__()
        self._recording._together = True
        self._recording._progress = Progress(self._place.directory)
        self._recording.recall()
        return self._recording

    def __exit__(self, *_: object) -> None:
        from rlmnb.store import journal
        from rlmnb.store.fold import fold

        try:
            if self._recording.count:
                fold(self._place, journal.last_seq(self._place.journal), timeout=_BATCH_SECONDS)
                self._recording._progress.save()
        finally:
            self._lock.release()


_ACTIONS: "dict[str, Callable[[Recording], None]]" = {
    "SessionStart": Recording._session_start,
    "SessionEnd": Recording._session_end,
    "CwdChanged": Recording._cwd_changed,
    "FileChanged": Recording._file_changed,
    "UserPromptSubmit": Recording._prompt,
    "Stop": Recording._stop,
    "StopFailure": Recording._stop,
    "PreToolUse": Recording._before_call,
    "PostToolUse": Recording._after_call,
    "PostToolUseFailure": Recording._failed_call,
    "PostToolBatch": Recording._batch,
    "SubagentStart": Recording._agent_start,
    "SubagentStop": Recording._agent_stop,
    "PreCompact": Recording._before_compaction,
    "PostCompact": Recording._after_compaction,
}
