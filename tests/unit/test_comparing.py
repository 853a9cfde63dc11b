"""Two sessions held against each other: what differs is shown, and nothing else is."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from rlmnb import Session
from rlmnb.comparing.compare import Comparison, compare
from rlmnb.comparing.lines import line_changes
from rlmnb.comparing.sides import side_of, side_of_notebook
from tests.conftest import RUN
from tests.unit.test_cli import in_terminal


def notebook(*cells: tuple[str, str] | dict[str, Any]) -> dict[str, Any]:
    """Make a parsed notebook of (id, source), or of whole cells."""
    made = [each if isinstance(each, dict) else code(*each) for each in cells]
    return {"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


def code(cell_id: str, source: str, *outputs: dict[str, Any], **record: Any) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "id": cell_id,
        "source": source,
        "metadata": {"rlmnb": record} if record else {},
        "execution_count": None,
        "outputs": list(outputs),
    }


def printed(text: str | list[str], name: str = "stdout") -> dict[str, Any]:
    return {"output_type": "stream", "name": name, "text": text}


def shown(**data: Any) -> dict[str, Any]:
    named = {mime.replace("_", "/"): value for mime, value in data.items()}
    return {"output_type": "display_data", "data": named, "metadata": {}}


def of(a: dict[str, Any], b: dict[str, Any]) -> Comparison:
    return compare(side_of_notebook(a, "a"), side_of_notebook(b, "b"))


def kinds(comparison: Comparison) -> list[tuple[str, str | None, str | None]]:
    return [
        (each.kind, each.a and each.a.cell_id, each.b and each.b.cell_id)
        for each in comparison.cells
    ]


def write(path: str, whole: dict[str, Any]) -> None:
    Path(path).write_text(json.dumps(whole), encoding="utf-8")


def test_a_cell_that_kept_its_id_is_the_same_cell_however_it_was_rewritten():
    found = of(notebook(("one", "x = 1")), notebook(("one", "import everything_else")))
    assert kinds(found) == [("changed", "one", "one")]
    assert found.cells[0].changes == ("source",)


def test_cells_of_equal_source_belong_together_in_their_order():
    found = of(
        notebook(("a1", "step()"), ("a2", "step()"), ("a3", "end()")),
        notebook(("b1", "step()"), ("b2", "step()"), ("b3", "end()")),
    )
    assert kinds(found) == [("same", "a1", "b1"), ("same", "a2", "b2"), ("same", "a3", "b3")]
    assert found.equal


def test_a_cell_that_was_edited_under_another_id_is_known_by_its_likeness():
    found = of(
        notebook(("a1", "x = 1"), ("a2", "total = sum(values) / len(values)"), ("a3", "print(x)")),
        notebook(("b1", "x = 1"), ("b2", "total = max(values) / len(values)"), ("b3", "print(x)")),
    )
    assert kinds(found)[1] == ("changed", "a2", "b2")


def test_what_is_not_alike_went_and_came_and_what_went_is_shown_first():
    found = of(
        notebook(("a1", "x = 1"), ("a2", "download('https://example.org')")),
        notebook(("b1", "x = 1"), ("b2", "class Parser: pass")),
    )
    assert kinds(found) == [("same", "a1", "b1"), ("removed", "a2", None), ("added", None, "b2")]


def test_text_is_never_taken_for_code():
    text = {"cell_type": "markdown", "id": "one", "source": "x = 1", "metadata": {}}
    found = of(notebook(("one", "x = 1")), notebook(text))
    assert kinds(found) == [("removed", "one", None), ("added", None, "one")]


def test_only_the_cell_that_was_moved_is_said_to_be():
    cells = [(f"c{n}", f"x{n} = {n}") for n in range(6)]
    found = of(notebook(*cells), notebook(cells[5], *cells[:5]))
    assert [each.a.cell_id for each in found.cells if each.kind == "moved" and each.a] == ["c5"]
    assert found.counts["same"] == 5


def test_counts_and_our_own_notes_are_no_differences():
    one = notebook(code("c", "1", printed("1")))
    other = copy.deepcopy(one)
    other["cells"][0] |= {"execution_count": 9}
    other["cells"][0]["metadata"] = {"collapsed": True}
    assert of(one, other).equal


def test_a_stream_in_pieces_and_lines_in_a_list_are_the_same_output():
    one = notebook(code("c", "f()", printed("a\nb\n")))
    other = notebook(code("c", "f()", printed(["a\n"]), printed(["b\n"])))
    assert of(one, other).equal


def test_an_error_is_the_same_whatever_temporary_file_its_traceback_names():
    def failed(evalue: str, frame: str) -> dict[str, Any]:
        output = {"output_type": "error", "ename": "ValueError", "evalue": evalue}
        return notebook(code("c", "f()", {**output, "traceback": [frame]}))

    assert of(failed("no", "/tmp/1.py"), failed("no", "/tmp/2.py")).equal
    assert of(failed("no", "x"), failed("yes", "x")).cells[0].changes == ("outputs",)


STORED = {"object": None, "problem": None}


def traced(**values: str) -> dict[str, Any]:
    """Make the trace of a cell that left variables with these digests."""
    writes = [
        {"names": [name], "digest": value, "own": {name: value}, "refs": [], **STORED}
        for name, value in values.items()
    ]
    return {"run": {**RUN, "writes": writes}}


def test_variables_are_compared_by_what_the_traces_leave():
    one = notebook(code("c", "f()", status="completed", **traced(x="1", y="1", gone="1")))
    other = notebook(code("c", "f()", status="completed", **traced(x="2", y="1", new="1")))
    found = of(one, other)
    assert found.variables.as_dict() == {
        "same": ["y"], "changed": ["x"], "only_a": ["gone"], "only_b": ["new"], "unknown": [],
    }  # fmt: skip
    hidden = of(one, notebook(code("c", "f()", **traced(x="1", y="1", gone="1", **{"$cwd": "1"}))))
    assert hidden.hidden.only_b == ("$cwd",)
    assert not hidden.variables.differs


def test_what_the_code_of_a_notebook_sets_that_never_ran_is_not_known_to_be_missing():
    sources = [("c0", "x = read()"), ("c1", "y = read()")]
    ran = notebook(
        code("c0", "x = read()", status="completed", **traced(x="1", other="1")),
        code("c1", "y = read()", status="completed", **traced(y="1")),
    )
    for found, only in (
        (of(ran, notebook(*sources)), "only_a"),
        (of(notebook(*sources), ran), "only_b"),
    ):
        assert found.variables.unknown == ("x", "y")
        assert getattr(found.variables, only) == ("other",)
    partly = notebook(ran["cells"][0], sources[1])
    assert of(ran, partly).variables.only_a == ("y",)


def test_variables_of_a_notebook_that_never_ran_are_not_said_to_be_removed(run, run_json):
    source = "x = open('f.txt').read()"
    Session.create("ran").append(source)
    write("new.ipynb", notebook(("c0", source)))
    assert "variables  1 not known\n" in run("diff", "ran", "new.ipynb").stdout
    found = run_json("diff", "ran", "new.ipynb", code=1)["variables"]
    assert (found["unknown"], found["only_a"]) == (["x"], [])


def test_a_fork_that_was_not_touched_differs_in_nothing():
    session = Session.create("one", title="count words")
    session.append("x = 1")
    session.append("print(x)", output="1\n")
    found = compare(side_of(session), side_of(session.fork(session_id="two")))
    assert found.equal
    assert found.variables.same == ("x",)
    assert found.as_dict()["same_task"] is True


def test_what_was_never_run_by_rlmnb_is_not_known_and_no_difference():
    for name in ("one", "two"):
        Session.create(name).append("x = read_clock()")
    found = compare(side_of(Session.open("one")), side_of(Session.open("two")))
    assert found.variables.unknown == ("x",)
    assert found.equal


def test_working_memory_budget_and_files_are_compared():
    Path("data.txt").write_text("one")
    one = Session.create("one")
    one.append("tools.Read(file_path='data.txt')", type="tool")
    two = one.fork(session_id="two")
    Path("data.txt").write_text("two")
    two.append("tools.Read(file_path='data.txt')", type="tool")
    two.remember(plan=["look", "change"])
    budget = {"total_tokens_used": 120, "by_model": {"big": {"tokens": 120, "calls": 1}}}
    two.state.budget = type(two.state.budget).model_validate(budget)
    two.save()
    found = compare(side_of(one), side_of(two)).as_dict()
    assert found["working_memory"]["only_b"] == ["plan"]
    assert [each["path"] for each in found["files"]["changed"]] == ["data.txt"]
    assert found["spent"]["tokens"] == {"a": 0, "b": 120, "difference": 120}
    assert found["spent"]["cost_usd"] == {"a": None, "b": None, "difference": None}
    assert found["spent"]["by_model"]["big"]["tokens"]["b"] == 120
    assert found["spent"]["by_model"]["big"]["cost_usd"]["b"] is None


def test_what_no_longer_holds_and_what_can_go_on_is_said(run, run_json):
    Path("data.txt").write_text("one")
    one = Session.create("one", title="t")
    cell_id = one.append("text = tools.Read(file_path='data.txt')", type="tool")
    one.fork(session_id="two")
    assert run("set", "two", "--end").returncode == 0
    Path("data.txt").write_text("two")
    found = run_json("diff", "one", "two")
    assert found["resumable"] == {"a": True, "b": False}
    assert found["invalidated"]["a"] == [
        {"cell_id": cell_id, "number": 1, "causes": [f"{Path.cwd() / 'data.txt'} changed"]}
    ]


def test_exit_codes_are_those_of_diff(run):
    one = Session.create("one")
    one.append("x = 1")
    two = one.fork(session_id="two")
    assert run("diff", "one", "two").returncode == 0
    two.append("y = 2")
    assert run("diff", "one", "two").returncode == 1
    missing = run("diff", "one", "three")
    assert missing.returncode == 2
    assert "three" in missing.stderr


def test_without_the_other_a_fork_is_compared_with_its_origin(run, run_json):
    one = Session.create("one")
    one.append("x = 1")
    one.fork(session_id="two").append("y = 2")
    found = run_json("diff", "two", code=1)
    assert (found["a"]["id"], found["b"]["id"]) == ("one", "two")
    assert found["changed"]["added"] == 1
    alone = run("diff", "one")
    assert alone.returncode == 2
    assert "rlmnb diff one OTHER" in alone.stderr


def test_a_fork_of_a_notebook_is_never_compared_with_a_session_of_its_name(run):
    write("my one.ipynb", notebook(("c0", "x = 1")))
    Session.create("my-one").append("unrelated = 1")
    Session.open("my one.ipynb").fork(session_id="two")
    alone = run("diff", "two")
    path = str(Path("my one.ipynb").absolute())
    assert (alone.returncode, path in alone.stderr) == (2, True)
    assert alone.stderr.rstrip().endswith(f"rlmnb diff '{path}' two")


def test_one_cell_can_be_asked_for_by_number_or_id(run, run_json):
    write("a.ipynb", notebook(("c0", "x = 1"), ("c1", "y = 1")))
    write("b.ipynb", notebook(("c0", "x = 2"), ("c1", "y = 1")))
    (found,) = run_json("diff", "a.ipynb", "b.ipynb", "--cell", "c0", code=1)["cells"]
    assert (found["a"]["source"], found["b"]["source"]) == ("x = 1", "x = 2")
    same = run("diff", "a.ipynb", "b.ipynb", "--cell", "2")
    assert same.returncode == 0
    assert "c1 is the same" in same.stdout
    assert run("diff", "a.ipynb", "b.ipynb", "--cell", "nine").returncode == 2


def test_the_lines_are_those_of_a_unified_diff(run):
    write("a.ipynb", notebook(code("c0", "x = 1\nprint(x)", printed("1\n"))))
    write("b.ipynb", notebook(code("c0", "x = 2\nprint(x)", printed("2\n"))))
    lines = run("diff", "a.ipynb", "b.ipynb").stdout.splitlines()
    assert lines[:3] == ["--- a.ipynb  (1 cell)", "+++ b.ipynb  (1 cell)", ""]
    assert lines[3:11] == [
        "## modified cell 1 c0: source, outputs", "@@ source @@", "-x = 1", "+x = 2", " print(x)",
        "@@ output stdout @@", "-1", "+2",
    ]  # fmt: skip


def test_a_long_difference_is_cut_and_full_is_not(run):
    write("a.ipynb", notebook(code("c0", "f()", printed("a\n" * 300))))
    write("b.ipynb", notebook(code("c0", "f()", printed("b\n" * 300))))
    cut = run("diff", "a.ipynb", "b.ipynb").stdout
    assert "… 561 more lines" in cut
    assert run("diff", "a.ipynb", "b.ipynb", "--full").stdout.count("\n+b") == 300
    stat = run("diff", "a.ipynb", "b.ipynb", "--stat").stdout
    assert "modified cell 1 c0: outputs  f()" in stat
    assert "\n+b" not in stat


def test_of_a_thousand_cells_that_went_the_first_are_shown_and_with_full_all(run, run_json):
    cells = [code(f"c{n}", f"x{n} = {n}") for n in range(100)]
    write("a.ipynb", notebook(*cells))
    write("b.ipynb", notebook(code("c0", "x0 = 'new'"), *cells[1:10]))
    shown = run("diff", "a.ipynb", "b.ipynb").stdout
    assert shown.count("## removed cell") == 20
    assert "… and more cells: 70 removed (--stat lists them, --full shows them)" in shown
    assert "## modified cell 1 c0" in shown
    assert run("diff", "a.ipynb", "b.ipynb", "--full").stdout.count("## removed cell") == 90
    assert run("diff", "a.ipynb", "b.ipynb", "--stat").stdout.count("removed cell") == 90
    assert len(run_json("diff", "a.ipynb", "b.ipynb", code=1)["cells"]) == 91


def test_a_change_of_colour_alone_shows_no_lines_that_look_the_same(run):
    write("a.ipynb", notebook(code("c0", "f()", printed("\x1b[31mdone\x1b[0m\n"))))
    write("b.ipynb", notebook(code("c0", "f()", printed("\x1b[32mdone\x1b[0m\n"))))
    shown_ = run("diff", "a.ipynb", "b.ipynb").stdout
    assert "only colours" in shown_
    assert "-done" not in shown_


def test_pictures_are_told_by_their_size(run):
    write("a.ipynb", notebook(code("c0", "plot()", shown(image_png="A" * 16000))))
    write("b.ipynb", notebook(code("c0", "plot()", shown(image_png="B" * 17500))))
    assert "image/png changed (12 KB → 13 KB)" in run("diff", "a.ipynb", "b.ipynb").stdout


def two_long_sessions() -> None:
    """Make a session and a fork of it that differ in all that is shown, by long names."""
    path = Path("a-directory-with-a-long-name") / "below" / "a-file-with-a-long-name.txt"
    path.parent.mkdir(parents=True)
    path.write_text("one")
    read = f"tools.Read(file_path='{path}')  # and 長い words behind it"
    title = "make every module handle the empty case and tell what is left to do"
    one = Session.create("7d7ad8c9-1a2b-4c3d-9e4f-5a6b7c8d9e0f", title=title)
    one.append(read, type="tool")
    two = one.fork(session_id="0a7ad8c9-1a2b-4c3d-9e4f-5a6b7c8d9e0f")
    path.write_text("two")
    two.append(read, type="tool")
    for number in range(3):
        two.append(f"the_number_of_things_{number} = {number}\n\t\tf(  'with tabs before it'  )")
    two.remember(what_is_to_be_done_next=["look"])
    used = {"claude-of-a-long-name-20250929": {"tokens": 12_345_678, "calls": 1}}
    budget = {"total_tokens_used": 12_345_678, "by_model": used}
    two.state.budget = type(two.state.budget).model_validate(budget)
    two.save()


@pytest.mark.parametrize("columns", [40, 80])
@pytest.mark.parametrize("how", [(), ("--stat",), ("--full",)])
def test_no_line_of_a_diff_is_longer_than_the_terminal(columns, how):
    two_long_sessions()
    drawn = in_terminal("diff", "7d7", "0a7", *how, columns=columns, code=1, NO_COLOR="1")
    lines = drawn.splitlines()
    assert max(map(cell_len, lines)) <= columns
    assert not [line for line in lines if line.endswith(" ")]
    assert "…" in lines[0] + lines[1]
    same = in_terminal("diff", "7d7", "7d7", columns=columns, NO_COLOR="1").splitlines()
    assert max(map(cell_len, same)) <= columns


def test_a_line_of_code_that_is_folded_loses_nothing():
    source = "total = " + " + ".join(f"part_{number}" for number in range(20))
    write("a.ipynb", notebook(("c0", "total = 0")))
    write("b.ipynb", notebook(("c0", source)))
    drawn = in_terminal("diff", "a.ipynb", "b.ipynb", columns=40, code=1, NO_COLOR="1")
    folded = drawn.partition("\n+total")[2].partition("\n\n")[0]
    assert f"total{folded}".replace("\n…", "").replace(" ", "") == source.replace(" ", "")


def test_a_title_that_is_cut_says_so_and_a_pipe_gets_more_of_it(run):
    write("a.ipynb", notebook(("c0", "x = 1")))
    write("b.ipynb", notebook(("c0", "answer = compute(everything, that=was, ever=asked, of=us)")))
    assert "cell 1 c0: source  answer = compute(everything, that=was, ever=asked, of=us)\n" in (
        run("diff", "a.ipynb", "b.ipynb", "--stat").stdout
    )
    drawn = in_terminal("diff", "a.ipynb", "b.ipynb", "--stat", columns=50, code=1, NO_COLOR="1")
    assert "  modified cell 1 c0: source  answer = compute(ev…\n" in drawn


def test_a_line_that_both_sides_have_ends_in_no_space(run):
    write("a.ipynb", notebook(("c0", "x = 1\n\ny = 1  ")))
    write("b.ipynb", notebook(("c0", "x = 2\n\ny = 1  ")))
    assert "-x = 1\n+x = 2\n\n y = 1\n" in run("diff", "a.ipynb", "b.ipynb").stdout


def test_nothing_in_a_notebook_drives_the_terminal():
    attack = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp"
    write("a.ipynb", notebook(code("c0", "x", printed("\x1b[31mred\x1b[0m\n")), ("c1", "y")))
    write("b.ipynb", notebook(code("c0", f"# {attack}", printed(f"{attack}\n"))))
    drawn = in_terminal("diff", "a.ipynb", "b.ipynb", code=1)
    left = drawn
    for ours in ("\x1b[31m", "\x1b[32m", "\x1b[1m", "\x1b[2m", "\x1b[0m"):
        left = left.replace(ours, "")
    assert not set(left) & set("\x1b\x07\x9b\u202e")
    assert "\x1b[31m-x" in drawn
    assert "\x1b" not in in_terminal("diff", "a.ipynb", "b.ipynb", code=1, NO_COLOR="1")


@pytest.mark.parametrize(
    "run_",
    [5, {}, {"reads": []}, {"reads": {}, "writes": [{"names": [1]}], "deleted": []}],
)
def test_a_trace_that_a_hand_has_broken_is_passed_over(run_):
    broken = notebook(code("c", "x = 1", status="completed", run=run_))
    assert of(broken, broken).variables.same == ("x",)


def test_a_state_of_the_wrong_shape_is_read_as_none():
    odd = notebook(("c", "x = 1"))
    odd["metadata"] = {"rlmnb": {"budget": [1], "context": 3, "session": {"forked_from": "me"}}}
    assert of(odd, odd).equal
    assert not of(notebook(("c", "x = 1")), odd).spending.differs


@pytest.mark.parametrize("amount", [float("nan"), float("inf"), -1, True, "many", 10**400, [1]])
def test_an_amount_that_no_honest_hand_has_written_is_unknown(amount, run):
    odd = notebook(code("c", "x = 1", output={"execution_time_ms": amount}))
    odd["metadata"] = {"rlmnb": {"budget": {"cost_usd": amount, "total_tokens_used": amount}}}
    write("a.ipynb", odd)
    write("b.ipynb", notebook(("c", "x = 2")))
    spent = of(odd, notebook(("c", "x = 1"))).spending
    assert spent.total["cost_usd"].a is None
    assert spent.of_cells["execution_time_ms"].a == 0
    assert run("diff", "a.ipynb", "b.ipynb").returncode == 1


def test_a_notebook_cannot_name_any_file_as_its_origin(run):
    write("secret.ipynb", notebook(("c", "password = 1")))
    odd = notebook(("c", "x = 1"))
    origin = {"session_id": str(Path("secret.ipynb").absolute())}
    odd["metadata"] = {"rlmnb": {"schema_version": 1, "session": {"forked_from": origin}}}
    write("a.ipynb", odd)
    done = run("diff", "a.ipynb")
    assert done.returncode == 2
    assert "password" not in done.stdout


def test_equal_lines_far_from_a_change_are_left_out():
    before = "\n".join(str(n) for n in range(100))
    after = before.replace("\n50\n", "\nfifty\n")
    assert line_changes(before, after) == [
        "@@ line 48 → 48 @@", " 47", " 48", " 49", "-50", "+fifty", " 51", " 52", " 53",
    ]  # fmt: skip
    assert line_changes(before, before) == []


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abc")))
def test_lines_that_went_are_of_the_first_and_lines_that_came_of_the_second(old, new):
    changes = line_changes("\n".join(old), "\n".join(new))
    went = [line[1:] for line in changes if line[0] == "-"]
    came = [line[1:] for line in changes if line[0] == "+"]
    kept_old, kept_new = ("\n".join(old)).split("\n"), ("\n".join(new)).split("\n")
    for line in went:
        kept_old.remove(line)
    for line in came:
        kept_new.remove(line)
    assert sorted(kept_old) == sorted(kept_new)


SOURCES = st.sampled_from(
    ["", "x = 1", "x = 2", "print(x + 1)", "print(x + 2)", "total = sum(values)", "é\x1b"]
)
IDS = st.sampled_from([f"c{n}" for n in range(6)])


@st.composite
def notebooks(draw: st.DrawFn) -> dict[str, Any]:
    ids = draw(st.lists(IDS, unique=True, max_size=6))
    texts = st.sampled_from(["", "1\n", "2\n"])
    return notebook(
        *(code(each, draw(SOURCES), *([printed(t)] if (t := draw(texts)) else [])) for each in ids)
    )


@given(notebooks())
def test_a_notebook_does_not_differ_from_itself(whole):
    found = of(whole, copy.deepcopy(whole))
    assert found.equal
    assert found.as_dict()["cells"] == []


@given(notebooks(), notebooks())
def test_the_other_way_round_the_same_differs_with_the_sides_swapped(a, b):
    def rows(comparison: Comparison, *, swap: bool) -> set[tuple[Any, ...]]:
        names = {"added": "removed", "removed": "added"} if swap else {}
        return {
            (
                names.get(each.kind, each.kind),
                *((one.cell_id if one else None) for one in sides),
                each.changes,
                each.moved,
            )
            for each in comparison.cells
            for sides in [(each.b, each.a) if swap else (each.a, each.b)]
        }

    there, back = of(a, b), of(b, a)
    assert rows(there, swap=False) == rows(back, swap=True)
    assert there.equal == back.equal
    assert there.variables.only_a == back.variables.only_b
    assert len(there.cells) >= max(len(a["cells"]), len(b["cells"]))


def test_real_notebooks_of_other_tools_are_taken(run):
    made = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell("x = 1"), nbformat.v4.new_markdown_cell("# Words")]
    )
    nbformat.write(made, "a.ipynb")
    made.cells[0].source = "x = 2"
    nbformat.write(made, "b.ipynb")
    done = run("diff", "a.ipynb", "b.ipynb")
    assert done.returncode == 1
    assert "-x = 1\n+x = 2\n" in done.stdout
