"""Saves of a live document that somebody waits for: once they end, what was there is on disk.

jupyter-collaboration gives a save up whenever the document changes, and then tells the person who
asked for it that it was done, or tells nothing, and they wait for ever; while the file is let in,
it refuses one, which is a dialog for them. Where an agent appends, documents change all the time.
So a save that is asked for is one that nothing ends.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from weakref import WeakSet


def see_through(room: Any, explained: Callable[[], Awaitable[bool]]) -> None:
    """Let saves be done to their end; a version of the library that works otherwise is let be."""
    save = getattr(room, "_maybe_save_document", None)
    if not (
        save is not None
        and "save_now" in inspect.signature(save).parameters
        and hasattr(room, "_save_to_disc")
        and hasattr(getattr(room, "_file", None), "maybe_save_content")
    ):
        return
    writing: WeakSet[asyncio.Task[Any]] = WeakSet()
    room._file.maybe_save_content = partial(
        _written, room._file.maybe_save_content, explained, writing
    )
    room._save_to_disc = lambda: asyncio.create_task(_saved(room, writing))


async def _written(
    write: Callable[[dict[str, Any]], Awaitable[Any]],
    explained: Callable[[], Awaitable[bool]],
    writing: WeakSet[asyncio.Task[Any]],
    model: dict[str, Any],
) -> Any:
    """Write over what the journal has anyway; let in what somebody else wrote, as ever."""
    from jupyter_server_ydoc.utils import OutOfBandChanges

    task = asyncio.current_task()
    assert task is not None  # all that is awaited here is awaited in one
    writing.add(task)
    while True:
        try:
            return await write(model)
        except OutOfBandChanges:
            # The version that was found counts as known from now on: a later one is found again.
            if not await explained():
                raise


async def _saved(room: Any, writing: WeakSet[asyncio.Task[Any]]) -> None:
    async with room._update_lock:
        pass  # while it is held, the document is filled from the file
    # The save that waits until nobody has typed for a while need not be done, too. One that is
    # past that is let be: it may be about to let in what somebody else wrote.
    waiting = room._saving_document
    superseded = waiting if waiting is not None and waiting not in writing else None
    await room._maybe_save_document(superseded, save_now=True)
