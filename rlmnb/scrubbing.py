"""Take secrets out of what was written before: of sessions, their journals, checkpoints, objects.

What hooks write is clean from the start; this is for what came before a kind of secret was known,
from other tools, or by hand. Looking changes nothing. Doing it replaces each file whole, under the
locks that hooks and folds take, and gives every hash that changes its new value wherever it stands,
so that nothing is stale or damaged for it afterwards.
"""

from __future__ import annotations

import os
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from rlmnb import digest, indexing
from rlmnb.capture.redaction import clean, clean_text
from rlmnb.errors import NotebookError, ObjectError, RlmnbError, StorageError
from rlmnb.files import Lock, read_bytes, remove, write_atomic
from rlmnb.format.nbjson import notebook_bytes, source_of
from rlmnb.graph.code import code_hash
from rlmnb.ids import Digest
from rlmnb.jsontext import compact, loads, to_bytes
from rlmnb.store import archive, journal, notebook, sweep
from rlmnb.store.archive import Archived
from rlmnb.store.layout import Place
from rlmnb.store.objects import Objects
from rlmnb.store.variables import Variables

_MARK = re.compile(r"\[REDACTED:([a-z0-9-]+):[0-9a-f]{8}\]")
_LOCK_SECONDS = 10.0
_LARGEST_STATE = 256 * 1024 * 1024
_TRIES = 5
# What has the hashes of files in it, which stay as they are.
_OF_FILES = frozenset(
    ("files", "files_read", "files_written", "changed_files", "seen", "pending", "before")
)
_DIGEST = re.compile(rb"sha256:[0-9a-f]{64}")
_TEXT_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Found:
    """Secrets of one kind in one place; never the secrets themselves."""

    session_id: str
    where: str
    kind: str
    count: int


