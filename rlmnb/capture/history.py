"""Past transcripts of Claude Code as the events its hooks would have told of."""

from rlmnb.jsontext import compact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_KNOWN = ("user", "assistant")
_LONGEST_WAIT = 1000
_MOST_KEPT = 256 * 1024
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
        self.unknown: dict[str, int] = {}
        # What records of unknown kinds say, the first of them: their client removes it some day.
        self.kept: list[dict[str, Any]] = []
        self._kept_bytes = 0

    def events(self, record: "dict[str, Any]") -> "Iterator[dict[str, Any]]":
        """Yield what one record tells of."""
        kind = record.get("type")
        message = record.get("message")
        if kind not in _KNOWN or not isinstance(message, dict):
            if isinstance(kind, str):
                self.unknown[kind] = self.unknown.get(kind, 0) + 1
                self._keep(record)
            return
        content = message.get("content")
        if kind == "assistant":
            self._assistant(content)
        elif isinstance(content, str):
            yield from self._prompt(record, content)
        elif isinstance(content, list):
            yield from self._answers(record, content)

    def end(self, record: "dict[str, Any]") -> "Iterator[dict[str, Any]]":
        """Yield what is left at the end: the last thing that was said."""
        if self._said and not self._agent:
            yield self._event(record, "Stop", last_assistant_message=self._said)
        self._said = ""

    def _event(self, record: "dict[str, Any]", name: str, **fields: "Any") -> "dict[str, Any]":
        told = {"hook_event_name": name, "session_id": self._session_id, **self._agent}
        for ours, theirs in (("cwd", "cwd"), ("imported_at", "timestamp")):
            if isinstance(record.get(theirs), str):
                told[ours] = record[theirs]
        return {**told, **fields}

    def _keep(self, record: "dict[str, Any]") -> None:
        self._kept_bytes += len(compact(record)) if self._kept_bytes < _MOST_KEPT else 0
        if self._kept_bytes < _MOST_KEPT:
            self.kept.append(record)

    def _assistant(self, content: "Any") -> None:
        for block in content if isinstance(content, list) else ():
            if not isinstance(block, dict):
                continue
            if block.get("type") == "text" and isinstance(block.get("text"), str):
                self._said = block["text"]
            elif block.get("type") == "tool_use" and isinstance(block.get("id"), str):
                self._calls[block["id"]] = (str(block.get("name")), block.get("input"), self._said)
                while len(self._calls) > _LONGEST_WAIT:
                    del self._calls[next(iter(self._calls))]

    def _prompt(self, record: "dict[str, Any]", text: str) -> "Iterator[dict[str, Any]]":
        if record.get("isMeta") or record.get("isCompactSummary") or self._agent:
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
        answer = whole if isinstance(whole, dict | list) else _text(block.get("content"))
        yield self._event(record, "PostToolUse", **call, tool_response=answer)


def _text(content: "Any") -> str:
    if isinstance(content, str):
        return content
    parts = [
        block["text"]
        for block in (content if isinstance(content, list) else ())
        if isinstance(block, dict) and isinstance(block.get("text"), str)
    ]
    return "\n".join(parts)
