"""Server-sent events: what happens, as it happens, over one long answer."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tornado.iostream import StreamClosedError

from rlmnb.lab.bell import Heard
from rlmnb.lab.endpoint import Endpoint

# Proxies close what has been silent for a minute.
_HEARTBEAT_SECONDS = 15.0


class Stream(Endpoint):
    """A request that is answered bit by bit, until either side has had enough."""

    _track_activity = False

    def on_connection_close(self) -> None:
        """Stop waiting for news that nobody wants."""
        super().on_connection_close()
        self._gone.set()

    def initialize(self, *args: Any, **kwargs: Any) -> None:
        """Take what the requests share."""
        super().initialize(*args, **kwargs)
        self._gone = asyncio.Event()

    def begin(self) -> None:
        """Say what kind of answer this is."""
        self.set_header("Content-Type", "text/event-stream; charset=utf-8")
        self.set_header("Cache-Control", "no-cache, no-transform")
        self.set_header("X-Accel-Buffering", "no")

    async def send(self, event: str, told: dict[str, Any]) -> None:
        """Send one event; its data is one line of JSON."""
        self.write(f"event: {event}\ndata: {json.dumps(told)}\n\n")
        await self._flushed()

    async def _flushed(self) -> None:
        try:
            await self.flush()
        except StreamClosedError:
            self._gone.set()

    async def next_of(self, queue: asyncio.Queue[Heard | None]) -> Heard | None:
        """Return what is heard next; None if that is the end, or whoever asked has gone."""
        gone = asyncio.ensure_future(self._gone.wait())
        news = asyncio.ensure_future(queue.get())
        try:
            while not self._gone.is_set():
                done, _ = await asyncio.wait(
                    (gone, news), timeout=_HEARTBEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
                if news in done:
                    return news.result()
                if not done:
                    self.write(": still here\n\n")
                    await self._flushed()
            return None
        finally:
            gone.cancel()
            news.cancel()

    def end(self) -> None:
        """Close the answer."""
        if not self._gone.is_set() and not self._finished:
            self.finish(set_content_type="text/event-stream; charset=utf-8")
