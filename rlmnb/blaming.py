"""Which cell wrote a line: the file made again from what calls read, wrote and edited."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from difflib import SequenceMatcher
from typing import Any

from rlmnb import digest
from rlmnb.errors import InvalidNameError, ObjectError, RlmnbError
from rlmnb.files import open_regular, read_at
from rlmnb.session import Session
from rlmnb.store import project, sessions
from rlmnb.store.layout import sessions_root
from rlmnb.store.objects import Objects
from rlmnb.views import Cell, text_of

_WRITING = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit"})
_MOST_COMPARED = 4000
_LARGEST = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Author:
    """A cell that wrote a file, with why it did and where the repository stood."""

    session_id: str
    cell_id: str
    operation: str
    at: str
    title: str | None = None
    goal: str | None = None
    decision: str | None = None
    rationale: str | None = None
    head: str | None = None
    branch: str | None = None
    # The next commit that its session saw, which has the change if it was committed then.
    next_head: str | None = None


@dataclass(frozen=True, slots=True)
class Blame:
    """The answer: `how` is `line`, `text` or `file`, from what is sure to what is left."""

    path: str
    line: int | None
    text: str | None
    how: str
    authors: tuple[Author, ...]
    lines: Mapping[str, int] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return it for a script."""
        return {**asdict(self), "authors": [asdict(each) for each in self.authors]}


@dataclass(frozen=True, slots=True)
class _Step:
    """One call that read or wrote the file."""

    author: Author
    writes: bool
    whole: str | None = None
    edits: tuple[tuple[str, str, bool], ...] = ()

    def added(self) -> set[str]:
        """Return the lines that this call brought in."""
        texts = [self.whole or "", *(new for _, new, _ in self.edits)]
        gone = {line for old, _, _ in self.edits for line in old.splitlines()}
        return {line for text in texts for line in text.splitlines() if line.strip()} - gone


def blame(
    path: str, line: int | None = None, *, root: str | None = None, everywhere: bool = False
) -> Blame:
    """Find the cells that wrote a file, or one line of it, the newest first."""
    whole = os.path.abspath(os.path.expanduser(path))
    steps = sorted(_steps(whole, root, everywhere), key=lambda step: step.author.at)
    writers = [step for step in reversed(steps) if step.writes]
    lines, owners = _made_again(steps, _on_disk(whole))
    if line is not None and not 0 < line <= len(lines):
        raise InvalidNameError(f"{path} has {len(lines)} lines, found {line} after the colon")
    counts: dict[str, int] = {}
    for owner in owners:
        if owner is not None:
            counts[owner.cell_id] = counts.get(owner.cell_id, 0) + 1
    if line is None:
        return Blame(whole, None, None, "file", tuple(step.author for step in writers), counts)
    text = lines[line - 1]
    owner = owners[line - 1]
    if owner is not None:
        return Blame(whole, line, text, "line", (owner,))
    matching = [step.author for step in writers if _brought(step, text)]
    if matching:
        return Blame(whole, line, text, "text", tuple(matching[:1]))
    return Blame(whole, line, text, "file", tuple(step.author for step in writers[:1]))


def _brought(step: _Step, line: str) -> bool:
    if not line.strip():
        return False
    if step.author.operation == "NotebookEdit":
        # A notebook has its source as JSON texts, so the line holds more than was written.
        return any(added.strip() in line for added in step.added())
    return line in step.added()


def _on_disk(path: str) -> str | None:
    try:
        descriptor = open_regular(path)
    except (OSError, RlmnbError):
        return None
    try:
        return read_at(descriptor, 0, _LARGEST).decode("utf-8", "replace")
    finally:
        os.close(descriptor)


def _made_again(
    steps: Iterable[_Step], today: str | None
) -> tuple[list[str], Sequence[Author | None]]:
    """Return the lines of the file as it is, each with the cell that brought it in, if one did."""
    lines: list[str] | None = None
    owners: list[Author | None] = []
    for step in steps:
        new = step.whole
        if step.edits and lines is not None:
            new = _edited("".join(lines), step.edits)
        if new is not None:
            after = new.splitlines(keepends=True)
            owners = _carried(lines or [], owners, after, step.author if step.writes else None)
            lines = after
        elif step.writes:
            lines, owners = None, []  # what it was before is not known, so neither is where
    if today is not None:
        after = today.splitlines(keepends=True)
        owners = _carried(lines or [], owners, after, None)
        lines = after
    return [line.rstrip("\r\n") for line in lines or []], owners


