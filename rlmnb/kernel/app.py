"""The kernel: ipykernel as it is, with a trace of each cell in its reply."""

from __future__ import annotations

import _thread
import atexit
import builtins
import contextlib
import io
import json
import logging
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import IPKernelApp
from ipykernel.parentpoller import ParentPollerUnix
from zmq import ENOTSOCK, ZMQError

from rlmnb import models
from rlmnb.errors import RlmnbError
from rlmnb.kernel import streams
from rlmnb.kernel.asked import LEFT_OVER, NUMBER
from rlmnb.kernel.disturbance import Disturbance
from rlmnb.kernel.functions import offer
from rlmnb.kernel.hidden import Hidden
from rlmnb.kernel.history import count_from
from rlmnb.kernel.leave import Leave
from rlmnb.kernel.modules import keep_bytecode_honest
from rlmnb.kernel.ownframes import hide_own_frames
from rlmnb.kernel.shellcommands import hear_commands
from rlmnb.kernel.state import StateStore, load_key
from rlmnb.kernel.tools import Tools
from rlmnb.kernel.tracker import Tracker
from rlmnb.kernel.unmarked import unmarked
from rlmnb.kernel.warned import silenced
from rlmnb.kernel.watch import Watch
from rlmnb.store.layout import Place, sessions_root

if TYPE_CHECKING:
    from rlmnb.kernel.byhand import ByHand
    from rlmnb.kernel.calls import Calls

# A cell may put something else into the module, for a test of its own.
_dumps, _loads = json.dumps, json.loads
_STORE_SECONDS = 0.1
_LIFE_SECONDS = 2.0
_PARENT_SECONDS = 1.0
_LAST_WORDS_SECONDS = 5.0


