from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

import rlmnb
from rlmnb import files
from rlmnb.errors import DependencyError, InvalidCellError, InvalidNameError
from rlmnb.store.layout import session_place
from rlmnb.store.objects import Objects
from tests.conftest import append_many, assert_valid, ids_in, notebook_of, read

HEAVY = (
    "pydantic",
    "nbformat",
    "json",
    "re",
    "typing",
    "dataclasses",
    "pathlib",
    "asyncio",
    "rich",
)


def test_an_appended_cell_is_what_nbformat_would_write():
    rlmnb.append("demo", {"source": "x = 1\nprint(x)\n", "output": "1\n"})
    assert_valid(notebook_of("demo"))
    cell = read("demo")["cells"][0]
    assert cell["source"] == ["x = 1\n", "print(x)\n"]
    assert cell["outputs"] == [{"name": "stdout", "output_type": "stream", "text": ["1\n"]}]


def test_of_an_appended_tool_call_the_source_is_enough():
    Path("auth.py").write_text("x")
    cell_id = rlmnb.append("demo", {"type": "tool", "source": "tools.Read(file_path='auth.py')"})
    session = rlmnb.Session.open("demo")
    assert session.cell(cell_id).entry["operation"] == "Read"
    assert not session.stale
    Path("auth.py").write_text("changed")
    session.refresh()
    assert list(session.stale) == [cell_id]


@pytest.mark.parametrize(
    "source",
    [
        "",
        "\n",
        "a\r\nb",
        "a\x0bb\x0cc",
        "line\u2028line",
        "é😀",
        'q = "\\"\\n"',
        ' ],\n "metadata": {',
    ],
)
def test_any_source_survives_byte_for_byte(source: str):
    rlmnb.append("demo", {"source": "first"})
    rlmnb.append("demo", {"source": source, "output": source})
    rlmnb.append("demo", {"source": "last"})
    assert_valid(notebook_of("demo"))
    assert nbformat.read(notebook_of("demo"), 4).cells[1].source == source


def test_an_id_is_cell_and_eight_letters_or_digits_and_is_returned_in_order():
    ids = append_many("demo", 40)
    assert ids == ids_in("demo")
    assert len(set(ids)) == 40
    assert all(re.fullmatch(r"cell_[a-z0-9]{8}", each) for each in ids)


def test_ids_differ_even_when_chance_gives_the_same_number_twice(monkeypatch):
    monkeypatch.setattr("os.urandom", lambda count: b"\0" * count)
    assert len(set(append_many("demo", 5))) == 5


