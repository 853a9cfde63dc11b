"""Variables in groups: those that share mutable objects belong together, in memory and on disk."""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from rlmnb.digest import of_rest
from rlmnb.kernel.canonical import Walk
from rlmnb.kernel.descriptors import has_any
from rlmnb.kernel.history import is_history
from rlmnb.kernel.modules import PREFIX, Modules
from rlmnb.kernel.sight import DEFINES, telling
from rlmnb.kernel.state import StateStore

FIGURES = "$figures"
# Stored apart from the handler, it would come back as something that nobody logs into.
LOGGED = "logging writes into it"
_MANY = 1000


@dataclass(frozen=True)
class Group:
    """Variables that share mutable objects, and what is known of their present value."""

    names: tuple[str, ...]
    digest: str
    own: dict[str, str]
    refs: frozenset[str]
    problem: str | None
    ids: frozenset[int] | None
    lent: frozenset[int] = frozenset()
    # Functions and classes that it holds itself, which are stored under their own names.
    holds: frozenset[str] = frozenset()
    # The digest of its pickle, where that is enough to see that nothing changed.
    quick: bytes | None = None
    custom: bool = False
    object: str | None = None
    # The libraries that it is made with, as far as they look at anything.
    packages: frozenset[str] = frozenset()
    # It does something when it is let go.
    has_last_words: bool = False

    def shares(self, ids: set[int], lent: set[int]) -> bool:
        """Tell whether it has an object that others have, too, and one of them could change."""
        if not self.ids:
            return False
        strongly = not self.ids.isdisjoint(ids) or not self.ids.isdisjoint(lent)
        return strongly or not self.lent.isdisjoint(ids)

    def as_dict(self) -> dict[str, Any]:
        """Return the version for the record."""
        return {
            "names": list(self.names),
            "digest": self.digest,
            "own": self.own,
            "refs": sorted(self.refs),
            **({"holds": sorted(self.holds)} if self.holds else {}),
            **({"custom": True} if self.custom else {}),
            **({"last_words": True} if self.has_last_words else {}),
            "packages": sorted(self.packages),
            "object": self.object,
            "problem": self.problem,
        }


