"""Around each cell: what it may touch before, what it changed after.

Code runs at full speed: nothing is traced while it runs. Before, the names in its compiled code
are followed through the functions and classes of the notebook that it can reach; afterwards only
variables that could have been touched are looked at again.
"""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from rlmnb.errors import RlmnbError
from rlmnb.kernel.canonical import Walk
from rlmnb.kernel.codenames import CodeNames
from rlmnb.kernel.hidden import AMBIENT, CHANCE, INITIAL, Hidden
from rlmnb.kernel.reach import code_names, follow
from rlmnb.kernel.state import StateStore
from rlmnb.kernel.watch import Watch

ABSENT = "absent"
_HISTORY = frozenset({"In", "Out", "_", "__", "___", "_i", "_ii", "_iii", "_dh", "_oh", "_ih"})
_LIMIT = 2 * 1024**3


def is_history(name: str) -> bool:
    """Tell whether IPython itself sets this name after each cell."""
    return name in _HISTORY or (
        name.startswith("_") and name.lstrip("_i").isdigit() and len(name) < 12
    )


@dataclass(frozen=True)
class Group:
    """Variables that share mutable objects, and what is known of their present value."""

    names: tuple[str, ...]
    digest: str
    own: dict[str, str]
    refs: frozenset[str]
    problem: str | None
    ids: frozenset[int] | None
    object: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the version for the record."""
        return {
            "names": list(self.names),
            "digest": self.digest,
            "own": self.own,
            "refs": sorted(self.refs),
            "object": self.object,
            "problem": self.problem,
        }


@dataclass
class _Look:
    """What was seen before a cell ran."""

    reads: frozenset[str]
    opaque: bool
    bindings: dict[str, Any]
    hidden: dict[str, str]
    modules: frozenset[str]
    code: CodeNames | None = None


@dataclass
class Tracker:
    """Follows one namespace from cell to cell."""

    namespace: dict[str, Any]
    store: StateStore | None
    watch: Watch
    transform: Callable[[str], str]
    hidden: Hidden = field(default_factory=Hidden)
    groups: dict[str, Group] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._own = frozenset(self.namespace) | {"exit", "quit", "get_ipython", "open"}
        self._run = os.urandom(6).hex()
        self._count = 0
        self._look: _Look | None = None

    def _token(self) -> str:
        """Return something no other value's digest has in it."""
        self._count += 1
        return f"{self._run}:{self._count}"

    def tracked(self) -> dict[str, Any]:
        """Return the user's own variables."""
        return {
            name: value
            for name, value in self.namespace.items()
            if name not in self._own and not is_history(name)
        }

    # before

    def before(self, source: str) -> None:
        """Look at what a cell may touch, and start listening for files."""
        names = self._names(source)
        reads, opaque = self.closure(names)
        self._look = _Look(
            reads=reads,
            opaque=opaque,
            bindings=self.tracked(),
            hidden=self.hidden.digests(),
            modules=frozenset(sys.modules),
            code=names,
        )
        self.watch.start()

    def _names(self, source: str) -> CodeNames | None:
        return code_names(source, self.transform)

    def closure(self, names: CodeNames | None) -> tuple[frozenset[str], bool]:
        """Return every name that code can read, through what it calls; and whether any at all."""
        if names is None:
            return frozenset(), False
        return follow(names, lambda name: self.groups[name].refs if name in self.groups else ())

    # after

    def after(self, *, failed: bool) -> dict[str, Any]:
        """Return the trace of the cell that has just run."""
        look, self._look = self._look, None
        assert look is not None
        self.watch.stop()
        now = self.tracked()
        reads = self._read_digests(look)
        changed = self._changed_names(look, now)
        deleted = sorted(name for name in look.bindings if name not in now)
        old = dict(self.groups)
        for name in deleted:
            self._forget(name)
        # Setting a variable to what it was is still setting it: the cell would do so again.
        set_anew = (look.code.sure - look.reads) if look.code is not None else frozenset()
        versions = self._refresh(changed & set(now), set_anew & set(now))
        for version in versions:
            # A new version holds the values of all its members, whoever set them: it is right
            # only while those of the groups that went into it are what they were.
            for name in version.names:
                if name in look.bindings and name in old and name not in set_anew:
                    reads["~" + name] = old[name].digest
        hidden_values = self.hidden.values()
        hidden_now = self.hidden.digests(hidden_values)
        writes = [version.as_dict() for version in versions]
        for name, was in look.hidden.items():
            if hidden_now[name] != was:
                writes.append(self._hidden_version(name, hidden_now[name], hidden_values[name]))
                if name in CHANCE:
                    reads[name] = was
        self._note_literals(look)
        self._note_modules(look)
        return {
            "reads": reads,
            "writes": writes,
            "deleted": deleted,
            "opaque": look.opaque,
            "history": self._reads_history(look),
            "failed": failed,
            **self.watch.report(),
        }

    @staticmethod
    def _reads_history(look: _Look) -> bool:
        return any(is_history(name) for name in look.reads)

    def _read_digests(self, look: _Look) -> dict[str, str]:
        names = set(look.reads) | (set(look.bindings) if look.opaque else set())
        found: dict[str, str] = {}
        together: dict[str, list[str]] = {}
        for name in sorted(names):
            if name in self._own or is_history(name) or name.startswith("$"):
                continue
            group = self.groups.get(name)
            found[name] = group.own[name] if group else ABSENT
            if group is not None and len(group.names) > 1:
                together.setdefault(group.digest, []).append(name)
        for key, members in together.items():
            if len(members) > 1:
                found["&" + "&".join(members)] = key
        for name in AMBIENT:
            found[name] = look.hidden[name]
        return found

    def _changed_names(self, look: _Look, now: dict[str, Any]) -> set[str]:
        """Return the names whose value may have changed: touched, rebound or new."""
        before = look.bindings
        rebound = {name for name, value in now.items() if before.get(name, now) is not value}
        touched = set(before) if look.opaque else {name for name in look.reads if name in before}
        gone = {name for name in before if name not in now}
        for name in touched | rebound | gone:
            if name in self.groups:
                touched.update(self.groups[name].names)
        return touched | rebound

    def _forget(self, name: str) -> None:
        group = self.groups.pop(name, None)
        if group is None or len(group.names) == 1:
            return
        # What is left of the group has other members now.
        for other in group.names:
            self.groups.pop(other, None)

    def _walk(self, names: Iterable[str]) -> Walk:
        walk = Walk(self.namespace, self._token)
        for name in names:
            walk.variable(name)
        return walk

    def _refresh(self, names: set[str], set_anew: frozenset[str]) -> list[Group]:
        """Look at these variables again; return the groups that were set or have changed."""
        names = names | set_anew
        walks = {name: self._walk([name]) for name in sorted(names)}
        others = {group.names: group for group in self.groups.values()}
        for group in others.values():
            ids = group.ids or frozenset()
            if not set(group.names) & set(walks) and any(ids & w.ids for w in walks.values()):
                walks |= {name: self._walk([name]) for name in group.names}
        found = []
        for members in _partition({name: walk.ids for name, walk in walks.items()}):
            new = self._group(members, walks)
            old = self.groups.get(members[0])
            if old is not None and old.names == new.names and old.digest == new.digest:
                new = Group(**{**new.__dict__, "object": old.object, "problem": old.problem})
                for name in members:
                    self.groups[name] = new
                if set_anew & set(members):
                    found.append(new)
                continue
            new = self._stored(new)
            for name in members:
                self.groups[name] = new
            found.append(new)
        return found

    def _group(self, members: tuple[str, ...], walks: dict[str, Walk]) -> Group:
        walk = walks[members[0]] if len(members) == 1 else self._walk(members)
        return Group(
            names=members,
            digest=walk.digest(),
            own={name: walks[name].digest() for name in members},
            refs=frozenset(ref for ref in walk.refs if self._counts(ref)),
            problem=walk.problem,
            ids=frozenset(walk.ids),
        )

    def _counts(self, ref: str) -> bool:
        return not ref.startswith("$") and ref not in self._own

    def _stored(self, group: Group) -> Group:
        if group.problem is not None or self.store is None:
            return group
        try:
            name = self.store.save(self.namespace, group.names, _LIMIT)
        except Exception as error:  # noqa: BLE001 - a class may raise anything when pickled
            return Group(**{**group.__dict__, "problem": f"cannot be stored: {error}"[:200]})
        problem = None if name is not None else "too large to store"
        return Group(**{**group.__dict__, "object": name, "problem": problem})

    def _hidden_version(self, name: str, digest: str, value: Any) -> dict[str, Any]:
        stored = None
        if self.store is not None and value is not None:
            stored = self.store.save({name: value}, (name,), _LIMIT)
        return {
            "names": [name],
            "digest": digest,
            "own": {name: digest},
            "refs": [],
            "object": stored,
            "problem": None if digest == INITIAL or stored else "hidden state",
        }

    def _note_literals(self, look: _Look) -> None:
        if look.code is None:
            return
        for text in look.code.strings:
            plausible = 0 < len(text) < 1024 and "\0" not in text and "\n" not in text
            if plausible and os.path.isfile(text):
                self.watch.note(text)

    def _note_modules(self, look: _Look) -> None:
        """Count a local module as read by whoever can reach it, also when it was cached."""
        values = (
            list(self.tracked().values())
            if look.opaque
            else [self.namespace[name] for name in look.reads if name in self.namespace]
        )
        names = {
            value.__name__
            if isinstance(value, types.ModuleType)
            else getattr(value, "__module__", None)
            for value in values
        } | (set(sys.modules) - look.modules)
        for name in self._with_imports(name for name in names if isinstance(name, str)):
            path = getattr(sys.modules.get(name), "__file__", None)
            if isinstance(path, str) and path.endswith(".py"):
                self.watch.note(path)

    def _with_imports(self, names: Iterable[str]) -> set[str]:
        """Return local modules and the local modules that they use."""
        found: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            module = sys.modules.get(name)
            path = getattr(module, "__file__", None)
            if name in found or not isinstance(path, str) or self.watch._mine(path) is None:
                continue
            found.add(name)
            waiting += [
                value.__name__
                if isinstance(value, types.ModuleType)
                else str(getattr(value, "__module__", ""))
                for value in vars(module).values()
            ]
        return found

    # restoring

    def restore(self, wanted: list[dict[str, Any]], absent: list[str]) -> list[str]:
        """Bring variables to the versions wanted; return the digests that could not be had."""
        for name in absent:
            self.namespace.pop(name, None)
            self.groups.pop(name, None)
        waiting = {version["digest"]: version for version in wanted}
        failed: list[str] = []
        by_name = {name: version for version in wanted for name in version["names"]}

        def find(name: str) -> Any:
            version = by_name.get(name)
            if version is not None and version["digest"] in waiting:
                bring(version)
            return self.namespace[name]

        def bring(version: dict[str, Any]) -> None:
            waiting.pop(version["digest"], None)
            try:
                self._bring(version, find)
            except (RlmnbError, Exception):  # noqa: BLE001 - unpickling runs the user's code
                failed.append(version["digest"])

        for version in wanted:
            if version["digest"] in waiting:
                bring(version)
        return failed

    def _bring(self, version: dict[str, Any], find: Callable[[str], Any]) -> None:
        names = tuple(version["names"])
        assert self.store is not None
        if names[0].startswith("$"):
            value = None
            if version["object"]:
                value = self.store.load({}, version["object"], find)[names[0]]
            self.hidden.restore(names[0], value)
            return
        values = self.store.load(self.namespace, version["object"], find)
        values = {name: values[name] for name in names}
        for name in names:
            for other in self.groups.pop(name).names if name in self.groups else ():
                self.groups.pop(other, None)
        self.namespace.update(values)
        group = Group(
            names=names,
            digest=version["digest"],
            own=version["own"],
            refs=frozenset(version["refs"]),
            problem=None,
            ids=None,
            object=version["object"],
        )
        for name in names:
            self.groups[name] = group


def _partition(ids: dict[str, set[int]]) -> list[tuple[str, ...]]:
    """Put names that share an object together."""
    parent = {name: name for name in ids}

    def root(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    holder: dict[int, str] = {}
    for name, objects in ids.items():
        for each in objects:
            if each in holder:
                parent[root(name)] = root(holder[each])
            else:
                holder[each] = name
    groups: dict[str, list[str]] = {}
    for name in ids:
        groups.setdefault(root(name), []).append(name)
    return [tuple(sorted(members)) for members in groups.values()]
