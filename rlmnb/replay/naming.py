"""The names in cells' code, as IPython would run it; each cell is looked at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property

from rlmnb.graph.code import code_hash
from rlmnb.graph.environment import CodeCell, Environment
from rlmnb.kernel.codenames import CodeNames
from rlmnb.kernel.reach import NOWHERE, Reach, code_names, follow
from rlmnb.kernel.sight import DEFINES


class Naming:
    """Knows the names of cells it was asked about."""

    def __init__(self) -> None:
        self._known: dict[str, CodeNames | None] = {}

    @cached_property
    def _transform(self) -> Callable[[str], str]:
        # IPython takes a moment to import, and only whoever runs cells needs it.
        from IPython.core.inputtransformer2 import TransformerManager

        manager = TransformerManager()  # type: ignore[no-untyped-call]
        transform: Callable[[str], str] = manager.transform_cell
        return transform

    def names(self, cell: CodeCell) -> CodeNames | None:
        """Return the names in a cell's code, None if it does not compile."""
        if cell.cell_id not in self._known:
            self._known[cell.cell_id] = code_names(cell.source, self._transform)
        return self._known[cell.cell_id]

    def prepare(self, cells: Iterable[CodeCell]) -> None:
        """Look at cells before they are asked about, while there is time."""
        for cell in cells:
            self.names(cell)
            code_hash(cell.source)


def closure(names: CodeNames | None, env: Environment) -> Reach:
    """Return every name that code can read here, through what it calls."""
    if names is None:
        return NOWHERE

    def refs(name: str) -> Iterable[str]:
        version = env.names.get(name)
        return version["refs"] if isinstance(version, dict) else ()

    around = {name: refs(name) for name in env.ambient}

    def has_last_words(name: str) -> bool:
        version = env.names.get(name)
        return isinstance(version, dict) and "last_words" in version

    def definitions() -> Iterable[str]:
        return [
            name
            for name, version in env.names.items()
            if isinstance(version, dict) and DEFINES in version.get("packages", (DEFINES,))
        ]

    return follow(names, refs, around, has_last_words, definitions=definitions)
