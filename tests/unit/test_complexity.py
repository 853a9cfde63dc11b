"""How much a prompt asks for is judged by rules that can be read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlmnb.capture.complexity import (
    MODES,
    THRESHOLD,
    complexity_of,
    files_named,
    is_active,
    why_active,
)
from rlmnb.capture.words import count_words, keywords

REPOSITORY = Path(__file__).parents[2]
SIMPLE = [
    "hello",
    "fix the typo in README.md",
    "what is 2 + 2?",
    "run the tests",
    "rename x to total in main.py, please.",
    "",
]
COMPLEX = [
    "Refactor the whole codebase to async",
    "Why does login fail across all services? Compare auth.py, session.py, tokens.py and db.py",
    "1. read a.py\n2. change b.py\n3. run tests\n4. port c.py\n5. push",
    "Investigate why every worker deadlocks:\n```\nTraceback (most recent call last):\n```",
    "migrate models.py, views.py, urls.py and admin.py to the new API, then run everything",
]


@pytest.mark.parametrize("prompt", SIMPLE)
def test_a_small_request_is_simple(prompt: str) -> None:
    assert complexity_of(prompt).score < THRESHOLD


@pytest.mark.parametrize("prompt", COMPLEX)
def test_a_large_request_is_complex(prompt: str) -> None:
    assert complexity_of(prompt).score >= THRESHOLD


@given(st.text())
def test_the_score_is_the_sum_of_its_reasons_and_the_same_each_time(prompt: str) -> None:
    judged = complexity_of(prompt)
    assert 0 <= judged.score <= 1
    assert judged.score == round(min(1, sum(share for _, share in judged.reasons)), 2)
    assert complexity_of(prompt).reasons == judged.reasons


def test_the_reasons_name_what_was_found() -> None:
    judged = complexity_of("compare a.py with lib/b.py across the repository; why?")
    told = judged.reason
    for part in ("2 files named", "across, repository", "compare", "why"):
        assert part in told


def test_files_are_known_by_their_endings_and_slashes() -> None:
    text = "see src/app, `a/b.ts` and setup.py. e.g. 3.14, i.e. https://example.org/x.html ok"
    assert files_named(text) == ["src/app", "a/b.ts", "setup.py"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("score", [0.0, 1.0])
@pytest.mark.parametrize("before", [False, True])
def test_the_mode_decides_what_the_score_is_worth(mode: str, score: float, before: bool) -> None:
    wanted = {"always": True, "never": False, "manual": before, "complexity": score > 0.5}[mode]
    assert is_active(mode, score, before=before) is wanted
    assert why_active(mode, complexity_of("hello"))


def test_keywords_are_what_was_said_most_and_never_a_secret() -> None:
    counts: dict[str, int] = {}
    count_words("Fix the parser. The parser breaks on tokens; parser tests", counts)
    count_words("tokens again, with [REDACTED:github-token:1a2b3c4d] in it", counts)
    assert keywords(counts)[:2] == ["parser", "tokens"]
    assert not [word for word in counts if "1a2b" in word or "redacted" in word]
    assert "the" not in counts


def test_judging_loads_neither_json_nor_regular_expressions() -> None:
    code = (
        "import sys; from rlmnb.capture.complexity import complexity_of;"
        "complexity_of('why across all?');"
        "print(sorted({'re', 'json', 'typing'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(REPOSITORY)},
    )
    assert done.stdout == "[]\n", done.stderr


def test_the_command_explains(run, run_json) -> None:
    told = run_json("complexity", COMPLEX[0])
    assert told["complex"] is True
    assert told["reasons"][0]["share"] > 0
    shown = run("complexity", "-", input=COMPLEX[0]).stdout
    assert "goes deep: refactor" in shown
    assert run("complexity", "hello").stdout.startswith("0.00  simple")
