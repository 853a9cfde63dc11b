"""How fast a notebook is brought up to date, beside plain nbclient and a plain kernel."""

from __future__ import annotations

import os
import pickle
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient

from benchmarks.measure import Row, at_least_faster, at_most, fair, seconds
from rlmnb import Session
from rlmnb.kernel.state import StateStore
from rlmnb.replay import warm
from rlmnb.replay.run import replay

# Whatever else the machine does goes on for seconds: each is compared with what ran next to it.
_PAIRS = 7
# A loop takes a hundredth of a second: of many, one is not disturbed.
_LOOPS, _KERNELS = 8, 3
# A plain kernel warns of its transport, in the middle of the table.
_QUIET = ["--IPKernelApp.log_level=ERROR"]
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
    NotebookClient(made, kernel_name="python3", extra_arguments=_QUIET).execute()
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
    pairs = []
    for number in range(_PAIRS):
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(f'"a = {number + 1}"', f'"a = {number + 2}"'), "utf-8")
        ours = seconds(lambda: replay(Session.open(path)))
        pairs.append((ours, seconds(lambda: plain(sources[-6:]))))
    yield at_most("replay, one edit, 6 of 1,000 cells", "nbclient, 6 cells", fair(pairs), 1.3)


def _warm(where: Path) -> Row:
    """Compare an edit in a kernel that runs already with its cells in such a kernel."""
    sources = [f"x{n} = {n}" for n in range(994)]
    sources += ["a = 1", *(f"b{n} = a + {n}" for n in range(5))]
    path = where / "warm.ipynb"
    notebook(path, sources)
    pairs = []
    with running_kernels(path) as run_plainly:
        run_plainly(sources[-6:])
        for number in range(_PAIRS):
            text = path.read_text(encoding="utf-8")
            path.write_text(text.replace(f'"a = {number + 1}"', f'"a = {number + 2}"'), "utf-8")
            ours = seconds(lambda: replay(Session.open(path)))
            pairs.append((ours, seconds(lambda: run_plainly(sources[-6:]))))
    # The least of each: the peer sleeps most of its time, so a busy machine slows ours alone.
    ours, theirs = (best(list(times)) for times in zip(*pairs, strict=True))
    return at_most(
        "warm replay, one edit, 6 of 1,000 cells",
        "nbclient, 6 cells, kernel running",
        (ours, theirs),
        2.0,
    )


@contextmanager
def running_kernels(path: Path) -> Iterator[Callable[[list[str]], Any]]:
    """Have a notebook's kernel stay, and yield how to run cells in a plain one that stays, too."""
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(extra_arguments=_QUIET)

    def run_plainly(sources: list[str]) -> Any:
        cells = [nbformat.v4.new_code_cell(each) for each in sources]  # type: ignore[no-untyped-call]
        made = nbformat.v4.new_notebook(cells=cells)  # type: ignore[no-untyped-call]
        NotebookClient(made, km=manager).execute(cleanup_kc=False)
        return made

    try:
        replay(Session.open(path), keep_kernel=True)
        yield run_plainly
    finally:
        warm.stop(Session.open(path).place)
        manager.shutdown_kernel(now=True)


def _first_run(where: Path) -> Row:
    sources = [f"x{n} = {n}" for n in range(100)]
    pairs = []
    for number in range(_PAIRS):
        path = where / f"first-{number}.ipynb"
        notebook(path, sources)
        ours = seconds(lambda path=path: replay(Session.open(path)))  # type: ignore[misc]
        pairs.append((ours, seconds(lambda: plain(sources))))
    return at_most("first run, 100 cells", "nbclient, all cells", fair(pairs), 1.15)


def _loops(where: Path) -> Iterator[Row]:
    setup, loops = "import time\nstep = 3", [LOCALS, GLOBALS]
    ours: list[list[float]] = []
    theirs: list[list[float]] = []
    # In several kernels of each: where its memory is makes one faster than another.
    for number in range(_KERNELS):
        path = where / f"loops-{number}.ipynb"
        notebook(path, [setup, *loops])
        with running_kernels(path) as run_plainly:
            run_plainly([setup])
            for _ in range(_LOOPS):
                replay(Session.open(path), force=frozenset({"c1", "c2"}))
                ours.append(_printed(nbformat.read(path, 4).cells[1:]))  # type: ignore[no-untyped-call]
                theirs.append(_printed(run_plainly(loops).cells))
    for kind, (name, bound) in enumerate({"locals": 1.05, "global+builtin": 1.25}.items()):
        pair = best([run[kind] for run in ours]), best([run[kind] for run in theirs])
        yield at_most(f"a million iterations, {name}", "plain kernel", pair, bound)


def _printed(cells: list[Any]) -> list[float]:
    return [float(cell.outputs[0].text) for cell in cells]


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
