"""The calls that cells of this kernel make: what is kept of earlier ones, and what came of these.

The notebook is where answers are kept, so it is read when the first call is made, and not before.
A replay says with each cell which one it is and how calls are to go; JupyterLab says which cell it
is, and the notebook the rest.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from rlmnb import digest
from rlmnb.errors import CellNotFoundError
from rlmnb.format.conversation import turns_hash, turns_in
from rlmnb.format.keptcalls import calls_of, is_paid
from rlmnb.format.nbjson import source_of
from rlmnb.kernel.pending import Pending
from rlmnb.models import budget, choosing, current, tags
from rlmnb.models.asking import Desk, Rules
from rlmnb.models.budget import Limits, Spent
from rlmnb.models.keeping import Call, Kept, kept_in
from rlmnb.store import byhand
from rlmnb.store.layout import Place, notebook_place, sessions_root
from rlmnb.store.notebook import read_whole
from rlmnb.store.objects import Objects

ABOUT = "rlmnb_calls"


@dataclass(frozen=True)
class CellSeen:
    """Another cell as code sees it: its source, what it shows, and its record."""

    cell_id: str
    number: int
    type: str
    source: str
    output: str
    outputs: tuple[Any, ...] = ()
    record: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.output


class Calls:
    """What the cell that runs asks, and what it looks at."""

    def __init__(self, objects: str, unheard: Callable[[], AbstractContextManager[None]]) -> None:
        self._objects = Objects(objects)
        self._unheard = unheard
        self._start_model = os.environ.get(choosing.VARIABLE)
        self._version: tuple[Any, ...] = ()
        self._whole: dict[str, Any] = {}
        self._kept = Kept()
        # What cells have called since the notebook may have been written.
        self._since: dict[str, list[Call]] = {}
        self._base: Spent | None = None
        self._inside = 0
        self._lock = threading.Lock()
        # Threads of one cell share its desk, and one reading of the notebook.
        self._opening = threading.RLock()
        self.begin("", {})
        current.settle_in(self._here)

    def begin(self, cell_id: str | None, about: Mapping[str, Any] | None) -> None:
        """Know which cell runs, and how its calls are to go."""
        self._cell_id = cell_id or ""
        self._about = about or {}
        self._desk: Desk | None = None
        self._pending: Pending | None = None
        self._left: list[Call] = []
        self._default: str | None = None
        self._looked: dict[str, dict[str, str]] = {}
        self._talk: str | None = None
        self._here = current.Surroundings(
            self.desk, self.default_model, self.apart, self.cell, self.conversation, notes={}
        )
        current.settle_in(self._here)

    def forget(self) -> None:
        """Rely on the notebook alone: somebody may have changed what is kept."""
        self._since, self._version = {}, ()

    def finish(self) -> dict[str, Any]:
        """Return what the trace of the cell has to tell of its calls; nothing if it made none."""
        found: dict[str, Any] = {}
        if self._pending is not None and not self._settings():
            # A replay does so itself once the notebook has them: an interrupt may come between.
            with self.apart():
                self._pending.clear()
        if self._desk is not None and (calls := self._desk.done()):
            self._since[self._cell_id] = calls
            self._kept.put(self._cell_id, calls)
            found["calls"] = calls
        if self._left and self._settings():
            found["left_over"] = [{**call, "response": ""} for call in self._left]
        if self._default is not None:
            found["default_model"] = self._default
        if self._looked:
            found["looked"] = self._looked
        if self._talk is not None:
            found["conversation"] = self._talk
        return {**found, **self._here.notes}

    # what a call needs to know

    @contextlib.contextmanager
    def apart(self) -> Iterator[None]:
        """Do something of ours: what it opens, imports and warns of is not the cell's doing."""
        main = threading.current_thread() is threading.main_thread()
        with self._lock:
            outermost = self._inside == 0
            self._inside += 1
            if outermost:
                self._filters = list(warnings.filters)
                self._loggers = set(logging.root.manager.loggerDict)
                self._modules = len(sys.modules)
        chance = random.getstate() if main else None
        try:
            with self._unheard():
                yield
        finally:
            with self._lock:
                self._inside -= 1
                if self._inside == 0:
                    self._undo_imports()
            if chance is not None and random.getstate() != chance:
                random.setstate(chance)

    def _undo_imports(self) -> None:
        """Take back what libraries set for everybody when they are imported."""
        if list(warnings.filters) != self._filters:
            warnings.filters[:] = self._filters  # type: ignore[index]
        if len(sys.modules) == self._modules:
            return
        for name, logger in list(logging.root.manager.loggerDict.items()):
            if name not in self._loggers and isinstance(logger, logging.Logger):
                logger.handlers[:] = []
                logger.level, logger.disabled, logger.propagate = logging.NOTSET, False, True

    def default_model(self) -> str | None:
        """Return the model that is meant where none is named; the cell depends on which it is."""
        own = os.environ.get(choosing.VARIABLE)
        if own != self._start_model and own:
            return own  # a cell has set it: the environment is followed by itself
        told = self._settings()
        self._default = told["model"] if "model" in told else choosing.default_model()
        if self._default is None:
            # A notebook is replayed where no model is configured with the one it was made with.
            run = self._record(self._cell_id).get("run")
            before = run.get("default_model") if isinstance(run, dict) else None
            self._default = before if isinstance(before, str) else None
        return self._default

    def desk(self) -> Desk:
        """Return where the cell that runs asks; made at its first call."""
        with self._opening:
            if self._desk is None:
                self._desk = self._opened()
            return self._desk

    def _opened(self) -> Desk:
        self._read()
        self._pending = Pending(self._notebook(), self._cell_id)
        known = {_likeness(call) for call in self._kept.by_cell.get(self._cell_id, ())}
        self._left = [call for call in self._pending.calls() if _likeness(call) not in known]
        spent = self._spent()
        if self._left:
            # What a run had been answered that came to no end: paid for, and counted by nobody yet.
            self._kept.add(self._cell_id, self._left)
            for call in self._left:
                spent = spent.plus(budget.spent_on(call))
        return Desk(
            choosing.provider_for,
            rules=self._rules(),
            kept=self._kept,
            spent=spent,
            cell_id=self._cell_id,
            put=self._objects.put,
            get=self._objects.get,
            tell=self._pending.add,
        )

    def _settings(self) -> Mapping[str, Any]:
        told = self._about.get(ABOUT)
        return told if isinstance(told, dict) else {}

    def _rules(self) -> Rules:
        told = self._settings()
        if told:
            limits = Limits(**told["limits"])
            return Rules(told["mode"], told["expire"], limits, told["force"])
        own = self._about.get("tags")
        own = own if isinstance(own, list) else []
        limits = budget.limits_of(self._state())
        return Rules(tags.mode_of(own, "once"), tags.expiry_of(own, None), limits)

    def _spent(self) -> Spent:
        if told := self._settings():
            return budget.spent_of(told["spent"])
        if self._base is None:
            self._base = budget.spent_by_cells(self._state())
        total = self._base
        for call in (call for calls in self._since.values() for call in calls):
            if is_paid(call) and not call.get("from_cache"):
                total = total.plus(budget.spent_on(call))
        return total

    # the notebook

    def _notebook(self) -> str | None:
        """Return the path of the notebook: as the replay says, else as the server does."""
        return self._settings().get("notebook") or os.environ.get("JPY_SESSION_NAME")

    def _read(self) -> None:
        with self._opening:
            self._read_if_changed()

    def _read_if_changed(self) -> None:
        path = self._notebook()
        try:
            status = os.stat(path) if path else None
            version: tuple[Any, ...] = ()
            if path and status:
                place = notebook_place(path)
                seen = (status.st_mtime_ns, status.st_size, status.st_ino)
                version = (path, *seen, byhand.version(place))
            if version and version != self._version:
                self._whole = read_whole(str(path))
                self._version = version
                self._kept = kept_in(
                    (str(cell.get("id")), cell["metadata"].get("rlmnb"))
                    for cell in self._whole["cells"]
                    if isinstance(cell.get("metadata"), dict)
                )
                for cell_id, calls in _by_hand(place):
                    self._kept.add(cell_id, calls)
                for cell_id, calls in self._since.items():
                    self._kept.put(cell_id, calls)
        except OSError:
            return  # no notebook, nothing kept

    def _state(self) -> Mapping[str, Any]:
        state = self._whole.get("metadata", {}).get("rlmnb")
        return state if isinstance(state, dict) else {}

    def _record(self, cell_id: str) -> Mapping[str, Any]:
        self._read()
        for cell in self._whole.get("cells", ()):
            if cell.get("id") == cell_id:
                record = cell.get("metadata", {}).get("rlmnb")
                return record if isinstance(record, dict) else {}
        return {}

    def cell(self, name: str | int) -> CellSeen:
        """Return a cell above the one that runs, which depends on it from now on."""
        with self.apart():
            self._read()
            cells = self._whole.get("cells", [])
            at = _found(cells, name)
            if at >= self._place(cells):
                raise CellNotFoundError(
                    f"cell {name} is not above {self._cell_id}, so it has not run yet",
                    hint="look only at cells further up",
                )
            seen = _seen(cells[at], at + 1, self._objects)
        self._looked[seen.cell_id] = {
            "source": digest.source_hash(seen.source),
            "output": digest.output_hash(cells[at].get("outputs") or []),
        }
        return seen

    def conversation(self, last: int | None = None) -> list[dict[str, str]]:
        """Return what was said above the cell that runs, which depends on all of it from now on."""
        if last is not None and last < 0:
            raise ValueError(f"last is {last}; wanted how many of the last prompts and answers")
        with self.apart():
            self._read()
            cells = self._whole.get("cells", [])
            turns = turns_in(cells[: self._place(cells)])
            self._talk = turns_hash(turns)
        return turns if last is None else turns[max(0, len(turns) - last) :]

    def _place(self, cells: list[dict[str, Any]]) -> int:
        """Return how many cells are above the one that runs; all, if the notebook has it not."""
        found = (at for at, cell in enumerate(cells) if cell.get("id") == self._cell_id)
        return next(found, len(cells))


