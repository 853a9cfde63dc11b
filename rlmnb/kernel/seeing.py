"""What a cell may have seen of the state that no variable holds."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rlmnb.graph.ambient import CHANCE, INITIAL, is_seen_by_all, state_of, whole
from rlmnb.kernel.codenames import CodeNames
from rlmnb.kernel.groups import Group, Groups
from rlmnb.kernel.hidden import Hidden
from rlmnb.kernel.look import COMMANDS, Look
from rlmnb.kernel.modules import PREFIX, Modules
from rlmnb.kernel.overheard import Heard
from rlmnb.kernel.settings import Found, settings_of
from rlmnb.kernel.sight import (
    CALLS,
    PROCESS,
    QUIET,
    REMEMBERS,
    UNKNOWN,
    asks_by_name,
    unseen_by,
    unseen_by_commands,
    unseen_by_imports,
    warns_when_imported,
)


@dataclass(frozen=True, slots=True)
class Unseen:
    """The state that a cell cannot have seen."""

    states: frozenset[str]
    # Of these, it has seen no other keys.
    only: Mapping[str, frozenset[str]]

    def but_for(self, state: str) -> Unseen:
        """Return this with one state that it may have seen all the same."""
        only = {each: keys for each, keys in self.only.items() if each != state}
        return Unseen(self.states - {state}, only)


class Seeing:
    """Judges what code can see by what it can reach."""

    def __init__(
        self,
        groups: Groups,
        modules: Modules,
        hidden: Hidden,
        lasting: Callable[[ast.Call], str | None],
    ) -> None:
        self._lasting = lasting
        self._groups = groups
        self._modules = modules
        self._hidden = hidden
        # What the environment was, and where modules were looked for, when each library came in.
        self._imported_under: dict[str, dict[str, str]] = {}
        # Libraries that may have warned of something as they came in.
        self._warned: set[str] = set()

    def imported(self, modules: Iterable[str], look: Look, *, warned: bool) -> None:
        """Take down under what circumstances modules were imported: they are only once."""
        if warned:
            self._warned.update(name.partition(".")[0] for name in modules)
        packages = {name.partition(".")[0] for name in modules} - self._imported_under.keys()
        if packages:
            now = {
                name: was
                for name, was in look.hidden.items()
                if was != INITIAL and state_of(name) in PROCESS
            }
            self._imported_under |= dict.fromkeys(packages, now)

    def settings(self, look: Look, now: Mapping[str, int]) -> Found:
        """Return what a cell has set before it did anything else."""
        if look.code is None or look.opaque:
            return Found()
        moved = [name for name in look.code.writes if look.bindings.get(name) != now.get(name)]
        namespace = self._groups.namespace
        shows_all = self._hidden.shows_all
        return settings_of(
            look.code.beginning, namespace, self._is_local, moved, shows_all, self._lasting
        )

    def _is_local(self, name: str) -> bool:
        return name == "." or self._modules.path(name) is not None

    def unseen(
        self,
        look: Look,
        now: Mapping[str, int],
        old: Mapping[str, Group],
        settings: Found,
        *,
        failed: bool,
        filtered: bool,
        heard: Heard,
    ) -> Unseen:
        """Return the state that a cell cannot have seen.

        `filtered`: something was about to be warned of, or filters of warnings were changed, which
        builds on those that are there. `heard`: the keys that were asked for.
        """
        if failed:
            unseen, packages = frozenset[str](), frozenset({UNKNOWN})
        else:
            unseen, packages = self._out_of_sight(look, now, old, settings)
        remembers = REMEMBERS in packages
        filtered = filtered or bool(settings.filters) or self._may_have_warned(look.code)
        unseen |= frozenset() if filtered or remembers else {"$warnings"}
        if failed or remembers or self._reaches_local_modules(look):
            heard = {}
        asked = {
            state: keys for state, keys in heard.items() if keys is not None and state not in unseen
        }
        if not self._asks_by_name(look, packages):
            asked.pop("$environ", None)
        nothing = {state for state, keys in asked.items() if not keys}
        return Unseen(unseen | nothing, {state: asked[state] for state in asked.keys() - nothing})

    def _reaches_local_modules(self, look: Look) -> bool:
        """Tell whether a cell can reach code of the user's own that may remember what it asked."""
        modules = look.code.imports if look.code is not None else frozenset()
        names = {name.removeprefix(PREFIX) for name in look.reads if name.startswith(PREFIX)}
        return any(map(self._is_local, names | modules))

    def _asks_by_name(self, look: Look, packages: frozenset[str]) -> bool:
        """Tell whether a cell asks for each variable of the environment that it looks at."""
        modules = look.code.imports if look.code is not None else frozenset()
        by_name = asks_by_name(packages) and not look.opaque and not look.may_run_commands
        return by_name and not _libraries(modules)

    def _may_have_warned(self, code: CodeNames | None) -> bool:
        """Tell whether a cell imports what may have warned of something when it was first."""
        modules = code.imports if code is not None else ()
        packages = {name.partition(".")[0] for name in modules}
        known = not packages.isdisjoint(self._warned) or warns_when_imported(modules)
        return known or any(map(self._is_local, modules))

    def _out_of_sight(
        self, look: Look, now: Mapping[str, int], old: Mapping[str, Group], settings: Found
    ) -> tuple[frozenset[str], frozenset[str]]:
        """Return the state that code cannot have seen, by the libraries it can reach, and those."""
        code = look.code
        if code is None or look.opaque or any(map(self._is_local, code.imports)):
            return frozenset(), frozenset({UNKNOWN})
        touched = [name for name in code.writes | look.reads if name in old]
        let_go = [old[name] for name in touched if look.bindings.get(name) != now.get(name)]
        shown = any(name.startswith("$shell") for name in self._hidden.leads_to)
        if settings.is_all and not shown and not any(group.has_last_words for group in let_go):
            unseen = QUIET
            if code.imports or code.beginning.shows:
                unseen = unseen_by_imports(code.imports)
            unseen = unseen - settings.sees - self._kept_by(code.beginning.looks_into)
            return unseen, frozenset()
        packages = {name.partition(".")[0] for name in code.within}
        packages |= {CALLS} if code.may_call else set()
        for name in look.reads | code.reads:
            packages |= self._packages_of(name)
            # It may mean something else by now, or nothing at all.
            packages |= {code.bound[name]} if name in code.bound else set()
            packages |= old[name].packages if name in old else set()
        for group in let_go:
            packages |= group.packages
        unseen = unseen_by(packages) & unseen_by_imports(code.imports)
        if code.attributes & COMMANDS:
            unseen &= unseen_by_commands()
        # What a cell can see may have been given something that can see more.
        while not (also := self._hidden.reached_from(unseen)) <= packages:
            packages |= also
            unseen &= unseen_by(also)
        return unseen, frozenset(packages)

    def _kept_by(self, names: Iterable[str]) -> frozenset[str]:
        """Return the state that is there to be had as attributes of modules of these names."""
        found: frozenset[str] = frozenset()
        for name in names:
            value = self._groups.namespace.get(name, sys.modules.get(name))
            module = getattr(value, "__name__", UNKNOWN)
            found |= QUIET if module in ("sys", UNKNOWN) else {"$patched", "$patched.python"}
        return found

    def _packages_of(self, name: str) -> frozenset[str]:
        """Return the libraries that whatever has a name is made with."""
        if name in self._groups.known:
            return self._groups.known[name].packages
        if name in self._groups.namespace or name not in vars(builtins):
            value = self._groups.namespace.get(name)  # the shell's own, such as `__name__`
            known = name.startswith("$") or isinstance(value, str | None)
            return frozenset() if known else frozenset({UNKNOWN})
        value = vars(builtins)[name]
        module = getattr(value, "__module__", None) or type(value).__module__
        return frozenset({str(module).partition(".")[0]})

    def seen(self, look: Look, settings: Found, unseen: Unseen) -> dict[str, Any]:
        """Return which state a cell may have read; it is told of only if it is not initial.

        Also which keys the cell had set before it could read them, and what else the state could
        have been with the same outcome.
        """
        found = {
            name: was
            for name, was in look.hidden.items()
            if was != INITIAL and is_seen_by_all(name) and state_of(name) not in unseen.states
        }
        states: dict[str, dict[str, str]] = {}
        for name, was in found.items():
            if name not in settings.keys and name in unseen.only.get(state_of(name), (name,)):
                states.setdefault(state_of(name), {})[name] = was
        sets: dict[str, list[str]] = {}
        for name in sorted(settings.keys.difference(CHANCE)):
            if state_of(name) not in unseen.states:
                sets.setdefault(state_of(name), []).append(name)
        else_read = self._first_imported_under(look, settings)
        if settings.filters:
            else_read["$warnings"] = self._hidden.filters_below(settings.filters)
        return {
            "reads": {
                state: parts[state] if state in parts else whole(parts)
                for state, parts in states.items()
            },
            **({"found": found} if found else {}),
            **({"unseen": sorted(unseen.states)} if unseen.states else {}),
            **({"only": _sorted(unseen.only)} if unseen.only else {}),
            **({"sets": sets} if sets else {}),
            **({"or_read": else_read} if else_read else {}),
        }

    def _first_imported_under(self, look: Look, settings: Found) -> dict[str, str]:
        """Return what imports saw when they were made first; made again, they see nothing."""
        if not settings.is_all or look.code is None:
            return {}
        under = [self._imported_under.get(name, {}) for name in _libraries(look.code.imports)]
        if not under or any(each != under[0] for each in under):
            return {}
        return {
            state: whole({name: was for name, was in under[0].items() if state_of(name) == state})
            for state in sorted(PROCESS)
        }


def _sorted(only: Mapping[str, frozenset[str]]) -> dict[str, list[str]]:
    return {state: sorted(keys) for state, keys in sorted(only.items())}


def _libraries(modules: Iterable[str]) -> set[str]:
    """Return the libraries among modules; to Python's own the environment makes no difference."""
    return {name.partition(".")[0] for name in modules} - sys.stdlib_module_names