class RlmnbKernel(IPythonKernel):
    """A Python kernel that notes what each cell reads and writes."""

    implementation = "rlmnb"
    objects: str | None = None
    # What changes with every replay, and is nothing that a cell rests on.
    rewritten: tuple[str, ...] = ()
    without_effects = False
    # The notebook that a person has open with this kernel.
    notebook: Place | None = None
    # How long a kernel that nobody looks after may be of no use, and whose it is.
    life: dict[str, Any] | None = None

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)  # type: ignore[no-untyped-call]
        self.log.addFilter(_is_news)
        streams.remember()
        if getattr(self, "debugger", None) is None:
            # It would have a thread, and threads of the user's are numbered after that.
            threading.Thread()
        self._trace: dict[str, Any] | None = None
        self._tracker: Tracker | None = None
        self._storing = False
        self._used = 0
        self._last_used = time.monotonic()
        self._note: tuple[int, Any] = (0, None)
        self._busy = False
        # The process of whoever replays in this kernel.
        self._client = 0
        self._process = os.getpid()
        self._by_hand: ByHand | None = None
        self._disturbance = Disturbance()
        if self.notebook is not None:
            # Only a kernel that a person has started needs it, and a start is waited for.
            from rlmnb.kernel.byhand import ByHand

            assert self.shell is not None
            self._by_hand = ByHand(
                self.notebook,
                self.session,
                self.log.warning,
                self._ignore_this_thread,
                self.shell.transform_cell,
            )
            self._note_others()
        atexit.register(self._store_now)
        # Found wherever no variable has this name, and in no list of the user's variables.
        self._leave = Leave(given=not self.without_effects)
        builtins.tools = Tools(self.objects, self._leave)  # type: ignore[attr-defined]
        offer()
        self._calls: Calls | None = None
        # Which cell runs, as whoever has it run says.
        self._about: tuple[str | None, Any] = (None, None)
        models.settle = self._begin_calls

    def _note_others(self) -> None:
        """Know that widgets and debuggers may change variables between two cells."""
        others = (self.shell_handlers, "comm_open"), (self.shell_handlers, "comm_msg")
        for handlers, kind in (*others, (self.control_handlers, "debug_request")):
            if kind in handlers:
                handlers[kind] = self._disturbance.noting(handlers[kind])

    @property
    def banner(self) -> str:  # type: ignore[override]
        """What a front end shows first. IPython picks a tip for it with the user's own dice."""
        state = random.getstate()
        try:
            return str(super().banner)
        finally:
            random.setstate(state)

    def start(self) -> None:
        """Begin to listen; a kernel that stays warm also watches whether it is still wanted."""
        super().start()  # type: ignore[no-untyped-call]
        if self.life is not None:
            _thread.start_new_thread(self._look_after_itself, (self.life,))

    def _ignore_this_thread(self) -> None:
        if self._tracker is not None:
            self._tracker.watch.ignore_this_thread()

    def _look_after_itself(self, life: dict[str, Any]) -> None:
        """End when nobody can want this kernel any more, also while a cell runs."""
        while True:
            time.sleep(_LIFE_SECONDS)
            self._ignore_this_thread()  # once there is somebody who would count what it does
            idle = not self._busy and time.monotonic() - self._last_used > life["idle"]
            if idle or not os.path.exists(life["notebook"]):
                self._store_now()
                os._exit(0)
            if self._busy and self._client and not os.path.isdir(f"/proc/{self._client}"):
                # Whoever waited for this cell is gone.
                self._client = 0
                if os.path.isdir("/proc/self"):
                    os.kill(os.getpid(), signal.SIGINT)

    def end_without_parent(self) -> None:
        """End, as whoever started this kernel is gone; what cells have made is not lost."""
        self._store_now()
        os._exit(1)

    @property
    def tracker(self) -> Tracker:
        """The tracker, made when the first cell is about to run."""
        if self._tracker is None:
            assert self.shell is not None
            root = sessions_root()
            objects = self.objects or os.path.join(root, "objects")
            if self.notebook is not None:
                with contextlib.suppress(RlmnbError, OSError):
                    self.notebook.prepare()
            self._tracker = Tracker(
                namespace=self.shell.user_ns,
                store=StateStore(objects, load_key(root), later=True),
                watch=Watch((os.path.realpath(objects) + os.sep,), self.rewritten),
                transform=self.shell.transform_cell,
                hidden=Hidden(self.shell),
                limit=_largest(),
            )
            hide_own_frames(self.shell)
            hear_commands(self.shell, self._tracker.watch.command)
            if self.notebook is not None:
                from rlmnb.kernel.remembering import memory_of, memory_version

                if memory := memory_of(self.notebook):
                    self._tracker.restore([memory_version(memory)], [], {})
        return self._tracker

    def _begin_calls(self) -> None:
        """Be ready for model calls; nothing of that is loaded before the first one."""
        with self.tracker.watch.unheard():
            from rlmnb.kernel.calls import Calls, own_objects

            objects = self.objects or own_objects()
            self._calls = Calls(objects, self.tracker.watch.unheard)
            self._calls.begin(*self._about)

    async def execute_request(self, stream: Any, ident: Any, parent: Any) -> None:
        """Give a cell of a replay the number that it would have if all of them ran."""
        told = parent["metadata"]
        number = told.get(NUMBER)
        if isinstance(number, int) and self.shell is not None:
            count_from(self.shell, number)
        if told.get(LEFT_OVER) and _quietly(lambda: self.tracker.remove(told[LEFT_OVER])):
            self._rely_on_nothing()
        try:
            await super().execute_request(stream, ident, parent)  # type: ignore[no-untyped-call]
        except ZMQError as error:
            # Whoever waited was interrupted, and is gone: nobody is to read of it in a terminal.
            if error.errno != ENOTSOCK:
                raise

    async def do_execute(self, code: str, silent: bool, *args: Any, **options: Any) -> Any:
        """Run a cell between two looks at what it may touch."""
        if threading.current_thread() is not threading.main_thread():
            # A subshell runs beside the main cell; whose change is whose could not be told.
            return await super().do_execute(code, silent, *args, **options)  # type: ignore[no-untyped-call]
        self._trace = None
        if silent:
            self._disturbance.noted = True
            return await super().do_execute(code, silent, *args, **options)  # type: ignore[no-untyped-call]
        self._code = code
        self._about = (options.get("cell_id"), options.get("cell_meta"))
        self._leave.begin(self._about[1])
        if self._calls is not None:
            self._calls.begin(*self._about)
        self._used += 1
        self._busy = True
        if self._by_hand is not None:
            self._begin_by_hand(self._by_hand, code, options)
        alone = self._disturbance.nobody(self.shell)
        followed = _quietly(lambda: self.tracker.before(code, alone=alone))
        reply: dict[str, Any] = {}
        try:
            reply = await super().do_execute(code, silent, *args, **options)  # type: ignore[no-untyped-call]
            return reply
        finally:
            concluded = False
            try:
                self._conclude(followed, failed=reply.get("status") != "ok")
                concluded = True
            finally:
                if not concluded:
                    # An interrupt came after the cell: what it has left was not looked at.
                    self._rely_on_nothing()
                self._last_used = time.monotonic()
                self._busy = False

    def _conclude(self, followed: dict[str, Any] | None, *, failed: bool) -> None:
        """Look at what a cell has left, and have it stored."""
        if followed is None:
            self._trace = _quietly(lambda: self._finish(failed=failed)) or self._trace
        else:
            self._trace = followed
        told = self._leave.finish()
        if self._calls is not None:
            told |= self._calls.finish()
        if told:
            self._trace = {**(self._trace or {}), **told}
        if "problem" in (self._trace or {}):
            self._rely_on_nothing()
        if self._by_hand is None or not self._by_hand.running:
            self._store_soon()
        self._disturbance.rest(self.shell)

    def _rely_on_nothing(self) -> None:
        """Take everything in the kernel for changed: a cell could not be followed."""
        if self._tracker is not None:
            self._tracker.watch.stop()
            self._tracker.put_back()
            self._tracker.groups.known.clear()
            self._disturbance.noted = True

    def _begin_by_hand(self, by_hand: ByHand, code: str, options: dict[str, Any]) -> None:
        parent = self.get_parent("shell") or {}  # type: ignore[no-untyped-call]
        request = parent.get("header", {}).get("msg_id", "")
        _quietly(
            lambda: by_hand.begin(request, options.get("cell_id"), code, options.get("cell_meta"))
        )
        if self._disturbance.seen() and self._tracker is not None:
            _quietly(self._tracker.doubt)

    def _input_request(self, prompt: Any, ident: Any, parent: Any, password: bool = False) -> str:
        value = super()._input_request(prompt, ident, parent, password)
        if self._by_hand is not None:
            self._by_hand.typed(str(prompt), str(value), password=password)
        return str(value)

    def _store_soon(self) -> None:
        """Have variables written to the disk in a moment, together, while the next cell runs.

        If the kernel is killed before, they are made again.
        """
        if not self._storing:
            self._storing = True
            # Not one of `threading`: a user who counts threads is to find none of ours.
            _thread.start_new_thread(self._store_later, ())

    def _store_later(self) -> None:
        self._ignore_this_thread()
        time.sleep(_STORE_SECONDS)
        self._store_now()

    def _store_now(self) -> None:
        self._storing = False
        own = os.getpid() == self._process  # and not a child that was forked off
        if own and self._tracker is not None and self._tracker.store is not None:
            # A full disk is no reason to fail: what is not there is made again.
            with contextlib.suppress(Exception):
                self._tracker.store.flush()
        # After the variables: a trace that names what is not there would only be in the way.
        if own and self._by_hand is not None:
            with contextlib.suppress(Exception):
                self._by_hand.write()

    def _finish(self, *, failed: bool) -> None:
        self._trace = self.tracker.after(failed=failed)
        if self.shell is not None and any(_has_code(each) for each in self._trace["writes"]):
            self._trace["file"] = self.shell.compile.get_code_name(self._code, self._code, 0)

    def finish_metadata(self, parent: Any, metadata: Any, reply_content: Any) -> Any:
        """Send the trace along with the reply."""
        metadata = super().finish_metadata(parent, metadata, reply_content)  # type: ignore[no-untyped-call]
        if self._by_hand is not None:
            self._end_by_hand(self._by_hand, reply_content)
        if self._trace is not None:
            metadata["rlmnb"], self._trace = self._trace, None
        return metadata

    def _end_by_hand(self, by_hand: ByHand, reply: dict[str, Any]) -> None:
        """Keep a trace, now that all the cell has shown is on its way to whoever runs it."""
        if self._tracker is not None:
            by_hand.disturbed(self._tracker.disturbed)
            self._tracker.disturbed = set()
        if not by_hand.running:
            by_hand.apart(self._trace)
            return
        _quietly(lambda: by_hand.end(self._trace, reply))
        # A person's front end has no use for it, and it can be long.
        self._trace = None
        self._store_soon()

    # What a replay asks for, through a silent request.

    def begin_replay(self, request: str) -> str:
        """Say what is held under each name, and why a new kernel would be better if it would."""
        asked = _loads(request)
        self._leave.given = bool(asked["effects"])
        self._client = int(asked["client"])
        self._number_files(asked.get("numbers", {}))
        if self._calls is not None:
            self._calls.forget()
        at, note = self._note
        if at != self._used or note is None:
            note = {"held": self.tracker.holdings(), "called": {}}
        found = {**note, "soiled": self.tracker.soiled(), "used": self._used > 0}
        return _dumps({**found, "once_only": self.tracker.once_only()})

    def _number_files(self, numbers: dict[str, int]) -> None:
        """Know which cell code came from that did not run here, or stood elsewhere when it did."""
        if self.shell is not None:
            # What a traceback calls a cell is found there alone.
            self.shell.compile._filename_map.update(numbers)

    def end_replay(self, request: str) -> str:
        """Keep how a replay calls what is held, for the next one, unless somebody comes between."""
        self._client = 0
        note, here = _loads(request), self.tracker.digests()
        note["called"] = {each: name for each, name in note["called"].items() if each in here}
        self._note = (self._used, note)
        return "null"

    def restore_state(self, request: str) -> str:
        """Bring variables to the versions asked for."""
        self._used += 1
        asked = _loads(request)
        self._number_files(asked.get("numbers", {}))
        with unmarked():
            done = self.tracker.restore(asked["wanted"], asked["absent"], asked["sources"])
        return _dumps(done)