def _likeness(call: Call) -> tuple[Any, ...]:
    return call["key"], call.get("at"), call.get("response"), call.get("object")


def cell(name: str | int) -> Any:
    """Return another cell by its number or id: `.source`, `.output`, `.outputs`, `.record`.

    The cell that asks depends on it.
    """
    return current.surroundings().cell(name)


def conversation(last: int | None = None) -> Any:
    """Return the prompts and answers above, or the last of them: `role`, `text` and `cell_id` each.

    The cell that asks depends on them.
    """
    return current.surroundings().conversation(last)


def _found(cells: list[dict[str, Any]], name: str | int) -> int:
    if isinstance(name, int) and not isinstance(name, bool):
        if 1 <= name <= len(cells):
            return name - 1
        raise CellNotFoundError(f"there is no cell {name}: the notebook has {len(cells)}")
    name = str(name)
    ids = [str(each.get("id")) for each in cells]
    matches = [at for at, each in enumerate(ids) if each == name]
    matches = matches or [at for at, each in enumerate(ids) if name and each.startswith(name)]
    if len(matches) != 1:
        which = "more than one cell answers" if matches else "no cell answers"
        raise CellNotFoundError(f"{which} to {name!r}", hint="see their ids: rlmnb cells")
    return matches[0]


def _seen(raw: dict[str, Any], number: int, objects: Objects) -> CellSeen:
    record = raw.get("metadata", {}).get("rlmnb")
    record = record if isinstance(record, dict) else {}
    outputs = raw.get("outputs") or []
    return CellSeen(
        cell_id=str(raw.get("id")),
        number=number,
        type=str(record.get("type") or raw.get("cell_type")),
        source=source_of(raw),
        output=_text_of(outputs, record, objects),
        outputs=tuple(outputs),
        record=record,
    )