def _edited(text: str, edits: Iterable[tuple[str, str, bool]]) -> str | None:
    for old, new, everywhere in edits:
        if old not in text:
            return None
        text = text.replace(old, new, -1 if everywhere else 1)
    return text


def _carried(
    old: list[str], owners: list[Author | None], new: list[str], by: Author | None
) -> list[Author | None]:
    """Let lines that stayed keep their owner; the others are by whoever made this version."""
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    middle, middle_new = old[start : len(old) - end], new[start : len(new) - end]
    found: list[Author | None] = [by] * len(middle_new)
    if 0 < max(len(middle), len(middle_new)) <= _MOST_COMPARED:
        matcher = SequenceMatcher(None, middle, middle_new, autojunk=False)
        for low, low_new, size in matcher.get_matching_blocks():
            found[low_new : low_new + size] = owners[start + low : start + low + size]
    return [*owners[:start], *found, *owners[len(old) - end :]]


def _steps(path: str, root: str | None, everywhere: bool) -> Iterator[_Step]:
    here = project.describe(os.path.dirname(path))["project"]
    base = root or sessions_root()
    for place in sessions.all_places(base):
        state = sessions.state_of(place)
        if not everywhere and sessions.section(state).get("project") != here:
            continue
        try:
            session = Session(place)
        except (OSError, RlmnbError):
            continue  # one that cannot be read must not hide the others
        yield from _steps_of(session, path, sessions.section(state).get("title"))


def _steps_of(session: Session, path: str, title: Any) -> Iterator[_Step]:
    touching = [
        cell
        for cell in session.cells
        if path in cell.entry.get("files_read", ()) or path in cell.entry.get("files_written", ())
    ]
    if not touching:
        return
    heads = [(cell.number, _commit(cell).get("head")) for cell in session.cells]
    for cell in touching:
        record = _record(cell)
        trace, commit = record.get("trace") or {}, _commit(cell)
        later = (
            head
            for number, head in heads
            if number > cell.number and head not in (None, commit.get("head"))
        )
        author = Author(
            session.id,
            cell.cell_id,
            str(cell.entry.get("operation") or cell.type),
            str(record.get("completed_at") or record.get("created_at") or ""),
            title if isinstance(title, str) else None,
            **{key: trace.get(key) for key in ("goal", "decision", "rationale")},
            head=commit.get("head"),
            branch=commit.get("branch"),
            next_head=next(later, None),
        )
        yield _step(session, cell, record, author, path)


def _record(cell: Cell) -> Mapping[str, Any]:
    found = cell.raw["metadata"].get("rlmnb")
    return found if isinstance(found, dict) else {}


def _commit(cell: Cell) -> Mapping[str, Any]:
    found = _record(cell).get("commit")
    return found if isinstance(found, dict) else {}


def _step(
    session: Session, cell: Cell, record: Mapping[str, Any], author: Author, path: str
) -> _Step:
    writes = path in cell.entry.get("files_written", ())
    given = record.get("input")
    args = given.get("args") if isinstance(given, dict) else None
    args = args if isinstance(args, dict) else {}
    if not writes:
        text = _read_whole(session, cell, path)
        return _Step(author, writes=False, whole=text)
    if author.operation == "Write":
        return _Step(author, writes=True, whole=_text(args.get("content"), session.objects))
    if author.operation not in _WRITING:
        return _Step(author, writes=True)
    listed = args.get("edits") if author.operation == "MultiEdit" else [args]
    edits = []
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, dict):
            old = _text(each.get("old_string"), session.objects) or ""
            new = _text(each.get("new_string", each.get("new_source")), session.objects) or ""
            edits.append((old, new, each.get("replace_all") is True))
    return _Step(author, writes=True, edits=tuple(edits))


def _read_whole(session: Session, cell: Cell, path: str) -> str | None:
    """Return what a call read of a file, if it is all of it: then its hash is the file's."""
    wanted = cell.entry["files_read"][path].get("hash")
    kept = [
        item.get("object")
        for item in (_record(cell).get("output") or {}).get("objects") or ()
        if isinstance(item, dict)
    ]
    texts = [_text({"object": name}, session.objects) for name in kept]
    texts += [text_of(cell.outputs), text_of(cell.outputs).removesuffix("\n")]
    return next(
        (text for text in texts if text is not None and digest.of_text(text) == wanted), None
    )


def _text(value: Any, objects: Objects) -> str | None:
    """Return an argument as it was, from among the objects if it was too long for the record."""
    if isinstance(value, str):
        return value
    name = value.get("object") if isinstance(value, dict) else None
    if not isinstance(name, str):
        return None
    try:
        return objects.get(name).decode("utf-8", "surrogateescape")
    except ObjectError:
        return None
