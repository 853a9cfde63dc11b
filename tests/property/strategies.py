"""Random values, notebooks and graphs."""

from __future__ import annotations

from typing import Any

import nbformat
from hypothesis import strategies as st

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
numbers = st.one_of(st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False))
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, text),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(text, inner, max_size=4)),
    max_leaves=12,
)
metadata = st.dictionaries(
    text.filter(lambda key: key not in ("rlmnb", "trusted")), json_values, max_size=3
)


@st.composite
def outputs(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(["stream", "display_data", "execute_result", "error"]))
    if kind == "stream":
        return {"output_type": kind, "name": "stdout", "text": draw(text)}
    if kind == "error":
        lines = draw(st.lists(text, max_size=2))
        return {"output_type": kind, "ename": "E", "evalue": draw(text), "traceback": lines}
    data = {"text/plain": draw(text), "application/json": draw(json_values)}
    made = {"output_type": kind, "data": data, "metadata": {}}
    return made | ({"execution_count": None} if kind == "execute_result" else {})


@st.composite
def notebooks(draw: st.DrawFn) -> dict[str, Any]:
    cells = []
    for number in range(draw(st.integers(0, 4))):
        cell: dict[str, Any] = {
            "id": f"c{number}",
            "cell_type": draw(st.sampled_from(["code", "markdown", "raw"])),
            "metadata": {},
            "source": draw(text),
        }
        if cell["cell_type"] == "code":
            found = draw(st.lists(outputs(), max_size=2))
            cell |= {"outputs": found, "execution_count": draw(st.none() | st.integers(0, 9))}
        cells.append(cell)
    return nbformat.from_dict({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


@st.composite
def dags(draw: st.DrawFn, most: int = 12) -> list[tuple[int, ...]]:
    """Draw a graph as the parents of each node, all of them above it."""
    count = draw(st.integers(0, most))
    return [
        tuple(draw(st.sets(st.integers(0, node - 1), max_size=3))) if node else ()
        for node in range(count)
    ]
