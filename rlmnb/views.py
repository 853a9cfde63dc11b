"""Cells as callers see them: light rows of the index, whose details are read when asked for."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, overload

from rlmnb import digest
from rlmnb.errors import InvalidNameError, SchemaError
from rlmnb.format.cells import STATUSES
from rlmnb.format.conversation import is_reply
from rlmnb.format.migrations import migrate
from rlmnb.format.nbjson import source_of
from rlmnb.format.shown import as_shown
from rlmnb.graph.effects import effects_of
from rlmnb.graph.runs import run_of
from rlmnb.ids import CellId
from rlmnb.store.index_file import Entries

if TYPE_CHECKING:
    from rlmnb.format.record import CellRecord


_SHOWN = 20
_SHELLS = ("Bash", "PowerShell")
COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_STATUSES = ("fresh", "stale", "new", *STATUSES)


class Cell:
    """One cell of a session. What the index knows is at hand; the rest is read when asked for."""

    __slots__ = ("_entries", "_load", "_raw", "causes", "cell_id")

    def __init__(
        self,
        cell_id: str,
        entries: Entries,
        causes: Sequence[str],
        load: Callable[[str], dict[str, Any]],
    ) -> None:
        self.cell_id = CellId(cell_id)
        self.causes = tuple(causes)
        self._entries = entries
        self._load = load
        self._raw: dict[str, Any] | None = None

    def __repr__(self) -> str:
        word = "" if self.status is None else (" stale" if self.causes else " fresh")
        return f"<Cell {self.number} {self.cell_id} {self.type}{word}: {self.entry['title']}>"

    @property
    def id(self) -> CellId:
        return self.cell_id

    @property
    def entry(self) -> dict[str, Any]:
        """What the index has of this cell."""
        return self._entries[self.cell_id]

    @property
    def number(self) -> int:
        """The place in the notebook, from 1."""
        return int(self.entry["number"])

    @property
    def type(self) -> str:
        return str(self.entry["type"])

    @property
    def status(self) -> str | None:
        """Where the cell is in its life; None for text, `new` for code that never ran."""
        status = self.entry["status"]
        return None if status is None else str(status)

    @property
    def stale(self) -> bool:
        return bool(self.causes)

    @property
    def dependencies(self) -> tuple[CellId, ...]:
        return tuple(CellId(each) for each in self.entry["dependencies"])

    @property
    def dependents(self) -> tuple[CellId, ...]:
        return tuple(CellId(each) for each in self.entry["dependents"])

    @property
    def reasons(self) -> Mapping[str, str]:
        """Why each dependency is one."""
        return dict(self.entry["reasons"])

    @property
    def raw(self) -> dict[str, Any]:
        """The cell as the notebook has it."""
        if self._raw is None:
            self._raw = self._load(self.cell_id)
        return self._raw

    @property
    def source(self) -> str:
        return source_of(self.raw)

    @property
    def effects(self) -> list[str]:
        """The tools by which it changes things outside the notebook."""
        operation = self.entry.get("operation")
        if "tools" not in self.entry.get("reads", ()) and not self.entry.get("traced"):
            return effects_of("", operation, None)
        return effects_of(self.source, operation, run_of(self.raw["metadata"].get("rlmnb")))

    @property
    def outputs(self) -> list[dict[str, Any]]:
        outputs = self.raw.get("outputs", [])
        return list(outputs)

    @property
    def record(self) -> CellRecord | None:
        """The record, checked against the schema; None for a cell that has none."""
        from pydantic import ValidationError

        from rlmnb.format.record import CellRecord

        found = self.raw["metadata"].get("rlmnb")
        if not isinstance(found, dict):
            return None
        try:
            return CellRecord.model_validate(migrate(found, f"cell {self.cell_id}"))
        except ValidationError as error:
            wrong = error.errors()[0]
            where = ".".join(str(part) for part in wrong["loc"])
            raise SchemaError(
                f"cell {self.cell_id}: its record is not valid: {where}: {wrong['msg']}"
            ) from None

    def as_dict(self) -> dict[str, Any]:
        """Return what the index knows of the cell, and whether it is fresh."""
        found: dict[str, Any] = json.loads(self.as_json())
        return found

    def as_json(self) -> str:
        """Return the same as JSON text: the index has it ready, so nothing is parsed for it."""
        line = self._entries.line(self.cell_id)[:-1]
        if not self.causes:
            return line + ', "freshness": "fresh", "causes": []}'
        causes = json.dumps(self.causes, ensure_ascii=False)
        return f'{line}, "freshness": "stale", "causes": {causes}}}'


class Cells(Sequence[Cell]):
    """The cells of a session in notebook order. Calling it with filters gives those that match."""

    def __init__(self, found: Sequence[Cell]) -> None:
        self._found = found

    @overload
    def __getitem__(self, at: int) -> Cell: ...
    @overload
    def __getitem__(self, at: slice) -> Cells: ...
    def __getitem__(self, at: int | slice) -> Cell | Cells:
        return Cells(self._found[at]) if isinstance(at, slice) else self._found[at]

    def __len__(self) -> int:
        return len(self._found)

    def __repr__(self) -> str:
        shown = "\n".join(f"  {cell!r}" for cell in self._found[:_SHOWN])
        more = f"\n  and {len(self) - _SHOWN} more" if len(self) > _SHOWN else ""
        return f"<{len(self)} cells>" + (f"\n{shown}{more}" if shown else "")

    def __iter__(self) -> Iterator[Cell]:
        return iter(self._found)

    def __call__(
        self,
        *,
        type: str | None = None,
        status: str | None = None,
        file: str | None = None,
        text: str | None = None,
        since: str | datetime | None = None,
        until: str | datetime | None = None,
    ) -> Cells:
        """Return the cells that match all of these.

        `type` is also the name of a tool, `status` also `fresh` or `stale`; `text` stands in the
        source or in what the cell shows, in any case; `since` and `until` are about when the cell
        was begun.
        """
        first = None if since is None else moment(since)
        last = None if until is None else moment(until)
        if status is not None and status not in _STATUSES:
            raise InvalidNameError(f"no status {status!r}; there are {', '.join(_STATUSES)}")
        return Cells(
            [
                cell
                for cell in self._found
                if (type is None or type in (cell.type, cell.entry.get("operation")))
                and (status is None or _has_status(cell, status))
                and (file is None or any(same_file(path, file) for path in files_of(cell.entry)))
                and _is_between(cell, first, last)
                and (text is None or _has_text(cell, text))
            ]
        )


def _has_status(cell: Cell, status: str) -> bool:
    if status in ("fresh", "stale"):
        return cell.status is not None and cell.stale == (status == "stale")
    return cell.status == status


def moment(given: str | datetime) -> datetime:
    """Return a moment from what a person or a record says; without a zone it is local time."""
    try:
        found = given if isinstance(given, datetime) else datetime.fromisoformat(given.strip())
        return found.astimezone()
    except (ValueError, OverflowError):
        raise InvalidNameError(
            f"{given!r} is no time; wanted 2026-11-17, 2026-11-17T09:30 or 2026-11-17T09:30:00Z"
        ) from None


def _is_between(cell: Cell, first: datetime | None, last: datetime | None) -> bool:
    if first is None and last is None:
        return True
    try:
        began = moment(cell.entry.get("created_at") or "")
    except InvalidNameError:
        return False  # text, or a cell of a person: nobody wrote down when
    return (first is None or first <= began) and (last is None or began <= last)


def _has_text(cell: Cell, text: str) -> bool:
    wanted = text.casefold()
    return wanted in cell.source.casefold() or wanted in text_of(cell.outputs).casefold()


def effectful(cells: Iterable[Cell]) -> frozenset[str]:
    """Return the cells that change things outside the notebook when they run."""
    return frozenset(cell.cell_id for cell in cells if cell.effects)


def replies(cells: Iterable[Cell]) -> frozenset[str]:
    """Return the texts that were recorded after a prompt: what the agent or its client said."""
    return frozenset(
        cell.cell_id for cell in cells if cell.type == "markdown" and is_reply(cell.raw)
    )


def files_of(entry: Mapping[str, Any]) -> list[str]:
    """Return the files a cell read or wrote."""
    return [*entry.get("files_read", ()), *entry.get("files_written", ())]


def same_file(path: str, asked: str) -> bool:
    """Tell whether a person who names a file by its last part, or a path, means this one."""
    asked = asked.removeprefix("./")
    return path == os.path.abspath(asked) or f"/{path}".endswith(f"/{asked}")


def text_of(outputs: Sequence[Mapping[str, Any]]) -> str:
    """Return the text that a person would see in these outputs."""
    parts = []
    for output in outputs:
        if output.get("output_type") == "stream":
            parts.append(str(digest.value_of_lines(output.get("text", ""))))
        elif output.get("output_type") == "error":
            parts.append(f"{output.get('ename')}: {output.get('evalue')}\n")
        else:
            data = output.get("data")
            text = data.get("text/plain", "") if isinstance(data, dict) else ""
            parts.append(str(digest.value_of_lines(text)) + "\n")
    return "".join(parts)


def seen_text(outputs: Sequence[Mapping[str, Any]]) -> str:
    """Return the text as a terminal shows it: overwriting done, errors with their traceback."""
    parts = []
    for output in as_shown(outputs):
        lines = output.get("traceback")
        if output.get("output_type") == "error" and isinstance(lines, list) and lines:
            parts.append("\n".join(map(str, lines)) + "\n")
        else:
            parts.append(text_of([output]))
    return COLOURS.sub("", "".join(parts))


def exit_code_of(cell: Cell) -> int | None:
    """Return what a command ended with, as far as it was told: agents name it of failures only."""
    record = cell.raw["metadata"].get("rlmnb")
    asked, about = (_section(record, name) for name in ("input", "metadata"))
    if asked.get("source") == "legacy":
        code = _section(about, "legacy").get("exit_code")
        return code if isinstance(code, int) else None
    if cell.entry.get("operation") not in _SHELLS or _section(asked, "args").get(
        "run_in_background"
    ):
        return None
    if cell.status == "failed":
        errors = [str(each.get("evalue")) for each in cell.outputs if "evalue" in each]
        found = re.match(r"Exit code (\d+)", errors[-1]) if errors else None
        return int(found[1]) if found else None
    return 0 if cell.status in ("completed", "invalidated", "promoted") else None


def _section(record: object, name: str) -> Mapping[str, Any]:
    """Return a section of a record, empty if a hand has made it something else."""
    found = record.get(name) if isinstance(record, dict) else None
    return found if isinstance(found, dict) else {}


def whole_output(cell: Cell, stored: Callable[[str], bytes]) -> bytes:
    """Return all the text a cell printed, with what was too long for the notebook in its place."""
    record = cell.record
    kept = {item.output: item.object for item in record.output.objects} if record else {}
    parts = [
        stored(kept[number]) if number in kept else text_of([output]).encode()
        for number, output in enumerate(cell.outputs)
    ]
    return b"".join(parts)