def test_the_append_path_imports_nothing_heavy():
    code = (
        "import sys, rlmnb; rlmnb.append('demo', {'source': 'x = 1', 'output': 'y'});"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    # -S, because what site-packages bring along at start-up is not ours.
    repository = str(Path(rlmnb.__file__).parents[1])
    path = f"import sys; sys.path.insert(0, {repository!r});"
    done = subprocess.run(
        [sys.executable, "-S", "-c", path + code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_importing_the_package_imports_nothing_else_of_it():
    repository = str(Path(rlmnb.__file__).parents[1])
    code = (
        f"import sys; sys.path.insert(0, {repository!r}); before = set(sys.modules); import rlmnb;"
        "print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['rlmnb']"


def test_files_are_the_users_own(root):
    append_many("demo", 2)
    rlmnb.append("demo", {"source": "x", "output": "y" * 50_000})
    for path in [root, *root.rglob("*")]:
        if path.is_symlink():
            continue
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path


def test_a_long_output_is_kept_whole_as_an_object_and_previewed_in_the_cell():
    long = "".join(f"line {number}\n" for number in range(20_000))
    rlmnb.append("demo", {"source": "run()", "output": long})
    assert_valid(notebook_of("demo"))
    cell = read("demo")["cells"][0]
    shown = "".join(cell["outputs"][0]["text"])
    assert len(shown) < 5_000
    assert shown.startswith("line 0\n")
    assert shown.endswith("line 19999\n")
    kept = cell["metadata"]["rlmnb"]["output"]["objects"][0]
    assert kept["object"] in shown
    assert Objects(session_place("demo").objects).get(kept["object"]).decode() == long
    assert notebook_of("demo").stat().st_size < 16_000


def test_an_output_of_16_kb_stays_in_the_notebook():
    text = "x" * (16 * 1024)
    rlmnb.append("demo", {"source": "run()", "output": text})
    assert read("demo")["cells"][0]["outputs"][0]["text"] == [text]


def test_lone_surrogates_become_escapes_that_lab_can_save():
    rlmnb.append("demo", {"source": "x = '\udc80'", "output": "a\ud800b"})
    assert_valid(notebook_of("demo"))
    assert read("demo")["cells"][0]["source"] == ["x = '\\udc80'"]


def test_numbers_are_written_so_that_lab_gives_them_back_unchanged():
    given = {"whole": 1.0, "huge": 2**70, "nan": float("nan"), "far": 1e17, "farther": -1e300}
    rlmnb.append("demo", {"source": "x", "result": given})
    result = read("demo")["cells"][0]["metadata"]["rlmnb"]["output"]["result"]
    words = {"huge": str(2**70), "nan": "nan", "far": str(10**17), "farther": "-1e+300"}
    assert result == {"whole": 1, **words}
    assert ": 1.0" not in notebook_of("demo").read_text()


def test_a_whole_nbformat_cell_can_be_appended():
    markdown = {"cell_type": "markdown", "source": "# Turn 1"}
    code = nbformat.v4.new_code_cell("1 + 1", outputs=[nbformat.v4.new_output("stream", text="2")])
    del code["id"]
    first, second = rlmnb.append("demo", markdown), rlmnb.append("demo", code)
    assert ids_in("demo") == [first, second]
    assert_valid(notebook_of("demo"))
    assert read("demo")["cells"][1]["metadata"]["rlmnb"]["type"] == "repl"


@pytest.mark.parametrize(
    "cell",
    [
        {},
        {"source": 3},
        {"source": "x", "type": "nonsense"},
        {"source": "x", "status": "nonsense"},
        {"source": "x", "colour": "red"},
        {"source": "x", "outputs": [{"output_type": "nonsense"}]},
        {"source": "x", "outputs": [{"output_type": "stream", "text": "no name"}]},
        {"cell_type": "nonsense", "source": "x"},
        {"cell_type": "code", "source": "x", "extra": 1},
        {"cell_type": "code", "source": "x", "metadata": []},
        {"cell_type": "code", "source": "x", "execution_count": "one"},
    ],
)
def test_a_cell_that_would_make_the_notebook_invalid_is_refused_before_anything_is_written(
    cell, root
):
    with pytest.raises(InvalidCellError):
        rlmnb.append("demo", cell)
    assert not (root / "demo").exists()


def test_dependencies_are_checked_on_insert():
    first = rlmnb.append("demo", {"source": "x = 1"})
    second = rlmnb.append("demo", {"source": "y", "dependencies": [first]})
    assert read("demo")["cells"][1]["metadata"]["rlmnb"]["dependencies"] == [
        {"cell_id": first, "reason": "explicit"}
    ]
    with pytest.raises(DependencyError, match="cell_nope0000"):
        rlmnb.append("demo", {"source": "z", "dependencies": ["cell_nope0000"]})
    with pytest.raises(DependencyError, match="cell_self0000 → cell_self0000"):
        rlmnb.append(
            "demo", {"source": "z", "id": "cell_self0000", "dependencies": ["cell_self0000"]}
        )
    assert ids_in("demo") == [first, second]


def test_a_cell_that_would_close_a_cycle_is_refused_with_the_path():
    first = rlmnb.append("demo", {"source": "x = 1"})
    second = rlmnb.append("demo", {"source": "y", "dependencies": [first]})
    notebook = read("demo")
    record = notebook["cells"][0]["metadata"]["rlmnb"]
    record["dependencies"] = [{"cell_id": "cell_late0000", "reason": "by hand"}]
    notebook_of("demo").write_text(nbformat.writes(nbformat.from_dict(notebook)) + "\n")
    path = f"cell_late0000 → {second} → {first} → cell_late0000"
    with pytest.raises(DependencyError, match=path):
        rlmnb.append("demo", {"source": "z", "id": "cell_late0000", "dependencies": [second]})


def test_an_id_that_is_taken_is_refused():
    rlmnb.append("demo", {"source": "x", "id": "mine"})
    with pytest.raises(InvalidCellError, match="mine already"):
        rlmnb.append("demo", {"source": "y", "id": "mine"})


def test_appending_leaves_the_index_alone(root):
    rlmnb.Session.create("demo")
    before = (root / "demo" / "index.json").read_bytes()
    rlmnb.append("demo", {"source": "x"})
    assert (root / "demo" / "index.json").read_bytes() == before


@pytest.mark.parametrize(
    "name",
    [
        "", ".", "..", "../evil", "a/b", "a\\b", "a.b", "a\0b", "a\nb", "x" * 1000, "-rf", "_x",
        "objects", "archive", "current", "é", "a b", "/etc/passwd-not", 7, None,
    ],
)  # fmt: skip
def test_a_session_id_that_is_no_plain_name_is_refused_before_a_path_is_made(name, root):
    with pytest.raises((InvalidNameError, TypeError, AttributeError)):
        rlmnb.append(name, {"source": "x"})
    with pytest.raises(InvalidNameError):
        rlmnb.Session.create(name)
    assert not root.exists()


def test_a_kill_leaves_no_temporary_files_once_the_next_append_is_done(root):
    append_many("demo", 1)
    dead = root / "demo" / ".session.ipynb.4242-deadbeef.tmp"
    dead.write_text("half")
    append_many("demo", 1)
    assert not dead.exists()


def test_a_file_that_is_gone_in_a_moment_is_known_by_its_name(tmp_path):
    place = tmp_path / "alone"
    place.mkdir()
    with files.Replacement(str(place / "note.book.ipynb")):
        (name,) = os.listdir(place)
    assert files.is_temporary(name)
    for other in (".x.tmp", "x.12-0a0b0c0d.tmp", ".x.12-0a0b0c0d", ".x.a-0a0b0c0d.tmp", ".tmp"):
        assert not files.is_temporary(other)
