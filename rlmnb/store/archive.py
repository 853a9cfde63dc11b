"""Sessions put away: one zip each under `archive/`, with a manifest that says what is in it.

An archive is whole: it has the objects its session names, so pruning may take those out of the
store. It leaves the sessions root only after every byte of the zip was read back and compared.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rlmnb import digest
from rlmnb.errors import (
    InvalidNameError,
    ObjectError,
    RlmnbError,
    SessionNotFoundError,
    StorageError,
)
from rlmnb.files import (
    Lock,
    Replacement,
    make_directory,
    read_bytes,
    refuse_link,
    remove,
    remove_tree,
    rename,
    write_atomic,
)
from rlmnb.format import times
from rlmnb.format.version import PACKAGE
from rlmnb.ids import Digest
from rlmnb.processes import is_alive
from rlmnb.store import index_file, lease, sessions, sweep
from rlmnb.store.layout import ARCHIVE, Place, archive_of, session_place
from rlmnb.store.objects import Objects

_MANIFEST = "manifest.json"
_FORMAT = 1
_FILES, _OBJECTS = "session/", "objects/"
_UNFINISHED = ".restore-"
# What migrations write a session into before it appears, and put it aside in when it goes.
MIGRATING = ".migrate-"
_LOCK_SECONDS = 5.0
# A zip can say that a few bytes unpack to petabytes; no session comes near this.
_LARGEST = 64 * 1024**3


@dataclass(frozen=True, slots=True)
class Archived:
    """One archived session: where its zip is, and what the manifest says of it."""

    path: str
    manifest: Mapping[str, Any]

    @property
    def session_id(self) -> str:
        """The id it had, and will have again."""
        return str(self.manifest["session_id"])

    @property
    def size(self) -> int:
        """What the zip takes on disk."""
        return os.stat(self.path).st_size


def put_away(place: Place) -> Archived:
    """Move a session into the archive. It is removed only once the zip is known to be whole."""
    refuse_link(place.directory)
    lease.refuse(place)
    path = archive_of(place.session_id, os.path.dirname(place.directory))
    refuse_link(os.path.dirname(path))
    make_directory(os.path.dirname(path))
    if os.path.lexists(path):
        raise StorageError(
            f"{path}: there is an archive of that name already",
            hint="it holds an earlier session of the same id: move it elsewhere first",
        )
    # The journal's lock keeps hooks out, the other one whoever folds: nothing arrives unseen.
    with (
        Lock(place.lock, timeout=_LOCK_SECONDS) as folding,
        Lock(place.journal, timeout=_LOCK_SECONDS) as writing,
        Replacement(path) as new,
    ):
        with os.fdopen(os.dup(new.descriptor), "wb") as file:
            manifest = _pack(place, file)
        new.commit()
        archived = Archived(path, manifest)
        try:
            check(archived)
        except RlmnbError:
            remove(path)
            raise
        remove_tree(place.directory, folding, writing)
    return archived


def _pack(place: Place, file: Any) -> dict[str, Any]:
    members: dict[str, dict[str, Any]] = {}
    objects = Objects(place.objects)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as pack:

        def add(name: str, data: bytes) -> None:
            pack.writestr(name, data)
            members[name] = {"hash": digest.of_bytes(data), "size_bytes": len(data)}

        for path in sweep.files_below(place.directory):
            name = os.path.relpath(path, place.directory).replace(os.sep, "/")
            if path != place.lease and not name.endswith((".lock", ".tmp")):
                add(_FILES + name, read_bytes(path))
        for name in sorted(sweep.references([place])[place.session_id]):
            if name in objects:
                try:
                    add(_OBJECTS + name[7:], objects.get(name))
                except ObjectError:
                    continue  # damaged before we came: nothing that could be kept
        manifest = {
            "format": _FORMAT,
            "session_id": place.session_id,
            "archived_at": times.now(),
            "version": PACKAGE,
            "session": dict(sessions.section(sessions.state_of(place))),
            **_summary(place),
            "members": members,
        }
        pack.writestr(_MANIFEST, json.dumps(manifest, indent=1, sort_keys=True))
    return manifest


def _summary(place: Place) -> dict[str, Any]:
    """Say what a search wants to know without unpacking: how many cells, which files."""
    index = index_file.load(place)
    entries = list(index["cells"].values()) if index is not None else []
    files = {
        path
        for entry in entries
        for key in ("files_read", "files_written")
        for path in entry.get(key, ())
    }
    return {"cells": len(entries) if index is not None else None, "files": sorted(files)}


def check(archived: Archived) -> None:
    """Read every member and compare it with the manifest."""
    with _opened(archived.path) as pack:
        for _ in _members(pack, archived):
            pass


def members(archived: Archived) -> Iterator[tuple[str, bytes]]:
    """Yield what an archive holds, each member checked."""
    with _opened(archived.path) as pack:
        yield from _members(pack, archived)


def read_manifest(path: str) -> Archived:
    """Return what an archive says of itself, having checked that it can be one of ours."""
    with _opened(path) as pack:
        try:
            if pack.getinfo(_MANIFEST).file_size > _LARGEST // 1024:
                raise StorageError(f"{path}: its manifest is too large to be one of ours")
            manifest = json.loads(pack.read(_MANIFEST))
        except (KeyError, ValueError, RecursionError, zipfile.BadZipFile) as error:
            raise StorageError(f"{path}: has no manifest that can be read ({error})") from None
    if not isinstance(manifest, dict) or not isinstance(manifest.get("members"), dict):
        raise StorageError(f"{path}: its manifest names no members")
    if manifest.get("format") != _FORMAT:
        raise StorageError(
            f"{path}: is an archive of format {manifest.get('format')!r}, "
            f"this version reads {_FORMAT}",
            hint="install the rlmnb that made it, or a newer one",
        )
    session_place(str(manifest.get("session_id")))  # refuses what is no plain name
    return Archived(path, manifest)


def _opened(path: str) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except FileNotFoundError:
        raise SessionNotFoundError(
            f"{path}: there is no archive", hint="run: rlmnb sessions --archived"
        ) from None
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise StorageError(f"{path}: is not a zip file that can be read ({error})") from None


def _members(pack: zipfile.ZipFile, archived: Archived) -> Iterator[tuple[str, bytes]]:
    """Yield each member the manifest names, checked: its name, its size, its hash."""
    total = 0
    for name, described in archived.manifest["members"].items():
        if not _is_plain(name) or not isinstance(described, dict):
            raise InvalidNameError(f"{archived.path}: {name!r} is no name for a member")
        try:
            size = pack.getinfo(name).file_size
            total += size
            if size != described.get("size_bytes") or total > _LARGEST:
                raise StorageError(f"{archived.path}: {name} is not of the size it should be")
            data = pack.read(name)
        except (KeyError, OSError, EOFError, zipfile.BadZipFile, RuntimeError) as error:
            raise StorageError(f"{archived.path}: {name} cannot be read ({error})") from None
        if digest.of_bytes(data) != described.get("hash"):
            raise StorageError(f"{archived.path}: {name} is not what the manifest says")
        yield name, data


def _is_plain(name: str) -> bool:
    """Tell whether a member's name stays below where it is unpacked, on any system."""
    if not name.startswith((_FILES, _OBJECTS)) or any(letter in name for letter in '\\:\0"'):
        return False
    return all(part not in ("", ".", "..") for part in name.split("/"))


