"""Model calls by themselves: keys, what is kept, modes, retries, forms, budget, prices."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

import rlmnb
from rlmnb import digest, models
from rlmnb.errors import (
    AnswerError,
    BudgetError,
    CallNotKeptError,
    ModelBusyError,
    ModelError,
    ModelSilentError,
    NoModelError,
)
from rlmnb.format import keptcalls
from rlmnb.format.calls import Call
from rlmnb.graph.modelcalls import type_of_call
from rlmnb.models import (
    budget,
    choosing,
    current,
    keeping,
    modes,
    patience,
    prices,
    recursing,
    tags,
    through_llm,
)
from rlmnb.models.asking import Desk, Rules, ask
from rlmnb.models.budget import Limits, Spent, Tally
from rlmnb.models.keeping import Kept
from rlmnb.models.reducing import cut
from rlmnb.models.request import Answer, Attachment, Message, Request, Usage, changed_parts
from rlmnb.models.spending import overview, priced, total_cost
from rlmnb.testing.chat_api import Answer as Scripted
from rlmnb.testing.chat_api import (
    ChatApi,
    Dropped,
    Failure,
    Malformed,
    always,
    by_rule,
    chat_api,
    default_answer,
    failing,
    model_directory,
)
from rlmnb.testing.chat_api import Usage as Served

PRICED = "gpt-4o-mini"
NO_LIMITS = Limits()


def request(prompt: str = "hello", **fields: Any) -> Request:
    return Request("m", (Message("user", prompt),), **fields)


class Parrot:
    """A provider that says the prompt again, and counts how often it was asked."""

    name = "parrot"

    def __init__(self, *errors: Exception) -> None:
        self.asked: list[Request] = []
        self._errors = list(errors)

    def identity(self, model: str) -> str:
        return f"{self.name} {model}"

    def complete(self, request: Request) -> Answer:
        self.asked.append(request)
        if self._errors:
            raise self._errors.pop(0)
        return Answer(f"{request.prompt} {len(self.asked)}", request.model, Usage(10, 5))


def desk_of(provider: Parrot, **fields: Any) -> Desk:
    stored: dict[str, bytes] = {}

    def put(data: bytes) -> str:
        name = digest.of_bytes(data)
        stored[name] = data
        return name

    fields = {"put": put, "get": stored.__getitem__, "wait": lambda _: None, **fields}
    return Desk(lambda _: provider, cell_id="c1", **fields)


def again(desk: Desk, **rules: Any) -> Desk:
    """Return the desk of the cell's next run, which knows what the last one asked."""
    kept = Kept({"c1": keptcalls.merged([], desk.done())})
    known: dict[str, Any] = {"rules": Rules(**rules), "kept": kept, "calls": []}
    return replace(desk, **known)


# keys


@pytest.mark.parametrize(
    "other",
    [
        replace(request(), model="n"),
        request("hello!"),
        replace(request(), messages=(Message("assistant", "hello"),)),
        replace(request(), messages=(Message("user", "hello"), Message("user", "hello"))),
        request(system="be short"),
        request(parameters={"temperature": 0}),
        request(tools=({"name": "search"},)),
        request(attachments=(Attachment("image/png", b"1"),)),
        request(schema={"type": "object"}),
        request(provider="offline sha256:1"),
    ],
)
def test_whatever_can_change_an_answer_changes_the_key(other: Request):
    assert other.key() != request().key()
    assert changed_parts(other.parts(), request().parts())


def test_the_order_of_parameters_does_not_change_the_key():
    one, two = {"temperature": 0.0, "seed": 1}, {"seed": 1, "temperature": 0}
    assert request(parameters=one).key() == request(parameters=two).key()


def test_the_key_is_the_same_in_every_process():
    code = (
        "from rlmnb.models.request import *; "
        "print(Request('m', (Message('user', 'hello'),), parameters={'a': 1, 'b': {'c': 2}}).key())"
    )
    keys = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert keys == {request(parameters={"b": {"c": 2}, "a": 1}).key()}


# what is kept, and modes


def test_what_is_kept_of_a_call_is_what_the_model_of_the_format_defines():
    desk = desk_of(Parrot(ModelBusyError("busy")))
    shown = (Attachment("image/png", b"1"), Attachment("image/gif", url="https://x.org/a.gif"))
    ask(
        request("p" * 5000, parameters={"temperature": 0}, system="s", attachments=shown),
        desk,
        role="map",
        item=0,
    )
    (kept, linked) = Call.model_validate(desk.done()[0]).request.attachments
    assert (kept.kind, kept.content, linked.url) == (
        "image/png", digest.of_bytes(b"1"), "https://x.org/a.gif",
    )  # fmt: skip
    with pytest.raises(ModelError):
        ask(request("q"), replace(desk, provider_for=lambda _: Parrot(ModelError("no"))))
    for call in desk.done():
        checked = Call.model_validate(call)
        assert checked.model_extra == {}
        assert checked.request.model_extra == {}


@pytest.mark.parametrize("size", [0, 5, 16 * 1024, 16 * 1024 + 1, 300_000])
def test_an_answer_comes_back_exactly_whatever_its_length(size: int):
    class Long(Parrot):
        def complete(self, request: Request) -> Answer:
            self.asked.append(request)
            return Answer("é\r\n\x00"[: size % 4] + "x" * size, "m")

    first = desk_of(Long())
    said = ask(request(), first).text
    second = again(first)
    assert ask(request(), second).text == said
    assert second.done()[0]["from_cache"]
    inline = second.done()[0]["response"]
    assert inline is None if len(said.encode()) > 16 * 1024 else inline == said


def test_the_nth_equal_call_of_a_cell_gets_the_nth_answer():
    first = desk_of(Parrot())
    said = [ask(request(), first).text for _ in range(3)]
    assert len(set(said)) == 3
    second = again(first)
    assert [ask(request(), second).text for _ in range(4)][:3] == said
    assert [call["from_cache"] for call in second.done()] == [True, True, True, False]


