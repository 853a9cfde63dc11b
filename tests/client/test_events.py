"""Which events the real client sends to hooks, in which order, with which fields."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rlmnb.testing.messages_api import Call, Failure, Reply, Request, Turn, routed
from tests.client.recording import Recorded, record
from tests.client.running import home_of
from tests.client.scenario import (
    FAILED,
    PARALLEL,
    REFUSED,
    ask_helper,
    helper_script,
    tool_turns,
    two_helpers_script,
)

pytestmark = pytest.mark.client

ALWAYS = {"session_id", "transcript_path", "cwd", "hook_event_name"}
TURN = {"prompt_id", "permission_mode"}
CALL = TURN | {"tool_name", "tool_input", "tool_use_id"}
FIELDS = {
    "SessionStart": {"source"},
    "SessionEnd": {"reason"},
    "UserPromptSubmit": TURN | {"prompt"},
    "MessageDisplay": {"prompt_id", "turn_id", "message_id", "index", "final", "delta"},
    "PreToolUse": CALL,
    "PermissionRequest": TURN | {"tool_name", "tool_input"},
    "PostToolUse": CALL | {"tool_response", "duration_ms"},
    "PostToolUseFailure": CALL | {"error", "is_interrupt", "duration_ms"},
    "PostToolBatch": TURN | {"tool_calls"},
    "Stop": TURN | {"stop_hook_active", "last_assistant_message", "background_tasks"},
    "StopFailure": {"prompt_id", "error", "last_assistant_message"},
    "SubagentStart": {"prompt_id", "agent_id", "agent_type"},
    "SubagentStop": TURN
    | {"agent_id", "agent_type", "agent_transcript_path", "last_assistant_message"},
    "PreCompact": {"prompt_id", "trigger", "custom_instructions"},
    "PostCompact": {"prompt_id", "trigger", "compact_summary"},
}
# What the client shows is not what it does; when it shows it is its own affair.
SHOWN = "MessageDisplay"


def assert_fields(recorded: Recorded) -> None:
    """Each event has what its readers take for granted; what else it has may change."""
    for event in recorded.events:
        assert ALWAYS | FIELDS[event.name] <= set(event.payload), event
        assert event.payload["session_id"] == event.environment_session, event


def response(recorded: Recorded, tool_use_id: str) -> Any:
    posts = recorded.named("PostToolUse")
    return next(event.payload["tool_response"] for event in posts if event.tool == tool_use_id)


def told(recorded: Recorded, tool_use_id: str) -> Any:
    """What the batch says that the model was told."""
    batches = [event.payload["tool_calls"] for event in recorded.named("PostToolBatch")]
    calls = [call for batch in batches for call in batch]
    return next(call["tool_response"] for call in calls if call["tool_use_id"] == tool_use_id)


def test_the_scenario_runs_to_its_end(tools: Recorded) -> None:
    assert (tools.run.code, tools.run.answer) == (0, "All done."), tools.run.stderr


def test_each_event_has_its_fields_and_the_session_in_its_environment(tools: Recorded) -> None:
    assert_fields(tools)


def test_a_session_begins_with_its_start_and_ends_with_its_end(tools: Recorded) -> None:
    order = tools.order(SHOWN)
    assert order[:2] == ["SessionStart", "UserPromptSubmit"]
    assert order[-2:] == ["Stop", "SessionEnd"]
    assert tools.only("SessionStart")["source"] == "startup"
    assert tools.only("UserPromptSubmit")["prompt"] == "use them"
    assert tools.only("Stop")["last_assistant_message"] == "All done."


def test_all_events_are_of_the_session_and_name_its_transcript(tools: Recorded) -> None:
    run = tools.run
    named = {(e.payload["session_id"], e.payload["transcript_path"]) for e in tools.events}
    assert named == {(run.session_id, str(run.transcript))}


def test_a_call_that_works_has_one_event_before_and_one_after(tools: Recorded) -> None:
    ids = [call.id for turn in tool_turns(Path()) for call in turn]
    for call in set(ids) - FAILED - REFUSED:
        assert tools.of_call(call) == ["PreToolUse", "PostToolUse"], call


def test_a_call_that_fails_has_a_failure_with_its_text(tools: Recorded) -> None:
    for call in FAILED:
        assert tools.of_call(call) == ["PreToolUse", "PostToolUseFailure"], call
    errors = {event.tool: event.payload["error"] for event in tools.named("PostToolUseFailure")}
    assert errors["toolu_exit"] == "Exit code 3\nout\nerr"
    assert errors["toolu_missing"].startswith("File does not exist")


@pytest.mark.parametrize(
    ("call", "words"),
    [("toolu_denied", "has been denied"), ("toolu_outside", "haven't granted it yet")],
)
def test_a_call_without_permission_has_an_event_before_and_none_after(
    tools: Recorded, call: str, words: str
) -> None:
    assert tools.of_call(call) == ["PreToolUse"]
    assert words in told(tools, call)


@pytest.mark.parametrize(
    ("call", "words"),
    [("toolu_unknown", "No such tool available"), ("toolu_invalid", "InputValidationError")],
)
def test_a_call_that_reaches_no_tool_is_only_in_its_batch(
    tools: Recorded, call: str, words: str
) -> None:
    assert tools.of_call(call) == []
    assert words in told(tools, call)


def test_every_call_is_in_exactly_one_batch_in_the_order_of_the_model(tools: Recorded) -> None:
    assert tools.batches() == [[call.id for call in turn] for turn in tool_turns(Path())]


def test_a_batch_comes_after_the_events_of_all_its_calls(tools: Recorded) -> None:
    place = {(e.name, e.payload.get("tool_use_id")): n for n, e in enumerate(tools.events)}
    batch = tools.batches().index(PARALLEL)
    position = tools.events.index(tools.named("PostToolBatch")[batch])
    assert all(place["PostToolUse", call] < position for call in PARALLEL)


def test_parallel_calls_end_in_the_order_in_which_they_are_done(tools: Recorded) -> None:
    ended = [e.tool for e in tools.named("PostToolUse") if e.tool in PARALLEL]
    assert sorted(ended) == sorted(PARALLEL)
    assert ended[-1] == "toolu_batch_bash"


def test_answers_have_the_shapes_that_cells_are_made_of(tools: Recorded) -> None:
    assert response(tools, "toolu_read")["file"]["content"] == "alpha beta\n"
    assert response(tools, "toolu_write")["type"] == "create"
    assert response(tools, "toolu_edit")["originalFile"] == "one\ntwo\n"
    assert response(tools, "toolu_bash")["stdout"] == "printed"
    found = response(tools, "toolu_glob")["filenames"]
    assert sorted(found) == ["data.txt", "new.txt", "other.txt"]
    assert response(tools, "toolu_grep")["content"] == "data.txt:1:alpha beta"
    assert response(tools, "toolu_open")["type"] == "notebook"
    assert response(tools, "toolu_notebook")["new_source"] == "print(2)"


def test_a_batch_holds_the_very_text_that_the_model_was_told(tools: Recorded) -> None:
    sent = tools.run.results()
    for call in ("toolu_read", "toolu_bash", "toolu_exit", "toolu_denied", "toolu_unknown"):
        assert told(tools, call) == sent[call]["content"], call


def test_a_file_read_again_may_come_without_its_content(project: Path) -> None:
    read = Call("Read", {"file_path": str(project / "data.txt")})
    recorded = record([read, read, "Done."], "read twice", project)
    first, second = (event.payload["tool_response"] for event in recorded.named("PostToolUse"))
    assert first["type"] == "text"
    # Version 2.1.197 spares itself the content, 2.1.325 does not.
    assert second["type"] in {"text", "file_unchanged"}
    assert ("content" in second["file"]) is (second["type"] == "text")


def test_a_long_output_is_cut_and_kept_in_a_file(project: Path) -> None:
    count = Call("Bash", {"command": "seq 1 20000", "description": "count"}, id="toolu_count")
    recorded = record([count, "Done."], "count", project, flags=["--allowedTools=Bash"])
    answer = response(recorded, "toolu_count")
    assert len(answer["stdout"]) == 30_000
    assert Path(answer["persistedOutputPath"]).read_text().split()[-1] == "20000"


def test_the_calls_of_a_sub_agent_carry_its_id_within_the_same_session(project: Path) -> None:
    recorded = record(helper_script(project), "delegate", project)
    assert_fields(recorded)
    assert recorded.order(SHOWN) == [
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "SubagentStart",
        "PreToolUse",
        "PostToolUse",
        "PostToolBatch",
        "SubagentStop",
        "PostToolUse",
        "PostToolBatch",
        "Stop",
        "SessionEnd",
    ]
    helper = recorded.only("SubagentStart")["agent_id"]
    calls = recorded.named("PreToolUse", "PostToolUse")
    assert {(e.tool, e.agent) for e in calls} == {
        ("toolu_agent", None),
        ("toolu_helper_read", helper),
    }
    assert response(recorded, "toolu_agent")["agentId"] == helper
    stopped = recorded.only("SubagentStop")
    assert (stopped["agent_id"], stopped["last_assistant_message"]) == (helper, "It says alpha.")
    assert Path(stopped["agent_transcript_path"]).exists()


def test_a_file_beside_its_transcript_tells_which_call_began_a_sub_agent(project: Path) -> None:
    recorded = record(two_helpers_script(project), "delegate", project)
    agents = {event.tool: event.agent for event in recorded.named("PreToolUse") if event.agent}
    began = {}
    for agent in agents.values():
        place = Path(recorded.only("Stop")["transcript_path"]).with_suffix("") / "subagents"
        began[agent] = json.loads((place / f"agent-{agent}.meta.json").read_text())["toolUseId"]
    assert {call: began[agent] for call, agent in agents.items()} == {
        "toolu_first_read": "toolu_first",
        "toolu_second_read": "toolu_second",
    }


def test_a_sub_agent_in_the_background_outlives_the_turn_and_reports_as_a_prompt(
    project: Path,
) -> None:
    read = Call("Read", {"file_path": str(project / "data.txt")}, id="toolu_helper_read")
    script = routed(
        {"<task-notification>": ["Noted."], "HELPER:": [read, Reply(["Alpha."], delay=1)]},
        otherwise=[ask_helper("agent", "HELPER: look", background=True), "Sent."],
    )
    recorded = record(script, "delegate", project)
    helper = recorded.only("SubagentStart")["agent_id"]
    answer = response(recorded, "toolu_agent")
    assert (answer["status"], answer["agentId"]) == ("async_launched", helper)
    typed, notified = (event.payload["prompt"] for event in recorded.named("UserPromptSubmit"))
    assert typed == "delegate"
    assert f"<task-id>{helper}</task-id>" in notified
    first, last = (event.payload for event in recorded.named("Stop"))
    assert [task["id"] for task in first["background_tasks"]] == [helper]
    assert last["background_tasks"] == []
    order = recorded.order(SHOWN)
    assert order.index("Stop") < order.index("SubagentStop")


def test_resume_keeps_the_session_and_what_was_said(project: Path) -> None:
    script = helper_script(project)
    first = record(script, "delegate", project)
    again = record(script, "go on", project, resume=first.run.session_id)
    assert again.run.answer == "Gone on."
    assert_fields(again)
    assert again.order(SHOWN) == [
        "SessionStart",
        "UserPromptSubmit",
        "Stop",
        "SessionEnd",
    ]
    start = again.only("SessionStart")
    assert (start["source"], start["session_id"]) == ("resume", first.run.session_id)
    assert len(again.run.requests[0].body["messages"]) > len(first.run.requests[0].body["messages"])


def test_compaction_on_request_tells_its_summary(project: Path) -> None:
    script = helper_script(project)
    session = record(script, "delegate", project).run.session_id
    recorded = record(script, "/compact keep the paths", project, resume=session)
    assert_fields(recorded)
    assert recorded.order(SHOWN) == [
        "SessionStart",
        "PreCompact",
        "SubagentStop",
        "SessionStart",
        "PostCompact",
        "SessionEnd",
    ]
    before, after = recorded.only("PreCompact"), recorded.only("PostCompact")
    assert (before["trigger"], before["custom_instructions"]) == ("manual", "keep the paths")
    assert "The data says alpha." in after["compact_summary"]
    assert recorded.only("SubagentStop")["agent_type"] == ""
    starts = [event.payload["source"] for event in recorded.named("SessionStart")]
    assert starts == ["resume", "compact"]
    assert record(script, "go on", project, resume=session).run.answer == "Gone on."


def test_compaction_of_itself_comes_in_the_middle_of_a_turn(project: Path) -> None:
    read = Call("Read", {"file_path": str(project / "data.txt")})
    full = Reply([read], usage={"input_tokens": 99_000})

    def script(request: Request) -> Turn:
        if "detailed summary" in request.prompt:
            return "<summary>It was long.</summary>"
        return "Done." if "It was long." in str(request.body["messages"]) else full

    window = {"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "100000", "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": "10"}
    recorded = record(script, "read on", project, environment=window)
    assert_fields(recorded)
    order = recorded.order(SHOWN)
    assert order.index("UserPromptSubmit") < order.index("PostCompact") < order.index("Stop")
    # One that is called off, the conversation being too short yet, has no end of its own.
    assert order.count("PreCompact") >= order.count("PostCompact") == 1
    assert {event.payload["trigger"] for event in recorded.named("PreCompact")} == {"auto"}


def test_clear_ends_the_session_and_begins_another(project: Path) -> None:
    recorded = record([], "/clear", project)
    assert_fields(recorded)
    ends = [event.payload for event in recorded.named("SessionEnd")]
    starts = [event.payload for event in recorded.named("SessionStart")]
    assert [end["reason"] for end in ends] == ["clear", "other"]
    assert [start["source"] for start in starts] == ["startup", "clear"]
    old, new = (start["session_id"] for start in starts)
    assert [end["session_id"] for end in ends] == [old, new]
    assert (old, recorded.run.result["session_id"]) == (recorded.run.session_id, new)


def test_an_overloaded_service_is_asked_again_and_no_event_tells_of_it(project: Path) -> None:
    recorded = record([Failure(529), "Fine."], "hello", project)
    assert (recorded.run.answer, len(recorded.run.requests)) == ("Fine.", 2)
    assert recorded.order(SHOWN) == ["SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"]


def test_a_turn_that_the_service_refuses_has_no_stop(project: Path) -> None:
    recorded = record(lambda _: Failure(400, "no such thing"), "hello", project)
    assert recorded.run.code == 1
    assert_fields(recorded)
    # The client starts the hooks of a failed stop and waits for none: on a busy machine they come
    # after those of the end, and version 2.1.325 ends before they have done anything.
    order = [name for name in recorded.order(SHOWN) if name != "StopFailure"]
    assert order[-1] == "SessionEnd"
    assert "Stop" not in order
    for event in recorded.named("StopFailure"):
        assert "no such thing" in event.payload["last_assistant_message"]


def test_what_the_client_keeps_is_in_the_private_home(project: Path) -> None:
    before = sorted(project.iterdir())
    recorded = record(["Done."], "hello", project)
    assert sorted(project.iterdir()) == before
    assert recorded.run.transcript is not None
    assert recorded.run.transcript.is_relative_to(home_of(project))