class RlmnbKernelApp(IPKernelApp):
    """What starts the kernel, and ends it when nobody is left to use it."""

    def init_poller(self) -> None:
        """Look after whoever started this kernel; ipykernel's own way would store nothing."""
        super().init_poller()  # type: ignore[no-untyped-call]
        if isinstance(self.poller, ParentPollerUnix):
            self.poller = _Poller(self, self.poller.parent_pid, self.poller.name)

    def init_kernel(self) -> None:
        """Make the kernel; at its end, what it has to say is said before sockets are closed."""
        super().init_kernel()  # type: ignore[no-untyped-call]
        atexit.register(self._hear_out)

    def _hear_out(self) -> None:
        thread = self.control_thread
        if thread is not None and thread.is_alive():
            thread.stop()
            thread.join(_LAST_WORDS_SECONDS)


class _Poller(threading.Thread):
    """Ends the kernel with the process that started it."""

    def __init__(self, app: RlmnbKernelApp, parent: int, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._app = app
        # Where another process stands between the two, only the end of that one can be seen.
        self._parent = parent if parent == os.getppid() else 0

    def run(self) -> None:
        """Wait for the end of that process."""
        while os.getppid() == self._parent or (not self._parent and os.getppid() != 1):
            time.sleep(_PARENT_SECONDS)
        kernel = self._app.kernel
        if kernel is not None:
            kernel.end_without_parent()
        os._exit(1)


def _is_news(record: logging.LogRecord) -> bool:
    """Tell what is worth a line in somebody's terminal: not that they have pressed Ctrl-C."""
    return not record.getMessage().startswith("KeyboardInterrupt caught in kernel")


def _has_code(version: dict[str, Any]) -> bool:
    """Tell whether a version may have functions in it, whose source somebody may ask for."""
    return bool(version["refs"]) or version["names"][0][:1] != "$"


def _largest() -> int:
    """Return the size from which variables are made again and not stored: RLMNB_LARGEST_STATE."""
    try:
        return int(os.environ["RLMNB_LARGEST_STATE"])
    except (KeyError, ValueError):
        return Tracker.limit


def _quietly(action: Callable[[], None]) -> dict[str, Any] | None:
    """Do something that must never be in the way of the user's code; say what went wrong.

    Looking at an object can run the user's own code: nothing it prints, warns of or raises gets
    through, an interrupt that was meant for the cell included.
    """
    try:
        with (
            silenced(),
            unmarked(),
            streams.set_aside(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            action()
    except BaseException as error:  # noqa: BLE001 - see above
        return {"problem": f"{type(error).__name__}: {error}"[:200]}
    return None


def _cap(megabytes: int) -> None:
    """Let a cell that takes too much memory fail with MemoryError, and not the machine."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    resource.setrlimit(resource.RLIMIT_AS, (megabytes * 1024**2, megabytes * 1024**2))


def _settle() -> None:
    """Serve the notebook that a person has open: where its cells run, with what they stored."""
    from rlmnb.kernel.whereabouts import directory_of, place_named

    place = place_named(os.environ.get("JPY_SESSION_NAME"))
    if place is None:
        return
    RlmnbKernel.notebook, RlmnbKernel.objects = place, place.objects
    RlmnbKernel.rewritten = place.rewritten
    if (directory := directory_of(place)) is not None:
        os.chdir(directory)


def main() -> None:
    """Start the kernel. What only it needs to know is not for the user's programs to see."""
    if memory := os.environ.pop("RLMNB_MEMORY", None):
        _cap(int(memory))
    RlmnbKernel.objects = os.environ.pop("RLMNB_OBJECTS", None)
    RlmnbKernel.without_effects = bool(os.environ.pop("RLMNB_NO_EFFECTS", None))
    if RlmnbKernel.objects is None:
        _settle()
    if rewritten := os.environ.pop("RLMNB_REWRITTEN", None):
        RlmnbKernel.rewritten = tuple(_loads(rewritten))
    if life := os.environ.pop("RLMNB_LIFE", None):
        RlmnbKernel.life = _loads(life)
    if os.environ.pop("RLMNB_HASH_SEED", None):
        os.environ.pop("PYTHONHASHSEED", None)
    keep_bytecode_honest()
    RlmnbKernelApp.launch_instance(kernel_class=RlmnbKernel)
