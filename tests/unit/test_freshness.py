"""Files that changed since a cell read them, and names that code reads and writes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rlmnb import Session, digest
from rlmnb.graph.freshness import find_stale
from rlmnb.graph.names import names_of
from rlmnb.replay.cells import stale_cells
from tests.conftest import notebook_of, read, save_like_lab


def read_cell(session: Session, name: str, call: str = "Read") -> str:
    return session.append(source=f'tools.{call}(file_path="{name}")', type="tool")


def test_a_changed_file_makes_its_readers_stale_and_a_changed_back_one_fresh():
    Path("auth.py").write_text("one")
    Path("other.py").write_text("one")
    session = Session.create("demo")
    reader, other = read_cell(session, "auth.py"), read_cell(session, "other.py")
    later = session.append(source="summary()", dependencies=[reader])
    assert not session.stale
    Path("auth.py").write_text("two")
    path = str(Path.cwd() / "auth.py")
    assert dict(Session.open("demo").stale) == {
        reader: [f"{path} changed"],
        later: [f"{reader}, which it depends on, changes"],
    }
    assert [cell.cell_id for cell in Session.open("demo").cells(status="fresh")] == [other]
    Path("auth.py").write_text("one")
    assert not Session.open("demo").stale
    Path("auth.py").unlink()
    assert Session.open("demo").stale[reader] == [f"{path} is missing now"]


def test_touching_a_file_without_changing_it_makes_nothing_stale():
    Path("auth.py").write_text("one")
    session = Session.create("demo")
    read_cell(session, "auth.py")
    os.utime("auth.py", (1, 1))
    assert not Session.open("demo").stale


def test_a_file_that_was_missing_is_a_value_of_its_own():
    session = Session.create("demo")
    reader = read_cell(session, "not-yet.py")
    assert not session.stale
    Path("not-yet.py").write_text("")
    assert list(Session.open("demo").stale) == [reader]


def test_the_sessions_own_later_edit_is_no_change_from_outside():
    Path("auth.py").write_text("one")
    session = Session.create("demo")
    reader = read_cell(session, "auth.py")
    Path("auth.py").write_text("two")
    read_cell(session, "auth.py", "Edit")
    assert not session.stale
    Path("auth.py").write_text("three")
    assert list(Session.open("demo").stale) == [reader]


def test_an_edit_with_the_same_size_and_time_is_seen_if_the_record_is_that_young():
    Path("auth.py").write_text("one")
    recorded = digest.of_file("auth.py")
    assert recorded["mtime_ns"] is None
    status = os.stat("auth.py")
    Path("auth.py").write_text("two")
    os.utime("auth.py", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert digest.file_changed("auth.py", recorded) is not None


def test_an_old_file_is_known_by_its_size_and_time(monkeypatch):
    Path("auth.py").write_text("one")
    os.utime("auth.py", (1000, 1000))
    recorded = digest.of_file("auth.py")
    monkeypatch.setattr(digest, "of_file", lambda _: pytest.fail("it was read again"))
    assert digest.file_changed("auth.py", recorded) is None


def test_odd_things_at_a_path_are_described_and_never_opened_for_long(tmp_path):
    os.mkfifo("pipe")
    for path in ("pipe", str(tmp_path), "nul\0nul"):
        assert digest.of_file(path)["hash"] == "unreadable"


def test_a_large_file_has_the_digest_that_other_tools_give_it():
    import hashlib

    data = os.urandom(3_000_000)
    Path("large").write_bytes(data)
    assert digest.of_file("large")["hash"] == "sha256:" + hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize(
    ("source", "reads", "writes"),
    [
        ("x = 1", "", "x"),
        ("y = x + 1", "x", "y"),
        ("x = x + 1", "x", "x"),
        ("x += 1", "x", "x"),
        ("x = 1\nprint(x)", "", "x"),
        ("print(x)\nx = 1", "x", "x"),
        ("if a:\n    x = 1\nprint(x)", "a x", "x"),
        ("for i in data:\n    t = i", "data", "i t"),
        ("while n:\n    n -= 1", "n", "n"),
        ("def f(a, b=k, *c, **d):\n    return a + g + len(c)", "g k", "f"),
        ("def f():\n    return h\nh = 1", "", "f h"),
        ("def f():\n    global c\n    c += 1", "c", "c f"),
        ("f = lambda u: u + v", "v", "f"),
        ("[a for a in b if c]", "b c", ""),
        ("{k: v for k, v in m.items()}", "m", ""),
        ("class C(B, metaclass=M):\n    z = w\n    def m(self):\n        return g", "B M g w", "C"),
        ("@deco\ndef f(): pass", "deco", "f"),
        ("import os.path as p, sys\nfrom a import b as c", "", "c p sys"),
        ("with o(f) as h:\n    d = h", "f o", "d h"),
        ("try:\n    a = 1\nexcept E as e:\n    b = e\nelse:\n    d = a", "E a", "a b d e"),
        ("del q", "q", "q"),
        ("(n := m)", "m", "n"),
        ("x: int = y", "y", "x"),
        ("a.b = c\nd[e] = f", "a c d e f", "a d"),
        ("d['x'] = 1", "d", "d"),
        ("l.append(1)", "l", "l"),
        ("a.b[0].update(c)", "a c", "a"),
        ("df.dropna(inplace=True)", "df", "df"),
        ("df.dropna(inplace=False)\nprint(df.head())", "df", ""),
        ("del d['x']", "d", "d"),
        ("x = []\nx.append(1)", "", "x"),
        ("match s:\n    case {'k': v, **r}:\n        t = v", "s", "r t v"),
        ("len = 3\nprint(len)", "", "len"),
        ("async def f():\n    await g()\nawait f()", "g", "f"),
        ("print(1)", "", ""),
        ("this is no python", "", ""),
        ("%matplotlib inline\nx = y", "y", "x"),
    ],
)
def test_names_are_found_in_code(source, reads, writes):
    found = names_of(source)
    assert " ".join(found.reads) == reads
    assert " ".join(found.writes) == writes
    assert not found.opaque


@pytest.mark.parametrize(
    "source",
    [
        "exec('x')",
        "globals()['x'] = 1",
        "%run other.py",
        "%%bash\nx = 1",
        "from m import *",
        "x = !ls",
    ],
)
def test_code_that_can_reach_any_name_is_opaque(source):
    assert names_of(source).opaque


def test_an_opaque_cell_depends_on_all_that_set_a_variable_and_may_set_any():
    session = Session.create("demo")
    first = session.append(source="x = 1")
    opaque = session.append(source="exec('y = x')")
    last = session.append(source="print(y)")
    assert session.cell(opaque).reasons == {first: "may read any variable"}
    assert session.cell(last).reasons == {opaque: "may set y"}


@pytest.mark.parametrize("kind", ["context_snapshot", "invalidation_condition"])
def test_a_cell_rests_on_the_files_it_was_shown_and_on_its_condition(kind):
    path = Path("auth.py").absolute()
    path.write_text("one")
    known = {"hash": digest.of_file(str(path))["hash"]}
    fields = {
        "context_snapshot": {"files": {str(path): known}},
        "invalidation_condition": {"kind": "file_changed", "path": str(path), **known},
    }
    session = Session.create("demo")
    cell_id = session.append(source="x = 1", **{kind: fields[kind]})
    assert not session.stale
    path.write_text("two")
    assert Session.open("demo").stale == {cell_id: [f"{path} changed"]}
    assert Session.open("demo").cells(file="auth.py")[0].cell_id == cell_id


@pytest.mark.parametrize("what", ["source_hash", "output_hash"])
def test_a_cell_whose_condition_names_another_is_stale_once_that_one_changed(what):
    session = Session.create("demo")
    first = session.append(source="x = 1\nx", output="1")
    known = session.index["cells"][first][what]
    condition = {"kind": "cell_changed", "cell_id": first, "hash": known}
    held = session.append(source="print('one')", output="one", invalidation_condition=condition)
    after = session.append(source="print('two')", output="two", dependencies=[held])
    assert not session.stale
    assert not stale_cells(session)
    why = [f"{first}, which its condition names, changed"]
    whole = read("demo")
    cell = whole["cells"][0]
    if what == "source_hash":
        cell["source"] = "x = 2\nx"
    else:
        cell["metadata"]["rlmnb"]["output_hash"] = digest.output_hash([])
    save_like_lab(notebook_of("demo"), whole)
    session = Session.open("demo")
    assert session.stale[held] == why
    assert session.stale[after] == [f"{held}, which it depends on, changes"]
    assert stale_cells(session)[held] == why
    whole["cells"] = whole["cells"][1:]
    save_like_lab(notebook_of("demo"), whole)
    assert Session.open("demo").stale[held] == [f"{first}, which its condition names, is gone"]


def test_a_cell_is_stale_once_its_time_is_over():
    session = Session.create("demo")
    ends = "2100-01-01T01:00:00+01:00"
    held = session.append(source="x", invalidation_condition={"kind": "expired", "at": ends})
    other = session.append(source="y")
    assert not session.stale
    moment = 4102444800.0  # 2100 begins, in UTC
    assert find_stale(session.index, {}, moment - 1) == {}
    assert find_stale(session.index, {}, moment) == {held: [f"expired at {ends}"]}
    past = "2020-01-01T00:00:00Z"
    old = session.append(source="z", invalidation_condition={"kind": "expired", "at": past})
    assert dict(session.stale) == {old: [f"expired at {past}"]}
    assert stale_cells(session) == {old: [f"expired at {past}"]}
    assert other not in session.stale
