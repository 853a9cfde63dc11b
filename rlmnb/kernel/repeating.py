"""A cell that is run once more, and does nothing new to state that is there already.

A header that imports a local module, sets up logging or chooses a style finds all of that done
when it is edited and run again, and what cells below have set besides. If it does the same as it
did when none of that was there, and leaves the same, then a full run would leave it, too.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlmnb.graph.ambient import CHANCE, INITIAL, is_seen_by_all, state_of
from rlmnb.kernel.beginning import does_nothing_else
from rlmnb.kernel.modules import PREFIX

Run = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Doing:
    """What the code of a cell does: its imports, and all else but constants and definitions."""

    imports: frozenset[str]
    rest: tuple[str, ...]


def as_first_run(code: str, run: dict[str, Any], before: str, first: Run) -> dict[str, Any]:
    """Return a run with what state it could have found as well, and the state that it left so.

    `code` and `before` are what IPython made of the cell, now and then.
    """
    if not _did_the_same(code, run, before, first):
        return run
    left, also = _state_left(first), _state_left(run)
    could_be, writes = dict(run.get("or_read", {})), list(run["writes"])
    states = {state_of(name) for name in (*run["reads"], *left) if name[:1] == "$"}
    for state in sorted(states.difference(CHANCE)):
        keys, new = left.get(state, {}), also.get(state, {})
        if _was_initial(first, state) and _is_as_left(_found(run, state), keys, new):
            could_be[state] = INITIAL
            writes += [keys[key] for key in sorted(keys.keys() - new.keys())]
    return {**run, "or_read": could_be, "writes": writes}


def _is_as_left(found: Mapping[str, str], keys: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Tell whether state was, and is, what the first run has left of it, or is none of its own."""
    if not keys:
        # Whoever has set it, the first run did without, and left it as it is at the start.
        return all(each["own"][key] == INITIAL for key, each in new.items())
    was = found.keys() == keys.keys() and all(keys[key]["own"][key] == found[key] for key in keys)
    return was and all(each["own"][key] == found.get(key) for key, each in new.items())


def _did_the_same(code: str, run: Run, before: str, first: Run) -> bool:
    """Tell whether a cell did what it had done before, but for constants and definitions."""
    then, now = _doing(before), _doing(code)
    if then is None or now is None or then.rest != now.rest or not then.imports <= now.imports:
        return False
    if run["failed"] or first["failed"] or run["opaque"] or run["shown"] != first["shown"]:
        return False
    read = {name: seen for name, seen in run["reads"].items() if name[:1] != "$"}
    return (
        all(first["reads"].get(name) == seen for name, seen in read.items())
        and _agree(first["files_read"], run["files_read"])
        and _agree(_variables_left(first), _variables_left(run))
    )


def _agree(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(one[key] == other[key] for key in one.keys() & other.keys())


def _doing(code: str) -> _Doing | None:
    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    imports = [each for each in body if isinstance(each, ast.Import | ast.ImportFrom)]
    rest = [each for each in body if each not in imports and not does_nothing_else(each)]
    # What all of that uses is part of what it does.
    used, found = set[str](), -1
    while len(used) > found:
        found = len(used)
        used.update(name for each in rest for name in _names(each))
        rest = [each for each in body if each in rest or not used.isdisjoint(_set_by(each))]
    doing = [ast.dump(each) for each in rest if each not in imports]
    return _Doing(frozenset(map(ast.dump, imports)), tuple(doing))


def _names(node: ast.stmt) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _set_by(node: ast.stmt) -> set[str]:
    """Return the names that a statement gives to a constant, a function or a class."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    named = _names(node) if isinstance(node, ast.Assign | ast.AnnAssign) else set()
    return named if does_nothing_else(node) else set()


def _variables_left(run: Run) -> dict[str, str]:
    return {
        name: digest
        for version in run["writes"]
        for name, digest in version["own"].items()
        if name[:1] != "$"
    }


def _state_left(run: Run) -> dict[str, dict[str, Any]]:
    """Return the versions of state that a run has left, by what it is of."""
    found: dict[str, dict[str, Any]] = {}
    for version in run["writes"]:
        for name in version["names"]:
            state = state_of(name)
            if name[:1] == "$" and state not in CHANCE:
                found.setdefault(state, {})[name] = version
    return found


def _found(run: Run, state: str) -> dict[str, str]:
    """Return what a run has found of some state, key by key."""
    if state.startswith(PREFIX):
        seen = run["reads"].get(state, INITIAL)
        return {state: seen} if seen != INITIAL else {}
    found = run.get("found", {})
    return {name: was for name, was in found.items() if state_of(name) == state}


def _was_initial(first: Run, state: str) -> bool:
    """Tell whether a run has found nothing of some state, or can be taken to have."""
    if not state.startswith(PREFIX) and not is_seen_by_all(state):
        return False
    possible = (first["reads"].get(state, INITIAL), first.get("or_read", {}).get(state))
    return INITIAL in possible