@dataclass
class Groups:
    """The groups of one namespace, as they were when each was last looked at."""

    namespace: dict[str, Any]
    store: StateStore | None
    modules: Modules
    # What the shell had put into the namespace before the user came.
    own: dict[str, Any]
    # The most bytes that variables which belong together may take in the store.
    limit: int
    known: dict[str, Group] = field(default_factory=dict)
    # The identities of what handlers of the library `logging` write into.
    logged: frozenset[int] = frozenset()
    # The numbers by which programs know files that are open.
    descriptors: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        self._run = os.urandom(6).hex()
        self._count = 0

    def token(self) -> str:
        """Return something no other value's digest has in it."""
        self._count += 1
        return f"{self._run}:{self._count}"

    def refs_of(self, name: str) -> Iterable[str]:
        """Return the names that a variable or a module leads to."""
        if name.startswith(PREFIX):
            return self.modules.refs([name.removeprefix(PREFIX)])
        group = self.known.get(name)
        return group.refs if group is not None else ()

    def has_last_words(self, name: str) -> bool:
        """Tell whether a variable's value does something when it is let go."""
        group = self.known.get(name)
        return group is not None and group.has_last_words

    def is_alone(self, name: str) -> bool:
        """Tell whether a variable shares nothing with any other."""
        group = self.known.get(name)
        return group is not None and group.names == (name,)

    def definitions(self) -> list[str]:
        """Return the variables that hold functions or classes of the notebook's own."""
        return [name for name, group in self.known.items() if DEFINES in group.packages]

    def forget(self, name: str) -> None:
        """Take a variable out that is no more."""
        group = self.known.pop(name, None)
        if group is None or len(group.names) == 1:
            return
        # What is left of the group has other members now.
        for other in group.names:
            self.known.pop(other, None)

    def part(self, name: str) -> None:
        """Take a variable out that is about to be another value; the others stay what they are."""
        group = self.known.pop(name, None)
        left = tuple(each for each in group.names if each != name) if group is not None else ()
        if group is None or not left:
            return
        rest = replace(
            group,
            names=left,
            digest=of_rest(group.digest, left),
            own={each: group.own[each] for each in left},
            quick=None,
            object=None,
        )
        for each in left:
            self.known[each] = rest

    def walk(self, names: Iterable[str]) -> Walk:
        """Look through some variables together."""
        walk = Walk(self.namespace, self.token)
        for name in names:
            walk.variable(name)
            if self.descriptors and has_any(self.namespace[name], self.descriptors):
                walk.give_up("the number of an open file")
        walk.drop_passing()
        return walk

    def refresh(self, names: set[str], set_anew: frozenset[str]) -> list[Group]:
        """Look at these variables again; return the groups that were set or have changed."""
        names = names | set_anew
        names -= self._surely_unchanged(names - set_anew)
        walks = {name: self.walk([name]) for name in sorted(names)}
        objects = set().union(*(walk.ids for walk in walks.values()))
        lent = set().union(*(walk.lent for walk in walks.values()))
        for name, group in list(self.known.items()) if objects else ():
            if name not in walks and group.shares(objects, lent):
                walks |= {each: self.walk([each]) for each in group.names if each not in walks}
        found = []
        for members in _partition(walks):
            new = self._group(members, walks)
            old = self.known.get(members[0])
            if old is not None and old.names == new.names and old.digest == new.digest:
                new = Group(**{**new.__dict__, "object": old.object, "problem": old.problem})
                for name in members:
                    self.known[name] = new
                if set_anew & set(members):
                    found.append(new)
                continue
            new = self._stored(new)
            for name in members:
                self.known[name] = new
            found.append(new)
        return found

    def _surely_unchanged(self, names: set[str]) -> set[str]:
        """Return which large variables are what they were, by the digest of their pickle.

        Pickling plain data takes a tenth of the time of a walk. Its bytes say nothing across
        processes, but the same objects in the same process give the same bytes.
        """
        found: set[str] = set()
        for name in names:
            group = self.known.get(name)
            if group is not None and group.quick is not None and name not in found:
                values = [self.namespace.get(each) for each in group.names]
                if _quick_digest(values) == group.quick:
                    found.update(group.names)
        return found

    def _group(self, members: tuple[str, ...], walks: dict[str, Walk]) -> Group:
        walk = walks[members[0]] if len(members) == 1 else self.walk(members)
        sharing = [
            name for name, seen in self.modules.known.items() if not seen.ids.isdisjoint(walk.ids)
        ]
        problem = f"shares objects with the module {sharing[0]}" if sharing else None
        if not self.logged.isdisjoint(walk.ids):
            problem = LOGGED
        return Group(
            names=members,
            digest=walk.digest(),
            own={name: walks[name].digest() for name in members},
            refs=frozenset(self._kept_refs(walk.refs)).union(PREFIX + name for name in sharing),
            problem=LOGGED if problem == LOGGED else walk.problem or problem,
            ids=frozenset().union(*(walks[name].ids for name in members)),
            lent=frozenset().union(*(walks[name].lent for name in members)),
            holds=frozenset(walk.held),
            custom=walk.custom,
            packages=telling(walk.packages),
            has_last_words=walk.has_last_words,
            quick=(
                _quick_digest([self.namespace[name] for name in members])
                if walk.plain and len(walk.ids) > _MANY and walk.problem is None
                else None
            ),
        )

    def _kept_refs(self, refs: set[str]) -> set[str]:
        """Return the references that lead to something with a state: variables, local modules."""
        kept = {ref for ref in refs if not ref.startswith("$")}
        kept -= {
            ref for ref in kept if ref in self.own and ref not in self.known and not is_history(ref)
        }
        modules = [ref[1:] for ref in refs if ref.startswith("$")]
        if any(name.partition(".")[0] == "matplotlib" for name in modules):
            kept.add(FIGURES)
        return kept | self.modules.refs(modules)

    def _stored(self, group: Group) -> Group:
        if group.problem is not None or self.store is None:
            return group
        try:
            name = self.store.save(self.namespace, group.names, self.limit)
        except Exception as error:  # noqa: BLE001 - a class may raise anything when pickled
            return Group(**{**group.__dict__, "problem": f"cannot be stored: {error}"[:200]})
        problem = None if name is not None else "too large to store"
        return Group(**{**group.__dict__, "object": name, "problem": problem})


def _quick_digest(values: list[Any]) -> bytes | None:
    try:
        return hashlib.sha256(pickle.dumps(values, protocol=5)).digest()
    except Exception:  # noqa: BLE001 - then it is walked
        return None


def _partition(walks: dict[str, Walk]) -> list[tuple[str, ...]]:
    """Put names that share an object together."""
    parent = {name: name for name in walks}

    def root(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    holder: dict[int, str] = {}
    for name, walk in walks.items():
        for each in walk.ids:
            if each in holder:
                parent[root(name)] = root(holder[each])
            else:
                holder[each] = name
    for name, walk in walks.items():
        for each in walk.lent & holder.keys():
            parent[root(name)] = root(holder[each])
    groups: dict[str, list[str]] = {}
    for name in walks:
        groups.setdefault(root(name), []).append(name)
    return [tuple(sorted(members)) for members in groups.values()]
