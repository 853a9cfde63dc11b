"""Past transcripts become the sessions that hooks would have made."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rlmnb import Session, hook
from rlmnb.files import polls
from rlmnb.importing import find_transcripts, import_transcript
from rlmnb.views import text_of
from tests.conftest import assert_valid, notebook_of

NAME = "0a1b2c3d-0000-4000-8000-000000000001"


def user(content: Any, **more: Any) -> dict[str, Any]:
    message = {"role": "user", "content": content}
    at = "2026-01-02T03:04:05.678Z"
    return {"type": "user", "message": message, "cwd": "/p", "timestamp": at, "uuid": "u", **more}


def assistant(*blocks: dict[str, Any], name: str = "m1", tokens: int = 5) -> dict[str, Any]:
    usage = {"input_tokens": tokens, "output_tokens": 1}
    message = {"role": "assistant", "id": name, "model": "big", "content": list(blocks)}
    return {"type": "assistant", "message": {**message, "usage": usage}, "cwd": "/p"}


def call(name: str, tool: str, **args: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": tool, "input": args}


def result(name: str, text: str, *, error: bool = False) -> list[dict[str, Any]]:
    block = {"type": "tool_result", "tool_use_id": name, "content": text}
    return [{**block, "is_error": True} if error else block]


READ = {
    "type": "text",
    "file": {"filePath": "/p/a", "content": "x\n", "numLines": 2, "startLine": 1, "totalLines": 2},
}
RECORDS = [
    {"type": "file-history-snapshot", "snapshot": {}},
    user("read the file\nplease", uuid="u1"),
    assistant({"type": "text", "text": "I will."}, call("t1", "Read", file_path="/p/a")),
    assistant(call("t2", "Bash", command="false")),
    user(result("t1", "1\tx"), toolUseResult=READ),
    user(result("t2", "Exit code 1", error=True), toolUseResult="Error: Exit code 1"),
    {"type": "brand-new-kind", "x": 1},
    assistant({"type": "text", "text": "Done: it says x."}, name="m2"),
    user("thanks", uuid="u2"),
]


def write(path: Path, records: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)
    return path


@pytest.fixture
def transcript(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    return write(tmp_path / "claude" / "projects" / "-p" / f"{NAME}.jsonl", RECORDS)


def test_a_transcript_becomes_the_cells_that_hooks_would_have_made(transcript):
    done = import_transcript(str(transcript))
    assert (done.status, done.cells) == ("imported", 5)
    assert done.unknown == {"file-history-snapshot": 1, "brand-new-kind": 1}
    cells = list(Session.open(NAME).cells)
    assert [cell.type for cell in cells] == ["markdown", "tool", "tool", "markdown", "markdown"]
    prompt, read, bash, answer, _ = cells
    assert "> read the file" in prompt.source
    assert read.source == "tools.Read(file_path='/p/a')"
    assert text_of(read.outputs) == "x\n\n"
    assert read.record.files_read["/p/a"].hash.startswith("sha256:")
    assert read.record.trace.goal == "read the file"
    assert read.entry["created_at"] == "2026-01-02T03:04:05.678Z"
    assert (bash.status, bash.outputs[0]["evalue"]) == ("failed", "Exit code 1")
    assert answer.source == "Done: it says x."
    assert Session.open(NAME).state.budget.total_tokens_used == 12
    assert_valid(notebook_of(NAME))


def test_importing_again_adds_only_what_is_new(transcript):
    import_transcript(str(transcript))
    before = notebook_of(NAME).read_bytes()
    assert import_transcript(str(transcript)).status == "unchanged"
    assert notebook_of(NAME).read_bytes() == before
    write(transcript, [assistant(call("t3", "Glob", pattern="*")), user(result("t3", "a.py"))])
    done = import_transcript(str(transcript))
    assert done.cells == 1
    assert Session.open(NAME).cells[-1].source == "tools.Glob(pattern='*')"


def test_sub_agents_are_taken_in_too(transcript):
    inner = transcript.with_suffix("") / "subagents" / "agent-a1.jsonl"
    records = [user("go"), assistant(call("s1", "Read", file_path="/p/b"), name="s"),
               user(result("s1", "y"))]  # fmt: skip
    write(inner, records)
    import_transcript(str(transcript))
    last = Session.open(NAME).cells[-1]
    assert last.source == "tools.Read(file_path='/p/b')"
    assert Session.open(NAME).state.budget.by_model["big"].subagent_tokens == 6


GO = {"prompt": "look", "subagent_type": "x"}
WORK = [
    user("look", isSidechain=True),
    assistant(call("s1", "Read", file_path="/p/b"), name="s"),
    user(result("s1", "y")),
    assistant({"type": "text", "text": "It says y."}, name="s2"),
]


@pytest.mark.parametrize("how", ["meta", "answer", "async", "inline"])
def test_a_sub_agent_stands_below_its_call_whose_result_builds_on_it(how, transcript):
    inner = transcript.with_suffix("") / "subagents" / "agent-a1.jsonl"
    answer: dict[str, Any] = {"content": [{"type": "text", "text": "It says y."}]}
    if how != "meta":
        answer["agentId"] = "a1"
    if how == "async":
        answer = {"agentId": "a1", "status": "async_launched"}
    asked, answered = assistant(call("t5", "Agent", **GO)), user(result("t5", "It says y."))
    if how == "inline":  # as older versions wrote it
        del answer["agentId"]
        inside = [{**record, "isSidechain": True} for record in WORK]
        write(transcript, [asked, *inside, {**answered, "toolUseResult": answer}])
    else:
        write(inner, WORK)
        write(transcript, [asked, {**answered, "toolUseResult": answer}])
    if how == "meta":
        inner.with_suffix(".meta.json").write_text('{"toolUseId": "t5"}')
    write(transcript, [assistant({"type": "text", "text": "All done."}, name="m9")])
    assert import_transcript(str(transcript)).status == "imported"
    agent, read, last = list(Session.open(NAME).cells)[-3:]
    assert agent.source == "tools.Agent(prompt='look', subagent_type='x')"
    assert agent.record.status == "completed"
    assert "It says y." in text_of(agent.outputs)
    assert agent.record.evidence == [read.cell_id]
    assert read.source == "tools.Read(file_path='/p/b')"
    assert read.record.parent_id == agent.cell_id
    assert last.source == "All done."
    before = notebook_of(NAME).read_bytes()
    assert import_transcript(str(transcript)).status == "unchanged"
    assert notebook_of(NAME).read_bytes() == before
    assert_valid(notebook_of(NAME))


def test_a_result_that_is_a_picture_is_one(transcript):
    source = {"type": "base64", "media_type": "image/png", "data": "AA=="}
    block = {"type": "tool_result", "tool_use_id": "t7"}
    picture = {**block, "content": [{"type": "image", "source": source}]}
    write(transcript, [assistant(call("t7", "Look")), user([picture])])
    import_transcript(str(transcript))
    assert Session.open(NAME).cells[-1].outputs[0]["data"] == {"image/png": "AA=="}


def test_lines_of_a_file_have_no_numbers(transcript):
    texts = {"n1": "     1→x\n     2→\ty\n     3→", "n2": "1\tx\n2\ty", "n3": "not\tnumbered"}
    for name, text in texts.items():
        write(transcript, [assistant(call(name, "Read", file_path="/f")), user(result(name, text))])
    import_transcript(str(transcript))
    shown = [text_of(cell.outputs) for cell in list(Session.open(NAME).cells)[-3:]]
    assert shown == ["x\n\ty\n\n", "x\ny\n", "not\tnumbered\n"]


def test_what_the_client_notes_of_an_interruption_is_no_prompt(transcript):
    write(transcript, [user([{"type": "text", "text": "[Request interrupted by user]"}])])
    assert import_transcript(str(transcript)).cells == 5


def test_a_session_that_hooks_recorded_is_left_alone(transcript, monkeypatch):
    import io

    given = {"hook_event_name": "UserPromptSubmit", "session_id": NAME, "prompt": "live"}
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(given).encode())))
    hook.main([])
    done = import_transcript(str(transcript))
    assert (done.status, done.reason) == ("skipped", "hooks have recorded this session")
    assert len(Session.open(NAME).cells) == 1


def test_the_command_finds_them_all(transcript, run, run_json):
    assert find_transcripts() == [str(transcript)]
    (told,) = run_json("import", "claude", "--all")
    assert (told["session_id"], told["cells"]) == (NAME, 5)
    assert run("import", "claude").returncode == 2
    missing = run_json("import", "claude", "/nowhere/x.jsonl", code=1)
    assert missing[0]["status"] == "failed"


def test_what_is_no_transcript_is_passed_over(tmp_path):
    path = tmp_path / f"{NAME}.jsonl"
    path.write_bytes(b"not json\n\xff\xfe\n" + b'{"type": "user", "message": 5}\n' + b"[1]\n{}\n")
    done = import_transcript(str(path))
    assert (done.status, done.cells) == ("empty", 0)
    assert done.skipped_lines == 3


def long_session(path: Path, megabytes: int) -> Path:
    """Write a transcript of many turns, each with calls that printed a lot."""
    printed = "".join(f"line {n} of what a command has printed\n" for n in range(300))
    turn = 0
    with path.open("w", encoding="utf-8") as file:
        while file.tell() < megabytes * 1024 * 1024:
            turn += 1
            records = [user(f"do {turn}", uuid=f"u{turn}")]
            for n in range(10):
                name = f"t{turn}-{n}"
                said = {"type": "text", "text": "Now this."}
                records.append(assistant(said, call(name, "Bash", command=name), name=name))
                records.append(user(result(name, printed), toolUseResult={"stdout": printed}))
            records.append(assistant({"type": "text", "text": "Done."}, name=f"end{turn}"))
            file.writelines(json.dumps(record) + "\n" for record in records)
    return path


IMPORT = """
import resource, sys
from rlmnb.importing import import_transcript
done = import_transcript(sys.argv[1])
print(done.cells, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def imported(path: Path) -> tuple[int, int]:
    """Import in a process of its own; return how many cells came of it and its peak of memory."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORT, str(path)], capture_output=True, text=True, check=True
    )
    cells, peak = done.stdout.split()
    return int(cells), int(peak)


def test_a_transcript_four_times_as_long_takes_no_more_memory(tmp_path):
    small, few = imported(long_session(tmp_path / "small.jsonl", 5))
    large, many = imported(long_session(tmp_path / "large.jsonl", 20))
    assert large > 3.5 * small
    assert many < 1.2 * few


def test_an_import_that_is_killed_goes_on_where_it_was(tmp_path):
    path = long_session(tmp_path / "cut.jsonl", 4)
    process = subprocess.Popen([sys.executable, "-c", IMPORT, str(path)])
    journal = notebook_of("cut").with_name("journal.jsonl")
    for _ in polls(60):
        if journal.exists() and journal.read_bytes().count(b"\n") > 60:
            break
    process.kill()
    process.wait()
    assert import_transcript(str(path)).status == "imported"
    assert import_transcript(str(path)).status == "unchanged"
    lines = path.read_text().splitlines()
    wanted = [name for line in lines for name in [json.loads(line)] if name["type"] == "user"]
    calls = [r["message"]["content"][0]["tool_use_id"] for r in wanted if "toolUseResult" in r]
    session = Session.open("cut")
    found = [cell.record.tool_use_id for cell in session.cells if cell.record is not None]
    assert found == calls
    texts = [cell.source for cell in session.cells if cell.type == "markdown"]
    assert texts == [text for n in range(1, len(texts) // 2 + 1) for text in (f"> do {n}", "Done.")]
    assert session.cells[1].record.trace.rationale == "Now this."
    assert_valid(notebook_of("cut"))


def test_what_nobody_knows_yet_is_kept(transcript):
    done = import_transcript(str(transcript))
    session = Session.open(done.session_id)
    ((name, kinds),) = session.stored_state()["session"]["unknown_records"].items()
    assert kinds == {"file-history-snapshot": 1, "brand-new-kind": 1}
    text = session.objects.get(name).decode()
    assert {json.loads(line)["type"] for line in text.splitlines()} == set(kinds)


def test_all_that_nobody_knows_yet_is_kept_however_much_it_is(transcript):
    strange = [{"type": "progress", "n": n, "text": "x" * 100_000} for n in range(100)]
    write(transcript, [*strange, user("and now?", uuid="u3")])
    import_transcript(str(transcript))
    session = Session.open(NAME)
    kept = session.stored_state()["session"]["unknown_records"]
    lines = [line for name in kept for line in session.objects.get(name).decode().splitlines()]
    numbers = [record["n"] for record in map(json.loads, lines) if record["type"] == "progress"]
    assert sorted(numbers) == list(range(100))
    assert sum(kinds.get("progress", 0) for kinds in kept.values()) == 100


def test_what_is_typed_while_the_agent_works_is_a_prompt_of_the_same_turn(transcript):
    typed = {"type": "queued_command", "prompt": "and the other", "commandMode": "prompt"}
    noted = {"type": "queued_command", "prompt": "<x>", "commandMode": "task-notification"}
    write(
        transcript,
        [
            assistant(call("q1", "Glob", pattern="*")),
            {"type": "attachment", "uuid": "u8", "attachment": typed},
            {"type": "attachment", "uuid": "u9", "attachment": noted},
            user(result("q1", "a.py")),
        ],
    )
    import_transcript(str(transcript))
    assert [cell.source for cell in Session.open(NAME).cells][-2:] == [
        "> and the other",
        "tools.Glob(pattern='*')",
    ]
    assert import_transcript(str(transcript)).status == "unchanged"


def test_a_turn_that_the_client_began_by_itself_is_a_turn(transcript):
    write(
        transcript,
        [
            assistant({"type": "text", "text": "I wait."}, name="m8"),
            user("look again", uuid="u8", isMeta=True, promptSource="system"),
            assistant({"type": "text", "text": "Still the same."}, name="m9"),
            user("a remark of the client's", uuid="u9", isMeta=True),
        ],
    )
    import_transcript(str(transcript))
    sources = [cell.source for cell in Session.open(NAME).cells]
    assert sources[-3:] == ["I wait.", "> look again", "Still the same."]


def test_files_that_a_sub_agent_read_whole_are_known_and_so_is_its_kind(transcript):
    inner = transcript.with_suffix("") / "subagents" / "agent-a1.jsonl"
    args = {"file_path": "/p/b"}
    write(
        inner,
        [
            user("go"),
            assistant(call("s1", "Read", **args), call("s2", "Read", **args, offset=1), name="s"),
            user(result("s1", "1\ty\n2\t")),
            user(result("s2", "1\ty\n2\t")),
        ],
    )
    told = {"toolUseId": "t1", "agentType": "looker"}
    inner.with_suffix(".meta.json").write_text(json.dumps(told))
    import_transcript(str(transcript))
    whole, part = (cell for cell in Session.open(NAME).cells if "/p/b" in cell.source)
    assert list(whole.record.files_read) == ["/p/b"]
    assert whole.record.files_read["/p/b"].size_bytes == 2
    assert text_of(whole.outputs).startswith("y\n")
    assert not part.record.files_read
    assert whole.record.metadata.model_dump()["agent_type"] == "looker"


def test_a_picture_that_was_read_whole_is_known_by_its_bytes(transcript):
    for name, size in (("p1", 4), ("p2", 5)):
        file = {"base64": "iVBORw==", "type": "image/png", "originalSize": size}
        answer = {"type": "image", "file": file}
        write(transcript, [assistant(call(name, "Read", file_path=f"/p/{name}.png"))])
        write(transcript, [user(result(name, ""), toolUseResult=answer)])
    import_transcript(str(transcript))
    whole, smaller = list(Session.open(NAME).cells)[-2:]
    assert whole.record.files_read["/p/p1.png"].size_bytes == 4
    assert not smaller.record.files_read
