"""Cells that call models: the real kernel and the real `llm` library, against a scripted server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

from rlmnb import Session
from rlmnb.errors import KernelError
from rlmnb.format.record import CellRecord
from rlmnb.models import prices
from rlmnb.models.spending import overview
from rlmnb.replay import warm
from rlmnb.replay.cells import stale_cells
from rlmnb.replay.report import Report
from rlmnb.replay.run import replay
from rlmnb.testing.chat_api import (
    Answer,
    ChatApi,
    Failure,
    always,
    chat_api,
    failing,
    model_directory,
)
from tests.conftest import Run
from tests.unit.test_models import ECHO
from tests.unit.test_serving import asked, call

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("forked")]
# A model with a known price, so that money can be held against the server's own count.
MODEL = "gpt-4o-mini"


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ChatApi]]:
    """Serve a script as the default model of the real library."""
    with ExitStack() as stack:

        def serve(script: Any = None) -> ChatApi:
            api = stack.enter_context(chat_api(script))
            monkeypatch.setenv("LLM_USER_PATH", model_directory(tmp_path / "llm", api, model=MODEL))
            monkeypatch.setenv("RLMNB_MODEL", MODEL)
            return api

        yield serve


def notebook(*cells: str, tags: dict[int, str] | None = None) -> Session:
    made = [nbformat.v4.new_code_cell(each, id=f"c{n}") for n, each in enumerate(cells)]
    for number, tag in (tags or {}).items():
        made[number].metadata["tags"] = [tag]
    nbformat.write(nbformat.v4.new_notebook(cells=made), "nb.ipynb")
    return Session.open("nb.ipynb")


def edit(number: int, source: str) -> None:
    whole = nbformat.read("nb.ipynb", 4)
    whole.cells[number].source = source
    nbformat.write(whole, "nb.ipynb")


def again(**wishes: Any) -> Report:
    return replay(Session.open("nb.ipynb"), **wishes)


def record(number: int) -> dict[str, Any]:
    found = json.loads(Path("nb.ipynb").read_text())["cells"][number]["metadata"]["rlmnb"]
    CellRecord.model_validate(found)
    return found


def shown(number: int) -> str:
    cell = nbformat.read("nb.ipynb", 4).cells[number]
    return "".join(output.get("text", "") for output in cell.outputs)


def test_of_ten_calls_two_edited_ones_are_two_requests_and_the_report_says_what_was_saved(
    serve: Callable[..., ChatApi], run: Run
):
    api = serve()
    notebook(*(f"a{n} = llm_query('question {n}')" for n in range(9)), "print(llm_query('last'))")
    first = again()
    assert first.errors == {}
    assert len(api.asked) == 10
    whole = first.calls.as_dict()
    assert whole["tokens_made"] == api.served.total
    assert whole["usd_made"] == pytest.approx(
        prices.cost(MODEL, api.served.input, api.served.output), abs=1e-9
    )
    before = api.served
    edit(3, "a3 = llm_query('another question')")
    edit(7, "a7 = llm_query('yet another')")
    second = again()
    assert second.executed == ["c3", "c7"]
    assert len(api.asked) == 12
    counted = second.calls.as_dict()
    assert (counted["made"], counted["reused"]) == (2, 8)
    now = api.served
    assert counted["tokens_made"] == now.total - before.total
    replaced = [record(n)["calls"][1]["usage"] for n in (3, 7)]
    old = [sum(use[side] for use in replaced) for side in ("input", "output")]
    assert counted["tokens_saved"] == before.total - sum(old)
    assert counted["usd_saved"] == pytest.approx(
        prices.cost(MODEL, before.input - old[0], before.output - old[1]), abs=1e-9
    )
    found = overview(Session.open("nb.ipynb").stored_state())
    assert (found["spent"]["tokens"], found["saved"]["calls"]) == (now.total, 8)
    assert found["saved"]["usd"] == pytest.approx(counted["usd_saved"], abs=1e-9)
    verified = run("replay", "nb.ipynb", "--verify", "--json")
    assert verified.returncode == 0, verified.stdout
    assert json.loads(verified.stdout)["calls"]["made"] == 0
    assert json.loads(verified.stdout)["calls"]["reused"] == 10
    assert len(api.asked) == 12


def test_a_changed_item_of_fifty_makes_two_requests(serve: Callable[..., ChatApi]):
    api = serve()
    notebook(
        "items = [f'item {n}' for n in range(50)]",
        "result = map_reduce(items, 'about {item}', 'all of {results}')",
        "print(result)",
    )
    assert again().errors == {}
    assert len(api.asked) == 51
    assert record(1)["type"] == "map_reduce"
    edit(0, "items = [f'item {n}' if n != 20 else 'another' for n in range(50)]")
    report = again()
    assert len(api.asked) == 53
    assert report.executed == ["c0", "c1", "c2"]
    counted = report.calls.as_dict()
    assert (counted["made"], counted["reused"]) == (2, 49)
    assert "about another" in api.prompts[51]
    assert api.prompts[52].startswith("all of")


def test_a_loop_of_a_hundred_calls_of_which_one_changed_makes_one(serve: Callable[..., ChatApi]):
    api = serve()
    loop = "said = [llm_query(f'{n} {WORD}' if n == 40 else f'{n}') for n in range(100)]"
    notebook(loop.replace("{WORD}", "one"), "print(len(set(said)))")
    assert again().errors == {}
    assert len(api.asked) == 100
    edit(0, loop.replace("{WORD}", "two"))
    report = again()
    assert len(api.asked) == 101
    assert report.calls.as_dict()["reused"] == 99
    # And taking the edit back costs nothing: what it had asked before is still there.
    edit(0, loop.replace("{WORD}", "one"))
    assert again().calls.as_dict()["made"] == 0
    assert len(api.asked) == 101


def test_the_record_has_all_of_a_call_and_nothing_of_the_library(
    serve: Callable[..., ChatApi], tmp_path: Path
):
    serve(failing([Failure(503), Failure(429, retry_after=0)], then=always("Paris " * 4000)))
    Path("notes.txt").write_text("geography")
    notebook(
        "import random, warnings; random.seed(1)",
        "answer = llm_query(read_file('notes.txt') + ': capital?', system='s', temperature=0)",
        "mine = [random.random(), len(warnings.filters)]",
        "state = [name for name in dir() if name in ('llm_query', 'tools', 'cell')]\nstate",
    )
    assert again().errors == {}
    found = record(1)
    assert found["type"] == "llm_call"
    (call,) = found["calls"]
    assert call["response"] is None
    assert found["output"]["cached_response"] == {
        "key": call["key"], "object": call["object"], "response": None,
    }  # fmt: skip
    assert len(call["attempts"]) == 2
    assert found["metadata"]["model"] == MODEL
    assert found["metadata"]["temperature"] == 0
    assert found["metadata"]["tokens_used"] == call["usage"]["input"] + call["usage"]["output"]
    trace = found["run"]
    assert [os.path.basename(path) for path in trace["files_read"]] == ["notes.txt"]
    assert (trace["asked"], trace["listed"], trace["flags"]) == ({}, {}, [])
    assert [write["names"] for write in trace["writes"]] == [["answer"]]
    assert trace["default_model"] == MODEL
    assert record(3)["run"]["writes"][0]["names"] == ["state"]
    assert os.listdir(tmp_path / "llm") == ["extra-openai-models.yaml"]
    # The answer is in an object, and comes back whole.
    edit(2, "print(len(answer))")
    report = again()
    assert (report.executed[:1], report.calls.as_dict()["made"]) == (["c2"], 0)
    assert shown(2) == f"{len('Paris ' * 4000)}\n"


def test_without_calls_a_notebook_is_replayed_from_itself_or_says_what_changed(
    serve: Callable[..., ChatApi], run: Run, monkeypatch: pytest.MonkeyPatch
):
    api = serve()
    notebook("a = llm_query('one', temperature=0)", "print('said', a)")
    assert again().errors == {}
    monkeypatch.delenv("RLMNB_MODEL")
    monkeypatch.setenv("LLM_USER_PATH", "/nowhere")
    edit(0, "# a comment\na = llm_query('one', temperature=0)\nb = 1")
    report = again(calls="none")
    assert (report.executed, report.failed) == (["c0"], [])
    edit(0, "a = llm_query('one', temperature=1)")
    done = run("replay", "nb.ipynb", "--calls", "none", "--json")
    assert done.returncode == 1
    error = json.loads(done.stdout)["errors"]["c0"]
    assert "CallNotKeptError: c0 asks gpt-4o-mini" in error
    assert "what changed: parameters" in error
    assert len(api.asked) == 1


def test_another_default_model_makes_stale_what_used_the_default(
    serve: Callable[..., ChatApi], monkeypatch: pytest.MonkeyPatch
):
    serve()
    notebook("a = llm_query('one')", f"b = llm_query('two', model='{MODEL}')", "c = 1")
    assert again().errors == {}
    monkeypatch.setenv("RLMNB_MODEL", "another")
    assert stale_cells(Session.open("nb.ipynb")) == {
        "c0": [f"the default model was {MODEL}, it is another now"]
    }
    monkeypatch.delenv("RLMNB_MODEL")
    assert stale_cells(Session.open("nb.ipynb")) == {}


def test_a_budget_is_kept_before_the_call_and_force_goes_past_it(
    serve: Callable[..., ChatApi], run: Run
):
    api = serve()
    notebook("a = llm_query('one')", "b = llm_query('two')", "c = llm_query('three')")
    assert run("budget", "nb.ipynb", "--set", "calls=2").returncode == 0
    report = again()
    assert report.failed == ["c2"]
    assert "2 of 2 calls were made" in report.errors["c2"]
    assert "error" in record(2)["calls"][0]
    assert len(api.asked) == 2
    shown = json.loads(run("budget", "nb.ipynb", "--json").stdout)
    assert (shown["spent"]["calls"], shown["limits"]["calls"]) == (2, 2)
    assert shown["spent"]["tokens"] == api.served.total
    assert run("replay", "nb.ipynb", "3", "--force").returncode == 0
    assert len(api.asked) == 3
    assert json.loads(run("budget", "nb.ipynb", "--json").stdout)["spent"]["calls"] == 3


def test_modes_and_expiry_of_a_replay_and_of_a_cell(serve: Callable[..., ChatApi]):
    api = serve()
    notebook(
        "a = llm_query('one')",
        "b = llm_query('two')",
        "c = llm_query('two')",
        tags={1: "rlmnb:calls=new_episodes", 2: "rlmnb:calls=new_episodes"},
    )
    assert again().errors == {}
    assert len(api.asked) == 3
    report = again(calls="all")
    assert report.executed == ["c0", "c1", "c2"]
    assert report.causes["c0"] == ["its model calls are to be made anew"]
    assert report.calls.as_dict()["made"] == 1  # the tags of the others keep what they have
    assert again(calls_expire=3600).executed == []
    assert again(calls_expire=0).calls.as_dict()["made"] == 3
    assert len(api.asked) == 7
    assert [call["current"] for call in record(0)["calls"]] == [True]


def test_providers_of_a_package_and_of_the_configuration_answer_in_cells(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
):
    code = ECHO + "\nclass Loud(Echo):\n    name = 'loud'\n"
    (tmp_path / "echoing.py").write_text(code)
    package = tmp_path / "echoing-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: echoing\nVersion: 1\n")
    (package / "entry_points.txt").write_text("[rlmnb.providers]\nloud = echoing:Loud\n")
    root.mkdir()
    (root / "config.json").write_text('{"providers": {"echo": "echoing:Echo"}, "model": "echo"}')
    monkeypatch.delenv("RLMNB_MODEL", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    notebook("a = llm_query('one')", "print(a, llm_query_batched(['two'], model='loud/x'))")
    report = again()
    assert report.errors == {}
    assert shown(1) == "ONE ['TWO']\n"
    assert report.calls.as_dict()["made"] == 2
    assert again(force=frozenset({"c0", "c1"}), calls="none").calls.as_dict()["reused"] == 2
    listed = json.loads(run("model", "list", "--json").stdout)
    assert {"model": "loud/…", "through": "echoing:Loud", "ready": None} in listed


def test_equal_questions_of_two_cells_are_asked_once(serve: Callable[..., ChatApi]):
    api = serve()
    notebook("a = llm_query('same')", "b = llm_query('same')", "print(a == b)")
    assert again().calls.as_dict()["made"] == 1
    assert len(api.asked) == 1
    assert shown(2) == "True\n"


def test_a_cell_that_looks_at_another_depends_on_it(serve: Callable[..., ChatApi]):
    serve(
        lambda asked: {"holds": "result:\n2" in asked.prompt, "confidence": 0.9, "reason": "sums"}
    )
    notebook(
        "print(1 + 1)",
        "seen = cell('c0')\nprint(seen.output, seen.source)",
        "checked = verify(1, lambda cell: (cell.output == '2\\n', 0.8))",
        "judged = verify('c0', 'is it right?')",
        "other = 5",
    )
    assert again().errors == {}
    assert shown(1) == "2\n print(1 + 1)\n"
    assert record(1)["dependencies"] == [{"cell_id": "c0", "reason": "cell()"}]
    found = record(2)
    assert (found["type"], found["confidence"], found["evidence"]) == ("verification", 0.8, ["c0"])
    assert found["verification"]["holds"] is True
    assert record(3)["verification"]["by"] == MODEL
    assert again().executed == []
    edit(0, "print(1 + 2)")
    assert again().executed == ["c0", "c1", "c2", "c3"]
    assert record(2)["verification"]["holds"] is False
    assert record(3)["verification"]["holds"] is False
    # An equal output of other code is seen, too: the code was looked at.
    edit(0, "print(2 + 1)")
    assert again().executed == ["c0", "c1", "c2", "c3"]
    edit(0, "print(cell('c4').source)")
    report = again()
    assert "is not above c0" in report.errors["c0"]


def said(kind: str, text: str, cell_id: str) -> nbformat.NotebookNode:
    event = {"type": kind, "created_at": "2026-11-17T09:00:00.000Z"}
    return nbformat.v4.new_markdown_cell(text, id=cell_id, metadata={"rlmnb_event": event})


def test_a_cell_that_looks_at_the_conversation_depends_on_what_is_said_above_it():
    look = "turns = conversation()\nprint(turns, [each['text'] for each in conversation(last=1)])"
    cells = [
        said("prompt", "> sum it\n>\n> > all of it", "p1"),
        nbformat.v4.new_code_cell("x = 1", id="c1"),
        nbformat.v4.new_markdown_cell("a note that nobody said", id="n1"),
        said("answer", "> it is 1", "a1"),
        said("system", "began", "s1"),
        nbformat.v4.new_code_cell(look, id="c2"),
        said("prompt", "> later", "p2"),
        nbformat.v4.new_code_cell("print(len(turns), conversation(last=0))", id="c3"),
        nbformat.v4.new_code_cell("plain = 5", id="c4"),
    ]

    def write(changed: list[Any]) -> None:
        nbformat.write(nbformat.v4.new_notebook(cells=changed), "nb.ipynb")

    def saved() -> Any:
        return nbformat.read("nb.ipynb", 4).cells

    write(cells)
    assert again().errors == {}
    turns = [
        {"role": "user", "text": "sum it\n\n> all of it", "cell_id": "p1"},
        {"role": "assistant", "text": "> it is 1", "cell_id": "a1"},
    ]
    assert shown(5) == f"{turns} ['> it is 1']\n"
    assert shown(7) == "2 []\n"
    assert record(5)["run"]["conversation"]
    assert again().executed == []
    # A note is nobody's word, and what is said below has not been said yet.
    edit(2, "another note")
    edit(6, "> even later")
    assert again().executed == ["c3"]
    edit(0, "> sum it up")
    stale = stale_cells(Session.open("nb.ipynb"))
    why = ["the conversation above it, which it looks at, changed"]
    assert stale["c2"] == why
    assert sorted(stale) == ["c2", "c3"]
    assert again().executed == ["c2", "c3"]
    assert again().executed == []
    write([said("answer", "added", "a0"), *saved()])
    assert again().executed == ["c2", "c3"]
    assert again().executed == []
    write([cell for cell in saved() if cell.id != "a1"])
    assert again().executed == ["c2", "c3"]
    assert again().executed == []
    # A cell that no longer looks at it no longer depends on it.
    at = [cell.id for cell in saved()].index("c2")
    edit(at, "turns = []")
    again()
    edit(0, "another answer")
    assert again().executed == ["c3"]


def test_a_persons_own_name_comes_before_ours(serve: Callable[..., ChatApi]):
    api = serve()
    notebook("def llm_query(text): return 'mine'", "search = 5", "print(llm_query('q'), search)")
    assert again().errors == {}
    assert shown(2) == "mine 5\n"
    assert api.asked == []
    edit(0, "pass")
    assert again().executed == ["c0", "c2"]
    assert len(api.asked) == 1


def test_asynchronous_and_batched_calls_in_a_cell_are_kept_in_the_order_of_the_code(
    serve: Callable[..., ChatApi],
):
    api = serve()
    notebook(
        "import asyncio\n"
        "said = await asyncio.gather(*(llm_query.aio(f'a{n}') for n in range(5)))\n"
        "said += llm_query_batched([f'b{n}' for n in range(5)], limit=5)",
        "import threading; print(len(said), threading.active_count())",
        "keep = llm_query; print(keep is llm_query)",
        "print(keep)",
    )
    report = again()
    assert report.errors == {}
    prompts = [call["request"]["prompt"] for call in record(0)["calls"]]
    assert prompts == [f"{letter}{n}" for letter in "ab" for n in range(5)]
    assert len(api.asked) == 10
    edit(3, "print(keep('c'))")
    assert again().executed == ["c3"]
    assert len(api.asked) == 11


def test_threads_of_a_cell_that_ask_at_once_lose_no_answer(serve: Callable[..., ChatApi]):
    api = serve()
    notebook(
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from threading import Barrier\n"
        "together = Barrier(8)\n"
        "def asked(text):\n    together.wait()\n    return llm_query(text)\n"
        "with ThreadPoolExecutor(8) as pool: said = list(pool.map(asked, 'abcdefgh'))",
        "b = [llm_query('i')]",
    )
    first = again()
    assert first.errors == {}
    assert first.calls.as_dict()["made"] == len(api.asked) == 9
    assert sorted(call["request"]["prompt"] for call in record(0)["calls"]) == list("abcdefgh")
    assert again(force=frozenset({"c0", "c1"}), calls="none").calls.as_dict()["reused"] == 9


def test_a_server_that_fails_costs_no_answer_that_was_kept(serve: Callable[..., ChatApi]):
    serve(failing([Answer("first")], then=always(Failure(400))))
    notebook("print(llm_query('one'))")
    assert again().errors == {}
    assert again(calls="all").failed == ["c0"]
    assert again(calls="none").errors == {}
    assert shown(0) == "first\n"


def test_a_proof_that_fails_leaves_the_notebook_as_it_was(serve: Callable[..., ChatApi], run: Run):
    serve()
    notebook("print(llm_query('one'))")
    assert again().errors == {}
    edit(0, "print(llm_query('two'))")
    assert run("status", "nb.ipynb").returncode == 0
    before = Path("nb.ipynb").read_bytes()
    done = run("replay", "nb.ipynb", "--verify")
    assert (done.returncode, "source edited" in done.stdout) == (1, True)
    assert Path("nb.ipynb").read_bytes() == before


def test_a_warm_kernel_makes_no_call_twice_and_sees_what_was_pruned(
    serve: Callable[..., ChatApi], run: Run
):
    from rlmnb.replay import warm

    api = serve()
    session = notebook("a = llm_query('one')", "b = llm_query('two')")
    try:
        assert again(keep_kernel=True).errors == {}
        edit(0, "a = llm_query('other')")
        again()
        edit(0, "a = llm_query('one')")
        assert again().kernel == "warm"
        assert len(api.asked) == 3
        dry = run("calls", "prune", "nb.ipynb", "--json")
        assert json.loads(dry.stdout) == {"cells": {"c0": [1]}, "dry_run": True, "removed": 1}
        assert run("calls", "prune", "nb.ipynb", "--yes").returncode == 0
        listed = json.loads(run("calls", "nb.ipynb", "--json").stdout)
        assert [call["request"]["prompt"] for call in listed] == ["one", "two"]
        edit(0, "a = llm_query('other')")
        again()
        assert len(api.asked) == 4
    finally:
        warm.stop(session.place)


def test_the_plan_says_which_cells_may_call_a_model(serve: Callable[..., ChatApi], run: Run):
    api = serve()
    notebook("def ask(text): return llm_query(text)", "a = ask('one')", "b = 2")
    assert again().errors == {}
    edit(0, "def ask(text): return llm_query(text + '!')")
    planned = json.loads(run("replay", "nb.ipynb", "--dry-run", "--json").stdout)["would_execute"]
    assert [(each["cell_id"], each.get("may_call_models", False)) for each in planned] == [
        ("c0", True),
        ("c1", True),
    ]
    assert len(api.asked) == 1


def test_a_recorded_call_is_made_when_it_is_stale_and_a_model_is_there(
    serve: Callable[..., ChatApi], monkeypatch: pytest.MonkeyPatch
):
    session = Session.create("demo", cwd=".")
    session.append("x = 'one'", output="")
    said = session.append("answer = llm_query(x)", type="llm_call", output="said then")
    session.append("print(answer)", output="said then\n")
    monkeypatch.delenv("RLMNB_MODEL", raising=False)
    session.invalidate("1", "was wrong")
    report = replay(Session.open("demo"))
    assert report.skipped[0] == said
    assert "no model is configured" in report.causes[said][-1]
    api = serve(always("said now"))
    report = replay(Session.open("demo"))
    assert report.errors == {}
    assert len(api.asked) == 1
    assert Session.open("demo").cells[2].outputs[0]["text"] == ["said now\n"]


def test_answers_that_never_fit_are_asked_for_anew_by_the_next_replay(
    serve: Callable[..., ChatApi],
):
    api = serve(["no", "still no", "never", "[1, 2]"])
    notebook("a = llm_query('two numbers', schema=list[int])\nprint(a)")
    assert "AnswerError" in again().errors["c0"]
    assert [call["rejected"] for call in record(0)["calls"]] == [True] * 3
    assert "AnswerError" in again(calls="none").errors["c0"]
    assert len(api.asked) == 3
    assert again().errors == {}
    assert (len(api.asked), shown(0)) == (4, "[1, 2]\n")
    assert record(0)["type"] == "llm_call"
    assert record(0)["output"]["cached_response"]["response"] == "[1, 2]"
    assert again(force=frozenset({"c0"}), calls="none").errors == {}


def test_a_cell_without_a_model_shows_the_next_step(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("RLMNB_MODEL", raising=False)
    notebook("a = llm_query('one')")
    assert "export RLMNB_MODEL=" in again().errors["c0"]


def test_a_call_that_becomes_other_code_is_run_as_such(serve: Callable[..., ChatApi]):
    api = serve()
    notebook("a = llm_query('one')", "print(a)")
    assert again().errors == {}
    assert record(0)["type"] == "llm_call"
    assert record(0)["output"]["cached_response"]["response"] == record(0)["calls"][0]["response"]
    edit(0, "a = 5")
    assert again().executed == ["c0", "c1"]
    assert (record(0)["type"], shown(1)) == ("repl", "5\n")
    assert record(0)["output"]["cached_response"] is None
    assert len(api.asked) == 1


def test_a_failed_cell_keeps_the_answers_it_had_paid_for(serve: Callable[..., ChatApi]):
    api = serve()
    notebook("a = [llm_query(f'{n}') for n in range(3)]\nraise ValueError('late')")
    assert again().failed == ["c0"]
    edit(0, "a = [llm_query(f'{n}') for n in range(3)]")
    assert again().calls.as_dict() | {"by_model": {}} == again().calls.as_dict() | {"by_model": {}}
    assert len(api.asked) == 3


def test_answers_of_a_cell_whose_kernel_died_are_not_paid_for_twice(serve: Callable[..., ChatApi]):
    api = serve()
    loop = "a = [llm_query(f'{n}') for n in range(4)]"
    notebook(loop + "\nimport os; os._exit(1)")
    with pytest.raises(KernelError):
        again()
    assert len(api.asked) == 4
    edit(0, loop + "\nprint(len(a))")
    report = again()
    assert report.calls.as_dict()["reused"] == 4
    assert len(api.asked) == 4
    assert os.listdir(".rlmnb/nb.ipynb/calls") == []
    found = overview(Session.open("nb.ipynb").stored_state())
    assert (found["spent"]["tokens"], found["saved"]["calls"]) == (api.served.total, 4)
    assert "left_over" not in record(0)["run"]


def test_an_interrupt_costs_no_answer_that_was_paid_for(serve: Callable[..., ChatApi]):
    never = threading.Event()
    api = serve(lambda asked: Answer("late", until=never) if asked.prompt == "slow" else "early")
    notebook("a = [llm_query(text) for text in ('one', 'two', 'slow')]")
    process = subprocess.Popen([sys.executable, "-m", "rlmnb", "replay", "nb.ipynb"])
    assert api.wait_for_waiting(1)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    never.set()
    counted = again().calls.as_dict()
    assert (counted["made"], counted["reused"]) == (1, 2)
    assert api.prompts.count("one") == 1
    assert os.listdir(".rlmnb/nb.ipynb/calls") == []


def test_a_cell_run_by_hand_in_a_server_finds_what_its_notebook_keeps(
    serve: Callable[..., ChatApi],
):
    api = serve()
    notebook("a = llm_query('one')", "b = 2")
    assert again().errors == {}

    async def by_hand() -> list[int]:
        manager = AsyncKernelManager(transport="ipc", connection_file="kernel.json")
        manager._kernel_spec = KernelSpec(
            argv=[sys.executable, "-m", "rlmnb.kernel", "-f", "{connection_file}"],
            env={"JPY_SESSION_NAME": str(Path("nb.ipynb").absolute())},
        )
        whole = nbformat.read("nb.ipynb", 4)
        client = NotebookClient(whole, km=manager)
        asked = []
        async with client.async_setup_kernel(cleanup_kc=True):
            for prompt in ("one", "two", "two"):
                client.kc.session.metadata = {"cellId": "c0", **whole.cells[0].metadata}
                code = f"a = llm_query('{prompt}')"
                reply = await client.kc.execute_interactive(code, output_hook=lambda _: None)
                assert reply["content"]["status"] == "ok"
                asked.append(len(api.asked))
        return asked

    assert asyncio.run(by_hand()) == [1, 2, 2]
    # Saved, the cell is what was run by hand, and its record has the call.
    edit(0, "a = llm_query('two')")
    assert again().executed == []
    calls = Session.open("nb.ipynb").cells[0].raw["metadata"]["rlmnb"]["calls"]
    assert [(call["request"]["prompt"], call["current"]) for call in calls] == [
        ("two", True),
        ("one", False),
    ]
    edit(0, "a = llm_query('two')\nb = a")
    assert again().calls.as_dict()["made"] == 0
    assert len(api.asked) == 2


def test_an_agent_asks_through_cells_that_are_kept_and_replayed(
    serve: Callable[..., ChatApi], run: Run
):
    api = serve(lambda asked: f"to {asked.prompt}")
    Session.create("s", cwd=".").append("parts = ['a\\nTODO b', 'c']", output="")
    prompt = {"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": "so\n> it is?"}
    subprocess.run(
        [sys.executable, "-m", "rlmnb.hook"], input=json.dumps(prompt).encode(), check=True
    )
    try:
        answers = asked(
            call("peek", session="s", context="parts", start=1),
            call("search", session="s", context="parts", pattern="TODO"),
            call("llm_query", session="s", prompt="it's {odd}?", into="said"),
            call("map_reduce", session="s", items="parts", map_prompt="m", reduce_prompt="r"),
            call("memory_query", session="s", query="before?"),
            call("conversation", session="s", last=2),
        )
    finally:
        warm.stop(Session.open("s").place)
    cells = [json.loads(each["result"]["content"][0]["text"]) for each in answers]
    assert [each["status"] for each in cells] == ["completed"] * 6
    shown = ["".join(each["outputs"][0]["text"]) for each in cells]
    assert shown[0] == "c\n"
    assert "TODO b" in shown[1]
    assert shown[2] == "to it's {odd}?\n"
    assert "no memory yet" in shown[4]
    assert "'role': 'user', 'text': 'so\\n> it is?', 'cell_id': " in shown[5]
    assert len(api.asked) == 1 + 3
    assert [cell.type for cell in Session.open("s").cells][4:6] == ["llm_call", "map_reduce"]
    assert run("replay", "s", "--force", "--calls", "none").returncode == 0
    assert len(api.asked) == 1 + 3
