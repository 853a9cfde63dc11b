"""An agent appends while people have the notebook open as a live document."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rlmnb
from rlmnb import Session
from rlmnb.files import Lock
from rlmnb.store import journal, lease
from rlmnb.store.append import append
from rlmnb.store.layout import session_place
from rlmnb.store.notebook import appended_of
from tests.browser.sharing import EXTENSIONS, Person, opened, saved, until
from tests.conftest import append_many, assert_valid, ids_in, notebook_of
from tests.lab.serving import Server, served

pytestmark = pytest.mark.browser
DEMO = "demo/session.ipynb"
CLEANUP = {"YDocExtension.document_cleanup_delay": "0.5"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Server]]:
    """Serve a sessions root to people who work together, in one test after the other."""
    sessions = tmp_path_factory.mktemp("live") / "sessions"
    sessions.mkdir()
    with served(sessions, *EXTENSIONS, home=sessions, **CLEANUP) as running:
        yield sessions, running


@pytest.fixture
def server(shared: tuple[Path, Server], monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Let a test use the server, with no session in it and no document open."""
    sessions, running = shared
    monkeypatch.setenv("RLMNB_HOME", str(sessions))
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(running.data))
    yield running
    asyncio.run(until(lambda: not any(sessions.glob("*/lease.json"))))
    for each in sessions.iterdir():
        shutil.rmtree(each) if each.is_dir() else each.unlink()


@pytest.fixture
def mortal_server(root: Path) -> Iterator[Server]:
    """Serve the sessions root of one test, which may be the end of the server."""
    root.mkdir()
    with served(root, *EXTENSIONS, **CLEANUP) as running:
        yield running


def on_disk() -> dict[str, Any]:
    return saved(notebook_of("demo"))


def between_saves() -> Lock:
    """The server holds the session's lock while it saves."""
    return Lock(session_place("demo").lock, timeout=20)


async def leased() -> None:
    await until(lambda: lease.is_held(session_place("demo")))


def test_an_appended_cell_is_in_the_live_document_within_a_moment_and_then_on_disk(server):
    ids = append_many("demo", 2)

    async def story() -> None:
        async with opened(server, DEMO) as person:
            assert person.ids == ids
            await leased()
            before = notebook_of("demo").stat()
            kept = await asyncio.to_thread(append, "demo", {"source": "late = 1", "output": "1\n"})
            assert kept.why_not is None
            # The hook wrote the journal only: the file is the server's to write.
            assert notebook_of("demo").stat().st_ino == before.st_ino
            await person.sees(lambda me: me.ids == [*ids, kept.cell_id])
            shown = person.cells[2]
            assert shown["source"] == "late = 1"
            assert shown["outputs"] == [{"name": "stdout", "output_type": "stream", "text": "1\n"}]
            await until(lambda: ids_of_disk() == [*ids, kept.cell_id])
            assert on_disk()["metadata"]["rlmnb"]["appended"] == 3

    asyncio.run(story())
    assert_valid(notebook_of("demo"))


def ids_of_disk() -> list[str]:
    return [cell["id"] for cell in on_disk()["cells"]]


def appended_on_disk() -> int:
    return appended_of(on_disk()["metadata"])


def test_typing_while_twenty_cells_arrive_keeps_every_key_and_every_cell(server):
    ids = append_many("demo", 2)
    keys = "abcdefghij" * 8

    async def type_all(person) -> None:
        for key in keys:
            person.type(0, key)
            await asyncio.sleep(0.02)

    async def story() -> list[str]:
        async with opened(server, DEMO) as person:
            await leased()
            typing = asyncio.create_task(type_all(person))
            late = [
                (await asyncio.to_thread(append, "demo", {"source": f"n{n} = {n}"})).cell_id
                for n in range(20)
            ]
            await typing
            await person.sees(lambda me: me.ids == [*ids, *late])
            assert person.cells[0]["source"] == "x0 = 0" + keys
            await until(lambda: ids_of_disk() == [*ids, *late])
            await until(lambda: "".join(on_disk()["cells"][0]["source"]) == "x0 = 0" + keys)
            return late

    late = asyncio.run(story())
    assert [cell.cell_id for cell in Session.open("demo").cells] == ids + late
    assert_valid(notebook_of("demo"))


