"""The replays of a server: each in a process of its own, one at a time for each notebook."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rlmnb.errors import LockTimeoutError, SessionNotFoundError
from rlmnb.files import Lock
from rlmnb.lab.bell import Bell
from rlmnb.store.layout import Place

_MOST_KEPT = 50
_MOST_AT_ONCE = 4
_LONGEST_LINE = 256 * 1024 * 1024
_GRACE_SECONDS = 15.0

Told = tuple[str, dict[str, Any]]


@dataclass
class Replay:
    """One replay: what it has told so far, and who listens to the rest."""

    id: str
    place: Place
    told: list[Told] = field(default_factory=list)
    running: set[str] = field(default_factory=set)
    process: asyncio.subprocess.Process | None = None

    @property
    def over(self) -> bool:
        """Tell whether it has come to its end."""
        return bool(self.told) and self.told[-1][0] in ("done", "error")


class Replays:
    """Starts replays, remembers what they told, and ends them when asked to."""

    def __init__(self, bell: Bell, ended: Callable[[Replay], None]) -> None:
        self._bell = bell
        self._ended = ended
        self._known: dict[str, Replay] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def find(self, name: str) -> Replay:
        """Return a replay by its id."""
        if name not in self._known:
            raise SessionNotFoundError(
                "there is no such replay", hint="it ended long ago, or the server was restarted"
            )
        return self._known[name]

    def running_in(self, place: Place) -> frozenset[str]:
        """Return the cells of a notebook that run now."""
        return frozenset(
            cell
            for each in self._known.values()
            if each.place.notebook == place.notebook and not each.over
            for cell in each.running
        )

    def start(self, place: Place, **asked: Any) -> Replay:
        """Begin a replay, unless there is one of this notebook already."""
        self._refuse_second(place)
        replay = Replay(secrets.token_hex(8), place)
        self._known[replay.id] = replay
        for old in [each.id for each in self._known.values() if each.over][:-_MOST_KEPT]:
            del self._known[old]
        task = asyncio.get_running_loop().create_task(self._run(replay, asked))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return replay

    def _refuse_second(self, place: Place) -> None:
        going_on = [each for each in self._known.values() if not each.over]
        if any(each.place.notebook == place.notebook for each in going_on):
            raise LockTimeoutError(
                "a replay of this notebook is running", hint="wait for it, or interrupt it"
            )
        if len(going_on) >= _MOST_AT_ONCE:
            raise LockTimeoutError(
                f"{len(going_on)} replays are running, which is the most at a time",
                hint="wait for one of them",
            )
        path = os.path.join(place.directory, ".replay.lock")
        if os.path.isfile(path):
            lock = Lock(path, timeout=0)
            free = lock.attempt()
            lock.release()
            if not free:
                raise LockTimeoutError(
                    "another program replays this notebook", hint="wait for it to finish"
                )

    async def _run(self, replay: Replay, asked: dict[str, Any]) -> None:
        try:
            replay.process = process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-P", "-m", "rlmnb.lab.runner"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=_LONGEST_LINE,
            )
            assert process.stdin is not None
            assert process.stdout is not None
            wanted = json.dumps({"notebook": replay.place.notebook, **asked})
            process.stdin.write(wanted.encode() + b"\n")
            async for line in process.stdout:
                self._hear(replay, line)
            code = await process.wait()
        except OSError as error:
            code = error.errno or 1
        if not replay.over:
            message = f"the replay ended without a word (exit code {code})"
            self._tell(replay, "error", {"message": message, "hint": "see the server's log"})
        self._ended(replay)

    def _hear(self, replay: Replay, line: bytes) -> None:
        try:
            event, told = json.loads(line)
        except ValueError:
            return  # a library's own print; not part of the conversation
        if event == "progress":
            if told["state"] == "running":
                replay.running = {told["cell_id"]}
            else:
                replay.running.discard(told["cell_id"])
        self._tell(replay, event, told)

    def _tell(self, replay: Replay, event: str, told: dict[str, Any]) -> None:
        replay.told.append((event, told))
        self._bell.ring(replay.id, event, told)

    def interrupt(self, replay: Replay) -> None:
        """Ask a replay to end; what has run by now is kept."""
        process = replay.process
        if replay.over or process is None or process.returncode is not None:
            return
        process.send_signal(signal.SIGINT)

        def insist() -> None:
            if process.returncode is None:
                process.kill()

        asyncio.get_running_loop().call_later(_GRACE_SECONDS, insist)
