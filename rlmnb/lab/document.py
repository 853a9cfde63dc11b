"""A live document: journal entries become edits of it, small ones, so that nobody's typing is lost.

The document is jupyter-ydoc's notebook, shared with every browser that has it open. A new cell goes
to its end; a result goes into the outputs and the record of its cell and touches nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import nbformat
from nbformat.v4.rwbase import rejoin_lines

from rlmnb.store import fold, notebook
from rlmnb.store.layout import Place

if TYPE_CHECKING:
    from rlmnb.store.journal import Entry

_SHARED_KEYS = ("rlmnb", "widgets")


def appended_in(document: Any) -> int:
    """Return how far a live document is, -1 if it does not say."""
    return notebook.appended_of(_metadata(document))


def whole(document: Any) -> dict[str, Any]:
    """Return a live document as a notebook."""
    return dict(_whole(document.get()))


def _metadata(document: Any) -> dict[str, Any]:
    shared = document.ydoc.get("meta", type=_kinds().Map)
    found = shared.get("metadata")
    plain = found.to_py() if hasattr(found, "to_py") else found
    return dict(_whole(plain)) if isinstance(plain, dict) else {}


def take_in(document: Any, entries: list[Entry], place: Place, *, as_we_left_it: bool) -> None:
    """Apply journal entries to a live document, all at once for those who look at it.

    Where it is as far as we left it, nobody else can have brought the cells: they need not be
    looked for, which takes long in a long document.
    """
    metadata = _metadata(document)
    appended = notebook.appended_of(metadata)
    entries = [entry for entry in entries if entry["seq"] > appended]
    moves = any(entry["op"] == "order" for entry in entries)
    if appended < 0 or moves:
        _take_in_whole(document, entries, place, known=appended >= 0)
        return
    with document.ydoc.transaction():
        for entry in entries:
            if entry["op"] == "append":
                if as_we_left_it or _find(document, entry["cell"]["id"]) is None:
                    document.append_cell(_shared(_joined(entry["cell"])))
            elif entry["op"] == "update":
                at = _find(document, entry["cell_id"])
                if at is not None:
                    _update(document, at, entry)
            metadata = fold.with_state(metadata, entry)
        shared = document.ydoc.get("meta", type=_kinds().Map)["metadata"]
        for key in _SHARED_KEYS:
            if key in metadata:
                shared[key] = _shared(metadata[key])


def _find(document: Any, cell_id: str) -> int | None:
    """Return where a cell is; those at the end are asked for most."""
    cells = document.ycells
    for at in range(len(cells) - 1, -1, -1):
        if cells[at].get("id") == cell_id:
            return at
    return None


def _take_in_whole(document: Any, entries: list[Entry], place: Place, *, known: bool) -> None:
    """Apply entries that move cells, or bring back metadata that was lost."""
    found = notebook.checked(document.get(), place.notebook)
    if not known:
        entries = fold.recover_metadata(place, found)
    fold.apply(found, entries)
    found["cells"] = [_joined(cell) for cell in found["cells"]]
    document.set(found)


def _update(document: Any, at: int, entry: Entry) -> None:
    """Let a cell have its result, unless a person has edited or run it since."""
    shared = document.ycells[at]
    cell = document.get_cell(at)
    before = (cell.get("outputs"), cell.get("execution_count"), dict(cell["metadata"]))
    fold.update_cell(cell, entry)
    cell = _joined(cell)
    if cell["metadata"] != before[2]:
        shared["metadata"]["rlmnb"] = _shared(cell["metadata"]["rlmnb"])
    if cell.get("execution_count") != before[1]:
        shared["execution_count"] = _shared(cell["execution_count"])
    if cell.get("outputs") != before[0]:
        shared["metadata"]["trusted"] = entry.get("trusted", False)
        outputs = shared["outputs"]
        outputs.clear()
        outputs.extend([_output(each) for each in cell["outputs"]])


def _output(output: dict[str, Any]) -> Any:
    kinds = _kinds()
    made = _shared(output)
    if made["output_type"] == "stream":
        made["text"] = kinds.Text(made["text"])
    return kinds.Map(made)


def _joined(cell: dict[str, Any]) -> dict[str, Any]:
    """Return a cell with its texts in one piece, as a notebook in memory has them."""
    alone = nbformat.from_dict({"cells": [cell]})  # type: ignore[no-untyped-call]
    joined: dict[str, Any] = _plain(rejoin_lines(alone).cells[0])  # type: ignore[no-untyped-call]
    return joined


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _shared(value: Any) -> Any:
    """Return a value as browsers take it, who know no whole numbers apart from others."""
    if isinstance(value, dict):
        return {key: _shared(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_shared(item) for item in value]
    return float(value) if type(value) is int else value


def _whole(value: Any) -> Any:
    """Return a value from a browser as it was before it went there."""
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return int(value) if type(value) is float and value.is_integer() else value


def _kinds() -> Any:
    """Return the library that live documents are made of; it is there whenever one is."""
    import pycrdt

    return pycrdt
