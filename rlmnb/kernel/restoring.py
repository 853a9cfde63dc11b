"""Bringing variables, modules and hidden state back to versions they were in."""

from __future__ import annotations

import importlib
import linecache
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rlmnb.errors import ObjectError, RlmnbError
from rlmnb.kernel.classes import forget_registered
from rlmnb.kernel.groups import Group, Groups
from rlmnb.kernel.hidden import Hidden
from rlmnb.kernel.modules import PREFIX
from rlmnb.kernel.sight import UNKNOWN


@dataclass
class Restoring:
    """Puts stored versions back into a namespace."""

    groups: Groups
    hidden: Hidden

    def restore(
        self, wanted: list[dict[str, Any]], absent: list[str], sources: dict[str, str]
    ) -> dict[str, list[str]]:
        """Bring variables to the versions wanted; return the digests that could not be had.

        Also return the variables that hold a function or class which was replaced by another of
        its name: they are not what they were. `sources` is the code of the cells that made what is
        wanted, by the name it was compiled under, for whoever shows a line of it: tracebacks,
        warnings, `inspect`.
        """
        for file, source in sources.items():
            lines = [line + "\n" for line in source.splitlines()]
            linecache.cache[file] = (len(source), None, lines, file)
        self.remove(absent)
        brought = {name for version in wanted for name in version["names"]}
        outdated = self._holders({name for name in brought if name in self.groups.known}) - brought
        waiting = {_key(version) for version in wanted}
        failed: list[str] = []
        by_name = {name: version for version in wanted for name in version["names"]}

        def find(name: str) -> Any:
            version = by_name.get(name)
            if version is not None and _key(version) in waiting:
                bring(version)
            return self.groups.namespace[name]

        def bring(version: dict[str, Any]) -> None:
            waiting.discard(_key(version))
            try:
                self._bring(version, find)
            except (RlmnbError, Exception):  # noqa: BLE001 - unpickling runs the user's code
                failed.append(version["digest"])

        # Where modules are found comes first, then modules, then what is made of them.
        for version in sorted(wanted, key=_rank):
            if _key(version) in waiting:
                bring(version)
        if outdated:
            self.groups.refresh(outdated, frozenset())
        return {"failed": failed, "outdated": sorted(outdated)}

    def remove(self, names: list[str]) -> None:
        """Take variables away."""
        for name in names:
            self.groups.namespace.pop(name, None)
            self.groups.part(name)

    def _holders(self, names: set[str]) -> set[str]:
        """Return what holds a function or class of these names, or something that does."""
        found: set[str] = set()
        while names:
            names = {
                name
                for name, group in self.groups.known.items()
                if name not in found and not group.holds.isdisjoint(names)
            }
            found |= names
        return found

    def _bring(self, version: dict[str, Any], find: Callable[[str], Any]) -> None:
        names = tuple(version["names"])
        assert self.groups.store is not None
        if names[0].startswith(PREFIX):
            module = names[0].removeprefix(PREFIX)
            data = version["object"] and self.groups.store.load(
                self.groups.namespace, version["object"], find
            )
            # A package holds those of its modules that were imported by then.
            inner = [ref for ref in version["refs"] if ref.startswith(names[0] + ".")]
            for ref in inner:
                importlib.import_module(ref.removeprefix(PREFIX))
            if not self.groups.modules.put(module, data or None, version["digest"]):
                raise ObjectError(f"{module} cannot be brought to the state it was in")
            return
        if names[0].startswith("$"):
            value = None
            if version["object"]:
                found = self.groups.store.load(self.groups.namespace, version["object"], find)
                value = found[names[0]]
            self.hidden.restore(names[0], value)
            return
        for name in names:
            if isinstance(known := self.groups.namespace.get(name), type):
                forget_registered(known)
        values = (
            dict(zip(names, [version["value"]], strict=True))
            if "value" in version
            else self.groups.store.load(self.groups.namespace, version["object"], find)
        )
        values = {name: values[name] for name in names}
        for name in names:
            self.groups.part(name)
        self.groups.namespace.update(values)
        if version.get("custom") and self.groups.walk(names).digest() != version["digest"]:
            for name in names:
                self.groups.namespace.pop(name, None)
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
            has_last_words=bool(version.get("last_words")),
            packages=frozenset(version.get("packages", [UNKNOWN])),
        )
        for name in names:
            self.groups.known[name] = group


def _key(version: dict[str, Any]) -> tuple[str, str]:
    """Tell versions apart: two pieces of hidden state have one digest while they are untouched."""
    return version["digest"], version["names"][0]


def _rank(version: dict[str, Any]) -> int:
    name = version["names"][0]
    return 2 if name[:1] != "$" else 1 if name.startswith(PREFIX) else 0
