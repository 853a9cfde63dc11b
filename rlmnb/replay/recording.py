"""Keeping what a replay did: to the journal at once, into the notebook in batches.

Both are done by a thread of their own, in order, so that the next cell runs while the last one's
result is on its way to the disk.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

from rlmnb import digest
from rlmnb.format import times
from rlmnb.format.cells import new_record
from rlmnb.format.keptcalls import calls_of, merged
from rlmnb.format.shown import shown_hash
from rlmnb.graph.environment import CodeCell, Run
from rlmnb.jsontext import portable
from rlmnb.kernel.pending import Pending
from rlmnb.replay.calling import as_recorded
from rlmnb.replay.vouching import Vouchers, is_active
from rlmnb.session import Session
from rlmnb.store.append import write_entry
from rlmnb.store.fold import fold

_FOLD_SECONDS = 5.0
_FOLD_PATIENCE = 10.0


class Recorder:
    """Writes down what became of cells. Leaving the block waits until the notebook has it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._place = session.place
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="rlmnb-record")
        self._waiting: list[Future[None]] = []
        self._seq = -1
        self._folded_at = time.monotonic()
        # What the notebook will have by the time an entry is folded: the digest of its outputs,
        # and the record.
        self._outputs: dict[str, str] = {}
        self._records: dict[str, dict[str, Any]] = {}
        self._vouchers = Vouchers()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.fold()
        self._waiting.append(self._thread.submit(self._vouchers.close))
        self._thread.shutdown(wait=True)
        for each in self._waiting:
            each.result()

    def ran(self, cell: CodeCell, done: Mapping[str, Any], run: Run, error: str | None) -> None:
        """Keep the result of a cell that has just run."""
        run = {**run, "failed": error is not None}
        called = bool(run.get("calls"))
        told = as_recorded(cell, run, self._known(cell))
        record = {
            "status": "failed" if error is not None else "completed",
            "completed_at": times.now(),
            "source_hash": cell.source_hash,
        }
        replaced = {
            "run": run,
            "files_read": run["files_read"],
            "files_written": run["files_written"],
        }
        if cell.marked:
            replaced["invalidated"] = None
        record |= told[0]
        replaced |= told[1]
        self._update(cell, done, record, replaced)
        if called:
            self._no_longer_pending(cell)

    def _no_longer_pending(self, cell: CodeCell) -> None:
        """Forget what the kernel keeps of a running cell's calls: the journal has them by then."""
        pending = Pending(self._session.path, cell.cell_id)
        self._waiting.append(self._thread.submit(pending.clear))

    def called(self, cell: CodeCell, calls: list[dict[str, Any]]) -> None:
        """Keep the calls of a cell that ran only to make something again."""
        kept = {"calls": merged(calls_of(self._known(cell)), calls)}
        entry = {"op": "update", "cell_id": cell.cell_id, "record": {}, "replace": kept}
        known = self._known(cell)
        if known:
            self._records[cell.cell_id] = {**known, **kept}
            self._waiting.append(
                self._thread.submit(self._append, portable({**entry, "at": times.now()}))
            )
            self._no_longer_pending(cell)

    def settled(self, cell: CodeCell, files: dict[str, dict[str, Any]]) -> None:
        """Keep what files hold that a cell wrote and that were closed after it had ended."""

        def write() -> None:
            known = self._known(cell)
            run = known.get("run") or {}
            run = {**run, "settled": {**run.get("settled", {}), **files}}
            self._records[cell.cell_id] = {**known, "run": run}
            entry = {"op": "update", "cell_id": cell.cell_id, "record": {}, "replace": {"run": run}}
            self._append(portable({**entry, "at": times.now()}))

        self._waiting.append(self._thread.submit(write))
        self.fold()

    def spent(self, cells: dict[str, Any]) -> None:
        """Keep what model calls have cost and spared so far."""
        entry = portable({"op": "state", "set": {"budget": {"cells": cells}}, "at": times.now()})
        self._waiting.append(self._thread.submit(self._append, entry))

    def _known(self, cell: CodeCell) -> dict[str, Any]:
        """Return the record of a cell as it is by now."""
        raw = self._session.cell(cell.cell_id).raw
        known = self._records.get(cell.cell_id, raw["metadata"].get("rlmnb"))
        return known if isinstance(known, dict) else {}

    def settle(self) -> None:
        """Wait until the notebook has all that was written down so far."""
        self.fold()
        self._waiting[-1].result()

    def mark(self, cell: CodeCell, why: str) -> None:
        """Keep that a cell no longer holds, where nothing else will tell."""
        record = {"status": "invalidated", "invalidated": {"reason": why, "was": "completed"}}
        entry = {"op": "update", "cell_id": cell.cell_id, "record": record, "at": times.now()}
        self._waiting.append(self._thread.submit(self._append, portable(entry)))

    def shows_anew(self, cell: CodeCell, done: Mapping[str, Any], run: Run) -> None:
        """Keep what a cell shows after another one has changed it."""
        self._update(cell, done, {}, {"run": run})

    def _update(
        self,
        cell: CodeCell,
        done: Mapping[str, Any],
        record: dict[str, Any],
        replaced: dict[str, Any],
    ) -> None:
        # Copied now, because a later cell may change what this one shows.
        outputs, count = _plain(done["outputs"]), done.get("execution_count")
        moment = times.now()

        def write() -> None:
            self._append(
                {
                    **self._entry(cell, outputs, record, replaced),
                    "execution_count": count,
                    "at": moment,
                }
            )

        self._waiting.append(self._thread.submit(write))

    def _entry(
        self,
        cell: CodeCell,
        outputs: list[Any],
        record: dict[str, Any],
        replaced: dict[str, Any],
    ) -> dict[str, Any]:
        raw = self._session.cell(cell.cell_id).raw
        before = self._outputs.get(cell.cell_id) or digest.output_hash(raw.get("outputs") or [])
        known = self._records.get(cell.cell_id, raw["metadata"].get("rlmnb"))
        base = {} if isinstance(known, dict) else new_record(cell.source, [], {"status": "running"})
        entry: dict[str, Any] = portable(
            {
                "op": "update",
                "of": [cell.source_hash, before],
                "cell_id": cell.cell_id,
                "record": {**base, "cell_id": cell.cell_id, **record},
                "replace": replaced,
                "outputs": outputs,
            }
        )
        entry["replace"]["run"]["shown"] = shown_hash(entry["outputs"])
        shown = entry["record"]["output_hash"] = digest.output_hash(entry["outputs"])
        if is_active(entry["outputs"]):
            self._vouchers.add(shown)
        whole = {
            **(known if isinstance(known, dict) else {}),
            **entry["record"],
            **entry["replace"],
        }
        entry["record"]["context_hash"] = digest.context_hash(whole)
        self._outputs[cell.cell_id] = shown
        self._records[cell.cell_id] = {**whole, "context_hash": entry["record"]["context_hash"]}
        return entry

    def widgets(self, state: Mapping[str, Any]) -> None:
        """Keep the state of widgets in the notebook's metadata, as nbclient does."""
        entry = portable({"op": "state", "set": {}, "notebook": {"widgets": _plain(state)}})
        self._waiting.append(self._thread.submit(self._append, {**entry, "at": times.now()}))

    def _append(self, entry: dict[str, Any]) -> None:
        self._seq = write_entry(self._place, lambda _: entry)
        if time.monotonic() - self._folded_at > _FOLD_SECONDS:
            self._fold()

    def fold(self) -> None:
        """Let the notebook have all that was written down so far; does not wait for it."""
        self._waiting.append(self._thread.submit(self._fold))

    def _fold(self) -> None:
        if self._seq >= 0:
            fold(self._place, self._seq, timeout=_FOLD_PATIENCE)
            self._folded_at = time.monotonic()
            self._seq = -1


def as_portable(outputs: Any) -> Any:
    """Return outputs as the notebook will have them."""
    return portable(_plain(outputs))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value