def _text_of(outputs: list[Any], record: Mapping[str, Any], objects: Objects) -> str:
    """Return all that a cell shows as text, long outputs whole."""
    result = record.get("output")
    stored = result.get("objects") if isinstance(result, dict) else None
    whole = {
        each["output"]: each["object"]
        for each in (stored if isinstance(stored, list) else ())
        if each.get("mime") == "text/plain"
    }
    parts = []
    for at, output in enumerate(outputs):
        if at in whole:
            parts.append(objects.get(whole[at]).decode("utf-8", "replace"))
        elif output.get("output_type") == "stream":
            parts.append(str(digest.value_of_lines(output.get("text", ""))))
        elif output.get("output_type") == "error":
            parts.append(f"{output.get('ename')}: {output.get('evalue')}\n")
        else:
            text = (output.get("data") or {}).get("text/plain", "")
            parts.append(str(digest.value_of_lines(text)))
    return "".join(parts)


def _by_hand(place: Place) -> Iterator[tuple[str, list[Call]]]:
    """Yield what cells have called that a person ran, and whose notebook has not got it yet."""
    for cell_id, entries in byhand.traces(place).items():
        for entry in reversed(entries):
            yield cell_id, calls_of(entry["run"])


def own_objects() -> str:
    """Return where the objects of the notebook are that a server has opened."""
    opened = os.environ.get("JPY_SESSION_NAME")
    if opened and opened.endswith(".ipynb"):
        return notebook_place(opened).objects
    return os.path.join(sessions_root(), "objects")
