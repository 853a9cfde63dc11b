"""A question to a model and its answer, as values; the key under which an answer is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rlmnb import digest
from rlmnb.ids import Digest

# By which names an answer is bounded, whoever's library it goes through.
ANSWER_BOUNDS = ("max_tokens", "max_output_tokens", "max_completion_tokens", "num_predict")
Role = Literal["user", "assistant"]


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Attachment:
    """Something that is shown to a model beside the text: its kind, and its bytes or address."""

    kind: str
    content: bytes | None = None
    url: str | None = None

    def described(self) -> dict[str, Any]:
        """Return what tells one attachment from another; bytes by their digest."""
        content = None if self.content is None else digest.of_bytes(self.content)
        return {"kind": self.kind, "content": content, "url": self.url}


@dataclass(frozen=True, slots=True)
class Request:
    """Everything that could change the answer.

    `provider` is what of the provider counts, as it says itself: its name, and the version of its
    library or of its weights where another version answers otherwise.

    `room` is how many tokens the answer may take by what is left of a budget. It is no part of the
    key: an answer that was cut there is never kept.
    """

    model: str
    messages: tuple[Message, ...]
    system: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    tools: tuple[Mapping[str, Any], ...] = ()
    attachments: tuple[Attachment, ...] = ()
    schema: Mapping[str, Any] | None = None
    provider: str = ""
    room: int | None = None

    def parts(self) -> dict[str, Digest]:
        """Return the digest of each part, so that a miss can say what changed."""
        values: dict[str, Any] = {
            "model": self.model,
            "messages": [[each.role, each.content] for each in self.messages],
            "system": self.system,
            "parameters": dict(self.parameters),
            "tools": [dict(each) for each in self.tools],
            "attachments": [each.described() for each in self.attachments],
            "schema": None if self.schema is None else dict(self.schema),
            "provider": self.provider,
        }
        # What was not given has no part in the key: a field that a later version adds changes none.
        return {name: digest.of_value(value) for name, value in values.items() if value}

    def key(self) -> Digest:
        """Return the digest of all of it."""
        return digest.of_value(self.parts())

    @property
    def prompt(self) -> str:
        """The last turn, which is the question."""
        return self.messages[-1].content if self.messages else ""


def changed_parts(now: Mapping[str, str], then: Mapping[str, str]) -> tuple[str, ...]:
    """Name the parts of two keys that differ."""
    return tuple(name for name in sorted({*now, *then}) if now.get(name) != then.get(name))


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider counted them; what it does not tell is None, never zero.

    `input` counts those read from or written to the provider's cache, too.
    """

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None

    @property
    def total(self) -> int:
        """All tokens that are known of."""
        return (self.input or 0) + (self.output or 0)


@dataclass(frozen=True, slots=True)
class Try:
    """One attempt that failed: when, why, and how long was waited afterwards."""

    at: str
    error: str
    waited_ms: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model answered, exactly, and what it took."""

    text: str
    # The model as the provider calls it; prices go by this name.
    model: str
    usage: Usage = Usage()
    duration_ms: float = 0.0
    # Attempts that failed before this one.
    attempts: tuple[Try, ...] = ()
    cost_usd: float | None = None
    from_cache: bool = False
    # Whether it ended because there was no more room for it; None if the provider does not tell.
    cut: bool | None = None