async def saved_again_and_again(person: Person, times: int) -> None:
    """Type and save by hand, and find on disk what was typed as soon as it is said to be saved."""
    for number in range(times):
        person.type(0, f"\n# {number}")
        await asyncio.sleep(0.05)  # on its way to the server
        assert await person.save() == "success"
        assert f"# {number}" in "".join(on_disk()["cells"][0]["source"])


def test_a_save_by_hand_while_others_write_is_answered_once_it_is_done(server):
    ids = append_many("demo", 50, output="text " * 1000)

    async def type_on(person: Person) -> None:
        while True:
            person.type(1, "#")
            await asyncio.sleep(0.01)

    async def story() -> None:
        async with opened(server, DEMO) as one, opened(server, DEMO) as other:
            await leased()
            typing = asyncio.create_task(type_on(other))
            saving = asyncio.create_task(saved_again_and_again(one, 10))
            for number in range(20):
                wrote = await asyncio.to_thread(append, "demo", {"source": f"n{number} = 1"})
                ids.append(wrote.cell_id)
            await saving
            typing.cancel()
            await one.sees(lambda me: me.ids == ids)

    asyncio.run(story())
    assert ids_in("demo") == ids


def test_a_save_by_hand_after_the_lease_ran_out_keeps_what_was_typed(server):
    ids = append_many("demo", 2)

    async def story() -> None:
        async with opened(server, DEMO) as person:
            await leased()
            saving = asyncio.create_task(saved_again_and_again(person, 20))
            for number in range(20):
                # As if the server had not come round to renew it.
                Path(session_place("demo").lease).unlink(missing_ok=True)
                wrote = await asyncio.to_thread(append, "demo", {"source": f"n{number} = 1"})
                ids.append(wrote.cell_id)
                await asyncio.sleep(0.05)
            await saving
            await person.sees(lambda me: me.ids == ids)
            kept = [line for line in person.cells[0]["source"].splitlines() if line[0] == "#"]
            assert kept == [f"# {number}" for number in range(20)]
            await until(lambda: ids_of_disk() == ids)
            await leased()  # again: whoever comes next goes by it

    asyncio.run(story())
    assert_valid(notebook_of("demo"))


def test_two_people_and_the_agent_end_with_the_same_notebook(server):
    append_many("demo", 3)

    async def story() -> None:
        async with opened(server, DEMO) as one, opened(server, DEMO) as other:
            await leased()
            one.type(0, "  # one")
            other.type(1, "  # other")
            kept = await asyncio.to_thread(rlmnb.append, "demo", {"source": "z = 1"})
            for each in (one, other):
                await each.sees(lambda me: me.ids[-1] == kept)
                await each.sees(lambda me: "# other" in me.cells[1]["source"])
                await each.sees(lambda me: "# one" in me.cells[0]["source"])
            assert one.cells == other.cells

    asyncio.run(story())


def test_a_cell_that_is_deleted_in_the_live_document_stays_deleted(server):
    ids = append_many("demo", 3)

    async def story() -> None:
        async with opened(server, DEMO) as person:
            await leased()
            person.delete(1)
            await until(lambda: ids_of_disk() == [ids[0], ids[2]])
            kept = await asyncio.to_thread(rlmnb.append, "demo", {"source": "z = 1"})
            await until(lambda: ids_of_disk() == [ids[0], ids[2], kept])
            assert person.ids == [ids[0], ids[2], kept]

    asyncio.run(story())
    assert len(Session.open("demo").cells) == 3


def test_the_command_that_appends_and_reads_back_finds_its_own_cell(server, run_json):
    append_many("demo", 1)

    async def story() -> None:
        async with opened(server, DEMO):
            await leased()
            added = await asyncio.to_thread(run_json, "append", "demo", "--source", "y = 2")
            listed = await asyncio.to_thread(run_json, "cells", "demo")
            assert [cell["cell_id"] for cell in listed][-1] == added["cell_id"]

    asyncio.run(story())


