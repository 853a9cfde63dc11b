"""Many cells as people read them: those that began it one by one, what follows counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from rlmnb.session import Session

Each = TypeVar("Each")

# As many as a screen has room for.
_FEW = 20
_NUMBERS = 12


def parted(
    cells: Sequence[Each], alone: Callable[[Each], bool]
) -> tuple[Sequence[Each], Sequence[Each]]:
    """Return the cells that are shown one by one, and those that only follow from them.

    Where they are few all are shown.
    """
    told = [each for each in cells if alone(each)] if len(cells) > _FEW else []
    return (told, [each for each in cells if not alone(each)]) if told else (cells, [])


def numbered(session: Session, cell_ids: Sequence[str]) -> str:
    """Name cells by their numbers, the first of them if they are many."""
    shown = ", ".join(str(session.cell(each).number) for each in cell_ids[:_NUMBERS])
    more = len(cell_ids) - _NUMBERS
    return f"{'cell' if len(cell_ids) == 1 else 'cells'} {shown}" + (
        f" and {more} more" if more > 0 else ""
    )
