"""The types that earlier tools kept state in, with their field names, for whoever imports it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from rlmnb.format.base import Model


class Message(Model):
    """One message of a conversation."""

    role: Literal["user", "assistant", "system"]
    content: str
    timestamp: float | None = None
    metadata: dict[str, Any] | None = None


class ToolOutput(Model):
    """What a tool returned."""

    tool_name: str
    content: str
    exit_code: int | None = None
    timestamp: float | None = None
    metadata: dict[str, Any] | None = None


class SessionContext(Model):
    """What an agent had in hand at one moment."""

    messages: list[Message] = Field(default_factory=list)
    files: dict[str, str] = Field(default_factory=dict)
    tool_outputs: list[ToolOutput] = Field(default_factory=list)
    working_memory: dict[str, Any] = Field(default_factory=dict)


class ExecutionResult(Model):
    """What running a piece of code came to."""

    success: bool
    output: Any = None
    error: str | None = None
    execution_time_ms: float = 0
    stdout: str = ""
    output_truncated: bool = False
    original_length: int | None = None
    submit_result: dict[str, Any] | None = None
