"""Questions answered step by step: the real command, library and kernel, and a scripted model."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from rlmnb import Session
from rlmnb.models.decisions import PROMPT_LIMIT
from rlmnb.testing.chat_api import (
    Answer,
    ChatApi,
    ChatRequest,
    Dropped,
    Failure,
    Script,
    always,
    chat_api,
    failing,
    model_directory,
)
from tests.conftest import Run, notebook_of

pytestmark = pytest.mark.kernel
Decide = Callable[[ChatRequest], Any]


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Script], ChatApi]]:
    """Serve a script to the `llm` library, as the model that is meant where none is named."""
    with contextlib.ExitStack() as stack:

        def start(script: Script) -> ChatApi:
            api = stack.enter_context(chat_api(script))
            monkeypatch.setenv("LLM_USER_PATH", model_directory(tmp_path / "llm", api))
            monkeypatch.setenv("RLMNB_MODEL", "scripted")
            return api

        yield start


@pytest.fixture
def ask(run: Run) -> Callable[..., Any]:
    """Run `rlmnb run` and return what it reports."""

    def call(question: str, *arguments: str, code: int = 0) -> Any:
        done = run("run", question, "--session", "s", "--json", *arguments)
        assert done.returncode == code, done.stderr + done.stdout
        return json.loads(done.stdout)

    return call


def decides(request: ChatRequest) -> bool:
    return "What is the next step?" in request.prompt


def choosing(
    *decisions: Any, otherwise: Callable[[ChatRequest], Any] = lambda _: "plain"
) -> Script:
    """Give each request for a decision the next one of these, and all others another answer."""
    left = iter(decisions)

    def script(request: ChatRequest) -> Any:
        return next(left) if decides(request) else otherwise(request)

    return script


def execute(code: str, **more: Any) -> dict[str, Any]:
    return {"action": "EXECUTE", "goal": "compute it", "rationale": "exact", "code": code, **more}


def numbers(*values: int) -> str:
    Path("numbers.json").write_text(json.dumps({"numbers": values}))
    return "numbers.json"


def records(session: str = "s") -> list[Any]:
    return [cell.record for cell in Session.open(session).cells if cell.type != "markdown"]


SUM = execute("step_1 = sum(context['numbers'])", final=True)
SYNTHESIZE = {"action": "SYNTHESIZE", "goal": "say it"}


def test_numbers_in_a_file_are_summed_by_code_and_again_when_they_change(serve, ask, run) -> None:
    api = serve(choosing(SUM))
    report = ask("What is the sum of the numbers?", "--context", numbers(3, 4, 35))
    assert (report["answer"], report["ending"]) == ("42", "answered")
    assert [step["action"] for step in report["steps"]] == ["EXECUTE"]
    assert report["spent"]["tokens"] == api.served.total
    held, step = records()
    assert (step.trace.goal, step.trace.decision) == ("compute it", "EXECUTE")
    assert (step.trace.rationale, step.type, step.metadata.depth) == ("exact", "repl", 0)
    assert [call.role for call in step.calls] == ["decide"]
    assert list(map(os.path.basename, held.files_read)) == ["numbers.json"]
    nbformat.validate(nbformat.read(notebook_of("s"), 4))
    assert run("replay", "s", "--verify", "--calls", "none").returncode == 0
    # The session is code over a file: another file gives another answer, and nobody is asked.
    numbers(1, 2)
    assert run("replay", "s", "--calls", "none").returncode == 0
    assert run("cell", "s", "3", "--output").stdout == "3\n"
    assert len(api.asked) == 1


def test_a_context_larger_than_a_prompt_is_asked_in_parts_and_the_answers_put_together(
    serve, ask, run
) -> None:
    lines = [f"entry {n}: nothing to see here, move along" for n in range(4_000)]
    lines[2_000] = "entry 2000: the code word is heron"
    Path("log.txt").write_text("\n".join(lines))
    assert Path("log.txt").stat().st_size > 10 * PROMPT_LIMIT

    def model(request: ChatRequest) -> str:
        if "Answer from this part of the context alone" in request.prompt:
            return "heron" if "heron" in request.prompt else "nothing"
        return "it is heron" if "heron" in request.prompt else "unknown"

    api = serve(
        choosing(
            {"action": "DECOMPOSE", "goal": "look everywhere", "question": "Which code word?"},
            SYNTHESIZE,
            otherwise=model,
        )
    )
    report = ask("What is the code word?", "--context", "log.txt")
    assert report["answer"] == "it is heron"
    assert [step["action"] for step in report["steps"]] == ["DECOMPOSE", "SYNTHESIZE"]
    # No prompt is longer than a prompt may be, and no decision has seen the context.
    assert max(len(request.prompt) for request in api.asked) <= PROMPT_LIMIT + 500
    assert not any(
        "heron" in each.prompt for each in api.asked if decides(each) and "Step" not in each.prompt
    )
    parts = [each for each in api.asked if "this part of the context" in each.prompt]
    assert len(parts) > 10
    assert len(api.asked) == len(parts) + 4  # combined, two decisions, put together
    assert report["spent"]["tokens"] == api.served.total
    assert [record.type for record in records()] == ["repl", "map_reduce", "llm_call"]
    # One line changes: its part is asked again, and all that builds on it if that has changed.
    lines[2_000] = lines[2_000].replace("heron", "osprey")
    Path("log.txt").write_text("\n".join(lines))
    assert run("replay", "s").returncode == 0
    assert run("cell", "s", "4", "--output").stdout == "unknown\n"
    assert len(api.asked) <= len(parts) + 4 + 4


@pytest.mark.parametrize(
    ("depth", "deepest", "ending"), [("1", 1, "answered"), ("2", 2, "answered"), ("3", 3, "budget")]
)
def test_recursion_stops_at_its_depth_or_at_the_budget_of_recursive_calls(
    serve, ask, depth: str, deepest: int, ending: str
) -> None:
    api = serve(
        lambda each: (
            {"action": "SUBCALL", "goal": "pass it on", "question": "And you?"}
            if decides(each)
            else "done"
        )
    )
    code = 0 if ending == "answered" else 1
    report = ask(
        "Who knows, of all of them?",
        "--context",
        numbers(1),
        "--depth",
        depth,
        "--steps",
        "2",
        code=code,
    )
    assert report["ending"] == ending
    assert max(call.depth or 0 for call in records()[1].calls) == deepest
    assert report["spent"]["recursive_calls"] <= 10
    assert report["spent"]["calls"] == api.answered
    assert Session.open("s").state.activation.max_depth == int(depth)


def test_a_server_that_fails_twice_is_asked_again_and_the_attempts_are_kept(serve, ask) -> None:
    api = serve(failing([Failure(429, retry_after=0), Dropped()], choosing(SUM)))
    assert ask("What is the sum?", "--context", numbers(1, 2))["answer"] == "3"
    assert len(api.asked) == 3
    [call] = records()[1].calls
    assert len(call.attempts) == 2
    assert "429" in call.attempts[0].error


def test_a_server_that_stops_answering_leaves_what_is_known_so_far(serve, ask, run) -> None:
    decisions = choosing(execute("sum(context['numbers'])"))
    answered: list[int] = []

    def script(request: ChatRequest) -> Any:
        if answered:
            return Failure(503, "no more")
        answered.append(1)
        return decisions(request)  # type: ignore[operator]

    serve(script)
    report = ask("What is the sum?", "--context", numbers(20, 22), code=1)
    assert report["ending"] == "model"
    assert "5 attempts" in report["problem"]
    assert report["answer"] == "1. compute it: 42"
    last = nbformat.read(notebook_of("s"), 4).cells[-1]
    assert last.cell_type == "markdown"
    assert "Known so far" in last.source
    assert run("replay", "s", "--verify", "--calls", "none").returncode == 0


def test_a_server_that_hangs_ends_the_work_in_the_time_that_is_set(serve, ask, monkeypatch) -> None:
    monkeypatch.setenv("RLMNB_CALL_TIMEOUT", "0.2")
    never = threading.Event()
    api = serve(lambda _: Answer("too late", until=never))
    report = ask("What is the sum?", "--context", numbers(20, 22), code=1)
    assert (report["ending"], report["answer"]) == ("model", None)
    assert "no answer within 0.2 s" in report["problem"]
    assert len(api.asked) == 2


def test_malformed_decisions_are_asked_for_again_with_what_was_wrong(serve, ask) -> None:
    answers = iter(["I think so.", {"action": "GUESS"}, SUM])
    api = serve(lambda _: next(answers))
    assert ask("What is the sum?", "--context", numbers(1, 2))["answer"] == "3"
    assert len(api.asked) == 3
    assert "found none" in api.asked[1].prompt
    assert "action" in api.asked[2].prompt


def test_a_model_that_never_decides_is_asked_for_a_plain_answer(serve, ask) -> None:
    api = serve(lambda each: "well" if "next step" in str(each.messages) else "a plain answer")
    report = ask("What is the sum?", "--context", numbers(5, 6))
    assert (report["answer"], report["ending"]) == ("a plain answer", "answered")
    assert [step["action"] for step in report["steps"]] == ["DIRECT"]
    assert "3 times" in report["degraded"][0]
    step = records()[1]
    assert step.trace.rationale.startswith("degraded")
    assert step.type == "llm_call"
    assert "[5, 6]" in api.asked[-1].prompt  # a small context is shown with the question


def test_without_a_kernel_the_question_is_answered_in_one_plain_call(
    serve, ask, run, monkeypatch
) -> None:
    api = serve(choosing(execute("import os; step_1 = os._exit(1)")))
    report = ask("What is the sum?", "--context", numbers(5, 6))
    assert (report["answer"], report["ending"]) == ("plain", "answered")
    assert "kernel died" in report["degraded"][0]
    assert [step["action"] for step in report["steps"]] == ["DIRECT"]
    last = records()[-1]
    assert last.trace.decision == "DIRECT"
    assert "kernel died" in last.escalation_reason[0]
    assert last.type == "llm_call"
    assert len(api.asked) == 2
    # What ended the kernel is not run again, and what was answered is kept under its key.
    assert run("replay", "s", "--calls", "none").returncode == 0
    done = run("replay", "s", last.cell_id, "--calls", "none", "--json", "--force")
    assert done.returncode == 0, done.stdout
    assert len(api.asked) == 2


def test_a_kernel_that_cannot_start_is_no_reason_not_to_answer(serve, ask, monkeypatch) -> None:
    api = serve(always("plain"))
    Path("broken/ipykernel").mkdir(parents=True)
    Path("broken/ipykernel/__init__.py").write_text("raise ImportError('it was taken out')")
    monkeypatch.setenv("PYTHONPATH", os.path.abspath("broken"))
    report = ask("What is the sum?", "--context", numbers(5, 6))
    assert (report["answer"], report["ending"]) == ("plain", "answered")
    assert "it was taken out" in report["degraded"][0]
    assert [step["action"] for step in report["steps"]] == ["DIRECT"]
    assert '"numbers": [5, 6]' in api.asked[0].prompt
    assert len(api.asked) == 1


def test_code_that_fails_is_shown_to_the_model_and_is_no_obstacle_to_a_replay(
    serve, ask, run
) -> None:
    api = serve(choosing(execute("1 / 0"), {**SUM, "code": "sum(context['numbers'])"}))
    report = ask("What is the sum?", "--context", numbers(5, 6))
    assert report["answer"] == "11"
    assert [step["failed"] for step in report["steps"]] == [True, False]
    assert "ZeroDivisionError" in api.asked[1].prompt
    assert run("replay", "s", "--verify", "--calls", "none").returncode == 0


def test_a_budget_of_calls_ends_it_with_what_is_known(serve, ask) -> None:
    api = serve(choosing(execute("sum(context['numbers'])")))
    report = ask("What is the sum?", "--context", numbers(5, 6), "--budget-calls", "1", code=1)
    assert (report["ending"], report["answer"]) == ("budget", "1. compute it: 11")
    assert "1 of 1 calls" in report["problem"]
    assert len(api.asked) == 1
    # More may be spent now: the session goes on, and what is kept is not asked for again.
    api = serve(choosing(SYNTHESIZE, otherwise=lambda _: "eleven"))
    again = ask("What is the sum?", "--budget-calls", "5", "--context", "numbers.json")
    assert (again["ending"], again["answer"]) == ("answered", "eleven")
    assert len(api.asked) == 2


def test_an_edited_step_is_replayed_with_what_builds_on_it(serve, ask, run) -> None:
    api = serve(
        choosing(
            execute("step_1 = max(context['numbers'])"),
            SYNTHESIZE,
            otherwise=lambda each: f"it is {each.prompt.rpartition(': ')[2]}",
        )
    )
    assert ask("Which is it?", "--context", numbers(5, 6))["answer"] == "it is 6"
    notebook = nbformat.read(notebook_of("s"), 4)
    notebook.cells[2].source = notebook.cells[2].source.replace("max", "min")
    nbformat.write(notebook, notebook_of("s"))
    assert run("replay", "s").returncode == 0
    assert run("cell", "s", "4", "--output").stdout == "it is 5\n"
    assert len(api.asked) == 4  # two decisions, and one answer for each version


def test_memory_says_that_there_is_none_yet(serve, ask) -> None:
    serve(
        choosing(
            {"action": "MEMORY_QUERY", "question": "seen before?", "goal": "recall"}, SYNTHESIZE
        )
    )
    report = ask("Was this seen before, all of it?", "--context", numbers(1))
    assert "no memory yet" in report["steps"][0]["shown"]


def test_a_long_answer_is_returned_whole(serve, ask) -> None:
    text = "\n".join(f"line {n}" for n in range(5_000))
    serve(always(text))
    assert ask("What is there to say?")["answer"] == text


def test_a_plain_question_is_one_call_and_one_cell(serve, ask) -> None:
    api = serve(always("Paris"))
    report = ask("What is the capital of France?")
    assert (report["answer"], report["activation"]["active"]) == ("Paris", False)
    assert len(api.asked) == 1
    assert [record.type for record in records()] == ["llm_call"]


def test_a_second_question_goes_on_with_the_context_that_is_there(serve, ask) -> None:
    serve(choosing(SUM, execute("step_1 = len(context['numbers'])", final=True)))
    ask("What is the sum of the numbers?", "--context", numbers(5, 6))
    assert ask("How many numbers are there?")["answer"] == "2"


def test_what_cannot_be_asked_is_said_before_a_session_is_begun(
    run, root: Path, monkeypatch
) -> None:
    monkeypatch.setenv("RLMNB_MODEL", "scripted")
    assert run("run", "q?", "--context", "nowhere.json").returncode == 2
    assert run("run", "q?", "--depth", "4").returncode == 2
    monkeypatch.delenv("RLMNB_MODEL")
    done = run("run", "q?", "--json")
    assert done.returncode == 2
    assert "RLMNB_MODEL" in json.loads(done.stdout)["error"]["hint"]
    assert not root.exists()
