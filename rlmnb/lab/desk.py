"""What the requests of one server share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rlmnb.lab.bell import Bell
from rlmnb.lab.confining import Confines
from rlmnb.lab.live import Live
from rlmnb.lab.news import News
from rlmnb.lab.replays import Replay, Replays
from rlmnb.lab.trusting import Trust
from rlmnb.lab.watching import Watcher
from rlmnb.store.layout import Place


class Desk:
    """Where requests go: the root they may see, what runs, who listens."""

    def __init__(
        self,
        root: str,
        loop: asyncio.AbstractEventLoop,
        settings: Mapping[str, Any],
        trust: Trust,
        log: logging.Logger,
    ) -> None:
        self.confines = Confines(root)
        self.threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="rlmnb-lab")
        self.bell = Bell()
        self.watcher = Watcher(loop)
        self.replays = Replays(self.bell, self._ended)
        self.live = Live(settings, self.confines, trust, log)
        self.news = News(self.bell, self.watcher, self.threads, self.replays.running_in)

    def is_live(self, place: Place) -> bool:
        """Tell whether a notebook is open as a live document here."""
        return self.live.holds(place)

    def _ended(self, replay: Replay) -> None:
        event, told = replay.told[-1]
        self.news.replayed(replay.place, {"id": replay.id, "result": event, **_short(told)})


def _short(told: dict[str, object]) -> dict[str, object]:
    keys = ("executed", "failed", "skipped", "seconds", "message", "hint")
    return {key: told[key] for key in keys if key in told}
