"""One side of a comparison: what a notebook has and leaves, whether a session holds it or not."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from rlmnb.comparing.outputs import Piece, pieces_of
from rlmnb.format.nbjson import source_of
from rlmnb.graph.environment import CodeCell, Environment, Run, recorded_run
from rlmnb.graph.facts import facts_of
from rlmnb.graph.freshness import find_stale
from rlmnb.graph.index import link
from rlmnb.graph.names import names_of
from rlmnb.graph.runs import run_of
from rlmnb.session import Session

_MOST = 10**15
_DONE = ("completed", "promoted")


@dataclass(frozen=True)
class SideCell:
    """A cell as far as it can differ: not its execution count, nor what rlmnb notes of it."""

    cell_id: str
    number: int
    type: str
    source: str
    source_hash: str
    raw_outputs: Sequence[Any] = ()
    status: str | None = None
    causes: tuple[str, ...] = ()
    tokens: int = 0
    ms: float = 0
    operation: str | None = None

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """The outputs as a person sees them."""
        return pieces_of(self.raw_outputs)

    @property
    def freshness(self) -> str | None:
        """Whether the cell holds; text neither does nor does not."""
        if self.status is None:
            return None
        return "stale" if self.causes else "fresh"


@dataclass(frozen=True)
class Side:
    """Everything of a notebook that is compared."""

    name: str
    cells: tuple[SideCell, ...] = ()
    state: Mapping[str, Any] = field(default_factory=dict)
    # The digest of each variable at the end; of one that rlmnb never saw, which cell made it.
    variables: Mapping[str, str] = field(default_factory=dict)
    # What the code sets where no cell is known to have run: whether it is there cannot be said.
    unseen: frozenset[str] = frozenset()
    # The last known hash of each file; below the working directory, by the path from there.
    files: Mapping[str, str] = field(default_factory=dict)

    def section(self, name: str) -> Mapping[str, Any]:
        """Return a section of the session's state, empty if there is none."""
        found = self.state.get(name)
        return found if isinstance(found, dict) else {}

    @property
    def title(self) -> str | None:
        """What the session is called."""
        title = self.section("session").get("title")
        return title if isinstance(title, str) and title else None


def side_of(session: Session) -> Side:
    """Return a session as a side; what is stale is judged by the disk as it is now."""
    whole = session.whole()
    return _side(whole, session.index["cells"], session.stale, session.place.name)


def side_of_notebook(whole: dict[str, Any], name: str = "notebook") -> Side:
    """Return a parsed notebook as a side; only what it says itself is known of its freshness."""
    facts = [facts_of(cell, number) for number, cell in enumerate(whole["cells"])]
    index = link(facts, {})
    return _side(whole, index["cells"], find_stale(index, {}), name)


def _side(
    whole: Mapping[str, Any],
    entries: Mapping[str, Mapping[str, Any]],
    stale: Mapping[str, Sequence[str]],
    name: str,
) -> Side:
    metadata = whole.get("metadata")
    state = metadata.get("rlmnb") if isinstance(metadata, dict) else None
    state = state if isinstance(state, dict) else {}
    cells = []
    env = Environment()
    files: dict[str, str] = {}
    code = []
    known = False
    for cell_id, entry in entries.items():
        raw = whole["cells"][entry["number"] - 1]
        cell = _cell(cell_id, raw, entry, stale.get(cell_id, ()))
        cells.append(cell)
        if cell.status is not None:
            code.append(cell)
            known |= _apply(env, cell, raw, entry)
            for key in ("files_read", "files_written"):
                for path, version in entry.get(key, {}).items():
                    if isinstance(version.get("hash"), str):
                        files[path] = version["hash"]
    cwd = _section(state, "session").get("cwd")
    return Side(
        name=name,
        cells=tuple(cells),
        state=state,
        variables=_variables(env),
        unseen=frozenset() if known else _set_by(code),
        files={_from(path, cwd): version for path, version in files.items()},
    )


def _section(state: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = state.get(name)
    return found if isinstance(found, dict) else {}


def _cell(
    cell_id: str, raw: dict[str, Any], entry: Mapping[str, Any], causes: Sequence[str]
) -> SideCell:
    outputs = raw.get("outputs")
    return SideCell(
        cell_id=cell_id,
        number=entry["number"],
        type=entry["type"],
        source=source_of(raw),
        source_hash=entry["source_hash"],
        raw_outputs=outputs if isinstance(outputs, list) else (),
        status=entry["status"],
        causes=tuple(causes),
        tokens=int(known_amount(entry.get("tokens")) or 0),
        ms=known_amount(entry.get("ms")) or 0,
        operation=entry.get("operation"),
    )


def known_amount(value: object) -> float | int | None:
    """Return an amount of something; None for what no honest hand has written."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return value if 0 <= value <= _MOST else None


def _apply(
    env: Environment, cell: SideCell, raw: Mapping[str, Any], entry: Mapping[str, Any]
) -> bool:
    """Take in what a cell left: by its trace, else by the names its code sets. Tell if it ran."""
    if "copy_of" in entry or not cell.source.strip():
        return False
    metadata = raw.get("metadata")
    run: Run | None = run_of(metadata.get("rlmnb") if isinstance(metadata, dict) else None)
    if run is None and cell.status in _DONE:
        code = CodeCell(cell.cell_id, cell.source, cell.source_hash, None, recorded=True)
        run = recorded_run(code)
    if run is not None:
        env.apply(cell.cell_id, run)
    return run is not None


def _set_by(code: Iterable[SideCell]) -> frozenset[str]:
    return frozenset(name for cell in code for name in names_of(cell.source).writes)


def _variables(env: Environment) -> dict[str, str]:
    return {
        name: str(version["own"][name])
        for name, version in sorted(env.names.items())
        if isinstance(version, dict)
    }


def _from(path: str, cwd: object) -> str:
    """Name a file as seen from the working directory, so that two checkouts can be compared."""
    if isinstance(cwd, str) and cwd and path.startswith(cwd.rstrip(os.sep) + os.sep):
        return path[len(cwd.rstrip(os.sep)) + 1 :]
    return path
