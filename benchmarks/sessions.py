"""How fast a session is appended to, read and queried."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat

import rlmnb
from benchmarks import hostile
from benchmarks.measure import Row, at_least_faster, at_most, side_by_side, within
from rlmnb import Session
from rlmnb.capture.secrets import redact_text
from rlmnb.cli.main import main
from rlmnb.format import cells
from rlmnb.ids import new_cell_id
from rlmnb.installing import command
from rlmnb.store import journal
from rlmnb.store.append import begin_state
from rlmnb.store.fold import fold
from rlmnb.store.layout import Place, session_place
from rlmnb.store.objects import Objects

APPEND = "import rlmnb; rlmnb.append('{}', {{'source': 'y = 1', 'output': 'ok'}})"


def make_session(name: str, count: int) -> Place:
    """Make a session of many cells at once."""
    place = session_place(name)
    place.prepare()
    made = []
    for number in range(1, count + 1):
        source = f"result_{number} = compute({number})\nprint(result_{number})"
        outputs = [cells.stream(f"the result is {number * 7}\n")]
        cell = cells.code_cell(source, outputs, execution_time_ms=3)
        made.append({"op": "append", "cell": cells.named(cell, new_cell_id(number))})
    state = begin_state(place, None)
    seq = journal.begin(place, lambda: {"op": "create", "state": state}, made, start=0, timeout=10)
    fold(place, seq, timeout=600)
    return place


def plain_write(directory: str, size: int = 2000) -> None:
    """Do what every durable writer must: write a file, wait for the disk, rename it."""
    path = os.path.join(directory, "plain")
    with open(path + ".tmp", "wb") as file:
        file.write(b"x" * size)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".tmp", path)


def with_nbformat(path: str) -> None:
    """Append a cell the way a program that knows only nbformat does."""
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    notebook.cells.append(nbformat.v4.new_code_cell("y = 1"))  # type: ignore[no-untyped-call]
    nbformat.write(notebook, path)  # type: ignore[no-untyped-call]


def quietly(*arguments: str) -> None:
    """Run a command inside this process."""
    with contextlib.redirect_stdout(io.StringIO()):
        main(arguments)


def process(code: str) -> None:
    """Run a whole Python process."""
    subprocess.run([sys.executable, "-c", code], check=True)


def rows() -> Iterator[Row]:
    """Measure everything, yielding each row when it is known."""
    with tempfile.TemporaryDirectory() as directory:
        os.environ["RLMNB_HOME"] = os.path.join(directory, "sessions")
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        yield from _append_rows(directory)
        yield from _query_rows(directory)
        yield _objects_row(directory)
        yield _redact_row()
        yield _hostile_row()


def _append_rows(directory: str) -> Iterator[Row]:
    make_session("thousand", 1000)
    code = APPEND.format("thousand")
    process(code)
    times = side_by_side(lambda: process(code), lambda: process("pass"), rounds=60)
    yield at_most("append, whole process, 1,000 cells", "python -c pass", times, 2.0)
    yield _hook_row()
    large = make_session("ten-thousand", 10_000)
    copy = Path(directory) / "copy.ipynb"
    copy.write_bytes(Path(large.notebook).read_bytes())
    times = side_by_side(
        lambda: rlmnb.append("ten-thousand", {"source": "y = 1", "output": "ok"}),
        lambda: with_nbformat(str(copy)),
        rounds=15,
        peer_rounds=3,
    )
    yield at_least_faster("append in process, 10,000 cells", "nbformat read+write", times, 100)
    data = Path(large.notebook).read_bytes()
    times = side_by_side(
        lambda: rlmnb.append("ten-thousand", {"source": "y = 1", "output": "ok"}),
        lambda: _copy(data, directory),
        rounds=15,
    )
    yield at_most("append in process, 10,000 cells", "writing as many bytes", times, 3.0)


def _hook_row() -> Row:
    """Compare a whole hook, as it is installed, with an interpreter that does nothing."""
    make_session("hooked", 1000)
    numbers = itertools.count()

    def hook() -> None:
        event = {
            "hook_event_name": "PostToolUse",
            "session_id": "hooked",
            "cwd": os.getcwd(),
            "tool_name": "Bash",
            "tool_input": {"command": "make test"},
            "tool_response": {"stdout": "ok", "stderr": ""},
            "tool_use_id": f"toolu_{next(numbers)}",
            "duration_ms": 5,
        }
        subprocess.run(command(), shell=True, input=json.dumps(event).encode(), check=True)

    def nothing() -> None:
        subprocess.run(f"{sys.executable} -c pass", shell=True, input=b"", check=True)

    hook()
    times = side_by_side(hook, nothing, rounds=60)
    return at_most("PostToolUse hook, 1,000 cells", "python -c pass", times, 2.0)


def _copy(data: bytes, directory: str) -> None:
    with open(os.path.join(directory, "bytes"), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _query_rows(directory: str) -> Iterator[Row]:
    path = session_place("ten-thousand").notebook
    quietly("cells", "ten-thousand", "--json")
    times = side_by_side(
        lambda: quietly("cells", "ten-thousand", "--json"),
        lambda: nbformat.read(path, as_version=4),  # type: ignore[no-untyped-call]
        rounds=7,
        peer_rounds=3,
    )
    yield at_least_faster("rlmnb cells --json, 10,000 cells", "nbformat.read", times, 10)
    names = iter(range(10_000))
    peer = "a durable file write"

    def write() -> None:
        plain_write(directory)

    times = side_by_side(lambda: Session.create(f"new-{next(names)}"), write, rounds=30)
    yield within("create a session", peer, times, 10, 50)
    Session.open("thousand")
    times = side_by_side(lambda: Session.open("thousand"), write, rounds=30)
    yield within("load a session, 1,000 cells", peer, times, 20, 100)
    session = Session.open("thousand")
    session.state  # noqa: B018 - the models are loaded before anything is timed

    def save() -> None:
        session.state.session.title = f"title {next(names)}"
        session.save()

    times = side_by_side(save, write, rounds=30)
    yield within("save a session, 1,000 cells", peer, times, 30, 150)
    times = side_by_side(lambda: rlmnb.append("thousand", {"source": "y = 1"}), write, rounds=30)
    yield within("create a cell, 1,000 cells", peer, times, 5, 20)
    session = Session.open("thousand")
    times = side_by_side(lambda: list(session.cells(type="repl", status="stale")), write, rounds=30)
    yield within("query cells, 1,000 cells", peer, times, 10, 50)


def _objects_row(directory: str) -> Row:
    items = [b"value %d" % number for number in range(10_000)]
    stores = iter(range(1000))

    def ours() -> None:
        Objects(os.path.join(directory, f"objects-{next(stores)}")).put_many(items)

    def files() -> None:
        folder = os.path.join(directory, f"files-{next(stores)}")
        os.mkdir(folder)
        for number, item in enumerate(items):
            with open(os.path.join(folder, str(number)), "wb") as file:
                file.write(item)

    times = side_by_side(ours, files, rounds=5)
    return at_least_faster("store 10,000 small objects", "a file each, no fsync", times, 2)


def _hostile_row() -> Row:
    """Compare the text that takes longest to redact with a quarter of it: linear is four times."""
    size = 1 << 19
    pairs = zip(hostile.texts(size), hostile.texts(size // 4), strict=True)
    times = [(_redacting(long), _redacting(short)) for long, short in pairs]
    worst = max(times, key=lambda pair: pair[0] / pair[1])
    return at_most("redact 512 KB of hostile text", "a quarter of it", worst, 8)


def _redacting(text: str) -> float:
    """Return the milliseconds of processor time that a text takes, which others cannot add to."""
    took = []
    for _ in range(3):
        before = time.process_time()
        redact_text(text)
        took.append(time.process_time() - before)
    return max(min(took) * 1000, 0.1)


def _redact_row() -> Row:
    library = Path(sysconfig.get_path("stdlib"))
    files = sorted((library / "asyncio").glob("*.py")) + sorted((library / "email").glob("*.py"))
    text = "".join(path.read_text(encoding="utf-8") for path in files)
    text = (text * (1 + (1 << 20) // len(text)))[: 1 << 20]
    digits = re.compile("[0-9]+")
    times = side_by_side(lambda: redact_text(text), lambda: digits.sub("0", text), rounds=15)
    return at_most("redact 1 MB of source", "re.sub of [0-9]+", times, 15)
