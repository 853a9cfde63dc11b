"""Verify a session: derive every hash again, validate, compare the index with a rebuild."""

from __future__ import annotations

import copy
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from rlmnb import digest, indexing
from rlmnb.errors import NotebookError, ObjectError, RlmnbError
from rlmnb.format.keptcalls import objects_of_calls
from rlmnb.format.migrations import migrate
from rlmnb.format.nbjson import source_of
from rlmnb.graph.index import Index
from rlmnb.store import byhand, index_file, journal, notebook
from rlmnb.store.append import cells_wait
from rlmnb.store.layout import Place
from rlmnb.store.objects import Objects


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is not as it should be."""

    kind: str
    where: str
    text: str

    def as_dict(self) -> dict[str, str]:
        """Return the problem for a script."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a verification looked at, and what it found."""

    cells: int
    hashes: int
    objects: int
    problems: tuple[Problem, ...]


def verify(place: Place) -> Verdict:
    """Check everything that can be derived again. Reads only; nothing is repaired."""
    on_disk = index_file.load(place)
    if not os.path.lexists(place.notebook):
        raise NotebookError(
            f"{place.notebook}: is missing", hint=f"run: rlmnb doctor --fix {place.word}"
        )
    whole = notebook.read_whole(place.notebook)
    byhand.lay_over(place, whole)
    counts = {"hashes": 0, "objects": 0}
    problems = [
        *_nbformat_problems(whole),
        *_schema_problems(whole),
        *_hash_problems(whole, counts),
        *_object_problems(whole, Objects(place.objects), counts),
        *_journal_problems(whole, place),
    ]
    index = indexing.rebuild(place)
    problems += _index_problems(on_disk, index, os.path.lexists(place.index))
    problems += _edge_problems(index)
    return Verdict(len(whole["cells"]), counts["hashes"], counts["objects"], tuple(problems))


def _nbformat_problems(whole: dict[str, Any]) -> Iterator[Problem]:
    import warnings

    import nbformat

    ids = Counter(str(cell.get("id")) for cell in whole["cells"])
    for cell_id, number in ids.items():
        if number > 1:
            yield Problem("nbformat", cell_id, f"{number} cells have this id")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nbformat mends ids in what it is given, and says so
            nbformat.validate(copy.deepcopy(whole))
    except (nbformat.ValidationError, RecursionError, TypeError, AttributeError) as error:
        yield Problem("nbformat", "notebook", str(error).strip().splitlines()[0])
    except AssertionError:
        minor = whole.get("nbformat_minor")
        yield Problem("nbformat", "notebook", f"nbformat_minor is a number, found {minor!r}")


def _records(whole: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    for cell in whole["cells"]:
        metadata = cell.get("metadata")
        record = metadata.get("rlmnb") if isinstance(metadata, dict) else None
        if isinstance(record, dict):
            yield str(cell.get("id")), cell, record


def _schema_problems(whole: dict[str, Any]) -> Iterator[Problem]:
    from pydantic import BaseModel, ValidationError

    from rlmnb.format.record import CellRecord
    from rlmnb.format.session import SessionState

    parts: list[tuple[str, Any, type[BaseModel]]]
    parts = [("session state", whole["metadata"].get("rlmnb"), SessionState)]
    for cell in whole["cells"]:
        metadata = cell.get("metadata")
        if isinstance(metadata, dict) and "rlmnb" in metadata:
            parts.append((str(cell.get("id")), metadata["rlmnb"], CellRecord))
    for where, body, model in parts:
        if body is None:
            continue
        try:
            model.model_validate(migrate(body, where) if isinstance(body, dict) else body)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"])
            yield Problem("schema", where, f"{field}: {first['msg']}")
        except RlmnbError as error:
            yield Problem("schema", where, error.message)


def _hash_problems(whole: dict[str, Any], counts: dict[str, int]) -> Iterator[Problem]:
    for cell_id, cell, stored in _records(whole):
        try:
            record = migrate(stored, cell_id)
            derived = {
                "source_hash": digest.source_hash(source_of(cell)),
                "output_hash": digest.output_hash(cell.get("outputs", [])),
                "context_hash": digest.context_hash(record),
            }
        except (RlmnbError, AttributeError, KeyError, TypeError):
            continue  # not a record by its shape, which the schema has told already
        for name, found in derived.items():
            counts["hashes"] += 1
            wanted = record.get(name)
            if wanted != found:
                what = name.removesuffix("_hash")
                text = f"{what} is no longer what was recorded: {wanted} recorded, {found} now"
                yield Problem(f"{what} changed", cell_id, text)


def _object_problems(
    whole: dict[str, Any], objects: Objects, counts: dict[str, int]
) -> Iterator[Problem]:
    for cell_id, _, record in _records(whole):
        output = record.get("output")
        kept = output.get("objects") if isinstance(output, dict) else None
        named = list(kept) if isinstance(kept, list) else []
        for item in named + objects_of_calls(record):
            counts["objects"] += 1
            try:
                objects.get(str(item.get("object") if isinstance(item, dict) else item))
            except ObjectError as error:
                yield Problem("object", cell_id, error.message)


def _journal_problems(whole: dict[str, Any], place: Place) -> Iterator[Problem]:
    newest = journal.last_seq(place.journal)
    appended = notebook.appended_of(whole["metadata"])
    if newest > appended and cells_wait(place, appended):
        text = f"{newest - max(appended, 0)} entries are not in the notebook yet"
        yield Problem("pending", "journal", text)
    if torn := journal.damaged_lines(place.journal):
        yield Problem("journal", "journal", f"{torn} lines cannot be read")


def _index_problems(on_disk: Index | None, index: Index, exists: bool) -> Iterator[Problem]:
    if on_disk is None and exists:
        text = "it is garbage, was changed by hand, or is another version's"
        yield Problem("index", "index", f"{text}; the next read makes it anew")
    if on_disk is None or on_disk["notebook"].get("digest") != index["notebook"]["digest"]:
        return  # none, or of an older notebook: the next read brings it up to date
    for key in index:
        if key in ("cells", "notebook"):
            continue
        if on_disk.get(key) != index[key]:
            yield Problem("index", "index", f"{key} differs from a rebuild")
    for cell_id in {*on_disk["cells"], *index["cells"]}:
        if on_disk["cells"].get(cell_id) != index["cells"].get(cell_id):
            yield Problem("index", cell_id, "its entry differs from a rebuild")


def _edge_problems(index: Index) -> Iterator[Problem]:
    for cell_id, entry in index["cells"].items():
        for gone in entry.get("missing", ()):
            yield Problem("dependency", cell_id, f"depends on {gone}, which is no cell here")
        for low in set(entry.get("below", ())) - {cell_id}:  # a cycle of one is told below
            yield Problem("order", cell_id, f"depends on {low}, which stands below it")
    for cycle in index["cycles_detected"]:
        yield Problem("cycle", cycle[0], f"depends on itself: {' → '.join(cycle)}")
