"""Documents that people have open together: when they are saved."""

from __future__ import annotations

import asyncio

from rlmnb.lab.live import Room
from rlmnb.store.layout import notebook_place


def test_how_long_a_save_took_does_not_grow_until_somebody_asks(tmp_path):
    place = notebook_place(str(tmp_path / "nb.ipynb"))

    async def save_and_ask_later() -> None:
        room = Room(place, "room", None)
        room.save(asyncio.create_task(asyncio.sleep(0)))
        assert not room.may_save()
        assert room.saving is not None
        await room.saving
        while room.saving is not None:
            await asyncio.sleep(0)
        ended = room.save_ended
        assert ended >= room.save_began
        room.may_save()
        assert room.save_ended == ended

    asyncio.run(save_and_ask_later())
