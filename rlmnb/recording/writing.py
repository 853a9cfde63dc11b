"""One event on its way into a session: where it goes, and how it is written."""

import os
import time

from rlmnb.capture import calls
from rlmnb.capture.progress import Progress
from rlmnb.errors import InvalidCellError, LockTimeoutError
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
_GATHERED_BYTES = 2 * 1024 * 1024


class Writing:
    """What all events have in common: a session, a deadline, and what other hooks know."""

    def __init__(self, place: Place, event: "Event | None", deadline: float) -> None:
        self._place = place
        self._event: Event = event  # type: ignore[assignment]
        self._deadline = deadline
        self._together = False
        # Up to where the journal is in the notebook, while many events are taken in together.
        self._folded = 0
        self._taken: dict[tuple[str, str], int] = {}
        self.count = 0
        # What the hook says back to its client, if anything.
        self.answer: dict[str, Any] | None = None
        self._read_state: dict[str, Any] | None = None
        # Whether what nobody knows of the event has no cell to stand in.
        self._untold = True
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

    def _also_told(self) -> "dict[str, Any]":
        """Return the fields of the event that nobody knows yet, to be kept where its cell is."""
        self._untold = False
        others = self._event.others()
        return {"also_told": portable(calls.brief(others, self._keep))} if others else {}

    # writing

    def _text_cell(self, kind: str, source: str, **fields: "Any") -> "dict[str, Any]":
        """Return a cell for people to read, with what it is."""
        record = {"type": kind, "created_at": times.now(), **fields, **self._also_told()}
        return {"cell_type": "markdown", "source": source, "metadata": {"rlmnb_event": record}}

    def _append(self, cell: "dict[str, Any]") -> str:
        if self._together and self._has(signature(cell)):
            return ""  # an import that was cut short has it already
        self.count += 1
        if at := self._event.text("imported_at"):
            cell = _dated(cell, at)
        if self._together:
            name = appending.append_to_journal(self._place, cell, cwd=self._cwd)
            self._fold_now_and_then()
            return name
        try:
            return appending.append(self._place, cell, cwd=self._cwd, timeout=self._left).cell_id
        except InvalidCellError:
            if not cell.get("dependencies"):
                raise
            # A person may have deleted the cell that this one was found to build on.
            alone = {**cell, "dependencies": []}
            return appending.append(self._place, alone, cwd=self._cwd, timeout=self._left).cell_id

    def _has(self, text: "tuple[str, str] | None") -> bool:
        """Tell whether a text was taken in before, each as often as it was."""
        if text is None or not self._taken.get(text):
            return False
        self._taken[text] -= 1
        return True

    def _fold_now_and_then(self) -> None:
        """Bring what has gathered into the notebook: memory follows what is not in it yet."""
        size = os.stat(self._place.journal).st_size
        if size - self._folded > _GATHERED_BYTES:
            from rlmnb.store import journal
            from rlmnb.store.fold import fold

            fold(self._place, journal.last_seq(self._place.journal), timeout=LOCK_SECONDS)
            self._folded = size
            self._progress.save()

    def _fold(self) -> None:
        """Bring all of the journal into the notebook, which nobody may read for long after this."""
        from rlmnb.store import journal
        from rlmnb.store.fold import fold

        fold(self._place, journal.last_seq(self._place.journal), timeout=self._left)

    def _write(self, entry: "dict[str, Any]") -> None:
        """Write to the journal only: whoever reads the notebook next has it taken in."""
        whole = {**entry, "at": times.now()}
        try:
            appending.write_entry(self._place, lambda _: whole, cwd=self._cwd, timeout=LOCK_SECONDS)
        except LockTimeoutError:
            from rlmnb.store import spill

            spill.keep(self._place, whole)

    def _set(self, **sections: "Any") -> None:
        self._write({"op": "state", "set": portable(sections)})

    def _keep(self, text: str) -> str:
        from rlmnb.store.objects import Objects

        return Objects(self._place.objects).put(text.encode("utf-8", "surrogateescape"))


def signature(cell: "dict[str, Any]") -> "tuple[str, str] | None":
    """Return what tells a text of a session from the others of its turn; None for a call."""
    metadata = cell.get("metadata")
    event = metadata.get("rlmnb_event") if isinstance(metadata, dict) else None
    if not isinstance(event, dict):
        return None
    return str(event.get("type")), str(event.get("prompt_id") or cell.get("source"))


def _dated(cell: "dict[str, Any]", at: str) -> "dict[str, Any]":
    """Return a cell as of the moment that it tells of."""
    if "cell_type" not in cell:
        return {**cell, "created_at": at, "completed_at": at}
    metadata = cell.get("metadata") or {}
    record = {**metadata.get("rlmnb_event", {}), "created_at": at}
    return {**cell, "metadata": {**metadata, "rlmnb_event": record}}