class Scrub:
    """One look over some sessions, and what it would change."""

    def __init__(self, places: Iterable[Place], *, entropy: bool = False) -> None:
        self._places = list(places)
        self._entropy = entropy
        # Every object that is changed and every hash of a cell, with what it is afterwards.
        self._objects: dict[str, str] = {}
        self._renamed: dict[str, str] = {}
        self.found: list[Found] = []
        # What cannot be changed and only be removed: stored variables can be made again.
        self._state: dict[str, set[str]] = {}
        self._dropped: dict[str, set[str]] = {}
        self._made: dict[str, list[bytes]] = {}

    def look(self) -> list[Found]:
        """Find out what there is to do; nothing is changed."""
        self.found.clear()
        for place in self._places:
            self._look_at_objects(place)
        for place in self._places:
            for path in _files(place):
                self._cleaned(place, path)
        return self.found

    def do(self) -> list[Found]:
        """Do it, and return what was found."""
        found = list(self.look())
        for place in self._places:
            self._rewrite(place)
        self._drop()
        return found

    # looking

    def _look_at_objects(self, place: Place) -> None:
        objects, variables = Objects(place.objects), Variables(place.objects)
        named = set(sweep.references([place])[place.session_id])
        for name in sorted(named):
            if name in objects:
                self._look_at_object(place, objects, name)
        try:
            stored = variables.sizes()
            for name in sorted(variables.with_buffers(named & set(stored)) & set(stored)):
                if stored[name][0] <= _LARGEST_STATE:
                    self._look_at_state(place, variables, name)
        except ObjectError:
            return  # doctor tells of it; all of it can be made again
        finally:
            variables.close()

    def _look_at_object(self, place: Place, objects: Objects, name: str) -> None:
        try:
            data = objects.get(name)
        except ObjectError:
            return
        new = self._bytes(data)
        if new != data:
            self._note(place, f"object {name[:19]}", data, new)
            self._objects[name] = digest.of_bytes(new)
            self._dropped.setdefault(place.objects, set()).add(name)
            self._made.setdefault(place.objects, []).append(new)

    def _look_at_state(self, place: Place, variables: Variables, name: str) -> None:
        try:
            data = variables.get(name)
        except (ObjectError, OSError):
            return
        text = data.decode("latin-1")
        new = clean_text(text)  # chance looks random: entropy says nothing of pickles
        if new != text:
            self._note(place, f"stored variables {name[:19]}", data, new.encode("latin-1"))
            self._state.setdefault(place.objects, set()).add(name)

    def _bytes(self, data: bytes) -> bytes:
        """Return text without its secrets; what is no text is left as it is."""
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            text = data.decode("utf-8", "surrogateescape")
        return clean_text(text, entropy=self._entropy).encode("utf-8", "surrogateescape")

    def _note(self, place: Place, where: str, before: bytes, after: bytes) -> None:
        counts = _marks(after)
        counts.subtract(_marks(before))
        self.found += [
            Found(place.session_id, where, kind, count)
            for kind, count in sorted(counts.items())
            if count > 0
        ]

    # one file

    def _cleaned(self, place: Place, path: str) -> bytes | None:
        """Return a file as it would be, None if it stays as it is. What is found is noted."""
        try:
            data = read_bytes(path)
        except (OSError, RlmnbError):
            return None
        name = os.path.relpath(path, place.directory)
        if path == place.notebook or path.endswith(".ipynb"):
            new = self._notebook(data, path)
        elif path == place.journal:
            new = b"\n".join(self._journal_line(line) for line in data.split(b"\n"))
        elif path.endswith(".ipynb.z"):
            return self._checkpoint(place, path, data)
        elif path.endswith(".json"):
            new = self._json(data)
        else:
            new = self._bytes(data)
        new = self._with_new_names(new)
        if new == data:
            return None
        self._note(place, "notebook" if path == place.notebook else name, data, new)
        return new

    def _checkpoint(self, place: Place, path: str, data: bytes) -> bytes | None:
        try:
            before = zlib.decompress(data)
        except zlib.error:
            return None
        after = self._with_new_names(self._notebook(before, path))
        if after == before:
            return None
        self._note(place, f"checkpoint {os.path.basename(path)}", before, after)
        return zlib.compress(after, 1)

    def _notebook(self, data: bytes, path: str) -> bytes:
        try:
            whole = notebook.parse(data, path)
        except NotebookError:
            return self._bytes(data)
        cells = [self._cell(cell) for cell in whole["cells"]]
        new = {**whole, "cells": cells, "metadata": self._value(whole["metadata"])}
        return data if new == whole else notebook_bytes(new)

    def _journal_line(self, line: bytes) -> bytes:
        entry = journal.parse_line(line)
        if entry is None:
            return self._bytes(line)
        new = self._value({key: value for key, value in entry.items() if key != "cell"})
        if isinstance(entry.get("cell"), dict):
            new["cell"] = self._cell(entry["cell"])
        if isinstance(entry.get("outputs"), list) and isinstance(entry.get("record"), dict):
            old = digest.output_hash(entry["outputs"])
            self._rename(old, digest.output_hash(new["outputs"]))
        return line if new == entry else journal.line_of(new)

    def _json(self, data: bytes) -> bytes:
        try:
            value = loads(data)
        except (ValueError, RecursionError):
            return self._bytes(data)
        new = self._value(value)
        return data if new == value else to_bytes(compact(new))

    def _value(self, value: Any) -> Any:
        return self._with_new_objects(clean(value, entropy=self._entropy))

    def _with_new_objects(self, value: Any) -> Any:
        """Name the objects that are there afterwards; the hash of a file stays what it was.

        A file that was read whole and the object that keeps what was read have the same digest.
        """
        if not self._objects:
            return value
        if isinstance(value, str):
            return _TEXT_DIGEST.sub(lambda at: self._objects.get(at[0], at[0]), value)
        if isinstance(value, dict):
            return {
                self._objects.get(key, key): item
                if key in _OF_FILES
                else self._with_new_objects(item)
                for key, item in value.items()
            }
        return (
            [self._with_new_objects(each) for each in value] if isinstance(value, list) else value
        )

    def _cell(self, cell: dict[str, Any]) -> dict[str, Any]:
        """Return a cell without its secrets, and learn what its hashes are then."""
        joined = {**cell, "source": source_of(cell)}
        new: dict[str, Any] = self._value(joined)
        if new == joined:
            return cell
        before, after = source_of(cell), source_of(new)
        if before != after:
            self._rename(digest.source_hash(before), digest.source_hash(after))
            self._rename(code_hash(before), code_hash(after))
        outputs = cell.get("outputs")
        if isinstance(outputs, list):
            self._rename(digest.output_hash(outputs), digest.output_hash(new["outputs"]))
        self._rename_context(cell, new)
        return new

    def _rename_context(self, cell: dict[str, Any], new: dict[str, Any]) -> None:
        metadata, now = cell.get("metadata"), new.get("metadata")
        old = metadata.get("rlmnb") if isinstance(metadata, dict) else None
        record = now.get("rlmnb") if isinstance(now, dict) else None
        if isinstance(old, dict) and isinstance(record, dict):
            try:
                found = digest.context_hash(old)
                if found == old.get("context_hash"):
                    renamed = loads(self._with_new_names(to_bytes(compact(record))))
                    self._rename(found, digest.context_hash(renamed))
            except (AttributeError, KeyError, TypeError):
                return  # no record by its shape

    def _rename(self, old: str, new: str) -> None:
        if old != new:
            self._renamed[old] = new

    def _with_new_names(self, data: bytes) -> bytes:
        """Return bytes in which every digest that changes is the new one."""
        if not self._renamed:
            return data
        return _DIGEST.sub(
            lambda at: self._renamed.get(at[0].decode(), at[0].decode()).encode(), data
        )

    # doing

    def _rewrite(self, place: Place) -> None:
        Objects(place.objects).put_many(self._made.pop(place.objects, []))
        place.prepare()
        with ExitStack() as held:
            held.enter_context(
                Lock(os.path.join(place.directory, ".hooks.lock"), timeout=_LOCK_SECONDS)
            )
            held.enter_context(Lock(place.lock, timeout=_LOCK_SECONDS))
            writing = held.enter_context(Lock(place.journal, timeout=_LOCK_SECONDS))
            writing.close_content()  # what it guards may be replaced here
            # Cells of the journal and of the notebook teach each other's hashes: look once more.
            changed = [path for path in _files(place) if self._cleaned(place, path) is not None]
            for path in changed:
                self._cleaned(place, path)
            for path in changed:
                if path == place.notebook:
                    self._rewrite_notebook(place)
                elif (new := self._cleaned(place, path)) is not None:
                    write_atomic(path, new)
                    if path.endswith(".ipynb.z"):
                        _sign(path, zlib.decompress(new))
            if changed:
                remove(place.index)
        if changed:
            indexing.read_index(place)

    def _rewrite_notebook(self, place: Place) -> None:
        """Replace the notebook, and what another program saves meanwhile with it."""
        for _ in range(_TRIES):
            with notebook.OpenNotebook(place.notebook) as opened:
                new = self._cleaned(place, place.notebook)
                if new is None:
                    return
                if notebook.rewrite(opened, notebook.parse(new, place.notebook)):
                    return
        raise StorageError(
            f"{place.notebook}: other programs keep rewriting it",
            hint="close it there, then run the command again",
        )

    def _drop(self) -> None:
        """Remove the objects that held secrets, unless a session that was left out names them."""
        for directory, names in self._dropped.items():
            root = os.path.dirname(directory)
            kept = _named_elsewhere(root, self._places)
            Objects(directory).drop([Digest(name) for name in sorted(names - kept)])
        for directory, names in self._state.items():
            variables = Variables(directory)
            try:
                variables.drop(names, older_than=float("inf"))
            finally:
                variables.close()


