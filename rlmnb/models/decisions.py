"""What a step can be, what was decided, and what a decision goes by, as values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

PROMPT_LIMIT = 16_000


class Action(StrEnum):
    """What a step can be."""

    DIRECT = "DIRECT"
    EXECUTE = "EXECUTE"
    DECOMPOSE = "DECOMPOSE"
    SUBCALL = "SUBCALL"
    MEMORY_QUERY = "MEMORY_QUERY"
    SYNTHESIZE = "SYNTHESIZE"


class Decision(BaseModel):
    """What the next step is to be, and why."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    action: Action
    goal: str = Field(default="", max_length=2000, description="what this step is to find")
    rationale: str = Field(default="", max_length=4000, description="why this action")
    question: str = Field(
        default="", max_length=8000, description="what is asked of each part, or of memory"
    )
    code: str = Field(default="", description="EXECUTE: Python; SUBCALL: the part of the context")
    final: bool = Field(default=False, description="EXECUTE: what it finds is the answer")

    @field_validator("action", mode="before")
    @classmethod
    def _in_capitals(cls, value: Any) -> Any:
        return value.strip().upper() if isinstance(value, str) else value

    @field_validator("goal", "rationale", mode="before")
    @classmethod
    def _in_bounds(cls, value: Any) -> Any:
        return value[:2000] if isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class Done:
    """A step that was taken, and what it showed."""

    number: int
    action: Action
    goal: str
    shown: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """All that a policy goes by."""

    question: str
    outline: str = "there is no context"
    has_context: bool = False
    number: int = 1
    steps: tuple[Done, ...] = ()
    steps_left: int = 1
    prompt_limit: int = PROMPT_LIMIT
    depth: int = 0
    deepest: int = 2

    @property
    def found(self) -> tuple[Done, ...]:
        """The steps that came to something."""
        return tuple(step for step in self.steps if not step.failed)
