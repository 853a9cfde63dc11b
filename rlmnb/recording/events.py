"""From an agent's events to the cells of its session. Standard library only.

One table says what each event comes to. An event or a tool that is not in it is kept as well: as
what it said, in a cell that is never run.
"""

import os
import time

from rlmnb.capture import calls
from rlmnb.capture.progress import Progress
from rlmnb.errors import LockTimeoutError
from rlmnb.files import Lock
from rlmnb.format import times
from rlmnb.recording.calls import Calls
from rlmnb.recording.writing import LOCK_SECONDS
from rlmnb.store import append as appending
from rlmnb.store.layout import Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rlmnb.capture.events import Event

_LONGEST_GOAL = 200
_BATCH_SECONDS = 60.0
_QUIET = frozenset(
    {
        "Notification", "PermissionRequest", "MessageDisplay", "InstructionsLoaded", "Setup",
        "TaskCreated", "TaskCompleted", "UserPromptExpansion", "ConfigChange", "FileChanged",
        "StopFailure", "TeammateIdle",
    }
)  # fmt: skip
# Said by the client to the model, and typed by nobody.
_NOT_TYPED = ("<task-notification", "<command-", "<local-command", "<system-reminder")


class Recording(Calls):
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

    def take_in_usage(self, path: str, *, subagent: bool) -> None:
        """Count what models have used, as a transcript has it."""
        if self.count:
            self._usage(path, subagent=subagent)

    def take_in(self) -> None:
        """Do what the event asks for, alone among the hooks of its session."""
        action = _ACTIONS.get(self._event.name)
        if action is None and self._event.name in _QUIET:
            return
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
        action(self)

    # the session

    def _begin(self) -> None:
        if self._place.exists():
            return
        told = {"transcript_path": self._event.text("transcript_path")}
        state = appending.begin_state(self._place, self._cwd, **told)
        state["session"]["agent"] = self._event.agent

        def create() -> "dict[str, Any]":
            return {"at": times.now(), "op": "create", "state": state}

        from rlmnb.store import journal
        from rlmnb.store.fold import fold
        from rlmnb.store.sessions import make_current

        seq = journal.begin(self._place, create, [], start=0, timeout=LOCK_SECONDS)
        fold(self._place, seq, timeout=self._left)
        make_current(self._place)

    def _session_start(self) -> None:
        source = self._event.text("source") or "startup"
        phase = "post_compact" if source == "compact" else "running"
        session: dict[str, Any] = {"ended_at": None} if source == "resume" else {}
        if path := self._event.text("transcript_path"):
            session["transcript_path"] = path
        if parent := self._event.text("parent_session_id"):
            session["parent_session_id"] = parent
        self._set(session=session, lifecycle={"phase": phase, "pid": os.getppid()})

    def _session_end(self) -> None:
        reason = self._event.text("reason")
        self._set(
            session={"ended_at": times.now(), **({"end_reason": reason} if reason else {})},
            lifecycle={"phase": "ended"},
        )

    def _cwd_changed(self) -> None:
        if new := self._event.text("new_cwd"):
            self._set(session={"cwd": new})

    # turns

    def _prompt(self) -> None:
        prompt = self._event.text("prompt")
        if not prompt or prompt.lstrip().startswith(_NOT_TYPED):
            return
        goal = next((line.strip() for line in prompt.splitlines() if line.strip()), "")
        self._progress.keep("goal", goal[:_LONGEST_GOAL])
        quoted = "\n".join(f"> {line}" if line else ">" for line in prompt.splitlines())
        cell = {"cell_type": "markdown", "source": quoted}
        record = {"type": "prompt", "created_at": times.now()}
        if prompt_id := self._event.text("prompt_id"):
            if self._progress.text("prompt_id") == prompt_id:
                return
            self._progress.keep("prompt_id", prompt_id)
            record["prompt_id"] = prompt_id
        self._append({**cell, "metadata": {"rlmnb_event": record}})
        if not self._progress.value("titled"):
            self._progress.keep("titled", True)
            self._set(session={"title": goal[:80]})

    def _stop(self) -> None:
        said = self._event.text("last_assistant_message")
        self._usage(self._event.text("transcript_path"))
        if said:
            record = {"type": "answer", "created_at": times.now()}
            cell = {"cell_type": "markdown", "source": said, "metadata": {"rlmnb_event": record}}
            self._append(cell)
        self._set(lifecycle={"phase": "stopped"})

    def _usage(self, path: "str | None", *, subagent: bool = False) -> None:
        """Take in from a transcript what each model has used since it was last read."""
        if not path or not calls.is_path(path) or not os.path.isabs(path):
            return
        from rlmnb.capture.secrets import redact
        from rlmnb.capture.usage import usage_since

        totals = self._progress.table("totals")
        used, reasons = usage_since(
            self._progress, path, lambda: time.perf_counter() > self._deadline
        )
        known = self._progress.table("calls")
        for call, reason in redact(reasons).items():
            if isinstance(known.get(call), str):
                record = {"trace": {"rationale": reason}}
                self._write({"op": "update", "cell_id": known[call], "record": record})
        for model, amounts in used.items():
            counted = totals.get(model)
            total = counted if isinstance(counted, dict) else {}
            below = {"subagent_tokens": amounts["tokens"]} if subagent else {}
            for key, amount in {**amounts, **below}.items():
                total[key] = total.get(key, 0) + amount
            totals[model] = total
        if used:
            tokens = sum(each.get("tokens", 0) for each in totals.values())
            self._set(budget={"total_tokens_used": tokens, "by_model": dict(totals)})

    def _before_compaction(self) -> None:
        from rlmnb.store.checkpoints import keep

        trigger = self._event.text("trigger") or ""
        kept = keep(self._place, "before compaction", trigger)
        self._set(lifecycle={"phase": "pre_compact", "checkpoint": kept})

    def _after_compaction(self) -> None:
        summary = self._event.text("compact_summary")
        if summary:
            record = {"type": "compaction", "created_at": times.now()}
            source = f"**What came before, in short**\n\n{summary}"
            cell = {"cell_type": "markdown", "source": source, "metadata": {"rlmnb_event": record}}
            self._append(cell)
        self._set(lifecycle={"phase": "post_compact"})

    def _agent_stop(self) -> None:
        self._usage(self._event.text("agent_transcript_path"), subagent=True)

    def _unknown(self) -> None:
        """Keep an event that nobody has heard of: what it said, as a text nobody runs."""
        from rlmnb.jsontext import compact

        payload = {
            key: value
            for key, value in self._event.payload.items()
            if key not in ("session_id", "transcript_path", "cwd")
        }
        shown = compact(payload)[:4000]
        record = {"type": "event", "event": self._event.name, "created_at": times.now()}
        source = f"*{self._event.name}*\n\n```json\n{shown}\n```"
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
    "UserPromptSubmit": Recording._prompt,
    "Stop": Recording._stop,
    "PreToolUse": Recording._before_call,
    "PostToolUse": Recording._after_call,
    "PostToolUseFailure": Recording._failed_call,
    "PostToolBatch": Recording._batch,
    "SubagentStart": Recording._agent_start,
    "SubagentStop": Recording._agent_stop,
    "PreCompact": Recording._before_compaction,
    "PostCompact": Recording._after_compaction,
}
