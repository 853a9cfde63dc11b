"""A kernel that is started, watched and ended by us, with nbclient to talk to it."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import copy
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from queue import Empty
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpec
from jupyter_core.utils import ensure_async
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError

from rlmnb.errors import KernelError, StorageError
from rlmnb.files import remove_tree
from rlmnb.kernel.asked import LEFT_OVER, NUMBER
from rlmnb.processes import is_alive
from rlmnb.replay.channels import Channels, Manager
from rlmnb.store.layout import Place

START_SECONDS = 30
ATTACH_SECONDS = 10
# How long a kernel may take to bring what is asked of it, and how often to see whether it lives.
_ANSWER_SECONDS, _LOOK_SECONDS = 600, 1
# On Windows a kernel is reached by TCP on this machine, and would warn of that at each start.
_QUIETLY = ("--log-level=40",) if os.name == "nt" else ()
_PREFIX = "rlmnb-kernel-"
# The system takes 107 characters for the path of a socket, of which ours are at most 45.
_LONGEST = 60


class _Client(NotebookClient):
    """nbclient, which watches a kernel no longer than somebody waits for a cell."""

    async def _async_poll_kernel_alive(self) -> None:
        reply = self.task_poll_for_reply
        assert reply is not None
        # Its own goes on after an interrupt, and then complains of the kernel that we have ended.
        while not (await asyncio.wait([reply], timeout=_LOOK_SECONDS))[0]:
            try:
                await self._async_check_alive()
            except DeadKernelError:
                reply.cancel()


class ManagedKernel:
    """A running kernel. `run` executes one cell the way nbclient does."""

    def __init__(self, client: NotebookClient, timeout: float | None = None) -> None:
        self._client = client
        self._timeout = timeout
        self._trace: dict[str, Any] | None = None
        # Cells whose outputs the last run changed without running them, and by which display.
        self.changed: set[int] = set()
        self._updates: set[str] = set()
        self._running = -1
        # Variables that the kernel is told to take away with the next that is asked of it.
        self.left_over: list[str] = []
        # What the kernel is told with a cell, and whoever wants to hear of each run.
        self.about: Callable[[int], dict[str, Any]] = lambda _: {}
        self.heard: Callable[[int, dict[str, Any]], None] = lambda *_: None
        client.on_cell_executed = self._executed
        self._update_display = client._update_display_id
        setattr(client, "_update_display_id", self._updated)  # noqa: B010 - it has no other door
        self.numbers = _in_full_run(client.nb.cells)
        assert client.kc is not None
        self._send = client.kc.shell_channel.send
        setattr(client.kc.shell_channel, "send", self._sent)  # noqa: B010 - as above

    def _sent(self, message: dict[str, Any]) -> Any:
        """Tell the kernel the number a cell would have if all of them ran: tracebacks show it."""
        if message["msg_type"] == "execute_request" and not message["content"]["silent"]:
            message["metadata"][NUMBER] = self.numbers[self._running]
            message["metadata"][LEFT_OVER], self.left_over = self.left_over, []
            # As JupyterLab does, it says which cell this is.
            message["metadata"] |= self.about(self._running)
        return self._send(message)

    def _updated(self, display_id: str, message: dict[str, Any]) -> None:
        shown = set(self._client._display_id_map.get(display_id, ())) - {self._running}
        if shown:
            self.changed |= shown
            self._updates.add(display_id)
        self._update_display(display_id, message)

    def shows(self, index: int, displays: dict[str, list[int]]) -> None:
        """Know where a cell that is not run shows its displays."""
        if displays:
            # A later cell may change what this one shows, and the notebook is not ours to change.
            self._client.nb.cells[index] = copy.deepcopy(self._client.nb.cells[index])
        for display_id, outputs in displays.items():
            self._client._display_id_map.setdefault(display_id, {})[index] = list(outputs)

    def cell(self, index: int) -> Any:
        """Return a cell as it is now."""
        return self._client.nb.cells[index]

    def _executed(self, cell: Any, cell_index: int, execute_reply: dict[str, Any]) -> None:  # noqa: ARG002
        self._trace = execute_reply["metadata"].get("rlmnb")

    async def run(self, index: int) -> tuple[Any, dict[str, Any] | None, str | None]:
        """Run a cell; return it with its outputs, its trace, and the error it ended with."""
        self._trace = None
        self._running, self.changed, self._updates = index, set(), set()
        cell = self._client.nb.cells[index] = _as_node(self._client.nb.cells[index])
        error = None
        began = time.monotonic()
        try:
            await self._client.async_execute_cell(cell, index)
        except CellExecutionError as failure:
            error = f"{failure.ename}: {failure.evalue}"
            limit = self._timeout
            if failure.ename == "KeyboardInterrupt" and limit and time.monotonic() - began > limit:
                error = f"ran for longer than the timeout of {limit:g} s"
        except DeadKernelError as failure:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                # It was we who were interrupted: nbclient takes that for a kernel that died.
                raise asyncio.CancelledError from None
            raise KernelError(
                f"the kernel died while cell {cell.id} was running; what was done before is kept",
                hint="if the cell itself ends the kernel, edit it or tag it skip-execution; "
                "then run the replay again",
            ) from failure
        trace: dict[str, Any] | None = self._trace  # set meanwhile, by nbclient's call
        if trace is not None:
            self.heard(index, trace)
            trace |= self._displays(index)
        return cell, trace, error

    def _displays(self, index: int) -> dict[str, Any]:
        shows = {
            display_id: list(where[index])
            for display_id, where in self._client._display_id_map.items()
            if index in where
        }
        found = {"shows": shows, "updates": sorted(self._updates)}
        return {key: value for key, value in found.items() if value}

    def widgets(self) -> dict[str, Any] | None:
        """Return the state of the widgets that cells have made, None if they have made none."""
        self._client.set_widgets_metadata()
        if not self._client.widget_state:
            return None
        return dict(self._client.nb.metadata.widgets)

    async def restore(
        self,
        wanted: list[dict[str, Any]],
        absent: list[str],
        sources: dict[str, str],
        numbers: dict[str, int],
    ) -> tuple[list[str], list[str]]:
        """Bring variables to these versions; return the digests that could not be had.

        Also return the variables that are no longer what they were because of it.
        """
        absent, self.left_over = [*self.left_over, *absent], []
        asked = {"wanted": wanted, "absent": absent, "sources": sources, "numbers": numbers}
        found = await self.ask("restore_state", asked)
        return found["failed"], found["outdated"]

    async def ask(self, method: str, request: Any) -> Any:
        """Have the kernel do something that is no cell, and return its answer."""
        call = f"get_ipython().kernel.{method}({json.dumps(request)!r})"
        client, process = self._client.kc, self._client.km
        assert client is not None
        assert process is not None
        message = client.execute("", silent=True, user_expressions={"answer": call})
        reply = await _reply(client, message, process.is_alive)
        answer = reply["content"]["user_expressions"]["answer"]
        if answer["status"] != "ok":
            raise KernelError(f"the kernel could not do {method}: {answer.get('evalue')}")
        return json.loads(_unquoted(answer["data"]["text/plain"]))


def _in_full_run(cells: list[Any]) -> list[int]:
    """Return for each cell the execution count that nbclient would give it in a full run."""
    numbers, count = [], 1
    for cell in cells:
        numbers.append(count)
        skipped = "skip-execution" in cell["metadata"].get("tags", ())
        count += (
            cell["cell_type"] == "code" and bool("".join(cell["source"]).strip()) and not skipped
        )
    return numbers


def _unquoted(text: str) -> str:
    import ast

    return str(ast.literal_eval(text))


async def _reply(
    client: Any, message: str, is_alive: Callable[[], Awaitable[bool] | bool]
) -> dict[str, Any]:
    """Wait for the answer of a kernel, for as long as it lives."""
    end = time.monotonic() + _ANSWER_SECONDS
    while time.monotonic() < end:
        try:
            reply: dict[str, Any] = await client.get_shell_msg(timeout=_LOOK_SECONDS)
        except Empty:
            if await ensure_async(is_alive()):
                continue
            raise KernelError(
                "the kernel died while variables were brought to it; what was done before is kept",
                hint="run the replay again",
            ) from None
        if reply["parent_header"].get("msg_id") == message:
            return reply
    raise KernelError(f"the kernel did not answer in {_ANSWER_SECONDS} s")


class _Process:
    """What nbclient wants to do with a kernel that it did not start."""

    has_kernel = True

    def __init__(self, pid: int, is_alive: Callable[[], bool]) -> None:
        self._pid = pid
        self.is_alive = is_alive

    def interrupt_kernel(self) -> None:
        os.kill(self._pid, signal.SIGINT)


@asynccontextmanager
async def attached_kernel(
    notebook: Any,
    *,
    connection_file: str,
    pid: int,
    is_alive: Callable[[], bool],
    timeout: float | None,
) -> AsyncIterator[ManagedKernel]:
    """Talk to a kernel that runs already, and leave it running.

    If the block ends early, whatever cell runs then is interrupted: nobody waits for it any more.
    """
    process = _Process(pid, is_alive)
    client = _Client(
        notebook,
        km=process,  # type: ignore[arg-type]
        # Its own setting takes whole seconds only.
        timeout_func=lambda _: timeout,
        interrupt_on_timeout=True,
    )
    channels = Channels()
    channels.load_connection_file(connection_file)
    channels.start_channels(stdin=False)
    client.kc = channels
    try:
        await _attached(channels)
        channels.allow_stdin = False
        yield ManagedKernel(client, timeout)
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            process.interrupt_kernel()
        raise
    finally:
        channels.stop_channels()


async def _attached(channels: Channels) -> None:
    try:
        await channels.wait_for_ready(ATTACH_SECONDS)
    except RuntimeError as error:
        raise KernelError(
            f"the kernel did not answer in {ATTACH_SECONDS} s: it may be busy with a cell",
            hint="look with: rlmnb kernel status; end it with: rlmnb kernel stop",
        ) from error


def own_environment(place: Place) -> dict[str, str]:
    """Return what every kernel of ours is told of the notebook that it serves."""
    return {
        "RLMNB_OBJECTS": place.objects,
        "RLMNB_REWRITTEN": json.dumps(place.rewritten),
    }


@asynccontextmanager
async def managed_kernel(
    notebook: Any,
    *,
    cwd: str,
    place: Place,
    timeout: float | None,
    memory: int | None = None,
    effects: bool = False,
) -> AsyncIterator[ManagedKernel]:
    """Start a kernel for a notebook, and end it with the block, whatever happens in it.

    `timeout` is for each cell, in seconds; `memory` is the most the kernel may take, in megabytes.
    """
    directory = _socket_directory()
    environment = own_environment(place)
    if not effects:
        environment["RLMNB_NO_EFFECTS"] = "1"
    if memory is not None:
        environment["RLMNB_MEMORY"] = str(memory)
    patience = start_seconds()
    if "PYTHONHASHSEED" not in os.environ:
        environment |= {"PYTHONHASHSEED": "0", "RLMNB_HASH_SEED": "ours"}
    manager = Manager(
        transport="ipc" if os.name != "nt" else "tcp",
        connection_file=os.path.join(directory, "kernel.json"),
    )
    manager._kernel_spec = KernelSpec(
        argv=[sys.executable, "-m", "rlmnb.kernel", "-f", "{connection_file}", *_QUIETLY],
        display_name="rlmnb",
        language="python",
        env=environment,
    )
    client = _Client(
        notebook,
        km=manager,
        # Its own setting takes whole seconds only.
        timeout_func=lambda _: timeout,
        interrupt_on_timeout=True,
        startup_timeout=patience,
        resources={"metadata": {"path": cwd}},
    )
    interrupts = signal.getsignal(signal.SIGINT)
    try:
        async with client.async_setup_kernel(cleanup_kc=True):
            _take_back(interrupts)
            yield ManagedKernel(client, timeout)
    except RuntimeError as error:
        if "Kernel died" not in str(error) and "respond" not in str(error):
            raise
        died = "Kernel died" in str(error)
        how = "ended before it was ready" if died else f"did not start in {patience} s"
        raise KernelError(
            f"the kernel {how}: {error}",
            hint=advice(memory),
        ) from error
    finally:
        if client.km is None:
            # nbclient has ended a kernel that never got ready, and would do so again at exit.
            atexit.unregister(client._cleanup_kernel)
        remove_tree(directory)


def _take_back(interrupts: Any) -> None:
    """Let an interrupt end a replay in order; nbclient would end its kernel and no more."""
    if threading.current_thread() is threading.main_thread() and os.name != "nt":
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, interrupts)


def advice(memory: int | None) -> str:
    """Say what to do about a kernel that does not start."""
    by_hand = f"try it by hand: {sys.executable} -m rlmnb.kernel"
    if memory is None:
        return by_hand
    return f"it was given {memory} MB: try a larger --memory, or none; or {by_hand}"


def start_seconds() -> int:
    """Return how long to wait for a kernel: RLMNB_KERNEL_START seconds, 30 if not set."""
    try:
        return max(1, int(os.environ["RLMNB_KERNEL_START"]))
    except (KeyError, ValueError):
        return START_SECONDS


def _socket_directory() -> str:
    """Make a directory of our own whose name is short enough for the sockets in it.

    The system takes about a hundred characters for the path of a socket, and a kernel that is
    given more never answers.
    """
    base = runtime_base()
    _remove_leftovers(base)
    return tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=base)


def runtime_base() -> str:
    """Return where sockets go: a directory whose path is short."""
    if os.name == "nt":  # there they have no path
        return tempfile.gettempdir()
    for base in (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp"):  # noqa: S108
        if base and len(base) < _LONGEST and os.access(base, os.W_OK):
            return base
    return tempfile.gettempdir()


def _remove_leftovers(base: str) -> None:
    """Remove the directories of replays that were killed."""
    for name in os.listdir(base):
        pid = name.removeprefix(_PREFIX).split("-")[0]
        path = os.path.join(base, name)
        mine = name.startswith(_PREFIX) and pid.isdecimal() and not os.path.islink(path)
        # Another replay may end, or tidy up as we do, at this very moment.
        with contextlib.suppress(FileNotFoundError, StorageError):
            ours = os.name == "nt" or (mine and os.stat(path).st_uid == os.getuid())
            if mine and ours and not is_alive(int(pid)):
                remove_tree(path)


def as_nodes(whole: dict[str, Any]) -> Any:
    """Return a notebook as nbclient wants it; a cell is converted when it is about to run."""
    outer = {**whole, "cells": []}
    nodes = nbformat.from_dict(outer)  # type: ignore[no-untyped-call]
    nodes.cells = list(whole["cells"])
    return nodes


def _as_node(cell: dict[str, Any]) -> Any:
    from nbformat.v4.rwbase import rejoin_lines

    alone = nbformat.from_dict({"cells": [cell]})  # type: ignore[no-untyped-call]
    return rejoin_lines(alone).cells[0]  # type: ignore[no-untyped-call]
