"""A notebook and its paired text, edited on either side."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

import rlmnb
from rlmnb.files import Lock
from rlmnb.store import lease
from rlmnb.store.layout import session_place
from tests.conftest import ids_in, notebook_of, read


@pytest.fixture
def plain() -> Path:
    """Make a plain notebook with outputs, a magic, prose and metadata of its owner's."""
    new = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_markdown_cell("# Title\n\nSome *prose*", id="intro"),
            nbformat.v4.new_code_cell(
                "%matplotlib inline\nx = 1",
                id="first",
                execution_count=3,
                outputs=[nbformat.v4.new_output("stream", name="stdout", text="SHOWN\n")],
                metadata={"tags": ["mine"]},
            ),
            nbformat.v4.new_code_cell("print(x)", id="second"),
        ]
    )
    path = Path("analysis.ipynb")
    nbformat.write(new, path)
    return path


def cells_of(path: Path) -> list[dict]:
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def sources(path: Path) -> dict[str, str]:
    return {cell["id"]: "".join(cell["source"]) for cell in cells_of(path)}


def edit_notebook(path: Path, cell_id: str, source: str) -> None:
    whole = nbformat.read(path, as_version=4)
    for cell in whole.cells:
        if cell.id == cell_id:
            cell.source = source
    nbformat.write(whole, path)


def edit_text(old: str, new: str, path: str = "analysis.py") -> None:
    text = Path(path).read_text(encoding="utf-8")
    assert old in text
    Path(path).write_text(text.replace(old, new), encoding="utf-8")


def test_the_text_has_sources_and_ids_and_no_outputs(plain, run_json):
    before = plain.read_bytes()
    done = run_json("pair", str(plain))
    assert done["text_written"]
    assert not done["notebook_written"]
    assert plain.read_bytes() == before
    assert Path("analysis.py").read_text(encoding="utf-8") == (
        '# %% [markdown] id="intro"\n# # Title\n#\n# Some *prose*\n\n'
        '# %% id="first"\n# %matplotlib inline\nx = 1\n\n'
        '# %% id="second"\nprint(x)\n'
    )


def test_run_again_without_edits_nothing_is_written(plain, run, run_json):
    run("pair", str(plain))
    seen = [os.stat(path).st_mtime_ns for path in (plain, "analysis.py")]
    done = run_json("pair", str(plain))
    assert (done["text_written"], done["notebook_written"]) == (False, False)
    assert [os.stat(path).st_mtime_ns for path in (plain, "analysis.py")] == seen


def test_edits_of_the_text_reach_the_notebook_and_leave_the_rest(plain, run, run_json):
    run("pair", str(plain))
    edit_text("x = 1\n", "x = 2\n\n# %%\ny = 3\n")
    edit_text("# Some *prose*", "# Other prose")
    done = run_json("pair", str(plain))
    assert done["edited"] == ["intro", "first"]
    [added] = done["added"]
    cells = cells_of(plain)
    assert [cell["id"] for cell in cells] == ["intro", "first", added, "second"]
    assert sources(plain)["first"] == "%matplotlib inline\nx = 2"
    assert sources(plain)["intro"] == "# Title\n\nOther prose"
    assert sources(plain)[added] == "y = 3"
    assert cells[1]["outputs"][0]["text"] == ["SHOWN\n"]
    assert cells[1]["metadata"]["tags"] == ["mine"]
    assert f'# %% id="{added}"\ny = 3' in Path("analysis.py").read_text(encoding="utf-8")
    nbformat.validate(nbformat.read(plain, as_version=4))


def test_a_cell_deleted_or_moved_in_the_text_is_so_in_the_notebook(plain, run, run_json):
    run("pair", str(plain))
    first, second, third = Path("analysis.py").read_text(encoding="utf-8").split("\n\n")
    Path("analysis.py").write_text(f"{third}\n{second}\n", encoding="utf-8")
    assert run_json("pair", str(plain))["deleted"] == ["intro"]
    assert list(sources(plain)) == ["second", "first"]
    assert first.startswith("# %% [markdown]")


