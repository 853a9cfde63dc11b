"""Append one cell: the path a hook takes, standard library only.

First the journal, durably; then the notebook. Once the journal has the cell it is acknowledged:
whatever happens to the notebook after that, the next append or read brings the cell in.
"""

import os
import time

from rlmnb.errors import (
    InvalidCellError,
    LockTimeoutError,
    NotebookError,
    StorageError,
    UnsafePathError,
)
from rlmnb.format import cells, times
from rlmnb.format.state import new_state
from rlmnb.ids import CellId, check_cell_id, new_cell_id
from rlmnb.store import journal, lease, notebook
from rlmnb.store.fold import fold, give_ids
from rlmnb.store.layout import Place, place_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from rlmnb.store.journal import Entry

TIMEOUT = 10.0


class Appended:
    """Where an appended cell got to; `why_not` says what kept it out of the notebook, if so."""

    __slots__ = ("cell_id", "seq", "why_not")

    def __init__(self, cell_id: CellId, seq: int, why_not: "str | None" = None) -> None:
        self.cell_id = cell_id
        self.seq = seq
        self.why_not = why_not


def append(
    session: "str | Place",
    cell: "Mapping[str, Any]",
    *,
    root: "str | None" = None,
    cwd: "str | None" = None,
    timeout: float = TIMEOUT,
) -> Appended:
    """Append a cell to a session, which begins here if it has not yet.

    `cell` is a whole nbformat cell, or its fields: `source`, `type`, `output`, `dependencies` and
    the rest of a record. Safe from any number of processes at once.
    """
    place = session if isinstance(session, Place) else place_of(os.fspath(session), root)
    whole = cells.complete(cell)
    _check_edges(place, whole)

    def make(seq: int) -> "dict[str, Any]":
        if whole["id"]:
            _check_edges(place, whole)  # once more: now nobody else can take the id
        return {"at": times.now(), "cell": cells.named(whole, _id_for(whole, seq)), "op": "append"}

    made = make(time.time_ns() // 1000)  # refuses an invalid cell before anything is written
    end = time.monotonic() + timeout
    try:
        place.prepare()
        whole = fit(place, whole)
        entry, seq = _journaled(place, make, cwd=cwd, end=end)
    except (LockTimeoutError, StorageError) as error:
        from rlmnb.store import spill

        spill.keep(place, made)
        return Appended(CellId(made["cell"]["id"]), -1, error.message)
    # From here on the cell is acknowledged, whatever the notebook says.
    if lease.is_held(place):
        return Appended(CellId(entry["cell"]["id"]), seq)  # a server takes it in, within a second
    folded = fold(place, seq, timeout=max(end - time.monotonic(), 0.0))
    return Appended(CellId(entry["cell"]["id"]), seq, folded.why_not)


def append_to_journal(place: Place, cell: "Mapping[str, Any]", *, cwd: "str | None" = None) -> str:
    """Append one of many cells: the journal has it, and `fold` brings them all in together.

    Edges are not checked against the notebook, which has not got the cells before it yet.
    """
    whole = fit(place, cells.complete(cell))

    def make(seq: int) -> "dict[str, Any]":
        return {"at": times.now(), "cell": cells.named(whole, _id_for(whole, seq)), "op": "append"}

    entry, _ = _journaled(place, make, cwd=cwd, end=time.monotonic() + TIMEOUT)
    return str(entry["cell"]["id"])


def _journaled(
    place: Place, make: "Callable[[int], Entry]", *, cwd: "str | None", end: float
) -> "tuple[Entry, int]":
    given: dict[str, Entry] = {}

    def remember(seq: int) -> "dict[str, Any]":
        given["entry"] = make(seq)
        return dict(given["entry"])

    seq = write_entry(place, remember, cwd=cwd, timeout=max(end - time.monotonic(), 0.0))
    return given["entry"], seq


def write_entry(
    place: Place,
    make: "Callable[[int], Entry] | None",
    *,
    cwd: "str | None" = None,
    timeout: float = TIMEOUT,
) -> int:
    """Write one entry to the journal, beginning the session if there is none."""

    def taken_in() -> int:
        tail = notebook.peek_tail(place.notebook)
        if tail is not None:
            return tail.appended
        if not os.path.lexists(place.notebook):
            return -1
        try:
            whole = notebook.read_whole(place.notebook, patience=timeout)
        except (NotebookError, OSError):
            # How far it had got cannot be read, so number past any count it could have reached.
            return (
                -1
                if os.path.exists(place.journal) and journal.has_begun(place.journal)
                else int(time.time())
            )
        return notebook.appended_of(whole["metadata"])

    def first() -> "dict[str, Any]":
        return {"at": times.now(), "op": "create", "state": begin_state(place, cwd)}

    def fit_spilled(entry: "Entry") -> "Entry | None":
        if not is_sound_append(entry):
            return entry
        try:
            return {**entry, "cell": fit(place, entry["cell"])}
        except StorageError:
            return None  # what had no room in the object store has none yet

    return journal.write(place, make, floor=taken_in, first=first, fit=fit_spilled, timeout=timeout)


def begin_state(place: Place, cwd: "str | None", **session: "Any") -> "dict[str, Any]":
    """Make the state of a session that begins in this directory."""
    from rlmnb.store.project import describe

    directory = os.path.abspath(cwd or os.getcwd())
    return new_state(place.session_id, **{"cwd": directory, **describe(directory), **session})


def _id_for(cell: "dict[str, Any]", seq: int) -> CellId:
    return CellId(cell["id"]) if cell["id"] else new_cell_id(seq)


def fit(place: Place, cell: "dict[str, Any]") -> "dict[str, Any]":
    """Keep outputs that are too long to read in the object store, and a preview in the cell.

    A store that leads elsewhere is one that would not take them: the caller spills the cell.
    """
    if cell.get("cell_type") != "code" or not isinstance(cell.get("outputs"), list):
        return cell
    sizes = [_text_size(output) for output in cell["outputs"]]
    if not any(size > cells.PREVIEW_LIMIT for size in sizes):
        return cell
    from rlmnb.store.objects import Objects
    from rlmnb.store.previews import fit_outputs

    try:
        return fit_outputs(cell, Objects(place.objects))
    except UnsafePathError as error:
        raise StorageError(error.message, hint=error.hint) from error


def _text_size(output: "Any") -> int:
    """Estimate how much text an output shows; exact counting is for those that may be too long."""
    if not isinstance(output, dict):
        return 0
    texts = [output.get("text"), output.get("evalue"), *(output.get("data") or {}).values()]
    size = 0
    for text in texts:
        if isinstance(text, str):
            size = max(size, len(text) * (1 if text.isascii() else 4))
        elif isinstance(text, list):
            size = max(size, 4 * sum(len(line) for line in text if isinstance(line, str)))
    return size


def _check_edges(place: Place, cell: "dict[str, Any]") -> None:
    """Check an explicit id and explicit dependencies against the cells there are."""
    record = cell["metadata"].get("rlmnb") if isinstance(cell.get("metadata"), dict) else None
    try:
        wanted = [edge["cell_id"] for edge in (record or {}).get("dependencies") or ()]
    except (TypeError, KeyError, AttributeError):
        raise InvalidCellError("dependencies in a record are objects with a cell_id") from None
    if not cell["id"] and _all_present(place, wanted):
        return
    from rlmnb.format.edges import check_edges

    parents = _parents(place)
    if cell["id"]:
        check_cell_id(cell["id"])
        if cell["id"] in parents:
            raise InvalidCellError(f"{place.notebook}: there is a cell {cell['id']} already")
    check_edges(cell["id"], wanted, parents, lambda each: parents.get(each, ()), place.name)


def _all_present(place: Place, ids: "Iterable[str]") -> bool:
    """Tell whether a canonical notebook has all these cells, without parsing it."""
    ids = tuple(ids)
    if not ids:
        return True
    try:
        with notebook.OpenNotebook(place.notebook) as opened:
            data = opened.read()
    except OSError:
        return False
    return all(f'\n   "id": "{cell_id}",\n'.encode() in data for cell_id in ids)


def _parents(place: Place) -> "dict[str, tuple[str, ...]]":
    """Return every cell there is with what it depends on, pending entries included."""
    try:
        whole = notebook.read_whole(place.notebook)
        give_ids(whole)
        known, appended = whole["cells"], notebook.appended_of(whole["metadata"])
    except (NotebookError, OSError):
        known, appended = [], -1
    pending = journal.entries_after(place.journal, appended)
    if os.path.isdir(place.spill):
        from rlmnb.store import spill

        pending += [entry for _, entry in spill.waiting(place)]
    known = known + [entry["cell"] for entry in pending if is_sound_append(entry)]
    return {str(cell.get("id")): _dependencies(cell) for cell in known}


def is_sound_append(entry: "Entry") -> bool:
    """Tell whether a journal entry brings a cell."""
    return entry.get("op") == "append" and isinstance(entry.get("cell"), dict)


def cells_wait(place: Place, appended: int) -> bool:
    """Tell whether the journal has cells that the notebook has not taken in.

    What else waits there is as it should be: the next reader has it taken in.
    """
    return any(is_sound_append(entry) for entry in journal.entries_after(place.journal, appended))


def _dependencies(cell: "dict[str, Any]") -> "tuple[str, ...]":
    metadata = cell.get("metadata")
    record = metadata.get("rlmnb") if isinstance(metadata, dict) else None
    edges = record.get("dependencies") if isinstance(record, dict) else None
    if not isinstance(edges, list):
        return ()
    return tuple(
        str(edge.get("cell_id")) if isinstance(edge, dict) else str(edge) for edge in edges
    )
