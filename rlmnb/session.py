"""Open a session and close the loop: append, read, change, save, fork."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from rlmnb import digest, forking, indexing
from rlmnb.capture import toolcalls, transcripts
from rlmnb.capture.folders import names_of
from rlmnb.errors import CellNotFoundError, InvalidCellError, StatusError, StorageError
from rlmnb.format import cells as making
from rlmnb.format import times
from rlmnb.format.migrations import migrate
from rlmnb.format.nbjson import check_outputs
from rlmnb.format.state import difference, new_state
from rlmnb.format.status import move
from rlmnb.graph import freshness
from rlmnb.graph import index as graph
from rlmnb.graph.changes import Finding
from rlmnb.ids import CellId, SessionId
from rlmnb.jsontext import portable
from rlmnb.selecting import one_cell, select
from rlmnb.store import append as appending
from rlmnb.store import byhand, index_file, notebook, sessions, working
from rlmnb.store.fold import fold
from rlmnb.store.layout import Place, session_place
from rlmnb.store.objects import Objects
from rlmnb.store.previews import fit_outputs
from rlmnb.views import Cell, Cells, exit_code_of, text_of

if TYPE_CHECKING:
    from rlmnb.format.session import SessionState

_Found = TypeVar("_Found")
_PREVIEW = 1000
_TOOL_OUTPUTS = 100


class Session:
    """One agent run: a notebook, its journal, and what is derived from them."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._found: list[Finding] = []
        self._loaded: dict[str, Any] | None = None
        self._state: SessionState | None = None
        self._state_before: dict[str, Any] = {}
        self._read()

    @classmethod
    def create(
        cls,
        session_id: str,
        cwd: str | os.PathLike[str] | None = None,
        *,
        root: str | os.PathLike[str] | None = None,
        **session: Any,
    ) -> Session:
        """Begin a session, or open it if it has begun; `session` are fields like `title`."""
        place = session_place(session_id, os.fspath(root) if root is not None else None)
        if not place.exists():
            place.prepare()
            state = appending.begin_state(place, os.fspath(cwd) if cwd else None, **session)
            forking.begin(place, state)
            sessions.make_current(place)
        return cls(place)

    @classmethod
    def open(
        cls,
        target: str | os.PathLike[str] | None = None,
        *,
        root: str | os.PathLike[str] | None = None,
    ) -> Session:
        """Open a session by id, unique prefix or path; without one, the one meant here."""
        target, root = (None if each is None else os.fspath(each) for each in (target, root))
        return cls(sessions.find(target, root=root))

    def __repr__(self) -> str:
        return f"<Session {self._place.name}: {len(self.cells)} cells, {len(self.stale)} stale>"

    @property
    def id(self) -> SessionId:
        return self._place.session_id

    @property
    def path(self) -> str:
        """Where the notebook is."""
        return self._place.notebook

    @property
    def place(self) -> Place:
        return self._place

    @property
    def objects(self) -> Objects:
        return Objects(self._place.objects)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What people and other tools did to the notebook since it was last read."""
        return tuple(self._found)

    # reading

    def _read(self) -> None:
        reading = indexing.read_index(self._place)
        self._index = reading.index
        self._found += reading.findings
        if reading.folded is not None:
            self._found += [
                Finding("restored", cell_id, "was put back: an older save had dropped it")
                for cell_id in reading.folded.restored
            ]
            if reading.folded.stripped:
                text = "had lost what rlmnb keeps in it; the journal has put it back"
                self._found.append(Finding("stripped", "the notebook", text))
        self._loaded = reading.whole
        for name in ("stale", "_cells"):
            self.__dict__.pop(name, None)

    def refresh(self) -> None:
        """See what has changed since the session was opened."""
        self._read()

    @property
    def index(self) -> graph.Index:
        """The DAG, as `index.json` has it."""
        return self._index

    @cached_property
    def stale(self) -> Mapping[str, Sequence[str]]:
        """Every stale cell with its causes."""
        now = {}
        for path, versions in freshness.files_to_check(self._index).items():
            changed = [digest.file_changed(path, version) for version in versions]
            today = next((each for each in changed if each is not None), None)
            if today is not None:
                now[path] = str(today)
        names = {key: names_of(key) or [] for key in freshness.listings_to_check(self._index)}
        return freshness.find_stale(self._index, now, time.time(), names)

    def judge(self, stale: Mapping[str, Sequence[str]]) -> None:
        """Take over, until the next refresh, what somebody with a better look says is stale."""
        self.__dict__["stale"] = stale
        self.__dict__.pop("_cells", None)

    def show_running(self, cell_id: str) -> None:
        """Show, until the next refresh, a cell as one that is running just now."""
        entries = self._index["cells"]
        if cell_id in entries:
            running = {cell_id: {**entries[cell_id], "status": "running"}}
            self._index = {**self._index, "cells": entries.with_changes(running)}
            self.__dict__.pop("_cells", None)

    @cached_property
    def _cells(self) -> Cells:
        return Cells([self._cell(cell_id) for cell_id in self._index["cells"]])

    @property
    def cells(self) -> Cells:
        """All cells in notebook order; `cells(type="tool")` filters."""
        return self._cells

    def _cell(self, cell_id: str) -> Cell:
        return Cell(cell_id, self._index["cells"], self.stale.get(cell_id, ()), self._raw_cell)

    def cell(self, cell_id: str | int) -> Cell:
        """Return a cell by its id, the beginning of it, or its number."""
        return self._cell(self._meant(lambda: one_cell(str(cell_id), self._index)))

    def select(self, selector: str, stale: Collection[str] | None = None) -> Cells:
        """Return the cells that a selector names, like `2-4,7` or `downstream:3`."""
        stale = self.stale if stale is None else stale
        found = self._meant(lambda: select(selector, self._index, stale))
        return Cells([self._cell(cell_id) for cell_id in found])

    def _meant(self, find: Callable[[], _Found]) -> _Found:
        """Say in which session a cell was not found."""
        try:
            return find()
        except CellNotFoundError as error:
            hint = (error.hint or "").replace("rlmnb cells", f"rlmnb cells {self._place.word}")
            hint = hint.replace(" SESSION ", f" {self._place.word} ")
            raise CellNotFoundError(f"{self._place.name}: {error.message}", hint=hint) from None

    def chain(self, cell_id: str | int, *, reverse: bool = False) -> list[tuple[Cell, int]]:
        """Return what a cell depends on, or what depends on it, each with its distance in edges."""
        cell = self.cell(cell_id)
        reach = graph.downstream if reverse else graph.upstream
        return [
            (self._cell(each), depth) for each, depth in reach(self._index, cell.cell_id).items()
        ]

    def whole(self) -> dict[str, Any]:
        """Return the notebook as it is now, parsed once. Not to be changed."""
        if self._loaded is None:
            _, status, whole, _ = notebook.read_version(self._place.notebook)
            seen = {key: self._index["notebook"][key] for key in index_file.describe(status)}
            by_hand = self._index["notebook"].get("by_hand")
            if seen != index_file.describe(status) or by_hand != byhand.version(self._place):
                self._read()
                whole = notebook.read_whole(self._place.notebook)
            byhand.lay_over(self._place, whole)
            self._loaded = whole
        return self._loaded

    def _raw_cell(self, cell_id: str) -> dict[str, Any]:
        """Return a cell as the notebook has it now, wherever it stands by now."""
        whole = self.whole()
        entry = self._index["cells"].get(cell_id)
        if entry is None:
            raise CellNotFoundError(f"{self._place.name}: cell {cell_id} is gone")
        found: dict[str, Any] = whole["cells"][entry["number"] - 1]
        return found

    # state

    def stored_state(self) -> dict[str, Any]:
        """Return the state as the notebook has it, in today's schema."""
        state = sessions.state_of(self._place)
        if not state:
            return {**new_state(self.id), "appended": 0}
        return migrate(state, self._place.notebook)

    @property
    def state(self) -> SessionState:
        """The session's state, checked against the schema. Change it, then `save()`."""
        if self._state is None:
            from rlmnb.format.checks import checked_state

            self._state = checked_state(self.stored_state(), self._place.notebook)
            self._state_before = self._state.model_dump(mode="json")
        return self._state

    @property
    def working_memory(self) -> dict[str, Any]:
        """What the session keeps at hand, by name. Change it with `remember` and `forget`."""
        memory = sessions.section(
            sessions.section(self.stored_state(), "context"), "working_memory"
        )
        return working.whole(memory, self.objects)

    def remember(self, **values: Any) -> None:
        """Keep JSON values at hand under these names; a cell finds them in `working_memory`."""
        self.state.context.working_memory |= values
        self.save()

    def forget(self, *names: str) -> None:
        """Remove names from working memory; one that is not there is fine."""
        kept = self.state.context.working_memory
        self.state.context.working_memory = {
            name: value for name, value in kept.items() if name not in names
        }
        self.save()

    @property
    def transcript_path(self) -> str | None:
        """Where the agent keeps its own record of the session, if that is known."""
        told = sessions.section(self.stored_state()).get("transcript_path")
        return transcripts.path_of(self.id, self._cwd(), told if isinstance(told, str) else None)

    def view(self) -> dict[str, Any]:
        """Return the whole state with what is computed from the cells filled in."""
        from rlmnb.format.checks import checked_state

        state = checked_state(self.stored_state(), self._place.notebook).model_dump(mode="json")
        computed = {"files": self.context_files(), "tool_outputs": self._tool_outputs()}
        state["context"] = {**state["context"], **computed}
        if state["budget"]["by_model"]:
            from rlmnb.models.spending import with_costs

            state["budget"] = with_costs(state)
        state["cells"] = {"count": len(self.cells), "index_path": self._place.index}
        state["trajectory"] = {"events_count": state["appended"], "export_path": None}
        return state

    def context_files(self) -> dict[str, Any]:
        """Return every file the cells touched: its latest known version, when, in which role."""
        found: dict[str, dict[str, Any]] = {}
        for entry in self._index["cells"].values():
            at = entry.get("created_at")
            for key, role in (("files_read", "read"), ("files_written", "modified")):
                for path, version in entry.get(key, {}).items():
                    known = found.setdefault(path, {"first_access": at, "role": role})
                    if role == "modified" and "hash" not in known:
                        known["role"] = "created" if _creates(entry) else "modified"
                    elif role == "modified" and known["role"] == "read":
                        known["role"] = "modified"
                    known |= {
                        "hash": version["hash"],
                        "size_bytes": version["size_bytes"],
                        "last_access": at,
                    }
        return found

    def changes_seen(self) -> dict[str, Any]:
        """Return the files that make cells stale and that a client saw change, and when.

        What is stale is found by hashing; this adds what was told while the agent was at work.
        """
        told = sessions.section(sessions.section(self.stored_state(), "context"), "changed_files")
        causes = [cause for each in self.stale.values() for cause in each]
        return {
            path: change
            for path, change in told.items()
            if isinstance(change, dict) and any(cause.startswith(f"{path} ") for cause in causes)
        }

    def _tool_outputs(self) -> list[dict[str, Any]]:
        return [
            {
                "tool_name": cell.entry.get("operation") or "unknown",
                "content_preview": text_of(cell.outputs)[:_PREVIEW],
                "exit_code": exit_code_of(cell),
                "timestamp": cell.entry.get("created_at"),
                "cell_id": cell.cell_id,
            }
            for cell in self.cells(type="tool")[-_TOOL_OUTPUTS:]
        ]

    # changing

    def append(
        self,
        source: str,
        *,
        type: str = "repl",
        output: str | None = None,
        dependencies: Iterable[str | Mapping[str, Any]] = (),
        **fields: Any,
    ) -> CellId:
        """Append a cell and return its id; `fields` are those of a record, and `outputs`, `id`."""
        fields |= {"source": source, "type": type, "dependencies": dependencies}
        if output is not None:
            fields["output"] = output
        return self.append_cell(toolcalls.with_tool_call(fields, self._cwd())).cell_id

    def append_cell(self, cell: Mapping[str, Any]) -> appending.Appended:
        """Append a cell made of fields, or a whole nbformat cell; say where it got to."""
        from rlmnb.format.checks import check_record

        check_record(making.complete(cell))
        appended = appending.append(self._place, cell)
        self._read()
        return appended

    def _cwd(self) -> str:
        return str(sessions.section(self.stored_state()).get("cwd") or os.getcwd())

    def complete(
        self,
        cell_id: str,
        *,
        output: str | None = None,
        outputs: Sequence[Mapping[str, Any]] = (),
        error: str | Mapping[str, Any] | None = None,
        status: str | None = None,
        **fields: Any,
    ) -> None:
        """Finish a cell that was appended as running; saying it twice changes nothing.

        Another `status` moves the cell on; what it has put out stays unless there is something new.
        """
        cell = self.cell(cell_id)
        new = status or ("failed" if error is not None else "completed")
        if output is None and not outputs and error is None and new not in ("completed", "failed"):
            self._move_on(cell, new)
            return
        shown = [making.stream(output)] if output is not None else []
        shown += [dict(each) for each in outputs]
        if error is not None:
            shown.append(making.error_output(error))
        if cell.status == new and digest.output_hash(shown) == cell.entry["output_hash"]:
            return
        move(None if cell.status == "new" else cell.status, new)
        if unknown := set(fields) - {"result", "execution_time_ms", "cached_response"}:
            raise InvalidCellError(f"an output has no {', '.join(sorted(unknown))}")
        check_outputs(shown, f"cell {cell.cell_id}")
        result = {
            key: value for key, value in {**fields, "error": error}.items() if value is not None
        }
        record = {"status": new, "completed_at": times.now(), "output": result}
        made = {"outputs": portable(shown), "metadata": {"rlmnb": record}}
        fitted = fit_outputs(made, self.objects)
        record = {
            **fitted["metadata"]["rlmnb"],
            "output_hash": digest.output_hash(fitted["outputs"]),
        }
        of = [digest.source_hash(cell.source), digest.output_hash(cell.outputs)]
        entry = {"op": "update", "cell_id": cell.cell_id, "record": record, "of": of}
        self._write({**entry, "outputs": fitted["outputs"]})

    def _move_on(self, cell: Cell, status: str) -> None:
        if cell.status == status:
            return
        move(None if cell.status == "new" else cell.status, status)
        if status == "promoted" and (cell.stale or not self._is_verified(cell)):
            raise StatusError(
                f"{cell.cell_id} cannot be promoted: "
                + (f"it is stale: {cell.causes[0]}" if cell.stale else "nothing has verified it"),
                hint="append a cell of type verification that depends on it, or replay",
            )
        self._write({"op": "update", "cell_id": cell.cell_id, "record": {"status": status}})

    def _is_verified(self, cell: Cell) -> bool:
        """Tell whether a cell that holds today has checked this one, and found it right."""
        for other in self.cells:
            if other.stale or other.status not in ("completed", "promoted"):
                continue
            verdict = sessions.section(
                sessions.section(other.raw["metadata"], "rlmnb"), "verification"
            )
            if verdict.get("of", cell.cell_id) != cell.cell_id or not verdict.get("holds", True):
                continue
            if verdict or (other.type == "verification" and cell.cell_id in other.dependencies):
                return True
        return False

    def retell(self, cell_id: str, text: str) -> None:
        """Give a markdown cell another text, unless somebody has edited it since it was read."""
        cell = self._raw_cell(cell_id)
        if cell.get("cell_type") != "markdown":
            raise InvalidCellError(f"{cell_id} is no markdown cell; its source is its owner's")
        of = [digest.source_hash("".join(cell["source"])), digest.output_hash([])]
        self._write({"op": "update", "cell_id": cell_id, "text": portable(text), "of": of})

    def invalidate(self, selector: str | int, reason: str, **evidence: Any) -> list[CellId]:
        """Mark finished cells as no longer valid and return them; their outputs stay.

        `evidence` is kept with the reason. What depends on them is stale from now on, too.
        """
        marked = [cell for cell in self.select(str(selector)) if cell.status == "completed"]
        self._mark(
            [
                (cell, move(cell.status, "invalidated"), {"reason": reason, "was": cell.status})
                for cell in marked
            ],
            evidence,
        )
        return [cell.cell_id for cell in marked]

    def revalidate(self, selector: str | int) -> list[CellId]:
        """Take such marks back, as if they had never been made, and return the cells."""
        marked = [cell for cell in self.select(str(selector)) if cell.status == "invalidated"]
        self._mark([(cell, "completed", None) for cell in marked], {})
        return [cell.cell_id for cell in marked]

    def _mark(
        self, marks: list[tuple[Cell, str, dict[str, Any] | None]], evidence: dict[str, Any]
    ) -> None:
        entries = []
        for cell, status, why in marks:
            mark = None if why is None else {**why, **evidence}
            change = {"record": {"status": status}, "replace": {"invalidated": mark}}
            entries.append({"op": "update", "cell_id": cell.cell_id, **change})
        if entries:
            self._write(*entries)

    def tag(self, cell_id: str, tag: str) -> None:
        """Give a cell one of Jupyter's tags; saying it twice changes nothing."""
        cell = self.cell(cell_id)
        if not tag or "," in tag:
            raise InvalidCellError(f"a tag is a text without commas, found {tag!r}")
        self._write({"op": "update", "cell_id": cell.cell_id, "record": {}, "tag": tag})

    def drop_calls(self, places: Mapping[str, Sequence[int]]) -> None:
        """Forget kept model calls: of each cell those at these places of its list."""
        entries = []
        for cell_id, gone in places.items():
            calls = self._raw_cell(cell_id)["metadata"]["rlmnb"]["calls"]
            kept = [call for at, call in enumerate(calls) if at not in gone]
            change = {"record": {}, "replace": {"calls": kept}}
            entries.append({"op": "update", "cell_id": cell_id, **change})
        if entries:
            self._write(*entries)

    def save(self) -> None:
        """Write the state as it was changed, and the index. Only what changed is written."""
        if self._state is not None:
            context = self._state.context
            context.working_memory = working.fitted(context.working_memory, self.objects)
            change = difference(self._state_before, self._state.model_dump(mode="json"))
            self._state = None
            if change["set"] or change["remove"]:
                self._write({"op": "state", **change})
                return
        self._read()

    def _write(self, *entries: dict[str, Any]) -> None:
        for each in entries:
            seq = appending.write_entry(
                self._place, _constantly(portable({**each, "at": times.now()}))
            )
        folded = fold(self._place, seq, timeout=appending.TIMEOUT)
        if folded.why_not is not None:
            raise StorageError(
                f"kept in the journal, but not in the notebook yet: {folded.why_not}",
                hint=f"run: rlmnb doctor --fix {self._place.word}",
            )
        self._read()

    def fork(
        self,
        at: str | int | None = None,
        *,
        session_id: str | None = None,
        edits: Mapping[str, str] | None = None,
        trial: bool = False,
    ) -> Session:
        """Begin a session with this one's cells up to and including `at`; objects are shared.

        `edits` gives some of them another source there, by their ids. A `trial` is meant only
        where it is named, however new it is.
        """
        self._read()
        last = self.cell(at) if at is not None else (self.cells[-1] if len(self.cells) else None)
        count = last.number if last is not None else 0
        kept = [
            making.named(self._raw_cell(each.cell_id), each.cell_id) for each in self.cells[:count]
        ]
        edits = edits or {}
        kept = [
            {**cell, "source": edits[cell["id"]]} if cell["id"] in edits else cell for cell in kept
        ]
        place = forking.place_of_fork(self._place, session_id)
        memory = self.working_memory if self._place.plain else {}
        state = self.stored_state()
        forking.begin_fork(self._place, place, state, kept, memory=memory, trial=trial)
        return Session(place)


def _constantly(entry: dict[str, Any]) -> Callable[[Any], dict[str, Any]]:
    return lambda _: entry


def _creates(entry: Mapping[str, Any]) -> bool:
    """Tell whether a cell that is the first to write a file may well have made it."""
    return entry.get("operation") not in ("Edit", "MultiEdit", "NotebookEdit")
