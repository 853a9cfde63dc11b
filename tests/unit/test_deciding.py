"""Decisions, the code that they become, and the loop over them; no kernel, no model."""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rlmnb.errors import AnswerError, BudgetError, ModelError
from rlmnb.models.activating import activation
from rlmnb.models.contexts import outline, split_context
from rlmnb.models.deciding import WHEN_TO_EXECUTE, DecisionForm, asking, prompt_for
from rlmnb.models.decisions import Action, Decision, Done, Seen
from rlmnb.models.looping import Result, work
from rlmnb.models.stepping import Step, step_for

SEEN = Seen(question="how many?", outline="a list", has_context=True, steps_left=8)
FOUND = Done(1, Action.EXECUTE, "count", "3")


def read(text: str, seen: Seen = SEEN) -> Decision:
    return DecisionForm(seen).read(text)


def execute(code: str, **more: Any) -> str:
    return json.dumps({"action": "EXECUTE", "goal": "g", "code": code, **more})


def source(text: str, seen: Seen = SEEN) -> str:
    return step_for(read(text, seen), seen, "m").source


def value_of(code: str, **names: Any) -> Any:
    """Run a step's code and return its result."""
    step = step_for(read(execute(code)), SEEN, None)
    exec(step.code, names)
    return names["step_1"]


@pytest.mark.parametrize(
    "code",
    [
        "step_1 = sum(context)",
        "sum(context)",
        "print(sum(context))",
        "total = sum(context)",
        "total = 0\nfor each in context:\n    total += each\ntotal",
        "import math  # comment\nmath.fsum(context)",
        "a = 1; sum(context)",
        "```python\nsum(context)\n```",
        "x: int = sum(context)",
    ],
)
def test_code_says_by_its_last_line_what_its_result_is(code: str) -> None:
    assert value_of(code, context=[1, 2, 3]) == 6


