"""What the earlier RLM tools kept becomes sessions, safely, and can be taken back."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

import rlmnb
from rlmnb import Session
from rlmnb.checking import verify
from rlmnb.errors import SessionNotFoundError
from rlmnb.migrating.exporting import write
from rlmnb.migrating.run import Report, Result, migrate, rollback
from rlmnb.store import checkpoints
from rlmnb.store.layout import session_place
from tests.conftest import assert_valid, notebook_of

SID = "039f5c9f-e804-44d9-9946-1098a64c8c1b"
BEGUN = 1771595465.504746
SECRET = "sk-ant-api03-" + "a1B2" * 24 + "AA"


class Old:
    """The directory of an earlier tool, with the files that it would have written."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(exist_ok=True)

    def json(self, path: str, value: Any) -> Path:
        return self.text(path, json.dumps(value, indent=2))

    def lines(self, path: str, *values: Any) -> Path:
        return self.text(path, "".join(json.dumps(value) + "\n" for value in values))

    def text(self, path: str, text: str) -> Path:
        return self.bytes(path, text.encode())

    def bytes(self, path: str, data: bytes) -> Path:
        whole = self.root / path
        whole.parent.mkdir(parents=True, exist_ok=True)
        whole.write_bytes(data)
        return whole

    def state(self, sid: str = SID, **more: Any) -> Path:
        state = {
            "session_id": sid, "created_at": BEGUN, "updated_at": BEGUN + 100, "rlm_active": True,
            "current_depth": 1, "total_recursive_calls": 3, "total_tokens_used": 1234,
            "working_memory": {"plan": ["read", "fix"]}, "file_cache": {}, "tool_outputs_count": 2,
            "trajectory_path": None, "trajectory_events_count": 5,
        }  # fmt: skip
        return self.json(f"rlm-state/{sid}.json", state | more)

    def context(self, sid: str = SID, **more: Any) -> Path:
        context = {
            "messages": [
                message("user", "fix the login\n\nplease", 1),
                message("assistant", "done", 50),
            ],
            "files": {},
            "tool_outputs": [output("Bash", "ok", 6, exit_code=0)],
            "working_memory": {"plan": ["read", "fix"], "n": 1},
        }
        return self.json(f"rlm-state/{sid}_context.json", context | more)

    def frames(self, *frames: Any, sid: str = SID, name: str = "frames.jsonl") -> Path:
        return self.lines(f"rlm-frames/{sid}/{name}", *frames)

    def snapshot(self) -> dict[str, Any]:
        return snapshot(self.root)


def message(role: str, content: Any, after: float) -> dict[str, Any]:
    return {"role": role, "content": content, "timestamp": BEGUN + after}


def output(tool: str, content: Any, after: float, exit_code: int | None = None) -> dict[str, Any]:
    return {
        "tool_name": tool, "content": content, "exit_code": exit_code, "timestamp": BEGUN + after,
    }  # fmt: skip


def called(tool: str, answer: Any, call: str = "call_1", **args: Any) -> dict[str, Any]:
    return {
        "type": "tool_output", "session_id": SID, "tool_name": tool, "tool_input": args,
        "tool_output": answer, "tool_use_id": call,
    }  # fmt: skip


def frame(name: str, parent: str | None = None, query: str = "x = 1", **more: Any) -> Any:
    whole = {
        "frame_id": name, "depth": 0 if parent is None else 1, "parent_id": parent, "children": [],
        "query": query,
        "context_slice": {"files": {}, "memory_refs": [], "tool_outputs": {}, "token_budget": 8000},
        "evidence": [], "conclusion": f"the end of {name}", "confidence": 0.8,
        "invalidation_condition": "", "status": "completed", "branched_from": None,
        "escalation_reason": None, "created_at": "2026-02-20T13:51:05.504746",
        "completed_at": "2026-02-20T13:51:06.504755",
    }  # fmt: skip
    return whole | more


def snapshot(root: Path) -> dict[str, Any]:
    """Everything below a directory: bytes of files, targets of links, names of the rest."""
    found: dict[str, Any] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = os.readlink(path)
        elif path.is_file():
            found[name] = path.read_bytes()
        else:
            found[name] = None
    return found


@pytest.fixture
def old(tmp_path: Path) -> Old:
    return Old(tmp_path / "claude")