def test_a_replay_from_the_command_line_edits_the_live_document(server, run_json):
    ids = [rlmnb.append("demo", {"source": each}) for each in ("x = 1", "print(x + 1)")]

    async def story() -> None:
        async with opened(server, DEMO) as person:
            await leased()
            person.type(0, "0")
            await until(lambda: on_disk()["cells"][0]["source"] == ["x = 10"])
            report = await asyncio.to_thread(run_json, "replay", "demo")
            assert report["executed"] == ids
            await person.sees(lambda me: bool(me.cells[1]["outputs"]))
            person.type(0, "  # typed on")
            assert person.cells[1]["outputs"][0]["text"] == "11\n"
            assert person.cells[0]["metadata"]["rlmnb"]["status"] == "completed"
            await until(lambda: on_disk()["cells"][0]["source"] == ["x = 10  # typed on"])
            assert on_disk()["cells"][1]["outputs"][0]["text"] == ["11\n"]

    asyncio.run(story())
    stale = run_json("status", "demo")["stale"]
    assert stale == []


def test_a_replay_from_the_server_sees_what_was_typed_a_moment_ago(server):
    ids = [rlmnb.append("demo", {"source": each}) for each in ("x = 1", "print(x + 1)")]

    async def story() -> None:
        async with opened(server, DEMO) as person:
            await leased()
            person.type(0, "00")
            await asyncio.sleep(0.2)  # on its way to the server, which has not saved it yet
            begun = await asyncio.to_thread(server.post, "replay", {"path": DEMO})
            assert begun.status == 202
            await person.sees(lambda me: bool(me.cells[1]["outputs"]))
            assert person.cells[1]["outputs"][0]["text"] == "101\n"
            found = (await asyncio.to_thread(server.get, "status", path=DEMO)).json
            assert found["live"] is True

    asyncio.run(story())
    assert ids_in("demo") == ids


def test_a_cell_that_is_edited_while_it_is_replayed_keeps_the_edit(server, run):
    append_many("demo", 1)
    began, edited = Path("began").absolute(), Path("edited").absolute()
    waiting = f"""
import pathlib, time
pathlib.Path({str(began)!r}).touch()
while not pathlib.Path({str(edited)!r}).exists():
    time.sleep(0.01)
print('old')"""
    rlmnb.append("demo", {"source": waiting})

    async def story() -> None:
        async with opened(server, DEMO) as person:
            await leased()
            replaying = asyncio.create_task(asyncio.to_thread(run, "replay", "demo", "--force"))
            await until(began.exists)
            person.type(1, "; print('new')")
            await until(lambda: "new" in on_disk()["cells"][1]["source"][-1])
            edited.touch()
            assert (await replaying).returncode == 0
            last = await asyncio.to_thread(rlmnb.append, "demo", {"source": "z = 1"})
            await person.sees(lambda me: me.ids[-1] == last)  # and all that was told before it
            assert person.cells[1]["source"] == f"{waiting}; print('new')"
            assert person.cells[1]["outputs"] == []

    asyncio.run(story())


def test_a_server_that_is_killed_loses_nothing_and_hooks_write_the_notebook_again(mortal_server):
    ids = append_many("demo", 2)

    async def story() -> list[str]:
        async with opened(mortal_server, DEMO):
            await leased()
            late = [
                (await asyncio.to_thread(append, "demo", {"source": f"n{n} = {n}"})).cell_id
                for n in range(5)
            ]
            mortal_server.kill()
            return late

    late = asyncio.run(story())
    assert Path(session_place("demo").lease).exists()
    assert not lease.is_held(session_place("demo"))
    newest = append("demo", {"source": "after = 1"})
    assert newest.why_not is None
    assert ids_in("demo") == [*ids, *late, newest.cell_id]
    assert_valid(notebook_of("demo"))


