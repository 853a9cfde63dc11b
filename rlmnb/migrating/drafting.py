"""From the files of one old session to what is to be written, without writing anything."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from rlmnb import digest
from rlmnb.capture import calls as capturing
from rlmnb.errors import WorkingMemoryError
from rlmnb.format import times
from rlmnb.format.checks import checked_state
from rlmnb.jsontext import compact, portable, pretty, to_bytes
from rlmnb.migrating import frames as framing
from rlmnb.migrating import summaries
from rlmnb.migrating.calls import call_items, message_items, take_accesses, take_files
from rlmnb.migrating.conversation import Conversation, read_context, read_tools
from rlmnb.migrating.fields import ARTIFACTS, CONFIG, METADATA, STATE, Fields
from rlmnb.migrating.finding import OldSession
from rlmnb.migrating.items import Gathered, Item, in_order, made
from rlmnb.migrating.reading import Tree, hash_of, moment
from rlmnb.store import working

_LONGEST_LIST = 100
_EXTERNALIZED = re.compile(r"([a-z_]+)_([0-9]+)\.json")
_LINK = "rlm-state/current-transcript.jsonl"


@dataclass
class Draft:
    """A session as it will be: its state, cells, checkpoints and what has no place in those."""

    session_id: str
    hashes: dict[str, str]
    kept: Gathered = field(default_factory=Gathered)
    state: dict[str, Any] = field(default_factory=dict)
    cells: list[dict[str, Any]] = field(default_factory=list)
    checkpoints: list[tuple[str, bytes]] = field(default_factory=list)
    extras: dict[str, bytes] = field(default_factory=dict)
    unmapped: dict[str, Any] = field(default_factory=dict)
    problems: list[dict[str, str]] = field(default_factory=list)

    @property
    def source_hash(self) -> str:
        """The digest of all that it was made from."""
        return source_hash(self.hashes)

    @property
    def empty(self) -> bool:
        """Tell whether nothing could be read of what is this session's own."""
        told = {*self.state["migrated"]["provenance"].values(), *self.unmapped}
        own = [each for each in told if not each.endswith("rlm-config.json")]
        return not (self.cells or self.checkpoints or own)


def hashes_of(session: OldSession, root: str) -> dict[str, str]:
    """Return the digest of each file of an old session."""
    tree = Tree(root)
    return {each.path: hash_of(tree.absolute(each.path)) for each in session.files}


def source_hash(hashes: dict[str, str]) -> str:
    """Return one digest for all files."""
    return digest.of_value(hashes)


