"""Around each cell: what it may touch before, what it changed after.

Code runs at full speed: nothing is traced while it runs. Before, the names in its compiled code
are followed through the functions and classes of the notebook that it can reach; afterwards only
variables that could have been touched are looked at again.
"""

from __future__ import annotations

import hashlib
import linecache
import os
import pickle
import sys
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from rlmnb.errors import ObjectError, RlmnbError
from rlmnb.kernel.canonical import Walk, value_digest
from rlmnb.kernel.codenames import CodeNames
from rlmnb.kernel.hidden import CHANCE, INITIAL, Hidden
from rlmnb.kernel.modules import PREFIX, Modules
from rlmnb.kernel.reach import code_names, follow
from rlmnb.kernel.state import StateStore
from rlmnb.kernel.watch import Watch, is_plausible, version_of, words_in

ABSENT = "absent"
FIGURES = "$figures"
# Names that cannot be a program's own begin with one of these: they are ours.
_RESERVED = ("$", "~", "&")
_MANY = 1000
_COMMANDS = frozenset(
    {
        "system", "popen", "Popen", "run", "call", "check_call", "check_output", "getoutput",
        "getstatusoutput", "run_line_magic", "run_cell_magic", "create_subprocess_shell",
    }
)  # fmt: skip
_HISTORY = frozenset({"In", "Out", "_", "__", "___", "_i", "_ii", "_iii", "_dh", "_oh", "_ih"})


