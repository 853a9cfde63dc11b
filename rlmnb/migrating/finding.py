"""Find what the earlier tools have kept, and say of each file whose it is.

    rlm-state/         context.json, {id}.json, {id}_context.json, session-metadata.json,
                       file-access-{id}.jsonl, current-transcript.jsonl (a link)
    rlm-frames/        {id}/index.json, frames.jsonl, tools.jsonl, artifacts.json; .current_session
    rlm-externalized/  {id}/conversation_{time}.json, files_, tool_outputs_, manifest_
    rlm-trajectories/  {date}_{id}_summary.json and others
    rlm-config.json, rlm-memory.db

The last four stand beside `rlm-state/` or inside it. No link is followed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from rlmnb.errors import InvalidNameError, SessionNotFoundError
from rlmnb.ids import check_session_id
from rlmnb.migrating.reading import Tree

_DIRECTORIES = ("rlm-state", "rlm-frames", "rlm-externalized", "rlm-trajectories")
_SHORT = 8
_FRAME_FILES = {
    "index.json": "frames",
    "frames.jsonl": "frames",
    "tools.jsonl": "tools",
    "artifacts.json": "artifacts",
}
_EXTERNALIZED = re.compile(r"(conversation|files|tool_outputs|manifest)_([0-9]{1,15})\.json")
_SUMMARY = re.compile(r"(?:[0-9]{8}_)?(.+?)_(?:summary|trajectory)\.json")
_NOT_FOLLOWED = "is a symbolic link, and is not followed"

BECOMES = {
    "state": "the session's state",
    "context": "text and tool cells, working memory",
    "metadata": "the session's transcript path, directory and beginning",
    "file-access": "when calls were made, and calls that nothing else tells of",
    "frames": "cells with parent, depth, confidence and status",
    "tools": "tool cells",
    "artifacts": "the session's title and transcript path",
    "externalized": "checkpoints",
    "trajectory": "a summary cell",
    "config": "budget and activation",
    "memory": "a file of JSON lines, kept until there is a memory to take them in",
}


@dataclass(frozen=True, slots=True)
class OldFile:
    """One file of the earlier tools: its path below their root, and what kind it is."""

    path: str
    kind: str


@dataclass
class OldSession:
    """The files of one session, under whichever of its names they were kept."""

    session_id: str
    legacy_ids: list[str] = field(default_factory=list)
    files: list[OldFile] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def of(self, kind: str) -> list[str]:
        """Return the paths of the files of a kind."""
        return [each.path for each in self.files if each.kind == kind]


@dataclass
class Found:
    """All that there is below an old root."""

    root: str
    sessions: list[OldSession] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    orphans: dict[str, str] = field(default_factory=dict)
    memory: list[str] = field(default_factory=list)
    transcript: str | None = None


def default_root() -> str:
    """Return where the earlier tools kept their state."""
    home = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.join("~", ".claude")
    return os.path.expanduser(home)


class _Search:
    def __init__(self, root: str) -> None:
        self.found = Found(root)
        self.files: dict[str, list[OldFile]] = {}
        self.shared: dict[str, str] = {}
        self.unclaimed: list[str] = []

    def add(self, legacy_id: str, path: str, kind: str) -> None:
        self.files.setdefault(legacy_id, []).append(OldFile(path, kind))

    def orphan(self, path: str, reason: str = "is nothing that is known") -> None:
        self.found.orphans[path] = reason

    def entries(self, path: str, *, directories: bool = False) -> Iterator[str]:
        """Yield the plain files, or the directories, of a directory; tell of what is neither."""
        where = os.path.join(self.found.root, *path.split("/"))
        if os.path.islink(where):
            self.orphan(path, _NOT_FOLLOWED)
            return
        try:
            entries = sorted(os.scandir(where), key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            self.orphan(path, f"cannot be listed: {error.strerror}")
            return
        for entry in entries:
            inside = f"{path}/{entry.name}"
            if entry.is_symlink():
                self._link(inside, entry.path)
            elif entry.is_dir(follow_symlinks=False):
                if directories:
                    yield entry.name + "/"
                elif entry.name not in _DIRECTORIES:
                    self.orphan(inside, "is a directory, wanted a file")
            elif not entry.is_file(follow_symlinks=False):
                self.orphan(inside, "is neither a file nor a directory")
            else:
                yield entry.name

    def _link(self, path: str, where: str) -> None:
        if path != "rlm-state/current-transcript.jsonl":
            self.orphan(path, _NOT_FOLLOWED)
            return
        target = os.path.realpath(where)
        if os.path.isfile(target):
            self.found.transcript = target
        else:
            self.orphan(path, f"leads to {target}, which is gone")

    def state(self) -> None:
        for name in self.entries("rlm-state"):
            path = f"rlm-state/{name}"
            if name in ("context.json", "session-metadata.json"):
                self.shared[name] = path
            elif name in ("rlm-config.json", "rlm-memory.db") or name.startswith("rlm-memory.db-"):
                continue  # found below
            elif name.startswith("file-access-") and name.endswith(".jsonl"):
                self.add(name[len("file-access-") : -len(".jsonl")], path, "file-access")
            elif name.endswith("_context.json"):
                self.add(name.removesuffix("_context.json"), path, "context")
            elif name.endswith(".json"):
                self.add(name.removesuffix(".json"), path, "state")
            elif name == "current-transcript.jsonl":
                self.orphan(path, "is a transcript: rlmnb import claude takes those in")
            elif name.endswith(".tmp"):
                self.orphan(path, "was never finished by whoever wrote it")
            else:
                self.orphan(path)

    def frames(self, base: str) -> None:
        where = f"{base}rlm-frames"
        for name in self.entries(where, directories=True):
            path = f"{where}/{name}"
            if name.endswith("/"):
                for inner in self.entries(path[:-1]):
                    kind = _FRAME_FILES.get(inner)
                    if kind is None:
                        self.orphan(path + inner)
                    else:
                        self.add(name[:-1], path + inner, kind)
            elif name.endswith("_artifacts.json"):
                self.add(name.removesuffix("_artifacts.json"), path, "artifacts")
            elif name.endswith(".jsonl"):
                self.add(name.removesuffix(".jsonl"), path, "frames")
            elif name != ".current_session":  # which process was at work then: dropped
                self.orphan(path)

    def externalized(self, base: str) -> None:
        where = f"{base}rlm-externalized"
        for name in self.entries(where, directories=True):
            path = f"{where}/{name}"
            if not name.endswith("/"):
                self.orphan(path)
                continue
            for inner in self.entries(path[:-1]):
                if _EXTERNALIZED.fullmatch(inner):
                    self.add(name[:-1], path + inner, "externalized")
                else:
                    self.orphan(path + inner)

    def trajectories(self, base: str) -> None:
        for name in self.entries(f"{base}rlm-trajectories"):
            path = f"{base}rlm-trajectories/{name}"
            if name.endswith(".json"):
                self.unclaimed.append(path)
            else:
                self.orphan(path)

    def single_files(self, base: str) -> None:
        for name in ("rlm-config.json", "rlm-memory.db"):
            path = os.path.join(self.found.root, base, name)
            if os.path.islink(path):
                self.orphan(base + name, _NOT_FOLLOWED)
            elif os.path.lexists(path):
                if name == "rlm-memory.db":
                    self.found.memory.append(base + name)
                elif name in self.shared:
                    self.orphan(base + name, f"stands beside {self.shared[name]}, which counts")
                else:
                    self.shared[name] = base + name


def find(root: str) -> Found:
    """Look through an old root; nothing is changed."""
    root = os.path.realpath(os.path.expanduser(root))
    if os.path.basename(root) in _DIRECTORIES:
        root = os.path.dirname(root)
    if not os.path.isdir(root):
        raise SessionNotFoundError(
            f"{root}: is no directory",
            hint="name the one that holds rlm-state or rlm-frames: rlmnb migrate ~/.claude",
        )
    search = _Search(root)
    search.state()
    for base in ("", "rlm-state/"):
        search.frames(base)
        search.externalized(base)
        search.trajectories(base)
        search.single_files(base)
    _give_shared(search)
    _give_trajectories(search)
    _group(search)
    return search.found


def _give_shared(search: _Search) -> None:
    """Give the files that name no session to the session they are of."""
    tree = Tree(search.found.root)
    current = None
    if path := search.shared.get("session-metadata.json"):
        told = tree.object(path).get("session_id")
        current = told if isinstance(told, str) and told else None
        if current is None:
            why = tree.problems.found[-1]["reason"] if tree.problems.found else "names no session"
            search.orphan(path, why)
        else:
            search.add(current, path, "metadata")
    if path := search.shared.get("context.json"):
        told = tree.object(path).get("session_id")
        ids = [*search.files]
        only = ids[0] if len(ids) == 1 else "legacy-context"
        search.add(told if isinstance(told, str) and told else current or only, path, "context")


def _give_trajectories(search: _Search) -> None:
    tree = Tree(search.found.root)
    known = sorted(search.files, key=len, reverse=True)
    for path in search.unclaimed:
        name = path.rpartition("/")[2]
        match = _SUMMARY.fullmatch(name)
        owner = match[1] if match else next((each for each in known if each in name), None)
        if owner is None:
            told = tree.value(path)
            owner = told.get("session_id") if isinstance(told, dict) else None
        if isinstance(owner, str) and owner:
            search.add(owner, path, "trajectory")
        else:
            search.orphan(path, "names no session")


def _group(search: _Search) -> None:
    """Put the files of a session together that were kept under its whole id and the short one."""
    found = search.found
    good = []
    for legacy_id, files in search.files.items():
        try:
            good.append(str(check_session_id(legacy_id)))
        except InvalidNameError as error:
            found.refused[legacy_id] = error.message
            for each in files:
                search.orphan(each.path, error.message)
    sessions: dict[str, OldSession] = {}
    for legacy_id in sorted(good):
        longer = [
            each for each in good if len(legacy_id) == _SHORT < len(each)
            and each.startswith(legacy_id)
        ]  # fmt: skip
        session_id = longer[0] if len(longer) == 1 else legacy_id
        session = sessions.setdefault(session_id, OldSession(session_id))
        session.legacy_ids.append(legacy_id)
        session.files += search.files[legacy_id]
        if len(longer) > 1:
            session.notes.append(f"{len(longer)} sessions begin with {legacy_id}: kept apart")
    config = search.shared.get("rlm-config.json")
    for session in sessions.values():
        if config is not None:
            session.files.append(OldFile(config, "config"))
        session.files.sort(key=lambda each: each.path)
    if config is not None and not sessions:
        search.orphan(config, "there is no session to give it to")
    found.sessions = [sessions[name] for name in sorted(sessions)]