def test_modes_say_which_calls_are_made():
    parrot = Parrot()
    first = desk_of(parrot)
    ask(request("a"), first)
    elsewhere = Kept({"c1": first.done(), "c2": [{**first.done()[0], "key": request("b").key()}]})

    def made(mode: str, prompt: str) -> bool:
        before = len(parrot.asked)
        desk = replace(first, kept=elsewhere, rules=Rules(mode), calls=[])  # type: ignore[arg-type]
        ask(request(prompt), desk)
        return len(parrot.asked) > before

    assert [made("once", each) for each in "abc"] == [False, False, True]
    assert [made("new_episodes", each) for each in "abc"] == [False, True, True]
    assert [made("all", each) for each in "abc"] == [True, True, True]
    assert not made("none", "a")


def test_without_calls_an_answer_that_is_missing_is_an_error_that_says_what_changed():
    first = desk_of(Parrot())
    ask(request(parameters={"temperature": 0}, system="short"), first)
    second = again(first, mode="none")
    with pytest.raises(CallNotKeptError, match=r"(?m)c1 asks m .* what changed: parameters$"):
        ask(request(parameters={"temperature": 1}, system="short"), second)
    with pytest.raises(CallNotKeptError, match="no such call"):
        ask(request(), replace(second, cell_id="other", kept=Kept()))
    twice = again(first, mode="none")
    ask(request(parameters={"temperature": 0}, system="short"), twice)
    with pytest.raises(CallNotKeptError, match="more often"):
        ask(request(parameters={"temperature": 0}, system="short"), twice)


def test_an_answer_that_is_too_old_is_asked_for_again():
    first = desk_of(Parrot(), now=lambda: "2026-01-01T00:00:00Z")
    ask(request(), first)

    def reused(now: str) -> bool:
        desk = replace(again(first, expire=7 * 86400), now=lambda: now)
        return ask(request(), desk).from_cache

    assert reused("2026-01-07T23:59:59Z")
    assert not reused("2026-01-08T00:00:01Z")


def test_an_answer_whose_object_is_gone_is_asked_for_again():
    from rlmnb.errors import ObjectError

    class Long(Parrot):
        def complete(self, request: Request) -> Answer:
            return Answer("x" * 20_000, request.model)

    def gone(_: str) -> bytes:
        raise ObjectError("gone")

    first = desk_of(Long())
    ask(request(), first)
    assert not ask(request(), replace(again(first), get=gone)).from_cache


def test_calls_that_a_cell_no_longer_makes_stay_until_they_are_pruned():
    first = desk_of(Parrot())
    for prompt in "ab":
        ask(request(prompt), first)
    second = again(first)
    ask(request("a"), second)
    ask(request("c"), second)
    kept = keptcalls.merged(keptcalls.merged([], first.done()), second.done())
    shown = [(call["request"]["prompt"], call["current"]) for call in kept]
    assert shown == [("a", True), ("c", True), ("b", False)]


def test_what_came_to_no_answer_replaces_none_that_is_paid_for():
    first = desk_of(Parrot())
    ask(request(), first)
    second = replace(again(first, mode="all"), provider_for=lambda _: Parrot(ModelError("gone")))
    with pytest.raises(ModelError):
        ask(request(), second)
    kept = keptcalls.merged(keptcalls.merged([], first.done()), second.done())
    third = replace(again(first, mode="none"), kept=Kept({"c1": kept}))
    assert ask(request(), third).text == "hello 1"


def test_a_question_that_is_asked_less_often_keeps_all_its_answers():
    first = desk_of(Parrot())
    for _ in range(3):
        ask(request(), first)
    second = again(first)
    ask(request(), second)
    kept = keptcalls.merged(keptcalls.merged([], first.done()), second.done())
    third = replace(again(first, mode="none"), kept=Kept({"c1": kept}))
    assert [ask(request(), third).text for _ in range(3)] == ["hello 1", "hello 2", "hello 3"]
    anew = again(first, mode="all")
    ask(request(), anew)
    assert len(keptcalls.merged(kept, anew.done())) == 1


def test_a_run_that_ends_early_drops_no_answer_however_many_there_are():
    first = desk_of(Parrot())
    for number in range(300):
        ask(request(f"{number}"), first)
    kept = keptcalls.merged([], first.done())
    for _ in range(2):
        kept = keptcalls.merged(kept, [])
    assert len(kept) == 300


@pytest.mark.parametrize(
    "damaged",
    [None, 5, "x", [None], [{"key": 1}], [{"key": "k", "model": "m"}], [{"key": "k", "model": 5}]],
)
def test_damaged_records_answer_nothing_and_raise_nothing(damaged: Any):
    kept = keeping.kept_in([("c1", {"calls": damaged}), ("c2", damaged)])
    assert kept.find("c1", "k", 0, elsewhere=True) is None
    assert kept.nearest("c1", {"model": "x"}) is None


@pytest.mark.parametrize(
    ("text", "length"), [("90", 90), ("15m", 900), ("12h", 43200), ("2w", 1209600)]
)
def test_lengths_of_time(text: str, length: float):
    assert modes.seconds(text) == length


def test_a_cells_tags_say_how_its_calls_go_but_none_is_never_overruled():
    own = ["x", "rlmnb:calls=all", "rlmnb:calls-expire=7d"]
    assert tags.mode_of(own, "once") == "all"
    assert tags.mode_of(own, "none") == "none"
    assert tags.expiry_of(own, None) == 7 * 86400
    assert tags.mode_of(["x"], "once") == "once"
    with pytest.raises(ModelError, match="names no mode"):
        tags.mode_of(["rlmnb:calls=never"], "once")
    with pytest.raises(ModelError, match="no length of time"):
        modes.seconds("soon")


# retries


def test_a_busy_model_is_asked_again_and_again_after_longer_and_longer_waits():
    waits: list[float] = []
    parrot = Parrot(*[ModelBusyError("busy") for _ in range(4)])
    desk = desk_of(parrot, wait=waits.append)
    assert ask(request(), desk).text == "hello 5"
    assert waits == [0.5, 1.0, 2.0, 4.0]
    assert [each["waited_ms"] for each in desk.done()[0]["attempts"]] == [500, 1000, 2000, 4000]


