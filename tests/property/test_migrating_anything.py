"""Whatever JSON stands in the files of an earlier tool, migrating it ends well."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from rlmnb.checking import verify
from rlmnb.migrating.run import migrate, rollback
from rlmnb.store.layout import session_place

SID = "039f5c9f-e804"
FILES = [
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
    f"rlm-externalized/{SID}/conversation_1.json",
    f"rlm-externalized/{SID}/files_1.json",
    f"rlm-externalized/{SID}/tool_outputs_1.json",
    f"rlm-externalized/{SID}/manifest_1.json",
    f"rlm-trajectories/{SID}_summary.json",
]
# The names that mean something, so that what stands under them is looked at.
names = st.sampled_from(
    [
        "session_id",
        "messages",
        "conversation",
        "files",
        "file_cache",
        "tool_outputs",
        "working_memory",
        "role",
        "content",
        "timestamp",
        "tool_name",
        "tool",
        "exit_code",
        "file",
        "pattern",
        "frames",
        "frame_id",
        "parent_id",
        "query",
        "context_slice",
        "evidence",
        "confidence",
        "status",
        "created_at",
        "completed_at",
        "depth",
        "branched_from",
        "escalation_reason",
        "invalidation_condition",
        "memory_refs",
        "token_budget",
        "conclusion",
        "type",
        "tool_input",
        "tool_output",
        "tool_use_id",
        "file_path",
        "activation",
        "mode",
        "max",
        "cost_controls",
        "by_model",
        "calls",
        "duration_info",
    ]
)
texts = st.sampled_from(
    ["user", "Read", "Bash", "tool_output", "/etc/hosts", "completed", "f1", "f2", SID, "{}", "x=1",
     "2026-02-20T13:51:05", "\ud800", "\0", "", "..", "../x", "```", "{\"file\": 1}"]
)  # fmt: skip
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts | st.text(max_size=5)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(names | st.text(max_size=3), inner, max_size=5)
    ),
    max_leaves=20,
)


@settings(max_examples=60)
@given(
    st.dictionaries(st.sampled_from(FILES), st.lists(values, min_size=1, max_size=4), min_size=1)
)
def test_any_json_anywhere_is_migrated_or_told_of_and_taken_back(tmp_path: Path, told) -> None:
    old, root = tmp_path / "old", tmp_path / "new"
    shutil.rmtree(old, ignore_errors=True)
    for path, found in told.items():
        whole = old / path
        whole.parent.mkdir(parents=True, exist_ok=True)
        lines = "\n".join(json.dumps(each) for each in found)
        whole.write_text(lines if path.endswith("l") else json.dumps(found[0]))
    before = {path: path.read_bytes() for path in old.rglob("*") if path.is_file()}
    report = migrate(str(old), execute=True, root=str(root))
    for each in report.sessions:
        assert each.status in ("migrated", "partial", "refused", "failed"), each
        if each.status in ("migrated", "partial"):
            place = session_place(each.session_id, str(root))
            assert verify(place).problems == (), told
        elif each.status == "failed":
            assert each.reason == "nothing of it could be read", each
    again = migrate(str(old), execute=True, root=str(root))
    assert {each.status for each in again.sessions} <= {"unchanged", "refused", "failed"}
    if any(each.status in ("migrated", "partial") for each in report.sessions):
        rollback(None, root=str(root))
    assert not root.exists()
    assert {path: path.read_bytes() for path in old.rglob("*") if path.is_file()} == before
