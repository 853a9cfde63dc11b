"""Merge two versions of a notebook's cells over what both were before. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rlmnb.digest import derived_id, of_value
from rlmnb.errors import ChangedSinceError, InvalidCellError
from rlmnb.format.percent import Block

_SHOWN = 5


def digest_of(block: Block | None) -> str | None:
    """Return what tells one version of a cell from another, None of one that is not there."""
    return None if block is None else of_value([block.kind, block.source])


def refuse_foreign(
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


def named(blocks: Iterable[Block], base: Mapping[str, str]) -> list[Block]:
    """Give new cells of the text ids, the same ones if it has to be done again."""
    blocks = list(blocks)
    taken = {block.cell_id for block in blocks} | set(base)
    done: list[Block] = []
    for block in blocks:
        cell_id = block.cell_id
        if cell_id is None:
            before = str(done[-1].cell_id) if done else ""
            times = 0
            while (cell_id := derived_id("paired", before, block.source, str(times))) in taken:
                times += 1
            taken.add(cell_id)
        done.append(Block(cell_id, block.kind, block.source))
    return done


def merge(
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
        chosen = there if digest_of(here) == was else here
        if digest_of(here) != was and digest_of(there) not in (was, digest_of(here)):
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
    shown = ", ".join(conflicts[:_SHOWN])
    if len(conflicts) > _SHOWN:
        shown += f" and {len(conflicts) - _SHOWN} more"
    what = (
        "differ, and it is not known which side is newer: these were never in step here"
        if never
        else "changed in the notebook and in the text, each in its own way"
    )
    return ChangedSinceError(
        f"{path}: {shown}: {what}; nothing was changed",
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
    # Where nothing is remembered, any difference is one that nobody can tell the reason of.
    common = set(ours) & set(theirs) & (set(base) or set(ours))
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