def test_what_the_server_wants_is_waited_for_within_bounds():
    waits: list[float] = []
    busy = [ModelBusyError("busy", retry_after=7), ModelBusyError("busy", retry_after=9999)]
    ask(request(), desk_of(Parrot(*busy), wait=waits.append))
    assert waits == [7.0, 30.0]


def test_a_model_that_never_answers_is_an_error_with_its_attempts_kept():
    desk = desk_of(Parrot(*[ModelBusyError("busy") for _ in range(9)]))
    with pytest.raises(ModelError, match="in 5 attempts: busy"):
        ask(request(), desk)
    assert len(desk.done()[0]["attempts"]) == 5
    assert "busy" in desk.done()[0]["error"]
    assert Tally().as_dict() == _tally(desk).as_dict()


def test_a_model_that_hangs_twice_is_not_waited_for_a_third_time():
    parrot = Parrot(ModelBusyError("busy"), *[ModelSilentError("silent") for _ in range(9)])
    with pytest.raises(ModelError, match="in 3 attempts: silent"):
        ask(request(), desk_of(parrot))
    assert len(parrot.asked) == 3


def test_an_error_that_will_stay_is_not_tried_again():
    parrot = Parrot(ModelError("no such key"))
    with pytest.raises(ModelError, match="no such key"):
        ask(request(), desk_of(parrot))
    assert len(parrot.asked) == 1


def _tally(desk: Desk) -> Tally:
    tally = Tally()
    for call in desk.done():
        tally.add(call)
    return tally


# budget


@pytest.mark.parametrize(
    ("limits", "spent", "refused"),
    [
        (Limits(), Spent(calls=10**6, tokens=10**9), None),
        (Limits(calls=2), Spent(calls=1), None),
        (Limits(calls=2), Spent(calls=2), "2 of 2 calls"),
        (Limits(calls=0), Spent(), "0 of 0 calls"),
        (Limits(tokens=100), Spent(tokens=80), None),
        (Limits(tokens=100), Spent(tokens=81), "this call needs 20"),
        (Limits(usd=1.0), Spent(usd=0.8), None),
        (Limits(usd=1.0), Spent(usd=0.99), "USD are spent"),
        (Limits(recursive_calls=3), Spent(recursive_calls=3), "3 of 3 recursive"),
    ],
)
def test_a_call_is_refused_before_it_is_made(limits: Limits, spent: Spent, refused: str | None):
    found = budget.refusal(limits, spent, tokens=20, usd=0.1, recursive=True)
    assert found is None if refused is None else refused in str(found)


def test_where_money_is_limited_an_unknown_price_is_not_zero():
    found = budget.refusal(Limits(usd=1.0), Spent(), tokens=20, usd=None, recursive=False)
    assert found is not None
    assert "price is not known" in found
    assert Spent(calls=2, unpriced=2).as_dict()["usd"] is None
    assert Spent(calls=2, unpriced=1, usd=0.5).as_dict()["usd"] == 0.5


@pytest.mark.parametrize("nothing", [Limits(tokens=0), Limits(usd=0.0), Limits(calls=0)])
def test_a_budget_of_nothing_allows_not_even_the_shortest_question(nothing: Limits):
    parrot = Parrot()
    with pytest.raises(BudgetError):
        ask(Request(PRICED, (Message("user", "?"),)), desk_of(parrot, rules=Rules(limits=nothing)))
    assert parrot.asked == []


def test_an_answer_that_is_bounded_is_priced_as_one_before_it_is_asked_for():
    bounded = Request(PRICED, (Message("user", "q"),), parameters={"max_tokens": 1_000_000})
    price = prices.cost(PRICED, 0, 1_000_000)
    assert price is not None
    desk = desk_of(Parrot(), rules=Rules(limits=Limits(usd=price * 0.9)))
    with pytest.raises(BudgetError, match="this call needs"):
        ask(bounded, desk)


def test_a_budget_holds_for_calls_side_by_side_and_force_goes_past_it():
    started, go = threading.Barrier(4), threading.Event()

    class Slow(Parrot):
        def complete(self, request: Request) -> Answer:
            go.wait(30)
            return super().complete(request)

    parrot = Slow()
    desk = desk_of(parrot, rules=Rules(limits=Limits(calls=3)))
    refused: list[str] = []

    def work(number: int) -> None:
        started.wait(30)
        try:
            ask(request(str(number)), desk)
        except BudgetError as error:
            refused.append(str(error))
            go.set()

    workers = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert (len(parrot.asked), len(refused)) == (3, 1)
    assert [call for call in desk.done() if "error" in call]
    forced = replace(desk, rules=Rules(limits=Limits(calls=3), force=True))
    assert ask(request("more"), forced).text


def test_what_was_spent_is_read_from_a_state_whatever_stands_there():
    assert budget.limits_of({}) == Limits()
    odd = {"budget": {"max_tokens": "x", "max_usd": -1, "cells": 5}, "activation": {"max_depth": 9}}
    assert budget.limits_of(odd) == Limits()
    assert budget.spent_by_cells(odd) == Spent()
    good = {"budget": {"cells": {"made": {"m": {"calls": 2, "usd": 1, "tokens": True}}}}}
    assert budget.spent_by_cells(good) == Spent(calls=2, usd=1.0)


# prices


def test_prices_come_from_the_table_and_what_is_not_in_it_is_unknown():
    assert prices.cost("offline", 10, 10) == 0.0
    assert prices.cost("gpt-4o-mini", 1_000_000, 0) == pytest.approx(0.15)
    assert prices.cost("openrouter/openai/gpt-4o", 1000, 10) is not None
    assert prices.cost("nobody-knows-this", 10, 10) is None
    assert prices.cost_of("gpt-4o-mini", Usage(None, 5)) is None


