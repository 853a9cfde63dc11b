"""Find what went wrong while nobody could be told, and repair it when asked."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rlmnb import indexing
from rlmnb.errors import ObjectError, RlmnbError, SchemaError
from rlmnb.files import Lock, make_directory, refuse_link, remove, remove_leftovers, remove_tree
from rlmnb.graph.index import Index
from rlmnb.store import archive, index_file, journal, notebook, recover, spill
from rlmnb.store import fold as fold_module
from rlmnb.store import sessions as listing
from rlmnb.store.append import cells_wait, write_entry
from rlmnb.store.fold import fold, give_ids
from rlmnb.store.layout import Place
from rlmnb.store.objects import Objects

_WARN_STATE = 4 * 1024 * 1024
_WARN_CELL = 80 * 1024


@dataclass(frozen=True, slots=True)
class Ailment:
    """One thing that is wrong. `cure` repairs it and says how; without one, `advice` is all."""

    where: str
    text: str
    cure: Callable[[], str] | None = None
    advice: str | None = None


def examine_machine(root: str) -> Iterator[Ailment]:
    """Look at what every session needs."""
    try:
        make_directory(root)
        with Lock(os.path.join(root, ".doctor.lock"), timeout=1.0) as lock:
            pass
        remove(lock.guard)
    except RlmnbError as error:
        yield Ailment(root, error.message, advice=error.hint)
    for path in archive.unfinished(root):
        text = "was left by a restore or migration that did not finish; its origin has all of it"
        yield Ailment(path, text, lambda path=path: _sweep_away(path))  # type: ignore[misc]
    objects = Objects(os.path.join(root, "objects"))
    try:
        refuse_link(objects.directory)
        damaged = objects.damaged()
    except ObjectError as error:
        yield Ailment("objects", error.message, objects.set_aside)
        return
    except RlmnbError as error:
        yield Ailment("objects", error.message, advice=error.hint)
        return
    for name in damaged:
        yield Ailment(
            "objects",
            f"{name} holds other bytes than its digest says",
            lambda name=name: _drop(objects, name),  # type: ignore[misc]
        )


def _sweep_away(path: str) -> str:
    remove_tree(path)
    return "removed"


def _drop(objects: Objects, name: str) -> str:
    objects.drop([name])  # type: ignore[list-item]
    return "removed: what was in it cannot be known, and a missing object is made again"


def examine(place: Place) -> Iterator[Ailment]:
    """Look at one session. Every ailment is yielded before its cure is needed by the next."""
    for path in (place.directory, place.notebook, place.journal, place.index):
        if os.path.islink(path):
            yield Ailment(
                path,
                f"is a symbolic link to {os.readlink(path)!r}; it is not followed",
                advice=f"if you did not put it there, remove it: rm {path}",
            )
            return
    for path in recover.loose_modes(place):
        yield Ailment(path, "can be read by others", lambda path=path: _tighten(path))  # type: ignore[misc]
    waiting = spill.waiting(place, everywhere=True)
    if waiting:
        text = f"{len(waiting)} events could not be written to the journal and wait in side files"
        yield Ailment(place.name, text, lambda: _take_in(place))
    if not waiting and not place.plain and journal.never_began(place):
        text = "never began: it has no cell, and nothing else in it"
        yield Ailment(place.name, text, lambda: _withdraw(place))
        return
    if broken := recover.is_broken(place):
        cure = (lambda: recover.repair(place)) if recover.can_repair(place) else None
        advice = None if cure else "convert it with: jupyter nbconvert --to notebook"
        yield Ailment(place.name, broken, cure, advice)
        return
    unusable = sum(
        1 for entry in journal.all_entries(place.journal) if not fold_module.is_sound(entry)
    )
    if unusable:
        text = f"{unusable} journal entries cannot be applied; they are passed over"
        yield Ailment(place.name, text, advice=f"look at them in {place.journal}")
    if torn := journal.damaged_lines(place.journal):
        yield Ailment(
            place.name,
            f"{torn} journal lines were never finished, or cannot be read; they are passed over",
            advice="nothing that was acknowledged is in them",
        )
    yield from _examine_notebook(place)


def _tighten(path: str) -> str:
    recover.tighten(path)
    return "now yours only"


def _take_in(place: Place) -> str:
    place.prepare()
    seq = write_entry(place, None)
    fold(place, seq, timeout=5.0)
    if waiting := spill.waiting(place, everywhere=True):
        raise RlmnbError(
            f"{len(waiting)} of them wait on: what is long in them has no room in {place.objects}"
        )
    return "taken in"


def _withdraw(place: Place) -> str:
    return "removed" if journal.withdraw(place, timeout=5.0) else "it has begun by now"


def _examine_notebook(place: Place) -> Iterator[Ailment]:
    whole = notebook.read_whole(place.notebook)
    try:
        indexing.refuse_newer(whole["metadata"], place)
    except SchemaError as error:
        yield Ailment(place.name, error.message, advice=error.hint)
        return
    newest = journal.last_seq(place.journal)
    appended = notebook.appended_of(whole["metadata"])
    if newest >= 0 and appended < newest and cells_wait(place, appended):
        count = newest - max(appended, 0)
        yield Ailment(
            place.name,
            f"{count} journal entries are not in the notebook",
            lambda: _fold(place, newest),
        )
    ids = [str(cell.get("id")) for cell in whole["cells"]]
    if len(set(ids)) < len(ids):
        yield Ailment(place.name, "two cells have the same id, or none", lambda: _give_ids(place))
    for cell in whole["cells"]:
        size = len(str(cell))
        if size > _WARN_CELL:
            yield Ailment(
                place.name, f"cell {cell.get('id')} is {size // 1024} KB, 100 KB is a lot"
            )
    state = len(str(whole["metadata"]))
    if state > _WARN_STATE:
        yield Ailment(place.name, f"the session's state is {state // 1024} KB")
    yield from _examine_index(place)


def _examine_index(place: Place) -> Iterator[Ailment]:
    if not os.path.lexists(place.index):
        return
    on_disk = index_file.load(place)
    rebuilt = indexing.rebuild(place)
    if on_disk is None:
        text = "the index is garbage, or another version's; it is derived, nothing is lost"
        yield Ailment(place.name, text, lambda: _reindex(place, rebuilt))
    elif on_disk["notebook"].get("digest") == rebuilt["notebook"]["digest"] and any(
        on_disk.get(key) != rebuilt[key] for key in rebuilt if key != "notebook"
    ):
        text = "the index is not what the notebook says"
        yield Ailment(place.name, text, lambda: _reindex(place, rebuilt))
    for cycle in rebuilt["cycles_detected"]:
        text = f"cells depend on each other: {' → '.join(cycle)}"
        yield Ailment(place.name, text, lambda: _break_cycles(place))


def _fold(place: Place, newest: int) -> str:
    folded = fold(place, newest, timeout=5.0)
    if folded.why_not:
        raise RlmnbError(folded.why_not)
    return "brought in"


def _reindex(place: Place, index: Index) -> str:
    with Lock(place.lock, timeout=5.0):
        remove_leftovers(place.directory, os.path.basename(place.index))
    index_file.save(place, index)
    return "made anew from the notebook"


def _rewrite(place: Place, change: Callable[[dict[str, object]], None]) -> None:
    place.prepare()
    with Lock(place.lock, timeout=5.0), notebook.OpenNotebook(place.notebook) as opened:
        whole = notebook.parse(opened.read(), place.notebook)
        change(whole)
        if not notebook.rewrite(opened, whole):
            raise RlmnbError(f"{place.notebook}: was changed meanwhile", hint="run it again")


def _give_ids(place: Place) -> str:
    _rewrite(place, give_ids)
    return "each has its own now"


def _break_cycles(place: Place) -> str:
    """Drop the dependencies that stand below their dependent: notebook order cannot cycle."""
    index = indexing.rebuild(place)
    below = {
        entry["number"]: set(entry["below"])
        for entry in index["cells"].values()
        if "below" in entry
    }

    def change(whole: dict[str, object]) -> None:
        cells = whole["cells"]
        assert isinstance(cells, list)
        for number, dropped in below.items():
            record = cells[number - 1]["metadata"]["rlmnb"]
            record["dependencies"] = [
                edge for edge in record["dependencies"] if edge.get("cell_id") not in dropped
            ]

    _rewrite(place, change)
    return "dropped the dependencies on cells further down"


def examine_all(root: str, places: list[Place] | None = None) -> Iterator[Ailment]:
    """Look at the machine and at these sessions, all of them unless told which."""
    yield from examine_machine(root)
    if places is None:
        # What was kept off a full or read-only disk may belong to sessions that never began.
        kept = [
            place for place in spill.places_elsewhere() if os.path.dirname(place.directory) == root
        ]
        known = {place.directory: place for place in [*listing.all_places(root), *kept]}
        places = list(known.values())
    for place in places:
        try:
            yield from examine(place)
        except RlmnbError as error:
            yield Ailment(place.name, error.message, advice=error.hint)
