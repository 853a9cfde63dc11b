"""Many cells as people read them: those that began it one by one, what follows counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from rlmnb.replay.report import Report
from rlmnb.session import Session

Each = TypeVar("Each")
_OF_THE_CELL = ("failed ", "has ", "is ", "looks ", "ran ", "shows ", "was ")

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


def waits(causes: Sequence[str]) -> bool:
    """Tell whether a cell was skipped only because another was."""
    return all(cause.endswith(" did not run to its end") for cause in causes)


def because(cause: str) -> str:
    """Say a cause as a sentence goes on: many begin with what the cell itself does."""
    subject = "it " if cause.startswith(_OF_THE_CELL) else ""
    return f"because {subject}{cause}"


def outcome(report: Report) -> str:
    """Say in one line what a replay has done."""
    parts = [f"{len(report.executed)} ran"]
    parts += [f"{len(report.failed)} of them failed"] if report.failed else []
    parts += [f"{len(report.reused)} reused"]
    parts += [f"{len(report.skipped)} skipped"] if report.skipped else []
    parts += [f"{len(report.left)} stale and not asked for"] if report.left else []
    return f"{', '.join(parts)}; {report.seconds:.2f} s, kernel {report.kernel}"
