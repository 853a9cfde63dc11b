"""A model call as a cell's record keeps it, and a verdict of one cell on another."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from rlmnb.format.base import CellIdText, Count, HashText, Model, Share, Timestamp


class TokenUse(Model):
    """Tokens as the provider counted them; null where it does not tell.

    `input` counts those read from or written to the provider's cache, too.
    """

    input: Count | None = None
    output: Count | None = None
    cache_read: Count | None = None
    cache_write: Count | None = None


class CallAttempt(Model):
    """A try that failed, and how long was waited after it."""

    at: Timestamp
    error: str
    waited_ms: Count = 0


class CallAttachment(Model):
    """What was shown beside the text: its kind, and the hash of its bytes or its address."""

    kind: str = ""
    content: HashText | None = None
    url: str | None = None


class CallRequest(Model):
    """What was asked; of a long text the beginning, and the object that has all of it."""

    prompt: str = ""
    prompt_object: HashText | None = None
    system: str | None = None
    system_object: HashText | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)
    attachments: list[CallAttachment] = Field(default_factory=list)


class Call(Model):
    """One model call: the key of its request, the exact answer, and what it took.

    `current` is false for a call that the cell made before it was edited; its answer is used again
    if the edit is taken back.
    """

    key: HashText = Field(description="over model, messages, system, parameters, tools, …")
    parts: dict[str, HashText] = Field(default_factory=dict)
    model: str | None = None
    request: CallRequest = Field(default_factory=CallRequest)
    answered_by: str | None = None
    response: str | None = None
    object: HashText | None = Field(default=None, description="a long answer, among the objects")
    usage: TokenUse = Field(default_factory=TokenUse)
    cost_usd: float | None = Field(default=None, ge=0, description="null where nobody knows")
    duration_ms: float = Field(default=0, ge=0)
    attempts: list[CallAttempt] = Field(default_factory=list)
    error: str | None = Field(default=None, description="why it came to no answer")
    rejected: bool = Field(default=False, description="never had the form that was asked for")
    from_cache: bool = False
    current: bool = True
    at: Timestamp | None = None
    depth: Count = 0
    role: Literal["map", "reduce", "verify", "recursive", "decide"] | None = None
    item: Count | None = None
    of: Count | None = None


class Verification(Model):
    """What a cell found when it checked another one."""

    of: CellIdText
    holds: bool
    confidence: Share | None = None
    reason: str = ""
    by: str = Field(default="code", description="the model that judged, or `code`")
