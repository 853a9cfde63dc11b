"""What models have used, from a transcript: each message once, however often it is there."""

from rlmnb.capture.history import LONGEST_REASON
from rlmnb.capture.transcripts import Reader
from rlmnb.errors import RlmnbError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlmnb.capture.progress import Progress


def usage_since(
    progress: "Progress", path: str, deadline: "Any" = None
) -> "tuple[dict[str, dict[str, int]], dict[str, str]]":
    """Return what each model has used since a transcript was last read, and remember how far.

    With it comes what was said before each call, by the call's id: why it was made.

    `message.usage` stands in every record of one message, so a message is counted by its id; the
    last record of it has the final numbers, and what was counted before is taken off.
    """
    bookmarks = progress.table("bookmarks")
    counted = progress.table("messages")
    found: dict[str, dict[str, int]] = {}
    reasons: dict[str, str] = {}
    said = ""
    since = progress.text("since") or ""
    try:
        reader = Reader(path, bookmarks.get(path))
    except (OSError, RlmnbError):
        return {}, {}  # gone, or no file of the kind that a transcript is
    with reader:
        for record in reader:
            _count(record, counted, {} if _repeated(record, since) else found)
            said = _listen(record, said, reasons)
            if deadline is not None and deadline():
                break
        bookmarks[path] = reader.bookmark
    return found, reasons


def _repeated(record: "dict[str, Any]", since: str) -> bool:
    """Tell whether a fork only repeats a message of its parent's, where it was counted."""
    at = record.get("timestamp")
    return bool(since) and isinstance(at, str) and at < since


def _listen(record: "dict[str, Any]", said: str, reasons: "dict[str, str]") -> str:
    """Note what was said before each call of a record; return what was said last."""
    message = record.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if record.get("type") == "user" and isinstance(content, str):
        return ""  # a new turn
    for block in content if isinstance(content, list) else ():
        if not isinstance(block, dict):
            continue
        if block.get("type") == "text" and isinstance(block.get("text"), str):
            if record.get("type") == "assistant":
                said = block["text"]
        elif block.get("type") == "tool_use" and isinstance(block.get("id"), str) and said:
            reasons[block["id"]] = said[:LONGEST_REASON]
    return said


def _count(
    record: "dict[str, Any]", counted: "dict[str, Any]", found: "dict[str, dict[str, int]]"
) -> None:
    message = record.get("message")
    if not isinstance(message, dict) or message.get("role") != "assistant":
        return
    usage, name, model = message.get("usage"), message.get("id"), message.get("model")
    if not isinstance(usage, dict) or not isinstance(name, str) or not isinstance(model, str):
        return
    if model.startswith("<"):
        return  # said by the client itself, in nobody's name
    now = [
        _number(usage.get("input_tokens")),
        _number(usage.get("output_tokens")),
        _number(usage.get("cache_read_input_tokens")),
        _number(usage.get("cache_creation_input_tokens")),
    ]
    before: Any = counted.get(name)
    known = isinstance(before, list) and len(before) == len(now)
    base: list[int] = before if known else [0] * len(now)
    counted[name] = now
    entry = found.setdefault(
        model,
        dict.fromkeys(
            (
                "calls",
                "tokens",
                "input_tokens",
                "output_tokens",
                "cache_read_tokens",
                "cache_write_tokens",
            ),
            0,
        ),
    )
    entry["calls"] += not known
    entry["tokens"] += now[0] + now[1] - base[0] - base[1]
    entry["input_tokens"] += now[0] - base[0]
    entry["output_tokens"] += now[1] - base[1]
    entry["cache_read_tokens"] += now[2] - base[2]
    entry["cache_write_tokens"] += now[3] - base[3]


def _number(value: "Any") -> int:
    return value if type(value) is int and value > 0 else 0
