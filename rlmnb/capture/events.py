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

    __slots__ = ("answer", "args", "events", "fields", "hears", "name", "tools")

    def __init__(
        self,
        name: str,
        *,
        events: "Names | None" = None,
        fields: "Names | None" = None,
        tools: "Names | None" = None,
        args: "Mapping[str, Names] | None" = None,
        answer: str = "",
        hears: "tuple[str, ...] | None" = None,
    ) -> None:
        self.name = name
        self.events = events or {}
        self.fields = fields or {}
        self.tools = tools or {}
        # By our name of the tool: its names of the arguments.
        self.args = args or {}
        # Where the text of an answer stands, beside what its agent makes of it; and `error`.
        self.answer = answer
        # What a hook may tell it of an event; more than that it takes for a mistake.
        self.hears = hears


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
        hears=("additionalContext",),
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
        fields={"prompt_response": "last_assistant_message", "timestamp": "imported_at"},
        tools={
            "read_file": "Read",
            "write_file": "Write",
            "replace": "Edit",
            "run_shell_command": "Bash",
            "glob": "Glob",
            "search_file_content": "Grep",
            "grep_search": "Grep",
            "list_directory": "LS",
            "web_fetch": "WebFetch",
            "google_web_search": "WebSearch",
        },
        args={
            "Read": {"absolute_path": "file_path"},
            "LS": {"dir_path": "path"},
            "Glob": {"dir_path": "path"},
            "Grep": {"dir_path": "path", "include": "glob"},
        },
        answer="llmContent",
        hears=("additionalContext",),
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

    def others(self) -> "dict[str, Any]":
        """Return the fields that nobody knows, and those that are not what they should be."""
        return {
            key: value
            for key, value in self.payload.items()
            if key not in _OTHERS and not (key in _TEXTS and (value is None or type(value) is str))
        }


# What is known of: the rest is kept as it was told.
_TEXTS = frozenset(
    {
        "session_id", "transcript_path", "cwd", "hook_event_name", "prompt_id", "permission_mode",
        "agent_id", "agent_type", "tool_name", "tool_use_id", "error", "prompt", "model",
        "last_assistant_message", "agent_transcript_path", "source", "reason", "trigger",
        "custom_instructions", "compact_summary", "new_cwd", "old_cwd", "file_path", "event",
        "session_title", "parent_session_id", "imported_at", "imported_parent",
        "imported_rationale",
    }
)  # fmt: skip
_OTHERS = frozenset(
    {
        "effort", "tool_input", "tool_response", "duration_ms", "is_interrupt", "tool_calls",
        "stop_hook_active", "background_tasks", "session_crons",
    }
)  # fmt: skip


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
        plain["tool_input"] = _arguments(tool, plain.get("tool_input"), table)
    name = table.events.get(name, name)
    answer = plain.get("tool_response")
    if table.answer and isinstance(answer, dict):
        if name == "PostToolUse" and (error := answer.get("error")):
            name = "PostToolUseFailure"
            said = error.get("message") if isinstance(error, dict) else error
            plain["error"] = said if isinstance(said, str) else str(error)
        elif (said := _parts(answer.get(table.answer))) is not None:
            plain["tool_response"] = said
    return Event(name, plain, table.name)


def heard(agent: str, told: "dict[str, Any] | None") -> "dict[str, Any] | None":
    """Return what a hook wants to say without what its agent has no place for."""
    hears = AGENTS.get(agent, AGENTS["claude"]).hears
    of_event = told.get("hookSpecificOutput") if told else None
    if told is None or hears is None or not isinstance(of_event, dict):
        return told
    left = {key: value for key, value in of_event.items() if key in hears}
    rest = {key: value for key, value in told.items() if key != "hookSpecificOutput"}
    if left:
        rest["hookSpecificOutput"] = {"hookEventName": of_event.get("hookEventName"), **left}
    return rest or None


def _parts(said: "Any") -> "Any":
    """Return an answer that is text, or parts of text and pictures, as blocks; else None."""
    if isinstance(said, str):
        return said
    blocks = []
    for part in said if isinstance(said, list) else [said]:
        inline = part.get("inlineData") if isinstance(part, dict) else None
        text = part.get("text") if isinstance(part, dict) else part
        if isinstance(inline, dict):
            blocks.append({"type": "image", **inline})
        elif isinstance(text, str):
            blocks.append({"type": "text", "text": text})
        else:
            return None
    return blocks or None


def _arguments(tool: str, given: "Any", table: Agent) -> "dict[str, Any]":
    """Return what a tool was given under our names; what has no name is its `input`."""
    if not isinstance(given, dict):
        return {} if given is None else {"input": given}
    names = table.args.get(tool, {})
    named: dict[str, Any] = {names.get(key, key): value for key, value in given.items()}
    words = named.get("command")
    if tool == "Bash" and isinstance(words, list) and words:
        named["command"] = _as_command([str(word) for word in words])
    return named


def _as_command(words: "list[str]") -> str:
    """Return a list of words as the command that a shell takes."""
    if len(words) == 3 and words[1] in ("-c", "-lc"):
        return words[2]
    from shlex import join

    return join(words)