@lru_cache(maxsize=65536)
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
    # Functions and classes that it holds itself, which are stored under their own names.
    holds: frozenset[str] = frozenset()
    # The digest of its pickle, where that is enough to see that nothing changed.
    quick: bytes | None = None
    custom: bool = False
    object: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the version for the record."""
        return {
            "names": list(self.names),
            "digest": self.digest,
            "own": self.own,
            "refs": sorted(self.refs),
            **({"holds": sorted(self.holds)} if self.holds else {}),
            **({"custom": True} if self.custom else {}),
            "object": self.object,
            "problem": self.problem,
        }


@dataclass
class _Look:
    """What was seen before a cell ran."""

    reads: frozenset[str]
    opaque: bool
    # Which object each variable was: the objects themselves would live longer for being held.
    bindings: dict[str, int]
    hidden: dict[str, str]
    modules: frozenset[str]
    code: CodeNames | None = None
    named: dict[str, tuple[int, ...] | None] = field(default_factory=dict)


@dataclass
class Tracker:
    """Follows one namespace from cell to cell."""

    namespace: dict[str, Any]
    store: StateStore | None
    watch: Watch
    transform: Callable[[str], str]
    hidden: Hidden = field(default_factory=Hidden)
    groups: dict[str, Group] = field(default_factory=dict)
    # The most bytes that variables which belong together may take in the store.
    limit: int = 2 * 1024**3

    def __post_init__(self) -> None:
        self._modules = Modules(lambda path: self.watch.mine(path) is not None)
        self._figures = INITIAL
        self._now: dict[str, int] | None = None
        self._own = dict(self.namespace)
        self._run = os.urandom(6).hex()
        self._count = 0
        self._look: _Look | None = None

    def _token(self) -> str:
        """Return something no other value's digest has in it."""
        self._count += 1
        return f"{self._run}:{self._count}"

    def tracked(self) -> dict[str, int]:
        """Return the user's own variables, each with the identity of its value."""
        own = self._own
        return {
            name: id(value)
            for name, value in self.namespace.items()
            if type(name) is str
            and name not in own
            and not is_history(name)
            and name[:1] not in _RESERVED
        } | {name: id(self.namespace[name]) for name in self._taken_over() if not is_history(name)}

    def _taken_over(self) -> list[str]:
        """Return the names that were the shell's at the start and are the user's now."""
        return [
            name
            for name, value in self._own.items()
            if name in self.namespace and self.namespace[name] is not value and name[:1] != "_"
        ]

    # before

    def before(self, source: str) -> None:
        """Look at what a cell may touch, and start listening for files."""
        names = self._names(source)
        reads, opaque = self.closure(names)
        self._look = _Look(
            reads=reads,
            opaque=opaque,
            # Nobody but cells sets variables; what a thread did meanwhile is put to this cell.
            bindings=self._now if self._now is not None else self.tracked(),
            hidden=self.hidden.digests(),
            modules=frozenset(sys.modules),
            code=names,
        )
        self._look.named = {
            os.path.abspath(path): version_of(path) for path in self._named_files(self._look)
        }
        self.watch.start()

    def _names(self, source: str) -> CodeNames | None:
        return code_names(source, self.transform)

    def closure(self, names: CodeNames | None) -> tuple[frozenset[str], bool]:
        """Return every name that code can read, through what it calls; and whether any at all."""
        if names is None:
            return frozenset(), False
        return follow(names, self._refs_of)

    def _refs_of(self, name: str) -> Iterable[str]:
        if name.startswith(PREFIX):
            return self._modules.refs([name.removeprefix(PREFIX)])
        group = self.groups.get(name)
        return group.refs if group is not None else ()

    # after

    def after(self, *, failed: bool) -> dict[str, Any]:
        """Return the trace of the cell that has just run."""
        look, self._look = self._look, None
        assert look is not None
        self.watch.stop()
        now = self._now = self.tracked()
        reads = self._read_digests(look)
        changed = self._changed_names(look, now)
        deleted = sorted(name for name in look.bindings if name not in now)
        old = dict(self.groups)
        looked_at = self._look_at_modules(look)
        for name in deleted:
            self._forget(name)
        # Setting a variable to what it was is still setting it: the cell would do so again.
        set_anew = self._set_anew(look, now, failed=failed)
        for name in set_anew & set(reads):
            del reads[name]
        versions = self._refresh(changed & set(now), set_anew & set(now))
        reads |= self._reads_behind(versions, look, now, old, set_anew)
        self._note_patches(look)
        hidden_values = self.hidden.values()
        hidden_now = self.hidden.digests(hidden_values)
        writes = [version.as_dict() for version in versions]
        writes += [self._module_version(name) for name in looked_at]
        writes += self._figures_version(look)
        for name, was in look.hidden.items():
            if hidden_now[name] != was:
                writes.append(self._hidden_version(name, hidden_now[name], hidden_values[name]))
                if name in CHANCE:
                    reads[name] = was
        self._note_named(look)
        self._note_modules(look)
        if self.store is not None:
            for path in self.watch.written:
                self.store.keep_file(path)
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
    def _reads_behind(
        versions: list[Group],
        look: _Look,
        now: dict[str, int],
        old: dict[str, Group],
        set_anew: frozenset[str],
    ) -> dict[str, str]:
        """Return what new versions were made of besides what the code has read.

        A version holds the values of all its members, whoever set them: it is right only while
        those of the groups that went into it are what they were.
        """
        reads = {}
        for name in (name for version in versions for name in version.names):
            if name in look.bindings and name in old and name not in set_anew:
                reads["~" + name] = old[name].digest
                # It holds by value now what it held by a name that means another thing.
                for held in old[name].holds:
                    if held in old and look.bindings.get(held) != now.get(held):
                        reads["~" + held] = old[held].digest
        return reads

    @staticmethod
    def _reads_history(look: _Look) -> bool:
        set_itself = look.code.writes - look.code.early if look.code is not None else frozenset()
        return any(is_history(name) for name in look.reads - set_itself)

    def _set_anew(self, look: _Look, now: dict[str, int], *, failed: bool) -> frozenset[str]:
        """Return the names that a cell has set without looking at what they were."""
        code = look.code
        if code is None:
            return frozenset()
        led_to = {ref for name in look.reads for ref in self._refs_of(name)}
        candidates = (code.writes - code.early - led_to) | self._starred(code)
        bound = {name for name in candidates if look.bindings.get(name) != now.get(name)}
        sure = frozenset() if failed else code.sure | self._starred(code)
        return frozenset((candidates & sure) | bound) & frozenset(now)

    def _starred(self, code: CodeNames) -> frozenset[str]:
        """Return the names that `from m import *` has set."""
        found: set[str] = set()
        for name in code.stars:
            contents = vars(sys.modules[name]) if name in sys.modules else {}
            public = [key for key in contents if not key.startswith("_")]
            found.update(contents.get("__all__", public))
        return frozenset(found)

    def _read_digests(self, look: _Look) -> dict[str, str]:
        names = set(look.reads) | (set(look.bindings) if look.opaque else set())
        found: dict[str, str] = {}
        together: dict[str, list[str]] = {}
        for name in sorted(names):
            if name.startswith(PREFIX):
                seen = self._modules.known.get(name.removeprefix(PREFIX))
                if seen is not None or self._modules.path(name.removeprefix(PREFIX)):
                    found[name] = seen.digest if seen is not None else INITIAL
            elif name == FIGURES:
                found[name] = self._figures
            group = self.groups.get(name)
            if is_history(name) or name.startswith("$") or (group is None and name in self._own):
                continue
            found[name] = group.own[name] if group else ABSENT
            if group is not None and len(group.names) > 1:
                together.setdefault(group.digest, []).append(name)
        for key, members in together.items():
            if len(members) > 1:
                found["&" + "&".join(members)] = key
        # Every cell reads the others too; they are told of only once they are not initial.
        for name in self.hidden.ambient:
            if look.hidden[name] != INITIAL:
                found[name] = look.hidden[name]
        return found

    def _changed_names(self, look: _Look, now: dict[str, int]) -> set[str]:
        """Return the names whose value may have changed: touched, rebound or new."""
        before = look.bindings
        rebound = {name for name, value in now.items() if before.get(name) != value}
        if look.code is not None:
            # An object may stand where another stood that was let go before it was made.
            rebound |= {name for name in look.code.writes if name in now}
        touched = set(before) if look.opaque else {name for name in look.reads if name in before}
        gone = {name for name in before if name not in now}
        moved = rebound | gone
        # Whoever holds a function or class that has lost its name holds another thing from now on.
        touched |= {
            name for name, group in self.groups.items() if not group.holds.isdisjoint(moved)
        }
        for name in touched | moved:
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
        names -= self._surely_unchanged(names - set_anew)
        walks = {name: self._walk([name]) for name in sorted(names)}
        objects = set().union(*(walk.ids for walk in walks.values()))
        for name, group in list(self.groups.items()) if objects else ():
            if name not in walks and group.ids and not group.ids.isdisjoint(objects):
                walks |= {each: self._walk([each]) for each in group.names if each not in walks}
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

    def _surely_unchanged(self, names: set[str]) -> set[str]:
        """Return which large variables are what they were, by the digest of their pickle.

        Pickling plain data takes a tenth of the time of a walk. Its bytes say nothing across
        processes, but the same objects in the same process give the same bytes.
        """
        found: set[str] = set()
        for name in names:
            group = self.groups.get(name)
            if group is not None and group.quick is not None and name not in found:
                values = [self.namespace.get(each) for each in group.names]
                if _quick_digest(values) == group.quick:
                    found.update(group.names)
        return found

    def _group(self, members: tuple[str, ...], walks: dict[str, Walk]) -> Group:
        walk = walks[members[0]] if len(members) == 1 else self._walk(members)
        sharing = [
            name for name, seen in self._modules.known.items() if not seen.ids.isdisjoint(walk.ids)
        ]
        problem = f"shares objects with the module {sharing[0]}" if sharing else None
        return Group(
            names=members,
            digest=walk.digest(),
            own={name: walks[name].digest() for name in members},
            refs=frozenset(self._kept_refs(walk.refs)).union(PREFIX + name for name in sharing),
            problem=walk.problem or problem,
            ids=frozenset(walk.ids),
            holds=frozenset(walk.held),
            custom=walk.custom,
            quick=(
                _quick_digest([self.namespace[name] for name in members])
                if walk.plain and len(walk.ids) > _MANY and walk.problem is None
                else None
            ),
        )

    def _kept_refs(self, refs: set[str]) -> set[str]:
        """Return the references that lead to something with a state: variables, local modules."""
        kept = {ref for ref in refs if not ref.startswith("$")}
        kept -= {ref for ref in kept if ref in self._own and ref not in self.groups}
        modules = [ref[1:] for ref in refs if ref.startswith("$")]
        if any(name.partition(".")[0] == "matplotlib" for name in modules):
            kept.add(FIGURES)
        return kept | self._modules.refs(modules)

    # modules and libraries

    def _look_at_modules(self, look: _Look) -> list[str]:
        """Look at the local modules a cell could reach; return those that are not as before."""
        names = {name.removeprefix(PREFIX) for name in look.reads if name.startswith(PREFIX)}
        if look.opaque:
            names |= set(self._modules.known)
        names |= self._modules.with_imports(set(sys.modules) - look.modules)
        changed = []
        for name in sorted(names):
            if self._modules.path(name) is None:
                continue
            seen = self._modules.look(name)
            before = self._modules.known.get(name)
            self._modules.known[name] = seen
            if before is None or before.digest != seen.digest:
                changed.append(name)
        return changed

    def _module_version(self, name: str) -> dict[str, Any]:
        seen = self._modules.known[name]
        version = _pseudo_version(PREFIX + name, seen.digest)
        version["refs"] = sorted(self._modules.refs([name]) - {PREFIX + name})
        if any(group.ids and not group.ids.isdisjoint(seen.ids) for group in self.groups.values()):
            version["problem"] = "shares objects with variables"
        elif self.store is not None:
            try:
                data = self._modules.data(name)
                version["object"] = self.store.save_values(self.namespace, data, self.limit)
            except Exception:  # noqa: BLE001 - a module can hold anything
                # What it is right after its import needs nothing else; any other state will be
                # found not to be there, and made again.
                version["object"] = None
        return version

    def _figures_version(self, look: _Look) -> list[dict[str, Any]]:
        """Tell of figures that stay open from cell to cell: whoever draws may change them."""
        if FIGURES not in look.reads and not look.opaque and "matplotlib" in look.modules:
            return []
        drawing = sys.modules.get("matplotlib._pylab_helpers")
        now = self._token() if drawing is not None and drawing.Gcf.figs else INITIAL
        if now == self._figures:
            return []
        self._figures = now
        version = _pseudo_version(FIGURES, now)
        version["problem"] = None if now == INITIAL else "open figures"
        return [version]

    def _note_patches(self, look: _Look) -> None:
        """Take down which attributes of libraries' modules and classes a cell has set."""
        for *dotted, attribute in look.code.patches if look.code is not None else ():
            base: Any = self.namespace.get(dotted[0])
            for part in dotted[1:]:
                base = getattr(base, part, None)
            if isinstance(base, types.ModuleType):
                where = base.__name__
                if self._modules.path(where) is not None:
                    continue
            elif isinstance(base, type) and base.__module__ != "__main__":
                where = f"{base.__module__}.{base.__qualname__}"
            else:
                continue
            value = vars(base).get(attribute, ABSENT)
            self.hidden.patched[f"{where}.{attribute}"] = value_digest(self.namespace, value)

    def _stored(self, group: Group) -> Group:
        if group.problem is not None or self.store is None:
            return group
        try:
            name = self.store.save(self.namespace, group.names, self.limit)
        except Exception as error:  # noqa: BLE001 - a class may raise anything when pickled
            return Group(**{**group.__dict__, "problem": f"cannot be stored: {error}"[:200]})
        problem = None if name is not None else "too large to store"
        return Group(**{**group.__dict__, "object": name, "problem": problem})

    def _hidden_version(self, name: str, digest: str, value: Any) -> dict[str, Any]:
        version = _pseudo_version(name, digest)
        if self.store is not None and value is not None and self.hidden.can_restore(name):
            try:
                version["object"] = self.store.save_values({}, {name: value}, self.limit)
            except Exception:  # noqa: BLE001 - an option can be set to anything
                version["object"] = None
        if digest != INITIAL and not version["object"]:
            version["problem"] = "cannot be put back"
        return version

    def _named_files(self, look: _Look) -> set[str]:
        """Return every text a cell has that names a file: in its code, its commands, its variables.

        Native readers, writers and programs open files that no event tells of.
        """
        texts = set(look.code.strings) if look.code is not None else set()
        if look.code is not None and look.code.attributes & _COMMANDS:
            texts.update(word for text in list(texts) for word in words_in(text))
        for name in look.bindings if look.opaque else look.reads:
            value = self.namespace.get(name)
            if isinstance(value, str):
                texts.add(value)
            elif isinstance(value, os.PathLike):
                texts.add(str(value))
        return {text for text in texts if is_plausible(text)}

    def _note_named(self, look: _Look) -> None:
        for path, before in look.named.items():
            now = version_of(path)
            if now is None and before is None:
                continue
            if now != before:
                self.watch.note_written(path)
            else:
                self.watch.note(path)

    def _note_modules(self, look: _Look) -> None:
        """Count a local module as read by whoever can reach it, also when it was cached."""
        names_read = self.tracked() if look.opaque else look.reads
        values = [self.namespace[name] for name in names_read if name in self.namespace]
        names = self._modules.behind(values) | (set(sys.modules) - look.modules)
        names |= {name.removeprefix(PREFIX) for name in look.reads if name.startswith(PREFIX)}
        for name in self._modules.with_imports(names):
            path = self._modules.path(name)
            if path is not None:
                self.watch.note(path)

    # restoring

    def restore(
        self, wanted: list[dict[str, Any]], absent: list[str], sources: dict[str, str]
    ) -> list[str]:
        """Bring variables to the versions wanted; return the digests that could not be had.

        `sources` is the code of the cells that made them, by the name it was compiled under, for
        whoever shows a line of it: tracebacks, warnings, `inspect`.
        """
        self._now = None
        for file, source in sources.items():
            lines = [line + "\n" for line in source.splitlines()]
            linecache.cache[file] = (len(source), None, lines, file)
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

        # Where modules are found comes first, then modules, then what is made of them.
        for version in sorted(wanted, key=_rank):
            if version["digest"] in waiting:
                bring(version)
        return failed

    def _bring(self, version: dict[str, Any], find: Callable[[str], Any]) -> None:
        names = tuple(version["names"])
        assert self.store is not None
        if names[0].startswith(PREFIX):
            module = names[0].removeprefix(PREFIX)
            data = version["object"] and self.store.load(self.namespace, version["object"], find)
            if not self._modules.put(module, data or None, version["digest"]):
                raise ObjectError(f"{module} cannot be brought to the state it was in")
            return
        if names[0].startswith("$"):
            value = None
            if version["object"]:
                value = self.store.load({}, version["object"], find)[names[0]]
            self.hidden.restore(names[0], value)
            return
        values = (
            dict(zip(names, [version["value"]], strict=True))
            if "value" in version
            else self.store.load(self.namespace, version["object"], find)
        )
        values = {name: values[name] for name in names}
        for name in names:
            for other in self.groups.pop(name).names if name in self.groups else ():
                self.groups.pop(other, None)
        self.namespace.update(values)
        if version.get("custom") and self._walk(names).digest() != version["digest"]:
            for name in names:
                self.namespace.pop(name, None)
            raise ObjectError(f"{', '.join(names)} came back as something else")
        group = Group(
            names=names,
            digest=version["digest"],
            own=version["own"],
            refs=frozenset(version["refs"]),
            problem=None,
            ids=None,
            holds=frozenset(version.get("holds", ())),
            object=version["object"],
        )
        for name in names:
            self.groups[name] = group


def _quick_digest(values: list[Any]) -> bytes | None:
    try:
        return hashlib.sha256(pickle.dumps(values, protocol=5)).digest()
    except Exception:  # noqa: BLE001 - then it is walked
        return None


def _rank(version: dict[str, Any]) -> int:
    name = version["names"][0]
    return 2 if name[:1] != "$" else 1 if name.startswith(PREFIX) else 0


def _pseudo_version(name: str, digest: str) -> dict[str, Any]:
    return {
        "names": [name],
        "digest": digest,
        "own": {name: digest},
        "refs": [],
        "object": None,
        "problem": None,
    }


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