@pytest.fixture
def whole(old: Old, tmp_path: Path) -> Old:
    """One session in every file that the earlier tools knew."""
    source = tmp_path / "work" / "auth.py"
    source.write_text("def login(): ...\n")
    short = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    seen = {
        "files": {str(source): short},
        "memory_refs": ["m1"],
        "tool_outputs": {"Bash": "ab" * 8},
        "token_budget": 8000,
    }
    old.state()
    old.context(
        files={str(source): "def login(): ...\n"},
        tool_outputs=[
            output("Read", "def login(): ...\n", 5),
            output("Bash", "ok", 6, exit_code=0),
            output("Bash", "no such file", 7, exit_code=2),
        ],
    )
    old.json(
        "rlm-state/context.json",
        {
            "conversation": [message("user", "fix the login\n\nplease", 1)],
            "files": {},
            "tool_outputs": [output("Bash", "ok", 6, exit_code=0)],
            "working_memory": {},
        },
    )
    old.json(
        "rlm-state/session-metadata.json",
        {
            "session_id": SID, "transcript_path": "", "cwd": str(tmp_path / "work"),
            "started_at": "2026-02-20T13:51:00Z",
        },
    )  # fmt: skip
    old.lines(
        f"rlm-state/file-access-{SID}.jsonl",
        {"timestamp": "2026-02-20T13:51:10Z", "tool": "Read", "file": str(source)},
        {"timestamp": "2026-02-20T13:51:20Z", "tool": "Write", "file": str(source)},
        {"timestamp": "2026-02-20T13:51:30Z", "tool": "Grep", "pattern": "login"},
    )
    transcript = old.text(f"projects/x/{SID}.jsonl", "{}\n")
    (old.root / "rlm-state/current-transcript.jsonl").symlink_to(transcript)
    old.json(
        "rlm-config.json",
        {
            "activation": {"mode": "manual", "fast_path_enabled": True},
            "depth": {"default": 2, "max": 3},
            "cost_controls": {"max_recursive_calls_per_turn": 7},
        },
    )
    first = frame("82ab3024044daeb5", query="y = 2", context_slice=seen)
    second = frame(
        "df34e85900000000", first["frame_id"], "what does it do?", status="suspended",
        evidence=[first["frame_id"], "saw it run"], escalation_reason="too hard",
        invalidation_condition="if auth.py changes", context_slice=seen,
    )  # fmt: skip
    old.json(f"rlm-frames/{SID[:8]}/index.json", {"session_id": SID[:8], "frames": [first, second]})
    old.frames(first, second, second | {"status": "promoted", "conclusion": "it logs in"})
    wrote = {"filePath": str(source), "content": "x\n", "structuredPatch": []}
    old.lines(
        f"rlm-frames/{SID}/tools.jsonl",
        called("Bash", "ok", "call_1", command="make"),
        called("Write", json.dumps(wrote, indent=2), "call_2", file_path=str(source), content="x"),
        {"type": "file_read", "session_id": SID, "file_path": "x", "content_hash": 7},
    )
    old.json("rlm-frames/.current_session", {"session_id": SID, "pid": 1, "updated_at": "x"})
    at = int(BEGUN) + 40
    old.json(
        f"rlm-externalized/{SID}/conversation_{at}.json", [message("user", "an older question", 0)]
    )
    old.json(f"rlm-externalized/{SID}/files_{at}.json", {str(source): "def login(): ...\n"})
    old.json(
        f"rlm-externalized/{SID}/tool_outputs_{at}.json",
        [{"tool": "Bash", "content": "gone since", "exit_code": 0, "timestamp": BEGUN + 2}],
    )
    old.json(f"rlm-externalized/{SID}/manifest_{at}.json", {"session_id": SID, "timestamp": at})
    old.json(
        f"rlm-trajectories/20260220_{SID}_summary.json",
        {"session_id": SID, "timestamp": at + 60, "rlm_stats": {"total_tokens_used": 1234}},
    )
    with sqlite3.connect(old.root / "rlm-memory.db") as memory:
        memory.execute("CREATE TABLE nodes (id TEXT, type TEXT, content TEXT, embedding BLOB)")
        memory.execute("INSERT INTO nodes VALUES ('n1', 'fact', 'tests run with make', x'00ff')")
    memory.close()
    return old


def only(report: Report) -> Result:
    assert len(report.sessions) == 1, report
    return report.sessions[0]


def carried(old: Old, status: str = "migrated") -> Session:
    result = only(migrate(str(old.root), execute=True))
    assert result.status == status, result
    return Session.open(result.session_id)


def sources(session: Session) -> list[str]:
    return [cell.source for cell in session.cells]


def cell_with(session: Session, text: str) -> Any:
    found = [cell for cell in session.cells if text in cell.source]
    assert len(found) == 1, (text, sources(session))
    return found[0]


# what becomes of it


def test_a_whole_session_comes_across(whole):
    session = carried(whole)
    assert session.id == SID
    assert_valid(notebook_of(SID))
    assert verify(session.place).problems == ()
    types = [cell.type for cell in session.cells]
    assert types.count("tool") == 5
    assert types.count("markdown") == 3
    assert len(session.cells) == 10
    assert session.working_memory == {"plan": ["read", "fix"], "n": 1}
    state = session.state
    assert state.session.title == "fix the login"
    assert state.session.created_at == "2026-02-20T13:51:05.504746Z"
    assert state.activation.rlm_active
    assert state.activation.activation_mode == "manual"
    assert state.activation.max_depth == 3
    assert state.budget.total_tokens_used == 1234
    assert state.budget.max_recursive_calls == 7


def test_every_field_says_which_file_it_came_from(whole, tmp_path):
    migrated = carried(whole).state.migrated
    assert migrated.provenance["session.cwd"] == "rlm-state/session-metadata.json"
    assert migrated.provenance["session.created_at"] == f"rlm-state/{SID}.json"
    assert migrated.provenance["budget.max_recursive_calls"] == "rlm-config.json"
    assert migrated.provenance["session.transcript_path"] == "rlm-state/current-transcript.jsonl"
    assert migrated.legacy_ids == [SID[:8], SID]


def test_what_has_no_place_is_named_and_kept(whole):
    whole.state(odd={"a": [1, 2]})
    result = only(migrate(str(whole.root)))
    assert "odd" in result.unmapped[f"rlm-state/{SID}.json"]
    assert result.unmapped["rlm-config.json"] == ["activation", "depth"]
    session = carried(whole)
    kept = json.loads((Path(session.place.directory) / "legacy/unmapped.json").read_text())
    assert kept[f"rlm-state/{SID}.json"]["odd"] == {"a": [1, 2]}
    assert kept["rlm-config.json"]["activation"] == {"fast_path_enabled": True}


def test_a_call_told_of_in_two_places_is_one_cell_with_what_both_know(whole):
    session = carried(whole)
    cell = cell_with(session, "tools.Bash(command='make')")
    assert cell.record.tool_use_id == "call_1"
    assert cell.entry["created_at"] == "2026-02-20T13:51:11.504746Z"


def test_a_call_that_failed_says_so(whole):
    session = carried(whole)
    failed = [cell for cell in session.cells if cell.status == "failed"]
    assert [cell.record.output.error for cell in failed] == ["Exit code 2"]
    # Nobody knows its arguments, so nothing could make the call again.
    assert failed[0].source == "tools.call('Bash')"


def test_files_that_were_read_are_versions_that_can_be_compared(whole, tmp_path):
    session = carried(whole)
    path = str(tmp_path / "work" / "auth.py")
    read = cell_with(session, "tools.Read")
    now = "sha256:" + hashlib.sha256(b"def login(): ...\n").hexdigest()
    assert read.record.files_read[path].hash == now
    assert not read.stale
    assert session.context_files()[path]["role"] == "modified"
    Path(path).write_text("def logout(): ...\n")
    assert Session.open(SID).cell(read.cell_id).causes == (f"{path} changed",)


