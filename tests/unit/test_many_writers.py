"""Many processes at once, and processes that are killed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import nbformat

from rlmnb.store import journal
from tests.conftest import assert_valid, ids_in, notebook_of

WRITER = """
import sys, rlmnb
name, count = sys.argv[1], int(sys.argv[2])
for number in range(count):
    print(rlmnb.append("demo", {"source": f"{name}_{number} = 1"}, timeout=120), flush=True)
"""
ENDLESS = """
import rlmnb
while True:
    print(rlmnb.append("demo", {"source": "x = 1", "output": "y"}), flush=True)
"""


def test_fifty_processes_appending_twenty_cells_each_lose_none(root):
    problems: list[str] = []
    looks = 0
    done = threading.Event()

    def look() -> None:
        nonlocal looks
        while not done.is_set():
            try:
                json.loads(notebook_of("demo").read_bytes())
                looks += 1
            except FileNotFoundError:
                time.sleep(0.001)
            except ValueError as error:
                problems.append(str(error))

    reader = threading.Thread(target=look)
    reader.start()
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, f"w{number}", "20"], stdout=subprocess.PIPE, text=True
        )
        for number in range(50)
    ]
    said = [writer.communicate()[0].split() for writer in writers]
    done.set()
    reader.join()
    assert [writer.returncode for writer in writers] == [0] * 50
    assert problems == []
    assert looks > 10
    ids = ids_in("demo")
    assert len(ids) == len(set(ids)) == 1000
    assert sorted(ids) == sorted(each for one in said for each in one)
    in_journal = [
        entry["cell"]["id"]
        for entry in journal.all_entries(str(root / "demo" / "journal.jsonl"))
        if entry["op"] == "append"
    ]
    assert ids == in_journal
    for mine in said:
        assert mine == [each for each in ids if each in set(mine)]
    assert_valid(notebook_of("demo"))


def kill_while_appending(chance: random.Random, acknowledged: list[str]) -> None:
    process = subprocess.Popen([sys.executable, "-c", ENDLESS], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    acknowledged.append(process.stdout.readline().strip())
    time.sleep(chance.uniform(0, 0.02))
    process.send_signal(signal.SIGKILL)
    rest = process.stdout.read()
    # A line without its end may have been cut short by the kill itself.
    acknowledged += [line.strip() for line in rest.splitlines(True) if line.endswith("\n")]
    process.stdout.close()
    process.wait()


def test_two_hundred_kills_lose_no_acknowledged_cell():
    chance = random.Random(20261116)
    acknowledged: list[str] = []
    for _ in range(200):
        kill_while_appending(chance, acknowledged)
        notebook = nbformat.read(notebook_of("demo"), as_version=4)
        nbformat.validate(notebook)
        ids = [cell.id for cell in notebook.cells]
        missing = set(acknowledged) - set(ids)
        assert not missing
        assert len(ids) == len(set(ids))
    leftovers = [name for name in os.listdir(notebook_of("demo").parent) if name.endswith(".tmp")]
    assert len(leftovers) <= 1  # of the very last kill; the next append would remove it


def test_a_lock_of_a_dead_process_holds_nobody_up(root):
    holder = (
        "import sys, time; from rlmnb.files import Lock;"
        "lock = Lock(sys.argv[1], timeout=1).__enter__(); print('held', flush=True);"
        "time.sleep(60)"
    )
    subprocess.run([sys.executable, "-c", WRITER, "w", "1"], check=True, capture_output=True)
    for name in (".lock", "journal.jsonl"):
        process = subprocess.Popen(
            [sys.executable, "-c", holder, str(root / "demo" / name)], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        assert process.stdout.readline().strip() == b"held"
        process.kill()
        process.wait()
        process.stdout.close()
    subprocess.run([sys.executable, "-c", WRITER, "w", "1"], check=True, capture_output=True)
    assert len(ids_in("demo")) == 2


def test_a_lock_held_by_a_living_process_leaves_the_cell_in_the_journal(root):
    import rlmnb
    from rlmnb.files import Lock

    rlmnb.append("demo", {"source": "a = 1"})
    with Lock(str(root / "demo" / ".lock"), timeout=1):
        late = rlmnb.append("demo", {"source": "b = 2"}, timeout=0.05)
        assert late not in ids_in("demo")
    after = rlmnb.append("demo", {"source": "c = 3"})
    assert ids_in("demo")[1:] == [late, after]


def test_a_journal_held_by_a_living_process_leaves_the_cell_in_a_side_file(root):
    import rlmnb
    from rlmnb.files import Lock

    rlmnb.append("demo", {"source": "a = 1"})
    with Lock(str(root / "demo" / "journal.jsonl"), timeout=1):
        late = rlmnb.append("demo", {"source": "b = 2"}, timeout=0.05)
    assert len(list(Path(root / "demo" / "spill").iterdir())) == 1
    assert [cell.cell_id for cell in rlmnb.Session.open("demo").cells][-1] == late
    assert late in ids_in("demo")
    assert list(Path(root / "demo" / "spill").iterdir()) == []
