"""What each cell shows, heard from what the kernel sends, as a front end will keep it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from rlmnb.format.shown import shown_hash
from rlmnb.jsontext import portable

_KINDS = frozenset(
    {"stream", "display_data", "execute_result", "error", "clear_output", "update_display_data"}
)
_HIDDEN = "········"  # what JupyterLab shows in the place of a password


class Shown:
    """The outputs of one run of a cell."""

    def __init__(self, cell_id: str) -> None:
        self.cell_id = cell_id
        self.outputs: list[dict[str, Any]] = []
        self.displays: dict[str, list[int]] = {}
        # Displays of other cells that this run has changed.
        self.updates: set[str] = set()
        self._clear_next = False

    def add(self, output: dict[str, Any], display_id: str | None = None) -> None:
        """Show one more output."""
        if self._clear_next:
            self.clear()
        if display_id is not None:
            self.displays.setdefault(display_id, []).append(len(self.outputs))
        self.outputs.append(output)

    def clear(self, *, wait: bool = False) -> None:
        """Show nothing any more; with `wait`, from the next output on."""
        self._clear_next = wait
        if not wait:
            self.outputs, self.displays = [], {}

    def change(self, display_id: str, content: Mapping[str, Any]) -> bool:
        """Show a display anew; tell whether it is one of these outputs."""
        for at in self.displays.get(display_id, ()):
            self.outputs[at] = {
                "output_type": "display_data",
                "data": content.get("data"),
                "metadata": content.get("metadata"),
            }
        return display_id in self.displays

    def hash(self) -> str:
        """Return the digest of all that is shown."""
        return shown_hash(portable(self.outputs))

    def places(self) -> dict[str, list[int]]:
        """Return where displays stand once the pieces of streams are put together."""
        found, at, last = [], -1, None
        for output in self.outputs:
            name = output.get("name") if output["output_type"] == "stream" else None
            at += name is None or name != last
            last = name
            found.append(at)
        return {each: [found[place] for place in at] for each, at in self.displays.items()}


class Showing:
    """Listens to what a kernel sends, and knows what the last run of each cell shows."""

    def __init__(self, session: Any) -> None:
        # By the request that each answers; streams come from another thread.
        self._by_request: dict[str, Shown] = {}
        self._latest: dict[str, str] = {}
        self._lock = threading.Lock()
        # Cells whose outputs have changed since somebody asked, without running.
        self.changed: dict[str, str] = {}
        self._listen(session)

    def _listen(self, session: Any) -> None:
        send = session.send

        def heard(stream: Any, msg_or_type: Any, *args: Any, **options: Any) -> Any:
            sent = send(stream, msg_or_type, *args, **options)
            kind = msg_or_type if isinstance(msg_or_type, str) else msg_or_type.get("msg_type")
            if kind in _KINDS and isinstance(sent, dict):
                with self._lock:
                    self._hear(str(kind), sent)
            return sent

        session.send = heard

    def begin(self, request: str, cell_id: str) -> None:
        """Expect the outputs of a cell that is about to run; what it showed before is gone."""
        with self._lock:
            self._by_request.pop(self._latest.get(cell_id, ""), None)
            self._by_request[request] = Shown(cell_id)
            self._latest[cell_id] = request

    def end(self, request: str, payload: Any) -> Shown | None:
        """Return what a cell has shown."""
        with self._lock:
            shown = self._by_request.get(request)
            if shown is None:
                return None
            pages = [each for each in payload or () if each.get("source") == "page"]
            if pages:
                shown.add({"output_type": "display_data", "data": pages[0]["data"], "metadata": {}})
            if not shown.displays:
                del self._by_request[request]  # nobody can change it any more
            return shown

    def typed(self, request: str, prompt: str, value: str, *, password: bool) -> None:
        """Show what a person has typed."""
        with self._lock:
            shown = self._by_request.get(request)
            if shown is not None:
                text = f"{prompt} {_HIDDEN if password else value}\n"
                shown.add({"output_type": "stream", "name": "stdin", "text": text})

    def _hear(self, kind: str, message: Mapping[str, Any]) -> None:
        request = str((message.get("parent_header") or {}).get("msg_id"))
        shown = self._by_request.get(request)
        content = message["content"]
        if kind == "update_display_data":
            self._update(shown, content)
        elif shown is None:
            return
        elif kind == "clear_output":
            shown.clear(wait=bool(content.get("wait")))
        else:
            plain = {key: value for key, value in content.items() if key != "transient"}
            display_id = (content.get("transient") or {}).get("display_id")
            shown.add({"output_type": kind, **plain}, display_id)

    def _update(self, by: Shown | None, content: Mapping[str, Any]) -> None:
        display_id = str((content.get("transient") or {}).get("display_id"))
        for other in self._by_request.values():
            if other.change(display_id, content) and other is not by:
                self.changed[other.cell_id] = by.cell_id if by is not None else ""
                if by is not None:
                    by.updates.add(display_id)

    def of(self, cell_id: str) -> Shown | None:
        """Return what the last run of a cell shows, if it may still change."""
        return self._by_request.get(self._latest.get(cell_id, ""))
