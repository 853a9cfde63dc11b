"""Laws of bringing two versions of a notebook's cells together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlmnb.errors import ChangedSinceError
from rlmnb.format.merging import digest_of, merge, named
from rlmnb.format.percent import Block

_SOURCES = st.sampled_from(["", "x = 1", "y = 2", "z = 3"])


def _cells(ids: str) -> st.SearchStrategy[list[Block]]:
    """Any of these cells, in any order, with any source."""
    chosen = st.lists(st.sampled_from(ids), unique=True, max_size=len(ids))
    return chosen.flatmap(
        lambda keys: st.tuples(*[st.builds(Block, st.just(key), st.just("code"), _SOURCES)
                                 for key in keys]).map(list)
    )  # fmt: skip


def _memory(cells: list[Block]) -> dict[str, str]:
    return {str(block.cell_id): str(digest_of(block)) for block in cells}


@given(_cells("abcdef"), _cells("abcdefgh"))
def test_what_changed_on_one_side_only_is_taken_as_it_is(base, changed):
    assert merge(_memory(base), changed, base, "text", None) == changed
    assert merge(_memory(base), base, changed, "text", None) == changed


@given(_cells("abcd"), _cells("abcd"), _cells("abcd"))
def test_a_merge_loses_no_edit_and_invents_none(base, here, there):
    memory, ours, theirs = _memory(base), _memory(here), _memory(there)
    try:
        merged = _memory(merge(memory, here, there, "text", None))
    except ChangedSinceError:
        merged = _memory(merge(memory, here, there, "text", "text"))
        for key in set(ours) | set(theirs):
            if theirs.get(key) != memory.get(key):
                assert merged.get(key) == theirs.get(key)
        return
    for key in set(memory) | set(ours) | set(theirs):
        changed = {side.get(key) for side in (ours, theirs)} - {memory.get(key)}
        assert merged.get(key) in (changed or {memory.get(key)})


@given(_cells("abcd"), _cells("abcd"))
def test_without_a_memory_any_difference_is_asked_about(here, there):
    if here == there:
        assert merge(None, here, there, "text", None) == here
        return
    with pytest.raises(ChangedSinceError):
        merge(None, here, there, "text", None)
    assert merge(None, here, there, "text", "text") == there
    assert merge(None, here, there, "text", "notebook") == here


@given(st.lists(st.builds(Block, st.none(), st.just("code"), _SOURCES), max_size=8))
def test_new_cells_get_ids_of_their_own_the_same_each_time(blocks):
    first = named(blocks, {})
    assert first == named(blocks, {})
    ids = [block.cell_id for block in first]
    assert len(set(ids)) == len(ids)
    assert not set(ids) & {block.cell_id for block in named(blocks, _memory(first))}
