"""What people, and tools that know nothing of rlmnb, do to notebooks."""

from __future__ import annotations

import copy
import stat

import nbformat
import pytest

import rlmnb
from rlmnb import Session
from rlmnb.errors import NotebookError
from rlmnb.store import fold, journal
from rlmnb.store.layout import notebook_place
from tests.conftest import append_many, assert_valid, notebook_of, read, save_like_lab


def kinds(session: Session) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for finding in session.findings:
        found.setdefault(finding.kind, []).append(finding.cell_id)
    return found


@pytest.fixture
def three():
    ids = append_many("demo", 3)
    Session.open("demo")
    return ids


def edit(change) -> None:
    notebook = read("demo")
    change(notebook["cells"])
    save_like_lab(notebook_of("demo"), notebook)


def test_a_cell_added_by_hand_is_adopted_under_the_id_it_has(three):
    edit(lambda cells: cells.insert(1, nbformat.v4.new_code_cell("by_hand = x0", id="my-cell")))
    session = Session.open("demo")
    assert kinds(session) == {"added": ["my-cell"]}
    cell = session.cell("my-cell")
    assert cell.number == 2
    assert cell.status == "new"
    assert cell.causes == ("has not been run by rlmnb",)
    assert cell.dependencies == (three[0],)
    assert Session.open("demo").findings == ()  # said once


def test_reading_does_not_write_a_notebook_that_lab_may_have_open(three):
    edit(lambda cells: cells.insert(1, nbformat.v4.new_code_cell("by_hand = 1", id="my-cell")))
    before = notebook_of("demo").read_bytes()
    Session.open("demo")
    assert notebook_of("demo").read_bytes() == before


def test_markdown_is_part_of_the_story_and_not_of_the_dag(three):
    edit(lambda cells: cells.insert(0, nbformat.v4.new_markdown_cell("# Why", id="why")))
    session = Session.open("demo")
    assert session.cell("why").type == "markdown"
    assert not session.cell("why").stale
    assert session.index["roots"] == three


def test_a_deleted_cell_is_said_and_its_dependents_are_stale(three):
    late = rlmnb.append("demo", {"source": "late", "dependencies": [three[1]]})
    Session.open("demo")
    edit(lambda cells: cells.pop(1))
    session = Session.open("demo")
    assert kinds(session) == {"deleted": [three[1]], "dangling": [late]}
    assert session.cell(late).causes == (f"depends on {three[1]}, which is gone",)


def test_reordered_cells_are_said_with_the_fewest_moves(three):
    edit(lambda cells: cells.insert(0, cells.pop(2)))
    session = Session.open("demo")
    assert kinds(session) == {"moved": [three[2]]}
    assert [cell.cell_id for cell in session.cells] == [three[2], three[0], three[1]]


def test_an_edited_cell_is_stale_with_its_dependents_and_keeps_its_output(three):
    late = rlmnb.append("demo", {"source": "print(x1)", "output": "1\n"})
    Session.open("demo")
    edit(lambda cells: cells[1].update(source=["x1 = 100"]))
    session = Session.open("demo")
    assert kinds(session) == {"edited": [three[1]]}
    assert dict(session.stale) == {
        three[1]: ["source edited"],
        late: [f"x1 from {three[1]} changes"],
    }
    assert session.cell(late).outputs[0]["text"] == ["1\n"]


def test_a_cell_split_in_two_keeps_one_identity(three):
    late = rlmnb.append("demo", {"source": "late", "dependencies": [three[1]]})
    Session.open("demo")

    def split(cells):  # as JupyterLab does: both halves keep the metadata, neither the id
        old = cells.pop(1)
        first, second = copy.deepcopy(old), copy.deepcopy(old)
        first |= {"id": "half-one", "source": ["x1 = 0"], "outputs": []}
        second |= {"id": "half-two", "source": ["x1 += 1"]}
        cells[1:1] = [first, second]

    edit(split)
    session = Session.open("demo")
    assert kinds(session)["copied"] == ["half-one"]
    assert kinds(session)["renamed"] == ["half-two"]
    assert "deleted" not in kinds(session)
    assert "half-two" in session.cell(late).dependencies
    assert session.cell("half-one").causes == (f"copied from {three[1]}, not run since",)
    assert session.cell("half-two").stale


def test_cells_merged_into_one_are_stale_and_the_other_is_gone(three):
    def merge(cells):
        cells[0]["source"] = ["x0 = 0\n", "x1 = 1"]
        cells.pop(1)

    edit(merge)
    session = Session.open("demo")
    assert kinds(session) == {"deleted": [three[1]], "edited": [three[0]]}


def test_a_pasted_copy_is_a_cell_of_its_own(three):
    edit(lambda cells: cells.append({**copy.deepcopy(cells[0]), "id": "pasted"}))
    session = Session.open("demo")
    assert kinds(session) == {"copied": ["pasted"]}
    assert session.cell("pasted").causes == (f"copied from {three[0]}, not run since",)
    assert not session.cell(three[0]).stale


