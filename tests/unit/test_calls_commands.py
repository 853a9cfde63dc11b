"""`rlmnb calls`, `rlmnb budget`, and costs in `show` and `stats`: no kernel, no model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rlmnb
from rlmnb import Session, digest
from rlmnb.cli import text
from tests.conftest import Run

KEY, OTHER = digest.of_text("one"), digest.of_text("two")


def call(key: str = KEY, **fields: Any) -> dict[str, Any]:
    return {
        "key": key, "model": "gpt-4o-mini", "answered_by": "gpt-4o-mini-2024-07-18",
        "request": {"prompt": "q"}, "response": "r", "usage": {"input": 10, "output": 5},
        "cost_usd": 0.0042, "at": "2026-01-01T00:00:00Z", **fields,
    }  # fmt: skip


@pytest.fixture
def demo() -> Session:
    made = {"source": "a = llm_query('q')", "type": "llm_call", "output": "r\n"}
    rlmnb.append("demo", {**made, "calls": [call(), call(OTHER, current=False)]})
    rlmnb.append("demo", {"source": "b = 1", "output": ""})
    failed = {"error": "busy", "response": None, "model": "other", "cost_usd": None, "usage": {}}
    rlmnb.append("demo", {**made, "calls": [call(**failed)]})
    return Session.open("demo")


def test_calls_are_listed_with_what_they_took(
    demo: Session, run: Run, run_json: Callable[..., Any]
):
    shown = run("calls", "demo").stdout.splitlines()
    assert len(shown) == 3
    first = shown[0].split("\t")
    assert first[:5] == [demo.cells[0].cell_id, "gpt-4o-mini", KEY[7:22], "10+5", "$0.0042"]
    assert [line.split("\t")[-1] for line in shown] == ["made", "former", "failed"]
    assert shown[2].split("\t")[3:5] == ["-", "-"]
    assert [each["key"] for each in run_json("calls", "demo")] == [KEY, OTHER, KEY]
    assert len(run_json("calls", "demo", "--model", "other")) == 1
    assert len(run_json("calls", "demo", "--cell", "1")) == 2
    assert run("calls", "demo", "extra").returncode == 2


def test_a_cell_tells_what_it_asked_and_what_it_found(demo: Session, run: Run):
    lines = run("cell", "demo", "1").stdout.splitlines()
    assert "model    gpt-4o-mini-2024-07-18: 1 call, 15 tokens, $0.0042" in lines
    assert not any("model " in line for line in run("cell", "demo", "2").stdout.splitlines())
    assert "model    1 call without an answer: busy" in run("cell", "demo", "3").stdout
    unpriced = call(OTHER, cost_usd=None, attempts=[{"at": "2026-01-01T00:00:00Z", "error": "x"}])
    verdict = {"of": demo.cells[0].cell_id, "holds": False, "confidence": None, "by": "code"}
    made = {"source": "verify(1, 'so?')", "type": "verification", "verification": verdict}
    rlmnb.append("demo", {**made, "calls": [call(), unpriced]})
    shown = run("cell", "demo", "4").stdout
    assert "2 calls, 30 tokens, price unknown, 1 failed attempt" in shown
    assert f"verdict  {verdict['of']} does not hold, confidence unknown, by code" in shown


def test_pruning_says_what_it_would_do_first(demo: Session, run: Run, run_json: Callable[..., Any]):
    cell = demo.cells[0].cell_id
    assert run_json("calls", "prune", "demo")["cells"] == {cell: [1]}
    assert len(run_json("calls", "demo")) == 3
    assert run_json("calls", "prune", "demo", "--yes") == {
        "dry_run": False, "removed": 1, "cells": {cell: [1]},
    }  # fmt: skip
    assert len(run_json("calls", "demo")) == 2
    assert run_json("calls", "prune", "demo", "--older-than", "1d", "--yes")["removed"] == 2
    assert run("calls", "demo").stderr == "no model calls\n"
    assert run("calls", "prune", "demo", "--older-than", "soon").returncode == 2
    assert run("verify", "demo").returncode == 0


def test_pruning_by_model_leaves_the_answers_of_others(run_json: Callable[..., Any]):
    former = [call(current=False), call(OTHER, current=False, model="other", answered_by="other")]
    made = {"source": "a = llm_query('q')", "type": "llm_call", "output": "r\n"}
    rlmnb.append("demo", {**made, "calls": former})
    assert run_json("calls", "prune", "demo", "--model", "other", "--yes")["removed"] == 1
    assert [each["key"] for each in run_json("calls", "demo")] == [KEY]


@pytest.mark.parametrize(
    ("amount", "shown"),
    [(0, "$0.0000"), (0.00000213, "$0.0000021"), (0.000042, "$0.000042"), (0.0042, "$0.0042"),
     (1234.5, "$1,234.50"), (None, "-")],
)  # fmt: skip
def test_an_amount_of_money_is_never_shown_as_nothing(amount: float | None, shown: str):
    assert text.money(amount) == shown


def test_limits_are_set_checked_and_taken_away(
    demo: Session, run: Run, run_json: Callable[..., Any]
):
    wanted = ("tokens=1000", "calls=7", "usd=2.5", "recursive=3", "depth=3")
    limits = run_json("budget", "demo", "--set", *wanted)["limits"]
    assert limits == {"tokens": 1000, "calls": 7, "usd": 2.5, "recursive_calls": 3, "depth": 3}
    assert run_json("budget", "demo", "--set", "usd=none")["limits"]["usd"] is None
    assert "0 of 7" in run("budget", "demo").stdout
    for wrong in (
        *("depth=4", "depth=0", "calls=-1", "calls=x", "usd=nan", "money=5", "depth=none"),
        *("calls", "calls=", "usd=inf"),
    ):
        done = run("budget", "demo", "--set", wrong)
        assert done.returncode == 2, wrong
    limits = run_json("budget", "demo")["limits"]
    assert (limits["depth"], limits["calls"]) == (3, 7)


def test_what_an_agents_tokens_cost_is_derived_and_never_stored(
    demo: Session, run: Run, run_json: Callable[..., Any]
):
    use = {"calls": 1, "tokens": 1100, "input_tokens": 1000, "output_tokens": 100}
    state = demo.state
    state.budget = state.budget.model_validate(
        {"total_tokens_used": 1100, "by_model": {"claude-sonnet-4-5": use}}
    )
    demo.save()
    expected = pytest.approx(0.0045)
    assert run_json("show", "demo")["budget"]["cost_usd"] == expected
    assert run_json("stats", "demo")["cost_usd"] == expected
    assert run_json("budget", "demo")["agent"]["usd"] == expected
    assert "$0.00" in run("show", "demo").stdout
    assert "$0.0045" in run("budget", "demo").stdout
    stored = Session.open("demo").stored_state()["budget"]["by_model"]["claude-sonnet-4-5"]
    assert stored.get("cost_usd") is None


def test_a_price_that_nobody_knows_is_said_to_be_unknown(
    demo: Session, run: Run, run_json: Callable[..., Any]
):
    state = demo.state
    use = {"calls": 1, "tokens": 10, "input_tokens": 5, "output_tokens": 5}
    state.budget = state.budget.model_validate({"by_model": {"model-of-nobody": use}})
    demo.save()
    assert run_json("budget", "demo")["agent"]["usd"] is None
    assert "price unknown" in run("budget", "demo").stdout
    assert "1 model of unknown price" in run("show", "demo").stdout
