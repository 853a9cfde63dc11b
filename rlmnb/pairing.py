"""Keep a notebook and its paired text in step: merged cell by cell, over what both were before.

What is remembered is a digest of every cell when both were last in step. A cell that changed on one
side only is taken from there; one that changed on both is for a person to decide. The notebook is
written as a person's save in Jupyter would be, then the text, then what is remembered: wherever
that is cut short, doing it again comes to the same end.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlmnb.digest import derived_id, is_digest, of_value
from rlmnb.errors import (
    ChangedSinceError,
    InvalidCellError,
    InvalidNameError,
    NotebookError,
    RlmnbError,
    StorageError,
)
from rlmnb.files import Lock, Replacement, open_regular, read_all, read_bytes, write_atomic
from rlmnb.format.nbjson import source_of
from rlmnb.format.percent import Block, from_text, to_text
from rlmnb.ids import is_nbformat_id
from rlmnb.jsontext import compact, loads, to_bytes
from rlmnb.store import fold, lease, notebook
from rlmnb.store.layout import Place

_LARGEST = 64 * 1024 * 1024
_LOCK_SECONDS = 10.0
_TRIES = 5
_SHOWN = 5


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
        for _ in range(_TRIES):
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
        whole = notebook.parse(opened.read(), place.notebook)
        cells = _blocks(whole)
        if found.data is None:
            merged = cells
        else:
            base = _remembered(place, path)
            _refuse_foreign(found.blocks, cells, path, prefer)
            merged = _merge(base, cells, _named(found.blocks, base or {}), path, prefer)
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
    cells = [[block.cell_id, _digest(block)] for block in merged]
    told = {"cells": cells, "text": os.path.relpath(path, os.path.dirname(place.notebook))}
    data = to_bytes(compact(told))
    if not os.path.lexists(_memory(place)) or read_bytes(_memory(place)) != data:
        write_atomic(_memory(place), data)


def _digest(block: Block | None) -> str | None:
    return None if block is None else of_value([block.kind, block.source])


# merging


def _refuse_foreign(
    blocks: Sequence[Block], cells: Sequence[Block], path: str, prefer: str | None
) -> None:
    """Refuse a text that would put all cells away: emptied, stripped of its ids, or another's."""
    known = {block.cell_id for block in cells}
    if prefer != "notebook" and known and not any(block.cell_id in known for block in blocks):
        raise InvalidCellError(
            f"{path}: has {len(blocks)} cells and none of the ids of the notebook's {len(cells)}; "
            "it is not its text",
            hint=f"name another --text FILE.py, or write {path} anew: --prefer notebook",
        )


def _named(blocks: Iterable[Block], base: Mapping[str, str]) -> list[Block]:
    """Give new cells of the text ids, the same ones if it has to be done again."""
    blocks = list(blocks)
    taken = {block.cell_id for block in blocks} | set(base)
    named: list[Block] = []
    for block in blocks:
        cell_id = block.cell_id
        if cell_id is None:
            before = str(named[-1].cell_id) if named else ""
            times = 0
            while (cell_id := derived_id("paired", before, block.source, str(times))) in taken:
                times += 1
            taken.add(cell_id)
        named.append(Block(cell_id, block.kind, block.source))
    return named


def _merge(
    base: Mapping[str, str] | None,
    cells: list[Block],
    text: list[Block],
    path: str,
    prefer: str | None,
) -> list[Block]:
    """Return the cells that both sides are to have."""
    if cells == text:
        return cells
    if base is None and prefer is not None:
        return text if prefer == "text" else cells
    never, base = base is None, base or {}
    ours = {str(block.cell_id): block for block in cells}
    theirs = {str(block.cell_id): block for block in text}
    kept: dict[str, Block] = {}
    conflicts = []
    for cell_id in dict.fromkeys([*ours, *theirs]):
        here, there, was = ours.get(cell_id), theirs.get(cell_id), base.get(cell_id)
        chosen = there if _digest(here) == was else here
        if _digest(here) != was and _digest(there) not in (was, _digest(here)):
            conflicts.append(cell_id)
            chosen = there if prefer == "text" else here
        elif never and here != there:
            conflicts.append(cell_id)
        if chosen is not None:
            kept[cell_id] = chosen
    if conflicts and prefer is None:
        raise _both_changed(conflicts, path, never=never)
    return [kept[cell_id] for cell_id in _order(list(base), list(ours), list(theirs), kept, prefer)]


def _both_changed(conflicts: Sequence[str], path: str, *, never: bool) -> ChangedSinceError:
    named = ", ".join(conflicts[:_SHOWN])
    if len(conflicts) > _SHOWN:
        named += f" and {len(conflicts) - _SHOWN} more"
    what = (
        "differ, and it is not known which side is newer: these were never in step here"
        if never
        else "changed in the notebook and in the text, each in its own way"
    )
    return ChangedSinceError(
        f"{path}: {named}: {what}; nothing was changed",
        hint="say which side is right for them: --prefer text, or --prefer notebook",
    )


def _order(
    base: list[str],
    ours: list[str],
    theirs: list[str],
    kept: Mapping[str, Block],
    prefer: str | None,
) -> list[str]:
    """Follow the side that moved cells, and put the other's own cells behind their neighbours."""
    common = set(ours) & set(theirs) & set(base)
    was, here, there = ([key for key in side if key in common] for side in (base, ours, theirs))
    if was != here and was != there and here != there and prefer is None:
        raise ChangedSinceError(
            "cells were moved in the notebook and in the text, each in its own way; "
            "nothing was changed",
            hint="say which order is right: --prefer text, or --prefer notebook",
        )
    by_text = here == was or (there != was and prefer == "text")
    first, second = (theirs, ours) if by_text else (ours, theirs)
    known = set(first)
    # What only the second side has, by the cell that it stands behind there.
    behind: dict[str | None, list[str]] = {None: []}
    neighbour = None
    for key in second:
        if key in known and key in kept:
            neighbour = key
        elif key in kept:
            behind.setdefault(neighbour, []).append(key)
    order = behind[None]
    for key in first:
        if key in kept:
            order += [key, *behind.get(key, ())]
    return order