def test_edits_of_the_notebook_reach_the_text(plain, run, run_json):
    run("pair", str(plain))
    edit_notebook(plain, "second", "print(x + 1)")
    before = plain.read_bytes()
    done = run_json("pair", str(plain))
    assert (done["text_written"], done["notebook_written"]) == (True, False)
    assert plain.read_bytes() == before
    assert "print(x + 1)" in Path("analysis.py").read_text(encoding="utf-8")


def test_edits_of_different_cells_are_merged(plain, run, run_json):
    run("pair", str(plain))
    edit_notebook(plain, "second", "print(x + 1)")
    edit_text("x = 1", "x = 2")
    run_json("pair", str(plain))
    assert sources(plain)["first"].endswith("x = 2")
    assert sources(plain)["second"] == "print(x + 1)"
    text = Path("analysis.py").read_text(encoding="utf-8")
    assert "x = 2" in text
    assert "print(x + 1)" in text


@pytest.mark.parametrize(("side", "kept"), [("text", "print('t')"), ("notebook", "print('n')")])
def test_a_cell_edited_on_both_sides_is_named_and_decided_by_prefer(plain, run, side, kept):
    run("pair", str(plain))
    edit_notebook(plain, "second", "print('n')")
    edit_text("print(x)", "print('t')")
    edit_text("x = 1", "x = 2")
    before = plain.read_bytes(), Path("analysis.py").read_bytes()
    refused = run("pair", str(plain))
    assert refused.returncode == 1
    assert "second" in refused.stderr
    assert "first" not in refused.stderr
    assert "--prefer" in refused.stderr
    assert (plain.read_bytes(), Path("analysis.py").read_bytes()) == before
    assert run("pair", str(plain), "--prefer", side).returncode == 0
    assert sources(plain)["second"] == kept
    assert sources(plain)["first"].endswith("x = 2")
    assert run("pair", str(plain), "--check").returncode == 0


def test_a_cell_edited_here_and_deleted_there_is_for_a_person_to_decide(plain, run):
    run("pair", str(plain))
    edit_notebook(plain, "second", "print('n')")
    edit_text('\n\n# %% id="second"\nprint(x)', "")
    assert run("pair", str(plain)).returncode == 1
    assert run("pair", str(plain), "--prefer", "text").returncode == 0
    assert list(sources(plain)) == ["intro", "first"]


def test_check_says_whether_they_are_in_step_and_writes_nothing(plain, run):
    assert run("pair", str(plain), "--check").returncode == 1
    assert not Path("analysis.py").exists()
    run("pair", str(plain))
    assert run("pair", str(plain), "--check").returncode == 0
    edit_text("x = 1", "x = 2")
    before = plain.read_bytes(), Path("analysis.py").read_bytes()
    assert run("pair", str(plain), "--check").returncode == 1
    assert (plain.read_bytes(), Path("analysis.py").read_bytes()) == before


def test_a_session_is_paired_and_an_edited_cell_is_stale(run_json):
    first = rlmnb.append("demo", {"source": "a = 1", "output": "ok\n"})
    text = run_json("pair", "demo")["text"]
    assert text == str(notebook_of("demo").with_suffix(".py"))
    edit_text("a = 1", "a = 2", text)
    assert run_json("pair", "demo")["edited"] == [first]
    assert sources(notebook_of("demo")) == {first: "a = 2"}
    assert [cell["cell_id"] for cell in run_json("cells", "demo", "--status", "stale")] == [first]
    later = rlmnb.append("demo", {"source": "b = 1"})
    assert ids_in("demo") == [first, later]
    run_json("pair", "demo")
    assert f'id="{later}"' in Path(text).read_text(encoding="utf-8")


def test_a_cell_deleted_by_its_text_stays_deleted(run_json):
    first = rlmnb.append("demo", {"source": "a = 1"})
    second = rlmnb.append("demo", {"source": "b = 1"})
    text = run_json("pair", "demo")["text"]
    edit_text(f'\n\n# %% id="{second}"\nb = 1', "", text)
    run_json("pair", "demo")
    third = rlmnb.append("demo", {"source": "c = 1"})
    assert ids_in("demo") == [first, third]


