"""Replay a small notebook, change one thing, replay it again, and hold it to a full run."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

import nbformat

from rlmnb import Session
from rlmnb.replay.cells import stale_cells
from rlmnb.replay.run import replay
from tests.conftest import comparable, run_plainly


@dataclass
class Case:
    """A notebook, a change, and the numbers of the cells that must run because of it.

    Without numbers only the outcome counts.
    """

    cells: list[str]
    runs: list[int] | None
    edit: dict[int, str] = field(default_factory=dict)
    files: dict[str, str | None] = field(default_factory=dict)
    start: dict[str, str] = field(default_factory=dict)
    tags: dict[int, str] = field(default_factory=dict)
    delete: int | None = None
    order: list[int] | None = None
    again: list[int] = field(default_factory=list)


def put(files: dict[str, str | None]) -> None:
    for name, content in files.items():
        if content is None:
            os.unlink(name)
        else:
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_text(content)


def shown(path: str) -> list[object]:
    """Return the outputs of each cell without what no two runs have in common."""
    return [
        json.loads(
            # The name of a temporary file, which has the number of the process in it.
            re.sub(r"ipykernel_\d+", "ipykernel", json.dumps(comparable(cell.outputs)))
        )
        for cell in nbformat.read(path, 4).cells
    ]


def full_run(case: Case) -> list[object]:
    """Run the notebook as it is now in a plain kernel, where nothing has happened yet."""
    directory = Path("../full")
    directory.mkdir()
    notebook = nbformat.read("nb.ipynb", 4)
    here = Path.cwd()
    os.chdir(directory)
    put({name: text for name, text in {**case.start, **case.files}.items() if text is not None})
    run_plainly(notebook)
    nbformat.write(notebook, "nb.ipynb")
    os.chdir(here)
    return shown("../full/nb.ipynb")


def check(case: Case) -> None:
    """Assert that exactly the right cells run, and that the outcome is that of a full run."""
    put(dict(case.start))
    cells = [nbformat.v4.new_code_cell(each, id=f"c{n}") for n, each in enumerate(case.cells)]
    allowed = {n: tag for n, tag in case.tags.items() if tag == "raises-exception"}
    for number, tag in allowed.items():
        cells[number].metadata["tags"] = [tag]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), "nb.ipynb")
    first = replay(Session.open("nb.ipynb"))
    assert first.executed == [f"c{n}" for n in range(len(cells))]
    assert first.errors == {}
    notebook = nbformat.read("nb.ipynb", 4)
    for number, tag in case.tags.items():
        notebook.cells[number].metadata["tags"] = [tag]
    for number, source in case.edit.items():
        notebook.cells[number].source = source
    if case.delete is not None:
        del notebook.cells[case.delete]
    if case.order is not None:
        notebook.cells = [notebook.cells[number] for number in case.order]
    nbformat.write(notebook, "nb.ipynb")
    put(case.files)
    second = replay(Session.open("nb.ipynb"))
    if case.runs is not None:
        ran = [int(cell_id[1:]) for cell_id in second.executed]
        assert ran == case.runs, second.causes
    if "rlmnb:pinned" not in case.tags.values():
        assert shown("nb.ipynb") == full_run(case)
    left = stale_cells(Session.open("nb.ipynb"))
    assert sorted(left) == [f"c{n}" for n in case.again], left
