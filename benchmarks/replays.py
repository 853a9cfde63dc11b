"""How fast a notebook is brought up to date, beside plain nbclient and a plain kernel."""

from __future__ import annotations

import os
import pickle
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient

from benchmarks.measure import Row, at_least_faster, at_most, seconds
from rlmnb import Session
from rlmnb.kernel.state import StateStore
from rlmnb.replay import warm
from rlmnb.replay.run import replay

# A loop takes a hundredth of a second: of many, one is not disturbed.
_LOOPS = 25
TIMED = "start = time.perf_counter(); loop(); print(time.perf_counter() - start)"
LOCALS = f"""
def loop():
    total = 0
    for i in range(1_000_000):
        total += i
    return total
{TIMED}"""
GLOBALS = f"""
def loop():
    for i in range(1_000_000):
        abs(step)
{TIMED}"""


def notebook(path: Path, sources: list[str]) -> Any:
    """Write a notebook of these cells."""
    cells = [nbformat.v4.new_code_cell(each, id=f"c{n}") for n, each in enumerate(sources)]  # type: ignore[no-untyped-call]
    made = nbformat.v4.new_notebook(cells=cells)  # type: ignore[no-untyped-call]
    nbformat.write(made, path)  # type: ignore[no-untyped-call]
    return made


def plain(sources: list[str]) -> Any:
    """Run cells with plain nbclient in a plain kernel."""
    cells = [nbformat.v4.new_code_cell(each) for each in sources]  # type: ignore[no-untyped-call]
    made = nbformat.v4.new_notebook(cells=cells)  # type: ignore[no-untyped-call]
    NotebookClient(made, kernel_name="python3").execute()
    return made


def best(times: list[float]) -> float:
    """Return the least of some times, in milliseconds."""
    return min(times) * 1000


def rows() -> Iterator[Row]:
    """Measure everything, yielding each row when it is known."""
    with tempfile.TemporaryDirectory() as directory:
        os.environ["RLMNB_HOME"] = os.path.join(directory, "sessions")
        where = Path(directory)
        yield from _large(where)
        yield _warm(where)
        yield _first_run(where)
        yield from _loops(where)
        yield from _frame(where)


def _large(where: Path) -> Iterator[Row]:
    sources = [f"x{n} = {n}" for n in range(994)]
    sources += ["a = 1", *(f"b{n} = a + {n}" for n in range(5))]
    path = where / "large.ipynb"
    notebook(path, sources)
    replay(Session.open(path))
    full = seconds(lambda: plain(sources))
    nothing = best([seconds(lambda: replay(Session.open(path))) for _ in range(5)])
    yield at_least_faster(
        "replay, nothing stale, 1,000 cells", "nbclient, all cells", (nothing, full * 1000), 50
    )
    ours, theirs = [], []
    for number in range(5):
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(f'"a = {number + 1}"', f'"a = {number + 2}"'), "utf-8")
        ours.append(seconds(lambda: replay(Session.open(path))))
        theirs.append(seconds(lambda: plain(sources[-6:])))
    yield at_most(
        "replay, one edit, 6 of 1,000 cells", "nbclient, 6 cells", (best(ours), best(theirs)), 1.3
    )


def _warm(where: Path) -> Row:
    """Compare an edit in a kernel that runs already with its cells in such a kernel."""
    sources = [f"x{n} = {n}" for n in range(994)]
    sources += ["a = 1", *(f"b{n} = a + {n}" for n in range(5))]
    path = where / "warm.ipynb"
    notebook(path, sources)
    replay(Session.open(path), keep_kernel=True)
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel()
    ours, theirs = [], []

    def six_cells() -> None:
        cells = [nbformat.v4.new_code_cell(each) for each in sources[-6:]]  # type: ignore[no-untyped-call]
        made = nbformat.v4.new_notebook(cells=cells)  # type: ignore[no-untyped-call]
        NotebookClient(made, km=manager).execute(cleanup_kc=False)

    six_cells()
    for number in range(5):
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(f'"a = {number + 1}"', f'"a = {number + 2}"'), "utf-8")
        ours.append(seconds(lambda: replay(Session.open(path))))
        theirs.append(seconds(six_cells))
    warm.stop(Session.open(path).place)
    manager.shutdown_kernel(now=True)
    return at_most(
        "warm replay, one edit, 6 of 1,000 cells",
        "nbclient, 6 cells, kernel running",
        (best(ours), best(theirs)),
        2.0,
    )


def _first_run(where: Path) -> Row:
    sources = [f"x{n} = {n}" for n in range(100)]
    ours, theirs = [], []
    for number in range(5):
        path = where / f"first-{number}.ipynb"
        notebook(path, sources)
        ours.append(seconds(lambda path=path: replay(Session.open(path))))  # type: ignore[misc]
        theirs.append(seconds(lambda: plain(sources)))
    return at_most("first run, 100 cells", "nbclient, all cells", (best(ours), best(theirs)), 1.15)


def _loops(where: Path) -> Iterator[Row]:
    sources = ["import time\nstep = 3", *[LOCALS] * _LOOPS, *[GLOBALS] * _LOOPS]
    path = where / "loops.ipynb"
    notebook(path, sources)
    replay(Session.open(path))
    ours = _printed(nbformat.read(path, 4))  # type: ignore[no-untyped-call]
    theirs = _printed(plain(sources))
    pair = best(ours[:_LOOPS]), best(theirs[:_LOOPS])
    yield at_most("a million iterations, locals", "plain kernel", pair, 1.05)
    pair = best(ours[_LOOPS:]), best(theirs[_LOOPS:])
    yield at_most("a million iterations, global+builtin", "plain kernel", pair, 1.25)


def _printed(made: Any) -> list[float]:
    return [float(cell.outputs[0].text) for cell in made.cells[1:]]


def _frame(where: Path) -> Iterator[Row]:
    import numpy as np
    import pandas as pd

    frame = pd.DataFrame(np.random.default_rng(1).random((1_300_000, 10)))
    namespace = {"frame": frame}
    saves, dumps, loads, plain_loads = [], [], [], []
    for number in range(3):
        frame.iloc[0, 0] = number
        store = StateStore(str(where / f"objects-{number}"), b"k" * 32)
        started = time.perf_counter()
        name = store.save(namespace, ("frame",), 1 << 40)
        saves.append(time.perf_counter() - started)
        assert name is not None
        file = where / f"pickle-{number}"
        dumps.append(seconds(lambda file=file: _dump(frame, file)))  # type: ignore[misc]
        started = time.perf_counter()
        store.load({}, name, str)
        loads.append(time.perf_counter() - started)
        plain_loads.append(seconds(lambda file=file: pickle.loads(file.read_bytes())))  # type: ignore[misc]
    yield at_most("store a frame of 100 MB", "pickle.dump", (best(saves), best(dumps)), 1.5)
    yield at_most("restore it", "pickle.load", (best(loads), best(plain_loads)), 1.5)


def _dump(frame: Any, path: Path) -> None:
    with open(path, "wb") as file:
        pickle.dump(frame, file)
