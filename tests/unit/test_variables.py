"""Stored variables: counted, pruned when no notebook needs them, never taken on trust."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlmnb
from rlmnb import digest
from rlmnb.errors import ObjectError
from rlmnb.kernel.state import StateStore, load_key
from rlmnb.store import sweep
from rlmnb.store.variables import SMALL, Variables
from tests.conftest import Run

KEY = b"k" * 32
# As many numbers as take a buffer of their own.
LARGE = 4 * SMALL
LATER = time.time() + 2 * sweep.GRACE_SECONDS


@pytest.fixture
def objects(root: Path) -> str:
    return str(root / "objects")


def kept(objects: str, value: object) -> str:
    name = StateStore(objects, KEY).save({"x": value}, ("x",), 1 << 40)
    assert name is not None
    return name


def loaded(objects: str, name: str) -> Any:
    return StateStore(objects, KEY).load({}, name, str)["x"]


def test_what_no_notebook_names_is_unused_with_its_buffers(objects: str, tmp_path: Path) -> None:
    used = kept(objects, np.arange(LARGE))
    unused = kept(objects, np.arange(LARGE) + 1)
    notebook = tmp_path / "n.ipynb"
    notebook.write_text(json.dumps({"state": used}))
    variables = Variables(objects)
    found = sweep.unused_state([str(notebook)], variables, now=LATER)
    assert unused in found
    assert len(found) == 2
    variables.drop(found, older_than=LATER)
    assert (loaded(objects, used) == np.arange(LARGE)).all()
    with pytest.raises(ObjectError):
        loaded(objects, unused)


def test_large_pieces_count_where_there_are_no_small_ones(objects: str) -> None:
    kept(objects, np.arange(SMALL))
    assert len(Variables(objects).sizes()) == 1


def test_what_is_young_is_never_unused(objects: str) -> None:
    kept(objects, [1, 2])
    assert sweep.unused_state([], Variables(objects)) == {}


def test_what_was_stored_again_meanwhile_stays(objects: str) -> None:
    name = kept(objects, [1, 2])
    began = time.time()
    kept(objects, [1, 2])
    Variables(objects).drop([name], older_than=began)
    assert loaded(objects, name) == [1, 2]


def test_an_equal_value_is_stored_once(objects: str) -> None:
    kept(objects, np.arange(LARGE))
    before = Variables(objects).sizes()
    kept(objects, np.arange(LARGE))
    assert set(Variables(objects).sizes()) == set(before)


def test_du_counts_stored_variables(
    root: Path, objects: str, run: Run, run_json: Callable[..., Any]
) -> None:
    rlmnb.Session.create("demo")
    kept(objects, "x" * 1000)
    assert run_json("du")["state"] > 1000
    assert "kept for replay" in run("du").stderr


def test_prune_takes_old_variables_of_sessions(
    root: Path, objects: str, run_json: Callable[..., Any]
) -> None:
    rlmnb.Session.create("demo")
    name = kept(objects, np.arange(LARGE))
    (path,) = [path for path in (root / "objects" / "state").rglob("*") if len(path.name) == 62]
    past = time.time() - 2 * sweep.GRACE_SECONDS
    os.utime(path, (past, past))
    assert len(run_json("prune")["state"]) == 1
    assert path.exists()
    assert len(run_json("prune", "--yes")["state"]) == 1
    assert not path.exists()
    with pytest.raises(ObjectError):
        loaded(objects, name)


def test_prune_of_a_notebook_keeps_what_its_neighbours_need(
    run: Run, run_json: Callable[..., Any]
) -> None:
    store = str(Path(".rlmnb/objects").resolve())
    run("append", "one.ipynb", "--source", "x = 1", check=True)
    names = [kept(store, np.arange(LARGE) + number) for number in range(2)]
    notebook = json.loads(Path("one.ipynb").read_text())
    notebook["metadata"]["needs"] = names[0]
    Path("two.ipynb").write_text(json.dumps(notebook))
    past = time.time() - 2 * sweep.GRACE_SECONDS
    for path in Path(store, "state").rglob("*"):
        if len(path.name) == 62:
            os.utime(path, (past, past))
    assert len(run_json("prune", "one.ipynb", "--yes")["state"]) == 1
    assert loaded(store, names[0])[0] == 0


def test_a_broken_database_is_named_with_the_way_out(objects: str, run: Run) -> None:
    rlmnb.Session.create("demo")
    kept(objects, [1])
    database = Path(objects, "state", "state.db")
    for path in database.parent.glob("state.db*"):
        path.write_bytes(b"not a database, not at all, and longer than a header is" * 20)
    done = run("du")
    assert done.returncode == 3
    assert "can be made again" in done.stderr


@pytest.mark.parametrize("change", [b"other", b""])
def test_bytes_that_were_tampered_with_are_not_loaded(objects: str, change: bytes) -> None:
    name = kept(objects, np.arange(LARGE))
    (path,) = [path for path in Path(objects, "state").rglob("*") if len(path.name) == 62]
    path.write_bytes(change)
    with pytest.raises(ObjectError):
        loaded(objects, name)


def test_state_signed_with_another_key_is_not_loaded(objects: str) -> None:
    name = StateStore(objects, b"o" * 32).save({"x": [1]}, ("x",), 1 << 20)
    assert name is not None
    with pytest.raises(ObjectError, match="signed"):
        loaded(objects, name)


def test_kernels_that_start_together_have_one_key(tmp_path):
    root = str(tmp_path / "new")
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda _: load_key(root), range(40)))
    assert len(keys) == 1
    assert len(keys.pop()) == 32


def test_a_key_that_was_cut_short_is_made_anew(tmp_path):
    (tmp_path / ".key").write_bytes(b"")
    assert load_key(str(tmp_path)) == (tmp_path / ".key").read_bytes() != b""
    assert (tmp_path / ".key").stat().st_mode & 0o777 == 0o600


def _begin_stores(base: str, together: Any) -> None:
    for number in range(40):
        together.wait(30)
        store = Variables(f"{base}/{number}")
        store.put(str(os.getpid()).encode())
        store.close()


def test_stores_that_several_processes_begin_at_once_take_what_each_has(tmp_path):
    together = multiprocessing.Barrier(4)
    processes = [
        multiprocessing.Process(target=_begin_stores, args=(str(tmp_path), together), daemon=True)
        for _ in range(4)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 4
    for number in range(40):
        store = Variables(f"{tmp_path}/{number}")
        assert all(store.get(digest.of_bytes(str(each.pid).encode())) for each in processes)
        store.close()
