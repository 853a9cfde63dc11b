"""What a kernel has under each name, and which names share objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping


class Holdings(MutableMapping[str, str]):
    """The version of each name. Names of one version are a group: they share objects."""

    def __init__(self, known: Mapping[str, str] | None = None) -> None:
        self._versions: dict[str, str] = {}
        self._groups: dict[str, set[str]] = {}
        # State that nobody has named; there is little of it, however many variables there are.
        self.hidden: set[str] = set()
        self.update(known or {})

    def __getitem__(self, name: str) -> str:
        return self._versions[name]

    def __setitem__(self, name: str, version: str) -> None:
        self._leave(name)
        self._versions[name] = version
        self._groups.setdefault(version, set()).add(name)
        if name.startswith("$"):
            self.hidden.add(name)

    def __delitem__(self, name: str) -> None:
        self._leave(name)
        del self._versions[name]
        self.hidden.discard(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._versions)

    def __len__(self) -> int:
        return len(self._versions)

    def _leave(self, name: str) -> None:
        version = self._versions.get(name)
        if version is not None:
            self._groups[version].discard(name)
            if not self._groups[version]:
                del self._groups[version]

    def mates(self, names: Iterable[str]) -> set[str]:
        """Return the names that are in one group with any of these, without these."""
        found: set[str] = set()
        for name in names:
            if name in self._versions:
                found |= self._groups[self._versions[name]]
        return found.difference(names)
