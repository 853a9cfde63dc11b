"""Save what can be read of a broken notebook, and put back from the journal what cannot."""

from __future__ import annotations

import os
import time
from typing import Any

from rlmnb.errors import NotebookError
from rlmnb.files import Lock, open_regular, read_bytes, rename
from rlmnb.format.state import notebook_metadata
from rlmnb.jsontext import loads, scan_value
from rlmnb.store import fold, journal, notebook
from rlmnb.store.layout import Place


def salvage(data: bytes) -> dict[str, Any]:
    """Return a notebook of every cell that can still be read, whatever follows them."""
    text = data.decode("utf-8", "replace")
    try:
        whole = loads(text)
        return notebook.checked(whole, "salvaged")
    except (ValueError, RecursionError, NotebookError):
        pass
    cells = []
    at = text.find('"cells"')
    at = text.find("[", at) if at >= 0 else -1
    while at >= 0:
        start = _next_object(text, at + 1)
        if start < 0:
            break
        try:
            cell, at = scan_value(text, start)
        except (ValueError, RecursionError):
            break
        if isinstance(cell, dict) and cell.get("cell_type") in ("code", "markdown", "raw"):
            cells.append(cell)
        at -= 1
    return {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


def _next_object(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n,":
        at += 1
    return at if at < len(text) and text[at] == "{" else -1


def is_broken(place: Place) -> str | None:
    """Return what is wrong with the notebook, or None if it can be read."""
    try:
        notebook.read_whole(place.notebook)
    except FileNotFoundError:
        return f"{place.notebook}: is missing"
    except NotebookError as error:
        return error.message
    return None


def repair(place: Place) -> str:
    """Put a readable notebook in place of a broken one, which is kept; say what was done."""
    with Lock(place.lock, timeout=5.0):
        if not os.path.lexists(place.notebook):
            aside, saved = None, salvage(b"")
        else:
            saved = salvage(read_bytes(place.notebook))
            aside = f"{place.notebook}.broken-{time.strftime('%Y%m%dT%H%M%S')}"
        found = len(saved["cells"])
        entries = journal.all_entries(place.journal)
        if not found and not any(entry.get("op") == "append" for entry in entries):
            raise NotebookError(
                f"{place.notebook}: no cell of it can be read, and its journal has none either"
            )
        known = saved["metadata"].get("rlmnb")
        reached = notebook.appended_of(saved["metadata"])
        if reached < 0:
            reached = fold.recover_metadata(place, saved)
        fresh = notebook_metadata(known if isinstance(known, dict) else {}, 0)
        saved["metadata"] = {**fresh, **saved["metadata"]}
        fold.apply(saved, [entry for entry in entries if entry["seq"] > reached])
        if aside is not None:
            rename(place.notebook, aside)
        notebook.write_new(place.notebook, saved)
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
