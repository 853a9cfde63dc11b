"""What was said in a session: its prompts and answers, as the markdown cells they stand in."""

from rlmnb.digest import of_value
from rlmnb.format.nbjson import source_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    Turn = dict[str, str]

# Who speaks in a cell, by the type of the event that it stands for.
_ROLES = {"prompt": "user", "answer": "assistant", "system": "system"}


def role_of(cell: "dict[str, Any]") -> "str | None":
    """Return who speaks in a cell; None where nobody does."""
    return _ROLES.get(_event_of(cell))


def is_reply(cell: "dict[str, Any]") -> bool:
    """Tell whether a cell was recorded as something that is said, and is no prompt."""
    return _event_of(cell) not in ("", "prompt")


def _event_of(cell: "dict[str, Any]") -> str:
    metadata = cell.get("metadata")
    event = metadata.get("rlmnb_event") if isinstance(metadata, dict) else None
    if cell.get("cell_type") != "markdown" or not isinstance(event, dict):
        return ""
    return str(event.get("type"))


def quoted(prompt: str) -> str:
    """Return a prompt as its cell has it."""
    # Only these end a line in a notebook; what else does is part of the text.
    lines = prompt.replace("\r\n", "\n").removesuffix("\n").split("\n")
    return "\n".join(f"> {line}" if line else ">" for line in lines)


def said_in(cell: "dict[str, Any]") -> str:
    """Return what is said in a cell: prompts are quoted there."""
    source = source_of(cell)
    if role_of(cell) != "user":
        return source
    return "\n".join(
        line.removeprefix("> " if line.startswith("> ") else ">") for line in source.split("\n")
    )


def turns_in(cells: "Iterable[dict[str, Any]]") -> "list[Turn]":
    """Return what a person and the agent said to each other in these cells, in their order."""
    return [
        {"role": role, "text": said_in(cell), "cell_id": str(cell.get("id"))}
        for cell in cells
        if (role := role_of(cell)) is not None and role != "system"
    ]


def turns_hash(turns: "list[Turn]") -> str:
    """Return the digest of a conversation, so that a change of it can be seen."""
    return of_value(turns)
