from __future__ import annotations

import os
import sqlite3
import time

import pytest

import rlmnb
from rlmnb import Session
from rlmnb.errors import ObjectError, UnsafePathError
from rlmnb.store import sweep
from rlmnb.store.layout import session_place
from rlmnb.store.objects import SMALL, Objects


@pytest.fixture
def objects(tmp_path):
    return Objects(str(tmp_path / "objects"))


@pytest.mark.parametrize("size", [0, 1, SMALL - 1, SMALL, 3 * SMALL])
def test_bytes_come_back_under_their_digest(objects, size):
    data = os.urandom(size)
    name = objects.put(data)
    assert name.startswith("sha256:")
    assert objects.get(name) == data
    assert name in objects
    assert objects.put(data) == name
    assert objects.sizes()[name][0] == size


def test_many_small_objects_share_one_file(objects):
    items = [b"%d" % number for number in range(2000)]
    names = objects.put_many(items)
    assert [objects.get(name) for name in names[::500]] == items[::500]
    assert os.listdir(objects.directory) == ["small.db"]


def test_many_takes_large_ones_too(objects):
    items = [b"small", b"L" * SMALL]
    assert [objects.get(name) for name in objects.put_many(items)] == items


@pytest.mark.parametrize("size", [10, SMALL])
def test_wrong_content_is_refused_and_can_be_found(objects, size):
    name = objects.put(b"a" * size)
    if size < SMALL:
        with sqlite3.connect(objects.directory + "/small.db") as database:
            database.execute("UPDATE object SET bytes = ?", (b"tampered",))
        database.close()
    else:
        path = os.path.join(objects.directory, name[7:9], name[9:])
        with open(path, "wb") as file:
            file.write(b"b" * size)
    with pytest.raises(ObjectError, match="other bytes"):
        objects.get(name)
    assert objects.damaged() == [name]


def test_a_missing_object_and_a_name_that_is_none_are_told_apart(objects):
    with pytest.raises(ObjectError, match="is not in"):
        objects.get("sha256:" + "0" * 64)
    for name in ("../../etc/passwd", "sha256:short", "md5:" + "0" * 64, "sha256:" + "Z" * 64):
        with pytest.raises(ObjectError, match="not the digest"):
            objects.get(name)
        assert name not in objects


def test_a_link_planted_for_the_store_is_not_followed(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "objects").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsafePathError):
        Objects(str(tmp_path / "objects")).put(b"x" * SMALL)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def age(objects: Objects) -> None:
    """Make all objects older than the time in which they may not yet be named."""
    long_ago = time.time() - 2 * sweep.GRACE_SECONDS
    for _, path in objects._files():
        os.utime(path, (long_ago, long_ago))
    with sqlite3.connect(objects.directory + "/small.db") as database:
        database.execute("CREATE TABLE IF NOT EXISTS object (digest, bytes, stored_at)")
        database.execute("UPDATE object SET stored_at = ?", (long_ago,))
    database.close()


def test_prune_removes_what_no_session_names_and_nothing_else(run_json):
    rlmnb.append("one", {"source": "x", "output": "kept " * 10_000})
    objects = Objects(session_place("one").objects)
    kept = next(iter(objects.sizes()))
    fork = Session.open("one").fork()
    unused_large, unused_small = objects.put(b"u" * SMALL * 2), objects.put(b"small")
    young = run_json("prune")
    assert young["objects"] == []
    age(objects)
    dry = run_json("prune")
    assert dry["dry_run"] is True
    assert dry["objects"] == sorted([unused_large, unused_small])
    assert unused_large in objects
    assert run_json("prune", "--yes")["bytes"] == SMALL * 2 + 5
    assert list(objects.sizes()) == [kept]
    assert run_json("rm", "one", "--yes")["removed"] == "one"
    assert run_json("prune", "--yes")["objects"] == []  # the fork still names it
    assert run_json("rm", fork.id, "--yes")
    assert run_json("prune", "--yes")["objects"] == [kept]
    assert objects.sizes() == {}


def test_du_tells_shared_objects_apart(run_json):
    rlmnb.append("one", {"source": "x", "output": "long " * 10_000})
    Session.open("one").fork(session_id="two")
    rlmnb.append("two", {"source": "x", "output": "other " * 10_000})
    report = run_json("du")
    sizes = {row["session_id"]: row for row in report["sessions"]}
    assert sizes["one"]["objects"] == sizes["one"]["shared_objects"] == 50_000
    assert sizes["two"]["objects"] == 110_000
    assert sizes["two"]["shared_objects"] == 50_000
    assert report["objects"] == 110_000
    assert report["unused_count"] == 0


def test_old_sessions_go_only_when_asked(run_json):
    rlmnb.append("one", {"source": "x"})
    assert run_json("prune", "--older-than", "1")["sessions"] == []
    assert run_json("prune", "--older-than", "0")["sessions"] == ["one"]
    assert run_json("sessions")[0]["id"] == "one"
    assert run_json("prune", "--older-than", "0", "--yes")["sessions"] == ["one"]
    assert run_json("sessions") == []
