"""Put a drafted session in its place, whole or not at all, and take it back again."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from rlmnb import digest
from rlmnb.errors import ChangedSinceError, RlmnbError, StorageError
from rlmnb.files import (
    Lock,
    make_directory,
    read_bytes,
    refuse_link,
    remove,
    remove_if_empty,
    remove_tree,
    rename,
    write_atomic,
)
from rlmnb.format import times
from rlmnb.migrating import manifests
from rlmnb.migrating.drafting import Draft
from rlmnb.migrating.manifests import Manifest
from rlmnb.processes import is_alive
from rlmnb.store import archive, checkpoints, journal, sessions, sweep
from rlmnb.store.append import TIMEOUT
from rlmnb.store.fold import fold
from rlmnb.store.layout import ARCHIVE, NOTEBOOK, Place, session_place
from rlmnb.store.objects import Objects

_LOCK_SECONDS = 30.0
_ROOT = "."
Named = Mapping[str, Iterable[str]]
_WHY = "put aside before compaction"


def _is_derived(name: str) -> bool:
    """Tell whether a file is made anew whenever it is needed: nobody's work is in it."""
    return os.path.basename(name) == "index.json" or name.endswith(".lock")


@contextmanager
def alone(root: str) -> Iterator[bool]:
    """Be the only migration at work here, after finishing what one that died has left.

    Gives whether the root itself is there only because of migrations.
    """
    made = not os.path.isdir(root)
    refuse_link(manifests.directory_of(root))
    make_directory(manifests.directory_of(root))
    path = os.path.join(manifests.directory_of(root), manifests.LOCK)
    with Lock(path, timeout=_LOCK_SECONDS):
        try:
            made = made or any(_ROOT in each.directories for each in manifests.load_all(root))
            _finish_others(root)
            yield made
        finally:
            if sorted(os.listdir(manifests.directory_of(root))) == [manifests.LOCK]:
                remove(path)
                remove_if_empty(manifests.directory_of(root))
                if made:
                    remove_if_empty(root)


def _finish_others(root: str) -> None:
    for name in sorted(os.listdir(root)):
        if name.startswith(archive.MIGRATING):
            remove_tree(os.path.join(root, name))
    for name in sorted(os.listdir(manifests.directory_of(root))):
        if name.endswith(".tmp"):
            remove(os.path.join(manifests.directory_of(root), name))
    for manifest in manifests.load_all(root):
        if manifest.state != "done" and _appeared(root, manifest):
            manifest.state = "done"  # it had come, or had not gone yet
            manifests.save(root, manifest)
        elif manifest.state != "done":
            _forget(root, manifest)


def _appeared(root: str, manifest: Manifest) -> bool:
    if manifest.kind == "memory":
        return all(os.path.isfile(os.path.join(root, path)) for path in manifest.files)
    state = sessions.state_of(session_place(manifest.id, root))
    return sessions.section(state, "migrated").get("source_hash") == manifest.source_hash


def store(
    root: str, old_root: str, draft: Draft, others: list[Manifest], *, new_root: bool
) -> Manifest:
    """Write a session beside its place and rename it into it; `others` made what is there too."""
    place = session_place(draft.session_id, root)
    refuse_link(place.directory)
    manifest = Manifest(
        draft.session_id, "session", draft.source_hash, old_root, draft.hashes, times.now()
    )
    objects = Objects(place.objects)
    wanted = sorted(draft.kept.kept)
    ours = {name for each in others for name in each.objects}
    manifest.objects = [
        name for name in wanted if name in ours or not os.path.lexists(objects.file_of(name))
    ]
    manifest.directories = _missing_directories(root, objects, manifest.objects, others)
    manifest.directories += [_ROOT] if new_root else []
    staging = os.path.join(root, f"{archive.MIGRATING}{os.getpid()}-{os.urandom(4).hex()}")
    make_directory(staging)
    try:
        _write(Place(place.session_id, os.path.join(staging, NOTEBOOK), staging, place.objects),
               draft)  # fmt: skip
        for path in sweep.files_below(staging):
            name = os.path.relpath(path, staging).replace(os.sep, "/")
            if not _is_derived(name):
                manifest.files[f"{place.session_id}/{name}"] = digest.of_bytes(read_bytes(path))
        manifests.save(root, manifest)
        for name in wanted:
            objects.put(draft.kept.kept[name])
        if os.path.isdir(place.directory):
            remove_if_empty(place.directory)
        rename(staging, place.directory)
    except BaseException as error:
        if os.path.isdir(staging):
            remove_tree(staging)
            if manifest.files:
                _forget(root, manifest)
        if isinstance(error, OSError) and place.exists():
            raise StorageError(f"{place.directory}: a session of that id has begun") from None
        raise
    manifest.state, manifest.settled = "done", time.time()
    manifests.save(root, manifest)
    return manifest


