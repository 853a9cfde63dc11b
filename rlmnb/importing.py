"""Bring past transcripts in: the sessions and cells that hooks would have made."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rlmnb.capture.events import read_event
from rlmnb.capture.history import History
from rlmnb.capture.progress import Progress
from rlmnb.capture.redaction import clean
from rlmnb.capture.transcripts import Reader
from rlmnb.errors import RlmnbError
from rlmnb.files import read_bytes
from rlmnb.ids import check_session_id
from rlmnb.jsontext import loads
from rlmnb.recording.events import Recording
from rlmnb.store.layout import session_place

_TELL_EVERY = 500


@dataclass
class Imported:
    """What became of one transcript."""

    path: str
    session_id: str = ""
    status: str = "imported"
    reason: str = ""
    cells: int = 0
    skipped_lines: int = 0
    unknown: dict[str, int] = field(default_factory=dict)


def find_transcripts(environ: dict[str, str] | None = None) -> list[str]:
    """Return every transcript that Claude Code has kept, the oldest first."""
    values = os.environ if environ is None else environ
    home = values.get("CLAUDE_CONFIG_DIR") or os.path.join("~", ".claude")
    root = os.path.join(os.path.expanduser(home), "projects")
    found = []
    for directory, names, files in os.walk(root):
        names[:] = [name for name in names if name != "subagents"]
        found += [os.path.join(directory, name) for name in files if name.endswith(".jsonl")]
    return sorted(found, key=lambda path: (os.stat(path).st_mtime, path))


def import_transcript(path: str, tell: Callable[[int, int], None] = lambda *_: None) -> Imported:
    """Bring one transcript in, on from where an earlier import of it stopped.

    `tell` hears how many of how many bytes were read. A session that hooks have recorded is left
    as it is: it has more than a transcript tells.
    """
    done = Imported(path)
    try:
        name = os.path.basename(path).removesuffix(".jsonl")
        done.session_id = check_session_id(name)
        place = session_place(done.session_id)
        known = Progress(place.directory)
        if place.exists() and not known.value("imported"):
            done.status, done.reason = "skipped", "hooks have recorded this session"
            return done
        done.cells = _take_in(path, done, tell)
        if not done.cells:
            done.status = "unchanged" if place.exists() else "empty"
    except (OSError, RlmnbError) as error:
        done.status, done.reason = "failed", str(error)
    return done


def _take_in(path: str, done: Imported, tell: Callable[[int, int], None]) -> int:
    place = session_place(done.session_id)
    with Recording.batch(place) as recording:
        recording.progress.keep("imported", True)
        before = recording.count
        part = _Part(recording, done, _agents(path), tell)
        part.take_in(path, {})
        for agent in list(part.waiting):
            part.take_in_agent(agent)
        return recording.count - before


@dataclass
class _Agent:
    """A sub-agent that left a transcript of its own, and the call that asked for it."""

    path: str
    call: str | None
    kind: str | None


def _agents(path: str) -> dict[str, _Agent]:
    directory = os.path.join(path.removesuffix(".jsonl"), "subagents")
    found: dict[str, _Agent] = {}
    for name in sorted(os.listdir(directory)) if os.path.isdir(directory) else ():
        if name.startswith("agent-") and name.endswith(".jsonl"):
            file = os.path.join(directory, name)
            told = _told_of(file.removesuffix(".jsonl") + ".meta.json")
            agent = _Agent(file, told.get("toolUseId"), told.get("agentType"))
            found[name.removeprefix("agent-").removesuffix(".jsonl")] = agent
    return found


def _told_of(path: str) -> dict[str, str]:
    """Return what the client wrote beside the transcript of an agent: who asked, and for what."""
    try:
        told = loads(read_bytes(path))
    except (OSError, ValueError, RecursionError, RlmnbError):
        return {}
    items = told.items() if isinstance(told, dict) else ()
    return {key: value for key, value in items if isinstance(value, str)}


@dataclass
class _Part:
    """A session on its way in: its transcript, and those of its sub-agents where they belong."""

    recording: Recording
    done: Imported
    waiting: dict[str, _Agent]
    tell: Callable[[int, int], None]

    def take_in(self, path: str, agent: dict[str, str]) -> None:
        """Bring one transcript in, from where it was left."""
        history = History(self.done.session_id, agent)
        bookmarks = self.recording.progress.table("imports")
        size = os.stat(path).st_size
        last: dict[str, object] = {}
        with Reader(path, bookmarks.get(path)) as reader:
            before = reader.offset
            for number, record in enumerate(reader, 1):
                last = record
                for payload in history.events(record):
                    if payload["hook_event_name"] == "UserPromptSubmit" and not history.waits:
                        # The next import goes on at a turn: no call of an earlier one waits here.
                        bookmarks[path] = reader.bookmark_at(before)
                        self.recording.reached_turn()
                    self._take_in_agent_of(payload)
                    _record(self.recording, payload)
                before = reader.offset
                if history.keeps_much:
                    self._keep_unknown(history)
                if number % _TELL_EVERY == 0:
                    self.tell(before, size)
            for payload in history.end(last):
                _record(self.recording, payload)
            if agent:
                bookmarks[path] = reader.bookmark
            self.done.skipped_lines += reader.skipped
        self.tell(size, size)
        self.recording.take_in_usage(path, subagent=bool(agent))
        self._keep_unknown(history)
        for kind, count in history.unknown.items():
            self.done.unknown[kind] = self.done.unknown.get(kind, 0) + count

    def _keep_unknown(self, history: History) -> None:
        # An import that finds nothing new has kept them already.
        if self.recording.count:
            records, kinds = history.take_unknown()
            self.recording.keep_unknown(clean(records), kinds)

    def _take_in_agent_of(self, payload: dict[str, Any]) -> None:
        """Bring in the agent that a call asked for, before what the call came to."""
        if payload["hook_event_name"] not in ("PostToolUse", "PostToolUseFailure"):
            return
        call, answer = payload["tool_use_id"], payload.get("tool_response")
        named = answer.get("agentId") if isinstance(answer, dict) else None
        for agent, told in list(self.waiting.items()):
            if call == told.call or agent == named:
                told.call = call
                self.take_in_agent(agent)

    def take_in_agent(self, agent: str) -> None:
        """Bring the transcript of one agent in, once."""
        told = self.waiting.pop(agent, None)
        if told is not None:
            known = {"imported_parent": told.call, "agent_type": told.kind}
            self.take_in(told.path, {"agent_id": agent, **{k: v for k, v in known.items() if v}})


def _record(recording: Recording, payload: dict[str, object]) -> None:
    event = read_event(clean(payload))
    if event is not None:
        recording.take(event)