def test_a_tool_that_changes_ids_breaks_no_dependency(three):
    late = rlmnb.append("demo", {"source": "late", "dependencies": [three[1]]})
    Session.open("demo")
    edit(lambda cells: cells[1].update(id="renamed"))
    session = Session.open("demo")
    assert kinds(session) == {"renamed": ["renamed"]}
    assert session.cell(late).dependencies == ("renamed",)
    assert not session.stale


def test_duplicate_ids_are_told_apart_and_repaired(three, run):
    notebook = read("demo")
    notebook["cells"].append({**copy.deepcopy(notebook["cells"][0]), "source": ["other = 1"]})
    notebook_of("demo").write_text(nbformat.v4.writes(nbformat.from_dict(notebook)) + "\n")
    session = Session.open("demo")
    (found,) = kinds(session)["duplicate"]
    assert session.cell(found).source == "other = 1"
    assert session.cell(three[0]).source == "x0 = 0"
    assert Session.open("demo").cells[3].cell_id == found
    assert run("doctor", "demo", "--fix").returncode == 0
    assert_valid(notebook_of("demo"))
    assert len(Session.open("demo").cells) == 4


def test_cells_without_ids_get_the_same_ones_at_every_read(tmp_path):
    old = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(f"a{n} = 1") for n in (1, 2)])
    for cell in old.cells:
        del cell["id"]
    old.nbformat_minor = 4
    path = tmp_path / "old.ipynb"
    nbformat.write(old, path)
    first = [cell.cell_id for cell in Session.open(path).cells]
    assert len(set(first)) == 2
    (tmp_path / ".rlmnb" / "old.ipynb" / "index.json").unlink()
    assert [cell.cell_id for cell in Session.open(str(path)).cells] == first


def plain(tmp_path):
    path = tmp_path / "plain.ipynb"
    notebook = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_markdown_cell("# Mine"),
            nbformat.v4.new_code_cell("a = 1"),
            nbformat.v4.new_code_cell("b = a + 1"),
        ],
        metadata={"mine": True},
    )
    nbformat.write(notebook, path)
    return path


def test_a_plain_notebook_can_be_read_and_is_left_as_it_is(tmp_path):
    path = plain(tmp_path)
    before = path.read_bytes()
    session = Session.open(path)
    assert session.findings == ()
    assert [cell.type for cell in session.cells] == ["markdown", "repl", "repl"]
    assert session.cells[1].causes == ("has not been run by rlmnb",)
    assert session.cells[2].dependencies == (session.cells[1].cell_id,)
    assert path.read_bytes() == before
    assert sorted(each.name for each in tmp_path.iterdir() if each.is_dir()) == [".rlmnb", "work"]


def test_a_plain_notebook_can_be_appended_to_and_keeps_what_is_its_own(tmp_path, root):
    path = plain(tmp_path)
    path.chmod(0o664)
    late = rlmnb.append(str(path), {"source": "c = 3", "output": "long " * 10_000})
    assert_valid(path)
    notebook = nbformat.read(path, 4)
    assert notebook.metadata["mine"] is True
    assert stat.S_IMODE(path.stat().st_mode) == 0o664
    assert (tmp_path / ".rlmnb" / ".gitignore").read_text() == "*\n"
    assert [cell.source for cell in notebook.cells] == ["# Mine", "a = 1", "b = a + 1", "c = 3"]
    assert notebook.cells[3].id == late
    assert (tmp_path / ".rlmnb" / "objects").is_dir()
    assert not root.exists()
    again = rlmnb.append(str(path), {"source": "d = 4"})
    assert [cell.id for cell in nbformat.read(path, 4).cells][3:] == [late, again]


@pytest.mark.parametrize(
    "command",
    ["show", "cells", "files", "stats", "du", "doctor"],
)
def test_a_plain_notebook_is_a_target_of_every_command(tmp_path, run, command):
    done = run(command, str(plain(tmp_path)))
    assert done.returncode == 0, done.stderr


def test_a_plain_notebook_can_be_verified_forked_and_let_go(tmp_path, run, run_json):
    path = str(plain(tmp_path))
    assert run_json("verify", path)["ok"]
    assert run_json("cell", path, "2")["code"] == "a = 1"
    assert run_json("chain", path, "3")["depth"] == 1
    fork = run_json("fork", path, "--at", "2")
    assert fork["cells"] == 2
    assert run("rm", path, "--yes").returncode == 0
    assert (tmp_path / "plain.ipynb").exists()


def test_a_notebook_that_its_owner_deleted_is_not_put_back_empty(tmp_path):
    path = tmp_path / "mine.ipynb"
    mine = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x = 1", id="mine")])
    path.write_text(nbformat.writes(mine))
    place = notebook_place(str(path))
    Session.open(str(path)).tag("mine", "seen")
    path.unlink()
    folded = fold.fold(place, journal.last_seq(place.journal), timeout=1)
    assert "there is no such notebook any more" in (folded.why_not or "")
    with pytest.raises(NotebookError, match="no such notebook"):
        Session(place)
    assert not path.exists()
    # Somebody who appends to it wants one.
    cell_id = rlmnb.append(str(path), {"source": "y = 1"})
    assert [cell.cell_id for cell in Session.open(str(path)).cells] == [cell_id]