def test_another_place_for_the_text_is_remembered(plain, run_json):
    Path("texts").mkdir()
    run_json("pair", str(plain), "--text", "texts/a.py")
    edit_text("x = 1", "x = 5", "texts/a.py")
    assert run_json("pair", str(plain))["edited"] == ["first"]
    assert not Path("analysis.py").exists()


def test_text_and_notebook_of_a_fresh_clone_need_no_memory_while_they_agree(plain, run, run_json):
    run("pair", str(plain))
    memory = Path(".rlmnb/analysis.ipynb/paired.json")
    memory.unlink()
    assert run("pair", str(plain), "--check").returncode == 0
    edit_text("x = 1", "x = 2")
    refused = run("pair", str(plain))
    assert refused.returncode == 1
    assert "first" in refused.stderr
    assert run_json("pair", str(plain), "--prefer", "text")["edited"] == ["first"]


def test_what_was_cut_short_after_the_notebook_is_finished_by_doing_it_again(plain, run, run_json):
    run("pair", str(plain))
    memory = Path(".rlmnb/analysis.ipynb/paired.json")
    before = memory.read_bytes()
    edit_text("x = 1\n", "x = 2\n\n# %%\ny = 3\n")
    edited = Path("analysis.py").read_bytes()
    run("pair", str(plain))
    after = plain.read_bytes()
    Path("analysis.py").write_bytes(edited)
    memory.write_bytes(before)
    assert run_json("pair", str(plain))["added"] == []
    assert plain.read_bytes() == after


@pytest.mark.parametrize(
    ("data", "code", "told"),
    [
        (b"import os\n", 2, "line 1"),
        (b'# %% id="../../etc"\nx\n', 2, "../../etc"),
        (b'# %% id="first"\n\n# %% id="first"\n', 2, "line 3"),
        (b'# %% id="first" newlines=99999999999\n', 2, "newlines"),
        (b'# %% id="other"\nx = 1\n', 2, "not its text"),
        (b"", 2, "not its text"),
        (b'# %% id="first"\n\xff\n', 3, "not UTF-8"),
    ],
)
def test_a_text_that_is_not_ours_is_refused_and_nothing_is_lost(plain, run, data, code, told):
    run("pair", str(plain))
    Path("analysis.py").write_bytes(data)
    before = plain.read_bytes()
    for options in ((), ("--prefer", "text")):
        refused = run("pair", str(plain), *options)
        assert refused.returncode == code
        assert told in refused.stderr
        assert "Traceback" not in refused.stderr
    assert plain.read_bytes() == before
    assert Path("analysis.py").read_bytes() == data


def test_a_link_a_directory_and_a_huge_file_are_refused(plain, run):
    Path("victim.py").write_text("precious\n")
    Path("analysis.py").symlink_to("victim.py")
    assert run("pair", str(plain)).returncode == 3
    assert Path("victim.py").read_text() == "precious\n"
    Path("analysis.py").unlink()
    Path("analysis.py").mkdir()
    assert run("pair", str(plain)).returncode == 3
    with Path("huge.py").open("wb") as file:
        file.truncate(65 * 1024 * 1024)
    refused = run("pair", str(plain), "--text", "huge.py")
    assert refused.returncode == 3
    assert "at most" in refused.stderr
    assert run("pair", str(plain), "--text", "analysis.ipynb").returncode == 2
    assert run("pair", str(plain), "--text", "no/such/place.py").returncode == 3


def test_the_mode_of_the_text_stays_its_owners(plain, run):
    run("pair", str(plain))
    os.chmod("analysis.py", 0o640)
    edit_notebook(plain, "second", "print(2)")
    run("pair", str(plain))
    assert stat.S_IMODE(os.stat("analysis.py").st_mode) == 0o640


