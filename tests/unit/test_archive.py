"""A session put away is whole, is found again, and comes back as it was."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rlmnb
from rlmnb.errors import InvalidNameError, SessionNotFoundError, StorageError
from rlmnb.store import archive
from rlmnb.store.layout import session_place
from rlmnb.store.objects import Objects
from tests.conftest import Run, notebook_of

LONG = "a long line of output\n" * 2000


@pytest.fixture
def session(root: Path) -> rlmnb.Session:
    made = rlmnb.Session.create("put-away", title="to be kept", tags=["auth"])
    made.append("x = 1", output="one\n")
    made.append("print(x)", output=LONG)
    Path("auth.py").write_text("pass\n")
    made.append('tools.Read(file_path="auth.py")', type="tool")
    return made


def everything_below(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def test_an_archived_session_comes_back_byte_for_byte(
    session: rlmnb.Session, root: Path, run: Run
) -> None:
    before = everything_below(root / "put-away")
    assert run("archive", "put-away").returncode == 0
    assert not (root / "put-away").exists()
    assert run("restore", "put-away").returncode == 0
    assert everything_below(root / "put-away") == before
    assert not (root / "archive" / "put-away.zip").exists()
    assert run("verify", "put-away").returncode == 0


def test_an_archive_keeps_its_objects_when_the_store_loses_them(
    session: rlmnb.Session, root: Path, run: Run, run_json: Callable[..., Any]
) -> None:
    run("archive", "put-away", check=True)
    objects = Objects(str(root / "objects"))
    assert objects.sizes()
    objects.drop(list(objects.sizes()))
    run("restore", "put-away", check=True)
    assert run("cell", "put-away", "2", "--output").stdout == LONG


def test_files_of_an_archive_are_for_its_owner_only(session: rlmnb.Session, root: Path) -> None:
    archived = archive.put_away(session.place)
    assert os.stat(archived.path).st_mode & 0o777 == 0o600
    assert os.stat(os.path.dirname(archived.path)).st_mode & 0o777 == 0o700


def test_archived_sessions_are_listed_with_what_a_search_wants(
    session: rlmnb.Session, run: Run, run_json: Callable[..., Any]
) -> None:
    run("archive", "put-away", check=True)
    assert run_json("sessions") == []
    (row,) = run_json("sessions", "--archived")
    assert (row["id"], row["title"], row["cells"]) == ("put-away", "to be kept", 3)
    assert row["files"] == [str(Path("auth.py").resolve())]
    assert run_json("sessions", "--archived", "--tag", "auth") == [row]
    assert run_json("sessions", "--archived", "--tag", "other") == []
    assert "put-away" in run("sessions", "--archived").stdout


def test_asking_for_an_archived_session_says_how_to_bring_it_back(
    session: rlmnb.Session, run: Run
) -> None:
    run("archive", "put-away", check=True)
    done = run("show", "put-away")
    assert done.returncode == 2
    assert "rlmnb restore put-away" in done.stderr


def test_an_archived_session_can_be_removed_for_good(
    session: rlmnb.Session, root: Path, run: Run
) -> None:
    run("archive", "put-away", check=True)
    assert run("rm", "put-away").returncode == 2
    assert (root / "archive" / "put-away.zip").exists()
    assert run("rm", "put-away", "--yes").returncode == 0
    assert not (root / "archive" / "put-away.zip").exists()


def test_disk_use_counts_the_archive(
    session: rlmnb.Session, root: Path, run: Run, run_json: Callable[..., Any]
) -> None:
    run("archive", "put-away", check=True)
    shown = run_json("du")
    assert shown["archive"] == (root / "archive" / "put-away.zip").stat().st_size
    assert shown["archive_count"] == 1


def test_old_sessions_are_archived_only_when_told_twice(
    session: rlmnb.Session, root: Path, run_json: Callable[..., Any]
) -> None:
    dry = run_json("archive", "--older-than", "0")
    assert dry == {"dry_run": True, "sessions": ["put-away"]}
    assert (root / "put-away").exists()
    done = run_json("archive", "--older-than", "0", "--yes")
    assert [each["session_id"] for each in done["archived"]] == ["put-away"]
    assert not (root / "put-away").exists()


def test_what_to_archive_has_to_be_said(session: rlmnb.Session, run: Run) -> None:
    assert run("archive").returncode == 2
    assert run("archive", "put-away", "--older-than", "1").returncode == 2


def test_a_session_whose_agent_runs_is_left_alone_unless_forced(
    session: rlmnb.Session, run: Run
) -> None:
    session.state.lifecycle.pid = os.getpid()
    session.save()
    done = run("archive", "put-away")
    assert done.returncode == 2
    assert "still running" in done.stderr
    assert run("archive", "put-away", "--force").returncode == 0


def test_a_notebook_of_somebodys_own_is_not_archived(run: Run) -> None:
    run("append", "mine.ipynb", "--source", "x = 1", check=True)
    assert run("archive", "mine.ipynb").returncode == 2
    assert Path("mine.ipynb").exists()


def test_a_restore_never_replaces_a_session(session: rlmnb.Session, root: Path, run: Run) -> None:
    run("archive", "put-away", check=True)
    run("append", "put-away", "--source", "y = 2", check=True)
    before = notebook_of("put-away").read_bytes()
    done = run("restore", "put-away")
    assert done.returncode == 3
    assert "already" in done.stderr
    assert notebook_of("put-away").read_bytes() == before
    assert (root / "archive" / "put-away.zip").exists()


def test_a_second_archive_of_the_same_id_does_not_replace_the_first(
    session: rlmnb.Session, root: Path, run: Run
) -> None:
    run("archive", "put-away", check=True)
    first = (root / "archive" / "put-away.zip").read_bytes()
    run("append", "put-away", "--source", "y = 2", check=True)
    assert run("archive", "put-away").returncode == 3
    assert (root / "archive" / "put-away.zip").read_bytes() == first
    assert notebook_of("put-away").exists()


def test_a_session_that_is_not_archived_is_told_how_its_kernel_goes_back(
    session: rlmnb.Session, run: Run
) -> None:
    for named in (session.id, session.id[:-1], session.path):
        done = run("restore", named)
        assert done.returncode == 2
        assert f"{session.id} is not archived" in done.stderr
        assert f"rlmnb restore {session.id} --at CELL" in done.stderr
    assert "--at CELL" in run("restore").stderr


def test_a_zip_from_elsewhere_is_restored_and_kept(
    session: rlmnb.Session, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archived = archive.put_away(session.place)
    other = tmp_path / "other"
    monkeypatch.setenv("RLMNB_HOME", str(other))
    place = archive.bring_back(str(other), archived.path)
    assert os.path.exists(archived.path)
    assert rlmnb.Session(place).cell(2).source == "print(x)"


def rewritten(path: str, change: Callable[[dict[str, bytes]], None]) -> None:
    with zipfile.ZipFile(path) as pack:
        members = {name: pack.read(name) for name in pack.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w") as pack:
        for name, data in members.items():
            pack.writestr(name, data)


def with_manifest(pack: dict[str, bytes], /, **changes: Any) -> None:
    pack["manifest.json"] = json.dumps({**json.loads(pack["manifest.json"]), **changes}).encode()


def added_outside(members: dict[str, bytes]) -> None:
    manifest = json.loads(members["manifest.json"])
    name = "session/../../escaped"
    described = next(iter(manifest["members"].values()))
    members[name] = members[next(iter(manifest["members"]))]
    with_manifest(members, members={**manifest["members"], name: described})


HOSTILE: dict[str, tuple[Callable[[dict[str, bytes]], None], type[Exception]]] = {
    "changed bytes": (lambda m: m.update({"session/session.ipynb": b"{}"}), StorageError),
    "a missing member": (lambda m: m.pop("session/journal.jsonl") and None, StorageError),  # type: ignore[func-returns-value]
    "no manifest": (lambda m: m.pop("manifest.json") and None, StorageError),  # type: ignore[func-returns-value]
    "a manifest that is not JSON": (lambda m: m.update({"manifest.json": b"{"}), StorageError),
    "a manifest that is a list": (lambda m: m.update({"manifest.json": b"[]"}), StorageError),
    "a newer format": (lambda m: with_manifest(m, format=2), StorageError),
    "an id that is a path": (lambda m: with_manifest(m, session_id="../x"), InvalidNameError),
    "a member that leads out": (added_outside, InvalidNameError),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_an_archive_that_cannot_be_trusted_changes_nothing(
    session: rlmnb.Session, root: Path, what: str
) -> None:
    change, error = HOSTILE[what]
    path = archive.put_away(session.place).path
    rewritten(path, change)
    before = everything_below(root)
    with pytest.raises(error):
        archive.bring_back(str(root), "put-away")
    after = everything_below(root)
    assert {name for name in after if not name.startswith("objects")} == {
        name for name in before if not name.startswith("objects")
    }
    assert os.path.exists(path)
    assert not (root.parent / "escaped").exists()


def test_what_is_not_a_zip_is_refused(root: Path) -> None:
    Path("broken.zip").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(StorageError):
        archive.bring_back(str(root), "broken.zip")
    with pytest.raises(SessionNotFoundError):
        archive.bring_back(str(root), "never-was")
    with pytest.raises(InvalidNameError):
        archive.bring_back(str(root), "../etc")


def test_one_broken_archive_does_not_hide_the_others(session: rlmnb.Session, root: Path) -> None:
    archive.put_away(session.place)
    (root / "archive" / "broken.zip").write_bytes(b"nothing")
    assert [each.session_id for each in archive.all_archived(str(root))] == ["put-away"]


def test_the_doctor_clears_what_a_restore_that_died_has_left(
    session: rlmnb.Session, root: Path, run: Run
) -> None:
    left = root / ".restore-999999999-abcd"
    left.mkdir()
    assert "did not finish" in run("doctor").stdout
    run("doctor", "--fix")
    assert not left.exists()


def test_an_append_while_a_session_is_put_away_is_not_lost(
    session: rlmnb.Session, root: Path
) -> None:
    place = session.place
    archived = archive.put_away(place)
    rlmnb.append("put-away", {"source": "late = 1"})
    with zipfile.ZipFile(archived.path) as pack:
        assert len(json.loads(pack.read("session/session.ipynb"))["cells"]) == 3
    assert rlmnb.Session(session_place("put-away", str(root))).cell(1).source == "late = 1"
