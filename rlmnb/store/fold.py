"""Bring the notebook up to the journal: the entries after the number it has taken in.

The usual case is a splice that parses nothing but the notebook's end. Where the notebook is not
canonical, lost its metadata, or an older cell changes, it is parsed and written anew.
"""

import os

from rlmnb.digest import derived_id, output_hash, source_hash
from rlmnb.errors import InvalidCellError, NotebookError, SchemaError, StorageError
from rlmnb.files import Lock, polls, read_at, remove_leftovers, write_all
from rlmnb.format.nbjson import cell_text, check_cell, source_of
from rlmnb.format.state import merged, new_state, notebook_metadata
from rlmnb.format.version import SCHEMA
from rlmnb.ids import is_nbformat_id
from rlmnb.store import journal, lease, notebook

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlmnb.store.journal import Entry
    from rlmnb.store.layout import Place


class Folded:
    """What a fold came to: how far the notebook is now, and what it put back into it.

    `restored` are cells that had been dropped; `stripped` says that all of our metadata had been.
    """

    __slots__ = ("restored", "seq", "stripped", "why_not")

    def __init__(
        self,
        seq: int,
        restored: "tuple[str, ...]" = (),
        why_not: "str | None" = None,
        *,
        stripped: bool = False,
    ) -> None:
        self.seq = seq
        self.restored = restored
        self.why_not = why_not
        self.stripped = stripped


def fold(place: "Place", seq: int, *, timeout: float) -> Folded:
    """Fold entries until the notebook has taken in `seq`, by us or by whoever holds the lock.

    Where a server has the notebook open as a live document, it is the one that does it. Never
    raises for what another program did to the notebook: the journal has the entries, so the reason
    is handed back instead.
    """
    lock = Lock(place.lock, timeout=0)
    why_not = f"{place.lock}: another process held the lock for {timeout:g} s"
    for left in polls(timeout):
        try:
            # Asked again under the lock: who takes the lease has the lock as well.
            if not lease.is_held(place) and lock.attempt() and not lease.is_held(place):
                return _fold_locked(place, lock, max(left, 0.05))
        except (NotebookError, SchemaError, StorageError, OSError) as error:
            return Folded(-1, why_not=str(error))
        except RecursionError:
            return Folded(-1, why_not=f"{place.notebook}: is nested too deeply to be rewritten")
        finally:
            lock.release()
        tail = notebook.peek_tail(place.notebook)
        if tail is not None and tail.appended >= seq:
            return Folded(tail.appended)
    if lease.is_held(place):
        why_not = f"{place.notebook}: JupyterLab has it open, and will take it in"
    return Folded(-1, why_not=why_not)


def _fold_locked(place: "Place", lock: Lock, patience: float) -> Folded:
    remove_leftovers(*os.path.split(place.notebook))
    reached = _reached(lock)
    # Each turn of the loop is a version of the notebook that somebody else put there meanwhile.
    for left in polls(patience):
        try:
            with notebook.OpenNotebook(place.notebook) as opened:
                folded = _fold_opened(place, opened, reached)
        except FileNotFoundError:
            folded = _begin(place, reached)  # None if one has appeared meanwhile
        except NotebookError:
            if left <= 0 or not _being_saved(place.notebook):
                raise
            continue
        if folded is not None:
            os.lseek(lock.descriptor, 0, os.SEEK_SET)
            write_all(lock.descriptor, b"%-19d\n" % folded.seq)
            return folded
    raise NotebookError(f"{place.notebook}: other programs keep rewriting it")


def _being_saved(path: str) -> bool:
    with notebook.OpenNotebook(path) as opened:
        return opened.age() < notebook.SAVE_PATIENCE


def _reached(lock: Lock) -> int:
    """Return how far a fold has ever got; kept in the lock file, where only lock holders write."""
    try:
        return int(read_at(lock.descriptor, 0, 20))
    except ValueError:
        return -1


