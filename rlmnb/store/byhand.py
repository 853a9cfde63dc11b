"""Traces of cells that a person ran: kept beside the notebook, laid over it when it is read.

Whoever has the notebook open owns it, so a kernel never writes to it. A trace says: this source,
with these inputs, showed this and left that. It counts for a cell only while the notebook has that
very source and shows that very outcome; whether it still holds is then for the digests to say. So
what was never saved counts for nothing, and an older save takes nothing away.
"""

import os

from rlmnb.digest import MISSING, context_hash, output_hash, source_hash
from rlmnb.errors import StorageError
from rlmnb.files import (
    Lock,
    append_durably,
    read_all,
    read_at,
    read_bytes,
    storage_error,
    write_atomic,
)
from rlmnb.format.cells import new_record
from rlmnb.format.keptcalls import calls_of, looked_at, merged
from rlmnb.format.nbjson import source_of
from rlmnb.format.shown import shown_hash
from rlmnb.ids import is_nbformat_id
from rlmnb.jsontext import compact, loads, portable, to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rlmnb.store.layout import Place

    Entry = dict[str, Any]

# How many traces of one cell are worth keeping: a person may go back to what was there before.
_EACH = 4
_LARGEST = 8 * 1024 * 1024
_LOCK_SECONDS = 10.0


def began(run: "dict[str, Any]", earlier: "Sequence[dict[str, Any] | None]") -> "dict[str, Any]":
    """Return a trace that knows which files the cell itself made when it first ran."""
    made = {
        path: MISSING
        for each in earlier
        if each is not None and isinstance(each.get("before"), dict)
        for path, was in each["before"].items()
        if was == MISSING and (path in run["files_written"] or path in run.get("folders", ()))
    }
    again = run.get("asked_for")
    folders = {
        path: now
        for each in earlier
        for path, now in _mapping(each, "folders").items()
        if isinstance(again, list) and path in again and now != MISSING
    }
    if not made and not folders:
        return run
    made |= dict.fromkeys(folders, MISSING)
    before, left = {**(run.get("before") or {}), **made}, {**_mapping(run, "folders"), **folders}
    return {**run, "before": before, **({"folders": left} if left else {})}


def with_abandoned(run: "dict[str, Any]", earlier: "Sequence[dict[str, Any]]") -> "dict[str, Any]":
    """Return a trace that knows what only earlier runs of the cell have made on the disk."""
    made = {
        path: now for each in [*earlier, run] for path, now in _mapping(each, "abandoned").items()
    }
    made |= {
        path: written.get("hash")
        for each in earlier
        for path, written in _mapping(each, "files_written").items()
        if _mapping(each, "before").get(path) == MISSING and isinstance(written, dict)
    }
    made |= {
        path: now
        for each in earlier
        for path, now in _mapping(each, "folders").items()
        if _mapping(each, "before").get(path) == MISSING and now != MISSING
    }
    own = {*run["files_written"], *_mapping(run, "folders"), *_mapping(run, "before")}
    left = {path: now for path, now in made.items() if path not in own}
    return {**run, "abandoned": left} if left else run


def version(place: "Place") -> "list[int] | None":
    """Return what tells one state of the traces from the next, None if there are none."""
    try:
        status = os.stat(place.by_hand)
    except OSError:
        return None
    return [status.st_ino, status.st_size, status.st_mtime_ns]


def add(place: "Place", entries: "Sequence[Entry]") -> None:
    """Keep traces of cells that have just been run by hand."""
    place.prepare()
    data = b"".join(to_bytes(compact(portable(entry)) + "\n") for entry in entries)
    with Lock(place.by_hand, timeout=_LOCK_SECONDS) as lock:
        size = os.fstat(lock.descriptor).st_size
        try:
            if size + len(data) > _LARGEST:
                whole = read_all(lock.descriptor) + b"\n" + data
                lock.close_content()
                write_atomic(place.by_hand, _newest(whole))
                return
            torn = size and read_at(lock.descriptor, size - 1, 1) != b"\n"
            append_durably(lock.descriptor, b"\n" + data if torn else data)
        except OSError as error:
            raise storage_error(error, "keep what was run by hand", place.by_hand) from error


