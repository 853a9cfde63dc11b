"""A session's state: what rlmnb knows of the whole run, under `metadata.rlmnb` of the notebook."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, JsonValue

from rlmnb.format.base import (
    CellIdText,
    Count,
    HashText,
    Model,
    SessionIdText,
    Share,
    Timestamp,
)
from rlmnb.format.version import PACKAGE


class ForkPoint(Model):
    """Where a session branched off another."""

    session_id: SessionIdText
    cell_id: CellIdText | None = None
    # The path of the other, where that is a notebook of its owner's.
    notebook: str | None = None
    # It was made to try something on, and is meant only where it is named.
    trial: bool = False


class SessionSection(Model):
    """Who, when and where."""

    id: SessionIdText
    created_at: Timestamp
    updated_at: Timestamp
    ended_at: Timestamp | None = None
    cwd: str | None = None
    project: str | None = Field(default=None, description="git's common directory, else the cwd")
    branch: str | None = None
    head_commit: str | None = None
    title: str | None = None
    title_from: Literal["person", "client", "prompt"] | None = Field(
        default=None, description="who gave the title; a person's is shown in the client too"
    )
    original_goal: str | None = Field(
        default=None, description="the first prompt, unless a person has put it in other words"
    )
    goal: str | None = Field(default=None, description="what the turn is for")
    prompt_id: str | None = Field(default=None, description="the client's name of the last prompt")
    keywords: list[str] = Field(
        default_factory=list, description="what prompts say most often, the most frequent first"
    )
    tags: list[str] = Field(default_factory=list)
    parent_session_id: SessionIdText | None = None
    forked_from: ForkPoint | None = None
    transcript_path: str | None = None
    transcript_offset: Count | None = Field(
        default=None, description="up to which byte the transcript was taken in"
    )
    transcript_hash: HashText | None = Field(
        default=None, description="of the last bytes before the offset, to know the place again"
    )
    version: str = PACKAGE


class Activation(Model):
    """Whether recursive work is on, and why."""

    rlm_active: bool = False
    activation_mode: Literal["complexity", "manual", "always", "never"] = "complexity"
    activation_reason: str | None = None
    complexity_score: Share | None = None
    current_depth: Count = 0
    max_depth: int = Field(default=2, ge=1, le=3)


class ContextFile(Model):
    """A file the session touched."""

    hash: HashText
    size_bytes: Count | None = None
    first_access: Timestamp
    last_access: Timestamp
    role: Literal["read", "modified", "created"] = "read"


class ToolOutputPreview(Model):
    """What a tool answered, in short."""

    tool_name: str
    content_preview: str = Field(default="", max_length=1000)
    exit_code: int | None = None
    timestamp: Timestamp
    cell_id: CellIdText


class FileChange(Model):
    """A file that the agent had read or written and that changed while it was watched."""

    at: Timestamp
    event: str = "change"
    hash: HashText | None = None


class Context(Model):
    """What the agent had in hand. Files and tool outputs are computed from the cells."""

    files: dict[str, ContextFile] = Field(default_factory=dict)
    changed_files: dict[str, FileChange] = Field(
        default_factory=dict, description="told by the client; what is stale is found by hashing"
    )
    tool_outputs: list[ToolOutputPreview] = Field(default_factory=list, max_length=100)
    working_memory: dict[str, JsonValue] = Field(default_factory=dict)


class ModelUse(Model):
    """What one model cost. An unknown price is null, never zero."""

    calls: Count = 0
    tokens: Count = 0
    input_tokens: Count | None = Field(
        default=None, description="of `tokens`, those sent; null where it was not counted"
    )
    output_tokens: Count | None = None
    cost_usd: float | None = Field(default=None, ge=0)
    cache_read_tokens: Count = 0
    cache_write_tokens: Count = 0
    subagent_tokens: Count = 0


class SpentByCells(Model):
    """What calls of cells to one model cost, or saved by being answered from what is kept."""

    calls: Count = 0
    tokens: Count = 0
    input_tokens: Count = 0
    output_tokens: Count = 0
    cache_read_tokens: Count = 0
    cache_write_tokens: Count = 0
    usd: float = Field(default=0, ge=0, description="of the calls whose price is known")
    unpriced: Count = Field(default=0, description="calls whose price nobody knows")
    recursive_calls: Count = 0


class CallsOfCells(Model):
    """The model calls that cells have made, and those that were spared them, by model."""

    made: dict[str, SpentByCells] = Field(default_factory=dict)
    reused: dict[str, SpentByCells] = Field(default_factory=dict)


class Budget(Model):
    """What was spent and what may be.

    The limits are for model calls that cells make; what an agent itself uses is only counted. Null
    is no limit.
    """

    total_tokens_used: Count = 0
    total_recursive_calls: Count = 0
    max_recursive_calls: Count = 10
    max_calls: Count | None = None
    max_tokens: Count | None = None
    max_usd: float | None = Field(default=None, ge=0)
    cells: CallsOfCells = Field(default_factory=CallsOfCells)
    cost_usd: float | None = Field(default=None, ge=0)
    by_model: dict[str, ModelUse] = Field(default_factory=dict)


class Lifecycle(Model):
    """Where the session is in its life."""

    phase: Literal["start", "running", "pre_compact", "post_compact", "stopped", "ended"] = (
        "running"
    )
    pid: Count | None = None
    cwd: str | None = Field(default=None, description="where the agent is, once it has moved")


class CellsSummary(Model):
    """How many cells there are, and where the index of them is. Computed, never stored."""

    count: Count = 0
    index_path: str = "index.json"


class Trajectory(Model):
    """How many events there were, and where they can be exported to. Computed, never stored."""

    events_count: Count = 0
    export_path: str | None = None


class Migrated(Model):
    """Which files of an earlier tool a session was made from, and what of them has no place."""

    at: Timestamp
    source_hash: HashText
    legacy_ids: list[str] = Field(default_factory=list)
    files: dict[str, HashText] = Field(default_factory=dict)
    provenance: dict[str, str] = Field(
        default_factory=dict, description="which file each field of the state came from"
    )
    unmapped: dict[str, list[str]] = Field(default_factory=dict)
    problems: list[dict[str, str]] = Field(default_factory=list)


class SessionState(Model):
    """Everything rlmnb knows of one session."""

    schema_version: Literal[1] = 1
    session: SessionSection
    activation: Activation
    context: Context
    budget: Budget
    lifecycle: Lifecycle = Field(default_factory=Lifecycle)
    cells: CellsSummary | None = None
    trajectory: Trajectory | None = None
    migrated: Migrated | None = None
    appended: Count = 0
