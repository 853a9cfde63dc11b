"""Around each cell: what it may touch before, what it changed after.

Code runs at full speed: nothing is traced while it runs. Before, the names in its compiled code
are followed through the functions and classes of the notebook that it can reach; afterwards only
variables that could have been touched are looked at again.
"""

from __future__ import annotations

import ast
import gc
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rlmnb.graph.ambient import CHANCE, INITIAL, WARNED, keyed, state_of
from rlmnb.kernel.beginning import does_nothing_else
from rlmnb.kernel.codenames import CodeNames, names_in
from rlmnb.kernel.databases import Databases
from rlmnb.kernel.descriptors import Descriptors
from rlmnb.kernel.groups import FIGURES, LOGGED, Groups
from rlmnb.kernel.hidden import Hidden
from rlmnb.kernel.history import is_history
from rlmnb.kernel.identity import identity
from rlmnb.kernel.imprints import ABSENT, Imprints, functions_of
from rlmnb.kernel.libraries import handed_to_logging
from rlmnb.kernel.look import Look
from rlmnb.kernel.marks import mark_for, may_stay
from rlmnb.kernel.modules import PREFIX, Modules
from rlmnb.kernel.namedfiles import NamedFiles
from rlmnb.kernel.reach import NOWHERE, Reach, code_names, follow
from rlmnb.kernel.restoring import Restoring
from rlmnb.kernel.seeding import may_seed
from rlmnb.kernel.seeing import Seeing
from rlmnb.kernel.settings import Found
from rlmnb.kernel.state import StateStore
from rlmnb.kernel.traced import history, in_place, not_set, or_alone, reads_behind, without
from rlmnb.kernel.unfound import preferred_to
from rlmnb.kernel.watch import Watch

# Names that cannot be a program's own begin with one of these: they are ours.
_RESERVED = ("$", "~", "&")
# Which warnings a cell has given: the shell takes it away before the next one.
_WARNED = "__warningregistry__"


