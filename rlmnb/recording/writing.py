"""One event on its way into a session: where it goes, and how it is written."""

import os
import time

from rlmnb.capture import calls
from rlmnb.capture.progress import Progress
from rlmnb.errors import InvalidCellError
from rlmnb.format import times
from rlmnb.jsontext import portable
from rlmnb.store import append as appending
from rlmnb.store.layout import Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlmnb.capture.events import Event

LOCK_SECONDS = 2.0
_LEAST_SECONDS = 0.05


class Writing:
    """What all events have in common: a session, a deadline, and what other hooks know."""

    def __init__(self, place: Place, event: "Event | None", deadline: float) -> None:
        self._place = place
        self._event: Event = event  # type: ignore[assignment]
        self._deadline = deadline
        self._together = False
        self.count = 0
        # What the hook says back to its client, if anything.
        self.answer: dict[str, Any] | None = None
        self._read_state: dict[str, Any] | None = None
        self._progress: Progress

    @property
    def progress(self) -> Progress:
        """What the hooks of this session know of each other."""
        return self._progress

    @property
    def _left(self) -> float:
        """How long the notebook may be waited for; the journal always is."""
        return max(self._deadline - time.perf_counter(), _LEAST_SECONDS)

    @property
    def _cwd(self) -> str:
        cwd = self._event.text("cwd")
        return cwd if cwd and calls.is_path(cwd) and os.path.isabs(cwd) else os.getcwd()

    def _section(self, name: str) -> "dict[str, Any]":
        """Return a part of the session's state as the notebook has it."""
        if self._read_state is None:
            from rlmnb.store.notebook import peek_tail

            tail = peek_tail(self._place.notebook)
            self._read_state = (tail.state if tail is not None else None) or {}
        found = self._read_state.get(name)
        return found if isinstance(found, dict) else {}

    def _about(self) -> "dict[str, Any]":
        return self._section("session")

    # writing

    def _append(self, cell: "dict[str, Any]") -> str:
        self.count += 1
        if at := self._event.text("imported_at"):
            cell = _dated(cell, at)
        if self._together:
            return appending.append_to_journal(self._place, cell, cwd=self._cwd)
        try:
            return appending.append(self._place, cell, cwd=self._cwd, timeout=self._left).cell_id
        except InvalidCellError:
            if not cell.get("dependencies"):
                raise
            # A person may have deleted the cell that this one was found to build on.
            alone = {**cell, "dependencies": []}
            return appending.append(self._place, alone, cwd=self._cwd, timeout=self._left).cell_id

    def _write(self, entry: "dict[str, Any]") -> None:
        """Write to the journal only: whoever reads the notebook next has it taken in."""
        whole = {**entry, "at": times.now()}
        appending.write_entry(self._place, lambda _: whole, cwd=self._cwd, timeout=LOCK_SECONDS)

    def _set(self, **sections: "Any") -> None:
        self._write({"op": "state", "set": portable(sections)})

    def _keep(self, text: str) -> str:
        from rlmnb.store.objects import Objects

        return Objects(self._place.objects).put(text.encode("utf-8", "surrogateescape"))


def _dated(cell: "dict[str, Any]", at: str) -> "dict[str, Any]":
    """Return a cell as of the moment that it tells of."""
    if "cell_type" not in cell:
        return {**cell, "created_at": at, "completed_at": at}
    metadata = cell.get("metadata") or {}
    record = {**metadata.get("rlmnb_event", {}), "created_at": at}
    return {**cell, "metadata": {**metadata, "rlmnb_event": record}}
