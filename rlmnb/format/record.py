"""The cell record: what rlmnb knows of one cell, under `metadata.rlmnb` of that cell."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from rlmnb import digest
from rlmnb.format.base import (
    CellIdText,
    Count,
    HashText,
    Model,
    Share,
    Timestamp,
)
from rlmnb.format.calls import Call, Verification
from rlmnb.ids import Digest

CellType = Literal["repl", "tool", "llm_call", "map_reduce", "verification"]
Status = Literal["running", "completed", "suspended", "invalidated", "promoted", "failed"]


class Edge(Model):
    """One dependency, and the reason for it."""

    cell_id: CellIdText
    reason: str = "explicit"


class FileVersion(Model):
    """A file as the cell found or left it; a missing file has the hash `missing`."""

    hash: HashText
    size_bytes: Count | None = None
    mtime_ns: str | None = None
    range: tuple[Count, Count] | None = None
    before: HashText | None = None


class ConversationSlice(Model):
    """The part of the conversation that went into a cell."""

    uuids: list[str] = Field(default_factory=list)
    text_hash: HashText | None = None


class MemoryQuery(Model):
    """A question to memory and what came back, so that a change of memory can be seen."""

    query: str
    ids: list[str] = Field(default_factory=list)


class ContextSnapshot(Model):
    """What a cell could see besides its code: the slice of context it was given."""

    files: dict[str, FileVersion] = Field(default_factory=dict)
    conversation_slice: ConversationSlice | None = None
    memory_query: MemoryQuery | None = None
    memory_refs: list[str] = Field(default_factory=list)
    tool_outputs: dict[str, HashText] = Field(default_factory=dict)
    token_budget: Count = 8000


class CommitLink(Model):
    """Where the repository stood when a cell had changed files."""

    head: str | None = None
    branch: str | None = None


class CellInput(Model):
    """Where the cell came from, and the call it stands for."""

    source: str | None = None
    operation: str | None = None
    args: Any = None
    cwd: str | None = Field(default=None, description="where it ran, if not where the session is")
    context_snapshot: ContextSnapshot | None = None


class CachedResponse(Model):
    """A model's answer, and the key of the request that it answers."""

    key: HashText
    response: Any = None
    object: HashText | None = None


class StructuredError(Model):
    """An error as Jupyter tells it."""

    ename: str = "Error"
    evalue: str = ""
    traceback: list[str] = Field(default_factory=list)


class StoredOutput(Model):
    """An output too long for the notebook: which one, and the object that has all of it."""

    output: Count
    mime: str
    object: HashText
    bytes: Count


class Attempt(Model):
    """One try at running the cell."""

    at: Timestamp
    error: str | StructuredError | None = None


class CellOutput(Model):
    """What came out, beyond the notebook's own outputs."""

    result: Any = None
    error: str | StructuredError | None = None
    execution_time_ms: float | None = Field(default=None, ge=0)
    cached_response: CachedResponse | None = None
    objects: list[StoredOutput] = Field(default_factory=list)
    attempts: list[Attempt] = Field(default_factory=list)


class Trace(Model):
    """Why the agent did it."""

    goal: str | None = None
    decision: str | None = None
    rationale: str | None = None


class Promotion(Model):
    """Where a cell's result was promoted to, and the cell that verified it."""

    id: str
    at: Timestamp
    verifier: CellIdText


class CellMetadata(Model):
    """How the cell was run."""

    depth: Count = 0
    model: str | None = None
    tokens_used: Count = 0
    temperature: float | None = Field(default=None, ge=0)
    promoted_to_db: Promotion | None = None


class InvalidationCondition(Model):
    """When the result no longer holds: a predicate that can be checked, not a sentence."""

    kind: Literal["file_changed", "cell_changed", "memory_changed", "expired"]
    path: str | None = None
    cell_id: CellIdText | None = None
    hash: HashText | None = None
    at: Timestamp | None = None


class CellRecord(Model):
    """Everything rlmnb knows of one cell."""

    schema_version: Literal[1] = 1
    cell_id: CellIdText | None = Field(
        default=None,
        description="The id this record was written under; tools may change the cell's.",
    )
    type: CellType = "repl"
    status: Status = "completed"
    created_at: Timestamp
    completed_at: Timestamp | None = None
    input: CellInput = Field(default_factory=CellInput)
    output: CellOutput = Field(default_factory=CellOutput)
    dependencies: list[Edge] = Field(default_factory=list)
    reads: list[str] = Field(default_factory=list)
    writes: list[str] = Field(default_factory=list)
    files_read: dict[str, FileVersion] = Field(default_factory=dict)
    files_written: dict[str, FileVersion] = Field(default_factory=dict)
    listed: dict[str, list[str] | str] = Field(
        default_factory=dict,
        description="Directories that a tool looked through: the names there, or their digest.",
    )
    calls: list[Call] = Field(default_factory=list)
    verification: Verification | None = None
    source_hash: HashText
    context_hash: HashText
    output_hash: HashText
    trace: Trace = Field(default_factory=Trace)
    metadata: CellMetadata = Field(default_factory=CellMetadata)
    tool_use_id: str | None = None
    commit: CommitLink | None = None
    parent_id: CellIdText | None = None
    branched_from: CellIdText | None = None
    evidence: list[CellIdText] = Field(default_factory=list)
    confidence: Share | None = None
    invalidation_condition: InvalidationCondition | None = None
    escalation_reason: list[str] = Field(default_factory=list)

    def frame_id(self, source: str) -> str:
        """Name the frame this cell is: sixteen hex digits over parent, whole code and context."""
        return digest.frame_id(self.parent_id, source, Digest(self.context_hash))
