"""Save what can be read of a broken notebook, and put back from the journal what cannot."""

from __future__ import annotations

import os
import re
import time
from typing import Any

from rlmnb.errors import InvalidCellError, NotebookError
from rlmnb.files import Lock, open_regular, read_bytes, rename
from rlmnb.format.nbjson import check_cell
from rlmnb.format.state import notebook_metadata
from rlmnb.jsontext import loads, scan_value
from rlmnb.store import fold, lease, notebook
from rlmnb.store.layout import Place


def salvage(data: bytes) -> dict[str, Any]:
    """Return a notebook of every cell that can still be read, whatever stands between them."""
    text = data.decode("utf-8", "replace")
    try:
        whole = notebook.checked(loads(text), "salvaged")
    except (ValueError, RecursionError, NotebookError):
        whole = {"cells": _readable_cells(text), "metadata": {}, "nbformat_minor": 5}
    whole["nbformat"] = 4
    return whole


def _readable_cells(text: str) -> list[dict[str, Any]]:
    cells = []
    at = text.find('"cells"')
    at = text.find("{", at) if at >= 0 else -1
    while at >= 0:
        try:
            cell, end = scan_value(text, at)
        except (ValueError, RecursionError):
            # Cut short, or too deep: the next cell begins where one begins in canonical form.
            at = _next_cell(text, at + 1)
            continue
        if isinstance(cell, dict) and cell.get("cell_type") in ("code", "markdown", "raw"):
            cells.append(cell)
        while end < len(text) and text[end] in " \t\r\n,":
            end += 1
        at = end if end < len(text) and text[end] == "{" else -1
    whole = {"nbformat": 4, "cells": cells, "metadata": {}}
    found: list[dict[str, Any]] = notebook.checked(whole, "salvaged")["cells"]
    return [cell for cell in found if _is_valid(cell)]


def _next_cell(text: str, start: int) -> int:
    """Return where the next cell begins, in canonical form or on one line, -1 if nowhere."""
    found = re.compile(r'\n  \{\n|\{\s*"(?:attachments|cell_type)"').search(text, start)
    if found is None:
        return -1
    return found.start() + (3 if found.group().startswith("\n") else 0)


def _is_valid(cell: dict[str, Any]) -> bool:
    try:
        check_cell({"id": "x", **cell} if "id" not in cell else cell)
    except InvalidCellError:
        return False
    return True


def is_broken(place: Place) -> str | None:
    """Return what is wrong with the notebook, or None if it can be read."""
    try:
        notebook.read_whole(place.notebook)
    except FileNotFoundError:
        return f"{place.notebook}: is missing"
    except NotebookError as error:
        return error.message
    return None


def can_repair(place: Place) -> bool:
    """Tell whether a broken notebook is ours to repair: another format's is its owner's choice."""
    if not place.plain:
        return True
    try:
        whole = loads(read_bytes(place.notebook))
    except (OSError, ValueError, RecursionError):
        return True
    return not (isinstance(whole, dict) and whole.get("nbformat", 4) != 4)


def repair(place: Place) -> str:
    """Put a readable notebook in place of a broken one, which is kept; say what was done."""
    place.prepare()
    lease.refuse(place)
    with Lock(place.lock, timeout=5.0):
        missing = not os.path.lexists(place.notebook)
        saved = salvage(b"" if missing else read_bytes(place.notebook))
        found = len(saved["cells"])
        entries = fold.sound_entries(place.journal, -1)
        if not found and not entries:
            raise NotebookError(
                f"{place.notebook}: no cell of it can be read, and its journal has none either"
            )
        reached = notebook.appended_of(saved["metadata"])
        if reached < 0:
            entries = fold.recover_metadata(place, saved)
        else:
            entries = [entry for entry in entries if entry["seq"] > reached]
        state = saved["metadata"].get("rlmnb", {})
        saved["metadata"] = {**notebook_metadata(state, max(reached, 0)), **saved["metadata"]}
        fold.apply(saved, entries)
        aside = None
        if not missing:
            aside = f"{place.notebook}.broken-{time.strftime('%Y%m%dT%H%M%S')}"
            rename(place.notebook, aside)
        if not notebook.write_new(place.notebook, saved):
            raise NotebookError(f"{place.notebook}: was put back by somebody meanwhile")
    put_back = len(saved["cells"]) - found
    kept = f"; the broken one is {os.path.basename(aside)}" if aside else ""
    return f"read {found} cells, put back {put_back} from the journal{kept}"


def loose_modes(place: Place) -> list[str]:
    """Return what others can read of a session: it should be theirs only who ran it."""
    if os.name == "nt" or place.plain:
        return []
    found = []
    for path, limit in ((place.directory, 0o700), (place.notebook, 0o600), (place.journal, 0o600)):
        try:
            mode = os.lstat(path).st_mode
        except FileNotFoundError:
            continue
        if mode & 0o777 & ~limit:
            found.append(path)
    return found


def tighten(path: str) -> None:
    """Take a file or directory out of others' sight."""
    descriptor = os.open(path, os.O_RDONLY) if os.path.isdir(path) else open_regular(path)
    try:
        os.fchmod(descriptor, 0o700 if os.path.isdir(path) else 0o600)
    finally:
        os.close(descriptor)
