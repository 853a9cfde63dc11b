"""Which warnings libraries have given already: most are given once for each place they come from.

What has been given is kept in a dictionary of the module at fault, by its text, kind and line. It
is forgotten as soon as any code changes the filters of warnings, as many libraries do for a moment.
"""

from __future__ import annotations

import importlib
import sys
import types
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rlmnb.digest import of_text

_REGISTRY, _VERSION = "__warningregistry__", "version"
Given = dict[str, list[Any]]
_Registry = tuple[str, dict[Any, Any]]


class _Probe(Warning):
    """Given to nobody, to see which version of the filters is in force."""


class _Text(str):
    """A warning's text that knows whether somebody has asked for it."""

    asked = False

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        # Python compares it with what it is about to warn of, and will not if they are equal.
        same = str.__eq__(self, other)
        if same is True:
            self.asked = True
        return same

    def __ne__(self, other: object) -> bool:
        return str.__ne__(self, other)

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str(self),)


class Warned:
    """Follows what has been given in this kernel."""

    def __init__(self) -> None:
        self._at_start: set[str] = set()
        self._now: Given = {}
        self._found: list[_Registry] = []
        self._valid: Any = None
        # Those that are listened for.
        self._marked: dict[str, _Text] = {}
        self.look()
        self._at_start, self._now = set(self._now), {}

    def look(self) -> None:
        """See what has been given up to now."""
        self._found = _registries()
        self._valid = _version_in_force() if self._found else None
        given = {name: place for name, place, _ in self._given()}
        self._now = {name: place for name, place in given.items() if name not in self._at_start}

    def now(self) -> Given | None:
        """Return what had been given when it was last looked at."""
        return self._now or None

    def keep(self) -> None:
        """Let nothing be forgotten by what was done since: that was ours, not the cell's."""
        if self._now and (now := _version_in_force()) != self._valid:
            for _, registry in self._found:
                if registry.get(_VERSION) == self._valid:
                    registry[_VERSION] = now
            self._valid = now

    def listen(self) -> None:
        """Find out from now on which of what has been given would have been given again."""
        self._marked = {}
        for name, (_, text, kind, line), registry in list(self._given()) if self._now else ():
            if name in self._now:
                marked = self._marked[name] = _Text(text)
                # A key that is there stays as it is: it goes, and comes anew.
                del registry[text, kind, line]
                registry[marked, kind, line] = True

    def heard(self) -> set[str]:
        """Return which of them were asked for."""
        return {name for name, marked in self._marked.items() if marked.asked}

    def restore(self, wanted: Given | None) -> None:
        """Have given these, and nothing else."""
        self.look()
        for name, (_, text, kind, line), registry in list(self._given()):
            if name not in self._at_start and name not in (wanted or {}):
                del registry[text, kind, line]
        places = [(_imported(module), *key) for module, *key in (wanted or {}).values()]
        version = _version_in_force() if wanted else None
        for module, text, kind, line in places:
            if module is None:
                continue  # nor can it warn
            registry = vars(module).setdefault(_REGISTRY, {})
            if registry.get(_VERSION) != version:
                registry.clear()
                registry[_VERSION] = version
            registry[text, kind, line] = True
        self.look()

    def _given(self) -> Iterator[tuple[str, list[Any], dict[Any, Any]]]:
        for module, registry in self._found:
            if registry.get(_VERSION) != self._valid:
                continue  # forgotten
            for key in registry:
                if isinstance(key, tuple) and len(key) == 3:
                    text, kind, line = key
                    yield _name(module, text, kind, line), [module, str(text), kind, line], registry


def _name(module: str, text: str, kind: type, line: int) -> str:
    """Return the name of a warning, without its text: that may tell what is nobody's business."""
    return f"{kind.__name__} of {module}, line {line} #{of_text(str(text))[7:15]}"


def _imported(module: str) -> types.ModuleType | None:
    try:
        return importlib.import_module(module)
    except Exception:  # noqa: BLE001 - a module can raise anything
        return None


def _registries() -> list[_Registry]:
    """Return what each module has that was given, but for the cells' own."""
    found = []
    for name, module in sys.modules.copy().items():
        # Asked in the usual way, a module that is loaded when it is needed would be loaded.
        known = (
            module.__dict__
            if type(module) is types.ModuleType
            else object.__getattribute__(module, "__dict__")
            if isinstance(module, types.ModuleType)
            else {}
        )
        if _REGISTRY in known and name != "__main__" and len(known[_REGISTRY]) > 1:
            found.append((name, known[_REGISTRY]))
    return found


def _version_in_force() -> Any:
    """Return the version of the filters; only a warning that is being given tells it."""
    probe: dict[Any, Any] = {}
    try:
        with silenced():
            warnings.warn_explicit("", _Probe, "", 0, registry=probe)
    except _Probe:
        pass  # the filters make errors of warnings
    finally:
        getattr(warnings, "onceregistry", {}).pop(("", _Probe), None)
    return probe.get(_VERSION)


@contextmanager
def silenced() -> Iterator[None]:
    """Keep warnings that looking at code or objects gives rise to away from the user."""
    # `catch_warnings` would make every module warn anew of what it has warned of already, and
    # `showwarning` is what people set themselves.
    module: Any = warnings
    shown = module._showwarnmsg
    module._showwarnmsg = lambda *_: None
    try:
        yield
    finally:
        module._showwarnmsg = shown
