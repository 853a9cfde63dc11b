"""`rlm_query` as a loop of its own inside one cell, or one program: the real library, no kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from rlmnb import models
from rlmnb.errors import BudgetError, ModelError
from rlmnb.models import choosing, current, nested, recursing
from rlmnb.models.asking import Desk, Rules
from rlmnb.models.budget import Limits
from rlmnb.testing.chat_api import ChatApi, ChatRequest, Failure, Script, chat_api, model_directory


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ChatApi]]:
    """Serve a script, and let this program ask it within limits."""
    recursing.plug(nested.loop)
    with ExitStack() as stack:

        def start(script: Script, **limits: Any) -> ChatApi:
            api = stack.enter_context(chat_api(script))
            name = f"scripted-{tmp_path.name}"
            directory = model_directory(tmp_path / "llm", api, model=name)
            monkeypatch.setenv("LLM_USER_PATH", directory)
            monkeypatch.setenv("RLMNB_MODEL", name)
            desk = Desk(
                choosing.provider_for,
                rules=Rules(limits=Limits(**limits), tries=1),
                put=lambda _: "sha256:" + "0" * 64,
            )
            monkeypatch.setattr(current, "_now", [current.Surroundings(lambda: desk)])
            return api

        yield start
    recursing.plug(None)


def decides(request: ChatRequest) -> bool:
    return "What is the next step?" in request.prompt


def calls() -> list[Any]:
    return current.surroundings().desk().done()


def test_it_computes_over_a_context_that_no_prompt_has_seen(serve: Callable[..., ChatApi]) -> None:
    context = [{"n": n} for n in range(10_000)]
    code = "total = sum(each['n'] for each in context)"
    api = serve([{"action": "EXECUTE", "goal": "add", "code": code, "final": True}])
    assert models.rlm_query("What is the sum?", context) == str(sum(range(10_000)))
    assert len(api.asked) == 1
    assert len(api.asked[0].prompt) < 1_500
    assert [(call["role"], call["depth"]) for call in calls()] == [("decide", 1)]


def test_it_asks_in_parts_and_puts_the_answers_together(serve: Callable[..., ChatApi]) -> None:
    decisions = iter([{"action": "DECOMPOSE", "goal": "all"}, {"action": "SYNTHESIZE"}])
    api = serve(
        lambda each: next(decisions) if decides(each) else "the answer", recursive_calls=None
    )
    assert models.rlm_query("What is it?", "line\n" * 10_000) == "the answer"
    roles = [call.get("role") for call in calls()]
    assert roles.count("map") >= 3
    assert roles.count("reduce") == 1
    assert {call["depth"] for call in calls()} == {1}
    assert len(api.asked) == len(roles)


def test_at_the_deepest_level_it_is_one_plain_call(serve: Callable[..., ChatApi]) -> None:
    api = serve(lambda each: {"action": "SUBCALL"} if decides(each) else "deep", depth=1)
    assert models.rlm_query("q", "c") == "deep"
    assert len(api.asked) == 1


def test_what_its_code_raises_is_shown_to_the_next_decision(serve: Callable[..., ChatApi]) -> None:
    api = serve(
        [
            {"action": "EXECUTE", "code": "step_1 = context['missing']"},
            {"action": "EXECUTE", "code": "step_2 = len(context)", "final": True},
        ]
    )
    assert models.rlm_query("How long?", {"a": 1}) == "1"
    assert "KeyError: 'missing'" in api.asked[1].prompt


def test_a_budget_or_a_model_that_is_gone_ends_it_with_an_error(
    serve: Callable[..., ChatApi],
) -> None:
    looks = {"action": "EXECUTE", "goal": "look", "code": "len(context)"}
    serve([looks, looks], calls=1)
    with pytest.raises(BudgetError, match="came to no answer"):
        models.rlm_query("q", "c")
    serve(lambda _: Failure(503))
    with pytest.raises(ModelError, match="did not answer"):
        models.rlm_query("q", "c")


def test_its_steps_leave_the_programs_own_names_alone(serve: Callable[..., ChatApi]) -> None:
    code = "import sys\nstep_1 = 1\ncontext = None"
    serve([{"action": "EXECUTE", "code": code, "final": True}])
    context = ["mine"]
    models.rlm_query("q", context)
    assert context == ["mine"]
    assert "step_1" not in globals()


def test_what_is_given_with_a_question_bounds_and_reaches_every_call(
    serve: Callable[..., ChatApi],
) -> None:
    def script(request: ChatRequest) -> Any:
        hand_on = {"action": "SUBCALL", "goal": "ask", "question": "part?", "code": "context"}
        return hand_on if decides(request) else "found"

    api = serve(script, depth=3, recursive_calls=None)
    assert models.rlm_query("q?", "abc", depth=2, temperature=0) == "found"
    assert max(call["depth"] for call in calls()) == 2
    assert {request.body["temperature"] for request in api.asked} == {0}
    assert models.llm_query("plain") == "found"
    assert "temperature" not in api.asked[-1].body
