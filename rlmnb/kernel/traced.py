"""What a trace says of a cell, told from what was seen before it ran and what is there now."""

from __future__ import annotations

from typing import Any

from rlmnb.kernel.groups import Group
from rlmnb.kernel.history import is_history, is_input
from rlmnb.kernel.look import Look


def reads_behind(
    versions: list[Group],
    look: Look,
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


def or_alone(
    reads: dict[str, str], old: dict[str, Group], set_anew: frozenset[str]
) -> dict[str, str]:
    """Return what variables could have been as well that were tied only to what is set anew."""
    return {
        read: old[read[1:]].own[read[1:]]
        for read in reads
        if read[:1] == "~"
        and (group := old.get(read[1:])) is not None
        and group.problem is None
        and len(group.names) > 1
        and set_anew.issuperset({*group.names} - {read[1:]})
    }


def in_place(look: Look, now: dict[str, int], versions: list[Group]) -> dict[str, Any]:
    """Return which of the changed variables are what they were, only with other contents."""
    bound = look.code.writes if look.code is not None else frozenset()
    names = [
        name
        for version in versions
        for name in version.names
        if name not in bound and look.bindings.get(name) == now.get(name)
    ]
    return {"in_place": sorted(names)} if names else {}


def history(look: Look) -> dict[str, bool]:
    """Tell whether a cell looks at what ran before it, and at the very code of that."""
    read = look.reads - (look.code.set_itself if look.code is not None else frozenset())
    found = {"history": any(map(is_history, read))}
    return found | ({"inputs": True} if any(map(is_input, read)) else {})


def not_set(look: Look, now: dict[str, int]) -> frozenset[str]:
    """Return what a cell that failed is sure to set in the end, and has left as it was."""
    sure = look.code.sure & look.code.writes if look.code is not None else frozenset()
    before = look.bindings
    return frozenset(name for name in sure if name in before and before[name] == now.get(name))


def without(
    set_anew: frozenset[str], reads: dict[str, str], old: dict[str, Group]
) -> dict[str, str]:
    """Leave out of what was read what is set anew before it can be looked at.

    Also how it shared objects with others, if all but one of them are set anew.
    """
    gone = {name for name in set_anew if name not in old or not old[name].has_last_words}

    def is_gone(read: str) -> bool:
        members = set(read[1:].split("&")) if read[:1] == "&" else {read}
        return bool(members & gone) and len(members - gone) <= 1

    return {read: seen for read, seen in reads.items() if not is_gone(read)}