def test_file_accesses_date_calls_and_tell_of_those_that_nothing_else_knows(whole):
    session = carried(whole)
    assert cell_with(session, "tools.Write").entry["created_at"] == "2026-02-20T13:51:20.000000Z"
    grep = cell_with(session, "tools.Grep")
    assert grep.source == "tools.Grep(pattern='login')"
    log = Path(session.place.directory) / "legacy/file-access.jsonl"
    assert len(log.read_text().splitlines()) == 3


def test_frames_are_cells_the_last_telling_of_each_counts(whole):
    session = carried(whole)
    first, second = cell_with(session, "y = 2"), cell_with(session, "llm_query(")
    record = second.record
    assert record.parent_id == first.cell_id
    assert record.metadata.depth == 1
    assert record.confidence == 0.8
    assert record.status == "promoted"
    assert record.evidence == [first.cell_id]
    assert record.escalation_reason == ["too hard"]
    assert record.invalidation_condition.kind == "file_changed"
    assert record.input.context_snapshot.memory_refs == ["m1"]
    assert second.outputs[0]["data"]["text/plain"] == ["it logs in"]
    assert second.dependencies == (first.cell_id,)
    assert (first.type, second.type) == ("repl", "llm_call")


def test_what_was_put_aside_before_compaction_is_a_checkpoint(whole):
    session = carried(whole)
    kept = checkpoints.all_kept(session.place)
    assert [each["at"] for each in kept] == ["2026-02-20T13:51:45.000000Z"]
    notebook = json.loads(checkpoints.contents(session.place, kept[0]["name"]))
    text = json.dumps(notebook["cells"])
    assert "an older question" in text
    assert "gone since" in text
    assert "an older question" not in "".join(sources(session))


def test_a_trajectory_is_a_summary_that_a_person_reads(whole):
    events = [{"type": "rlm_start", "depth": 0, "content": "begin", "timestamp": BEGUN}] * 3000
    whole.json(f"rlm-trajectories/{SID}_trajectory.json", events)
    session = carried(whole)
    told = cell_with(session, "Trajectory")
    assert "rlm_start: begin" in told.source
    name = told.source.partition("kept as ")[2].partition(" ")[0]
    assert session.objects.get(name).count(b"begin") == 3000


def test_memory_is_kept_as_lines_until_something_can_take_it_in(whole, root):
    report = migrate(str(whole.root), execute=True)
    assert [each.status for each in report.memory] == ["migrated"]
    lines = (root / ".migrations" / f"{report.memory[0].session_id}.jsonl").read_text()
    assert [json.loads(line) for line in lines.splitlines()] == [
        {
            "table": "nodes",
            "row": {
                "id": "n1",
                "type": "fact",
                "content": "tests run with make",
                "embedding": {"base64": "AP8="},
            },
        }
    ]


def test_what_a_memory_has_only_in_its_log_is_read_and_the_log_stays(old, root):
    old.state()
    path = old.root / "rlm-memory.db"
    writer = sqlite3.connect(path)
    writer.execute("PRAGMA journal_mode=WAL")
    writer.execute("PRAGMA wal_autocheckpoint=0")
    writer.execute("CREATE TABLE nodes (content TEXT)")
    writer.execute("INSERT INTO nodes VALUES ('only in the log')")
    writer.commit()
    before = old.snapshot()
    report = migrate(str(old.root), execute=True)
    assert old.snapshot() == before
    writer.close()
    text = (root / ".migrations" / f"{report.memory[0].session_id}.jsonl").read_text()
    assert "only in the log" in text


def test_a_migrated_session_goes_on_like_any_other(whole):
    session = carried(whole)
    new = rlmnb.append(SID, {"source": "z = y + 1", "output": "3\n"})
    session.refresh()
    assert session.cells[-1].cell_id == new
    assert session.cell(new).reasons == {cell_with(session, "y = 2").cell_id: "variable y"}


# the problems of the old layout, each gone


def test_no_fragmentation_one_notebook_tells_what_stood_in_many_files(whole):
    files = [each["path"] for each in only(migrate(str(whole.root))).files]
    assert len(files) == 14
    session = carried(whole)
    told = notebook_of(SID).read_text()
    for piece in ("fix the login", "make", "it logs in", "total_tokens_used", "Grep"):
        assert piece in told
    assert set(session.state.migrated.files) == set(files)


def test_no_redundancy_what_two_files_repeat_is_there_once(whole):
    session = carried(whole)
    assert sum("fix the login" in source for source in sources(session)) == 1
    assert sum("make" in source for source in sources(session)) == 1


def test_there_are_cells_every_call_and_frame_can_be_named_and_selected(whole):
    session = carried(whole)
    assert [cell.type for cell in session.select("type:tool")] == ["tool"] * 5
    assert all(cell.record.source_hash for cell in session.cells if cell.type != "markdown")


def test_recovery_needs_one_file_and_no_order(whole):
    session = carried(whole)
    before = [cell.raw for cell in session.cells]
    Path(session.place.index).unlink()
    Path(session.path).unlink()
    assert [cell.raw for cell in Session.open(SID).cells] == before


def test_there_are_dependencies_with_their_reasons(whole):
    session = carried(whole)
    second = cell_with(session, "llm_query(")
    first = cell_with(session, "y = 2")
    assert second.reasons == {first.cell_id: "parent frame"}
    assert [cell.cell_id for cell, _ in session.chain(second.cell_id)] == [first.cell_id]


def test_no_link_is_needed_the_transcript_is_known_by_its_own_path(whole):
    session = carried(whole)
    (whole.root / "rlm-state/current-transcript.jsonl").unlink()
    assert session.transcript_path == str(whole.root / f"projects/x/{SID}.jsonl")
    assert not [path for path in Path(session.place.directory).rglob("*") if path.is_symlink()]


# planning and doing it