def test_a_print_of_several_things_is_their_text() -> None:
    assert value_of("print('sum', sum(context))", context=[1, 2]) == "sum 3"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("no idea", "found none"),
        ("{not json}", "no JSON"),
        ('{"action": "GUESS"}', "action"),
        ('{"goal": "x"}', "action"),
        (execute(""), "needs `code`"),
        (execute("def f(:"), "no Python"),
        (execute("for x in context: pass"), "step_1"),
        (execute("x" * 30_000), "characters"),
        ('{"action": "SYNTHESIZE"}', "nothing to synthesize"),
        ('{"action": "SUBCALL", "code": "import os"}', "expression"),
        ("[" * 100_000, "found none"),
        ('{"a":' * 100_000 + "}", "nested"),
    ],
)
def test_an_answer_that_is_no_decision_is_refused_with_what_is_wrong(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        read(text)


def test_a_decision_is_found_among_other_words_and_in_small_letters() -> None:
    assert read('Sure!\n```json\n{"action": "direct"}\n```\n').action is Action.DIRECT


def test_every_action_becomes_code_that_parses_and_names_its_model() -> None:
    seen = Seen('it\'s {odd}\n"q"?', "o", True, 2, (FOUND,), 5)
    for action in Action:
        decision = Decision(action=action, goal="{g}'\"", question="", code="context")
        step = step_for(decision, seen, "model-x")
        ast.parse(step.source)
        if action not in (Action.EXECUTE, Action.MEMORY_QUERY):
            assert "model='model-x'" in step.source
    types = {
        action: step_for(Decision(action=action, code="1"), seen, None).type for action in Action
    }
    assert types[Action.DECOMPOSE] == "map_reduce"
    assert types[Action.SYNTHESIZE] == types[Action.SUBCALL] == types[Action.DIRECT] == "llm_call"
    assert types[Action.EXECUTE] == types[Action.MEMORY_QUERY] == "repl"


def test_a_synthesis_reads_the_steps_variables_and_leaves_failed_ones_out() -> None:
    failed = Done(2, Action.EXECUTE, "divide", "ZeroDivisionError", failed=True)
    seen = Seen("q", "o", True, 3, (FOUND, failed))
    code = step_for(Decision(action=Action.SYNTHESIZE), seen, None).code
    assert "peek(step_1" in code
    assert "step_2" not in code


def test_the_prompt_has_the_outline_and_what_steps_showed_but_never_the_context() -> None:
    context = "needle in line one\n" + "hay\n" * 100_000
    seen = Seen("q", outline(context), True, 2, (FOUND,))
    prompt = prompt_for(seen)
    assert len(prompt) < 2_000
    assert "400,0" in prompt  # its size
    assert "needle" in prompt  # its head
    assert "3" in prompt


def test_an_outline_tells_kind_size_and_head_of_any_context() -> None:
    assert outline(None) == "there is no context"
    told = outline({f"key{n}": "x" for n in range(30)})
    assert "dict of 30 items" in told
    assert "and 10 more" in told
    assert "the first item is dict of 1 items" in outline([{"a": 1}])
    assert "bytes of 3" in outline(b"abc")


def test_parts_cover_a_context_within_the_size_and_say_whose_they_are() -> None:
    files = {"a.txt": "one\n" * 500, "b.txt": "two\n" * 500}
    parts = split_context(files, 300)
    assert all(len(part) <= 300 for part in parts)
    assert all(part.startswith(("[a.txt]\n", "[b.txt]\n")) for part in parts)
    bodies = "".join(part.split("\n", 1)[1] for part in parts)
    assert bodies == files["a.txt"] + files["b.txt"]
    assert "".join(split_context([{"n": n} for n in range(100)], 50)).count('{"n":') == 100


class Scripted:
    """A runner and a policy's model in one: answers by a list, keeps what was run."""

    def __init__(self, decisions: list[Any], results: Sequence[Any] = ()) -> None:
        self.decisions, self.results = iter(decisions), iter(results)
        self.steps: list[Step] = []

    def ask(self, _system: str, _prompt: str, form: DecisionForm) -> Any:
        answer = next(self.decisions)
        if isinstance(answer, Exception):
            raise answer
        return form.read(json.dumps(answer))

    def run(self, step: Step) -> Result:
        self.steps.append(step)
        found = next(self.results, "42")
        return found if isinstance(found, Result) else Result(found)


CODE = {"action": "EXECUTE", "goal": "count", "code": "len(context)"}


def test_a_final_execution_is_the_answer() -> None:
    script = Scripted([{**CODE, "final": True}])
    outcome = work(SEEN, script, script.ask)
    assert (outcome.answer, outcome.ending) == ("42", "answered")
    assert script.steps[0].source.endswith("print(answer)")


def test_the_last_step_there_is_room_for_answers_from_what_was_found() -> None:
    script = Scripted([CODE, CODE, CODE], ["1", "2", "the end"])
    outcome = work(SEEN, script, script.ask, most_steps=3)
    assert [step.action for step in outcome.steps] == ["EXECUTE", "EXECUTE", "SYNTHESIZE"]
    assert (outcome.answer, outcome.ending) == ("the end", "answered")


def test_decisions_that_cannot_be_used_degrade_to_a_direct_answer() -> None:
    script = Scripted([AnswerError("m answered 3 times")])
    outcome = work(SEEN, script, script.ask)
    assert [step.action for step in outcome.steps] == ["DIRECT"]
    assert outcome.ending == "answered"
    assert "answered 3 times" in outcome.degraded[0]
    assert "degraded" in script.steps[0].decision.rationale


@pytest.mark.parametrize(
    ("error", "ending"), [(BudgetError("spent"), "budget"), (ModelError("gone"), "model")]
)
def test_what_is_known_so_far_is_returned_when_nothing_more_can_be_asked(
    error: Exception, ending: str
) -> None:
    script = Scripted([CODE, error], ["7"])
    outcome = work(SEEN, script, script.ask)
    assert (outcome.answer, outcome.ending) == ("1. count: 7", ending)
    assert outcome.problem == str(error)


def test_a_step_that_fails_is_shown_to_the_next_decision() -> None:
    script = Scripted([CODE, {**CODE, "final": True}], [Result("", "NameError: x"), "9"])
    outcome = work(SEEN, script, script.ask)
    assert outcome.answer == "9"
    assert [step.failed for step in outcome.steps] == [True, False]


def test_a_budget_that_ends_inside_a_step_ends_the_work() -> None:
    script = Scripted([CODE, CODE], ["5", Result("", "BudgetError: spent", "budget")])
    outcome = work(SEEN, script, script.ask)
    assert (outcome.answer, outcome.ending) == ("1. count: 5", "budget")


def test_a_policy_can_be_any_function_of_what_is_seen() -> None:
    script = Scripted([], ["ok"])
    outcome = work(SEEN, script, script.ask, policy=lambda *_: Decision(action=Action.DIRECT))
    assert outcome.answer == "ok"


def test_the_model_is_told_when_to_execute_and_where_to_put_the_result() -> None:
    heard: list[str] = []

    def ask(system: str, prompt: str, form: Any) -> Decision:
        heard.extend([system, prompt])
        return Decision(action=Action.DIRECT)

    asking(SEEN, ask)
    assert "`step_1`" in heard[0]
    assert "counting" in heard[0]
    assert "how many?" in heard[1]


def test_a_context_makes_a_question_worth_steps_and_a_mode_overrules_the_score() -> None:
    plain = activation("What is the capital of France?", None)
    assert (plain.active, plain.score) == (False, 0.0)
    short = activation("What is the sum?", 120)
    assert (short.active, short.score) == (True, 0.5)
    assert "120 characters" in short.reason
    assert activation("What is the sum?", 10**6).score == 0.8
    assert activation("What is the sum?", None, held=True).active
    deep = activation("Investigate why all workers stop, and compare every log.", None)
    assert deep.active
    assert "goes deep" in deep.reason
    assert activation("hi", None, "always").active
    assert not activation("compare it all", 10**6, "never").active
    assert activation("hi", None, "manual").active
    assert "by hand" in activation("hi", None, "manual").reason


def test_the_skill_gives_an_agent_the_same_rules() -> None:
    skill = (Path(__file__).parents[2] / "skills" / "rlmnb" / "SKILL.md").read_text("utf-8")
    section = skill.split("## Use EXECUTE when")[1].split("Otherwise")[0]
    assert [line[2:] for line in section.strip().splitlines()] == list(WHEN_TO_EXECUTE)
    assert all(action in skill for action in Action)
    assert skill.startswith("---\nname: rlmnb\ndescription: ")
