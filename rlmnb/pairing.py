"""Keep a notebook and its paired text in step: merged cell by cell, over what both were before.

What is remembered is a digest of every cell when both were last in step. A cell that changed on one
side only is taken from there; one that changed on both is for a person to decide. The notebook is
written as a person's save in Jupyter would be, then the text, then what is remembered: wherever
that is cut short, doing it again comes to the same end.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rlmnb.digest import is_digest
from rlmnb.errors import (
    InvalidNameError,
    NotebookError,
    RlmnbError,
    StorageError,
)
from rlmnb.files import Lock, Replacement, open_regular, polls, read_all, read_bytes, write_atomic
from rlmnb.format.merging import digest_of, merge, named, refuse_foreign
from rlmnb.format.nbjson import source_of
from rlmnb.format.percent import Block, from_text, to_text
from rlmnb.ids import is_nbformat_id
from rlmnb.jsontext import compact, loads, to_bytes
from rlmnb.store import fold, lease, notebook
from rlmnb.store.layout import Place

_LARGEST = 64 * 1024 * 1024
_LOCK_SECONDS = 10.0
_PATIENCE = 5.0


@dataclass(frozen=True, slots=True)
class Paired:
    """What bringing both into step came to."""

    text: str
    in_step: bool
    edited: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    notebook_written: bool = False
    text_written: bool = False


@dataclass(frozen=True, slots=True)
class _Text:
    """One version of the text, None where there is no file."""

    data: bytes | None
    status: os.stat_result | None
    blocks: tuple[Block, ...]


def compare(place: Place, text: str | None = None) -> Paired:
    """Tell whether both are in step; nothing is written, and nothing remembered is needed."""
    path = _text_path(place, text)
    found = _read_text(path)
    cells = _blocks(notebook.read_whole(place.notebook))
    return Paired(path, found.data is not None and list(found.blocks) == cells)


def pair(place: Place, text: str | None = None, *, prefer: str | None = None) -> Paired:
    """Bring a notebook and its text into step, or refuse and change nothing."""
    path = _text_path(place, text)
    place.prepare()
    with Lock(place.lock, timeout=_LOCK_SECONDS):
        for _ in polls(_PATIENCE):
            done = _pair_locked(place, path, prefer)
            if done is not None:
                return done
    raise StorageError(
        f"{place.notebook} and {path}: other programs keep rewriting them",
        hint="close them there, then run the command again",
    )


def _pair_locked(place: Place, path: str, prefer: str | None) -> Paired | None:
    """Do it once; None if one of the files was changed by others meanwhile."""
    found = _read_text(path)
    with notebook.OpenNotebook(place.notebook) as opened:
        try:
            whole = notebook.parse(opened.read(), place.notebook)
        except NotebookError:
            if opened.age() < notebook.SAVE_PATIENCE:
                return None  # another program is in the middle of saving it
            raise
        cells = _blocks(whole)
        if found.data is None:
            merged = cells
        else:
            base = _remembered(place, path)
            refuse_foreign(found.blocks, cells, path, prefer)
            merged = merge(base, cells, named(found.blocks, base or {}), path, prefer)
        if merged != cells:
            lease.refuse(place)
            whole["cells"] = _cells(whole["cells"], merged)
            if not notebook.rewrite(opened, whole):
                return None
    data = to_text(merged).encode("utf-8", "surrogatepass")
    if data != found.data and not _write_text(path, found, data):
        return None
    _remember(place, path, merged)
    return _outcome(path, cells, merged, text_written=data != found.data)


def _outcome(path: str, cells: list[Block], merged: list[Block], *, text_written: bool) -> Paired:
    before = {block.cell_id: block for block in cells}
    after = {str(block.cell_id): block for block in merged}
    return Paired(
        path,
        in_step=True,
        edited=tuple(key for key in after if key in before and after[key] != before[key]),
        added=tuple(key for key in after if key not in before),
        deleted=tuple(str(key) for key in before if key not in after),
        notebook_written=merged != cells,
        text_written=text_written,
    )


# the two sides


def _blocks(whole: dict[str, Any]) -> list[Block]:
    fold.give_ids(whole)
    return [Block(cell["id"], _kind(cell), source_of(cell)) for cell in whole["cells"]]


def _kind(cell: Mapping[str, Any]) -> str:
    kind = cell.get("cell_type")
    return kind if kind in ("code", "markdown") else "raw"


def _cells(before: Iterable[dict[str, Any]], merged: Iterable[Block]) -> list[dict[str, Any]]:
    """Return the notebook's cells as they are to be; what is not in the text stays with them."""
    known = {cell["id"]: cell for cell in before}
    cells = []
    for block in merged:
        cell = known.get(str(block.cell_id))
        if cell is None or _kind(cell) != block.kind:
            cell = {"cell_type": block.kind, "id": block.cell_id, "metadata": {}}
            if block.kind == "code":
                cell |= {"execution_count": None, "outputs": []}
        cells.append({**cell, "source": block.source})
    return cells


