"""Cells are trusted one by one: those whose outputs were made here, by a replay or by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any

from rlmnb import digest
from rlmnb.replay.vouching import Vouchers, is_active

if TYPE_CHECKING:
    from rlmnb.store.journal import Entry


class Trust:
    """Marks cells as Jupyter does, with `metadata.trusted`, which never gets to the disk."""

    def __init__(self, contents: Any) -> None:
        # Any: the server's own class for it leaves most of its methods without types.
        self._contents = contents
        self._vouchers = Vouchers(contents.notary)

    def install(self) -> None:
        """Mark what a notebook shows whenever one is opened."""
        original = self._contents.mark_trusted_cells

        @wraps(original)
        def mark(nb: dict[str, Any], path: str = "") -> None:
            original(nb, path)
            for cell in _code(nb.get("cells") or ()):
                if not cell["metadata"].get("trusted"):
                    cell["metadata"]["trusted"] = self.may_show(cell.get("outputs") or ())

        self._contents.mark_trusted_cells = mark

    def may_show(self, outputs: Iterable[Mapping[str, Any]]) -> bool:
        """Tell whether outputs do nothing, or were made here."""
        outputs = list(outputs)
        return not is_active(outputs) or self._vouchers.knows(digest.output_hash(outputs))

    def learn(self, content: Mapping[str, Any]) -> None:
        """Remember the cells that a person has run, or has trusted, in a notebook they save."""
        for cell in _code(content.get("cells") or ()):
            outputs = cell.get("outputs") or []
            if cell["metadata"].get("trusted") is True and not self.may_show(outputs):
                self._vouchers.add(digest.output_hash(outputs))

    def marked(self, entry: Entry) -> Entry:
        """Return a journal entry that says whether browsers may trust what its cell shows."""
        if entry["op"] == "append":
            cell = entry["cell"]
            if cell.get("cell_type") != "code":
                return entry
            trusted = self.may_show(cell.get("outputs") or ())
            return {**entry, "cell": {**cell, "metadata": {**cell["metadata"], "trusted": trusted}}}
        if entry["op"] == "update" and "outputs" in entry:
            return {**entry, "trusted": self.may_show(entry["outputs"])}
        return entry


def unmarked(content: dict[str, Any]) -> dict[str, Any]:
    """Return a notebook as it will be on disk, where nothing says what is trusted."""
    return {**content, "cells": [_unmarked(cell) for cell in content.get("cells") or ()]}


def _unmarked(cell: Any) -> Any:
    if not isinstance(cell, dict) or "trusted" not in (cell.get("metadata") or ()):
        return cell
    metadata = {key: value for key, value in cell["metadata"].items() if key != "trusted"}
    return {**cell, "metadata": metadata}


def _code(cells: Iterable[Any]) -> Iterable[dict[str, Any]]:
    """Return the code cells of a notebook that nobody has checked yet."""
    for cell in cells:
        if (
            isinstance(cell, dict)
            and cell.get("cell_type") == "code"
            and isinstance(cell.get("metadata"), dict)
            and isinstance(cell.get("outputs", []), list)
            and all(isinstance(output, dict) for output in cell.get("outputs", []))
        ):
            yield cell
