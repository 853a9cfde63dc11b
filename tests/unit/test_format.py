from __future__ import annotations

import copy
import itertools
import json

import jsonschema
import pytest
from pydantic import ValidationError

import rlmnb
from rlmnb import Session
from rlmnb.errors import SchemaError, StatusError
from rlmnb.format import cells, legacy, migrations, schema, state, status
from rlmnb.format.record import CellRecord
from rlmnb.format.session import SessionState
from rlmnb.format.version import SCHEMA
from rlmnb.store import fold
from tests.conftest import append_many, notebook_of, read, save_like_lab

HASH = "sha256:" + "0" * 64
FULL = {
    "type": "llm_call",
    "operation": "query",
    "origin": "agent",
    "args": {"prompt": "hi"},
    "context_snapshot": {
        "files": {"/a.py": {"hash": HASH, "size_bytes": 3, "range": [1, 2]}},
        "conversation_slice": {"uuids": ["u1"], "text_hash": HASH},
        "memory_query": {"query": "q", "ids": ["m1"]},
        "memory_refs": ["m1"],
        "tool_outputs": {"Read": HASH},
        "token_budget": 8000,
    },
    "result": {"answer": 42},
    "execution_time_ms": 12.5,
    "cached_response": {"key": HASH, "response": "hello"},
    "reads": ["x"],
    "writes": ["y"],
    "files_read": {"/a.py": {"hash": "missing", "size_bytes": None, "mtime_ns": None}},
    "files_written": {"/b.py": {"hash": HASH, "before": "missing"}},
    "listed": {"/w": ["a.py", "b.py"], "/w/many": HASH},
    "calls": [
        {
            "key": HASH,
            "parts": {"model": HASH, "messages": HASH},
            "model": "m",
            "request": {"prompt": "p", "system": "s", "parameters": {"temperature": 0}},
            "answered_by": "m-2026",
            "response": "r",
            "usage": {"input": 3, "output": 4, "cache_read": None, "cache_write": None},
            "cost_usd": None,
            "duration_ms": 12.5,
            "attempts": [{"at": "2026-01-01T00:00:00Z", "error": "busy", "waited_ms": 500}],
            "from_cache": False,
            "current": True,
            "at": "2026-01-01T00:00:01Z",
            "depth": 1,
            "role": "map",
            "item": 0,
            "of": 2,
        }
    ],
    "verification": {"of": "cell_aaaaaaaa", "holds": True, "confidence": 0.9, "reason": "r"},
    "trace": {"goal": "g", "decision": "d", "rationale": "r"},
    "metadata": {"depth": 1, "model": "m", "tokens_used": 7, "temperature": 0},
    "tool_use_id": "toolu_1",
    "cwd": "/w/below",
    "commit": {"head": "9fceb02d0ae598e95dc970b74767f19372d61af8", "branch": "main"},
    "parent_id": "cell_aaaaaaaa",
    "branched_from": "cell_bbbbbbbb",
    "evidence": ["cell_aaaaaaaa"],
    "confidence": 0.5,
    "invalidation_condition": {"kind": "file_changed", "path": "/a.py", "hash": HASH},
    "escalation_reason": ["too deep"],
}


def test_what_the_light_maker_writes_is_what_the_model_defines():
    written = cells.code_cell("x = 1", **FULL)["metadata"]["rlmnb"]
    record = CellRecord.model_validate(written)
    assert record.model_extra == {}
    assert json.loads(record.model_dump_json(exclude_unset=True)) == written
    call = record.calls[0]
    for part in (record.input, record.output, record.trace, record.metadata, call, call.request):
        assert part.model_extra == {}


def test_every_field_of_a_record_can_be_given():
    given = set(FULL) | {"status", "created_at", "completed_at", "dependencies", "error"}
    assert given == set(cells.FIELDS)


def test_a_new_state_is_what_the_model_defines():
    made = state.new_state("demo", cwd="/w", title="t", tags=["a"])
    checked = SessionState.model_validate(made)
    assert checked.session.title == "t"
    assert checked.activation.max_depth == 2
    assert checked.budget.max_recursive_calls == 10
    assert all(part.model_extra == {} for part in (checked, checked.session, checked.budget))


@pytest.mark.parametrize(
    "change",
    [
        {"session": None},
        {"activation": {"activation_mode": "sometimes"}},
        {"activation": {"max_depth": 4}},
        {"activation": {"max_depth": 0}},
        {"session": {"id": "../x"}},
        {"session": {"created_at": "2026-11-16T00:00:00"}},
        {"budget": {"cost_usd": -1}},
        {"lifecycle": {"phase": "dancing"}},
    ],
)
def test_a_state_that_breaks_the_schema_is_refused(change):
    made = state.new_state("demo")
    for key, value in change.items():
        made[key] = {**made[key], **value} if value is not None else None
    with pytest.raises(ValidationError):
        SessionState.model_validate(made)


@pytest.mark.parametrize(
    "change",
    [
        {"type": "dream"},
        {"status": "maybe"},
        {"confidence": 2},
        {"source_hash": "abc"},
        {"created_at": "yesterday"},
        {"dependencies": [{"cell_id": "a b"}]},
        {"invalidation_condition": {"kind": "mood"}},
    ],
)
def test_a_record_that_breaks_the_schema_is_refused(change):
    record = cells.code_cell("x")["metadata"]["rlmnb"] | change
    with pytest.raises(ValidationError):
        CellRecord.model_validate(record)


