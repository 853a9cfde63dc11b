"""What a cell shows is trusted if it was made here, cell by cell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rlmnb
from rlmnb import digest
from rlmnb.replay.vouching import Vouchers, is_active
from tests.conftest import notebook_of, read

DEMO = "demo/session.ipynb"
SHOWS = "from IPython.display import HTML\nHTML('<script>made = {}</script>')"


def shown(html: str) -> list[dict[str, object]]:
    data = {"text/html": html, "text/plain": "<HTML>"}
    return [{"output_type": "display_data", "data": data, "metadata": {}}]


def trusted(server) -> list[bool]:
    return [cell["metadata"]["trusted"] for cell in server.contents(DEMO)["cells"]]


def replayed(run) -> None:
    assert run("replay", "demo", "--force").returncode == 0
    assert is_active(read("demo")["cells"][0]["outputs"])


def test_what_a_replay_made_stays_trusted_while_an_agent_appends(server, run):
    rlmnb.append("demo", {"source": SHOWS.format(1)})
    replayed(run)
    assert trusted(server) == [True]
    rlmnb.append("demo", {"source": "print(1)", "output": "1\n"})
    assert trusted(server) == [True, True]
    # Nothing of it gets into the file.
    assert b"trusted" not in notebook_of("demo").read_bytes()


def test_what_somebody_else_put_there_is_not_trusted_and_taints_no_other_cell(server, run):
    rlmnb.append("demo", {"source": SHOWS.format(2)})
    rlmnb.append("demo", {"source": "x = 1"})
    replayed(run)
    whole = read("demo")
    whole["cells"][1]["outputs"] = shown("<script>taken = over</script>")
    notebook_of("demo").write_text(json.dumps(whole), encoding="utf-8")
    assert trusted(server) == [True, False]
    whole["cells"][0]["outputs"][0]["data"]["text/html"] = ["<script>made = 2;more()</script>"]
    notebook_of("demo").write_text(json.dumps(whole), encoding="utf-8")
    assert trusted(server) == [False, False]


def test_what_a_person_ran_in_jupyter_stays_trusted_too(server):
    rlmnb.append("demo", {"source": "x = 1"})
    rlmnb.append("demo", {"source": "y = 1"})
    buffer = server.contents(DEMO)
    for cell, mine in zip(buffer["cells"], (True, False), strict=True):
        cell["outputs"] = shown(f"<b>{cell['id']}</b>")
        cell["metadata"]["trusted"] = mine
    assert server.save(DEMO, buffer).status == 200
    rlmnb.append("demo", {"source": "z = 1"})
    assert trusted(server) == [True, False, True]


@pytest.mark.parametrize(
    ("mime", "active"),
    [
        ("text/plain", False),
        ("image/png", False),
        ("text/html", True),
        ("text/markdown", True),
        ("text/latex", True),
        ("image/svg+xml", True),
        ("application/javascript", True),
        ("application/vnd.nobody.knows+json", True),
    ],
)
def test_only_plain_text_and_pictures_need_no_trust(mime, active):
    stream = {"output_type": "stream", "name": "stdout", "text": "<script>"}
    assert not is_active([stream])
    assert is_active([stream, {"output_type": "display_data", "data": {mime: "x"}}]) is active


def test_a_database_that_is_not_to_be_had_is_no_failure(tmp_path: Path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "file" / "below"))
    vouchers = Vouchers()
    known = digest.output_hash(shown("<b>x</b>"))
    vouchers.add(known)
    assert not vouchers.knows(known)
    vouchers.close()
