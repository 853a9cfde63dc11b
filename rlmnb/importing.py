"""Bring past transcripts in: the sessions and cells that hooks would have made."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from rlmnb.capture.events import read_event
from rlmnb.capture.history import History
from rlmnb.capture.progress import Progress
from rlmnb.capture.redaction import clean
from rlmnb.capture.transcripts import Reader
from rlmnb.errors import RlmnbError
from rlmnb.ids import check_session_id
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
        for part, agent in _parts(path):
            _take_in_part(part, agent, recording, done, tell)
        return recording.count - before


def _parts(path: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield a transcript and those of its sub-agents."""
    yield path, {}
    directory = os.path.join(path.removesuffix(".jsonl"), "subagents")
    if os.path.isdir(directory):
        for name in sorted(os.listdir(directory)):
            if name.startswith("agent-") and name.endswith(".jsonl"):
                agent = name.removeprefix("agent-").removesuffix(".jsonl")
                yield os.path.join(directory, name), {"agent_id": agent}


def _take_in_part(
    path: str,
    agent: dict[str, str],
    recording: Recording,
    done: Imported,
    tell: Callable[[int, int], None],
) -> None:
    history = History(done.session_id, agent)
    bookmarks = recording.progress.table("imports")
    size = os.stat(path).st_size
    last: dict[str, object] = {}
    with Reader(path, bookmarks.get(path)) as reader:
        before = reader.offset
        for number, record in enumerate(reader, 1):
            last = record
            for payload in history.events(record):
                if payload["hook_event_name"] == "UserPromptSubmit":
                    # The next import goes on at a turn: no call of an earlier one waits here.
                    bookmarks[path] = reader.bookmark_at(before)
                    recording.reached_turn()
                _record(recording, payload)
            before = reader.offset
            if number % _TELL_EVERY == 0:
                tell(before, size)
        for payload in history.end(last):
            _record(recording, payload)
        if agent:
            bookmarks[path] = reader.bookmark
        done.skipped_lines += reader.skipped
    tell(size, size)
    recording.take_in_usage(path, subagent=bool(agent))
    if recording.count:
        recording.keep_unknown(clean(history.kept), history.unknown)
    for kind, count in history.unknown.items():
        done.unknown[kind] = done.unknown.get(kind, 0) + count


def _record(recording: Recording, payload: dict[str, object]) -> None:
    event = read_event(clean(payload))
    if event is not None:
        recording.take(event)
