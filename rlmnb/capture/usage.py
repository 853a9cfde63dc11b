"""What models have used, from a transcript: each message once, however often it is there."""

from rlmnb.capture.transcripts import Reader
from rlmnb.errors import RlmnbError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlmnb.capture.progress import Progress


def usage_since(
    progress: "Progress", path: str, deadline: "Any" = None
) -> "dict[str, dict[str, int]]":
    """Return what each model has used since a transcript was last read, and remember how far.

    `message.usage` stands in every record of one message, so a message is counted by its id; the
    last record of it has the final numbers, and what was counted before is taken off.
    """
    bookmarks = progress.table("bookmarks")
    counted = progress.table("messages")
    found: dict[str, dict[str, int]] = {}
    try:
        reader = Reader(path, bookmarks.get(path))
    except (OSError, RlmnbError):
        return {}  # gone, or no file of the kind that a transcript is
    with reader:
        for record in reader:
            _count(record, counted, found)
            if deadline is not None and deadline():
                break
        bookmarks[path] = reader.bookmark
    return found


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
        model, {"calls": 0, "tokens": 0, "cache_read_tokens": 0, "cache_write_tokens": 0}
    )
    entry["calls"] += not known
    entry["tokens"] += now[0] + now[1] - base[0] - base[1]
    entry["cache_read_tokens"] += now[2] - base[2]
    entry["cache_write_tokens"] += now[3] - base[3]


def _number(value: "Any") -> int:
    return value if type(value) is int and value > 0 else 0
