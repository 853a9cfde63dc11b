"""What becomes a cell, before it is one: put in order, linked, and made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rlmnb import digest
from rlmnb.errors import RlmnbError
from rlmnb.format import cells as making
from rlmnb.format.checks import check_record
from rlmnb.ids import Digest
from rlmnb.jsontext import compact, portable
from rlmnb.store.objects import Objects
from rlmnb.store.previews import fit_outputs

_LONGEST_TEXT = making.PREVIEW_LIMIT


class Gathered(Objects):
    """Objects that are to be stored, held until the session is."""

    def __init__(self) -> None:
        super().__init__("")
        self.kept: dict[str, bytes] = {}

    def put(self, data: bytes) -> Digest:
        """Hold these bytes and return their digest."""
        name = digest.of_bytes(data)
        self.kept[name] = data
        return name

    def keep(self, text: str) -> str:
        """Hold a text and return its digest."""
        return self.put(text.encode("utf-8", "surrogateescape"))


@dataclass(slots=True)
class Item:
    """One cell to be. `key` makes its id, the same at every migration."""

    key: str
    fields: dict[str, Any]
    at: str | None = None
    parent: str | None = None
    wants: list[tuple[str, str]] = field(default_factory=list)
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    cell_id: str = field(init=False)

    def __post_init__(self) -> None:
        self.cell_id = digest.derived_id("migrated", self.key)


def note(key: str, source: str, kind: str, at: str | None, **more: Any) -> Item:
    """Make a text cell that tells of something that happened."""
    event = {"type": kind, **more}
    return Item(key, {"cell_type": "markdown", "source": source, "event": event}, at)


def long_note(key: str, title: str, text: str, kind: str, at: str | None, kept: Gathered) -> Item:
    """Make a text cell of something that may be too long to read: then all of it is an object."""
    data = text.encode("utf-8", "backslashreplace")
    if len(data) > _LONGEST_TEXT:
        text = making.preview(text, kept.put(data), len(data))
    return note(key, f"**{title}**\n\n```\n{text.replace('```', '` ` `')}\n```", kind, at)


def in_order(groups: Iterable[list[Item]], begun: str) -> list[Item]:
    """Put items by time, what has none after what stood before it; parents before children."""
    dated: list[tuple[str, Item]] = []
    for group in groups:
        last = begun
        for item in group:
            last = item.at = item.at or last
            dated.append((last, item))
    dated.sort(key=lambda pair: pair[0])
    by_id = {item.cell_id: item for _, item in dated}
    done: dict[str, Item] = {}
    for _, item in dated:
        waiting: dict[str, Item] = {}
        here: Item | None = item
        while here is not None and here.cell_id not in done and here.cell_id not in waiting:
            waiting[here.cell_id] = here
            here = by_id.get(here.parent) if here.parent else None
        for each in reversed(waiting.values()):
            done[each.cell_id] = each
    return list(done.values())


def made(items: list[Item], kept: Gathered) -> list[dict[str, Any]]:
    """Make the cells. What one builds on must stand above it; a file ties it to its last writer."""
    cells: list[dict[str, Any]] = []
    writers: dict[str, str] = {}
    known = {item.cell_id for item in items}
    above: set[str] = set()
    for item in items:
        edges = {cell_id: reason for cell_id, reason in item.wants if cell_id in above}
        for path in (*item.reads, *item.writes):
            if path in writers:
                edges.setdefault(writers[path], f"file {path.rpartition('/')[2] or path}")
        parent = item.parent if item.parent in known and item.parent != item.cell_id else None
        cells.append(_cell(item, edges, parent, kept))
        above.add(item.cell_id)
        writers |= dict.fromkeys(item.writes, item.cell_id)
    return cells


def _cell(item: Item, edges: dict[str, str], parent: str | None, kept: Gathered) -> dict[str, Any]:
    fields = item.fields
    if "cell_type" in fields:
        event = {**fields["event"], "created_at": item.at}
        return _text_cell(item.cell_id, fields["source"], event)
    fields = {key: value for key, value in fields.items() if value is not None}
    fields |= {"created_at": item.at, "completed_at": fields.get("completed_at") or item.at}
    fields["dependencies"] = [{"cell_id": each, "reason": why} for each, why in edges.items()]
    if parent is not None:
        fields["parent_id"] = parent
    try:
        whole = making.complete(fields)
        check_record(whole)
        return making.named(fit_outputs(whole, kept), item.cell_id)
    except RlmnbError as error:
        # Whatever it is, it is kept where a person can read it.
        shown = compact(portable(item.fields))
        event = {"type": "legacy", "problem": error.message, "created_at": item.at}
        data = shown.encode("utf-8", "backslashreplace")
        if len(data) > _LONGEST_TEXT:
            shown = making.preview(shown, kept.put(data), len(data))
        shown = shown.replace("```", "` ` `")
        return _text_cell(item.cell_id, f"*kept as it was*\n\n```json\n{shown}\n```", event)


def _text_cell(cell_id: str, source: str, event: dict[str, Any]) -> dict[str, Any]:
    metadata = {"rlmnb_event": portable(event)}
    return making.named({**making.markdown_cell(source), "metadata": metadata}, cell_id)