@dataclass
class Tracker:
    """Follows one namespace from cell to cell."""

    namespace: dict[str, Any]
    store: StateStore | None
    watch: Watch
    transform: Callable[[str], str]
    hidden: Hidden = field(default_factory=Hidden)
    limit: int = 2 * 1024**3

    def __post_init__(self) -> None:
        self.modules = Modules(lambda path: self.watch.mine(path) is not None)
        own = dict(self.namespace)
        self.groups = Groups(self.namespace, self.store, self.modules, own, self.limit)
        self._descriptors = Descriptors()
        self._imprints = Imprints(
            self.groups,
            self.modules,
            self.hidden,
            self.transform,
            partial(self.closure, by_state=False),
        )
        self._seeing = Seeing(self.groups, self.modules, self.hidden, self._imprints.key_of_call)
        self._named = NamedFiles(self.namespace, self.watch)
        self._databases = Databases(self.namespace)
        self._figures = INITIAL
        self._now: dict[str, int] | None = None
        self._hidden_now: dict[str, str] | None = None
        self._own = own
        # The names seen so far, and those of them that are the user's own.
        self._seen: set[str] = set()
        self._users: set[str] = set()
        self._look: Look | None = None
        # Values that marks stand for while a cell runs.
        self._aside: dict[str, tuple[Any, Any]] = {}
        # The modules looked at, and the files of those that are no library's.
        self._imported = set(sys.modules)
        self._modules_mark = _modules_mark()
        self._sources: set[str] = set()
        # Libraries whose import has changed hidden state, and which: they do so only once.
        self._changed_by_import: dict[str, set[str]] = {}
        # Variables that may have changed while no cell ran, and those that were found to have.
        self._doubted: set[str] = set()
        self.disturbed: set[str] = set()
        # The version of its source that each local module was made of.
        self._made_of: dict[str, tuple[Any, dict[str, Any]]] = {}

    def tracked(self) -> dict[str, int]:
        """Return the user's own variables, each with the identity of its value."""
        # After every cell, with a thousand of them: as little as can be is done for each.
        found = self.namespace.copy()  # a thread may go on setting variables meanwhile
        now = dict(zip(found, map(identity, found.values()), strict=True))
        new = now.keys() - self._seen
        self._seen |= new
        self._users.update(filter(self._is_users, new))
        users = self._users
        return {name: value for name, value in now.items() if name in users} | {
            name: identity(self.namespace[name])
            for name in self._taken_over()
            if not is_history(name)
        }

    def _is_users(self, name: object) -> bool:
        """Tell whether a name can only have been given by the user's code."""
        return (
            type(name) is str
            and name not in self._own
            and name != _WARNED
            and not is_history(name)
            and name[:1] not in _RESERVED
        )

    def _taken_over(self) -> list[str]:
        """Return the names that were the shell's at the start and are the user's now."""
        return [
            name
            for name, value in self._own.items()
            if name in self.namespace and self.namespace[name] is not value and name[:1] != "_"
        ]

    # before

    def before(self, source: str, *, alone: bool = False) -> None:
        """Look at what a cell may touch, and start listening for files.

        `alone`: nobody but the cell itself can look at variables while it runs.
        """
        names = self._names(source)
        if names is not None and "__subclasses__" in names.attributes:
            gc.collect()  # classes that are gone would be among them still
        reach = self.closure(names)
        if self._doubted:
            self._look_again(reach.reads, opaque=reach.opaque)
            reach = self.closure(names)
        self._look = Look(
            reads=reach.reads,
            opaque=reach.opaque,
            # Nobody but cells sets variables; what a thread did meanwhile is put to this cell.
            bindings=self._now if self._now is not None else self.tracked(),
            hidden=self._hidden_now or self.hidden.digests(),
            code=names,
            source=source,
        )
        self._look.libraries = self._imprints.before(self._look)
        self._note_imports()
        self._named.before(self._look)
        if alone:
            self._set_aside(self._look, reach.led_to)
        self.hidden.warned.keep()
        self.hidden.warned.listen()
        if not self._looks_at_filters(self._look):
            self.hidden.filters.listen()  # otherwise it would find our filter among its own
        self._databases.listen(self._look)
        self.hidden.listeners.listen()
        self.watch.start()

    def _looks_at_filters(self, look: Look) -> bool:
        """Tell whether code that a cell can reach goes through the filters of warnings."""
        found = look.code.attributes if look.code is not None else frozenset()
        reached = (
            names_in(function.__code__).attributes
            for name in look.reads
            for function in functions_of(self.namespace.get(name))
        )
        return "filters" in found or any("filters" in each for each in reached)

    def _set_aside(self, look: Look, led_to: frozenset[str]) -> None:
        """Put marks in the place of values that the cell may replace, and never looks at.

        Set to what they were, such as the variable of a loop, they look as if they had not been.
        """
        code = look.code
        if code is None or look.opaque:
            return
        unseen = code.writes - code.sure - code.early - led_to.union(*code.dormant.values())
        for name in unseen & look.bindings.keys():
            value = self.namespace.get(name)
            if self.groups.has_last_words(name):
                continue
            if (mark := mark_for(value)) is not None:
                self._aside[name] = (mark, value)
                self.namespace[name] = mark
            elif may_stay(value):
                # While it is alive nothing else can stand in its place and look like it.
                self._aside[name] = (value, value)

    def put_back(self) -> frozenset[str]:
        """Put values back that marks stand for; return the names that were set meanwhile."""
        aside = self._aside
        left = {name for name, (mark, _) in aside.items() if self.namespace.get(name) is mark}
        self.namespace.update((name, aside[name][1]) for name in left)
        self._aside = {}  # last: an interrupt may come at any time
        return frozenset(aside.keys() - left)

    def _names(self, source: str) -> CodeNames | None:
        return code_names(source, self.transform)

    def closure(self, names: CodeNames | None, *, by_state: bool = True) -> Reach:
        """Return every name that code can read, through what it calls, and what state leads to."""
        if names is None:
            return NOWHERE
        return follow(
            names,
            self.groups.refs_of,
            self.hidden.leads_to if by_state else None,
            self.groups.has_last_words,
            lambda name: isinstance(self.namespace.get(name), str),
            self.groups.definitions,
        )

    def doubt(self) -> None:
        """Know that variables may have changed while no cell ran: a thread, a widget, a debugger.

        They are looked at again when a cell is about to read them.
        """
        self._now = self._hidden_now = None
        self._doubted = set(self.tracked())

    def _look_again(self, reads: frozenset[str], *, opaque: bool) -> None:
        now = set(self.tracked())
        names = now if opaque else now & reads
        names |= {name for name in now if name not in self.groups.known}
        for name in self.groups.known.keys() - now:
            self.groups.forget(name)
        changed = self.groups.refresh(names & self._doubted, frozenset())
        self._doubted -= names
        self.disturbed = {name for group in changed for name in group.names}

    # after

    def after(self, *, failed: bool) -> dict[str, Any]:
        """Return the trace of the cell that has just run."""
        look, self._look = self._look, None
        assert look is not None
        self.watch.stop()
        heard, asked = self.hidden.listeners.heard(), self._databases.only_asked(look)
        if "subprocess" in self.watch.flags:
            heard["$environ"] = None  # another program was given all of it
        forked = self.hidden.listeners.forked
        self.watch.flags |= {"fork"} if forked else set()
        warned = self.hidden.filters.were_asked() or forked
        look.replaced = self.put_back()
        now = self._now = self.tracked()
        left = not_set(look, now) - look.reads if failed else frozenset()
        look.reads |= left
        reads = self._read_digests(look)
        if not look.inert:
            self.hidden.warned.look()
            self.groups.logged = handed_to_logging()
            names = look.code.attributes if look.code is not None else ()
            self._descriptors.note(names, opened=self.watch.by_number)
            self.groups.descriptors = self._descriptors.now()
        changed, loosened = self._changed_names(look, now)
        changed -= {each for each in asked if self.groups.is_alone(each)}
        deleted = sorted(name for name in look.bindings if name not in now)
        old = dict(self.groups.known)
        looked_at = self._look_at_modules(look)
        for name in deleted:
            self.groups.forget(name)
        # Setting a variable to what it was is still setting it: the cell would do so again.
        set_anew = self._set_anew(look, now, failed=failed)
        if not look.opaque:  # whoever is may have looked at them before, by names that are not seen
            reads = without(set_anew, reads, old)
        found = self.groups.refresh((changed | loosened) & set(now), set_anew & set(now))
        versions = [each for each in found if not loosened.issuperset(each.names)]
        reads |= reads_behind(versions, look, now, old, set_anew)
        self._imprints.after(look)
        hidden_values = {} if look.inert else self.hidden.values()
        hidden_now = look.hidden if look.inert else self.hidden.digests(hidden_values)
        if hidden_now != look.hidden:
            self.hidden.follow(hidden_values)
        self._hidden_now = hidden_now
        given = self._given(look, hidden_now)
        writes = [version.as_dict() for version in versions]
        writes += [self._module_version(name) for name in looked_at]
        writes += self._figures_version(look)
        self._seeing.imported(self._new_modules(), look, warned=warned)
        settings = Found() if failed else self._seeing.settings(look, now)
        writes += self._hidden_versions(look, hidden_now, hidden_values, settings)
        for name in CHANCE:
            seeded = name in settings.keys
            if not seeded and any(version["names"] == [name] for version in writes):
                reads[name] = look.hidden[name]
        filtered = warned or hidden_now["$warnings"] != look.hidden["$warnings"]
        unseen = self._seeing.unseen(
            look, now, old, settings, failed=failed, filtered=filtered, heard=heard
        )
        if self._figures != INITIAL:
            unseen = unseen.but_for("$matplotlib")  # open figures may be shown after any cell
        self._named.after(look)
        self._note_modules(look)
        self._note_imports()
        if self.store is not None:
            for path in self.watch.written:
                self.store.keep_file(path)
        ambient = self._seeing.seen(look, settings, unseen)
        or_read = or_alone(reads, old, set_anew) | ambient.pop("or_read", {})
        if again := {name: was for name, was in given.items() if was != INITIAL}:
            ambient["found"] = ambient.get("found", {}) | again
        self.hidden.warned.keep()
        return {
            "reads": reads | ambient.pop("reads") | given,
            **({"or_read": or_read} if or_read else {}),
            "writes": writes,
            "loosened": [
                {
                    "version": each.as_dict(),
                    "reads": reads_behind([each], look, now, old, set_anew),
                }
                for each in found
                if loosened.issuperset(each.names)
            ],
            "deleted": deleted,
            "opaque": look.opaque,
            **history(look),
            **ambient,
            "failed": failed,
            **({"left": sorted(left)} if left else {}),
            **({"around": sorted(look.bindings)} if look.opaque else {}),
            **in_place(look, now, versions),
            **self.watch.report(),
        }

    def _given(self, look: Look, now: dict[str, str]) -> dict[str, str]:
        """Return the warnings that a cell would have given if they had been given before or not."""
        if look.inert:
            return {}
        heard = {keyed(WARNED, each) for each in self.hidden.warned.heard()}
        given = {name for name in now.keys() - look.hidden.keys() if state_of(name) == WARNED}
        return {name: look.hidden.get(name, INITIAL) for name in heard | given}

    def _set_anew(self, look: Look, now: dict[str, int], *, failed: bool) -> frozenset[str]:
        """Return the names that a cell has set without looking at what they were."""
        code = look.code
        if code is None:
            return frozenset()
        led_to = {ref for name in look.reads for ref in self.groups.refs_of(name)}
        candidates = (code.writes - code.early - led_to) | self._starred(code)
        bound = {name for name in candidates if look.bindings.get(name) != now.get(name)}
        bound |= candidates & look.replaced
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

    def _read_digests(self, look: Look) -> dict[str, str]:
        names = set(look.reads) | (set(look.bindings) if look.opaque else set())
        found: dict[str, str] = {}
        together: dict[str, list[str]] = {}
        for name in sorted(names):
            if name.startswith(PREFIX):
                seen = self.modules.known.get(name.removeprefix(PREFIX))
                if seen is not None or self.modules.path(name.removeprefix(PREFIX)):
                    found[name] = seen.digest if seen is not None else INITIAL
            elif name == FIGURES:
                found[name] = self._figures
            group = self.groups.known.get(name)
            if is_history(name) or name.startswith("$") or (group is None and name in self._own):
                continue
            found[name] = group.own[name] if group else ABSENT
            if group is not None and len(group.names) > 1:
                together.setdefault(group.digest, []).append(name)
        for key, members in together.items():
            if len(members) > 1:
                found["&" + "&".join(members)] = key
        return found

    def _changed_names(self, look: Look, now: dict[str, int]) -> tuple[set[str], set[str]]:
        """Return the names whose value may have changed: touched, rebound or new.

        Apart from them, those that are loosened from what they were tied to: they hold a function
        or class that has lost its name, or share objects with what another variable was. In a
        kernel that stays, they may be left from cells below.
        """
        before = look.bindings
        rebound = {name for name, _ in now.items() - before.items()}
        if look.code is not None:
            # An object may stand where another stood that was let go before it was made.
            rebound |= {name for name in look.code.writes if name in now}
        touched = set(before) if look.opaque else {name for name in look.reads if name in before}
        if self.groups.logged and not look.inert and not self._only_defines(look):
            known = self.groups.known.items()
            touched |= {name for name, group in known if group.problem == LOGGED}
        moved = rebound | {name for name in before if name not in now}
        changed = touched | self._with_mates(touched) | rebound
        holders = {
            name
            for name, group in self.groups.known.items()
            if group.holds and not group.holds.isdisjoint(moved)
        }
        return changed, self._with_mates(holders | moved).union(holders) - changed - moved

    def _only_defines(self, look: Look) -> bool:
        """Tell whether a cell only gives names to constants, functions, classes, known modules."""
        code = look.code
        if code is None or look.opaque or any(map(self.groups.has_last_words, code.writes)):
            return False
        return (
            code.beginning.is_all
            and code.imports <= self._imported
            and not any(self.modules.path(name) for name in code.imports)
            and all(
                isinstance(each, ast.Import | ast.ImportFrom) or does_nothing_else(each)
                for each in code.beginning.statements
            )
        )

    def _with_mates(self, names: set[str]) -> set[str]:
        known = self.groups.known
        return {mate for name in names if name in known for mate in known[name].names}

    def _value(self, name: str) -> Any:
        """Return what a name, or the pseudo-variable of a local module, stands for."""
        if name.startswith(PREFIX):
            return sys.modules.get(name.removeprefix(PREFIX))
        return self.namespace.get(name)

    # modules and libraries

    def _look_at_modules(self, look: Look) -> list[str]:
        """Look at the local modules a cell could reach; return those that are not as before."""
        names = {name.removeprefix(PREFIX) for name in look.reads if name.startswith(PREFIX)}
        if look.opaque:
            names |= set(self.modules.known)
        names |= self.modules.with_imports(set(self._new_modules()))
        changed = []
        for name in sorted(names):
            if self.modules.path(name) is None:
                continue
            seen = self.modules.look(name)
            before = self.modules.known.get(name)
            self.modules.known[name] = seen
            if before is None or before.digest != seen.digest:
                changed.append(name)
        return changed

    def _module_version(self, name: str) -> dict[str, Any]:
        seen = self.modules.known[name]
        version = pseudo_version(PREFIX + name, seen.digest)
        version["refs"] = sorted(self.modules.refs([name]) - {PREFIX + name})
        if any(
            group.ids and not group.ids.isdisjoint(seen.ids) for group in self.groups.known.values()
        ):
            version["problem"] = "shares objects with variables"
        elif self.store is not None:
            try:
                data = self.modules.data(name)
                version["object"] = self.store.save_values(self.namespace, data, self.limit)
            except Exception:  # noqa: BLE001 - a module can hold anything
                # What it is right after its import needs nothing else; any other state will be
                # found not to be there, and made again.
                version["object"] = None
        return version

    def _figures_version(self, look: Look) -> list[dict[str, Any]]:
        """Tell of figures that stay open from cell to cell: whoever draws may change them."""
        if FIGURES not in look.reads and not look.opaque and "matplotlib" in self._imported:
            return []
        drawing = sys.modules.get("matplotlib._pylab_helpers")
        now = self.groups.token() if drawing is not None and drawing.Gcf.figs else INITIAL
        if now == self._figures:
            return []
        self._figures = now
        version = pseudo_version(FIGURES, now)
        version["problem"] = None if now == INITIAL else "open figures"
        return [version]

    def _hidden_versions(
        self, look: Look, now: dict[str, str], values: dict[str, Any], settings: Found
    ) -> list[dict[str, Any]]:
        """Tell of the state that a cell has changed, or has set to what it was."""
        found = []
        for name in sorted(look.hidden.keys() | now.keys() | settings.keys):
            was, left = look.hidden.get(name, INITIAL), now.get(name, INITIAL)
            if left != was and name not in CHANCE:
                for module in {name.partition(".")[0] for name in self._new_modules()}:
                    self._changed_by_import.setdefault(module, set()).add(name)
            # Setting a generator to where it was is still setting it; if the cell did not, then
            # it leaves what it found.
            seeded = name in CHANCE and was != INITIAL
            if (
                left != was
                or name in settings.keys
                or (name == "$warnings" and settings.filters)
                or (seeded and may_seed(look.reads, look.code, self._value))
            ):
                found.append(self._hidden_version(name, left, values.get(name)))
        return found

    def _hidden_version(self, name: str, now: str, value: Any) -> dict[str, Any]:
        version = pseudo_version(name, now)
        version["refs"] = sorted(self.hidden.leads_to.get(name, ()))
        if self.store is not None and value is not None and self.hidden.can_restore(name):
            try:
                version["object"] = self.store.save_values(
                    self.namespace, {name: value}, self.limit
                )
            except Exception:  # noqa: BLE001 - an option can be set to anything
                version["object"] = None
        if now != INITIAL and not version["object"]:
            version["problem"] = "cannot be put back"
        return version

    def _note_modules(self, look: Look) -> None:
        """Count a local module as read by whoever can reach it, also when it was cached."""
        names_read = self.tracked() if look.opaque else look.reads
        values = [self.namespace[name] for name in names_read if name in self.namespace]
        names = self.modules.behind(values) | self._new_modules()
        names |= {name.removeprefix(PREFIX) for name in look.reads if name.startswith(PREFIX)}
        for name in self.modules.with_imports(names):
            path = self.modules.path(name)
            if path is not None:
                self.watch.note(path)
                self.watch.note_missing(preferred_to(path))
                self._note_version(name, path)

    def _note_version(self, name: str, path: str) -> None:
        """Count as read what a module was made of: its source may have been edited since."""
        full = self.watch.mine(path)
        if full is None or full not in self.watch.read:
            return
        spec = getattr(sys.modules.get(name), "__spec__", None)  # a reload makes another one
        known = self._made_of.get(full)
        if known is not None and known[0] is spec:
            if known[1]["hash"] != self.watch.read[full]["hash"]:
                # It was written anew since: what is in the module is what counts, not the file.
                del self.watch.read[full]
        else:
            self._made_of[full] = (spec, self.watch.read[full])

    def remove(self, names: list[str]) -> None:
        """Take variables away that are left from cells further down."""
        known = self.groups.known
        if any(name not in known or known[name].has_last_words for name in names):
            self._now = self._hidden_now = None  # who knows what else that changes
        Restoring(self.groups, self.hidden).remove(names)
        if self._now is not None:
            self._now = {name: each for name, each in self._now.items() if name not in names}

    def restore(
        self, wanted: list[dict[str, Any]], absent: list[str], sources: dict[str, str]
    ) -> dict[str, list[str]]:
        """Bring variables to the versions wanted; return what could not be had, or is outdated."""
        self._now = self._hidden_now = None
        found = Restoring(self.groups, self.hidden).restore(wanted, absent, sources)
        self.hidden.warned.keep()
        self._note_imports()
        return found

    # between replays

    def _new_modules(self) -> frozenset[str]:
        """Return the modules that were imported since they were last counted."""
        if self._modules_mark == _modules_mark():
            return frozenset()
        return frozenset(sys.modules.keys() - self._imported)

    def _note_imports(self) -> None:
        """Count the modules there are, and take down which files the local ones came from."""
        if self._modules_mark == _modules_mark():
            return
        for name in self._new_modules():
            if (path := self.modules.path(name)) is not None:
                self._sources.add(path)
        self._imported = set(sys.modules)
        self._modules_mark = _modules_mark()

    def holdings(self) -> dict[str, str]:
        """Return the version of each variable, module and piece of hidden state."""
        held = {name: group.digest for name, group in self.groups.known.items()}
        held |= {PREFIX + name: seen.digest for name, seen in self.modules.known.items()}
        held |= {name: now for name, now in self.hidden.digests().items() if now != INITIAL}
        unknown = self.tracked().keys() - held.keys()
        return held | dict.fromkeys(unknown, "unknown")

    def digests(self) -> set[str]:
        """Return the digests of all variables, alone and as they share objects."""
        known = self.groups.known.values()
        return {each for group in known for each in (group.digest, *group.own.values())}

    def once_only(self) -> dict[str, list[str]]:
        """Return the libraries whose import has changed hidden state, and would not again."""
        return {name: sorted(changed) for name, changed in self._changed_by_import.items()}

    def soiled(self) -> str | None:
        """Say what cannot be put back to how a new kernel would have it, None if all can be."""
        for path in self._sources:
            # What it was right after its import, nobody has seen.
            return f"{path} was imported"
        for name, now in self.hidden.digests().items():
            if now != INITIAL and not self.hidden.can_restore(name):
                return f"{name} was changed"
        return "figures are open" if self._figures != INITIAL else None


def _modules_mark() -> tuple[int, str]:
    """Tell cheaply whether modules have come or gone: there are a thousand of them."""
    return len(sys.modules), next(reversed(sys.modules))


def pseudo_version(name: str, now: str) -> dict[str, Any]:
    """Return the version of something that is no variable, not stored yet."""
    return {
        "names": [name],
        "digest": now,
        "own": {name: now},
        "refs": [],
        "object": None,
        "problem": None,
    }