def test_a_dry_run_is_the_default_and_touches_nothing(whole, run_json, root):
    before = whole.snapshot()
    told = run_json("migrate", str(whole.root))
    assert told["executed"] is False
    assert [each["status"] for each in told["sessions"]] == ["planned"]
    assert told["sessions"][0]["cells"] == 10
    kinds = {each["kind"] for each in told["sessions"][0]["files"]}
    assert kinds >= {"state", "context", "metadata", "file-access", "frames", "tools", "config"}
    assert all(each["becomes"] and each["hash"] for each in told["sessions"][0]["files"])
    assert told["sessions"][0]["files_migrated"] == []
    assert run_json("migrate", str(whole.root), "--dry-run") == told
    assert not root.exists()
    assert whole.snapshot() == before


def test_a_plan_can_be_read_by_a_person(whole, run):
    shown = run("migrate", str(whole.root))
    assert f"planned   {SID}  10 cells, 1 checkpoint\n" in shown.stdout
    assert "   4 files  checkpoints\n" in shown.stdout
    assert f"rlmnb migrate {whole.root} --execute" in shown.stderr
    bad = run("migrate", str(whole.root), "--execute", "--dual-write", "x")
    assert bad.returncode == 2


def test_a_second_run_does_nothing_and_says_so(whole, run_json, run, root):
    first = run_json("migrate", str(whole.root), "--execute")
    assert first["sessions"][0]["status"] == "migrated"
    assert len(first["sessions"][0]["files_migrated"]) == 14
    before = snapshot(root)
    again = run_json("migrate", str(whole.root), "--execute")
    assert [each["status"] for each in again["sessions"] + again["memory"]] == ["unchanged"] * 2
    assert snapshot(root) == before
    assert "there was nothing to do" in run("migrate", str(whole.root), "--execute").stderr


def test_old_files_that_changed_since_are_migrated_again(whole):
    carried(whole)
    whole.context(messages=[message("user", "something else", 1)])
    session = carried(whole, "updated")
    assert any("something else" in source for source in sources(session))


def test_old_files_that_changed_do_not_replace_what_a_person_changed(whole):
    carried(whole)
    rlmnb.append(SID, {"source": "mine = 1"})
    whole.context(messages=[message("user", "something else", 1)])
    result = only(migrate(str(whole.root), execute=True))
    assert result.status == "skipped"
    assert f"{SID}/session.ipynb" in result.reason
    assert "mine = 1" in sources(Session.open(SID))


def test_a_session_that_hooks_have_recorded_is_left_alone(whole):
    rlmnb.append(SID, {"source": "mine = 1"})
    before = notebook_of(SID).read_bytes()
    assert only(migrate(str(whole.root), execute=True)).status == "skipped"
    assert notebook_of(SID).read_bytes() == before


def test_the_short_id_and_the_whole_one_are_the_same_session(old):
    old.state("aaaaaaaa-1111")
    old.frames(frame("f1"), sid="aaaaaaaa")
    old.state("bbbbbbbb-1111")
    old.state("bbbbbbbb-2222")
    old.frames(frame("f2"), sid="bbbbbbbb")
    old.frames(frame("f3"), sid="cccccccc")
    found = {each.session_id: each for each in migrate(str(old.root), execute=True).sessions}
    assert list(found) == [
        "aaaaaaaa-1111", "bbbbbbbb", "bbbbbbbb-1111", "bbbbbbbb-2222", "cccccccc",
    ]  # fmt: skip
    assert found["aaaaaaaa-1111"].legacy_ids == ["aaaaaaaa", "aaaaaaaa-1111"]
    assert "2 sessions begin with bbbbbbbb" in found["bbbbbbbb"].notes[0]


def test_naming_one_of_the_directories_is_enough(whole):
    assert only(migrate(str(whole.root / "rlm-frames"))).session_id == SID


def test_a_root_that_is_none_is_refused(run, tmp_path):
    done = run("migrate", str(tmp_path / "nowhere"))
    assert done.returncode == 2
    assert "is no directory" in done.stderr
    assert run("migrate", str(tmp_path)).stdout == f"nothing to migrate in {tmp_path}\n"


def test_context_of_no_session_is_a_session_of_its_own(old):
    old.json("rlm-state/context.json", {"conversation": [message("user", "hello", 1)]})
    old.state("one-1")
    old.state("two-2")
    assert "legacy-context" in [each.session_id for each in migrate(str(old.root)).sessions]


# taking it back


def test_after_a_rollback_everything_is_as_before_byte_for_byte(whole, run, root):
    rlmnb.append("mine", {"source": "x = 1", "output": "long\n" * 10_000})
    whole.context(tool_outputs=[output("Bash", "new " * 10_000, 6)])
    before, old_before = snapshot(root), whole.snapshot()
    assert run("migrate", str(whole.root), "--execute").returncode == 0
    assert snapshot(root) != before
    assert run("show", SID).returncode == 0
    assert run("cells", SID).returncode == 0
    assert run("migrate", "--rollback").returncode == 0
    assert snapshot(root) == before
    assert whole.snapshot() == old_before


def test_a_root_that_only_the_migration_made_is_gone_after_a_rollback(whole, run, root):
    assert run("migrate", str(whole.root), "--execute").returncode == 0
    assert run("migrate", "--rollback").returncode == 0
    assert not root.exists()


def test_a_rollback_refuses_what_somebody_changed_and_names_it(whole, run, root):
    carried(whole)
    rlmnb.append(SID, {"source": "mine = 1"})
    before = snapshot(root)
    done = run("migrate", "--rollback", SID[:8])
    assert done.returncode == 1
    assert f"{SID}/session.ipynb" in done.stdout
    assert "--force" in done.stderr
    assert snapshot(root) == before


@pytest.mark.parametrize("added", ["notes.txt", "checkpoints/mine.ipynb", "a-link"])
def test_a_file_that_somebody_put_beside_it_counts_as_a_change(whole, added):
    session = carried(whole)
    path = Path(session.place.directory) / added
    path.symlink_to("/dev/null") if added == "a-link" else path.write_text("mine")
    (result,) = [each for each in rollback(SID) if each.session_id == SID]
    assert result.status == "kept"
    assert f"{SID}/{added}" in result.reason
    assert os.path.lexists(path)


