"""Notebooks that are open as live documents: the server holds their leases and feeds them.

While a document is live, hooks and replays write the journal only. A few times a second the server
looks whether the journal has grown and lets the document have the news, then has it saved. A server
that dies takes its leases with it: whoever writes next brings the notebook up to date.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rlmnb.errors import RlmnbError
from rlmnb.lab import document, outside, persisting
from rlmnb.lab.confining import Confines, is_ours
from rlmnb.lab.trusting import Trust, unmarked
from rlmnb.lab.watching import Version, version_of
from rlmnb.store import fold, journal, lease, notebook
from rlmnb.store.layout import Place, notebook_place

_PAUSE = 0.2
_BEAT_SECONDS = 1.0
_SAVE_SECONDS = 0.3
_SAVE_SHARE = 3.0
_FOLD_SECONDS = 5.0
_WHO = "a Jupyter server"


@dataclass
class Room:
    """A notebook that people have open together, and what we know of it."""

    place: Place
    room_id: str
    room: Any
    since: float = field(default_factory=time.time)
    beat: float = float("-inf")
    journal: Version = None
    taken_in: int = -1
    unsaved: bool = False
    saving: asyncio.Task[None] | None = None
    save_began: float = 0.0
    save_ended: float = 0.0
    # The notebook as it was last known to be on disk.
    base: dict[str, Any] = field(default_factory=dict)

    def may_save(self) -> bool:
        """Tell whether it is time for another save: the longer they take, the rarer they are."""
        if self.saving is not None:
            return False
        pause = max(_SAVE_SECONDS, _SAVE_SHARE * (self.save_ended - self.save_began))
        return time.monotonic() - self.save_ended > pause

    def save(self, task: asyncio.Task[None] | None) -> None:
        """Take down that a save is under way, and when it has ended; nothing if there is none."""
        self.saving, self.save_began = task, time.monotonic()
        if task is None:
            self.save_ended = self.save_began
        else:
            task.add_done_callback(self._saved)

    def _saved(self, _: asyncio.Task[None]) -> None:
        self.saving, self.save_ended = None, time.monotonic()


class Live:
    """The live documents of one server."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        confines: Confines,
        trust: Trust,
        log: logging.Logger,
    ) -> None:
        self._settings = settings
        self._trust = trust
        self._confines = confines
        # Of its own: requests may wait for a document to be fed, and must not keep it from that.
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="rlmnb-live")
        self._log = log
        # The notebooks that are open, and those of them whose lease is ours.
        self._known: dict[str, Room] = {}
        self._held: dict[str, Room] = {}

    def holds(self, place: Place) -> bool:
        """Tell whether a notebook is a live document of ours."""
        return place.notebook in self._held

    def saves(self, place: Place, content: dict[str, Any]) -> None:
        """Remember what goes to disk, to know it from what others write there."""
        held = self._held.get(place.notebook)
        if held is not None:
            held.base = unmarked(content)

    async def run(self) -> None:
        """Look after live documents for as long as the server runs."""
        while self._settings.get("jupyter_server_ydoc") is not None:
            await asyncio.sleep(_PAUSE)
            found = self._rooms()
            self._known = {name: each for name, each in self._known.items() if name in found}
            for name in [each for each in self._held if each not in found]:
                await self._aside(_let_go, self._held.pop(name).place)
            for name, room in found.items():
                try:
                    await self._tend(name, *room)
                except (RlmnbError, OSError, RuntimeError, LookupError, TypeError, ValueError):
                    if not self._is_serving():
                        break  # the server ended meanwhile, and its documents with it
                    # A lease that is not renewed ends by itself: nothing is lost meanwhile.
                    self._log.exception("rlmnb: a live document could not be looked after")
                    self._held.pop(name, None)
                    self._known.pop(name, None)
                    await asyncio.sleep(_BEAT_SECONDS)

    async def _tend(self, name: str, place: Place, room_id: str, room: Any) -> None:
        held = self._known.get(name)
        if held is None or held.room is not room:
            held = self._known[name] = Room(place, room_id, room)
            explained = partial(self._explained, held)
            outside.guard(room, room_id, explained)
            persisting.see_through(room, explained)
        # Before the lease: what is written from then on is judged by it.
        if not held.base and not await self._note_base(held):
            return  # it is not there yet, and there is nothing in it to be lost
        if not await self._keep(held):
            self._held.pop(name, None)
            return
        self._held[name] = held
        news = outside.unheard(room, place)
        if news is not None and await self._explained(held):
            outside.acknowledge(room, news)
        await self._feed(held)

    async def _note_base(self, held: Room) -> bool:
        """Take down what the document was made of; False while it is not there."""
        live = await self._document(held)
        if live is None:
            return False
        if outside.unheard(held.room, held.place) is None:
            held.base = await self._aside(notebook.read_whole, held.place.notebook)
        else:
            held.base = unmarked(document.whole(live))  # somebody has written the file since
        return True

    async def _document(self, held: Room) -> Any:
        """Return a live document, None while it is being filled from the file."""
        if not held.room.ready or _is_loading(held.room):
            return None
        shared = self._settings["jupyter_server_ydoc"]
        return await shared.get_document(room_id=held.room_id, copy=False)

    async def _explained(self, held: Room) -> bool:
        return bool(
            self._held.get(held.place.notebook) is held
            and await self._aside(outside.is_explained, held.place, held.base)
        )

    @property
    def _serving(self) -> Any:
        shared = self._settings.get("jupyter_server_ydoc")
        return getattr(shared, "ywebsocket_server", None)

    def _is_serving(self) -> bool:
        """Tell whether documents are still served; they are given up before the server ends."""
        return bool(getattr(self._serving, "running", True))

    def _rooms(self) -> dict[str, tuple[Place, str, Any]]:
        """Return the rooms in which a notebook of ours is open."""
        paths = self._settings.get("file_id_manager")
        if paths is None or not self._is_serving():
            return {}  # a server that is about to end gives its documents up before it does
        rooms = getattr(self._serving, "rooms", {})
        found = {}
        for room_id, room in list(rooms.items()):
            kind, _, file_id = str(room_id).partition(":notebook:")
            path = paths.get_path(file_id) if kind == "json" and file_id else None
            if path is None or not path.endswith(".ipynb"):
                continue
            place = notebook_place(self._confines.on_disk(path))
            if is_ours(place):
                found[place.notebook] = (place, str(room_id), room)
        return found

    async def _keep(self, held: Room) -> bool:
        """Take the lease, or renew it in time; False if another server has it."""
        now = time.monotonic()
        if now - held.beat < _BEAT_SECONDS:
            return True
        if now - held.beat < lease.SECONDS / 2:
            await self._aside(lease.renew, held.place, _WHO, held.since)
        elif not await self._aside(lease.take, held.place, _WHO):
            return False
        held.beat = now
        return True

    async def _feed(self, held: Room) -> None:
        """Let a document have what the journal has and it has not."""
        live = await self._document(held)
        if live is None:
            return
        version = version_of(held.place.journal)
        appended = document.appended_in(live)
        if version != held.journal or appended != held.taken_in:
            entries = await self._aside(fold.sound_entries, held.place.journal, appended)
            if entries and not _is_loading(held.room):
                same = document.appended_in(live) == held.taken_in
                news = [self._trust.marked(entry) for entry in entries]
                document.take_in(live, news, held.place, as_we_left_it=same)
                held.unsaved = True
            held.journal = version
            held.taken_in = document.appended_in(live)
        if held.unsaved and held.may_save():
            held.unsaved = False
            held.save(_save(held.room))

    async def flush(self, place: Place) -> None:
        """Let the disk have what people have typed so far."""
        held = self._held.get(place.notebook)
        saving = _save(held.room) if held is not None else None
        if saving is not None:
            await asyncio.wait([saving], timeout=_FOLD_SECONDS)

    async def _aside(self, work: Any, *given: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *given)


def _is_loading(room: Any) -> bool:
    """Tell whether the document is just being filled from the file."""
    lock = getattr(room, "_update_lock", None)
    return lock is not None and lock.locked()


def _save(room: Any) -> asyncio.Task[None] | None:
    """Have a document saved now, instead of once nobody has typed for a second.

    Versions that cannot be asked have a save under way whenever there is something to save.
    """
    save = getattr(room, "_save_to_disc", None)
    under_way: asyncio.Task[None] | None = getattr(room, "_saving_document", None)
    return save() if save is not None else under_way


def _let_go(place: Place) -> None:
    """Give the lease back, and bring in what came too late for the document."""
    if os.path.isdir(place.directory):
        lease.give_back(place)
        fold.fold(place, journal.last_seq(place.journal), timeout=_FOLD_SECONDS)