def test_the_published_schema_is_the_generated_one():
    assert schema.PUBLISHED.read_text(encoding="utf-8") == schema.text()


def test_a_session_notebook_keeps_the_published_schema(run):
    append_many("demo", 2)
    rlmnb.append("demo", {"source": "x", **FULL})
    printed = json.loads(run("schema").stdout)
    jsonschema.validate(read("demo"), printed)
    broken = read("demo")
    broken["cells"][0]["metadata"]["rlmnb"]["type"] = "dream"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, printed)


def test_unknown_keys_survive_a_read_and_a_write():
    append_many("demo", 1)
    notebook = read("demo")
    notebook["metadata"]["other_tool"] = {"mine": 1}
    notebook["metadata"]["rlmnb"]["from_the_future"] = {"a": [1]}
    notebook["metadata"]["rlmnb"]["session"]["mood"] = "good"
    notebook["cells"][0]["metadata"]["tags"] = ["keep"]
    notebook["cells"][0]["metadata"]["rlmnb"]["also_new"] = True
    save_like_lab(notebook_of("demo"), notebook)
    session = Session.open("demo")
    session.state.session.title = "new title"
    session.state.context.working_memory["x"] = 1
    session.save()
    rlmnb.append("demo", {"source": "y"})
    after = read("demo")
    assert after["metadata"]["other_tool"] == {"mine": 1}
    assert after["metadata"]["rlmnb"]["from_the_future"] == {"a": [1]}
    assert after["metadata"]["rlmnb"]["session"]["mood"] == "good"
    assert after["metadata"]["rlmnb"]["session"]["title"] == "new title"
    assert after["metadata"]["rlmnb"]["context"]["working_memory"] == {"x": 1}
    assert after["cells"][0] == notebook["cells"][0]


def test_an_old_record_is_migrated_when_it_is_read():
    append_many("demo", 2)
    notebook = read("demo")
    second = notebook["cells"][1]["metadata"]["rlmnb"]
    del second["schema_version"]
    second["dependencies"] = [notebook["cells"][0]["id"]]
    second["source_hash"] = second["source_hash"].removeprefix("sha256:")
    save_like_lab(notebook_of("demo"), notebook)
    session = Session.open("demo")
    assert session.cells[1].dependencies == (notebook["cells"][0]["id"],)
    assert not session.cells[1].stale
    assert session.cells[1].record is not None
    assert session.cells[1].record.schema_version == SCHEMA


def test_migrations_have_a_name_and_a_number_each_in_order():
    numbers = [name[:3] for name, _ in migrations.STEPS]
    assert numbers == [f"{number:03d}" for number in range(1, SCHEMA + 1)]


def test_a_newer_state_is_refused_with_the_version_that_can_read_it(run):
    append_many("demo", 1)
    notebook = read("demo")
    notebook["metadata"]["rlmnb"]["schema_version"] = SCHEMA + 1
    notebook["metadata"]["rlmnb"]["session"]["version"] = "9.9.9"
    save_like_lab(notebook_of("demo"), notebook)
    with pytest.raises(SchemaError, match=r"rlmnb 9\.9\.9 can read it") as caught:
        Session.open("demo").state  # noqa: B018
    assert "rlmnb>=9.9.9" in str(caught.value.hint)
    for command in ("show", "cells", "graph", "files"):
        refused = run(command, "demo")
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "rlmnb 9.9.9 can read it" in refused.stderr
    # An append keeps the cell without touching a notebook it does not understand.
    before = notebook_of("demo").read_bytes()
    late = run("append", "demo", "--source", "x")
    assert late.returncode == 0
    assert "rlmnb 9.9.9 can read it" in late.stderr
    assert notebook_of("demo").read_bytes() == before


LEGAL = {
    (None, "running"),
    ("running", "completed"),
    ("running", "suspended"),
    ("running", "failed"),
    ("suspended", "running"),
    ("completed", "invalidated"),
    ("completed", "promoted"),
    ("invalidated", "running"),
    ("failed", "running"),
}


@pytest.mark.parametrize("pair", list(itertools.product([None, *cells.STATUSES], cells.STATUSES)))
def test_the_status_machine_takes_legal_moves_and_refuses_all_others(pair):
    old, new = pair
    if pair in LEGAL:
        assert status.move(old, new) == new
    else:
        with pytest.raises(StatusError, match=f"cannot become {new}"):
            status.move(old, new)


def test_legacy_types_have_the_field_names_importers_know():
    context = legacy.SessionContext.model_validate(
        {
            "messages": [{"role": "user", "content": "hi"}],
            "files": {"a.py": "x"},
            "tool_outputs": [{"tool_name": "Bash", "content": "ok", "exit_code": 0}],
            "working_memory": {"k": 1},
        }
    )
    assert context.tool_outputs[0].exit_code == 0
    assert legacy.ExecutionResult(success=True, output=3).execution_time_ms == 0


def test_a_merge_patch_takes_one_state_to_the_other():
    old = {"a": 1, "b": {"c": 2, "d": 3}, "e": [1]}
    new = {"a": 1, "b": {"c": 5}, "f": {"g": 1}}
    change = {"op": "state", **state.difference(copy.deepcopy(old), new)}
    assert fold.changed(old, change) == new
