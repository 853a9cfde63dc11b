"""What to do next about a question: a policy that lets the model choose.

A policy is a function of what is known so far. It may ask a model, through the `ask` that it is
given, or decide by itself; it touches nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Protocol

from rlmnb.models.decisions import Decision, Seen
from rlmnb.models.stepping import check
from rlmnb.models.typed import Form

# A system text and a prompt go in, and a value in this form comes out.
Ask = Callable[[str, str, Form], Any]


class Policy(Protocol):
    """Whoever chooses the next step."""

    def __call__(self, seen: Seen, ask: Ask) -> Decision:
        """Return the next step. Raises `AnswerError` if the model's choices cannot be used."""


# The same rules are in the skill that an agent reads.
WHEN_TO_EXECUTE = (
    "the answer can be computed: counting, sums, sorting, comparing, dates",
    "the context is structured (JSON, CSV, logs) and code can pick out what matters",
    "the context is larger than a prompt: search and slice it first",
    "a claim or an earlier result is to be checked",
)
_SYSTEM = """\
You answer a question by taking one step at a time. The context is in the Python variable `context`
of a running kernel; you see only its outline. Choose the next step:

EXECUTE       run Python over `context`. Use it when {when}.
DECOMPOSE     ask `question` of every part of the context, and combine the answers.
SUBCALL       hand `question` over, with the part of the context that the expression `code` gives.
MEMORY_QUERY  ask `question` of what earlier sessions have found.
SYNTHESIZE    write the answer from what the steps found. It ends the work.
DIRECT        answer now, from the question and the beginning of the context. It ends the work.

Code finds `context`, `step_1`, `step_2`, … (what earlier steps found) and these functions:
peek(context, start, size), search(context, pattern), split_context(context),
llm_query(prompt), llm_query_batched(prompts), map_reduce(items, map_prompt, reduce_prompt).
It must put what it finds into `step_{number}`. Set `final` if that is the whole answer.

Answer with one JSON object and nothing else:
{{"action": "…", "goal": "what this step is to find", "rationale": "why", "question": "", \
"code": "", "final": false}}
"""


def asking(seen: Seen, ask: Ask) -> Decision:
    """Let the model choose, by a small JSON object that is checked before it is used."""
    system = _SYSTEM.format(when="; or ".join(WHEN_TO_EXECUTE), number=seen.number)
    decision: Decision = ask(system, prompt_for(seen), DecisionForm(seen))
    return decision


def prompt_for(seen: Seen) -> str:
    """Say what is known: the question, the context's outline, what the steps showed."""
    parts = [
        f"Question: {seen.question}",
        f"The context: {seen.outline}",
        f"A prompt takes {seen.prompt_limit:,} characters. Steps left: {seen.steps_left}.",
    ]
    for step in seen.steps:
        word = "failed" if step.failed else "found"
        parts.append(f"Step {step.number} ({step.action}, {step.goal}) {word}:\n{step.shown}")
    return "\n\n".join(parts) + "\n\nWhat is the next step?"


_OBJECT = re.compile(r"\{.*\}", re.DOTALL)


class DecisionForm(Form):
    """The form of a decision: its schema, and all that has to hold for it to be taken."""

    def __init__(self, seen: Seen) -> None:
        super().__init__(Decision)
        self._seen = seen

    def read(self, text: str) -> Decision:
        """Return the decision; raises ValueError with what is wrong, for the model to read."""
        found = _OBJECT.search(text)
        if found is None:
            raise ValueError("wanted one JSON object, found none")
        try:
            value = json.loads(found.group(0))
        except ValueError as error:
            raise ValueError(f"that is no JSON: {error}") from None
        except RecursionError:
            raise ValueError("that JSON is nested too deeply") from None
        decision = Decision.model_validate(value)
        check(decision, self._seen)
        return decision
