"""Which tools leave the world changed, so that doing their call again is not the same as once."""

from __future__ import annotations

_EFFECTFUL = frozenset(
    {"Bash", "Edit", "MultiEdit", "NotebookEdit", "PowerShell", "WebFetch", "Write"}
)


def is_effectful(operation: str | None) -> bool:
    """Tell whether a tool of this name may change something; any tool of a server may."""
    return operation is not None and (operation in _EFFECTFUL or operation.startswith("mcp__"))