def test_a_price_of_ones_own_counts_what_the_cache_holds_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    table = tmp_path / "prices.json"
    table.write_text(json.dumps({"mine": {"input": 1, "output": 2, "cache_read": 0.1}}))
    monkeypatch.setenv("RLMNB_PRICES", str(table))
    usage = Usage(1000, 100, cache_read=600, cache_write=100)
    # 300 plain, 600 read from the cache, 100 written to it at the price of input, 100 out.
    assert prices.cost_of("mine", usage) == pytest.approx((300 + 60 + 100 + 200) / 1e6)
    broken = tmp_path / "broken.json"
    broken.write_text('{"mine": {"inputs": 1}}')
    monkeypatch.setenv("RLMNB_PRICES", str(broken))
    with pytest.raises(ModelError, match="no table of prices"):
        prices.cost("mine", 1, 1)


def test_what_an_agent_used_is_priced_by_its_splits_and_only_where_they_are_known():
    use = {
        "calls": 1, "tokens": 1100, "input_tokens": 1000, "output_tokens": 100,
        "cache_read_tokens": 10_000, "cache_write_tokens": 0, "subagent_tokens": 0,
    }  # fmt: skip
    found = priced({"claude-sonnet-4-5": use, "claude-unknown-9": use})
    # 3 USD in, 15 out and 0.30 from the cache, for a million.
    assert found["claude-sonnet-4-5"]["cost_usd"] == pytest.approx(0.003 + 0.0015 + 0.003)
    assert found["claude-unknown-9"]["cost_usd"] is None
    assert total_cost(found) is None
    older = {**use, "tokens": 5000}  # counted in part before the split was
    assert priced({"claude-sonnet-4-5": older})["claude-sonnet-4-5"]["cost_usd"] is None
    assert overview({})["spent"]["usd"] == 0.0


