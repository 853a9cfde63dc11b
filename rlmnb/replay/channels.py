"""How a kernel of ours is reached and ended: as soon as it listens, and no later than it is gone.

jupyter_client looks ten times a second whether a socket is there yet and whether a process is gone
by now, and listens for a fifth of a second whether a kernel that is ready has anything more to say.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from queue import Empty
from typing import Any

import zmq
import zmq.asyncio
from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.manager import AsyncKernelManager
from jupyter_core.utils import ensure_async
from traitlets import Type, default

_RECONNECT_MS = 10
_LOOK_SECONDS, _HEAR_SECONDS, _END_SECONDS = 1.0, 0.1, 0.01


class Channels(AsyncKernelClient):
    """A client that knows a kernel is ready when it answers and what it says to all is heard."""

    async def wait_for_ready(self, timeout: float | None = None) -> None:
        """Wait; a kernel that is gone or says nothing is the RuntimeError that nbclient expects."""
        end = time.monotonic() + (timeout if timeout is not None else float("inf"))
        while time.monotonic() < end:
            message = self.kernel_info()
            if not await self._answered(message, end):
                break
            if await self._heard(message):
                return
        raise RuntimeError(f"Kernel didn't respond in {timeout:g} seconds")

    async def _answered(self, message: str, end: float) -> bool:
        while (left := end - time.monotonic()) > 0:
            reply = await _next(self.get_shell_msg, min(left, _LOOK_SECONDS))
            if reply is not None and reply["parent_header"].get("msg_id") == message:
                return True
            if reply is None and self.parent and not await ensure_async(self.parent.is_alive()):
                raise RuntimeError("Kernel died before replying to kernel_info")
        return False

    async def _heard(self, message: str) -> bool:
        """Take in what the kernel says until it is idle again, or nothing more comes."""
        while (said := await _next(self.get_iopub_msg, _HEAR_SECONDS)) is not None:
            idle = said["content"].get("execution_state") == "idle"
            if idle and said["parent_header"].get("msg_id") == message:
                return True
        return False


async def _next(
    get: Callable[..., Awaitable[dict[str, Any]]], timeout: float
) -> dict[str, Any] | None:
    try:
        return await get(timeout=timeout)
    except Empty:
        return None


class Manager(AsyncKernelManager):
    """Starts a kernel and ends it without waiting for longer than either takes."""

    client_factory = Type(klass=AsyncKernelClient, default_value=Channels)

    @default("context")
    def _context_default(self) -> zmq.asyncio.Context:
        context = super()._context_default()
        context.setsockopt(zmq.RECONNECT_IVL, _RECONNECT_MS)
        return context

    async def _async_finish_shutdown(
        self,
        waittime: float | None = None,
        pollinterval: float = _END_SECONDS,
        restart: bool = False,
    ) -> None:
        await super()._async_finish_shutdown(waittime, pollinterval, restart)

    finish_shutdown = _async_finish_shutdown
