"""The scripted chat API, spoken to by the real `llm` library."""

from __future__ import annotations

import json
import os
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import llm
import openai
import pytest
from llm.default_plugins.openai_models import Chat
from pydantic import BaseModel

from rlmnb.testing.chat_api import (
    Answer,
    ChatApi,
    Dropped,
    Failure,
    Malformed,
    Usage,
    always,
    by_rule,
    chat_api,
    failing,
    model_directory,
)


class Point(BaseModel):
    x: int
    label: str


class Line(BaseModel):
    start: Point
    ends: list[Point]


def model_of(api: ChatApi) -> Chat:
    """The model as `llm` makes it from its file, with a client that does not try again."""
    model = Chat("scripted", model_name="scripted", api_base=api.url, supports_schema=True)
    model.needs_key = None
    return model


def once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = openai.OpenAI.__init__

    def make(self: Any, **options: Any) -> None:
        made(self, **{**options, "max_retries": 0})

    monkeypatch.setattr(openai.OpenAI, "__init__", make)


@pytest.fixture
def api() -> Iterator[ChatApi]:
    with chat_api() as running:
        yield running


@pytest.mark.parametrize("stream", [True, False])
def test_the_library_gets_the_scripted_answer_and_the_usage(stream: bool) -> None:
    with chat_api([Answer("two words", usage=Usage(11, 7))]) as api:
        response = model_of(api).prompt("hello", system="be short", stream=stream)
        assert response.text() == "two words"
        usage = response.usage()
        assert (usage.input, usage.output) == (11, 7)
        assert api.served == Usage(11, 7)
        assert api.answered == 1
    [asked] = api.asked
    assert (asked.system, asked.prompt) == ("be short", "hello")


def test_the_same_question_always_gets_the_same_default_answer(api: ChatApi) -> None:
    model = model_of(api)
    first, again, other = (model.prompt(text).text() for text in ("a", "a", "b"))
    assert first == again != other


def test_a_default_answer_fits_the_schema_that_is_asked_for(api: ChatApi) -> None:
    response = model_of(api).prompt("a line", schema=Line)
    assert Line.model_validate_json(response.text()).ends == []
    assert api.asked[0].schema is not None


def test_the_served_tokens_are_what_the_clients_were_told(api: ChatApi) -> None:
    model = model_of(api)
    with ThreadPoolExecutor(8) as pool:
        responses = list(pool.map(lambda n: _finished(model.prompt(f"number {n}")), range(20)))
    told = [response.usage() for response in responses]
    assert api.served == Usage(sum(u.input for u in told), sum(u.output for u in told))
    assert len(api.asked) == api.answered == 20


def _finished(response: Any) -> Any:
    response.text()
    return response


def test_rules_answer_by_what_was_said_and_the_rest_by_default() -> None:
    rules = {"sum": "42", "echo": lambda request: f"you said {request.prompt}"}
    with chat_api(by_rule(rules)) as api:
        model = model_of(api)
        assert model.prompt("the sum").text() == "42"
        assert model.prompt("echo me").text() == "you said echo me"
        assert model.prompt("else").text().startswith("answer ")


def test_failures_come_first_and_then_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    once(monkeypatch)
    with chat_api(failing([Failure(429, retry_after=3), Failure(500)], always("at last"))) as api:
        model = model_of(api)
        with pytest.raises(openai.RateLimitError) as limited:
            model.prompt("x").text()
        assert limited.value.response.headers["retry-after"] == "3"
        with pytest.raises(openai.InternalServerError):
            model.prompt("x").text()
        assert model.prompt("x").text() == "at last"
        assert api.answered == 1
        assert len(api.asked) == 3


def test_the_clients_own_retries_are_counted_too() -> None:
    turns = [Failure(429, retry_after=0), Failure(503, retry_after=0)]
    with chat_api(failing(turns, always("at last"))) as api:
        assert model_of(api).prompt("x").text() == "at last"
        assert len(api.asked) == 3


@pytest.mark.parametrize("stream", [True, False])
def test_a_dropped_connection_is_an_error_for_the_client(
    stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    once(monkeypatch)
    with chat_api(always(Dropped())) as api:
        with pytest.raises(Exception, match=r"(?i)connection|peer closed"):
            model_of(api).prompt("x", stream=stream).text()
        assert api.served == Usage()


def test_a_malformed_body_is_an_error_for_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    once(monkeypatch)
    with chat_api(always(Malformed())) as api, pytest.raises(json.JSONDecodeError):
        model_of(api).prompt("x", stream=False).text()


def test_answers_are_held_back_until_their_event() -> None:
    free = threading.Event()
    with chat_api(always(Answer("late", until=free))) as api:
        model = model_of(api)
        with ThreadPoolExecutor(3) as pool:
            asked = [pool.submit(lambda: model.prompt("x").text()) for _ in range(3)]
            assert api.wait_for_waiting(3)
            assert not any(each.done() for each in asked)
            free.set()
            assert [each.result() for each in asked] == ["late"] * 3
        assert (api.waiting, api.most_waiting) == (0, 3)


def test_a_request_past_the_end_of_the_script_is_refused_with_what_it_asked() -> None:
    with chat_api(["one"]) as api:
        model = model_of(api)
        model.prompt("first").text()
        with pytest.raises(openai.BadRequestError, match="no turn left for: second"):
            model.prompt("second").text()


def test_what_a_script_raises_is_raised_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    once(monkeypatch)

    def broken(request: object) -> str:
        raise LookupError("a mistake in the test")

    with (
        pytest.raises(LookupError, match="a mistake"),
        chat_api(broken) as api,
        pytest.raises(openai.APIConnectionError),
    ):
        model_of(api).prompt("x").text()


def test_models_are_listed_and_other_paths_are_not_found(api: ChatApi) -> None:
    assert [each["id"] for each in get(api, "/v1/models")[1]["data"]] == ["scripted"]
    assert get(api, "/v1/nothing")[0] == 404
    assert api.asked == []


def get(api: ChatApi, path: str) -> tuple[int, Any]:
    connection = HTTPConnection(urlsplit(api.url).netloc, timeout=10)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def test_a_directory_for_a_model_is_found_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with chat_api() as api:
        assert model_directory("llm", api) == str(tmp_path / "llm")
    assert (tmp_path / "llm" / "extra-openai-models.yaml").is_file()


def test_the_library_finds_the_server_as_a_model_in_its_private_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with chat_api(always("hello")) as api:
        directory = model_directory(tmp_path / "llm", api, model="mine")
        monkeypatch.setenv("LLM_USER_PATH", directory)
        assert llm.get_model("mine").prompt("x").text() == "hello"
        assert api.asked[0].body["model"] == "mine"
    [file] = [name for name in os.listdir(directory) if name.endswith(".yaml")]
    assert stat.S_IMODE(os.stat(os.path.join(directory, file)).st_mode) == 0o600
