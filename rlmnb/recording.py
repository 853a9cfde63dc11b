"""From an agent's events to the cells of its session. Standard library only.

One table says what each event comes to. An event or a tool that is not in it is kept as well: as
what it said, in a cell that is never run.
"""

import os
import time

from rlmnb.capture import calls
from rlmnb.capture.privacy import ignored
from rlmnb.capture.progress import Progress
from rlmnb.capture.results import shown
from rlmnb.errors import InvalidCellError, LockTimeoutError, RlmnbError
from rlmnb.files import Lock
from rlmnb.format import times
from rlmnb.store import append as appending
from rlmnb.store.layout import Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rlmnb.capture.events import Event

_LONGEST_GOAL = 200
_LOCK_SECONDS = 2.0
_LEAST_SECONDS = 0.05
_BATCH_SECONDS = 60.0
_RECENT_BYTES = 4 * 1024 * 1024
_QUIET = frozenset(
    {
        "Notification", "PermissionRequest", "MessageDisplay", "InstructionsLoaded", "Setup",
        "TaskCreated", "TaskCompleted", "UserPromptExpansion", "ConfigChange", "FileChanged",
        "StopFailure", "TeammateIdle",
    }
)  # fmt: skip
# Said by the client to the model, and typed by nobody.
_NOT_TYPED = ("<task-notification", "<command-", "<local-command", "<system-reminder")


