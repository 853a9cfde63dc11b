"""What an agent tells its hooks, as one kind of event whichever agent it is.

An agent is a table: its names for events, fields and tools beside ours, which are Claude Code's.
Nothing here trusts the payload: a field of the wrong type is a field that is not there.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    # Names of another agent, each with ours.
    Names = Mapping[str, str]


class Agent:
    """How one agent names things."""

    __slots__ = ("args", "events", "fields", "name", "tools")

    def __init__(
        self,
        name: str,
        *,
        events: "Names | None" = None,
        fields: "Names | None" = None,
        tools: "Names | None" = None,
        args: "Mapping[str, Names] | None" = None,
    ) -> None:
        self.name = name
        self.events = events or {}
        self.fields = fields or {}
        self.tools = tools or {}
        # By our name of the tool: its names of the arguments.
        self.args = args or {}


AGENTS = {
    "claude": Agent("claude"),
    "codex": Agent(
        "codex",
        fields={
            "turn_id": "prompt_id",
            "call_id": "tool_use_id",
            "rollout_path": "transcript_path",
        },
        tools={"shell": "Bash", "local_shell": "Bash", "apply_patch": "ApplyPatch"},
    ),
    "gemini": Agent(
        "gemini",
        events={
            "BeforeTool": "PreToolUse",
            "AfterTool": "PostToolUse",
            "BeforeAgent": "UserPromptSubmit",
            "AfterAgent": "Stop",
            "PreCompress": "PreCompact",
        },
        fields={"prompt_response": "last_assistant_message"},
        tools={
            "read_file": "Read",
            "write_file": "Write",
            "replace": "Edit",
            "run_shell_command": "Bash",
            "glob": "Glob",
            "search_file_content": "Grep",
            "list_directory": "LS",
            "web_fetch": "WebFetch",
            "google_web_search": "WebSearch",
        },
        args={"Read": {"absolute_path": "file_path"}, "LS": {"dir_path": "path"}},
    ),
}


class Event:
    """One thing that happened, with what is known of it. `payload` is all that was said."""

    __slots__ = ("agent", "name", "payload")

    def __init__(self, name: str, payload: "dict[str, Any]", agent: str) -> None:
        self.name = name
        self.payload = payload
        self.agent = agent

    def text(self, key: str) -> "str | None":
        """Return a field that is text, None if it is missing or anything else."""
        value = self.payload.get(key)
        return value if isinstance(value, str) and value else None

    def object(self, key: str) -> "dict[str, Any]":
        """Return a field that is an object, an empty one if it is not."""
        value = self.payload.get(key)
        return value if isinstance(value, dict) else {}

    def number(self, key: str) -> "float | None":
        """Return a field that is a number no less than zero."""
        value = self.payload.get(key)
        good = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
        return value if good and value == value else None


def read_event(payload: "Any", agent: str = "claude") -> "Event | None":
    """Return the event that a payload tells of, None if it tells of none."""
    if not isinstance(payload, dict):
        return None
    table = AGENTS.get(agent, AGENTS["claude"])
    plain = {table.fields.get(key, key): value for key, value in payload.items()}
    name = plain.get("hook_event_name")
    if not isinstance(name, str) or not name:
        return None
    tool = plain.get("tool_name")
    if isinstance(tool, str):
        plain["tool_name"] = tool = table.tools.get(tool, tool)
        names = table.args.get(tool)
        given = plain.get("tool_input")
        if names and isinstance(given, dict):
            plain["tool_input"] = {names.get(key, key): value for key, value in given.items()}
    return Event(table.events.get(name, name), plain, table.name)
