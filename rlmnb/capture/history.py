"""Past transcripts of Claude Code as the events its hooks would have told of."""

from rlmnb.jsontext import compact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_KNOWN = ("user", "assistant")
_AGENTS = ("Agent", "Task")
_LONGEST_WAIT = 1000
# A file that has more, or a longer line, the client's Read cuts.
_MOST_LINES, _LONGEST_LINE = 2000, 2000
_MOST_KEPT = 4 * 1024 * 1024
# What was said before a call, as far as it is kept with it.
LONGEST_REASON = 1000


class History:
    """Turns records into events, one after the other. A call waits for its result."""

    def __init__(self, session_id: str, agent: "dict[str, Any] | None" = None) -> None:
        self._session_id = session_id
        # Whose transcript it is: nothing for the session's own, an id for a sub-agent's.
        self._agent = agent or {}
        self._calls: dict[str, tuple[str, Any, str]] = {}
        self._said = ""
        # The last call of a sub-agent.
        self._asked = ""
        self.unknown: dict[str, int] = {}
        # What records of unknown kinds say, and of which kinds: their client removes it some day.
        self._kept: list[dict[str, Any]] = []
        self._kinds: dict[str, int] = {}
        self._kept_bytes = 0

    def events(self, record: "dict[str, Any]") -> "Iterator[dict[str, Any]]":
        """Yield what one record tells of."""
        kind = record.get("type")
        message = record.get("message")
        if kind == "attachment" and (text := _queued(record.get("attachment"))) is not None:
            # Typed while the agent was at work, and taken up in the same turn.
            told = {"prompt": text, "prompt_id": record.get("uuid")}
            yield self._event(record, "UserPromptSubmit", **told)
        if kind not in _KNOWN or not isinstance(message, dict):
            if isinstance(kind, str):
                self.unknown[kind] = self.unknown.get(kind, 0) + 1
                self._keep(kind, record)
            return
        content = message.get("content")
        if kind == "assistant":
            yield from self._assistant(record, content)
        elif isinstance(content, str):
            yield from self._prompt(record, content)
        elif isinstance(content, list):
            yield from self._answers(record, content)

    @property
    def waits(self) -> bool:
        """Whether a call is under way, whose result comes later."""
        return bool(self._calls)

    def end(self, record: "dict[str, Any]") -> "Iterator[dict[str, Any]]":
        """Yield what is left at the end: the last thing that was said."""
        if self._said:
            name = "SubagentStop" if self._agent else "Stop"
            yield self._event({**record, "isSidechain": False}, name, **self._last_words())
        self._said = ""

    def _last_words(self) -> "dict[str, str]":
        return {"last_assistant_message": self._said}

    def _event(self, record: "dict[str, Any]", name: str, **fields: "Any") -> "dict[str, Any]":
        told = {"hook_event_name": name, "session_id": self._session_id, **self._agent}
        if self._is_aside(record) and self._asked:
            told |= {"agent_id": str(record.get("agentId") or self._asked)}
            told["imported_parent"] = self._asked
        for ours, theirs in (("cwd", "cwd"), ("imported_at", "timestamp")):
            if isinstance(record.get(theirs), str):
                told[ours] = record[theirs]
        return {**told, **fields}

    def _is_aside(self, record: "dict[str, Any]") -> bool:
        """Tell whether a record of the session's own transcript is a sub-agent's, as they were."""
        return not self._agent and record.get("isSidechain") is True

    @property
    def keeps_much(self) -> bool:
        """Whether it is time to put away what nobody knows: it must not fill the memory."""
        return self._kept_bytes >= _MOST_KEPT

    def take_unknown(self) -> "tuple[list[dict[str, Any]], dict[str, int]]":
        """Return the records of unknown kinds since it was last asked, and how many of each."""
        taken = self._kept, self._kinds
        self._kept, self._kinds, self._kept_bytes = [], {}, 0
        return taken

    def _keep(self, kind: str, record: "dict[str, Any]") -> None:
        if not self.keeps_much:
            self._kept.append(record)
            self._kinds[kind] = self._kinds.get(kind, 0) + 1
            self._kept_bytes += len(compact(record))

    def _assistant(self, record: "dict[str, Any]", content: "Any") -> "Iterator[dict[str, Any]]":
        aside = self._is_aside(record)
        said = "" if aside else self._said
        for block in content if isinstance(content, list) else ():
            if not isinstance(block, dict):
                continue
            if block.get("type") == "text" and isinstance(block.get("text"), str):
                said = block["text"]
            elif block.get("type") == "tool_use" and isinstance(block.get("id"), str):
                name, tool = block["id"], str(block.get("name"))
                self._calls[name] = (tool, block.get("input"), said)
                while len(self._calls) > _LONGEST_WAIT:
                    del self._calls[next(iter(self._calls))]
                if tool in _AGENTS and not aside:
                    # Its cell stands above those of the agent, which come before its result.
                    self._asked = name
                    call = {"tool_name": tool, "tool_input": block.get("input")}
                    yield self._event(record, "PreToolUse", **call, tool_use_id=name)
        if not aside:
            self._said = said

    def _prompt(self, record: "dict[str, Any]", text: str) -> "Iterator[dict[str, Any]]":
        aside = self._agent or self._is_aside(record)
        # What the client says for itself is no prompt, unless it begins a turn with it.
        unasked = record.get("isMeta") and not isinstance(record.get("promptSource"), str)
        if unasked or record.get("isCompactSummary") or aside:
            if record.get("isCompactSummary"):
                yield self._event(record, "PostCompact", compact_summary=text)
            return
        yield from self.end(record)
        self._calls.clear()  # what has no result when the next turn begins will never have one
        yield self._event(record, "UserPromptSubmit", prompt=text, prompt_id=record.get("uuid"))

    def _answers(
        self, record: "dict[str, Any]", content: "list[Any]"
    ) -> "Iterator[dict[str, Any]]":
        texts = []
        for block in content:
            if not isinstance(block, dict):
                continue
            if block.get("type") == "text" and isinstance(block.get("text"), str):
                texts.append(block["text"])
            elif block.get("type") == "tool_result":
                yield from self._answer(record, block)
        if texts:
            yield from self._prompt(record, "\n".join(texts))

    def _answer(
        self, record: "dict[str, Any]", block: "dict[str, Any]"
    ) -> "Iterator[dict[str, Any]]":
        name = block.get("tool_use_id")
        if not isinstance(name, str):
            return
        tool, args, said = self._calls.pop(name, ("unknown", {}, ""))
        call = {"tool_name": tool, "tool_input": args, "tool_use_id": name}
        if said:
            call["imported_rationale"] = said[:LONGEST_REASON]
        whole = record.get("toolUseResult")
        if block.get("is_error"):
            error = whole if isinstance(whole, str) else _text(block.get("content"))
            error = error.removeprefix("Error: ")
            yield self._event(record, "PostToolUseFailure", **call, error=error)
            return
        content = block.get("content")
        answer = whole if isinstance(whole, dict | list) else content
        if answer is content and not _has_more_than_text(content):
            answer = _text(content)
            if tool == "Read":
                answer = _file_told(args, answer, _unnumbered(answer))
        yield self._event(record, "PostToolUse", **call, tool_response=answer)