def _missing_directories(
    root: str, objects: Objects, names: list[str], others: list[Manifest]
) -> list[str]:
    """Return the directories that are not there yet, or only because of other migrations."""
    ours = {each for manifest in others for each in manifest.directories}
    shelves = {os.path.dirname(objects.file_of(name)) for name in names}
    wanted = sorted({*shelves, *({objects.directory} if shelves else ())})
    relative = [os.path.relpath(each, root).replace(os.sep, "/") for each in wanted]
    return [
        each for each in relative if each in ours or not os.path.isdir(os.path.join(root, each))
    ]


def _write(place: Place, draft: Draft) -> None:
    queue = [{"op": "append", "cell": cell} for cell in draft.cells]

    def create() -> dict[str, object]:
        return {"at": times.now(), "op": "create", "state": draft.state}

    seq = journal.begin(place, create, queue, start=0, timeout=TIMEOUT)
    folded = fold(place, seq, timeout=TIMEOUT)
    if folded.why_not is not None:
        raise StorageError(folded.why_not)
    for at, data in draft.checkpoints:
        checkpoints.put(place, data, at, _WHY, "legacy")
    for name, data in draft.extras.items():
        path = os.path.join(place.directory, *name.split("/"))
        make_directory(os.path.dirname(path))
        write_atomic(path, data)


def store_memory(
    root: str,
    old_root: str,
    name: str,
    hashes: dict[str, str],
    data: bytes,
    *,
    new_root: bool,
) -> Manifest:
    """Write the rows of a memory database beside the manifests."""
    path = f"{manifests.DIRECTORY}/{name}.jsonl"
    manifest = Manifest(name, "memory", digest.of_value(hashes), old_root, hashes, times.now())
    manifest.files = {path: digest.of_bytes(data)}
    manifest.directories = [_ROOT] if new_root else []
    manifests.save(root, manifest)
    write_atomic(os.path.join(root, path), data)
    manifest.state = "done"
    manifests.save(root, manifest)
    return manifest


def changed_since(root: str, manifest: Manifest) -> list[str]:
    """Return what is not as the migration made it: changed, gone, or added by others."""
    found = []
    for path, known in manifest.files.items():
        if digest.of_file(os.path.join(root, path))["hash"] != known:
            found.append(path)
    if manifest.kind == "session":
        directory = os.path.join(root, manifest.id)
        copies = set(manifest.files.values())
        for path in _everything(directory):
            name = os.path.relpath(path, root).replace(os.sep, "/")
            if name in manifest.files or _is_derived(name):
                continue
            # JupyterLab keeps a copy of what it saved: ours still, if it saved no change.
            if os.path.islink(path) or digest.of_file(path)["hash"] not in copies:
                found.append(name)
    return sorted(found)


def _everything(directory: str) -> Iterator[str]:
    """Yield all below a directory that is not a directory: links, pipes and files."""
    for here, directories, names in os.walk(directory):
        linked = [name for name in directories if os.path.islink(os.path.join(here, name))]
        yield from (os.path.join(here, name) for name in sorted([*names, *linked]))