class _Drafting:
    def __init__(self, session: OldSession, root: str, transcript: str | None) -> None:
        self.session = session
        self.tree = Tree(root)
        self.draft = Draft(session.session_id, hashes_of(session, root))
        self.fields = Fields()
        self.said = Conversation()
        self.frames: list[Item] = []
        self.summaries: list[Item] = []
        self.transcript = transcript

    def unmapped(self, path: str, rest: Any) -> None:
        if rest:
            self.draft.unmapped[path] = rest

    @property
    def cwd(self) -> str:
        """Where the session was at work; empty if nobody knows."""
        told = self.fields.value("session.cwd")
        return told if capturing.is_path(told) and os.path.isabs(told) else ""

    def state(self) -> None:
        for path in self.session.of("state"):
            told = self.tree.object(path)
            found, rest = read_context(told)
            self.said.merge(found)
            self.unmapped(path, self.fields.take(rest, STATE, path))
        for path in self.session.of("metadata"):
            told = {
                key: each for key, each in self.tree.object(path).items() if key != "session_id"
            }
            self.unmapped(path, self.fields.take(told, METADATA, path))
            self.fields.set("session.transcript_path", self.transcript, _LINK)
        for path in self.session.of("artifacts"):
            told = {
                key: each for key, each in self.tree.object(path).items() if key != "session_id"
            }
            self.unmapped(path, self.fields.take(told, ARTIFACTS, path))
        for path in self.session.of("config"):
            self.unmapped(path, self.fields.take(self.tree.object(path), CONFIG, path))

    def conversation(self) -> None:
        told = Conversation()
        for path in self.session.of("tools"):
            calls, rest = read_tools(self.tree.lines(path))
            told.merge(Conversation(calls=calls))
            self.unmapped(path, rest)
        for path in self.session.of("context"):
            found, left = read_context(self.tree.object(path))
            told.merge(found)
            self.unmapped(path, left)
        told.merge(self.said)
        self.said = told
        take_files(told, self.tree)
        accesses: list[dict[str, Any]] = []
        for path in self.session.of("file-access"):
            lines = self.tree.lines(path)
            accesses += lines
            self.unmapped(path, take_accesses(self.said, lines))
        if accesses:
            text = "".join(compact(each) + "\n" for each in accesses)
            self.draft.extras["legacy/file-access.jsonl"] = to_bytes(text)

    def framed(self) -> None:
        found: list[list[Any]] = []
        for path in self.session.of("frames"):
            if path.endswith(".jsonl"):
                found.append(self.tree.lines(path))
                continue
            told = self.tree.object(path)
            rest = {key: each for key, each in told.items() if key not in ("session_id", "frames")}
            listed = told.get("frames")
            if listed is not None and not isinstance(listed, list):
                rest["frames"] = listed
            self.unmapped(path, rest)
            # What is appended line by line is newer than what was written as a whole.
            found.insert(0, listed if isinstance(listed, list) else [])
        frames, odd = framing.gathered(*found)
        self.unmapped("frames", odd)
        self.frames = framing.frame_items(frames, self.session.session_id, self.cwd)

    def endings(self) -> None:
        key = self.session.session_id
        for path in self.session.of("trajectory"):
            if (value := self.tree.value(path)) is not None:
                self.summaries.append(summaries.summary_item(value, path, key, self.draft.kept))
        taken: dict[int, dict[str, str]] = defaultdict(dict)
        for path in self.session.of("externalized"):
            match = _EXTERNALIZED.fullmatch(path.rpartition("/")[2])
            if match is not None:
                taken[int(match[2])][match[1]] = path
        for at, paths in sorted(taken.items()):
            if "manifest" in paths:
                self.unmapped(paths["manifest"], self.tree.object(paths["manifest"]))
            if set(paths) == {"manifest"}:
                continue
            data, rest = summaries.checkpoint(key, at, paths, self.tree, self.draft.kept, self.cwd)
            self.unmapped(f"externalized at {at}", rest)
            self.draft.checkpoints.append((moment(at) or moment(0) or "", data))

    def finish(self) -> Draft:
        draft, key = self.draft, self.session.session_id
        groups = [
            message_items(self.said, key),
            call_items(self.said, key, draft.kept, self.cwd),
            self.frames,
            self.summaries,
        ]
        known = sorted(item.at for group in groups for item in group if item.at)
        begun = self.fields.value("session.created_at") or (known[0] if known else self._written())
        items = in_order(groups, begun)
        draft.cells = made(items, draft.kept)
        last = max([begun, *known])
        draft.state = self.fields.state(key, begun, last)
        self._title(draft.state)
        draft.state["context"]["working_memory"] = self._memory()
        draft.problems = self.tree.problems.found
        draft.state["migrated"] = {
            "at": times.now(),
            "source_hash": draft.source_hash,
            "legacy_ids": self.session.legacy_ids,
            "files": draft.hashes,
            "provenance": self.fields.provenance,
            "unmapped": named(draft.unmapped),
            "problems": draft.problems,
        }
        if draft.unmapped:
            draft.extras["legacy/unmapped.json"] = to_bytes(pretty(draft.unmapped) + "\n")
        draft.state = portable(draft.state)
        checked_state(draft.state, key)
        return draft

    def _written(self) -> str:
        """Return when the oldest of the files was written: better than saying today."""
        found = []
        for each in self.session.files:
            try:
                found.append(os.lstat(self.tree.absolute(each.path)).st_mtime)
            except OSError:
                continue
        return moment(min(found, default=0)) or times.now()

    def _title(self, state: dict[str, Any]) -> None:
        asked = next((each["content"] for each in self.said.messages if each["role"] == "user"), "")
        title = next((line.strip() for line in asked.splitlines() if line.strip()), "")
        if title:
            state["session"].setdefault("title", title[:80])

    def _memory(self) -> dict[str, Any]:
        try:
            return working.fitted(self.said.memory, self.draft.kept)
        except WorkingMemoryError as error:
            name = "legacy/working-memory.json"
            self.draft.extras[name] = to_bytes(pretty(self.said.memory) + "\n")
            self.tree.problems.add(name, f"{error.message}; it is kept in this file")
            return {}


def named(unmapped: dict[str, Any]) -> dict[str, list[str]]:
    """Return only the names of what has no place; a list of things is told by its length."""
    return {
        path: sorted(rest)[:_LONGEST_LIST] if isinstance(rest, dict) else [f"{len(rest)} entries"]
        for path, rest in unmapped.items()
    }


def draft(session: OldSession, root: str, transcript: str | None = None) -> Draft:
    """Read an old session and return what it becomes."""
    work = _Drafting(session, root, transcript)
    work.state()
    work.conversation()
    work.framed()
    work.endings()
    return work.finish()