def _newest(data: bytes) -> bytes:
    """Return the last traces of each cell; of those, the newer half if they are still too many."""
    kept: list[bytes] = []
    counts: dict[str, int] = {}
    size = 0
    for line in reversed(data.split(b"\n")):
        entry = _parsed(line)
        if entry is None:
            continue
        counts[entry["cell_id"]] = counts.get(entry["cell_id"], 0) + 1
        if counts[entry["cell_id"]] <= _EACH and size < _LARGEST // 2:
            kept.append(line)
            size += len(line)
    return b"".join(line + b"\n" for line in reversed(kept))


def _parsed(line: bytes) -> "Entry | None":
    if not line.startswith(b"{"):
        return None
    try:
        entry = loads(line)
    except (ValueError, RecursionError):
        return None
    sound = (
        isinstance(entry, dict)
        and is_nbformat_id(entry.get("cell_id"))
        and isinstance(entry.get("run"), dict)
        and isinstance(entry.get("at"), str)
        and entry.get("status") in ("completed", "failed")
        and all(isinstance(entry["run"].get(key), dict) for key in ("files_read", "files_written"))
    )
    return entry if sound else None


def traces(place: "Place") -> "dict[str, list[Entry]]":
    """Return the traces of each cell, the newest last."""
    try:
        data = read_bytes(place.by_hand)
    except (OSError, StorageError):
        return {}
    found: dict[str, list[Entry]] = {}
    for line in data.split(b"\n"):
        entry = _parsed(line)
        if entry is not None:
            found.setdefault(entry["cell_id"], []).append(entry)
    return found


def lay_over(place: "Place", whole: "dict[str, Any]") -> None:
    """Give the cells of a parsed notebook the records that runs by hand have left them."""
    if not os.path.exists(place.by_hand):
        return
    known = traces(place)
    above: set[Any] = set()
    for cell in whole["cells"]:
        if cell.get("cell_type") == "code" and cell.get("id") in known:
            entries = [_tightened(entry, cell["id"], above) for entry in known[cell["id"]]]
            _lay_over(cell, entries, above)
        above.add(cell.get("id"))


def _lay_over(cell: "dict[str, Any]", entries: "list[Entry]", above: "set[Any]") -> None:
    source = source_of(cell)
    metadata = cell.setdefault("metadata", {})
    record = metadata.get("rlmnb")
    record = record if isinstance(record, dict) else {}
    known = record.get("run")
    known = known if isinstance(known, dict) else {}
    wanted = (source_hash(source), shown_hash(cell.get("outputs") or []))
    entry = _meant(entries, wanted)
    if entry is None:
        return
    described = (known.get("text"), known.get("shown")) == wanted
    if _describes(entry) == wanted and not _in_order(entry["run"], above):
        if described and _in_order(known, above) and _left_the_same(entry["run"], known):
            return
        entry = _in_its_place(entries, entry, above)
    recorded = described or (not known and record.get("source_hash") == wanted[0])
    newer = entry["at"] > str(record.get("completed_at") or "")
    same = _describes(entry) == wanted
    if (newer or not described) if same else (newer and not recorded):
        earlier = [known, *(each["run"] for each in entries)]
        run = with_abandoned(began(entry["run"], earlier), earlier)
        metadata["rlmnb"] = _with(record, {**entry, "run": run}, source, cell)


def _tightened(entry: "Entry", cell_id: str, above: "set[Any]") -> "Entry":
    """Count as written what only holds a function or class that the cell has replaced.

    What a cell below has made is not there yet where the cell stands.
    """
    run = entry["run"]
    if "loosened" not in run:
        return entry
    kept = [
        each
        for each in (run["loosened"] if isinstance(run["loosened"], list) else ())
        if isinstance(_mapping(each, "version").get("own"), dict)
        and _is_there(_mapping(each, "version"), _mapping(each, "from"), {cell_id, "", *above})
    ]
    reads = {name: read for each in kept for name, read in _mapping(each, "reads").items()}
    origins = {name: origin for each in kept for name, origin in _mapping(each, "from").items()}
    tight = {
        **run,
        "writes": [*(run.get("writes") or ()), *(each["version"] for each in kept)],
        "reads": {**_mapping(run, "reads"), **reads},
        "from": {**_mapping(run, "from"), **origins},
    }
    del tight["loosened"]
    return {**entry, "run": tight}


def _is_there(version: "dict[str, Any]", origins: "dict[str, Any]", at_hand: "set[Any]") -> bool:
    return any(origins.get(name, "") in at_hand for name in version["own"])


def _describes(entry: "Entry") -> "tuple[Any, Any]":
    return entry["run"].get("text"), entry["run"].get("shown")


