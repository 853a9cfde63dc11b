"""Working memory: typed, capped, long values apart, nothing lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rlmnb
from rlmnb.errors import WorkingMemoryError
from rlmnb.store import working
from rlmnb.store.objects import Objects
from tests.conftest import Run, read

LONG = ["a line that is remembered"] * 5000


def test_what_is_remembered_is_there_for_the_next_process(run: Run) -> None:
    session = rlmnb.Session.create("demo")
    session.remember(plan=["read", "fix"], seen={"auth.py": 3})
    again = rlmnb.Session.open("demo")
    assert again.working_memory == {"plan": ["read", "fix"], "seen": {"auth.py": 3}}


def test_a_long_value_goes_to_the_objects_and_comes_back_whole(root: Path) -> None:
    session = rlmnb.Session.create("demo")
    session.remember(long=LONG)
    stored = read("demo")["metadata"]["rlmnb"]["context"]["working_memory"]["long"]
    assert set(stored) == {"$object", "size_bytes"}
    assert rlmnb.Session.open("demo").working_memory == {"long": LONG}
    assert len(json.dumps(read("demo")["metadata"])) < 4096


def test_a_long_value_is_not_pruned(root: Path, run: Run) -> None:
    rlmnb.Session.create("demo").remember(long=LONG)
    run("prune", "--yes", check=True)
    assert rlmnb.Session.open("demo").working_memory == {"long": LONG}


def test_more_than_there_is_room_for_is_refused_and_nothing_changes() -> None:
    session = rlmnb.Session.create("demo")
    session.remember(kept=1)
    many = {f"n{number}": "x" * 10_000 for number in range(50)}
    with pytest.raises(WorkingMemoryError, match="262144"):
        session.remember(**many)
    assert rlmnb.Session.open("demo").working_memory == {"kept": 1}


@pytest.mark.parametrize("value", [{1, 2}, b"bytes", object()])
def test_what_is_not_json_is_refused(value: object) -> None:
    session = rlmnb.Session.create("demo")
    with pytest.raises((WorkingMemoryError, ValueError)):
        session.remember(bad=value)
    assert rlmnb.Session.open("demo").working_memory == {}


def test_a_fork_has_its_parents_working_memory_and_its_own_from_there() -> None:
    session = rlmnb.Session.create("demo")
    session.append("x = 1")
    session.remember(long=LONG, small=1)
    fork = session.fork()
    fork.remember(small=2)
    assert fork.working_memory == {"long": LONG, "small": 2}
    assert rlmnb.Session.open("demo").working_memory["small"] == 1


def test_the_command_line_remembers_and_forgets(run: Run, run_json: Callable[..., Any]) -> None:
    rlmnb.Session.create("demo")
    run("set", "demo", "--remember", "n=[1, 2]", "--remember", "who=Ada L.", check=True)
    assert run_json("show", "demo")["context"]["working_memory"] == {"n": [1, 2], "who": "Ada L."}
    assert "n, who" in run("show", "demo").stdout
    run("set", "demo", "--forget", "n", check=True)
    assert rlmnb.Session.open("demo").working_memory == {"who": "Ada L."}
    assert run("set", "demo", "--remember", "nothing").returncode == 2


def test_a_value_that_only_looks_kept_apart_is_named_when_its_object_is_missing(
    root: Path,
) -> None:
    memory = {"x": {"$object": "sha256:" + "0" * 64, "size_bytes": 1}}
    with pytest.raises(rlmnb.RlmnbError, match="0000"):
        working.whole(memory, Objects(str(root / "objects")))
