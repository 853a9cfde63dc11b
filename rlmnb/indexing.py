"""Bring a session's index up to date with as little work as the change allows.

Nothing changed: the index is read and nothing else. Cells were appended: only those are parsed.
Anything else: the notebook is parsed whole, and what people did to it is said.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import Any

from rlmnb.errors import LockTimeoutError, NotebookError, StorageError
from rlmnb.format.migrations import migrate
from rlmnb.format.version import SCHEMA
from rlmnb.graph.changes import Finding, arrivals, changes_between
from rlmnb.graph.facts import facts_of
from rlmnb.graph.index import Index, extend, facts_in, link
from rlmnb.store import byhand, index_file, journal, notebook
from rlmnb.store.fold import Folded, fold
from rlmnb.store.layout import Place

_PATIENCE = 5.0
_DIGEST_SIZE = 12


@dataclass(frozen=True, slots=True)
class Reading:
    """A session's index, and what was found on the way to it."""

    index: Index
    findings: tuple[Finding, ...] = ()
    folded: Folded | None = None
    # The notebook that was parsed on the way, where it was.
    whole: dict[str, Any] | None = None


def catch_up(place: Place) -> Folded | None:
    """Bring in what the journal has and the notebook has not; None if there is nothing."""
    newest = journal.last_seq(place.journal)
    if not os.path.lexists(place.notebook) and os.path.lexists(place.journal):
        return fold(place, max(newest, 0), timeout=_PATIENCE)  # killed before there was one
    if newest < 0 and not os.path.isdir(place.spill):
        return None
    tail = notebook.peek_tail(place.notebook)
    waiting = os.path.isdir(place.spill) and bool(os.listdir(place.spill))
    if tail is not None and tail.appended >= newest and not waiting:
        return None
    if waiting:
        from rlmnb.store.append import write_entry

        try:
            newest = write_entry(place, None)
        except (LockTimeoutError, StorageError):
            return None  # they wait a little longer
    return fold(place, newest, timeout=_PATIENCE)


def read_index(place: Place, *, keep: bool = True) -> Reading:
    """Return an index that describes the notebook as it is now; `keep` writes it back."""
    folded = catch_up(place)
    if folded is not None and folded.why_not and not os.path.lexists(place.notebook):
        raise NotebookError(folded.why_not, hint=f"run: rlmnb doctor --fix {place.word}")
    old = index_file.load(place)
    if old is not None and old["notebook"].get("by_hand") != byhand.version(place):
        return _read_anew(place, old, folded, keep=keep)
    status = os.lstat(place.notebook)
    if old is not None and index_file.matches(old, place, status):
        return Reading(old, folded=folded)
    data, status = _read(place)
    if old is not None and old["notebook"].get("digest") == index_file.digest_from(data):
        seen = index_file.describe(status)
        if {**old["notebook"], **seen} == old["notebook"]:
            if keep:
                index_file.settle(place)
            return Reading(old, folded=folded)
    grown = _extended(place, old, data, status) if old is not None else None
    if grown is None:
        return _read_anew(place, old, folded, keep=keep)
    index, findings = grown
    if (tail := notebook.tail_of(data)) is not None:
        refuse_newer(tail.metadata, place)
    if keep:
        index_file.save(place, index)
    return Reading(index, tuple(findings), folded)


def _read_anew(place: Place, old: Index | None, folded: Folded | None, *, keep: bool) -> Reading:
    """Parse the notebook whole."""
    index, whole = _rebuilt(place, old)
    refuse_newer(whole["metadata"], place)
    if keep:
        index_file.save(place, index)
    return Reading(index, tuple(changes_between(old, index)), folded, whole)


def refuse_newer(metadata: dict[str, Any], place: Place) -> None:
    """Refuse what a newer version wrote; what a hand has broken can still be read around."""
    state = metadata.get("rlmnb")
    found = state.get("schema_version") if isinstance(state, dict) else None
    if isinstance(state, dict) and isinstance(found, int) and found > SCHEMA:
        migrate(state, place.notebook)


def _read(place: Place) -> tuple[bytes, os.stat_result]:
    with notebook.OpenNotebook(place.notebook) as opened:
        return opened.read(), opened.status