def test_a_notebook_that_a_server_has_open_is_not_written(run):
    first = rlmnb.append("demo", {"source": "a = 1"})
    run("pair", "demo")
    text = notebook_of("demo").with_suffix(".py")
    edit_text("a = 1", "a = 2", str(text))
    before = notebook_of("demo").read_bytes()
    place = session_place("demo")
    assert lease.take(place, "a test")
    refused = run("pair", "demo")
    lease.give_back(place)
    assert refused.returncode == 3
    assert "live document" in refused.stderr
    assert notebook_of("demo").read_bytes() == before
    assert run("pair", "demo").returncode == 0
    assert read("demo")["cells"][0]["id"] == first
    assert "".join(read("demo")["cells"][0]["source"]) == "a = 2"


def test_a_lock_that_another_holds_keeps_both_as_they_are(run, monkeypatch):
    from rlmnb import pairing
    from rlmnb.errors import LockTimeoutError

    rlmnb.append("demo", {"source": "a = 1"})
    monkeypatch.setattr(pairing, "_LOCK_SECONDS", 0.0)
    place = session_place("demo")
    with Lock(place.lock, timeout=1), pytest.raises(LockTimeoutError):
        pairing.pair(place)
    assert not notebook_of("demo").with_suffix(".py").exists()


def test_cells_appended_while_both_are_brought_into_step_are_all_there(run, run_json):
    rlmnb.append("demo", {"source": "a = 0"})
    text = Path(run_json("pair", "demo")["text"])
    code = "import rlmnb\nfor n in range(25): rlmnb.append('demo', {'source': f'b = {n}'})"
    writers = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
    done = 0
    while any(writer.poll() is None for writer in writers):
        edit_text(f"a = {done}\n", f"a = {done + 1}\n", str(text))
        assert run("pair", "demo").returncode == 0
        done += 1
    assert [writer.wait() for writer in writers] == [0, 0]
    run_json("pair", "demo")
    found = list(sources(notebook_of("demo")).values())
    assert found[0] == f"a = {done}"
    assert sorted(found[1:]) == sorted([f"b = {n}" for n in range(25)] * 2)
    assert run("pair", "demo", "--check").returncode == 0


def test_a_text_saved_while_it_is_being_replaced_is_read_again(plain, monkeypatch):
    from rlmnb import pairing
    from rlmnb.store.layout import notebook_place

    place = notebook_place(str(plain))
    pairing.pair(place)
    edit_notebook(plain, "second", "print(2)")
    write = pairing.Replacement.write

    def save_first(new, data):
        monkeypatch.setattr(pairing.Replacement, "write", write)
        edit_text("x = 1", "x = 7")
        write(new, data)

    monkeypatch.setattr(pairing.Replacement, "write", save_first)
    pairing.pair(place)
    assert sources(plain)["first"].endswith("x = 7")
    text = Path("analysis.py").read_text(encoding="utf-8")
    assert "x = 7" in text
    assert "print(2)" in text


def test_cells_moved_on_both_sides_are_left_alone(plain, run):
    run("pair", str(plain))
    whole = nbformat.read(plain, as_version=4)
    whole.cells = [whole.cells[1], whole.cells[0], whole.cells[2]]
    nbformat.write(whole, plain)
    blocks = Path("analysis.py").read_text(encoding="utf-8").rstrip("\n").split("\n\n")
    Path("analysis.py").write_text("\n\n".join([blocks[0], blocks[2], blocks[1]]) + "\n")
    refused = run("pair", str(plain))
    assert refused.returncode == 1
    assert "moved" in refused.stderr
    assert run("pair", str(plain), "--prefer", "text").returncode == 0
    assert list(sources(plain)) == ["intro", "second", "first"]


def test_a_cell_that_becomes_prose_in_the_text_does_so_in_the_notebook(plain, run):
    run("pair", str(plain))
    edit_text('# %% id="second"\nprint(x)', '# %% [markdown] id="second"\n# now *prose*')
    assert run("pair", str(plain)).returncode == 0
    assert cells_of(plain)[2]["cell_type"] == "markdown"
    assert sources(plain)["second"] == "now *prose*"
    nbformat.validate(nbformat.read(plain, as_version=4))