def _queued(attachment: "Any") -> "str | None":
    """Return what a person typed while the agent was at work, None if it is anything else."""
    if not isinstance(attachment, dict) or attachment.get("type") != "queued_command":
        return None
    if attachment.get("commandMode", "prompt") != "prompt":
        return None
    return _text(attachment.get("prompt")) or None


def _file_told(args: "Any", numbered: str, text: str) -> "Any":
    """Return a file that was read as a hook is told of it, if this is all of it."""
    path = args.get("file_path") if isinstance(args, dict) else None
    lines = text.split("\n")
    in_part = not isinstance(args, dict) or args.get("offset") or args.get("limit")
    cut = len(lines) >= _MOST_LINES or any(len(line) >= _LONGEST_LINE for line in lines)
    if not isinstance(path, str) or in_part or cut or text == numbered:
        return text
    if numbered.lstrip(" ")[:1] != "1" or numbered.lstrip(" ")[1:2].isdigit():
        return text
    file = {"filePath": path, "content": text, "startLine": 1}
    return {"type": "text", "file": {**file, "numLines": len(lines), "totalLines": len(lines)}}


def _unnumbered(text: str) -> str:
    """Return the lines of a file as they are: for the model each has its number before it."""
    lines = text.split("\n")
    parts = [line.lstrip(" ").replace("→", "\t", 1).partition("\t") for line in lines]
    if not all(number.isdigit() and tab for number, tab, _ in parts):
        return text
    return "\n".join(line for _, _, line in parts)


def _has_more_than_text(content: "Any") -> bool:
    blocks = content if isinstance(content, list) else []
    return any(isinstance(block, dict) and block.get("type") != "text" for block in blocks)


def _text(content: "Any") -> str:
    if isinstance(content, str):
        return content
    parts = [
        block["text"]
        for block in (content if isinstance(content, list) else ())
        if isinstance(block, dict) and isinstance(block.get("text"), str)
    ]
    return "\n".join(parts)