def take_back(
    root: str, manifest: Manifest, *, force: bool = False, named: Named | None = None
) -> str | None:
    """Remove what a migration made, exactly; return where a copy of changes was kept.

    What somebody has changed since is theirs: it is refused, or with `force` put into the archive.
    `named` are the objects that each session names, where that is known.
    """
    if manifest.kind == "memory":
        return _take_back_memory(root, manifest, force=force)
    place = session_place(manifest.id, root)
    kept = None
    if place.exists():
        refuse_link(place.directory)
        changed = changed_since(root, manifest)
        if changed and not force:
            raise _refusal(manifest.id, changed)
        if changed:
            kept = archive.put_away(place).path
        else:
            _vanish(root, place, manifest)
    _forget(root, manifest, named)
    return kept


def _vanish(root: str, place: Place, manifest: Manifest) -> None:
    """Take the session out of sight at once, unless somebody is writing it this moment."""
    with (
        Lock(place.lock, timeout=_LOCK_SECONDS) as folding,
        Lock(place.journal, timeout=_LOCK_SECONDS) as writing,
    ):
        if changed := changed_since(root, manifest):
            raise _refusal(manifest.id, changed)
        manifest.state = "undoing"
        manifests.save(root, manifest)
        if os.name == "nt":
            # A directory in which a file is open does not move; `undoing` lets another go on here.
            remove_tree(place.directory, folding, writing)
            return
        aside = os.path.join(root, f"{archive.MIGRATING}{os.getpid()}-{os.urandom(4).hex()}")
        rename(place.directory, aside)
    remove_tree(aside)


def _take_back_memory(root: str, manifest: Manifest, *, force: bool) -> str | None:
    changed = changed_since(root, manifest)
    kept = None
    present = [path for path in manifest.files if os.path.lexists(os.path.join(root, path))]
    if changed and present and not force:
        raise _refusal(manifest.id, changed)
    for path in present:
        if path in changed:
            kept = os.path.join(root, ARCHIVE, f"{os.urandom(4).hex()}-{os.path.basename(path)}")
            make_directory(os.path.dirname(kept))
            rename(os.path.join(root, path), kept)
    _forget(root, manifest)
    return kept


def _refusal(name: str, changed: list[str]) -> RlmnbError:
    listed = "\n".join(f"  {path}" for path in changed)
    return ChangedSinceError(
        f"{name}: changed since it was migrated, so it stays:\n{listed}",
        hint=f"to keep a copy in the archive and take it back: rlmnb migrate --rollback {name} "
        "--force",
    )


def _forget(root: str, manifest: Manifest, named: Named | None = None) -> None:
    """Remove what a migration left outside its session: objects nobody else needs, its manifest."""
    if manifest.state != "undoing":
        manifest.state = "undoing"
        manifests.save(root, manifest)
    if manifest.kind == "memory":
        for path in manifest.files:
            remove(os.path.join(root, path))
    elif manifest.objects:
        there = {each.session_id: each for each in sessions.all_places(root)}
        found = named if named is not None else sweep.references(there.values())
        used = {name for each in there for name in found.get(each, ())}
        objects = Objects(os.path.join(root, "objects"))
        for name in manifest.objects:
            if name not in used:
                _drop(objects.file_of(name), manifest.settled)
    for each in sorted(manifest.directories, key=len, reverse=True):
        if each != _ROOT:  # which goes last of all
            remove_if_empty(os.path.join(root, each))
    remove(manifests.path_of(root, manifest.id))


def _drop(path: str, settled: float | None) -> None:
    """Remove an object, and what a writer that died has left of it, unless it is in use again."""
    directory, name = os.path.split(path)
    try:
        if settled is None or os.stat(path).st_mtime <= settled:
            remove(path)
    except FileNotFoundError:
        pass
    for entry in os.listdir(directory) if os.path.isdir(directory) else ():
        if entry.startswith(f".{name}.") and entry.endswith(".tmp"):
            pid = entry[len(name) + 2 :].partition("-")[0]
            if pid.isdecimal() and not is_alive(int(pid)):
                remove(os.path.join(directory, entry))