def _meant(entries: "list[Entry]", wanted: "tuple[Any, Any]") -> "Entry | None":
    """Return the last trace of what a cell is now or, if it is something else, of what it was."""
    for entry in reversed(entries):
        if _describes(entry) == wanted:
            return entry
    # A trace of this very source that showed something else was not saved: it says nothing.
    last = entries[-1]
    return last if _describes(last)[0] != wanted[0] else None


def _in_order(run: "dict[str, Any]", above: "set[Any]") -> bool:
    """Tell whether all that a run found came from above it: nothing of its own, or from below."""
    asked, read = _mapping(run, "asked"), _mapping(run, "files_read")
    return all(str(origin) in above for origin in _mapping(run, "from").values()) and all(
        asked.get(path, MISSING) == MISSING and path not in read
        for path in _mapping(run, "files_written")
    )


def _in_its_place(entries: "list[Entry]", entry: "Entry", above: "set[Any]") -> "Entry":
    """Return the run that a later one out of order has only repeated; that one if there is none.

    Whoever runs a cell once more, below what it or others have set since, and gets the same, has
    changed nothing: what its run in its place has read still says whether it holds.
    """
    for each in reversed(entries):
        repeated = _describes(each) == _describes(entry) and _left_the_same(
            entry["run"], each["run"]
        )
        if repeated and _in_order(each["run"], above):
            return each
    return entry


def _left_the_same(again: "dict[str, Any]", before: "dict[str, Any]") -> bool:
    """Tell whether a run has left everything as an earlier run of the same source had."""
    now, then = _left(again), _left(before)
    found = _mapping(again, "reads") | _mapping(again, "found")
    return (
        now.keys() <= then.keys()
        and all(now.get(name, found.get(name)) == own for name, own in then.items())
        and _mapping(again, "folders").items() <= _mapping(before, "folders").items()
        and all(again.get(key) == before.get(key) for key in ("failed", "deleted"))
    )


def _left(run: "dict[str, Any]") -> "dict[str, Any]":
    """Return the version of each name and file that a run has written."""
    writes = run.get("writes")
    own = [_mapping(each, "own") for each in (writes if isinstance(writes, list) else ())]
    files = _mapping(run, "files_written")
    return {name: now for each in own for name, now in each.items()} | {
        f"file {path}": _mapping(files, path).get("hash") for path in files
    }


def _mapping(value: "Any", key: str) -> "dict[str, Any]":
    """Return one part of what a hand may have broken, empty if it is no mapping."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _without_calls(
    run: "dict[str, Any]", record: "dict[str, Any]"
) -> "tuple[dict[str, Any], dict[str, Any]]":
    """Take a run's model calls out of it; return the rest, and what they add to the record."""
    added: dict[str, Any] = {}
    if calls := calls_of(run):
        added["calls"] = merged(calls_of(record), calls)
    verdict = run.get("verification")
    if isinstance(verdict, dict) and isinstance(verdict.get("of"), str):
        added |= {"type": "verification", "verification": verdict, "evidence": [verdict["of"]]}
        added["confidence"] = verdict.get("confidence")
    edges = looked_at(run, record.get("dependencies"))
    if edges is not None:
        added["dependencies"] = edges
    seen = run.get("looked")
    if isinstance(seen, dict) and all(isinstance(each, dict) for each in seen.values()):
        shown = {other: each.get("output") for other, each in seen.items()}
        run = {**run, "depends": {**(run.get("depends") or {}), **shown}}
    rest = {key: each for key, each in run.items() if key not in ("calls", "verification")}
    return rest, added


def _with(
    record: "dict[str, Any]", entry: "Entry", source: str, cell: "dict[str, Any]"
) -> "dict[str, Any]":
    base = record or new_record(source, [], {"status": "running", "created_at": entry["at"]})
    run, called = _without_calls(entry["run"], base)
    new = {
        **base,
        **called,
        "cell_id": cell["id"],
        "completed_at": entry["at"],
        "source_hash": run["text"],
        "output_hash": output_hash(cell.get("outputs") or []),
        "run": run,
        "files_read": run["files_read"],
        "files_written": run["files_written"],
    }
    # A mark that was made after the run stays; one that the person saw is done with.
    if record.get("status") != "invalidated" or entry.get("unmarks"):
        new["status"] = entry["status"]
        new.pop("invalidated", None)
    new["context_hash"] = context_hash(new)
    return new
