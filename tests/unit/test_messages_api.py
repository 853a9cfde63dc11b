"""The scripted Messages API: what a client sees of it, and what it keeps of the client."""

from __future__ import annotations

import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from threading import Barrier
from typing import Any
from urllib.parse import urlsplit

import pytest

from rlmnb.testing.messages_api import (
    Call,
    Failure,
    Reply,
    Request,
    ScriptedApi,
    routed,
    scripted_api,
)

HELLO = {"role": "user", "content": "hello"}


def send(api: ScriptedApi, method: str, path: str, body: Any = None) -> tuple[int, str]:
    connection = HTTPConnection(urlsplit(api.url).netloc, timeout=10)
    try:
        text = None if body is None else json.dumps(body)
        connection.request(method, path, text, {"X-Api-Key": "a-key-of-the-test"})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def ask(api: ScriptedApi, *messages: Any, stream: bool = False) -> tuple[int, Any]:
    body = {"model": "m", "messages": list(messages) or [HELLO], "stream": stream}
    status, text = send(api, "POST", "/v1/messages?beta=true", body)
    return status, text if stream else json.loads(text)


def text_of(answer: tuple[int, Any]) -> str:
    return str(answer[1]["content"][0]["text"])


def events_in(stream: str) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: ")]


def put_together(events: Iterable[dict[str, Any]]) -> list[tuple[str, Any]]:
    """Read a stream as a client does: a block's beginning, and what is added to it."""
    blocks: list[tuple[str, Any]] = []
    for event in events:
        if event["type"] == "content_block_start":
            block = event["content_block"]
            blocks.append((block["type"], block.get("name")))
        elif event["type"] == "content_block_delta":
            kind, name = blocks[-1]
            delta = event["delta"]
            added = delta["text"] if kind == "text" else (name, json.loads(delta["partial_json"]))
            blocks[-1] = (kind, added)
    return blocks


def test_a_list_is_answered_turn_by_turn() -> None:
    with scripted_api(["one", "two"]) as api:
        assert [text_of(ask(api)), text_of(ask(api))] == ["one", "two"]


def test_a_request_past_the_end_is_an_error_that_says_what_was_asked() -> None:
    with scripted_api([]) as api:
        status, body = ask(api)
    assert status == 400
    assert "no turn left for: hello" in body["error"]["message"]


def test_parallel_calls_are_blocks_of_one_answer_with_ids_of_their_own() -> None:
    turn = ["both", Call("Read", {"file_path": "a"}), Call("Read", {"file_path": "b"}, id="mine")]
    with scripted_api([turn]) as api:
        _, body = ask(api)
    assert [block["type"] for block in body["content"]] == ["text", "tool_use", "tool_use"]
    assert body["stop_reason"] == "tool_use"
    first, second = (block["id"] for block in body["content"][1:])
    assert first.startswith("toolu_")
    assert second == "mine"


def test_a_stream_holds_the_same_blocks_as_a_plain_answer() -> None:
    with scripted_api([["look", Call("Bash", {"command": "é\n"})]]) as api:
        _, stream = ask(api, stream=True)
    events = events_in(stream)
    assert put_together(events) == [("text", "look"), ("tool_use", ("Bash", {"command": "é\n"}))]
    assert [events[0]["type"], events[-1]["type"]] == ["message_start", "message_stop"]
    assert events[-2]["delta"]["stop_reason"] == "tool_use"


def test_usage_grows_with_the_text_unless_the_turn_sets_it() -> None:
    with scripted_api(["a", "a" * 400, Reply(["a"], usage={"input_tokens": 190_000})]) as api:
        short, long, given = (ask(api)[1]["usage"] for _ in range(3))
    assert 0 < short["output_tokens"] < long["output_tokens"]
    assert given["input_tokens"] == 190_000
    assert given["output_tokens"] == short["output_tokens"]


