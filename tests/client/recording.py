"""A hook that only writes down what it is given, for every event that the client has."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlmnb.testing.messages_api import Script
from tests.client.running import ClientRun, run_client

# Without those that a hook has to answer: WorktreeCreate, WorktreeRemove and Elicitation.
EVENTS = (
    "SessionStart",
    "SessionEnd",
    "Setup",
    "UserPromptSubmit",
    "UserPromptExpansion",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PostToolBatch",
    "PermissionRequest",
    "PermissionDenied",
    "Notification",
    "Stop",
    "StopFailure",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "PostCompact",
    "TaskCreated",
    "TaskCompleted",
    "ConfigChange",
    "InstructionsLoaded",
    "CwdChanged",
    "FileChanged",
    "MessageDisplay",
)

RECORD = """\
import json, os, sys
payload = json.load(sys.stdin)
line = json.dumps([payload, os.environ.get("CLAUDE_CODE_SESSION_ID")]) + "\\n"
log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
os.write(log, line.encode())
"""


@dataclass(frozen=True, slots=True)
class Event:
    """One call of the hook."""

    name: str
    payload: dict[str, Any]
    environment_session: str | None

    @property
    def tool(self) -> str:
        return self.payload["tool_use_id"]

    @property
    def agent(self) -> str | None:
        return self.payload.get("agent_id")


@dataclass(frozen=True, slots=True)
class Recorded:
    """A run of the client, and the events of it in the order in which their hooks wrote."""

    run: ClientRun
    events: tuple[Event, ...]

    def named(self, *names: str) -> list[Event]:
        return [event for event in self.events if event.name in names]

    def only(self, name: str) -> dict[str, Any]:
        (event,) = self.named(name)
        return event.payload

    def order(self, *without: str) -> list[str]:
        return [event.name for event in self.events if event.name not in without]

    def of_call(self, tool_use_id: str) -> list[str]:
        """The names of a call's own events; a batch is about all of its calls."""
        found = (event for event in self.events if "tool_use_id" in event.payload)
        return [event.name for event in found if event.tool == tool_use_id]

    def batches(self) -> list[list[str]]:
        return [
            [call["tool_use_id"] for call in event.payload["tool_calls"]]
            for event in self.named("PostToolBatch")
        ]


def hooks(code: str, *arguments: str, events: Iterable[str] = EVENTS, timeout: int = 10) -> Any:
    """Return the hooks of a settings file or of a plugin: one Python program for all events."""
    command = {
        "type": "command",
        "command": sys.executable,
        "args": ["-I", "-S", "-c", code, *arguments],
        "timeout": timeout,
    }
    return {"hooks": {event: [{"hooks": [command]}] for event in events}}


def make_plugin(directory: Path, hooks: Any) -> Path:
    (directory / ".claude-plugin").mkdir(parents=True, exist_ok=True)
    (directory / ".claude-plugin" / "plugin.json").write_text('{"name": "recorder"}')
    (directory / "hooks").mkdir(exist_ok=True)
    (directory / "hooks" / "hooks.json").write_text(json.dumps(hooks))
    return directory


def record(script: Script, prompt: str, project: Path, **options: Any) -> Recorded:
    """Run the client with the recording hook as a plugin."""
    log = project.parent / "events.jsonl"
    log.unlink(missing_ok=True)
    plugin = make_plugin(project.parent / "recorder", hooks(RECORD, str(log)))
    run = run_client(script, prompt, project, plugin_dir=plugin, **options)
    return Recorded(run, read_events(log))


def read_events(log: Path) -> tuple[Event, ...]:
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return tuple(
        Event(payload["hook_event_name"], payload, session)
        for payload, session in map(json.loads, lines)
    )