# the real library against a scripted server


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Serve a script as a model of the real `llm` library, and ask it from a program."""
    from contextlib import ExitStack

    with ExitStack() as stack:

        def serve(
            script: Any = None, model: str = "scripted", limits: Limits = NO_LIMITS
        ) -> ChatApi:
            api = stack.enter_context(chat_api(script))
            directory = model_directory(tmp_path / "llm", api, model=model)
            monkeypatch.setenv("LLM_USER_PATH", directory)
            monkeypatch.setenv(choosing.VARIABLE, model)
            here = Desk(choosing.provider_for, Rules(limits=limits), wait=lambda _: None)
            monkeypatch.setattr(current, "_now", [current.Surroundings(lambda: here)])
            return api

        yield serve


def desk_now() -> Desk:
    return current.surroundings().desk()


def test_a_question_is_one_request_and_leaves_nothing_in_the_librarys_own_log(
    server: Callable[..., ChatApi], tmp_path: Path
):
    api = server(always("Paris"))
    assert models.llm_query("capital?", system="be short", temperature=0) == "Paris"
    assert len(api.asked) == 1
    body = api.asked[0].body
    assert [each["role"] for each in body["messages"]] == ["system", "user"]
    assert body["temperature"] == 0
    call = desk_now().done()[0]
    assert call["usage"]["input"] == api.served.input
    assert call["usage"]["output"] == api.served.output
    assert call["cost_usd"] is None
    assert os.listdir(tmp_path / "llm") == ["extra-openai-models.yaml"]


def test_a_failing_server_is_asked_again_and_each_attempt_is_one_request(
    server: Callable[..., ChatApi],
):
    turns = [Failure(429, retry_after=0), Failure(503), Dropped(), Malformed()]
    api = server(failing(turns, then=always("at last")))
    assert models.llm_query("q") == "at last"
    assert len(api.asked) == 5
    assert len(desk_now().done()[0]["attempts"]) == 4


@pytest.mark.parametrize("by", ["variable", "caller"])
def test_a_server_that_never_answers_is_given_up_in_the_time_that_is_set(
    server: Callable[..., ChatApi], monkeypatch: pytest.MonkeyPatch, by: str
):
    never = threading.Event()
    api = server(lambda _: Scripted("too late", until=never))
    if by == "variable":
        monkeypatch.setenv(patience.VARIABLE, "0.2s")
    with (
        patience.at_most(0.2 if by == "caller" else None),
        pytest.raises(ModelError, match=r"in 2 attempts: .* no answer within 0.2 s") as caught,
    ):
        models.llm_query("q")
    assert patience.VARIABLE in (caught.value.hint or "")
    assert len(api.asked) == 2
    assert len(desk_now().done()[0]["attempts"]) == 2


@pytest.mark.parametrize("text", ["soon", "0", "-1"])
def test_a_time_to_wait_that_is_none_is_refused_before_anything_is_asked(
    server: Callable[..., ChatApi], monkeypatch: pytest.MonkeyPatch, text: str
):
    api = server()
    monkeypatch.setenv(patience.VARIABLE, text)
    with pytest.raises(ModelError):
        models.llm_query("q")
    assert api.asked == []


def test_a_plugin_that_waits_for_ever_is_given_up_in_the_time_that_is_set():
    import llm
    from llm.plugins import pm

    never = threading.Event()

    class Deaf(llm.Model):
        model_id = "deaf"
        can_stream = False

        def execute(self, *_: Any, **__: Any) -> Iterator[str]:
            never.wait()
            yield "late"

    class Plugin:
        @llm.hookimpl
        def register_models(self, register: Any) -> None:
            register(Deaf())

    plugin = Plugin()
    llm.get_models()
    pm.register(plugin)
    try:
        desk = Desk(choosing.provider_for, wait=lambda _: None)
        with (
            patience.at_most(0.1),
            pytest.raises(ModelError, match=r"in 2 attempts: deaf gave no answer within 0.1 s"),
        ):
            ask(replace(request("q"), model="deaf"), desk)
        never.set()
        assert ask(replace(request("q"), model="deaf"), desk).text == "late"
    finally:
        never.set()
        pm.unregister(plugin)


def test_a_request_that_is_refused_for_good_is_made_once(server: Callable[..., ChatApi]):
    api = server(lambda _: Failure(400, "bad request"))
    with pytest.raises(ModelError, match="bad request"):
        models.llm_query("q")
    assert len(api.asked) == 1


def test_a_batch_runs_side_by_side_within_its_limit_and_keeps_its_order(
    server: Callable[..., ChatApi],
):
    held = threading.Event()
    api = server(lambda asked: Scripted(f"to {asked.prompt}", until=held))

    def let_go() -> None:
        assert api.wait_for_waiting(3)
        held.set()

    watcher = threading.Thread(target=let_go)
    watcher.start()
    prompts = [f"p{n}" for n in range(7)]
    assert models.llm_query_batched(prompts, limit=3) == [f"to {each}" for each in prompts]
    watcher.join()
    assert api.most_waiting == 3
    assert [call["request"]["prompt"] for call in desk_now().done()] == prompts


def test_in_a_batch_the_others_are_answered_before_an_error_is_raised(
    server: Callable[..., ChatApi],
):
    api = server(by_rule({"p1": Failure(400, "no")}, otherwise=default_answer))
    with pytest.raises(ModelError, match="no"):
        models.llm_query_batched(["p0", "p1", "p2"])
    assert api.answered == 2
    assert models.llm_query_batched([]) == []
    for wrong in (0, True, "2"):
        with pytest.raises(ValueError, match="limit"):
            models.llm_query_batched(["p"], limit=wrong)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="found one text"):
        models.llm_query_batched("p")


WORDS = "word " * 480  # six hundred tokens, as the server counts


@pytest.mark.parametrize("limits", [Limits(tokens=500), Limits(usd=0.0003)])
def test_an_answer_has_no_more_room_than_is_left_and_is_not_kept_if_it_was_cut_there(
    server: Callable[..., ChatApi], limits: Limits
):
    api = server(always(WORDS), PRICED, limits)
    for why in ("was cut", "does not allow this call"):
        with pytest.raises(BudgetError, match=why):
            models.llm_query("tell me")
    assert len(api.asked) == 1
    (cut, refused) = desk_now().done()
    assert Call.model_validate(cut).response is None
    assert "usage" not in refused
    spent = _tally(desk_now()).total_made()
    assert (spent.tokens, desk_now().spent.tokens) == (api.served.total, api.served.total)
    assert spent.usd == prices.cost(PRICED, api.served.input, api.served.output)
    assert spent.tokens <= (limits.tokens or spent.tokens)
    assert spent.usd <= (limits.usd or spent.usd)
    assert not keeping.kept_in([("c", {"calls": [cut]})]).find("c", cut["key"], 0, elsewhere=True)


@pytest.mark.parametrize("limits", [Limits(tokens=3000), Limits(usd=0.001)])
def test_calls_side_by_side_do_not_go_past_a_budget_together(
    server: Callable[..., ChatApi], limits: Limits
):
    api = server(always(WORDS), PRICED, limits)
    with pytest.raises(BudgetError):
        models.llm_query_batched([f"p{n}" for n in range(8)])
    answered = [call for call in desk_now().done() if keptcalls.is_call(call)]
    assert len(answered) >= 2
    assert (api.served.total, desk_now().spent.calls) == (desk_now().spent.tokens, len(api.asked))
    assert api.served.total <= (limits.tokens or api.served.total)
    cost = prices.cost(PRICED, api.served.input, api.served.output)
    assert cost is not None
    assert cost <= (limits.usd or cost)


def test_an_answer_that_is_longer_than_its_share_has_all_that_the_others_leave(
    server: Callable[..., ChatApi],
):
    held = threading.Event()
    long = WORDS * 9
    api = server(
        lambda asked: Scripted(long if asked.prompt == "p3" else "short", until=held),
        limits=Limits(tokens=20_000),
    )
    watcher = threading.Thread(target=lambda: api.wait_for_waiting(8) and held.set())
    watcher.start()
    said = models.llm_query_batched([f"p{n}" for n in range(8)])
    watcher.join()
    assert api.most_waiting == 8
    assert said == [long if n == 3 else "short" for n in range(8)]
    assert len(api.asked) == 9
    assert api.served.total == desk_now().spent.tokens == _tally(desk_now()).total_made().tokens
    assert api.served.total <= 20_000
    kept = [call["request"]["prompt"] for call in desk_now().done()]
    assert kept == [*(f"p{n}" for n in range(8)), "p3"]


@pytest.mark.parametrize(
    ("limits", "parameters", "told"),
    [
        (Limits(), {}, None),
        (Limits(calls=9), {}, None),
        (Limits(tokens=10**7), {}, None),
        (Limits(tokens=1000), {"max_tokens": 7}, 7),
    ],
)
def test_an_answer_is_bounded_only_where_the_budget_needs_it(
    server: Callable[..., ChatApi], limits: Limits, parameters: Any, told: int | None
):
    api = server(limits=limits)
    models.llm_query("q", **parameters)
    assert api.asked[0].longest == told
    assert replace(request(), room=5).key() == request().key()


def test_a_model_that_cannot_answer_at_such_length_is_asked_without_a_bound(
    server: Callable[..., ChatApi],
):
    def strict(asked: Any) -> Any:
        too_long = (asked.longest or 0) > 4096
        return Failure(400, "max_tokens: at most 4096 tokens") if too_long else "yes"

    api = server(strict, limits=Limits(tokens=50_000))
    assert models.llm_query("q") == "yes"
    assert [asked.longest is None for asked in api.asked] == [False, True]
    assert desk_now().done()[0]["attempts"] == []


@pytest.mark.parametrize(
    ("found", "cut"),
    [
        ({"choices": [{"finish_reason": "length"}]}, True),
        ({"choices": [{"finish_reason": "stop"}]}, False),
        ({"stop_reason": "max_tokens", "content": []}, True),
        ({"candidates": [{"finishReason": "MAX_TOKENS"}]}, True),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, True),
        ({"done_reason": "length"}, True),
        ({"text": "no reason"}, None),
        ({"choices": [None]}, None),
        (None, None),
    ],
)
def test_why_an_answer_ended_is_read_as_its_provider_says_it(found: Any, cut: bool | None):
    assert through_llm._was_cut(found) is cut


def test_asynchronous_calls_go_on_side_by_side(server: Callable[..., ChatApi]):
    held = threading.Event()
    api = server(lambda asked: Scripted(f"to {asked.prompt}", until=held))

    async def go() -> list[str]:
        asked = [asyncio.create_task(models.llm_query.aio(each)) for each in ("a", "b")]
        await asyncio.to_thread(api.wait_for_waiting, 2)
        held.set()
        return await asyncio.gather(*asked)

    assert asyncio.run(go()) == ["to a", "to b"]


def test_what_cells_call_is_found_in_the_package_itself(server: Callable[..., ChatApi]):
    server(always("yes"))
    assert rlmnb.llm_query("q") == "yes"
    assert rlmnb.map_reduce is models.map_reduce


def test_every_function_that_asks_has_a_twin_for_asynchronous_code(
    server: Callable[..., ChatApi],
):
    server(lambda asked: f"<{asked.prompt[:6]}>")

    async def go() -> list[Any]:
        return await asyncio.gather(
            models.llm_query_batched.aio(["a", "b"], limit=2),
            models.map_reduce.aio(["x"], "about {item}", "all: {results}"),
            models.summarize.aio("text", "Sum it"),
            models.rlm_query.aio("deep", depth=1),
        )

    assert asyncio.run(go()) == [["<a>", "<b>"], "<all: 1>", "<Sum it>", "<deep>"]
    for function in (models.llm_query_batched, models.map_reduce, models.rlm_query):
        assert pickle.loads(pickle.dumps(function)) is function


class Person(BaseModel):
    name: str
    age: int


class Dated(BaseModel):
    model_config = ConfigDict(strict=True)
    on: date


def test_the_twin_takes_the_same_arguments_in_the_same_order(server: Callable[..., ChatApi]):
    server()
    assert asyncio.run(models.allm_query("q", None, "be short", int)) == 1
    assert models.llm_query("q", None, "be short", int) == 1


def test_a_parameter_that_a_model_does_not_take_is_told_with_the_next_step(
    server: Callable[..., ChatApi],
):
    server()
    with pytest.raises(ModelError, match="frobnicate") as caught:
        models.llm_query("q", frobnicate=1)
    assert caught.value.hint is not None
    assert "llm models --options" in caught.value.hint


def test_answers_come_whole(server: Callable[..., ChatApi]):
    api = server(always("a long answer"))
    with pytest.raises(ModelError, match="whole"):
        models.llm_query("q", stream=True)
    assert api.asked == []
    assert models.llm_query("q", stream=False) == "a long answer"
    assert desk_now().done()[0]["request"] == {"prompt": "q"}


def test_a_typed_answer_is_asked_for_again_with_what_was_wrong(server: Callable[..., ChatApi]):
    api = server(["no JSON", '{"name": "Ann"}', '{"name": "Ann", "age": 41}'])
    assert models.llm_query("who?", schema=Person) == Person(name="Ann", age=41)
    assert len(api.asked) == 3
    last = api.asked[2].body["messages"]
    assert [each["role"] for each in last] == ["user", "assistant", "user"]
    assert "age" in last[-1]["content"]
    assert last[0]["content"] == "who?"
    assert "response_format" in api.asked[0].body


def test_a_typed_answer_that_never_fits_is_an_error(server: Callable[..., ChatApi]):
    api = server(lambda _: "never")
    with pytest.raises(AnswerError, match="3 times"):
        models.llm_query("who?", schema=Person)
    assert len(api.asked) == 3


@pytest.mark.parametrize(
    ("schema", "said", "value"),
    [
        (int, '{"value": 7}', 7),
        (list[str], '```json\n{"value": ["a"]}\n```', ["a"]),
        ({"type": "object", "required": ["x"]}, '{"x": 1}', {"x": 1}),
        ({"type": "array"}, '{"value": [1]}', [1]),
        # Models that do not keep to the schema answer with the value itself.
        (int, "7", 7),
        (list[str], '["a"]', ["a"]),
        (Person | int, '{"name": "Ann", "age": 41}', Person(name="Ann", age=41)),
        (Dated, '{"on": "2026-01-31"}', Dated(on=date(2026, 1, 31))),
    ],
)
def test_a_form_is_any_type_or_schema(
    server: Callable[..., ChatApi], schema: Any, said: str, value: Any
):
    server([said])
    assert models.llm_query("q", schema=schema) == value


@pytest.mark.parametrize("schema", [5, "name, age int", object()])
def test_what_is_no_form_is_refused_before_a_request(server: Callable[..., ChatApi], schema: Any):
    api = server()
    with pytest.raises(ModelError, match="schema is a pydantic model, a type or a JSON Schema"):
        models.llm_query("q", schema=schema)
    assert api.asked == []


def test_an_answer_that_is_nested_too_deeply_is_asked_for_again(server: Callable[..., ChatApi]):
    api = server(["[" * 100_000, "[1]"])
    assert models.llm_query("q", schema=list[int]) == [1]
    assert "nested too deeply" in api.prompts[1]


def test_a_server_need_not_tell_what_an_answer_took(server: Callable[..., ChatApi]):
    choice = {"index": 0, "message": {"role": "assistant", "content": "yes"}}
    body = {"id": "x", "model": "m", "choices": [{**choice, "finish_reason": "stop"}]}
    server([Malformed(json.dumps(body).encode(), "application/json")])
    assert models.llm_query("q") == "yes"
    (call,) = desk_now().done()
    assert (call["usage"]["input"], call["usage"]["output"]) == (None, None)
    assert call["cost_usd"] is None


@pytest.mark.parametrize("body", [b"{}", b'{"choices": []}', b"[1]", b"null"])
def test_what_is_no_completion_is_asked_for_again(server: Callable[..., ChatApi], body: bytes):
    api = server([Malformed(body, "application/json"), "yes"])
    assert models.llm_query("q") == "yes"
    assert len(api.asked) == 2
    (attempt,) = desk_now().done()[0]["attempts"]
    assert "no completion" in attempt["error"]


def test_the_text_of_an_error_in_a_cell_has_the_next_step():
    error = ModelError("it did not answer", hint="run: llm keys set openai")
    assert str(error) == "it did not answer\nrun: llm keys set openai"
    assert error.message == "it did not answer"


def test_attachments_are_sent_also_when_an_answer_is_asked_for_again(
    server: Callable[..., ChatApi],
):
    api = server(["no list", "[1, 2]"])
    assert models.llm_query("numbers?", schema=list[int], attachments=[b"\x89PNG 1"]) == [1, 2]
    for asked in api.asked:
        (question,) = (
            each for each in asked.messages if each["role"] == "user" and "numbers?" in str(each)
        )
        assert [part["type"] for part in question["content"]] == ["text", "image_url"]


def test_attachments_are_part_of_the_key(server: Callable[..., ChatApi], tmp_path: Path):
    from rlmnb.models.calling import request_for

    server()
    (tmp_path / "a.png").write_bytes(b"\x89PNG 1")
    path = tmp_path / "a.png"
    one = request_for("q", None, None, [path], {})
    same = request_for("q", None, None, [b"\x89PNG 1"], {})
    path.write_bytes(b"\x89PNG 2")
    other = request_for("q", None, None, [path], {})
    assert one.key() == same.key() != other.key()
    with pytest.raises(ModelError, match="cannot be attached"):
        request_for("q", None, None, [tmp_path / "gone.png"], {})


# decompose and aggregate


def test_map_reduce_asks_of_each_item_and_once_of_the_answers(server: Callable[..., ChatApi]):
    api = server(lambda asked: f"<{asked.prompt[:9]}>")
    answer = models.map_reduce(["x", "y"], "about {item}.", "all: {results}")
    assert answer == "<all: 1. <>"
    assert sorted(api.prompts[:2]) == ["about x.", "about y."]
    assert api.prompts[2] == "all: 1. <about x.>\n\n2. <about y.>"
    roles = [(call["role"], call.get("item")) for call in desk_now().done()]
    assert roles == [("map", 0), ("map", 1), ("reduce", None)]


def test_braces_in_items_and_prompts_are_only_text(server: Callable[..., ChatApi]):
    api = server()
    models.map_reduce(["{results} {x}"], lambda item: f"f: {item}", "{not a field} {results}")
    assert api.prompts[0] == "f: {results} {x}"
    assert api.prompts[1].startswith("{not a field} 1. answer")


def test_a_short_text_is_summarized_in_one_call_and_a_long_one_in_parts(
    server: Callable[..., ChatApi],
):
    api = server()
    models.summarize("short")
    assert len(api.asked) == 1
    lines = [f"line {n} of a long text\n" for n in range(400)]
    models.summarize("".join(lines), size=2000)
    parts = len(api.asked) - 2
    assert parts > 4
    lines[200] = "another line\n"
    before = set(api.prompts)
    models.summarize("".join(lines), size=2000)
    assert len(set(api.prompts) - before) <= 3  # a part or two, and the summary of all


def test_parts_are_the_whole_text_and_none_is_too_long():
    for text in ("", "a", "ab\n" * 500, "x" * 1000, "é\n" * 10 + "y" * 95 + "\n\n\nz"):
        for size in (1, 7, 50, 10_000):
            parts = cut(text, size)
            assert "".join(parts) == text
            assert all(len(part) <= size for part in parts)


def test_peek_and_search_look_at_a_context_without_a_model():
    text = "alpha\nbeta\ngamma\ndelta"
    assert models.peek(text, 0, 5) == "alpha"
    assert models.peek(text, -5) == "delta"
    assert models.peek(["a", 1, "c"], 1) == "1\nc"
    assert models.peek({"k": "v"}) == "'k': v"
    assert models.search(text, "^.e") == ["2: beta", "4: delta"]
    assert models.search(text, "gamma", before=1, after=1) == ["2: beta\n3: gamma\n4: delta"]
    assert models.search(["x1", "y2"], r"\d", limit=1) == ["1: x1"]
    with pytest.raises(ValueError, match="no regular expression"):
        models.search(text, "(")


def test_recursion_ends_at_its_depth_and_a_refusal_is_kept(server: Callable[..., ChatApi]):
    api = server()
    levels: list[int] = []

    def loop(prompt: str, context: Any, *, model: str | None, system: str | None) -> str:
        levels.append(current.depth.get())
        return models.rlm_query(f"{prompt} deeper", context, model=model, system=system)

    recursing.plug(loop)
    try:
        models.rlm_query("q", context="c")
        assert levels == [1]
        assert api.prompts == ["q deeper\n\nContext:\nc"]
        assert desk_now().done()[0]["depth"] == 2
        token = current.depth.set(2)
        with pytest.raises(BudgetError, match="depth 3 is past the limit of 2"):
            models.rlm_query("q")
        current.depth.reset(token)
        assert "depth 3" in desk_now().done()[-1]["error"]
        assert len(api.asked) == 1
    finally:
        recursing.plug(None)
    for depth in (0, 4, True, "1"):
        with pytest.raises(ValueError, match="depth is a number from 1 to 3"):
            models.rlm_query("q", depth=depth)


# which model


def test_no_model_is_an_error_with_the_next_step(monkeypatch: pytest.MonkeyPatch, root: Path):
    monkeypatch.delenv(choosing.VARIABLE, raising=False)
    with pytest.raises(NoModelError) as caught:
        models.llm_query("q")
    for step in ("RLMNB_MODEL", str(root / "config.json"), "rlmnb model fetch"):
        assert step in str(caught.value.hint)
    root.mkdir()
    (root / "config.json").write_text('{"model": "from-the-file"}')
    assert choosing.default_model() == "from-the-file"
    monkeypatch.setenv(choosing.VARIABLE, "from-the-environment")
    assert choosing.default_model() == "from-the-environment"
    for broken in ("[]", "{", '{"model": 5}'):
        (root / "config.json").write_text(broken)
        monkeypatch.delenv(choosing.VARIABLE, raising=False)
        assert choosing.default_model() is None
        with pytest.raises(NoModelError) as caught:
            models.llm_query("q")
        assert "names none now" in str(caught.value.hint)


ECHO = """
from rlmnb.models.request import Answer, Usage

