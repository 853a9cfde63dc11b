"""Plan a migration, carry it out, take it back: one result for each session, whatever happens."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from rlmnb import digest
from rlmnb.errors import RlmnbError, SessionNotFoundError
from rlmnb.migrating import keeping, manifests, memory
from rlmnb.migrating.drafting import Draft, draft, hashes_of, named, source_hash
from rlmnb.migrating.finding import BECOMES, Found, OldSession, find
from rlmnb.migrating.manifests import Manifest
from rlmnb.migrating.reading import Tree, hash_of
from rlmnb.store import sessions, sweep
from rlmnb.store.layout import archive_of, session_place, sessions_root

Tell = Callable[[str], None]
# These say that something of what was there did not get across.
_SHOWN = 10
BAD = frozenset({"failed", "partial", "refused"})


@dataclass
class Result:
    """What becomes, or became, of one old session."""

    session_id: str
    status: str = "planned"
    reason: str = ""
    legacy_ids: list[str] = field(default_factory=list)
    files: list[dict[str, str]] = field(default_factory=list)
    files_migrated: list[str] = field(default_factory=list)
    cells: int = 0
    checkpoints: int = 0
    unmapped: dict[str, list[str]] = field(default_factory=dict)
    problems: list[dict[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass
class Report:
    """What becomes, or became, of all of them."""

    old_root: str
    root: str
    executed: bool
    sessions: list[Result] = field(default_factory=list)
    memory: list[Result] = field(default_factory=list)
    orphans: list[dict[str, str]] = field(default_factory=list)
    transcript: str | None = None

    @property
    def results(self) -> list[Result]:
        """All results, those of memory databases included."""
        return [*self.sessions, *self.memory]

    def as_json(self) -> dict[str, Any]:
        """Return the report for a script."""
        return asdict(self)


class _Run:
    def __init__(self, found: Found, root: str, *, execute: bool, force: bool) -> None:
        self.found = found
        self.root = root
        self.execute = execute
        self.force = force
        self.new_root = False
        self.made = manifests.load_all(root) if execute else []

    def session(self, old: OldSession) -> Result:
        result = Result(old.session_id, legacy_ids=old.legacy_ids, notes=list(old.notes))
        try:
            hashes = hashes_of(old, self.found.root)
            result.files = [
                {
                    "path": each.path,
                    "kind": each.kind,
                    "becomes": BECOMES[each.kind],
                    "hash": hashes[each.path],
                }
                for each in old.files
            ]
            if not self._is_due(old, source_hash(hashes), result):
                return result
            made = draft(old, self.found.root, self.found.transcript)
            self._tell_of(made, result)
            if made.empty:
                result.status, result.reason = "failed", "nothing of it could be read"
            elif self.execute:
                self._carry_out(old, made, result)
        except (OSError, RlmnbError) as error:
            result.status, result.reason = "failed", str(error)
        except RecursionError:
            result.status, result.reason = "failed", "something in it is nested too deeply"
        return result

    def _is_due(self, old: OldSession, wanted: str, result: Result) -> bool:
        """Tell whether there is anything to do, and say why not."""
        place = session_place(old.session_id, self.root)
        known = manifests.load(self.root, old.session_id)
        if known is None or known.state != "done":
            if place.exists() and not (known and known.source_hash == wanted):
                result.status = "skipped"
                result.reason = "there is a session of that id, which no migration has made"
                return False
            return True
        if not place.exists():
            archived = os.path.exists(archive_of(old.session_id, self.root))
            word = "is archived" if archived else "was removed"
            result.reason = f"was migrated, and {word} since; --force migrates it again"
            result.status = "skipped"
            return self.force
        if known.source_hash == wanted:
            result.status, result.reason = "unchanged", "was migrated already, from the same files"
            return False
        if changed := keeping.changed_since(self.root, known):
            result.status = "skipped"
            result.reason = (
                "the old files have changed since it was migrated, and so has the session: "
                + ", ".join(changed)
            )
            return False
        result.reason = "the old files have changed since it was migrated"
        return True

    def _tell_of(self, made: Draft, result: Result) -> None:
        result.cells, result.checkpoints = len(made.cells), len(made.checkpoints)
        result.unmapped = named(made.unmapped)
        result.problems = made.problems
        result.status = "planned"
        if made.problems:
            first = made.problems[0]
            result.reason = f"{first['path']} {first['reason']}"
            if len(made.problems) > 1:
                result.reason += f", and {len(made.problems) - 1} more"

    def _carry_out(self, old: OldSession, made: Draft, result: Result) -> None:
        known = manifests.load(self.root, old.session_id)
        if known is not None:
            keeping.take_back(self.root, known)
        where = (self.root, self.found.root)
        self.made.append(keeping.store(*where, made, self.made, new_root=self.new_root))
        broken = {each["path"] for each in made.problems}
        result.files_migrated = [each.path for each in old.files if each.path not in broken]
        result.status = "updated" if known is not None else "migrated"
        if made.problems:
            result.status = "partial"

    def memory(self, path: str) -> Result:
        tree = Tree(self.found.root)
        files = memory.parts(tree, path)
        hashes = {each: hash_of(tree.absolute(each)) for each in files}
        name = f"rlm-memory.db-{digest.of_value(hashes)[7:19]}"
        result = Result(name)
        result.files = [
            {"path": each, "kind": "memory", "becomes": BECOMES["memory"], "hash": value}
            for each, value in hashes.items()
        ]
        try:
            known = manifests.load(self.root, name)
            if known is not None and known.state == "done" and not self.force:
                result.status, result.reason = "unchanged", "was exported already"
                return result
            data, counts = memory.exported(tree, path)
            rows = ", ".join(f"{count} {table}" for table, count in counts.items())
            result.notes.append(f"rows: {rows or 'none'}")
            if self.execute:
                keeping.store_memory(
                    self.root, self.found.root, name, hashes, data, new_root=self.new_root
                )
                result.status, result.files_migrated = "migrated", files
        except (OSError, RlmnbError) as error:
            result.status = "failed"
            result.reason = str(error).removeprefix(f"{tree.absolute(path)}: ")
        return result


def migrate(
    old_root: str,
    *,
    execute: bool = False,
    force: bool = False,
    root: str | None = None,
    tell: Tell = lambda _: None,
) -> Report:
    """Say what becomes of everything below an old root, and with `execute` do it.

    The old files are only read. Without `execute` nothing is written anywhere.
    """
    root = root or sessions_root()
    found = find(old_root)
    run = _Run(found, root, execute=execute, force=force)
    if not execute:
        return _report(run, tell)
    with keeping.alone(root) as run.new_root:
        return _report(run, tell)


def _report(run: _Run, tell: Tell) -> Report:
    found = run.found
    report = Report(found.root, run.root, run.execute, transcript=found.transcript)
    for session in found.sessions:
        tell(session.session_id)
        report.sessions.append(run.session(session))
    for name, reason in found.refused.items():
        report.sessions.append(Result(name, "refused", reason))
    report.memory = [run.memory(path) for path in found.memory]
    report.orphans = [{"path": path, "reason": why} for path, why in sorted(found.orphans.items())]
    return report


def rollback(name: str | None, *, force: bool = False, root: str | None = None) -> list[Result]:
    """Take back one migration, or all: exactly what they made, unless others have changed it."""
    root = root or sessions_root()
    if not os.path.isdir(manifests.directory_of(root)):
        raise _nothing(name, root, [])
    with keeping.alone(root):
        known = manifests.load_all(root)
        meant = [each for each in known if name is None or each.id == name]
        if name is not None and not meant:
            meant = [each for each in known if each.id.startswith(name)]
        if not meant and name is not None and "/" not in name:
            manifests.load(root, name)  # says so if it is there and cannot be read
        if not meant or (name is not None and len(meant) > 1):
            raise _nothing(name, root, [each.id for each in known])
        named = sweep.references(sessions.all_places(root))
        return [_taken_back(root, each, named, force=force) for each in meant]


def _nothing(name: str | None, root: str, ids: list[str]) -> SessionNotFoundError:
    if not ids:
        return SessionNotFoundError(f"{root}: nothing here was made by a migration")
    shown = ", ".join(ids[:_SHOWN]) + (
        f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    )
    return SessionNotFoundError(
        f"{root}: no one migration is called {name!r} or begins so", hint=f"there are: {shown}"
    )


def _taken_back(root: str, manifest: Manifest, named: keeping.Named, *, force: bool) -> Result:
    result = Result(manifest.id, "rolled back", files_migrated=sorted(manifest.files))
    try:
        kept = keeping.take_back(root, manifest, force=force, named=named)
        if kept is not None:
            result.reason = f"as it was changed, it is kept in {kept}"
    except (OSError, RlmnbError) as error:
        result.status, result.reason = "kept", str(error)
        result.files_migrated = []
        result.notes = [error.hint] if isinstance(error, RlmnbError) and error.hint else []
    return result