def test_a_stream_ends_with_the_usage_of_the_whole_answer() -> None:
    with scripted_api([Reply(["a"], usage={"input_tokens": 7, "output_tokens": 9})]) as api:
        _, stream = ask(api, stream=True)
    usage = next(event["usage"] for event in events_in(stream) if event["type"] == "message_delta")
    assert (usage["input_tokens"], usage["output_tokens"]) == (7, 9)


def test_overloaded_once_then_fine() -> None:
    with scripted_api([Failure(529), "fine"]) as api:
        status, body = ask(api)
        assert (status, body["error"]["type"]) == (529, "overloaded_error")
        assert text_of(ask(api)) == "fine"


def test_a_sign_of_life_and_a_count_take_no_turn() -> None:
    with scripted_api(["one"]) as api:
        assert send(api, "HEAD", "/") == (200, "")
        status, text = send(api, "POST", "/v1/messages/count_tokens?beta=true", {"messages": []})
        assert (status, set(json.loads(text))) == (200, {"input_tokens"})
        assert text_of(ask(api)) == "one"
    assert len(api.requests) == 3
    assert len(api.messages) == 1


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_path_that_the_service_lacks_is_not_found(method: str) -> None:
    with scripted_api(["one"]) as api:
        status, text = send(api, method, "/v1/elsewhere", {})
    assert status == 404
    assert "/v1/elsewhere" in text


def test_a_callable_sees_the_request_and_its_tool_results() -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": "42"}

    def script(request: Request) -> str:
        return f"{request.opening} {request.results[0]['content']}"

    with scripted_api(script) as api:
        assert text_of(ask(api, HELLO, {"role": "user", "content": [result]})) == "hello 42"


def test_results_are_those_since_the_last_answer() -> None:
    def result(id: str) -> dict[str, Any]:
        return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id}]}

    answer = {"role": "assistant", "content": "ok"}
    remark = {"role": "system", "content": "go on"}
    body = {"messages": [HELLO, answer, result("old"), answer, result("new"), remark]}
    request = Request("POST", "/v1/messages", body)
    assert [part["tool_use_id"] for part in request.results] == ["new"]


def test_each_conversation_gets_its_own_script() -> None:
    summary = {"role": "user", "content": "write a summary"}
    helper = {"role": "user", "content": [{"type": "text", "text": "HELPER: look"}]}
    script = routed({"HELPER:": ["h1", "h2"], "a summary": ["s"]}, otherwise=["m1", "m2"])
    with scripted_api(script) as api:
        asked = [[HELLO], [helper], [HELLO, summary], [helper, HELLO], [HELLO]]
        answers = [text_of(ask(api, *messages)) for messages in asked]
    assert answers == ["m1", "h1", "s", "h2", "m2"]


def test_requests_at_the_same_time_share_no_turn() -> None:
    turns = [str(n) for n in range(8)]
    with scripted_api(turns) as api, ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(lambda _: text_of(ask(api)), turns)) == turns


def test_requests_at_the_same_time_do_not_wait_for_each_other() -> None:
    count = 8
    together = Barrier(count)
    numbers = iter(range(count))

    def script(request: Request) -> str:
        together.wait(30)  # goes on only when all of them are being answered
        return str(next(numbers))

    with scripted_api(script) as api, ThreadPoolExecutor(count) as pool:
        answers = list(pool.map(lambda _: text_of(ask(api)), range(count)))
    assert sorted(answers) == [str(n) for n in range(count)]


def test_what_a_script_raises_is_raised_where_the_server_was_started() -> None:
    def script(request: Request) -> str:
        raise LookupError("not scripted")

    with (
        pytest.raises(LookupError, match="not scripted"),
        scripted_api(script) as api,
        pytest.raises(ConnectionError),
    ):
        ask(api)


def test_no_key_is_kept() -> None:
    with scripted_api(["one"]) as api:
        ask(api)
    assert "a-key-of-the-test" not in repr(api)


def test_the_server_is_on_loopback_and_gone_after_the_block() -> None:
    with scripted_api(["one"]) as api:
        assert urlsplit(api.url).hostname == "127.0.0.1"
    with pytest.raises(ConnectionError):
        ask(api)
