"""Diff and lint on what a real replay has noted."""

from __future__ import annotations

import nbformat
import pytest

from rlmnb import Session
from rlmnb.cli.judging import subjects_of
from rlmnb.comparing.compare import compare
from rlmnb.comparing.sides import side_of, side_of_notebook
from rlmnb.graph.linting import remarks_on
from rlmnb.replay.run import replay
from tests.kernel.test_replay import edit, write

pytestmark = pytest.mark.kernel


def test_before_and_after_a_replay_the_variables_that_changed_are_named():
    write("x = 1", "y = x * 2\nprint(y)", "z = 5")
    replay(Session.open("nb.ipynb"))
    before = nbformat.read("nb.ipynb", 4)
    edit(0, "x = 3")
    replay(Session.open("nb.ipynb"))
    found = compare(side_of_notebook(before), side_of(Session.open("nb.ipynb")))
    assert [each.changes for each in found.cells] == [("source",), ("outputs",), ()]
    assert found.variables.changed == ("x", "y")
    assert found.variables.same == ("z",)
    assert not found.hidden.differs


def test_a_replay_of_what_never_ran_changes_status_and_freshness():
    write("x = 1")
    before = side_of(Session.open("nb.ipynb"))
    replay(Session.open("nb.ipynb"))
    found = compare(before, side_of(Session.open("nb.ipynb")))
    assert found.cells[0].changes == ("status", "freshness")
    assert found.variables.unknown == ("x",)


def test_lint_goes_by_what_cells_really_did():
    write(
        "import os, random",
        "steps = (n for n in range(9))",
        "def move():\n    os.environ['MODE'] = 'fast'",
        "print(steps is None)",
        "print(steps is not None)",
        "move()",
        "print(random.random())",
    )
    replay(Session.open("nb.ipynb"))
    found = remarks_on(subjects_of(Session.open("nb.ipynb")))
    assert [(each.rule, each.cell_id) for each in found] == [
        ("not-storable", "c1"),
        ("hidden-state", "c5"),
        ("hidden-state", "c6"),
    ]
    assert "no cell above has seeded" in found[2].message