def _text_path(place: Place, asked: str | None) -> str:
    """Return where the text is: as asked, as remembered, or beside the notebook."""
    if asked is not None:
        if not asked.endswith(".py") or "\0" in asked:
            raise InvalidNameError(
                f"--text: wanted a file that ends in .py, found {asked!r}",
                hint=f"run: rlmnb pair {place.name} --text notebook.py",
            )
        return os.path.abspath(asked)
    told = _told(place).get("text")
    if isinstance(told, str) and told.endswith(".py") and "\0" not in told:
        return os.path.join(os.path.dirname(place.notebook), told)
    return os.path.splitext(place.notebook)[0] + ".py"


def _read_text(path: str) -> _Text:
    try:
        descriptor = open_regular(path)
    except FileNotFoundError:
        return _Text(None, None, ())
    try:
        status = os.fstat(descriptor)
        if status.st_size > _LARGEST:
            raise NotebookError(
                f"{path}: has {status.st_size} bytes, a paired text has at most {_LARGEST}",
                hint="name another file: rlmnb pair --text FILE.py",
            )
        data = read_all(descriptor)
    finally:
        os.close(descriptor)
    try:
        text = data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise NotebookError(
            f"{path}: is not UTF-8: byte {error.start} is 0x{data[error.start]:02x}",
            hint="save it as UTF-8 in the editor; nothing was changed",
        ) from None
    return _Text(data, status, tuple(from_text(text, path)))


def _write_text(path: str, found: _Text, data: bytes) -> bool:
    """Put the new text in place; False if the file is no longer the one that was read."""
    if len(data) > _LARGEST:
        raise NotebookError(f"{path}: would have {len(data)} bytes, at most {_LARGEST} are kept")
    with Replacement(path) as new:
        new.write(data)
        if found.status is None:
            return new.commit_new()
        new.keep_mode_of(found.status)
        return new.commit(lambda: _is_still(path, found.status))


def _is_still(path: str, seen: os.stat_result | None) -> bool:
    try:
        now = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return seen is not None and (now.st_ino, now.st_size, now.st_mtime_ns) == (
        seen.st_ino,
        seen.st_size,
        seen.st_mtime_ns,
    )


# what is remembered


def _memory(place: Place) -> str:
    return os.path.join(place.directory, "paired.json")


def _told(place: Place) -> dict[str, Any]:
    try:
        told = loads(read_bytes(_memory(place)))
    except (OSError, ValueError, RecursionError, RlmnbError):
        return {}
    return told if isinstance(told, dict) else {}


def _remembered(place: Place, path: str) -> dict[str, str] | None:
    """Return the digest of every cell when both were last in step, None if they never were."""
    told = _told(place)
    cells = told.get("cells")
    sound = isinstance(cells, list) and all(
        isinstance(each, list) and len(each) == 2 and is_nbformat_id(each[0]) and is_digest(each[1])
        for each in cells
    )
    if not sound or told.get("text") != os.path.relpath(path, os.path.dirname(place.notebook)):
        return None
    return dict(cells or ())


def _remember(place: Place, path: str, merged: Iterable[Block]) -> None:
    cells = [[block.cell_id, digest_of(block)] for block in merged]
    told = {"cells": cells, "text": os.path.relpath(path, os.path.dirname(place.notebook))}
    data = to_bytes(compact(told))
    if not os.path.lexists(_memory(place)) or read_bytes(_memory(place)) != data:
        write_atomic(_memory(place), data)
