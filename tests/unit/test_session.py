"""The Python interface, as its users call it."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime
from pathlib import Path

import pytest

import rlmnb
from rlmnb import Session
from rlmnb.errors import CellNotFoundError, InvalidCellError, SessionNotFoundError, StatusError
from tests.conftest import assert_valid, ids_in, notebook_of, read

README = Path(__file__).parents[2] / "README.md"


def test_the_public_names_are_these():
    assert rlmnb.__all__ == ["Cell", "RlmnbError", "Session", "__version__", "append"]
    assert all(getattr(rlmnb, name) for name in rlmnb.__all__)
    with pytest.raises(AttributeError):
        rlmnb.nonsense  # noqa: B018


def test_a_session_has_these_names():
    public = [name for name in dir(Session) if not name.startswith("_")]
    assert public == [
        "append", "append_cell", "cell", "cells", "chain", "changes_seen", "complete",
        "context_files", "create", "drop_calls", "findings", "forget", "fork", "id", "index",
        "invalidate", "judge", "objects", "open", "path", "place", "refresh", "remember",
        "retell", "revalidate", "save", "select", "show_running", "stale", "state", "stored_state",
        "tag",
        "transcript_path", "view", "whole", "working_memory",
    ]  # fmt: skip
    assert list(inspect.signature(Session.create).parameters)[:2] == ["session_id", "cwd"]


@pytest.mark.parametrize("name", ["Session", "append", "RlmnbError", "Cell"])
def test_every_public_name_is_shown_in_the_readme(name):
    assert name in README.read_text(encoding="utf-8")


def test_create_append_read_and_save():
    session = Session.create("demo", cwd="/somewhere")
    first = session.append(source="x = 1", output="ok\n")
    second = session.append(source="y = x + 1", type="repl", dependencies=[first])
    assert len(session.cells) == 2
    assert session.cell(second).source == "y = x + 1"
    assert session.cell(second).reasons == {first: "explicit, variable x"}
    assert [cell.cell_id for cell, _ in session.chain(second)] == [first]
    assert session.state.session.cwd == "/somewhere"
    session.state.session.title = "a title"
    session.state.session.tags = ["one"]
    session.save()
    again = Session.open("demo")
    assert again.state.session.title == "a title"
    assert again.state.session.tags == ["one"]
    assert again.state.appended == 3
    assert_valid(notebook_of("demo"))


def test_saving_what_did_not_change_writes_nothing():
    session = Session.create("demo")
    session.append(source="x = 1")
    before = notebook_of("demo").read_bytes()
    assert session.state.session.title is None
    session.save()
    assert notebook_of("demo").read_bytes() == before


def test_a_field_set_back_to_nothing_is_removed():
    session = Session.create("demo", title="t")
    session.state.session.title = None
    session.save()
    assert read("demo")["metadata"]["rlmnb"]["session"]["title"] is None


def test_creating_twice_gives_the_same_session():
    first = Session.create("demo", title="kept")
    first.append(source="x = 1")
    again = Session.create("demo", title="ignored")
    assert again.state.session.title == "kept"
    assert len(again.cells) == 1


def test_two_sessions_open_at_once_see_each_others_saves():
    one, two = Session.create("demo"), Session.open("demo")
    one.state.session.title = "from one"
    one.save()
    two.state.session.tags = ["from two"]
    two.save()
    state = Session.open("demo").state.session
    assert (state.title, state.tags) == ("from one", ["from two"])


def test_opening_what_is_not_there_says_what_to_do(tmp_path):
    with pytest.raises(SessionNotFoundError, match="nothing-here") as caught:
        Session.open("nothing-here")
    assert "rlmnb sessions" in str(caught.value.hint)
    with pytest.raises(FileNotFoundError):
        Session.open(tmp_path / "none.ipynb")


def test_cells_are_found_by_id_prefix_and_number():
    session = Session.create("demo")
    ids = [session.append(source=f"x{number} = 1") for number in range(12)]
    assert session.cell(ids[3]).number == 4
    assert session.cell(4).cell_id == ids[3]
    assert session.cell(ids[3][:9]).cell_id == ids[3]
    assert session.cell(ids[3].removeprefix("cell_")[:6]).cell_id == ids[3]
    assert session.append_cell({"source": "", "id": "cell_12345678"}).cell_id == "cell_12345678"
    assert session.cell("1234").cell_id == "cell_12345678"
    with pytest.raises(CellNotFoundError, match="no cell '123' among 13"):
        session.cell("123")
    with pytest.raises(CellNotFoundError, match="13 cells begin with 'cell_'"):
        session.cell("cell_")
    with pytest.raises(CellNotFoundError, match="no cell 'nope'"):
        session.cell("nope")


def test_cells_can_be_filtered_and_sliced(tmp_path):
    session = Session.create("demo")
    (Path.cwd() / "auth.py").write_text("x")
    session.append(source="x = 1")
    session.append(source='tools.Read(file_path="auth.py")', type="tool")
    session.append(source="boom()", error="it failed")
    assert [cell.type for cell in session.cells()] == ["repl", "tool", "repl"]
    assert [cell.number for cell in session.cells(type="tool")] == [2]
    assert [cell.number for cell in session.cells(status="failed")] == [3]
    assert [cell.number for cell in session.cells(file="auth.py")] == [2]
    assert [cell.number for cell in session.cells(file="th.py")] == []
    assert [cell.number for cell in session.cells(status="stale")] == [3]
    assert [cell.number for cell in session.cells[1:]] == [2, 3]


def test_cells_are_found_by_their_text_and_their_time(run_json, run):
    session = Session.create("demo")
    session.append(source="x = 1", created_at="2026-03-01T10:00:00Z")
    session.append(source="print('Login')", output="welcome", created_at="2026-03-02T10:00:00.5Z")
    session.append(source="y = 2")
    assert [cell.number for cell in session.cells(text="LOGIN")] == [2]
    assert [cell.number for cell in session.cells(text="Welcome")] == [2]
    assert [cell.number for cell in session.cells(since="2026-03-02T00:00Z")] == [2, 3]
    assert [cell.number for cell in session.cells(until="2026-03-02T00:00Z")] == [1]
    later = datetime(2026, 3, 2, 12, tzinfo=UTC)
    assert [cell.number for cell in session.cells(until=later, text="1")] == [1]
    assert [row["number"] for row in run_json("cells", "demo", "--since", "1h")] == [3]
    assert [row["number"] for row in run_json("cells", "demo", "--until", "1h", "--text", "=")] == [
        1
    ]
    wrong = run("cells", "demo", "--since", "yesterday")
    assert (wrong.returncode, "is no time; wanted" in wrong.stderr) == (2, True)


def test_a_cell_of_a_script_knows_the_files_that_its_code_names(run_json):
    Path("z.txt").write_text("1")
    rlmnb.append("demo", {"source": "d = open('z.txt').read()", "output": ""})
    rlmnb.append("demo", {"source": "y = 1"})
    assert run_json("status", "demo")["stale"] == []
    Path("z.txt").write_text("2")
    (stale,) = run_json("status", "demo")["stale"]
    assert stale["cell_id"] == Session.open("demo").cell(1).cell_id


def test_a_tool_cell_knows_its_call_and_its_file():
    (Path.cwd() / "auth.py").write_text("x = 1\n")
    session = Session.create("demo")
    cell = session.cell(session.append(source='tools.Read(file_path="auth.py")', type="tool"))
    assert cell.record is not None
    assert cell.record.input.operation == "Read"
    assert cell.record.input.args == {"file_path": "auth.py"}
    (path,) = cell.record.files_read
    assert path == str(Path.cwd() / "auth.py")
    assert cell.record.files_read[path].size_bytes == 6
    files = session.view()["context"]["files"]
    assert files[path]["role"] == "read"
    assert session.view()["context"]["tool_outputs"][0]["tool_name"] == "Read"


def test_a_tool_output_has_the_code_its_command_ended_with():
    session = Session.create("demo")
    for fields in (
        {"source": 'tools.Bash(command="true")'},
        {"source": 'tools.Bash(command="exit 3")', "error": "Exit code 3\nno"},
        {"source": 'tools.Bash(command="sleep 9")', "error": "interrupted"},
        {"source": 'tools.Bash(command="serve", run_in_background=True)'},
        {"source": 'tools.Glob(pattern="*.py")'},
    ):
        session.append(type="tool", **fields)
    outputs = session.view()["context"]["tool_outputs"]
    assert [each["exit_code"] for each in outputs] == [0, 3, None, None, None]


def test_the_reasons_of_a_cell_can_be_given_to_another():
    session = Session.create("demo")
    first = session.append(source="x = 1")
    second = session.append(source="y = 2", dependencies={first: "it came first"})
    assert session.cell(second).reasons == {first: "it came first"}


def test_roles_of_files_follow_what_was_done_to_them():
    session = Session.create("demo")
    for name, calls in {"a": ["Read", "Edit"], "b": ["Write"], "c": ["Read"]}.items():
        Path(name).write_text(name)
        for call in calls:
            session.append(source=f'tools.{call}(file_path="{name}")', type="tool")
    roles = {Path(path).name: each["role"] for path, each in session.context_files().items()}
    assert roles == {"a": "modified", "b": "created", "c": "read"}


def test_files_named_in_the_code_count_as_read():
    for name in ("data.csv", "notes.txt", "out.txt"):
        Path(name).write_text("one")
    session = Session.create("demo")
    frame = session.append(source='df = pd.read_csv("data.csv")')
    shell = session.append(source="!cat notes.txt")
    bash = session.append(source='tools.Bash(command="wc -l notes.txt > x")', type="tool")
    wrote = session.append(source='tools.Write(file_path="out.txt", content="x")', type="tool")
    read = {cell.cell_id: [Path(p).name for p in cell.entry.get("files_read", ())]
            for cell in session.cells}  # fmt: skip
    assert read == {frame: ["data.csv"], shell: ["notes.txt"], bash: ["notes.txt"], wrote: []}
    Path("data.csv").write_text("two")
    assert list(Session.open("demo").stale) == [frame]


def test_a_change_in_place_is_between_what_made_the_value_and_what_reads_it():
    session = Session.create("demo")
    made = session.append(source="d = {}")
    changed = session.append(source="d['x'] = 1")
    shown = session.append(source="print(d)")
    assert session.cell(shown).dependencies == (changed,)
    assert session.cell(changed).dependencies == (made,)


def test_objects_say_what_they_are_where_people_look_at_them():
    session = Session.create("demo")
    session.append(source="x = 1")
    assert repr(session) == "<Session demo: 1 cells, 0 stale>"
    assert repr(session.cells[0]).endswith("repl fresh: x = 1>")
    assert repr(session.cells(status="stale")) == "<0 cells>"
    with pytest.raises(rlmnb.RlmnbError, match="no status 'stal'"):
        session.cells(status="stal")


def test_a_running_cell_is_completed_once():
    session = Session.create("demo")
    cell_id = session.append(source="slow()", status="running")
    assert session.cell(cell_id).causes == ("has not finished",)
    session.complete(cell_id, output="done\n", execution_time_ms=5, result={"n": 1})
    session.complete(cell_id, output="done\n")
    cell = session.cell(cell_id)
    assert (cell.status, cell.causes) == ("completed", ())
    assert cell.outputs[0]["text"] == ["done\n"]
    assert cell.record is not None
    assert cell.record.output.result == {"n": 1}
    assert session.state.appended == 2
    with pytest.raises(StatusError):
        session.complete(cell_id, error="too late")
    assert_valid(notebook_of("demo"))


def test_a_cell_that_moves_on_keeps_its_output_and_is_promoted_once_verified():
    session = Session.create("demo")
    cell_id = session.append(source="x = 1", output="ok\n", status="running")
    for status in ("suspended", "running"):
        session.complete(cell_id, status=status)
        assert session.cell(cell_id).outputs[0]["text"] == ["ok\n"]
    session.complete(cell_id, output="done\n")
    with pytest.raises(StatusError, match="nothing has verified it"):
        session.complete(cell_id, status="promoted")
    check = {"type": "verification", "dependencies": [cell_id]}
    session.append(source="no", **check, verification={"of": cell_id, "holds": False})
    with pytest.raises(StatusError, match="nothing has verified it"):
        session.complete(cell_id, status="promoted")
    session.append(source="assert x == 1", **check)
    session.complete(cell_id, status="promoted")
    session.complete(cell_id, status="promoted")
    cell = session.cell(cell_id)
    assert (cell.status, cell.outputs[0]["text"]) == ("promoted", ["done\n"])
    with pytest.raises(StatusError, match="final"):
        session.complete(cell_id, status="running")


def test_a_failed_cell_shows_its_error_as_jupyter_does():
    session = Session.create("demo")
    cell_id = session.append(source="slow()", status="running")
    session.complete(cell_id, error={"ename": "ValueError", "evalue": "no", "traceback": []})
    cell = session.cell(cell_id)
    assert cell.status == "failed"
    assert cell.outputs[-1]["ename"] == "ValueError"
    assert cell.causes == ("failed when it last ran",)


def test_an_invalidated_cell_keeps_its_output_and_makes_its_dependents_stale():
    session = Session.create("demo")
    first = session.append(source="x = 1", output="kept\n")
    second = session.append(source="x + 1")
    session.invalidate(first, "the premise was wrong")
    assert list(session.stale) == [first, second]
    assert session.cell(first).outputs[0]["text"] == ["kept\n"]


def test_a_fork_takes_the_cells_up_to_a_point_and_remembers_where_from():
    session = Session.create("demo", title="t")
    ids = [session.append(source=f"x{number} = 1") for number in range(4)]
    before = notebook_of("demo").read_bytes()
    fork = session.fork(at=ids[1])
    assert [cell.cell_id for cell in fork.cells] == ids[:2]
    assert fork.state.session.parent_session_id == "demo"
    assert fork.state.session.forked_from is not None
    assert fork.state.session.forked_from.cell_id == ids[1]
    assert fork.state.session.title == "t"
    new = fork.append(source="y = 1")
    assert new not in ids
    assert notebook_of("demo").read_bytes() == before
    assert ids_in(fork.id) == [*ids[:2], new]
    assert_valid(notebook_of(fork.id))
    notebook_of(fork.id).unlink()
    assert len(Session.open(fork.id).cells) == 3  # its journal is its own
    with pytest.raises(InvalidCellError, match="already"):
        session.fork(session_id=fork.id)


def test_a_fork_of_an_ended_session_is_not_ended():
    session = Session.create("demo")
    session.append(source="x = 1")
    session.state.session.ended_at = "2026-11-16T00:00:00Z"
    session.save()
    assert session.fork().state.session.ended_at is None


def test_the_python_in_the_readme_runs(capsys):
    import re

    text = README.read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "'explicit, variable x'" in printed
    assert "rlmnb cells" in printed


def test_every_example_is_a_valid_session_that_verifies():
    from rlmnb.checking import verify
    from rlmnb.store.layout import notebook_place

    examples = sorted((README.parent / "examples").glob("*.ipynb"))
    assert examples
    for example in examples:
        copy = Path.cwd() / example.name
        copy.write_bytes(example.read_bytes())
        assert_valid(copy)
        assert verify(notebook_place(str(copy))).problems == ()