def test_force_takes_back_what_was_changed_and_keeps_a_copy(whole, run, root):
    carried(whole)
    rlmnb.append(SID, {"source": "mine = 1"})
    assert run("migrate", "--rollback", SID, "--force").returncode == 0
    assert not notebook_of(SID).exists()
    with zipfile.ZipFile(root / "archive" / f"{SID}.zip") as pack:
        assert b"mine = 1" in pack.read("session/session.ipynb")
    assert run("restore", SID).returncode == 0
    assert "mine = 1" in sources(Session.open(SID))


def test_an_object_that_another_session_came_to_need_stays(whole, root):
    whole.context(tool_outputs=[output("Bash", "new " * 10_000, 6)])
    session = carried(whole)
    fork = session.fork(session_id="fork")
    rollback(SID)
    cell = next(cell for cell in fork.cells if cell.record and cell.record.output.objects)
    assert len(fork.objects.get(cell.record.output.objects[0].object)) == 40_000


def test_sessions_that_share_an_object_leave_nothing_when_both_are_gone(old, root):
    for sid in ("one-1", "two-2"):
        old.context(sid, tool_outputs=[output("Bash", "new " * 10_000, 6)])
    migrate(str(old.root), execute=True)
    rollback("one-1")
    assert (root / "objects").exists()
    rollback("two-2")
    assert not root.exists()


def test_rolling_back_what_was_never_migrated_says_so(run, whole):
    assert run("migrate", "--rollback").returncode == 2
    carried(whole)
    done = run("migrate", "--rollback", "nobody")
    assert done.returncode == 2
    assert SID in done.stderr


def test_a_session_that_was_removed_since_comes_back_only_when_asked(whole, run):
    carried(whole)
    assert run("rm", SID, "--yes").returncode == 0
    result = only(migrate(str(whole.root), execute=True))
    assert (result.status, "was removed" in result.reason) == ("skipped", True)
    assert only(migrate(str(whole.root), execute=True, force=True)).status == "updated"
    assert notebook_of(SID).exists()


def test_after_a_rollback_it_can_be_migrated_again(whole):
    ids = [cell.cell_id for cell in carried(whole).cells]
    rollback(None)
    assert [cell.cell_id for cell in carried(whole).cells] == ids


_KILLED = """
import json, os, shutil, signal, sys
from pathlib import Path
from rlmnb.checking import verify
from rlmnb.errors import SessionNotFoundError
from rlmnb.migrating.run import migrate, rollback
from rlmnb.store.layout import session_place

old, root, sid, what = sys.argv[1:]
EVENTS = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "shutil.rmtree"}

def files(where):
    found = [path for path in Path(where).rglob("*") if path.is_file()]
    return {str(path.relative_to(where)): path.read_bytes() for path in found}

def die_at(number):
    left = [number]
    def hook(event, args):
        flags = args[2] if event == "open" and isinstance(args[2], int) else 0
        if event in EVENTS or flags & (os.O_WRONLY | os.O_RDWR):
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(hook)

def act():
    migrate(old, execute=True) if what == "migrate" else rollback(None)

before = files(old)
number = killed = whole = 0
while True:
    number += 1
    shutil.rmtree(root, ignore_errors=True)
    if what == "rollback":
        migrate(old, execute=True)
    pid = os.fork()
    if not pid:
        die_at(number)
        act()
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if not os.WIFSIGNALED(status):
        break
    killed += 1
    place = session_place(sid, root)
    if os.path.lexists(place.directory):
        whole += 1
        assert verify(place).problems == (), number
    if what == "migrate":
        done = migrate(old, execute=True)
        assert {each.status for each in done.results} <= {"migrated", "unchanged"}, (number, done)
        assert verify(place).problems == (), number
        left = [name for name in os.listdir(root) if name.startswith(".migrate-")]
        assert not left, (number, left)
    try:
        assert all(each.status == "rolled back" for each in rollback(None)), number
    except SessionNotFoundError:
        assert what == "rollback"
    assert not files(root), (number, list(files(root)))
assert files(old) == before
print(json.dumps({"killed": killed, "whole": whole}))
"""


