"""Secrets that were written before they were known as such are found and taken out."""

from __future__ import annotations

import json
import os
import random
import string
import zlib
from pathlib import Path
from typing import Any

import pytest

import rlmnb
from rlmnb import Session
from rlmnb.capture.entropy import looks_random, redact_random, redact_random_text
from rlmnb.store import checkpoints
from tests.conftest import assert_valid, notebook_of
from tests.unit.test_hook import SESSION, payload
from tests.unit.test_session_start import hook

TOKEN = "ghp" + "_" + "a1B2c3D4e5" * 3 + "F6g7H8"
PEM = (
    "-----BEGIN PRIVATE " + "KEY-----\n" + "MIIEvQIBADANBgkq\n" * 8 + "-----END PRIVATE KEY-----\n"
)
CHANCE = "".join(random.Random(7).choices(string.ascii_letters + string.digits, k=40))


def planted(session: str = "old") -> list[str]:
    """Write secrets where an older version or another tool could have left them."""
    long = "".join(f"line {n} of what was printed\n" for n in range(1500)) + f"token {TOKEN}\n"
    first = rlmnb.append(session, {"source": f"key = '{TOKEN}'", "output": f"key is {TOKEN}\n"})
    second = rlmnb.append(session, {"source": "print(text)", "output": long})
    kept = Session.open(session).objects.put(long.encode())
    third = rlmnb.append(
        session,
        {
            "source": f"tools.Write(file_path='/f', content=tools.kept('{kept}'))",
            "type": "tool",
            "operation": "Write",
            "args": {"file_path": "/f", "content": {"object": kept}},
            "files_read": {"/f": {"hash": kept}},
            "dependencies": [first, second],
        },
    )
    pem = rlmnb.append(session, {"source": "print(pem)", "output": PEM})
    rlmnb.append(session, {"cell_type": "markdown", "source": f"> use {TOKEN}"})
    opened = Session.open(session)
    checkpoints.keep(opened.place, "before compaction")
    opened.state.session.title = f"with {TOKEN}"
    opened.save()
    return [first, second, third, pem]


def holding(secret: str = TOKEN) -> list[Path]:
    """Return the files under the root that hold a secret, in whatever form."""
    found = []
    for path in Path(os.environ["RLMNB_HOME"]).rglob("*"):
        if not path.is_file():
            continue
        data = path.read_bytes()
        data = zlib.decompress(data) if path.name.endswith(".z") else data
        if secret.encode() in data:
            found.append(path)
    return found


def test_looking_names_kinds_and_places_and_changes_nothing(run, run_json) -> None:
    planted()
    Session.open("old")
    before = {path: path.read_bytes() for path in holding()}
    assert len(before) >= 4
    shown = run("scrub", "old")
    assert shown.returncode == 1
    assert TOKEN not in shown.stdout + shown.stderr
    found = run_json("scrub", "old", code=1)
    assert found["done"] is False
    assert {each["kind"] for each in found["found"]} == {"github-token", "private-key"}
    places = {each["where"].split(" ")[0] for each in found["found"]}
    assert {"notebook", "journal.jsonl", "checkpoint", "object"} <= places
    assert {path: path.read_bytes() for path in holding()} == before


def test_doing_it_leaves_no_secret_and_nothing_stale_or_damaged(run, run_json) -> None:
    cells = planted()
    stale = dict(Session.open("old").stale)
    assert run("verify", "old").returncode == 0
    assert run_json("scrub", "old", "--yes")["done"] is True
    assert holding() == []
    assert holding("MIIEvQIBADANBgkq") == []
    assert run("verify", "old").returncode == 0, run("verify", "old").stdout
    assert run("doctor", "old").returncode == 0
    assert_valid(notebook_of("old"))
    session = Session.open("old")
    assert [cell.cell_id for cell in session.cells][:4] == cells
    assert dict(session.stale) == stale
    assert session.cells[0].source.startswith("key = '[REDACTED:github-token:")
    name = session.cell(cells[2]).record.input.args["content"]["object"]
    assert f"tools.kept('{name}')" in session.cell(cells[2]).source
    assert b"[REDACTED:github-token:" in session.objects.get(name)
    (kept,) = checkpoints.all_kept(session.place)
    assert b"[REDACTED:" in checkpoints.contents(session.place, kept["name"])
    assert run_json("scrub", "old")["found"] == []
    assert "[REDACTED" in (session.state.session.title or "")


def test_the_hash_of_a_file_stays_although_an_object_had_the_same(run) -> None:
    cells = planted()
    before = Session.open("old").cell(cells[2]).record.files_read["/f"].hash
    run("scrub", "old", "--yes")
    assert Session.open("old").cell(cells[2]).record.files_read["/f"].hash == before


def test_the_notebook_made_again_from_the_journal_is_the_scrubbed_one(run) -> None:
    planted()
    run("scrub", "old", "--yes")
    before = [(cell.cell_id, cell.source) for cell in Session.open("old").cells]
    notebook_of("old").unlink()
    assert [(cell.cell_id, cell.source) for cell in Session.open("old").cells] == before
    assert run("verify", "old").returncode == 0


