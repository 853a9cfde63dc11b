"""After any edit, a selective replay leaves what a full run in a fresh plain kernel leaves."""

from __future__ import annotations

import itertools
import os
import random
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hypothesis import HealthCheck, Phase, given, note, seed, settings, strategies
from nbclient.exceptions import CellExecutionError

from rlmnb import Session
from rlmnb.replay import warm
from rlmnb.replay.cells import stale_cells
from rlmnb.replay.run import replay
from tests.conftest import comparable, run_plainly
from tests.oracle.programs import MODULE, Program, edited, probe_source

COUNT = int(os.environ.get("RLMNB_ORACLE", "50"))
EACH = 5
# Making a failing program smaller takes minutes, so it is done when somebody wants to know.
SHRINK = [Phase.shrink] if os.environ.get("RLMNB_ORACLE_SHRINK") else []
PHASES = [Phase.generate, *SHRINK]
# The same with a kernel that stays warm from the first replay to the second.
WARM = bool(os.environ.get("RLMNB_ORACLE_WARM"))
START = int(os.environ.get("RLMNB_ORACLE_START", "0"))


def write(directory: Path, cells: list[tuple[str, str]]) -> Path:
    """Write a notebook, keeping what the cells of an earlier one with the same ids have."""
    path = directory / "program.ipynb"
    known: dict[str, Any] = {}
    notebook = nbformat.v4.new_notebook()
    if path.exists():
        notebook = nbformat.read(path, 4)
        known = {cell.id: cell for cell in notebook.cells}
    notebook.cells = [
        {**known.get(cell_id, nbformat.v4.new_code_cell(id=cell_id)), "source": source}
        for cell_id, source in cells
    ]
    nbformat.write(nbformat.from_dict(notebook), path)
    return path


def full_run(directory: Path, cells: list[tuple[str, str]]) -> list[Any] | None:
    """Run everything in a fresh plain kernel; None if the program is wrong."""
    directory.mkdir()
    (directory / "helper.py").write_text(MODULE)
    path = write(directory, cells)
    notebook = nbformat.read(path, 4)
    try:
        run_plainly(notebook, directory)
    except CellExecutionError:
        return None
    return [comparable(cell.outputs) for cell in notebook.cells]


def outcome(path: Path) -> list[Any]:
    return [comparable(cell.outputs) for cell in nbformat.read(path, 4).cells]


def compare(chance: random.Random, directory: Path) -> None:
    """Write a notebook, replay it, edit it, replay it again, and hold it against a full run."""
    wanted, attempt = None, 0
    while wanted is None:  # an edit can make a program wrong, which is another test's matter
        program = Program(chance)
        program.grow(chance.randint(6, 14))
        before = [(f"c{number}", source) for number, source in enumerate(program.cells)]
        after = [*edited(program), ("probe", probe_source())]
        wanted = full_run(directory / f"full-{attempt}", after)
        attempt += 1
    work = directory / "selective"
    work.mkdir()
    (work / "helper.py").write_text(MODULE)
    path = write(work, before)
    try:
        replay(Session.open(path), keep_kernel=WARM)
        write(work, after)
        report = replay(Session.open(path))
    finally:
        warm.stop(Session.open(path).place)
    shown = "\n---\n".join(f"{cell_id}: {source}" for cell_id, source in after[:-1])
    note(f"{shown}\nexecuted {report.executed}\n{report.causes}")
    for cell, ours, full in zip(after, outcome(path), wanted, strict=True):
        assert ours == full, cell[0]
    assert stale_cells(Session.open(path)) == {}


@pytest.mark.kernel
@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("part", range(START, START + max(COUNT // EACH, 1)))
def test_a_selective_replay_equals_a_full_run(part: int, tmp_path: Path):
    """Compare a handful of programs; parts run side by side, each from a seed of its own."""
    numbers = itertools.count()

    @seed(part)
    @settings(
        phases=PHASES,
        max_examples=min(EACH, COUNT),
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategies.randoms(use_true_random=False))
    def holds(chance: random.Random) -> None:
        directory = tmp_path / str(next(numbers))
        directory.mkdir()
        try:
            compare(chance, directory)
        finally:
            shutil.rmtree(directory)

    holds()
    assert next(numbers) >= min(EACH, COUNT)
