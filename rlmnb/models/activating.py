"""Whether a question is worth working on step by step: its own complexity, and its context's size.

The score is a sum of named reasons, the same for the same question, so that it can be explained.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rlmnb.capture.complexity import THRESHOLD, Complexity, complexity_of, is_active, why_active

Mode = Literal["complexity", "manual", "always", "never"]
_LONG = 16_000


@dataclass(frozen=True, slots=True)
class Activation:
    """Whether to work step by step, how complex the question is, and what that was told by."""

    active: bool
    mode: Mode
    score: float
    reason: str


def activation(
    question: str,
    context_size: int | None,
    mode: Mode = "complexity",
    *,
    held: bool = False,
) -> Activation:
    """Judge a question over a context of so many characters, None if none is given.

    `held` says that there is one from before.

    Whoever gives a context wants it looked at. `manual` is on: somebody has asked for this.
    """
    reasons = list(complexity_of(question).reasons)
    if context_size is not None:
        reasons.append((f"a context of {context_size:,} characters", THRESHOLD))
        if context_size > _LONG:
            reasons.append(("which is longer than a prompt", 0.3))
    elif held:
        reasons.append(("a context from before", THRESHOLD))
    judged = Complexity(reasons)
    active = is_active(mode, judged.score, before=True)
    return Activation(active, mode, judged.score, why_active(mode, judged)[:1000])