def test_an_edit_by_hand_is_still_one(run) -> None:
    rlmnb.append("old", {"source": f"k = '{TOKEN}'", "output": "x\n"})
    path = notebook_of("old")
    path.write_text(path.read_text().replace("k = ", "edited = "))
    run("scrub", "old", "--yes")
    (causes,) = Session.open("old").stale.values()
    assert list(causes) == ["source edited"]
    assert holding() == []


def test_cells_that_come_while_it_is_at_work_are_kept(run) -> None:
    planted()
    import threading

    go = threading.Event()
    made: list[str] = []

    def append() -> None:
        go.wait()
        made.extend(rlmnb.append("old", {"source": f"n{n} = {n}"}) for n in range(30))

    thread = threading.Thread(target=append)
    thread.start()
    go.set()
    assert run("scrub", "old", "--yes").returncode == 0
    thread.join()
    assert set(made) <= {cell.cell_id for cell in Session.open("old").cells}
    run("scrub", "old", "--yes")
    assert holding() == []
    assert run("verify", "old").returncode == 0


def test_an_object_that_another_session_names_stays_until_that_one_is_done(run) -> None:
    planted("one")
    planted("two")
    run("scrub", "one", "--yes")
    assert run("verify", "two").returncode == 0
    assert run("scrub", "--all", "--yes").returncode == 0
    assert holding() == []
    assert run("verify", "two").returncode == 0


def test_what_was_put_away_is_scrubbed_and_put_away_again(run, run_json) -> None:
    planted()
    run("set", "old", "--end")
    assert run("archive", "old").returncode == 0
    assert any("archive, " in each["where"] for each in run_json("scrub", "--all", code=1)["found"])
    assert run("scrub", "--all", "--yes").returncode == 0
    assert run_json("scrub", "--all")["found"] == []
    assert [each["id"] for each in run_json("sessions", "--archived")] == ["old"]
    assert run("restore", "old").returncode == 0
    assert holding() == []
    assert run("verify", "old").returncode == 0


def test_a_notebook_of_its_owners_keeps_its_mode(run, tmp_path) -> None:
    path = Path("mine.ipynb")
    rlmnb.append(str(path), {"source": f"k = '{TOKEN}'"})
    path.chmod(0o644)
    assert run("scrub", str(path), "--yes").returncode == 0
    assert TOKEN not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("arguments", [("nowhere",), ("old", "--all")])
def test_what_cannot_be_meant_is_refused(arguments: tuple[str, ...], run) -> None:
    planted()
    assert run("scrub", *arguments).returncode == 2


def test_a_session_without_secrets_is_not_touched(run) -> None:
    rlmnb.append("clean", {"source": "x = 1"})
    Session.open("clean")
    before = notebook_of("clean").stat()
    assert run("scrub", "clean", "--yes").stdout == "no secrets in 1 session\n"
    after = notebook_of("clean").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


# what only looks random


def test_chance_is_taken_out_only_for_those_who_ask(run, run_json) -> None:
    rlmnb.append("old", {"source": f"value = '{CHANCE}'"})
    assert run_json("scrub", "old")["found"] == []
    assert run_json("scrub", "old", "--entropy", "--yes")["found"]
    assert holding(CHANCE) == []
    assert run("verify", "old").returncode == 0


def test_hooks_take_chance_out_where_the_environment_asks_for_it() -> None:
    answer = {"stdout": f"value {CHANCE}\n", "stderr": ""}
    call: Any = payload("PostToolUse.Bash", tool_response=answer)
    hook(call, RLMNB_REDACT_ENTROPY="1")
    assert holding(CHANCE) == []
    cell = Session.open(SESSION).cells[0]
    assert "[REDACTED:entropy:" in json.dumps(cell.outputs)
    assert cell.record.tool_use_id == call["tool_use_id"]


def test_most_of_what_is_random_is_found_and_what_people_write_is_not() -> None:
    source = random.Random(1)
    made = ["".join(source.choices(string.ascii_letters + string.digits, k=40)) for _ in range(500)]
    assert sum(map(looks_random, made)) > 480
    ordinary = (
        "getUserByIdFromTheCacheStore1 src/components/LoginForm2/index 2024-05-01T12-00-00Z "
        "550e8400-e29b-41d4-a716-446655440000 toolu_01AbCdEfGhIjKlMnOpQrStUv "
        "9fceb02d0ae598e95dc970b74767f19372d61af8 sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg "
        "test_that_two_hooks_at_once_lose_nothing_2 YOUR_ACCESS_TOKEN_GOES_HERE_123"
    )
    assert redact_random_text(ordinary) == ordinary
    for path in (Path(__file__).parents[2] / "rlmnb").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert redact_random_text(text) == text, path
    kept = {"tool_use_id": CHANCE, "session_id": CHANCE, "base64": CHANCE}
    assert redact_random(kept) == kept
