"""Whatever a person has run, edited and saved, a replay then leaves what a full run does."""

from __future__ import annotations

import os
import random
from pathlib import Path

import nbformat
import pytest

from rlmnb import Session
from rlmnb.replay.cells import stale_cells
from rlmnb.replay.run import replay
from tests.kernel.lab import Lab, opened
from tests.oracle.programs import MODULE, Program, edited, probe_source
from tests.oracle.test_equality import full_run, outcome, write

COUNT = int(os.environ.get("RLMNB_ORACLE_BY_HAND", "4"))
START = int(os.environ.get("RLMNB_ORACLE_START", "0"))


def by_hand(lab: Lab, chance: random.Random, after: list[tuple[str, str]]) -> list[str]:
    """Run, edit and save as people do; end with the notebook as it is to be, saved."""
    done = []
    wanted = dict(after)
    known = {cell["id"]: cell for cell in lab.buffer["cells"]}
    if chance.random() < 0.5:
        done.append("all")
        lab.run()
    for _ in range(chance.randint(3, 15)):
        what = chance.choice(["run", "run", "run", "edit", "save", "restart", "all"])
        cell_id = chance.choice(list(known))
        done.append(f"{what} {cell_id}" if what in ("run", "edit") else what)
        if what == "run":
            lab.run(cell_id)
        elif what == "edit":
            lab.edit(cell_id, wanted.get(cell_id, lab.cell(cell_id)["source"]))
        elif what == "save":
            lab.save()
        elif what == "all":
            lab.run()
        elif chance.random() < 0.3:
            lab.restart()
    new = {cell_id: nbformat.v4.new_code_cell(id=cell_id) for cell_id in wanted}
    lab.buffer["cells"] = [
        nbformat.from_dict({**known.get(cell_id, new[cell_id]), "source": source})
        for cell_id, source in after
    ]
    for cell in chance.sample(lab.buffer["cells"][:-1], k=min(3, len(after) - 1)):
        done.append(f"run {cell['id']} as it is to be")
        lab.run(cell["id"])
    lab.save()
    return done


@pytest.mark.kernel
@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("number", range(START, START + COUNT))
def test_a_replay_after_runs_by_hand_equals_a_full_run(number: int, tmp_path: Path):
    chance = random.Random(f"by hand {number}")
    wanted, attempt = None, 0
    while wanted is None:
        program = Program(chance)
        program.grow(chance.randint(5, 11))
        before = [(f"c{at}", source) for at, source in enumerate(program.cells)]
        after = [*edited(program), ("probe", probe_source())]
        wanted = full_run(tmp_path / f"full-{attempt}", after)
        attempt += 1
    work = tmp_path / "by-hand"
    work.mkdir()
    (work / "helper.py").write_text(MODULE)
    path = write(work, before)
    with opened(path) as lab:
        done = by_hand(lab, chance, after)
    report = replay(Session.open(path))
    shown = "\n---\n".join(f"{cell_id}: {source}" for cell_id, source in after[:-1])
    told = f"{shown}\n{done}\nexecuted {report.executed}\n{report.causes}\n{report.errors}"
    for cell, ours, full in zip(after, outcome(path), wanted, strict=True):
        assert ours == full, f"{cell[0]}\n{told}"
    assert stale_cells(Session.open(path)) == {}, told