def test_a_server_that_sleeps_loses_its_lease_and_finds_everything_when_it_wakes(mortal_server):
    ids = append_many("demo", 2)

    async def story() -> None:
        async with opened(mortal_server, DEMO) as person:
            await leased()
            ids.append(await asyncio.to_thread(rlmnb.append, "demo", {"source": "seen = 1"}))
            await until(lambda: ids_of_disk() == ids)
            with between_saves():
                mortal_server.process.send_signal(signal.SIGSTOP)
            first = await asyncio.to_thread(append, "demo", {"source": "first = 1"})
            person.type(0, "  # asleep")
            await until(lambda: not lease.is_held(session_place("demo")))
            late = await asyncio.to_thread(append, "demo", {"source": "late = 1"})
            assert ids_of_disk() == [*ids, first.cell_id, late.cell_id]
            mortal_server.process.send_signal(signal.SIGCONT)
            await person.sees(lambda me: me.ids == [*ids, first.cell_id, late.cell_id])
            await leased()
            person.type(0, "  # awake")
            await until(lambda: on_disk()["cells"][0]["source"] == ["x0 = 0  # asleep  # awake"])
            assert person.cells[0]["source"] == "x0 = 0  # asleep  # awake"
            assert ids_of_disk() == [*ids, first.cell_id, late.cell_id]

    asyncio.run(story())
    assert_valid(notebook_of("demo"))


def test_what_another_program_writes_into_the_file_reaches_the_live_document(server):
    append_many("demo", 2)

    async def story() -> None:
        async with opened(server, DEMO) as person:
            await leased()
            await asyncio.to_thread(rlmnb.append, "demo", {"source": "z = 1"})
            await until(lambda: len(ids_of_disk()) == 3)
            with between_saves():
                edited = on_disk()
                edited["cells"][1]["source"] = ["by_another_program = 1"]
                notebook_of("demo").write_text(json.dumps(edited, indent=1, sort_keys=True) + "\n")
            await person.sees(lambda me: me.cells[1]["source"] == "by_another_program = 1")
            assert len(person.cells) == 3

    asyncio.run(story())


def test_closing_the_document_gives_the_lease_back(server):
    ids = append_many("demo", 1)

    async def story() -> None:
        async with opened(server, DEMO):
            await leased()

    asyncio.run(story())
    asyncio.run(until(lambda: not Path(session_place("demo").lease).exists()))
    newest = rlmnb.append("demo", {"source": "z = 1"})
    assert ids_in("demo") == [*ids, newest]


def test_opening_and_closing_leaves_the_file_byte_for_byte_as_it_was(server, run):
    append_many("demo", 2, output="text\n")
    rlmnb.append("demo", {"source": "print(1 / 3, 2.0)\n10**20"})
    numbers = "[2.0, 0.5, 1e-7, 1e17, 1e300, 10**20]"
    rlmnb.append("demo", {"source": f"from IPython.display import JSON\nJSON({numbers})"})
    run("replay", "demo", "3,4", "--force")
    before = notebook_of("demo").read_bytes()

    async def story() -> None:
        async with opened(server, DEMO) as person:
            await leased()
            person.type(0, "#")
            await until(lambda: notebook_of("demo").read_bytes() != before)
            source = person.document.ycells[0]["source"]
            del source[len(source) - 1]
            await until(lambda: notebook_of("demo").read_bytes() == before)

    asyncio.run(story())
    assert notebook_of("demo").read_bytes() == before


def test_cells_that_change_places_do_so_in_the_live_document(server):
    ids = append_many("demo", 3)

    async def story() -> None:
        async with opened(server, DEMO) as person:
            await leased()
            from rlmnb.store.append import write_entry

            wanted = [ids[2], ids[1], ids[0]]
            write_entry(session_place("demo"), lambda _: {"op": "order", "cells": wanted})
            await person.sees(lambda me: me.ids == wanted)
            await until(lambda: ids_of_disk() == wanted)

    asyncio.run(story())
    assert ids_of_disk() == ids[::-1]


def test_metadata_that_is_lost_in_the_live_document_comes_back(server):
    ids = append_many("demo", 2)

    async def story() -> None:
        async with opened(server, DEMO) as person:
            await leased()
            del person.document.ydoc["meta"]["metadata"]["rlmnb"]
            kept = await asyncio.to_thread(rlmnb.append, "demo", {"source": "z = 1"})
            await person.sees(lambda me: me.ids == [*ids, kept])
            await until(lambda: appended_on_disk() == 3)

    asyncio.run(story())
    assert journal.last_seq(session_place("demo").journal) == 3
