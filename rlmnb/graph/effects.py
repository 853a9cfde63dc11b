"""Which tools act on the world outside the notebook."""

from __future__ import annotations

EFFECTFUL = frozenset(
    {"Bash", "Edit", "MultiEdit", "NotebookEdit", "PowerShell", "WebFetch", "Write"}
)
"""Tools of the agent that change files, start programs or reach another machine."""

_FOREIGN = "mcp__"


def is_effectful(operation: str | None) -> bool:
    """Tell whether running this operation again could do something again.

    What a tool of an MCP server does is not known here, so each of them counts. A cell without
    an operation is plain code, whose effects are its variables and files.
    """
    return operation is not None and (operation in EFFECTFUL or operation.startswith(_FOREIGN))
