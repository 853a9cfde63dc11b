"""Lint says what makes a session hard to follow, with a reason, and leaves good ones alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlmnb import Session
from rlmnb.cli.judging import subjects_of
from rlmnb.graph.effects import is_effectful
from rlmnb.graph.linting import OFFERED, RULES, Remark, Subject, remarks_on
from rlmnb.kernel import functions
from tests.unit.test_cli import in_terminal


def linted(*sources: str, **outputs: str) -> list[Remark]:
    """Lint a real notebook of these cells; `c0="text"` is what the first one printed."""
    cells = [nbformat.v4.new_code_cell(each, id=f"c{n}") for n, each in enumerate(sources)]
    for cell in cells:
        if cell.id in outputs:
            cell.outputs = [nbformat.v4.new_output("stream", text=outputs[cell.id])]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), "nb.ipynb")
    found = remarks_on(subjects_of(Session.open("nb.ipynb")))
    # Code that is here for something else takes its functions from nowhere.
    return [each for each in found if each.rule != "unset"]


def said(remarks: list[Remark]) -> list[tuple[str, str]]:
    return [(each.rule, each.cell_id) for each in remarks]


CLEAN = (
    "import json\nimport os\nimport random\n\nLIMIT = 3\nPATHS = ['a', 'b']\nrandom.seed(LIMIT)",
    "from shop import clean, count, plot, sum_up\ndef load(p): return json.loads(p + str(LIMIT))",
    "data = [load(path) for path in PATHS]",
    "df = clean(data)\ndf = df[df > 0]",
    "counts = count(df)\nprint(counts)",
    "fig, ax = plot(counts)",
    "fig, ax = plot(df)",
    "for row in counts:\n    print(row)",
    "result = sum_up(counts)",
)


def test_a_clean_notebook_hears_nothing(run):
    assert linted(*CLEAN, c4="1\n", c5="<Figure>", c6="<Figure>") == []
    done = run("lint", "nb.ipynb")
    assert (done.returncode, done.stdout) == (0, "nothing to say about 9 cells\n")


def test_the_sessions_of_the_demo_hear_nothing():
    Path("auth.py").write_text("def login(user): ...\n")
    session = Session.create("demo")
    session.append('code = tools.Read(file_path="auth.py")', type="tool")
    session.append("users = ['ann', 'bob']")
    session.append("print(len(users), 'users')", output="2 users")
    session.append("answer = llm_query('does this run? ' + code)", type="llm_call", output="no")
    assert remarks_on(subjects_of(session)) == []
    words = Session.create("words")
    for source in (
        "text = 'the cat and the dog and the bird'",
        "words = text.split()",
        "counts = {word: words.count(word) for word in words}",
        "longest = max(words, key=len)\nprint(longest)",
        "print(max(counts, key=counts.get))",
    ):
        words.append(source)
    assert remarks_on(subjects_of(words)) == []


def test_a_very_long_cell_is_too_coarse_and_a_module_of_functions_is_not():
    steps = "\n".join(f"x{n} = f(x{n - 1})" for n in range(1, 90))
    functions = "\n".join(f"def f{n}(x):\n    return x" for n in range(60))
    assert said(linted(steps, functions, "print(x89, f1)")) == [("too-coarse", "c0")]


def test_results_that_go_separate_ways_want_cells_of_their_own():
    many = "\n".join(f"r{n} = work({n})" for n in range(6))
    readers = ["print(r0, r1)", "print(r2, r3)", "print(r4, r5)"]
    (found,) = linted(many, *readers)
    assert (found.rule, found.cell_id) == ("too-coarse", "c0")
    assert "6 variables that go 3 separate ways: r0, r1; r2, r3; r4, r5" in found.message
    assert linted(many, "print(r0, r1, r2, r3, r4, r5)") == []
    constants = "\n".join(f"r{n} = {n}" for n in range(6))
    assert linted(constants, *readers) == []


def test_a_slow_cell_with_two_results_is_too_coarse():
    session = Session.create("slow")
    work = "from shop import load, train\na = train()\nb = load()"
    session.append(work, execution_time_ms=45_000)
    session.append("print(a)", output="1")
    session.append("print(b)", output="1")
    (found,) = remarks_on(subjects_of(session))
    assert found.rule == "too-coarse"
    assert "45 s" in found.message


def test_a_row_of_tiny_cells_is_too_fine():
    tiny = ["a = 1", "b = a + 1", "c = b + 1", "d = c + 1", "print(d)"]
    assert said(linted(*tiny)) == [("too-fine", "c0")]
    assert linted(*tiny[:4]) == []
    assert linted(*tiny, c1="somebody looked at it") == []
    assert linted(*tiny, "print(b)") == []


def test_what_nobody_reads_and_nothing_shows_is_unused():
    assert said(linted("left = 1", "x = 2", "print(x)")) == [("unused", "c0")]
    assert linted("left = 1", "x = 2", "print(x)", c0="shown") == []
    assert linted("r = requests.post(url)", "x = 2", "print(x)") == []
    assert linted("left = 1", "exec('print(left)')")[0].rule == "opaque"


def test_setting_a_part_of_what_others_hold_is_not_unused():
    assert linted("a = table()", "part = a[2:5]", "part[0] = 1", "print(a)") == []


def test_what_a_function_reads_when_it_is_called_is_used_and_in_order():
    assert linted("def f():\n    return LIMIT", "LIMIT = 3", "print(f())") == []


def test_the_last_cell_is_still_being_worked_on():
    assert linted("x = 1", "y = x + 1") == []


def test_hidden_state_is_pointed_out_where_work_has_begun():
    where = "x = work()\nprint(x)"
    (found,) = linted("import os", where, "os.environ['MODE'] = 'fast'")
    assert (found.rule, found.cell_id) == ("hidden-state", "c2")
    assert "environment variables" in found.message
    assert linted("import os", "os.environ['MODE'] = 'fast'", where) == []
    assert said(linted("import os\nos.chdir('/')", where)) == [("hidden-state", "c0")]


def test_the_history_of_the_kernel_is_hidden_state():
    assert said(linted("1 + 1", "x = _ + 1\nprint(x)")) == [("hidden-state", "c1")]
    assert linted("for _ in range(3):\n    print(_)") == []


def test_opaque_code_is_named():
    (found,) = linted("exec('x = 1')", "print(1)")
    assert (found.rule, found.cell_id) == ("opaque", "c0")
    assert "exec()" in found.message
    assert linted("%%time\nf()", "model.eval()") == []


def test_reading_what_only_a_cell_below_sets_is_a_matter_of_order():
    (found,) = linted("print(late)", "late = 1")
    assert (found.rule, found.cell_id) == ("order", "c0")
    assert "late (cell 2)" in found.message


def test_one_name_for_two_things_is_a_matter_of_order():
    sources = ["model = small()", "print(model)", "model = large()", "print(model)"]
    (found,) = linted(*sources)
    assert (found.rule, found.cell_id) == ("order", "c2")
    assert "cell 2 read what cell 1 set, cell 4 what this one does" in found.message
    assert linted("model = small()", "print(model)", "model = model.fit()", "print(model)") == []


def test_an_effect_between_cells_that_need_each_other_is_pointed_out():
    session = Session.create("effects")
    first = session.append("name = 'x'")
    second = session.append("done = tools.Bash(command=name)", type="tool")
    session.append("print(done)", output="done")
    (found,) = remarks_on(subjects_of(session))
    assert (found.rule, found.cell_id) == ("effect-in-chain", second)
    assert "Bash changes the world between cell 1 and cell 3" in found.message
    assert session.cell(second).dependencies == (first,)


def test_an_effect_in_code_of_ones_own_is_one_too():
    called = "done = tools.Bash(command=name)\nprint('ran')"
    (found,) = linted("name = 'x'", called, "print(done)", c1="ran\n", c2="")
    assert (found.rule, found.cell_id) == ("effect-in-chain", "c1")


@pytest.mark.parametrize(
    ("operation", "effectful"),
    [("Bash", True), ("Write", True), ("mcp__mail__send", True), ("Read", False), (None, False)],
)
def test_tools_that_change_the_world_are_known(operation, effectful):
    assert is_effectful(operation) is effectful


def test_a_tag_keeps_a_cell_out():
    cell = nbformat.v4.new_code_cell("left = 1", id="c0", metadata={"tags": ["rlmnb:lint-ignore"]})
    last = nbformat.v4.new_code_cell("print(1)", id="c1")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell, last]), "nb.ipynb")
    assert remarks_on(subjects_of(Session.open("nb.ipynb"))) == []


def test_rules_can_be_chosen_and_an_unknown_one_is_refused_with_the_list(run, run_json):
    linted("left = 1", "print(late)", "late = 1")
    found = run_json("lint", "nb.ipynb", code=1)
    assert [each["rule"] for each in found] == ["unused", "order"]
    assert set(found[0]) == {"rule", "cell_id", "number", "message", "advice"}
    assert [each["rule"] for each in run_json("lint", "nb.ipynb", "--only", "order", code=1)] == [
        "order"
    ]
    assert run_json("lint", "nb.ipynb", "--ignore", "order", "--ignore", "unused") == []
    wrong = run("lint", "nb.ipynb", "--only", "tidy")
    assert wrong.returncode == 2
    assert all(rule in wrong.stderr for rule in RULES)


def test_it_fits_a_terminal_and_drives_none():
    linted(
        "left_\u00e9 = 1", "print('\x1b[2J')", "exec('\x1b]0;owned\x07')", "print(late)", "late=1"
    )
    drawn = in_terminal("lint", "nb.ipynb", code=1, NO_COLOR="1")
    assert "\x1b" not in drawn
    assert max(len(line) for line in drawn.splitlines()) <= 80
    assert "opaque  code that may read and set any variable" in drawn


def test_many_remarks_of_a_kind_are_cut_and_can_be_seen(run):
    linted(*(f"left{n} = 1" for n in range(15)), "print(1)")
    shown = run("lint", "nb.ipynb").stdout
    assert "… 5 more: rlmnb lint" in shown
    assert run("lint", "nb.ipynb", "--only", "unused").stdout.count("no cell below reads") == 15


def facts(number: int, reads: list[str], writes: list[str]) -> dict[str, Any]:
    return {
        "cell_id": f"c{number}", "number": number, "type": "repl", "status": "completed",
        "reads": reads, "writes": writes, "dependencies": [], "dependents": [],
    }  # fmt: skip


@given(st.lists(st.text(max_size=40), max_size=6))
def test_no_source_makes_it_fail(sources):
    cells = [Subject(facts(n, [], []), source) for n, source in enumerate(sources, 1)]
    assert all(each.rule in RULES for each in remarks_on(cells))


def test_what_no_cell_sets_is_pointed_out(run_json):
    sources = ["import math\nn = math.pi", "print(df.head(), n)", "total = df.sum()", "total"]
    cells = [nbformat.v4.new_code_cell(each, id=f"c{at}") for at, each in enumerate(sources)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), "nb.ipynb")
    found = run_json("lint", "nb.ipynb", code=1)
    assert [(each["rule"], each["cell_id"]) for each in found] == [("unset", "c1"), ("unset", "c2")]
    assert found[0]["message"] == "reads df, which no cell sets"
    cells[0].source = "exec(open('set_up.py').read())"  # may set anything
    nbformat.write(nbformat.v4.new_notebook(cells=cells), "other.ipynb")
    assert not [each for each in run_json("lint", "other.ipynb", code=1) if each["rule"] == "unset"]


def test_what_cells_find_without_setting_it_is_not_missed():
    assert set(functions._HOMES) <= OFFERED
    names = sorted(OFFERED - {"tools"})
    for at, name in enumerate(names):
        Session.create("demo", cwd=".").append(f"print({name}, {at})", output="")
    Session.open("demo").append("print(tools.Read(file_path='a'))", output="")
    assert {each.rule for each in remarks_on(subjects_of(Session.open("demo")))} <= {"hidden-state"}