class Echo:
    name = "echo"

    def identity(self, model):
        return f"echo 1 {model}"

    def complete(self, request):
        return Answer(request.prompt.upper(), request.model, Usage(1, 1), cost_usd=0.0)
"""


def test_another_provider_is_a_class_that_the_configuration_names(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "echoing.py").write_text(ECHO)
    monkeypatch.syspath_prepend(tmp_path)
    root.mkdir()

    def name(place: Any) -> None:
        (root / "config.json").write_text(json.dumps({"providers": {"echo": place}}))

    name("echoing:Echo")
    here = Desk(choosing.provider_for)
    monkeypatch.setattr(current, "_now", [current.Surroundings(lambda: here)])
    assert models.llm_query("hello", model="echo/large") == "HELLO"
    (call,) = here.done()
    assert call["parts"]["provider"] == digest.of_value("echo 1 echo/large")
    for place, problem in (
        ("nowhere_at_all:Echo", "cannot be loaded: No module"),
        ("echoing:Ech", "cannot be loaded: module 'echoing' has no attribute"),
        ("echoing", "cannot be loaded"),
        (5, "cannot be loaded"),
        ("json:JSONDecoder", "is no provider"),
    ):
        name(place)
        with pytest.raises(ModelError, match=problem) as caught:
            models.llm_query("hello", model="echo")
        assert caught.value.hint
    (root / "config.json").write_text('{"providers": ["echo"]}')
    assert set(choosing.providers()) >= {"offline"}


def test_a_model_that_is_not_there_is_an_error_with_the_next_step(server: Callable[..., ChatApi]):
    server()
    with pytest.raises(ModelError, match="no model nonsense") as caught:
        models.llm_query("q", model="nonsense")
    assert "llm models" in str(caught.value.hint)


def test_without_the_library_the_error_says_what_to_install():
    code = (
        "import sys; sys.modules['llm'] = None\n"
        "from rlmnb.models import llm_query\n"
        "try: llm_query('q', model='m')\n"
        "except ImportError as error: print(error.hint)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "run: pip install 'rlmnb[llm]'\n"


def test_importing_the_package_or_a_function_loads_nothing_heavy():
    code = (
        "import sys, rlmnb, rlmnb.models; from rlmnb.models import llm_query, map_reduce, verify\n"
        "print([name for name in ('llm', 'pydantic', 'genai_prices', 'openai', 'nbformat') "
        "if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_price_of_a_known_model_is_kept_with_its_calls(server: Callable[..., ChatApi]):
    server(lambda _: Scripted("x", usage=Served(1000, 100)), model=PRICED)
    models.llm_query("q")
    assert desk_now().done()[0]["cost_usd"] == prices.cost(PRICED, 1000, 100)


def test_a_program_without_a_notebook_may_ask_and_be_answered_at_length(
    server: Callable[..., ChatApi],
):
    server(lambda asked: asked.prompt[:20_000])
    assert models.llm_query("x" * 50_000) == "x" * 20_000


def test_text_that_no_notebook_can_hold_comes_back_exactly():
    class Odd(Parrot):
        def complete(self, request: Request) -> Answer:
            self.asked.append(request)
            return Answer("half \ud83d", request.model)

    first = desk_of(Odd())
    ask(request("asked \ud800", system="s \udfff"), first)
    kept = json.loads(json.dumps(first.done(), ensure_ascii=False).encode("utf-8"))
    second = again(replace(first, calls=kept))
    assert ask(request("asked \ud800", system="s \udfff"), second).text == "half \ud83d"
    assert second.done()[0]["from_cache"]


def test_parameters_that_are_no_json_are_refused(server: Callable[..., ChatApi]):
    api = server()
    with pytest.raises(ModelError, match="is JSON"):
        models.llm_query("q", stop={1, 2})
    assert api.asked == []


@pytest.mark.parametrize("wrong", [5, None, b"bytes", ["list"]])
def test_a_prompt_that_is_no_text_is_refused_before_anything_is_asked(
    server: Callable[..., ChatApi], wrong: Any
):
    api = server()
    with pytest.raises(ModelError, match="a prompt is a text"):
        models.llm_query(wrong)
    assert api.asked == []


def test_no_key_gets_into_the_record_not_even_one_that_a_server_repeats(
    server: Callable[..., ChatApi], monkeypatch: pytest.MonkeyPatch
):
    key = "sk-proj-" + "Ab1" * 16
    monkeypatch.setenv("OPENAI_API_KEY", key)
    api = server(lambda _: Failure(401, f"Incorrect API key provided: {key}"))
    with pytest.raises(ModelError) as caught:
        models.llm_query("q")
    assert "llm keys set" in str(caught.value.hint)
    assert key not in str(caught.value)
    assert key not in json.dumps(desk_now().done())
    assert len(api.asked) == 1


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("llm_query('q')", "llm_call"),
        ("a = await llm_query.aio('q')", "llm_call"),
        ("print(llm_query('q'))", "llm_call"),
        ("a = map_reduce(x, 'm', 'r')\nprint(a)", "map_reduce"),
        ("a = llm_query('q')\na", "llm_call"),
        ("a = llm_query('q')\ndisplay(a)", "llm_call"),
        ("a = llm_query('q')\nprint(llm_query(a))", None),
        ("a = llm_query('q')\nb = a", None),
        ("print(llm_query('q'), llm_query('r'))", None),
        ("print('q')", None),
        ("", None),
    ],
)
def test_a_cell_that_is_one_call_kept_or_shown_is_known_by_its_type(source: str, kind: str | None):
    assert type_of_call(source) == kind