@pytest.mark.parametrize("what", ["migrate", "rollback"])
def test_killed_at_any_write_a_session_is_there_whole_or_not_at_all(old, root, what):
    old.context(tool_outputs=[output("Bash", "new " * 10_000, 6)])
    done = subprocess.run(
        [sys.executable, "-c", _KILLED, str(old.root), str(root), SID, what],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["killed"] > 10
    assert 0 < told["whole"] < told["killed"]


def test_two_migrations_at_once_make_each_session_once(old, root):
    for number in range(10):
        old.state(f"session-{number}")
        old.context(f"session-{number}")
    commands = [
        subprocess.Popen(
            [sys.executable, "-m", "rlmnb", "migrate", str(old.root), "--execute", "--json"],
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    told = [json.loads(each.communicate(timeout=120)[0]) for each in commands]
    statuses = [each["status"] for report in told for each in report["sessions"]]
    assert sorted(statuses) == ["migrated"] * 10 + ["unchanged"] * 20


# bad input

GARBAGE = {
    "empty": b"",
    "cut short": b'{"session_id": "x", "messages": [{"ro',
    "no text": bytes(range(256)),
    "deep": b"[" * 100_000,
    "deep objects": b'{"a":' * 3_000 + b"1" + b"}" * 3_000,
    "a list": b"[1, 2, 3]",
    "a number": b"7",
    "huge number": b'{"created_at": ' + b"9" * 5000 + b"}",
    "null": b"null",
    "nan": b'{"created_at": NaN, "messages": [NaN, Infinity]}',
}
PLACES = [
    f"rlm-state/{SID}.json",
    f"rlm-state/{SID}_context.json",
    "rlm-state/context.json",
    "rlm-state/session-metadata.json",
    f"rlm-state/file-access-{SID}.jsonl",
    "rlm-config.json",
    f"rlm-frames/{SID}/index.json",
    f"rlm-frames/{SID}/frames.jsonl",
    f"rlm-frames/{SID}/tools.jsonl",
    f"rlm-frames/{SID}/artifacts.json",
    f"rlm-externalized/{SID}/conversation_1771595505.json",
    f"rlm-externalized/{SID}/files_1771595505.json",
    f"rlm-externalized/{SID}/tool_outputs_1771595505.json",
    f"rlm-externalized/{SID}/manifest_1771595505.json",
    f"rlm-trajectories/20260220_{SID}_summary.json",
    "rlm-memory.db",
]


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_anywhere_is_told_of_and_keeps_nothing_else_out(whole, root, kind):
    whole.state("another-1")
    for path in PLACES:
        kept = whole.root / path
        good = kept.read_bytes() if kept.exists() else None
        whole.bytes(path, GARBAGE[kind])
        before = whole.snapshot()
        report = migrate(str(whole.root), execute=True)
        found = {each.session_id: each for each in report.sessions}
        assert found["another-1"].status in ("migrated", "partial"), (path, found)
        assert found[SID].status in ("migrated", "partial"), (path, found[SID])
        assert verify(session_place(SID)).problems == ()
        assert whole.snapshot() == before
        told = [*found[SID].problems, *report.orphans]
        told += [report.memory[0].files[0]] if report.memory[0].status == "failed" else []
        if kind in ("cut short", "no text", "deep"):
            assert path in [each["path"] for each in told], (path, found[SID])
        rollback(None)
        assert not root.exists(), (path, snapshot(root).keys())
        kept.unlink() if good is None else kept.write_bytes(good)


WRONG: list[Any] = [
    None,
    True,
    -1,
    1e308,
    "",
    "text",
    [],
    [[]],
    [None, 1, "x"],
    {},
    {"a": {"b": 1}},
]


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_a_value_of_the_wrong_type_in_any_field_breaks_nothing(old, root, wrong):
    good = frame("f1")
    for key in good:
        old.frames(frame("f0"), good | {key: wrong}, frame("f2", "f1"), sid=f"frame-{key}"[:40])
    for key in good["context_slice"]:
        odd = good | {"context_slice": good["context_slice"] | {key: wrong}}
        old.frames(odd, sid=f"slice-{key}")
    call = called("Read", "x", file_path="/x")
    for key in call:
        old.frames(call | {key: wrong}, call, sid=f"tool-{key}", name="tools.jsonl")
    state = json.loads(old.state("plain").read_text())
    for key in [*state, "ended_at", "max_depth", "by_model", "cost_usd", "activation_mode"]:
        old.state(f"state-{key}", **{key: wrong})
    for key in ("messages", "files", "tool_outputs", "working_memory", "conversation"):
        old.context(f"context-{key}", **{key: wrong})
        old.context(f"inside-{key}", **{key: [wrong, {"role": wrong, "content": wrong}]})
    for key in ("role", "content", "timestamp", "tool_name", "exit_code"):
        told = {**message("user", "hello", 1), **output("Bash", "ok", 2), key: wrong}
        old.context(f"each-{key}", messages=[told], tool_outputs=[told])
    for key in ("timestamp", "tool", "file", "pattern"):
        access = {"timestamp": "2026-02-20T13:51:10Z", "tool": "Read", "file": "/x", key: wrong}
        old.lines(f"rlm-state/file-access-access-{key}.jsonl", access)
    old.json("rlm-config.json", {"activation": wrong, "depth": {"max": wrong}})
    before = old.snapshot()
    report = migrate(str(old.root), execute=True)
    bad = [each for each in report.sessions if each.status not in ("migrated", "partial")]
    assert not bad, bad
    for each in report.sessions:
        assert verify(session_place(each.session_id)).problems == (), each.session_id
    assert old.snapshot() == before
    rollback(None)
    assert not root.exists()


def test_hostile_ids_are_refused_before_a_path_is_made_of_them(old, root, tmp_path):
    old.json("rlm-state/session-metadata.json", {"session_id": "../../evil", "cwd": "/"})
    old.state("-rf")
    old.state("current")
    old.frames(frame("f1"), sid="with space")
    old.state("x" * 129)
    old.state("good-1")
    report = migrate(str(old.root), execute=True)
    found = {each.session_id: each.status for each in report.sessions}
    assert found.pop("good-1") == "migrated"
    assert set(found.values()) == {"refused"}
    assert len(found) == 5
    assert sorted(path.name for path in root.iterdir()) == [".migrations", "good-1"]
    assert not (tmp_path / "evil").exists()


def test_links_pipes_and_directories_are_neither_followed_nor_waited_for(whole, tmp_path):
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps({"messages": [message("user", "not yours", 1)]}))
    (whole.root / "rlm-state/linked_context.json").symlink_to(secret)
    (whole.root / "rlm-frames/linked").symlink_to(tmp_path)
    os.mkfifo(whole.root / "rlm-state/pipe.json")
    os.mkfifo(whole.root / f"rlm-frames/{SID}/artifacts.json")
    (whole.root / "rlm-state/directory.json").mkdir()
    whole.text("rlm-state/abc_xyz.tmp", "{")
    report = migrate(str(whole.root), execute=True)
    left = {each["path"] for each in report.orphans}
    assert left == {
        "rlm-state/linked_context.json", "rlm-frames/linked", "rlm-state/pipe.json",
        f"rlm-frames/{SID}/artifacts.json", "rlm-state/directory.json", "rlm-state/abc_xyz.tmp",
    }  # fmt: skip
    assert only(report).status == "migrated"
    assert "not yours" not in notebook_of(SID).read_text()


def test_a_file_too_large_to_be_one_of_theirs_is_not_read(whole):
    with open(whole.root / f"rlm-frames/{SID}/index.json", "wb") as file:
        file.truncate(300 * 1024 * 1024)
    result = only(migrate(str(whole.root), execute=True))
    assert result.status == "partial"
    assert "is the most that is read" in result.problems[0]["reason"]


def test_a_link_that_leads_nowhere_is_told_of(whole):
    os.unlink(whole.root / f"projects/x/{SID}.jsonl")
    report = migrate(str(whole.root), execute=True)
    assert [each["path"] for each in report.orphans] == ["rlm-state/current-transcript.jsonl"]
    assert only(report).status == "migrated"


def test_torn_lines_are_counted_and_the_others_taken_in(whole):
    path = whole.root / f"rlm-frames/{SID}/tools.jsonl"
    path.write_bytes(path.read_bytes() + b'{"type": "tool_output", "tool_na')
    result = only(migrate(str(whole.root), execute=True))
    assert result.status == "partial"
    assert result.problems[0]["reason"] == "1 of 4 lines are not JSON objects"
    assert any("make" in source for source in sources(Session.open(SID)))


def test_a_session_of_which_nothing_can_be_read_is_not_made(old, run_json, root):
    old.text("rlm-state/broken-1.json", "{")
    old.state("good-1")
    told = run_json("migrate", str(old.root), "--execute", code=1)
    assert {each["session_id"]: each["status"] for each in told["sessions"]} == {
        "broken-1": "failed",
        "good-1": "migrated",
    }
    assert not (root / "broken-1").exists()


def test_frames_that_are_their_own_ancestors_are_cells_all_the_same(old):
    old.frames(frame("a", "c"), frame("b", "a"), frame("c", "b"), frame("d", "d", evidence=["d"]))
    session = carried(old)
    assert len(session.cells) == 4
    assert session.index["cycles_detected"] == []
    assert verify(session.place).problems == ()


def test_secrets_are_taken_out_on_the_way_in(whole, root):
    whole.state(working_memory={"key": SECRET}, odd=SECRET)
    whole.context(
        messages=[message("user", f"use {SECRET}", 1)],
        files={"/x/.env": f"KEY={SECRET}\n"},
        tool_outputs=[output("Bash", f"{SECRET}\n" * 2000, 6)],
    )
    whole.frames(frame("f1", query=f"k = '{SECRET}'", conclusion=SECRET, evidence=[SECRET]))
    whole.lines(f"rlm-frames/{SID}/tools.jsonl", called("Bash", SECRET, command=f"echo {SECRET}"))
    whole.lines(
        f"rlm-state/file-access-{SID}.jsonl",
        {"timestamp": "2026-02-20T13:51:10Z", "tool": "Grep", "pattern": SECRET},
    )
    whole.json(f"rlm-externalized/{SID}/files_1771595505.json", {"/x/.env": SECRET})
    whole.json(f"rlm-trajectories/{SID}_summary.json", {"session_id": SID, "note": SECRET})
    with sqlite3.connect(whole.root / "rlm-memory.db") as memory:
        memory.execute("INSERT INTO nodes VALUES ('n2', 'fact', ?, NULL)", (SECRET,))
    memory.close()
    session = carried(whole)
    found = [path for path, data in snapshot(root).items() if data and SECRET.encode() in data]
    assert found == []
    for each in checkpoints.all_kept(session.place):
        assert SECRET.encode() not in checkpoints.contents(session.place, each["name"])
    assert "REDACTED" in notebook_of(SID).read_text()


def test_files_that_are_to_be_ignored_leave_no_trace(whole, tmp_path, root):
    path = tmp_path / "work" / "private.txt"
    (tmp_path / "work" / ".rlmnbignore").write_text("private.txt\n")
    said = "hush hush"
    whole.context(files={str(path): said}, tool_outputs=[output("Read", said, 5)])
    whole.lines(f"rlm-frames/{SID}/tools.jsonl", called("Read", said, file_path=str(path)))
    seen = {"files": {str(path): "ab" * 8}}
    whole.frames(frame("f1", query="open()", conclusion=said, context_slice=seen, evidence=[said]))
    whole.json(f"rlm-externalized/{SID}/files_1771595505.json", {str(path): said})
    session = carried(whole)
    assert [name for name, data in snapshot(root).items() if data and said.encode() in data] == []
    for each in checkpoints.all_kept(session.place):
        assert said.encode() not in checkpoints.contents(session.place, each["name"])
    assert "# not recorded" in cell_with(session, "# not recorded").source


def test_a_manifest_that_cannot_be_read_is_named_and_nothing_is_removed(whole, run, root):
    carried(whole)
    (root / ".migrations" / f"{SID}.json").write_text("{")
    before = notebook_of(SID).read_bytes()
    done = run("migrate", "--rollback", SID)
    assert done.returncode == 3
    assert "is no manifest that can be read" in done.stderr
    assert only(migrate(str(whole.root), execute=True)).status == "failed"
    assert notebook_of(SID).read_bytes() == before


def test_a_manifest_that_leads_elsewhere_is_not_acted_on(whole, run, root, tmp_path):
    report = migrate(str(whole.root), execute=True)
    mine = tmp_path / "mine.txt"
    mine.write_text("mine")
    path = root / ".migrations" / f"{report.memory[0].session_id}.json"
    told = json.loads(path.read_text())
    for elsewhere in ("../mine.txt", str(mine), ".migrations/../../mine.txt"):
        told["files"] = {elsewhere: "sha256:" + hashlib.sha256(b"mine").hexdigest()}
        path.write_text(json.dumps(told))
        assert run("migrate", "--rollback", report.memory[0].session_id).returncode == 3
        assert mine.read_text() == "mine"


def test_a_place_for_manifests_that_leads_elsewhere_is_refused(whole, run, root, tmp_path):
    root.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (root / ".migrations").symlink_to(tmp_path / "elsewhere")
    done = run("migrate", str(whole.root), "--execute")
    assert done.returncode == 3
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_many_cells_are_no_trouble(old):
    calls = [called("Bash", f"line {n}", f"call_{n}", command=f"echo {n}") for n in range(1000)]
    old.lines(f"rlm-frames/{SID}/tools.jsonl", *calls)
    old.frames(*(frame(f"f{n}", f"f{n - 1}" if n else None) for n in range(1000)))
    session = carried(old)
    assert len(session.cells) == 2000
    assert verify(session.place).problems == ()


# and back to the old shapes


def normal(value: Any) -> Any:
    return {key: each for key, each in value.items() if key not in ("children",)}


def test_a_session_written_in_the_old_shapes_says_what_they_said(whole, tmp_path):
    session = carried(whole)
    target = tmp_path / "old-shapes"
    write(session, str(target))
    state = json.loads((target / f"rlm-state/{SID}.json").read_text())
    told = json.loads((whole.root / f"rlm-state/{SID}.json").read_text())
    for key in ("session_id", "created_at", "updated_at", "rlm_active", "current_depth",
                "total_recursive_calls", "total_tokens_used"):  # fmt: skip
        assert state[key] == told[key], key
    context = json.loads((target / f"rlm-state/{SID}_context.json").read_text())
    before = json.loads((whole.root / f"rlm-state/{SID}_context.json").read_text())
    assert context["messages"] == before["messages"]
    assert context["files"] == before["files"]
    assert context["working_memory"] == before["working_memory"]
    for each in before["tool_outputs"]:
        assert each in context["tool_outputs"]
    frames = [json.loads(line) for line in
              (target / f"rlm-frames/{SID}/frames.jsonl").read_text().splitlines()]  # fmt: skip
    lines = (whole.root / f"rlm-frames/{SID}/frames.jsonl").read_text().splitlines()
    assert [normal(each) for each in frames] == [
        normal(json.loads(lines[0])), normal(json.loads(lines[2])),
    ]  # fmt: skip
    assert frames[0]["children"] == [frames[1]["frame_id"]]
    index = json.loads((target / f"rlm-frames/{SID}/index.json").read_text())
    assert index == {"session_id": SID, "frames": frames}
    tools = (target / f"rlm-frames/{SID}/tools.jsonl").read_text().splitlines()
    assert called("Bash", "ok", "call_1", command="make") in [json.loads(line) for line in tools]
    current = json.loads((target / "rlm-frames/.current_session").read_text())
    assert (current["session_id"], set(current)) == (SID, {"session_id", "pid", "updated_at"})


def test_there_and_back_and_there_again_is_the_same_session(whole, tmp_path, monkeypatch):
    session = carried(whole)
    target = tmp_path / "old-shapes"
    write(session, str(target))
    monkeypatch.setenv("RLMNB_HOME", str(tmp_path / "second"))
    again = carried(Old(target))
    kept = [cell for cell in session.cells if not cell.source.startswith("**Summary")]

    def told(cell: Any) -> tuple[Any, ...]:
        return cell.type, cell.source, cell.status, cell.entry["created_at"] if cell.status else 0

    assert [told(cell) for cell in again.cells] == [told(cell) for cell in kept]
    assert again.working_memory == session.working_memory


def test_only_the_exporter_writes_who_is_at_work(whole, root):
    carried(whole)
    assert not list(root.rglob(".current_session"))


def test_writing_again_changes_only_what_is_new(whole, run_json, tmp_path):
    carried(whole)
    target = str(tmp_path / "old-shapes")
    first = run_json("migrate", "--dual-write", target, "--session", SID)
    assert len(first["written"]) == 9
    again = run_json("migrate", "--dual-write", target, "--session", SID)
    assert (again["written"], len(again["unchanged"])) == ([], 9)
    rlmnb.append(SID, {"source": "z = 1", "output": "1\n"})
    more = run_json("migrate", "--dual-write", target, "--session", SID)
    assert f"rlm-frames/{SID}/frames.jsonl" in more["written"]
    assert f"rlm-frames/{SID}/tools.jsonl" in more["unchanged"]


def test_what_the_old_tools_wrote_is_not_written_over(whole, run_json):
    carried(whole)
    before = whole.snapshot()
    told = run_json("migrate", "--dual-write", str(whole.root), "--session", SID)
    assert f"rlm-state/{SID}.json" in told["left"]
    after = whole.snapshot()
    assert {path: after[path] for path in before} == before


def test_old_paths_can_lead_to_what_was_written(whole, run_json, tmp_path):
    carried(whole)
    root = tmp_path / "was"
    root.mkdir()
    (root / "rlm-state").mkdir()
    (root / "rlm-state/context.json").write_text("mine")
    target = str(tmp_path / "old-shapes")
    told = run_json("migrate", "--dual-write", target, "--session", SID, "--links", str(root))
    link = root / f"rlm-state/{SID}.json"
    assert json.loads(link.read_text())["total_tokens_used"] == 1234
    assert link.is_symlink()
    assert (root / "rlm-state/current-transcript.jsonl").resolve().name == f"{SID}.jsonl"
    assert (root / "rlm-state/context.json").read_text() == "mine"
    assert "rlm-state/context.json" in told["left"]
    again = run_json("migrate", "--dual-write", target, "--session", SID, "--links", str(root))
    assert sorted(again["links"]) == sorted(told["links"])


def test_any_session_can_be_written_in_the_old_shapes(run_json, tmp_path):
    Path("auth.py").write_text("def login(): ...\n")
    session = Session.create("mine")
    first = session.append("x = 1", output="1\n")
    session.append("y = x", parent_id=first, metadata={"depth": 1})
    session.append('tools.Read(file_path="auth.py")', type="tool", output="def login(): ...\n")
    told = run_json("migrate", "--dual-write", str(tmp_path / "out"), "--session", "mine")
    assert len(told["written"]) == 9
    index = json.loads((tmp_path / "out/rlm-frames/mine/index.json").read_text())
    one, two = index["frames"]
    assert (two["parent_id"], one["children"]) == (one["frame_id"], [two["frame_id"]])
    assert len(one["frame_id"]) == 16


def test_the_options_of_one_thing_are_refused_with_another(run, tmp_path):
    assert run("migrate", "--session", "x").returncode == 2
    assert run("migrate", "--execute", "--rollback").returncode == 2
    assert run("migrate", str(tmp_path), "--rollback").returncode == 2
    assert run("migrate", "x", "--dual-write", str(tmp_path)).returncode == 2


def test_rollback_is_told_of_in_python_too(whole):
    with pytest.raises(SessionNotFoundError):
        rollback(None)