def bring_back(root: str, target: str) -> Place:
    """Put an archived session back: by its id, or from any zip that `put_away` made."""
    path = target
    ours = not target.endswith(".zip")
    if ours:
        path = archive_of(target, root)
        path = path if os.path.lexists(path) else _by_prefix(root, target)
    archived = read_manifest(path)
    place = session_place(archived.session_id, root)
    refuse_link(place.directory)
    if place.exists():
        raise StorageError(
            f"{place.directory}: there is a session of that id already; nothing was touched",
            hint=f"look at it with: rlmnb show {place.session_id}; "
            f"to give it up: rlmnb rm {place.session_id}",
        )
    make_directory(root)
    temporary = os.path.join(root, f"{_UNFINISHED}{os.getpid()}-{os.urandom(4).hex()}")
    make_directory(temporary)
    try:
        _unpack(archived, temporary, Objects(place.objects))
        if os.path.isdir(place.directory):
            os.rmdir(place.directory)  # only an empty one gives way
        rename(temporary, place.directory)
    except BaseException:
        remove_tree(temporary)
        raise
    if ours:
        remove(path)
    return place


def _unpack(archived: Archived, directory: str, objects: Objects) -> None:
    small = []
    with _opened(archived.path) as pack:
        for name, data in _members(pack, archived):
            if name.startswith(_OBJECTS):
                if Digest(f"sha256:{name.removeprefix(_OBJECTS)}") != digest.of_bytes(data):
                    raise ObjectError(f"{archived.path}: {name} holds other bytes than it says")
                small.append(data)
                if len(small) == 1000 or len(data) > 1024 * 1024:
                    objects.put_many(small)
                    small.clear()
                continue
            target = os.path.join(directory, *name.removeprefix(_FILES).split("/"))
            make_directory(os.path.dirname(target))
            write_atomic(target, data)
    objects.put_many(small)


def _by_prefix(root: str, target: str) -> str:
    found = [path for path in _paths(root) if os.path.basename(path).startswith(target)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise SessionNotFoundError(
            f"no archived session in {root} is called {target!r} or begins so",
            hint="run: rlmnb sessions --archived",
        )
    names = ", ".join(os.path.basename(path).removesuffix(".zip") for path in found[:10])
    raise SessionNotFoundError(
        f"{len(found)} archived sessions begin with {target!r}: {names}",
        hint="give more of the id",
    )


def _paths(root: str) -> list[str]:
    directory = os.path.join(root, ARCHIVE)
    try:
        names = sorted(os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [
        os.path.join(directory, name)
        for name in names
        if name.endswith(".zip") and not name.startswith(".")
    ]


def all_archived(root: str) -> list[Archived]:
    """Return every archive that can be read, by name; one that cannot must not hide the others."""
    found = []
    for path in _paths(root):
        try:
            found.append(read_manifest(path))
        except (OSError, RlmnbError):
            continue
    return found


def drop(root: str, session_id: str) -> int:
    """Remove an archived session for good; return the bytes that were freed."""
    path = archive_of(session_id, root)
    size = os.stat(path).st_size
    remove(path)
    return size


def unfinished(root: str) -> list[str]:
    """Return what restores and migrations that died have left; what they began with is whole."""
    try:
        names = sorted(os.listdir(root))
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = []
    for name in names:
        pid = name.removeprefix(_UNFINISHED).removeprefix(MIGRATING).split("-")[0]
        if name.startswith((_UNFINISHED, MIGRATING)) and not (
            pid.isdecimal() and is_alive(int(pid))
        ):
            found.append(os.path.join(root, name))
    return found