class Recording:
    """Events on their way into a session: one, or many of the past together."""

    def __init__(self, place: Place, event: "Event | None", deadline: float) -> None:
        self._place = place
        self._event: Event = event  # type: ignore[assignment]
        self._deadline = deadline
        self._together = False
        self.count = 0

    @classmethod
    def batch(cls, place: Place) -> "_Batch":
        """Begin to take in many events: the journal has each at once, the notebook in the end."""
        return _Batch(cls(place, None, float("inf")))

    @property
    def progress(self) -> Progress:
        """What the hooks of this session know of each other."""
        return self._progress

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

    @property
    def _left(self) -> float:
        """How long the notebook may be waited for; the journal always is."""
        return max(self._deadline - time.perf_counter(), _LEAST_SECONDS)

    @property
    def _cwd(self) -> str:
        cwd = self._event.text("cwd")
        return cwd if cwd and calls.is_path(cwd) and os.path.isabs(cwd) else os.getcwd()

    # writing

    def _append(self, cell: "dict[str, Any]") -> str:
        self.count += 1
        if at := self._event.text("imported_at"):
            cell = _dated(cell, at)
        if self._together:
            return appending.append_to_journal(self._place, cell, cwd=self._cwd)
        try:
            return appending.append(self._place, cell, cwd=self._cwd, timeout=self._left).cell_id
        except InvalidCellError:
            if not cell.get("dependencies"):
                raise
            # A person may have deleted the cell that this one was found to build on.
            alone = {**cell, "dependencies": []}
            return appending.append(self._place, alone, cwd=self._cwd, timeout=self._left).cell_id

    def _write(self, entry: "dict[str, Any]") -> None:
        """Write to the journal only: whoever reads the notebook next has it taken in."""
        whole = {**entry, "at": times.now()}
        appending.write_entry(self._place, lambda _: whole, cwd=self._cwd, timeout=_LOCK_SECONDS)

    def _set(self, **sections: "Any") -> None:
        self._write({"op": "state", "set": sections})

    def _keep(self, text: str) -> str:
        from rlmnb.store.objects import Objects

        return Objects(self._place.objects).put(text.encode("utf-8", "surrogateescape"))

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

        seq = journal.begin(self._place, create, [], start=0, timeout=_LOCK_SECONDS)
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

    # calls

    def _before_call(self) -> None:
        call = self._event.text("tool_use_id")
        tool = self._event.text("tool_name")
        if not call or not tool or call in self._progress.table("calls"):
            return
        args = self._event.object("tool_input")
        reads, writes = calls.paths_of(tool, args, self._cwd)
        before = calls.versions_of([*reads, *writes])
        pending: dict[str, Any] = {
            "before": {path: version["hash"] for path, version in before.items()}
        }
        if tool in ("Agent", "Task"):
            # Its cell comes first, so that those of the sub-agent can stand below it.
            pending["cell"] = self._append(self._call_cell(tool, args, status="running"))
            self._progress.table("calls")[call] = pending["cell"]
        self._progress.table("pending")[call] = pending

    def _after_call(self) -> None:
        self._call_done(self._event.payload.get("tool_response"), None)

    def _failed_call(self) -> None:
        error = self._event.text("error") or "the call failed"
        self._call_done(None, error)

    def _call_done(self, response: "Any", error: "str | None") -> None:
        tool = self._event.text("tool_name") or "unknown"
        call = self._event.text("tool_use_id") or ""
        pending = self._progress.table("pending").pop(call, {})
        known = self._progress.table("calls").get(call)
        if known is not None and "cell" not in pending:
            return  # told of already, by another installation of these hooks
        args = self._event.object("tool_input")
        if "cell" in pending:
            self._complete(pending["cell"], tool, response, error)
            return
        before = pending.get("before") if isinstance(pending.get("before"), dict) else {}
        cell = self._call_cell(tool, args, response=response, error=error, before=before)
        cell_id = self._append(cell)
        if call:
            self._progress.table("calls")[call] = cell_id
        for path in cell.get("files_written", ()):
            self._progress.table("writers")[path] = cell_id
        if agent := self._event.text("agent_id"):
            self._progress.table("agents").setdefault(agent, {}).setdefault("cells", []).append(
                cell_id
            )

    def _call_cell(
        self,
        tool: str,
        args: "dict[str, Any]",
        *,
        response: "Any" = None,
        error: "str | None" = None,
        before: "dict[str, Any] | None" = None,
        status: "str | None" = None,
    ) -> "dict[str, Any]":
        reads, writes = calls.paths_of(tool, args, self._cwd)
        if any(ignored(path, self._cwd) for path in (*reads, *writes)):
            return self._withheld(tool, [*reads, *writes], failed=error is not None)
        if self._together:  # what files were then, only the answer can tell
            read, written = calls.versions_told(tool, reads, writes, response)
        else:
            read = calls.versions_of(reads)
            written = calls.versions_of(writes) if error is None and status is None else {}
        for path, version in written.items():
            if isinstance((before or {}).get(path), str):
                version["before"] = (before or {})[path]
        cell: dict[str, Any] = {
            "source": calls.source_of_call(tool, args, self._keep),
            "type": "tool",
            "operation": tool,
            "args": calls.brief(args, self._keep),
            "origin": self._event.agent,
            "outputs": calls.outputs_of(tool, self._whole(response)),
            "files_read": read,
            "files_written": written,
            "dependencies": self._edges([*reads, *writes]),
            "tool_use_id": self._event.text("tool_use_id"),
            "execution_time_ms": self._event.number("duration_ms"),
            "error": error,
            "status": status,
        }
        if goal := self._progress.text("goal"):
            cell["trace"] = {"goal": goal}
        if parent := self._parent():
            cell["parent_id"] = parent
            cell["metadata"] = {"depth": 1, "agent_id": self._event.text("agent_id")}
        return {key: value for key, value in cell.items() if value is not None}

    def _withheld(self, tool: str, paths: "list[str]", *, failed: bool) -> "dict[str, Any]":
        """Return a cell that says there was a call, and nothing of what it read or wrote."""
        names = [os.path.relpath(path, self._cwd) for path in paths if ignored(path, self._cwd)]
        cell: dict[str, Any] = {
            "source": f"tools.call({tool!r}, withheld={names!r})",
            "type": "tool",
            "operation": tool,
            "origin": self._event.agent,
            "output": "not recorded: the file is among those to be ignored\n",
            "tool_use_id": self._event.text("tool_use_id"),
        }
        return {**cell, "error": "it failed"} if failed else cell

    def _whole(self, response: "Any") -> "Any":
        """Return an answer with what the client has put into a file of its own, if it did."""
        path = response.get("persistedOutputPath") if isinstance(response, dict) else None
        if not calls.is_path(path) or not self._is_the_clients(str(path)):
            return response
        from rlmnb.files import open_regular, read_at

        try:
            descriptor = open_regular(str(path))
            try:
                data = read_at(descriptor, 0, calls.LARGEST_FILE)
            finally:
                os.close(descriptor)
        except OSError:
            return response
        from rlmnb.capture.secrets import redact_text

        return {**response, "stdout": redact_text(data.decode("utf-8", "replace"))}

    def _is_the_clients(self, path: str) -> bool:
        """Tell whether a file stands where the client keeps its own, and not just anywhere."""
        told = self._event.text("transcript_path")
        places = [os.environ.get("TMPDIR") or "/tmp"]  # noqa: S108 - only read from
        if told and calls.is_path(told) and os.path.isabs(told):
            places.append(os.path.dirname(told))
        real = os.path.realpath(path)
        return any(real.startswith(os.path.realpath(each) + os.sep) for each in places)

    def _edges(self, paths: "list[str]") -> "list[dict[str, str]]":
        """Return the cells that wrote these files last."""
        writers = self._progress.table("writers")
        found: dict[str, str] = {}
        for path in paths:
            if isinstance(writer := writers.get(path), str):
                found.setdefault(writer, f"file {os.path.basename(path)}")
        return [{"cell_id": cell_id, "reason": reason} for cell_id, reason in found.items()]

    def _complete(self, cell_id: str, tool: str, response: "Any", error: "str | None") -> None:
        """Finish a cell that was begun before its call: an agent's, with what it built on."""
        outputs = calls.outputs_of(tool, response)
        agent = response.get("agentId") if isinstance(response, dict) else None
        below = self._progress.table("agents").get(agent, {}) if isinstance(agent, str) else {}
        from rlmnb.digest import output_hash
        from rlmnb.format.cells import error_output
        from rlmnb.jsontext import portable

        if error is not None:
            outputs.append(error_output(error))
        outputs = portable(outputs)
        record: dict[str, Any] = {
            "status": "failed" if error is not None else "completed",
            "completed_at": times.now(),
            "output_hash": output_hash(outputs),
            "output": {"error": error} if error is not None else {},
        }
        if (took := self._event.number("duration_ms")) is not None:
            record["output"]["execution_time_ms"] = took
        evidence = [each for each in below.get("cells", ()) if isinstance(each, str)]
        replaced = {"evidence": evidence} if evidence else {}
        entry = {"op": "update", "cell_id": cell_id, "record": record, "replace": replaced}
        self._write({**entry, "outputs": outputs})

    def _batch(self) -> None:
        """Put the calls of a batch in order, and add those that nothing else told of."""
        told = self._event.payload.get("tool_calls")
        if not isinstance(told, list):
            return
        known = self._progress.table("calls")
        order = []
        whole = self._event.payload
        for call in told:
            if not isinstance(call, dict):
                continue
            name = call.get("tool_use_id")
            if not isinstance(name, str):
                continue
            if name not in known and not self._in_journal(name):
                self._event.payload = {**whole, **call}
                # A call that told of neither success nor failure was refused, and never ran.
                answer = call.get("tool_response")
                self._call_done(None, shown("", answer) or "the call was refused")
            if isinstance(known.get(name), str):
                order.append(known[name])
        self._event.payload = whole
        appended = [cell for cell in known.values() if cell in set(order)]
        if len(order) > 1 and appended != order:
            self._write({"op": "order", "cells": order})

    def _in_journal(self, call: str) -> bool:
        """Tell whether a call was told of by a hook that could not say so to the others."""
        from rlmnb.files import open_regular, read_at

        try:
            descriptor = open_regular(self._place.journal)
        except OSError:
            return False
        try:
            size = os.fstat(descriptor).st_size
            start = max(0, size - _RECENT_BYTES)
            told = f'"tool_use_id":"{call}"'.encode("utf-8", "backslashreplace")
            return told in read_at(descriptor, start, size - start)
        finally:
            os.close(descriptor)

    # sub-agents

    def _parent(self) -> "str | None":
        agent = self._event.text("agent_id")
        if not agent:
            return None
        known = self._progress.table("agents").setdefault(agent, {})
        if not isinstance(known, dict):
            return None
        if not known.get("told"):
            # Who asked for it stands beside its transcript, from its first call on.
            told = self._told_parent(agent)
            if told is not None:
                known |= {"parent": told, "told": True}
        parent = known.get("parent")
        return parent if isinstance(parent, str) else None

    def _told_parent(self, agent: str) -> "str | None":
        from rlmnb.files import read_bytes
        from rlmnb.jsontext import loads

        path = self._event.text("transcript_path")
        if not calls.is_path(path) or not calls.is_path(agent) or "/" in agent:
            return None
        name = os.path.join(
            str(path).removesuffix(".jsonl"), "subagents", f"agent-{agent}.meta.json"
        )
        try:
            meta = loads(read_bytes(name))
        except (OSError, ValueError, RlmnbError):
            return None
        call = meta.get("toolUseId") if isinstance(meta, dict) else None
        found = self._progress.table("calls").get(call) if isinstance(call, str) else None
        return found if isinstance(found, str) else None

    def _agent_start(self) -> None:
        agent = self._event.text("agent_id")
        if not agent:
            return
        taken = {
            each.get("parent")
            for each in self._progress.table("agents").values()
            if isinstance(each, dict)
        }
        waiting = [
            pending["cell"]
            for pending in self._progress.table("pending").values()
            if isinstance(pending, dict) and "cell" in pending and pending["cell"] not in taken
        ]
        known = self._progress.table("agents").setdefault(agent, {})
        if waiting and "parent" not in known:
            known["parent"] = waiting[0]

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


def _dated(cell: "dict[str, Any]", at: str) -> "dict[str, Any]":
    """Return a cell as of the moment that it tells of."""
    if "cell_type" not in cell:
        return {**cell, "created_at": at, "completed_at": at}
    metadata = cell.get("metadata") or {}
    record = {**metadata.get("rlmnb_event", {}), "created_at": at}
    return {**cell, "metadata": {**metadata, "rlmnb_event": record}}


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
