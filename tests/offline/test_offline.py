"""A real model, end to end, on this machine: asserted on structure, calls and reuse, not on text.

`make test-offline` fetches what it needs; `RLMNB_MODELS` says where the weights are.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

from rlmnb import Session
from rlmnb.models import weights
from rlmnb.models.offline import CONTEXT_TOKENS, LONGEST_ANSWER, Offline
from rlmnb.models.request import Message, Request
from tests.conftest import Run, notebook_of

pytestmark = pytest.mark.offline
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def no_other_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLMNB_MODEL", "offline")


@pytest.fixture
def call(run: Run) -> Callable[..., Any]:
    """Run a command that takes its time, and return what it reports."""

    def command(*arguments: str, code: int = 0) -> Any:
        done = run(*arguments, "--json", timeout=300)
        assert done.returncode == code, done.stderr + done.stdout
        return json.loads(done.stdout)

    return command


def demo() -> Any:
    """The demonstration's own code, which hands real payloads to the hooks."""
    spec = importlib.util.spec_from_file_location("demo", EXAMPLES / "demo.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def calls_of(session: str, number: int) -> list[Any]:
    record = Session.open(session).cell(number).record
    assert record is not None
    return [each for each in record.calls if each.current]


def test_a_captured_session_is_summarised_edited_and_replayed(call) -> None:
    demo().hand_over("agent")
    session = Session.open("agent")
    # A call that failed and may not be made again holds up all that looks at it.
    done = [
        cell.number for cell in session.cells if cell.type == "tool" and cell.status == "completed"
    ]
    assert len(done) >= 4
    number = len(session.cells)
    steps = (
        f"steps = [f'{{cell(n).source}} gave {{cell(n).output}}'[:200] for n in {done}]\n"
        "print(len(steps))"
    )
    asked = (
        "summary = map_reduce(\n    steps,\n    'What did this step of a program do?\\n{item}',\n"
        "    'Sum this up in one sentence.\\n{results}',\n    max_tokens=16,\n)\nprint(summary)"
    )
    session.append(steps, status="running")
    session.append(asked, type="map_reduce", status="running")
    first = call("replay", "agent", f"{number + 1}-{number + 2}")
    assert first["failed"] == first["skipped"] == []
    calls = calls_of("agent", number + 2)
    assert [each.role for each in calls] == ["map"] * len(done) + ["reduce"]
    assert {each.answered_by for each in calls} == {"smollm2-135m-instruct"}
    assert all(0 < each.usage.output <= 16 and each.usage.input > 10 for each in calls)
    assert all(each.cost_usd == 0 for each in calls)

    # Nothing changed: nothing is asked. One step is told otherwise: it and the sum are asked again.
    chosen = f"{number + 1}-{number + 2}"
    assert call("replay", "agent", chosen, "--verify", "--calls", "none")["executed"] == []
    notebook = nbformat.read(notebook_of("agent"), 4)
    notebook.cells[number].source += "\nsteps[0] = 'It read the file README.md'"
    nbformat.write(notebook, notebook_of("agent"))
    second = call("replay", "agent", chosen)
    assert len(second["executed"]) == 2
    assert (second["calls"]["made"], second["calls"]["reused"]) == (2, len(done) - 1)
    again = calls_of("agent", number + 2)
    assert [each.from_cache for each in again] == [False, *[True] * (len(done) - 1), False]
    kept = [each.response for each in calls]
    assert [each.response for each in again][1:-1] == kept[1:-1]
    nbformat.validate(nbformat.read(notebook_of("agent"), 4))


def test_a_question_is_worked_on_to_an_answer_and_replayed_without_a_call(call) -> None:
    Path("note.txt").write_text("The meeting is on Monday. Ann brings the cake.")
    report = call(
        "run", "Who brings the cake?", "--context", "note.txt", "--session", "q", "--steps", "2"
    )
    assert report["ending"] == "answered"
    assert report["answer"].strip()
    assert report["spent"]["calls"] > 0
    assert report["spent"]["usd"] == 0
    assert call("replay", "q", "--verify", "--calls", "none")["executed"] == []


def test_equal_questions_get_equal_answers_and_a_form_is_kept_to() -> None:
    form = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "age"],
    }
    request = Request(
        "offline",
        (Message("user", "Invent a person."),),
        system="Answer in JSON.",
        parameters={"max_tokens": 64},
        schema=form,
    )
    first, second = (Offline().complete(request) for _ in range(2))
    assert first.text == second.text
    assert isinstance(json.loads(first.text)["age"], int)
    assert first.usage == second.usage


def test_a_question_that_is_too_long_is_refused_with_the_way_out() -> None:
    from rlmnb.errors import ModelError

    long = Request("offline", (Message("user", "word " * (CONTEXT_TOKENS + LONGEST_ANSWER)),))
    with pytest.raises(ModelError, match="context size") as raised:
        Offline().complete(long)
    assert "map_reduce" in (raised.value.hint or "")


def test_the_weights_are_ready_and_what_they_should_be(call) -> None:
    told = call("model", "status")
    assert told["offline"]["ready"] is True
    assert told["offline"]["sha256"] == weights.SHA256
    assert told["default"] == "offline"
