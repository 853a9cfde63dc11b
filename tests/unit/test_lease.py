"""While a server has a notebook open as a live document, it is the one that writes it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rlmnb import Session
from rlmnb.errors import NotebookError
from rlmnb.store import archive, journal, lease, recover
from rlmnb.store.append import append
from rlmnb.store.fold import fold
from rlmnb.store.layout import session_place
from tests.conftest import append_many, ids_in, notebook_of

ELSEWHERE = "another-computer"


def write(**fields: Any) -> None:
    """Put a lease there as somebody else would."""
    mine = {"heartbeat": time.time(), "host": os.uname().nodename, "pid": os.getpid()}
    mine["ticks"] = time.monotonic()
    whole = {**mine, "since": time.time(), "who": "a test", **fields}
    Path(session_place("demo").lease).write_text(json.dumps(whole))


def held() -> bool:
    return lease.is_held(session_place("demo"))


def test_an_append_under_a_lease_writes_the_journal_and_not_the_notebook():
    ids = append_many("demo", 2)
    assert lease.take(session_place("demo"), "a test")
    before = notebook_of("demo").read_bytes()
    kept = append("demo", {"source": "late = 1"})
    assert kept.why_not is None
    assert notebook_of("demo").read_bytes() == before
    assert journal.last_seq(session_place("demo").journal) == kept.seq
    lease.give_back(session_place("demo"))
    newest = append("demo", {"source": "newest = 1"})
    assert ids_in("demo") == [*ids, kept.cell_id, newest.cell_id]


def test_a_lease_whose_holder_is_dead_is_void_at_once():
    append_many("demo", 1)
    program = (
        "import os, signal\n"
        "from rlmnb.store import lease\n"
        "from rlmnb.store.layout import session_place\n"
        "assert lease.take(session_place('demo'), 'a server')\n"
        "print('taken', flush=True)\n"
        "signal.pause()\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"taken\n"
    assert held()
    assert not lease.take(session_place("demo"), "another")
    late = append("demo", {"source": "late = 1"})
    assert late.cell_id not in ids_in("demo")
    holder.kill()
    holder.wait()
    holder.stdout.close()
    assert not held()
    newest = append("demo", {"source": "newest = 1"})
    assert ids_in("demo")[1:] == [late.cell_id, newest.cell_id]
    assert lease.take(session_place("demo"), "another")


def test_a_lease_without_a_heartbeat_is_void_wherever_its_holder_is():
    append_many("demo", 1)
    write(host=ELSEWHERE, pid=1)
    assert held()
    write(host=ELSEWHERE, pid=1, heartbeat=time.time() - lease.SECONDS - 1)
    assert not held()


@pytest.mark.parametrize(
    "fields",
    [
        {"ticks": time.monotonic() - 10},
        {"ticks": time.monotonic() + 10**6},
        {"ticks": "now"},
        {"ticks": None},
        {"ticks": float("inf")},
        {"ticks": float("nan")},
        {"host": ELSEWHERE, "heartbeat": time.time() + 10**6},
        {"host": ELSEWHERE, "heartbeat": "now"},
        {"pid": "1"},
        {"pid": True},
        {"pid": 0},
        {"pid": -1},
        {"pid": 10**30},
    ],
)
def test_a_lease_that_nobody_can_hold_is_none(fields: dict[str, Any]):
    append_many("demo", 1)
    write(**fields)
    assert not held()
    kept = append("demo", {"source": "late = 1"})
    assert ids_in("demo")[-1] == kept.cell_id


def test_what_stands_in_the_place_of_a_lease_and_is_none_hinders_nobody():
    append_many("demo", 1)
    path = Path(session_place("demo").lease)
    for content in (b"", b"[]", b"{", b"\xff", b"[" * 100_000):
        path.write_bytes(content)
        assert not held()
    path.unlink()
    path.symlink_to("/etc/hostname")
    assert not held()
    path.unlink()
    path.mkdir()
    assert not held()
    assert append("demo", {"source": "late = 1"}).cell_id in ids_in("demo")


def test_whoever_needs_the_notebook_up_to_date_waits_and_is_told_why_it_is_not():
    append_many("demo", 1)
    lease.take(session_place("demo"), "a test")
    kept = append("demo", {"source": "late = 1"})
    folded = fold(session_place("demo"), kept.seq, timeout=0.05)
    assert "JupyterLab has it open" in str(folded.why_not)
    lease.give_back(session_place("demo"))
    assert len(Session.open("demo").cells) == 2


def test_a_notebook_that_is_open_is_neither_repaired_nor_archived():
    append_many("demo", 1)
    lease.take(session_place("demo"), "a test")
    for refused in (recover.repair, archive.put_away):
        with pytest.raises(NotebookError, match="live document"):
            refused(session_place("demo"))
    assert len(ids_in("demo")) == 1


def test_a_lease_of_somebody_else_is_not_given_back():
    append_many("demo", 1)
    write(host=ELSEWHERE, pid=1)
    lease.give_back(session_place("demo"))
    assert held()
    assert not lease.take(session_place("demo"), "me")
