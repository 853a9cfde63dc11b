from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rlmnb.format import cells
from rlmnb.format.edges import find_path
from rlmnb.graph.changes import changes_between
from rlmnb.graph.facts import facts_of
from rlmnb.graph.freshness import find_stale
from rlmnb.graph.index import Index, downstream, extend, link, upstream
from tests.property.strategies import dags


def cell(number: int, parents: tuple[int, ...], **fields: Any) -> dict[str, Any]:
    made = cells.code_cell("f()", dependencies=[f"c{parent}" for parent in parents], **fields)
    return cells.named(made, f"c{number}")


def index_of(graph: list[tuple[int, ...]]) -> Index:
    made = [cell(number, parents) for number, parents in enumerate(graph)]
    return link([facts_of(each, number) for number, each in enumerate(made)], {})


def descendants(graph: list[tuple[int, ...]], start: int) -> set[str]:
    reached = {start}
    for node, parents in enumerate(graph):
        if reached & set(parents):
            reached.add(node)
    return {f"c{node}" for node in reached - {start}}


@given(dags())
def test_roots_have_no_parents_and_leaves_no_children(graph):
    index = index_of(graph)
    parents = {f"c{parent}" for all_parents in graph for parent in all_parents}
    everyone = [f"c{number}" for number in range(len(graph))]
    assert index["roots"] == [name for number, name in enumerate(everyone) if not graph[number]]
    assert index["leaves"] == [name for name in everyone if name not in parents]
    assert index["execution_order"] == everyone
    assert index["cycles_detected"] == []


@given(dags())
def test_dependents_are_dependencies_the_other_way_round(graph):
    entries = index_of(graph)["cells"]
    down = {(parent, child) for child in entries for parent in entries[child]["dependencies"]}
    up = {(parent, child) for parent in entries for child in entries[parent]["dependents"]}
    assert down == up


@given(dags(), st.data())
def test_upstream_and_downstream_mirror_each_other(graph, data):
    if not graph:
        return
    index = index_of(graph)
    node = data.draw(st.integers(0, len(graph) - 1))
    below = downstream(index, f"c{node}")
    assert set(below) == descendants(graph, node)
    assert all(upstream(index, each)[f"c{node}"] == depth for each, depth in below.items())


@given(dags(), st.data())
def test_staleness_is_closed_under_descendants_and_reaches_nothing_else(graph, data):
    if not graph:
        return
    node = data.draw(st.integers(0, len(graph) - 1))
    made = [cell(number, parents) for number, parents in enumerate(graph)]
    made[node]["source"] = "edited()"
    index = link([facts_of(each, number) for number, each in enumerate(made)], {})
    assert set(find_stale(index, {})) == descendants(graph, node) | {f"c{node}"}


@given(dags())
def test_an_unchanged_session_has_nothing_stale(graph):
    assert find_stale(index_of(graph), {}) == {}


@given(dags(most=8), st.randoms())
def test_any_order_of_the_cells_gives_a_topological_order_or_names_the_cycle(graph, chance):
    made = [cell(number, parents) for number, parents in enumerate(graph)]
    chance.shuffle(made)
    index = link([facts_of(each, number) for number, each in enumerate(made)], {})
    place = {name: at for at, name in enumerate(index["execution_order"])}
    assert index["cycles_detected"] == []
    for name, entry in index["cells"].items():
        assert all(place[parent] < place[name] for parent in entry["dependencies"])


@given(st.lists(st.sets(st.integers(0, 5), max_size=3), min_size=6, max_size=6))
def test_a_graph_of_any_shape_has_an_order_of_all_its_cells_and_true_cycles(graph):
    made = [cell(number, tuple(parents)) for number, parents in enumerate(graph)]
    index = link([facts_of(each, number) for number, each in enumerate(made)], {})
    assert sorted(index["execution_order"]) == [f"c{number}" for number in range(6)]
    for cycle in index["cycles_detected"]:
        assert cycle[0] == cycle[-1]
        for child, parent in pairwise(cycle):
            assert parent in index["cells"][child]["dependencies"]
    cyclic = any(
        find_path(graph[node], node, lambda each: graph[each]) is not None for node in range(6)
    )
    assert bool(index["cycles_detected"]) == cyclic


SOURCES = ["x = 1", "y = x", "print(y)", "exec('z')", "f()", "x += y", "this is no python"]


@given(dags(), st.integers(0, 12), st.data())
def test_an_index_that_was_extended_equals_one_made_at_once(graph, cut, data):
    made = []
    for number, parents in enumerate(graph):
        source = data.draw(st.sampled_from(SOURCES))
        files = st.dictionaries(st.sampled_from("ab"), st.just({"hash": "missing"}), max_size=2)
        fields = {"files_read": data.draw(files), "files_written": data.draw(files)}
        status = data.draw(st.sampled_from(["completed", "failed"]))
        depends = [f"c{parent}" for parent in parents]
        cell = cells.code_cell(source, dependencies=depends, status=status, **fields)
        made.append(cells.named(cell, f"c{number}"))
    facts = [facts_of(each, number) for number, each in enumerate(made)]
    old = link(facts[:cut], {})
    grown = extend(old, facts[cut:], {"generation": 7})
    assert grown is not None
    index, changed = grown
    assert {**index, "cells": {**old["cells"], **changed}} == link(facts, {"generation": 7})
    assert old == link(facts[:cut], {})


@given(dags(), st.data())
def test_what_is_said_of_two_readings_is_what_happened(graph, data):
    before = index_of(graph)
    kept = [
        number
        for number in range(len(graph))
        if not data.draw(st.booleans(), label=f"delete c{number}")
    ]
    made = [cell(number, graph[number]) for number in kept]
    after = link([facts_of(each, number) for number, each in enumerate(made)], {})
    found = changes_between(before, after)
    deleted = {each.cell_id for each in found if each.kind == "deleted"}
    assert deleted == {f"c{number}" for number in range(len(graph)) if number not in kept}
    assert {each.kind for each in found} <= {"deleted", "dangling"}
