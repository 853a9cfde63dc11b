"""Which cells the outputs of a cell speak of: tracebacks show code, warnings name lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from rlmnb.graph.environment import CodeCell, Environment

_SHOWN_CODE = re.compile(r"In\[(\d+)\]")
# What ipykernel calls the file of a cell: a number that it makes of the code.
_FILE = re.compile(r"ipykernel_\d+[/\\]+(\d+)\.py")


def traced(outputs: list[Any], env: Environment) -> dict[str, Any]:
    """Return the cells whose code a traceback shows, each with where it stands."""
    text = "".join(line for each in outputs for line in each.get("traceback", ()))
    order = env.order
    numbers = {int(number) for number in _SHOWN_CODE.findall(text)}
    return {
        order[number - 1]: env.where(order[number - 1])
        for number in sorted(numbers)
        if 0 < number <= len(order)
    }


class Lines:
    """Knows the files of cells, of which most notebooks show none."""

    def __init__(self, cells: Iterable[CodeCell]) -> None:
        self._waiting = list(cells)
        self._known: dict[str, CodeCell] = {}

    def named_in(self, outputs: list[Any]) -> dict[str, str]:
        """Return the cells of which lines are named, each with the digest of its code."""
        found = {file for text in _texts(outputs) for file in _FILE.findall(text)}
        cells = [self._cell_of(file) for file in sorted(found)]
        return {cell.cell_id: cell.source_hash for cell in cells if cell is not None}

    def _cell_of(self, file: str) -> CodeCell | None:
        if self._waiting:
            from ipykernel.compiler import get_tmp_hash_seed, murmur2_x86

            for cell in self._waiting:
                number = murmur2_x86(cell.source, get_tmp_hash_seed())  # type: ignore[no-untyped-call]
                self._known[str(number)] = cell
            self._waiting = []
        return self._known.get(file)


def _texts(outputs: list[Any]) -> Iterator[str]:
    for output in outputs:
        if output["output_type"] == "stream":
            yield str(output["text"])
        for shown in output.get("data", {}).values():
            if isinstance(shown, str):
                yield shown
