"""Whether a question is worth working on step by step: told by its words and its context's size.

The score is a sum of named reasons, the same for the same question, so that it can be explained.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

Mode = Literal["complexity", "manual", "always", "never"]
MODES: tuple[str, ...] = get_args(Mode)
THRESHOLD = 0.3
_LONG = 16_000
_COMPUTES = (
    "how many|how much|count|sum|total|average|mean|median|maximum|minimum|largest|smallest|"
    "most|least|sort|rank|percent"
)
_TRACES = "compare|difference|differ|versus|vs|why|cause|trace|depends?|relate"
_SIGNS: tuple[tuple[str, float, str], ...] = (
    ("it asks for a computation", 0.3, _COMPUTES),
    ("it asks about all of something", 0.2, "all|every|each|any|list|across|throughout"),
    ("it asks to compare or to trace", 0.2, _TRACES),
    ("it asks for a summary", 0.2, "summari[sz]e|summary|overview|main points"),
)


@dataclass(frozen=True, slots=True)
class Activation:
    """Whether to work step by step, how complex the question is, and what that was told by."""

    active: bool
    mode: Mode
    score: float
    reasons: tuple[str, ...]

    @property
    def reason(self) -> str:
        """All of it in one line."""
        why = {"manual": "asked for", "always": "always on", "never": "turned off"}.get(self.mode)
        told = "; ".join(self.reasons) or "nothing speaks for it"
        return f"{why}; {told}" if why else told


def activation(question: str, context_size: int | None, mode: Mode = "complexity") -> Activation:
    """Judge a question over a context of so many characters, None if there is no context."""
    found: list[tuple[str, float]] = []
    if context_size is not None:
        found.append((f"it has a context of {context_size:,} characters", 0.3))
        if context_size > _LONG:
            found.append(("the context is longer than a prompt", 0.4))
    for why, weight, words in _SIGNS:
        if re.search(rf"\b(?:{words})\b", question, re.IGNORECASE):
            found.append((why, weight))
    if question.count("?") > 1 or len(question) > 400:
        found.append(("it is several questions, or a long one", 0.2))
    score = min(1.0, round(sum(weight for _, weight in found), 3))
    active = {"always": True, "manual": True, "never": False}.get(mode, score >= THRESHOLD)
    return Activation(active, mode, score, tuple(why for why, _ in found))
