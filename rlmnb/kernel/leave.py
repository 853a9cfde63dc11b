"""Whether the cell that runs may change things outside the notebook, and which tools asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# In the metadata of a request to run a cell: whether this one may, whatever others may.
MAY_CHANGE = "rlmnb_may_change"


class Leave:
    """Leave to change things: given for a replay or for one cell of it, asked for by tools."""

    def __init__(self, *, given: bool) -> None:
        self.given = given
        self.begin(None)

    def begin(self, about: Mapping[str, Any] | None) -> None:
        """Know which cell runs next, by what was sent with it."""
        self._here = bool((about or {}).get(MAY_CHANGE, self.given))
        self._asked: set[str] = set()

    def __call__(self, tool: str) -> bool:
        """Tell a tool whether it may, and note that it would."""
        self._asked.add(tool)
        return self._here

    def finish(self) -> dict[str, Any]:
        """Return what the trace of the cell has to tell: what it did, or would have done."""
        if not self._asked:
            return {}
        return {"effects" if self._here else "refused": sorted(self._asked)}