def _named_elsewhere(root: str, places: list[Place]) -> set[str]:
    from rlmnb.store.sessions import all_places

    ours = {place.directory for place in places}
    others = [place for place in all_places(root) if place.directory not in ours]
    return {name for counts in sweep.references(others).values() for name in counts}


def _files(place: Place) -> Iterator[str]:
    """Yield the files of a session, the journal first: a crash then leaves nothing to come back."""
    below = [
        path
        for path in sweep.files_below(place.directory)
        if path not in (place.journal, place.notebook, place.lock, place.index)
        and not path.endswith((".lock", ".tmp"))
    ]
    for path in (place.journal, place.notebook, *below):
        if os.path.isfile(path):
            yield path


def look_into_archive(archived: Archived, *, entropy: bool = False) -> list[Found]:
    """Find secrets in a session that was put away; it has to come back to be changed."""
    found: list[Found] = []
    for name, data in archive.members(archived):
        try:
            whole = zlib.decompress(data) if name.endswith(".z") else data
        except zlib.error:
            continue
        text = whole.decode("utf-8", "surrogateescape")
        new = clean_text(text, entropy=entropy).encode("utf-8", "surrogateescape")
        counts = _marks(new)
        counts.subtract(_marks(whole))
        where = f"archive, {name}"
        found += [
            Found(archived.session_id, where, kind, count)
            for kind, count in sorted(counts.items())
            if count > 0
        ]
    return found


def _marks(data: bytes) -> Counter[str]:
    return Counter(_MARK.findall(data.decode("utf-8", "replace")))


def _sign(path: str, data: bytes) -> None:
    """Let the manifest of a checkpoint say what it holds now."""
    manifest = f"{path.removesuffix('.ipynb.z')}.json"
    try:
        told = loads(read_bytes(manifest))
    except (OSError, ValueError, RlmnbError):
        return
    write_atomic(
        manifest,
        to_bytes(compact({**told, "hash": digest.of_bytes(data), "bytes": len(data)})),
    )