def rebuild(place: Place) -> Index:
    """Make the index from the notebook alone."""
    return _rebuilt(place, None)[0]


def _rebuilt(place: Place, old: Index | None) -> tuple[Index, dict[str, Any]]:
    """Make the index anew; an old one only spares looking again at cells that it knows."""
    by_hand = byhand.version(place)
    data, status, whole, texts = notebook.read_version(place.notebook)
    byhand.lay_over(place, whole)
    cells = whole["cells"]
    digests = [_digest(text) for text in texts] if texts is not None else None
    known = _known(old, cells, digests) if old and not by_hand else {}
    sources = {entry["source_hash"]: entry for entry in old["cells"].values()} if old else None
    facts = [
        facts_in(known[number]) if number in known else facts_of(cell, number, sources)
        for number, cell in enumerate(cells)
    ]
    tail = notebook.tail_of(data)
    end = tail.cells_end if tail is not None and not tail.empty else None
    about = _about(place, whole["metadata"], data, status, end, by_hand, digests)
    linked = link(facts, about)
    same = {entry["cell_id"] for entry in known.values()}
    # As it comes back from disk, so that two of them can be compared.
    entries = index_file.as_entries(linked["cells"], old["cells"] if old else None, same)
    return {**linked, "cells": entries}, whole


def _known(
    old: Index, cells: list[dict[str, Any]], digests: list[str] | None
) -> dict[int, dict[str, Any]]:
    """Return what the index has of the cells whose text is what it was, by their places now."""
    texts = (old["notebook"].get("texts") or "").split()
    if digests is None or len(texts) != len(old["cells"]) or old["tangled"]:
        return {}
    if old["notebook"].get("by_hand"):
        return {}  # what was run by hand is not in the text
    entries = dict(zip(texts, old["cells"].values(), strict=True))
    found = {number: entries.get(digest) for number, digest in enumerate(digests)}
    # A cell without an id is called by its place, and that may be another now.
    return {
        number: entry
        for number, entry in found.items()
        if entry is not None and entry["cell_id"] == cells[number].get("id")
    }


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8"), digest_size=_DIGEST_SIZE).hexdigest()


def _about(
    place: Place,
    metadata: dict[str, Any],
    data: bytes,
    status: os.stat_result,
    cells_end: int | None,
    by_hand: list[int] | None,
    digests: list[str] | None,
) -> dict[str, Any]:
    prefix = hashlib.sha256(data[:cells_end]) if cells_end else None
    return {
        "session_id": place.session_id,
        "generation": max(notebook.appended_of(metadata), 0),
        "notebook": {
            "digest": index_file.digest_from(data),
            **index_file.describe(status),
            "by_hand": by_hand,
            "cells_end": cells_end,
            "cells_digest": f"sha256:{prefix.hexdigest()}" if prefix else None,
            # Of each cell, to know again those that stay as they are.
            "texts": " ".join(digests) if digests is not None else None,
        },
    }


def _extended(
    place: Place, old: Index, data: bytes, status: os.stat_result
) -> tuple[Index, list[Finding]] | None:
    """Return the old index with the cells that were added at its end since, and who added them.

    None if more than that has changed.
    """
    end = old["notebook"].get("cells_end")
    if not isinstance(end, int) or len(data) <= end:
        return None
    hasher = hashlib.sha256(memoryview(data)[:end])
    if old["notebook"].get("cells_digest") != f"sha256:{hasher.hexdigest()}":
        return None
    tail = notebook.tail_of(data)
    if tail is None or tail.cells_end < end:
        return None
    added, texts = notebook.texts_of(data, tail, after=end), old["notebook"].get("texts")
    if added is None or texts is None:
        return None
    facts = [facts_of(cell, number) for number, (cell, _) in enumerate(added, len(old["cells"]))]
    digests = [*texts.split(), *(_digest(text) for _, text in added)]
    by_hand = byhand.version(place)
    about = _about(place, tail.metadata, data, status, tail.cells_end, by_hand, digests)
    grown = extend(old, facts, about)
    if grown is None:
        return None
    index, changed = grown
    new = [changed[fact["cell_id"]] for fact in facts]
    return {**index, "cells": old["cells"].with_changes(changed)}, arrivals(new)