def _begin(place: "Place", reached: int) -> "Folded | None":
    """Make a notebook that is missing from all that the journal has."""
    entries = sound_entries(place.journal, -1)
    if place.plain and not any(e["op"] == "append" for e in entries if e["seq"] > reached):
        # Its owner deleted it. The journal never had the cells that people wrote, and an empty
        # notebook in its place would empty every buffer that still has them.
        raise NotebookError(f"{place.notebook}: there is no such notebook any more")
    state = next((entry.get("state") for entry in entries if entry["op"] == "create"), None)
    if not isinstance(state, dict):
        state = new_state(place.session_id)
    new: dict[str, Any] = {
        "cells": [],
        "metadata": notebook_metadata(state, -1),
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    new["metadata"]["rlmnb"]["appended"] = 0
    apply(new, entries)
    if not notebook.write_new(place.notebook, new):
        return None
    return Folded(notebook.appended_of(new["metadata"]))


def sound_entries(path: str, seq: int) -> "list[Entry]":
    """Return the entries after this number that can be applied; doctor tells of the others.

    An entry that cannot be would otherwise keep out all that come after it, for ever.
    """
    entries = [entry for entry in journal.entries_after(path, seq) if is_sound(entry)]
    # An id is given a second time only when its first cell was deleted: the later one counts.
    newest = {entry["cell"]["id"]: entry["seq"] for entry in entries if entry["op"] == "append"}
    return [
        entry
        for entry in entries
        if entry["op"] != "append" or newest[entry["cell"]["id"]] == entry["seq"]
    ]


def is_sound(entry: "Entry") -> bool:
    """Tell whether an entry has what its kind needs."""
    operation = entry.get("op")
    if operation == "append":
        try:
            check_cell(entry["cell"])
        except (InvalidCellError, KeyError, TypeError, AttributeError):
            return False
        return True
    if operation == "update":
        parts = [entry.get(key) or {} for key in ("record", "replace")]
        whole = all(isinstance(part, dict) for part in parts)
        outputs = entry.get("outputs", [])
        whole = whole and isinstance(outputs, list) and all(isinstance(o, dict) for o in outputs)
        return whole and isinstance(entry.get("cell_id"), str)
    if operation == "order":
        found = entry.get("cells")
        return isinstance(found, list) and all(isinstance(each, str) for each in found)
    return operation == "create" or (
        operation == "state"
        and isinstance(entry.get("set") or {}, dict)
        and _are_paths(entry.get("remove") or [])
    )


def _are_paths(found: object) -> bool:
    return isinstance(found, list) and all(
        isinstance(path, list) and path and all(isinstance(key, str) for key in path)
        for path in found
    )


def _fold_opened(place: "Place", opened: notebook.OpenNotebook, reached: int) -> "Folded | None":
    tail = opened.tail()
    if tail is None or tail.state is None or tail.appended < 0:
        return _fold_parsed(place, opened, reached)
    _check_schema(tail.state, place.notebook)
    entries = sound_entries(place.journal, tail.appended)
    if not entries:
        return Folded(tail.appended)
    dropped = tail.appended < reached
    added: dict[str, dict[str, Any]] = {}
    for entry in entries:
        if entry["op"] == "append":
            added.setdefault(entry["cell"]["id"], entry["cell"])
    simple = all(
        entry["op"] != "order" and (entry["op"] != "update" or entry.get("cell_id") in added)
        for entry in entries
    )
    if not simple or (dropped and _any_present(opened.read(), added)):
        changed = None if dropped else _with_changed_cells(place, opened, tail, entries)
        if changed is None:
            return _fold_parsed(place, opened, reached)
        written = notebook.rewrite_cells(opened, *changed, tail.minor)
        return Folded(entries[-1]["seq"]) if written else None
    metadata = tail.metadata
    for entry in entries:
        if entry["op"] == "update":
            update_cell(added[entry["cell_id"]], entry)
        metadata = with_state(metadata, entry)
    texts = [cell_text(cell) for cell in added.values()]
    if not notebook.splice(opened, tail, texts, metadata):
        return None
    restored = tuple(
        entry["cell"]["id"]
        for entry in entries
        if entry["op"] == "append" and entry["seq"] <= reached
    )
    return Folded(entries[-1]["seq"], restored)


def _with_changed_cells(
    place: "Place", opened: notebook.OpenNotebook, tail: notebook.Tail, entries: "list[Entry]"
) -> "tuple[list[str], dict[str, Any]] | None":
    """Return the text of each cell after these entries, and the metadata; others' text as it is.

    None where the notebook has to be parsed whole: it is not quite canonical, or needs more.
    """
    found = notebook.texts_of(opened.read(), tail)
    if not found or os.path.exists(place.by_hand) or any(e["op"] == "order" for e in entries):
        return None
    if not all(is_nbformat_id(cell.get("id")) for cell, _ in found):
        return None
    cells = {cell["id"]: cell for cell, _ in found}
    texts = {cell["id"]: text for cell, text in found}
    if len(cells) < len(found):
        return None
    metadata = tail.metadata
    for entry in entries:
        if entry["op"] == "append":
            cells.setdefault(entry["cell"]["id"], entry["cell"])
        elif entry["op"] == "update" and (cell := cells.get(entry["cell_id"])) is not None:
            texts.pop(entry["cell_id"], None)
            notebook.mend(cell)
            update_cell(cell, entry)
        metadata = with_state(metadata, entry)
    written = ["  " + texts[key] if key in texts else cell_text(cells[key]) for key in cells]
    return written, metadata


def _check_schema(state: "dict[str, Any]", where: str) -> None:
    if state.get("schema_version") != SCHEMA:
        from rlmnb.format.migrations import migrate

        migrate(state, where)


def _any_present(data: bytes, ids: "dict[str, Any]") -> bool:
    return any(f'"id": "{cell_id}"'.encode() in data for cell_id in ids)


def _fold_parsed(place: "Place", opened: notebook.OpenNotebook, reached: int) -> "Folded | None":
    whole = notebook.parse(opened.read(), place.notebook)
    state = whole["metadata"].get("rlmnb")
    if isinstance(state, dict):
        _check_schema(state, place.notebook)
    appended = notebook.appended_of(whole["metadata"])
    if appended >= 0:
        entries = sound_entries(place.journal, appended)
        if not entries:
            return Folded(appended)
    else:
        entries = recover_metadata(place, whole)
    before = {cell.get("id") for cell in whole["cells"]}
    from rlmnb.store import byhand

    # It is written anew in any case, so it may as well have what was run by hand.
    byhand.lay_over(place, whole)
    apply(whole, entries)
    if not notebook.rewrite(opened, whole):
        return None
    restored = tuple(
        entry["cell"]["id"]
        for entry in entries
        if entry["op"] == "append" and entry["seq"] <= reached and entry["cell"]["id"] not in before
    )
    stripped = appended < 0 <= reached
    return Folded(notebook.appended_of(whole["metadata"]), restored, stripped=stripped)


def apply(whole: "dict[str, Any]", entries: "list[Entry]") -> None:
    """Apply journal entries to a parsed notebook, in order."""
    give_ids(whole)
    by_id = {cell["id"]: cell for cell in whole["cells"]}
    for entry in entries:
        if entry["op"] == "append" and entry["cell"]["id"] not in by_id:
            cell = entry["cell"]
            whole["cells"].append(cell)
            by_id[cell["id"]] = cell
        elif entry["op"] == "update" and entry.get("cell_id") in by_id:
            update_cell(by_id[entry["cell_id"]], entry)
        elif entry["op"] == "order":
            _put_in_order(whole["cells"], entry["cells"])
        whole["metadata"] = with_state(whole["metadata"], entry)


def _put_in_order(cells: "list[dict[str, Any]]", ids: "list[str]") -> None:
    """Let cells that were made side by side stand in the order they were asked for.

    They change places among themselves; what a person has put between them stays where it is.
    """
    place = {cell_id: at for at, cell_id in enumerate(ids)}
    where = [at for at, cell in enumerate(cells) if cell.get("id") in place]
    ordered = sorted((cells[at] for at in where), key=lambda cell: place[cell["id"]])
    for at, cell in zip(where, ordered, strict=True):
        cells[at] = cell


def give_ids(whole: "dict[str, Any]") -> None:
    """Bring a notebook to nbformat 4.5: every cell has an id that nbformat takes, and its own.

    The ids are those that the index gives such cells.
    """
    for number, cell in enumerate(whole["cells"]):
        if not is_nbformat_id(cell.get("id")):
            cell["id"] = derived_id("without id", str(number), source_hash(source_of(cell)))
    taken = {cell["id"] for cell in whole["cells"]}
    seen: set[str] = set()
    for cell in whole["cells"]:
        if cell["id"] in seen:
            occurrence = 1
            while (new := derived_id("duplicate", cell["id"], str(occurrence))) in taken:
                occurrence += 1
            cell["id"] = new
            taken.add(new)
        seen.add(cell["id"])
    minor = whole.get("nbformat_minor")
    whole["nbformat_minor"] = minor if isinstance(minor, int) and minor > 5 else 5


def update_cell(cell: "dict[str, Any]", entry: "Entry") -> None:
    """Apply what became of a cell, unless a person has edited or run it since."""
    of = entry.get("of")
    now = [source_hash(source_of(cell)), output_hash(cell.get("outputs") or [])]
    if isinstance(of, list) and now != of:
        return
    if "text" in entry:
        if cell.get("cell_type") == "markdown" and isinstance(entry["text"], str):
            cell["source"] = entry["text"]
        return
    metadata = cell.setdefault("metadata", {})
    metadata["rlmnb"] = merged(metadata.get("rlmnb"), entry.get("record") or {})
    metadata["rlmnb"] |= entry.get("replace") or {}
    if isinstance(entry.get("tag"), str):
        tags = metadata.get("tags")
        known = [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []
        metadata["tags"] = list(dict.fromkeys([*known, entry["tag"]]))
    for key in ("outputs", "execution_count"):
        if key in entry and cell.get("cell_type") == "code":
            cell[key] = entry[key]


def changed(state: "dict[str, Any]", entry: "Entry") -> "dict[str, Any]":
    """Apply a change of state: what it sets, and the paths that it removes."""
    result: dict[str, Any] = merged(state, entry.get("set") or {})
    for path in entry.get("remove") or ():
        place: Any = result
        for key in path[:-1]:
            place = place.get(key) if isinstance(place, dict) else None
        if isinstance(place, dict):
            place.pop(path[-1], None)
    return result


def with_state(metadata: "dict[str, Any]", entry: "Entry") -> "dict[str, Any]":
    """Return a notebook's metadata after an entry: changed state, and how far it is."""
    state = metadata.get("rlmnb")
    state = dict(state) if isinstance(state, dict) else {}
    if entry["op"] == "state":
        state = changed(state, entry)
        if isinstance(entry.get("notebook"), dict) and "widgets" in entry["notebook"]:
            metadata = {
                **metadata,
                "widgets": merged(metadata.get("widgets"), entry["notebook"]["widgets"]),
            }
    session = state.get("session")
    session = dict(session) if isinstance(session, dict) else {}
    if "at" in entry and entry["op"] != "create":
        session["updated_at"] = entry["at"]
    appended = max(notebook.appended_of(metadata), entry["seq"])
    return {**metadata, "rlmnb": {**state, "session": session, "appended": appended}}


def recover_metadata(place: "Place", whole: "dict[str, Any]") -> "list[Entry]":
    """Give a notebook that lost its metadata what the journal knows; return what it has not got.

    Tools that strip metadata may change ids as well, so a cell is known by its id or, failing
    that, by having both source and outputs of one that is missing. Whatever else the journal has
    is put back, unless the index saw it gone: a deletion can be done again, a loss cannot.
    """
    entries = sound_entries(place.journal, -1)
    give_ids(whole)
    taken_in = _generation_of_another(place, whole["cells"], entries)
    if taken_in is not None:
        state = {**new_state(place.session_id), "appended": taken_in}
        whole["metadata"]["rlmnb"] = state
        return [entry for entry in entries if entry["seq"] > taken_in]
    state = {}
    for entry in entries:
        if entry["op"] == "create" and isinstance(entry.get("state"), dict):
            state = entry["state"]
        elif entry["op"] == "state":
            state = changed(state, entry)
    appends = [entry for entry in entries if entry["op"] == "append"]
    known = _recognise(whole["cells"], appends) | _seen_deleted(place, appends)
    present = whole["metadata"].get("rlmnb")
    whole["metadata"]["rlmnb"] = {
        **(state or new_state(place.session_id)),
        **(present if isinstance(present, dict) else {}),
        # Those that are known count as taken in, though they are not applied again.
        "appended": entries[-1]["seq"] if entries else 0,
    }
    return [entry for entry in entries if entry["op"] != "append" or entry["seq"] not in known]


def _generation_of_another(
    place: "Place", cells: "list[dict[str, Any]]", entries: "list[Entry]"
) -> "int | None":
    """Tell how far another notebook had got that bore this name before, None if it is the same."""
    from rlmnb.store import index_file

    index = index_file.load(place)
    if not place.plain or index is None or not index["cells"]:
        return None
    known = set(index["cells"]) | {e["cell"]["id"] for e in entries if e["op"] == "append"}
    same = any(cell.get("id") in known or _id_on_record(cell) in known for cell in cells)
    return None if same else int(index["generation"])


def _id_on_record(cell: "dict[str, Any]") -> "str | None":
    record = cell["metadata"].get("rlmnb")
    found = record.get("cell_id") if isinstance(record, dict) else None
    return found if isinstance(found, str) else None


def _seen_deleted(place: "Place", appends: "list[Entry]") -> "set[int]":
    """Return the entries whose cells had been in the notebook and were gone at the last read."""
    from rlmnb.store import index_file

    index = index_file.load(place)
    if index is None:
        return set()
    # A cell that another tool gave a new id was not deleted.
    there = {name for key, entry in index["cells"].items() for name in (key, entry.get("was"))}
    return {
        entry["seq"]
        for entry in appends
        if entry["seq"] <= index["generation"] and entry["cell"]["id"] not in there
    }


def _recognise(cells: "list[dict[str, Any]]", appends: "list[Entry]") -> "set[int]":
    by_id = {entry["cell"]["id"]: entry for entry in appends}
    present = {cell.get("id") for cell in cells}
    by_content: dict[Any, list[Entry]] = {}
    for lost in reversed(appends):
        if lost["cell"]["id"] not in present:
            by_content.setdefault(_content(lost["cell"]), []).append(lost)
    found = set()
    for cell in cells:
        entry: Entry | None = by_id.get(str(cell.get("id")))
        if entry is None and (was := _id_on_record(cell)) in by_id and was not in present:
            entry = by_id[str(was)]
            cell["id"] = was
            present.add(was)
        if entry is None and (same := by_content.get(_content(cell))):
            entry = same.pop()
            cell["id"] = entry["cell"]["id"]
        if entry is None:
            continue
        found.add(int(entry["seq"]))
        record = entry["cell"]["metadata"].get("rlmnb")
        if record is not None:
            cell["metadata"].setdefault("rlmnb", record)
    return found


def _content(cell: "dict[str, Any]") -> "tuple[object, ...]":
    return cell.get("cell_type"), source_of(cell), output_hash(cell.get("outputs") or [])
