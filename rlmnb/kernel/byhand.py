"""Cells that a person runs: their traces, kept beside the notebook while it is somebody's own.

What a trace says is true whatever happens next: this source, with these inputs, showed this and
left that. The notebook is not touched; its reader takes a trace for a cell's own where the cell has
that source and shows that outcome.
"""

from __future__ import annotations

import _thread
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from rlmnb.digest import output_hash, source_hash
from rlmnb.errors import RlmnbError
from rlmnb.format import times
from rlmnb.graph.ambient import state_of
from rlmnb.graph.code import code_hash
from rlmnb.graph.environment import UNTRACKED
from rlmnb.ids import is_nbformat_id
from rlmnb.kernel.repeating import as_first_run
from rlmnb.kernel.showing import Showing, Shown
from rlmnb.kernel.whereabouts import Whereabouts
from rlmnb.store import byhand, notebook
from rlmnb.store.layout import Place

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
_WAIT_SECONDS = (0.2, 2.0)
_LOST_SECONDS = 30.0
_MOST_WAITING = 10_000


class ByHand:
    """Takes down what a person runs in one kernel."""

    def __init__(
        self,
        place: Place,
        session: Any,
        tell: Callable[[str], None],
        ignore: Callable[[], None],
        transform: Callable[[str], str] = str,
    ) -> None:
        self._where = Whereabouts(place)
        self._showing = Showing(session)
        self._tell = tell
        # To be called by a thread of ours, so that nothing it does is taken for a cell's doing.
        self._ignore = ignore
        # What IPython makes of code.
        self._transform = transform
        self._told = False
        self._process = os.getpid()
        # The run that is going on: its request, its cell, its source and what its record said.
        self._now: tuple[str, str, str, Mapping[str, Any]] | None = None
        self._depends: dict[str, str | None] = {}
        # Which cell has last set each variable, empty if it changed between two cells.
        self._producers: dict[str, str] = {}
        # The last trace of each cell, with its code, and those that no file has yet.
        self._sources: dict[str, str] = {}
        self._entries: dict[str, dict[str, Any]] = {}
        self._waiting: dict[tuple[str, str, str], dict[str, Any]] = {}
        self._written_to: str | None = None
        self._lock = threading.Lock()
        # Held while the disk is waited for, which a cell never is.
        self._writing = threading.Lock()
        self._watching = False

    # a run

    def begin(self, request: str, cell_id: object, code: str, metadata: object) -> None:
        """Take down that a cell is about to run; nothing if it is no cell of a notebook."""
        self._now = None
        if not is_nbformat_id(cell_id):
            return
        whole: dict[str, Any] = metadata if isinstance(metadata, dict) else {}
        self._now = (request, str(cell_id), code, whole)
        self._showing.begin(request, str(cell_id))
        self._depends = self._shown_by(_dependencies(whole))

    @property
    def running(self) -> bool:
        """Whether a cell of the notebook is being run."""
        return self._now is not None

    def disturbed(self, names: set[str]) -> None:
        """Take down that variables have changed while no cell ran."""
        self._producers.update(dict.fromkeys(names, ""))

    def apart(self, trace: Mapping[str, Any] | None) -> None:
        """Take down what was done by somebody who is no cell of the notebook: a console."""
        for version in (trace or {}).get("writes", ()):
            self.disturbed(set(version["names"]))

    def typed(self, prompt: str, value: str, *, password: bool) -> None:
        """Take down what a person has typed."""
        if self._now is not None:
            self._showing.typed(self._now[0], prompt, value, password=password)

    def end(self, trace: Mapping[str, Any] | None, reply: Mapping[str, Any]) -> None:
        """Keep the trace of the cell that has just run."""
        if self._now is None:
            return
        (request, cell_id, code, metadata), self._now = self._now, None
        shown = self._showing.end(request, reply.get("payload"))
        if shown is None or reply.get("status") not in ("ok", "error"):
            return
        tags = metadata.get("tags")
        allowed = isinstance(tags, list) and "raises-exception" in tags
        failed = reply["status"] == "error" and not allowed
        run = self._run(cell_id, code, trace, shown)
        run["failed"] = failed
        run = self._as_first_run(cell_id, code, run)
        record = metadata.get("rlmnb")
        seen = record.get("status") if isinstance(record, dict) else None
        entry = {
            "at": times.now(),
            "cell_id": cell_id,
            "status": "failed" if failed else "completed",
            "run": run,
            **({"unmarks": True} if seen == "invalidated" else {}),
        }
        with self._lock:
            self._keep(entry)
            self._take_over_displays()

    def _run(
        self, cell_id: str, code: str, trace: Mapping[str, Any] | None, shown: Shown
    ) -> dict[str, Any]:
        if trace is None or "problem" in trace:
            trace = {**UNTRACKED, "problem": (trace or {}).get("problem")}
        # A replay would have it gone before; either way it makes no difference.
        replaced = trace.get("replaced", ())
        run = {
            **trace,
            "loosened": [
                {**each, "from": self._origins([*each["version"]["names"], *_found(each)])}
                for each in trace.get("loosened", ())
            ],
            "text": source_hash(code),
            "code": code_hash(code),
            "python": PYTHON,
            "by_hand": True,
            "shown": shown.hash(),
            "from": self._origins(_found(trace)),
            "asked": {path: kind for path, kind in trace["asked"].items() if path not in replaced},
        }
        if not run["opaque"]:
            run.pop("around", None)
        if shown.displays:
            run["shows"] = shown.places()
        if shown.updates:
            run["updates"] = sorted(shown.updates)
        if self._depends:
            run["depends"] = self._depends
        for name in trace["deleted"]:
            self._producers.pop(name, None)
        for version in trace["writes"]:
            # What was only looked at, and is tied to something new, is still its maker's.
            new = [
                name
                for name in version["names"]
                if trace["reads"].get(name) != version["own"].get(name)
            ]
            self._producers.update(dict.fromkeys(new, cell_id))
        if not run["loosened"]:
            del run["loosened"]
        return run

    def _as_first_run(self, cell_id: str, code: str, run: dict[str, Any]) -> dict[str, Any]:
        """Return the trace of a cell that may have done again what it had done already."""
        before, first = self._sources.get(cell_id), self._entries.get(cell_id)
        self._sources[cell_id] = code
        if before is None or first is None:
            return run
        return as_first_run(self._transform(code), run, self._transform(before), first["run"])

    def _origins(self, names: list[str]) -> dict[str, str]:
        """Return which cells have left variables, as far as that is known."""
        return {name: self._producers[name] for name in names if name in self._producers}

    def _keep(self, entry: dict[str, Any]) -> None:
        cell_id = entry["cell_id"]
        # Nobody may ever have saved what it made when it ran before.
        earlier = [self._entries[cell_id]["run"]] if cell_id in self._entries else []
        run = byhand.with_abandoned(byhand.began(entry["run"], earlier), earlier)
        entry = self._entries[cell_id] = {**entry, "run": run}
        if len(self._waiting) < _MOST_WAITING:
            # Which of several runs gets saved, nobody knows yet.
            self._waiting[cell_id, run["text"], run["shown"]] = entry

    def _take_over_displays(self) -> None:
        """Keep what cells show now that another one has changed it."""
        changed, self._showing.changed = self._showing.changed, {}
        for cell_id, by in changed.items():
            entry, shown = self._entries.get(cell_id), self._showing.of(cell_id)
            if entry is not None and shown is not None:
                run = entry["run"]
                updated = sorted({*run.get("updated_by", ()), *([by] if by else [])})
                run = {**run, "shown": shown.hash(), "updated_by": updated}
                self._keep({**entry, "at": times.now(), "run": run})

    def _shown_by(self, others: list[str]) -> dict[str, str | None]:
        """Return the digests of what other cells show, as far as the notebook or we know."""
        if not others:
            return {}
        found: dict[str, str | None] = dict.fromkeys(others)
        try:
            whole = notebook.read_whole(self._where.path)
        except (RlmnbError, OSError):
            return found
        for cell in whole["cells"]:
            if cell.get("id") in found:
                record = cell["metadata"].get("rlmnb")
                known = record.get("output_hash") if isinstance(record, dict) else None
                found[cell["id"]] = known or output_hash(cell.get("outputs") or [])
        # What was run here will be saved as it is shown.
        ran = {each: self._entries[each]["run"]["shown"] for each in found if each in self._entries}
        return found | ran

    # keeping

    def write(self) -> None:
        """Have on disk whatever belongs to cells that are saved; the others wait for the save."""
        if os.getpid() != self._process:
            return  # a child that was forked off
        with self._writing:
            with self._lock:
                waiting = dict(self._waiting)
            ids = {key[0] for key in waiting}
            found = self._where.find(ids) if waiting else None
            if found is not None:
                place, held = found
                ready = {key: entry for key, entry in waiting.items() if key[0] in held}
                self._write(place, sorted(ready.values(), key=lambda entry: str(entry["at"])))
                with self._lock:
                    for key, entry in ready.items():
                        if self._waiting.get(key) is entry:
                            del self._waiting[key]
            elif waiting and self._where.lost:
                self._complain(f"{self._where.path} is gone, so nothing that is run is recorded")
            watch = bool(self._waiting) and not self._watching
            self._watching = self._watching or watch
        if watch:
            _thread.start_new_thread(self._wait_for_saves, ())

    def _write(self, place: Place, entries: list[dict[str, Any]]) -> None:
        if self._written_to not in (None, place.notebook):
            # It was renamed: what was run before is known there under its old name only.
            new = {entry["cell_id"] for entry in entries}
            known = [each for each in list(self._entries.values()) if each["cell_id"] not in new]
            entries = [*known, *entries]
        try:
            byhand.add(place, entries)
            self._written_to = place.notebook
        except (RlmnbError, OSError) as error:
            self._complain(f"what is run by hand cannot be recorded: {error}")

    def _complain(self, message: str) -> None:
        if not self._told:
            self._told = True
            self._tell(message)

    def _wait_for_saves(self) -> None:
        """Look now and then whether cells have been saved that were run before."""
        self._ignore()
        pause, longest = _WAIT_SECONDS
        seen: object = None
        while self._waiting:
            time.sleep(_LOST_SECONDS if self._where.lost else pause)
            pause = min(pause * 1.5, longest)
            try:
                status = os.stat(self._where.path)
                now = (status.st_ino, status.st_size, status.st_mtime_ns)
            except OSError:
                now = None
            if now != seen:
                seen, pause = now, _WAIT_SECONDS[0]
                self.write()
        self._watching = False


def _found(trace: Mapping[str, Any]) -> list[str]:
    """Return the variables that a cell has read, and the keys of state that it can have."""
    sets = {key for keys in trace.get("sets", {}).values() for key in keys}
    only = trace.get("only", {})
    return [name.lstrip("~") for name in trace["reads"]] + [
        name
        for name in trace.get("found", ())
        if name not in sets and name in only.get(state_of(name), [name])
    ]


def _dependencies(metadata: Mapping[str, Any]) -> list[str]:
    """Return the cells that a cell's record names as its dependencies."""
    record = metadata.get("rlmnb")
    edges = record.get("dependencies") if isinstance(record, dict) else None
    return [
        edge["cell_id"]
        for edge in (edges if isinstance(edges, list) else ())
        if isinstance(edge, dict) and is_nbformat_id(edge.get("cell_id"))
    ]
