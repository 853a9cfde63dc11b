"""Kernels that stay warm between replays: started, found again, ended.

Each belongs to one session or notebook. It ends by itself when nobody has used it for a while or
when its session is gone, so nothing has to look after it. What is known of it stands in a small
file under the sessions' root; a file whose process is gone is taken away by whoever finds it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from queue import Empty
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.connect import write_connection_file

from rlmnb.errors import KernelError, RlmnbError
from rlmnb.files import Lock, make_directory, polls, read_bytes, remove, remove_tree, write_atomic
from rlmnb.format import times
from rlmnb.jsontext import loads
from rlmnb.processes import end, is_alive
from rlmnb.replay.managed import advice, own_environment, runtime_base, start_seconds
from rlmnb.store.layout import Place, sessions_root

IDLE_SECONDS = 30 * 60
ENSURE_SECONDS = 10
_PREFIX = "rlmnb-warm-"
_END_SECONDS = 5.0
_LOCK_SECONDS = 60.0
# What a replay runs is none of the user's history of all sessions; nbclient says the same.
_HISTORY = "--HistoryManager.hist_file=:memory:"


# Those that this process has started: it has to take note of their end.
_CHILDREN: dict[int, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True)
class Warm:
    """A kernel that runs, and whose."""

    target: str
    directory: str
    pid: int
    # When the process began, as the system counts: a number is given to other processes later.
    born: str
    connection_file: str
    started_at: str
    idle_seconds: float
    memory: int | None = None
    python: str = sys.executable

    @property
    def alive(self) -> bool:
        """Whether the process is there, and is the one that was started."""
        return _born(self.pid) == self.born

    def client(self) -> BlockingKernelClient:
        """Return a client that can ask it things."""
        client = BlockingKernelClient()
        client.load_connection_file(self.connection_file)
        return client

    def answers(self, timeout: float) -> bool:
        """Tell whether the kernel is well: it answers, and is not busy with a cell."""
        client = self.client()
        client.start_channels(iopub=False, stdin=False, hb=False, control=False)
        try:
            client.kernel_info(reply=True, timeout=timeout)
        except (Empty, TimeoutError, RuntimeError):
            return False
        finally:
            client.stop_channels()
        return True


_KINDS: tuple[tuple[str, Any], ...] = (
    ("target", str),
    ("directory", str),
    ("pid", int),
    ("born", str),
    ("connection_file", str),
    ("started_at", str),
    ("idle_seconds", int | float),
)


def _born(pid: int) -> str | None:
    """Return when a process began, None if it is gone or only waits to be taken note of."""
    if pid in _CHILDREN and _CHILDREN[pid].poll() is not None:
        del _CHILDREN[pid]
        return None
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        return None if fields[0] == "Z" else fields[19]
    except FileNotFoundError:
        if os.path.isdir("/proc/self"):
            return None
    except (OSError, IndexError):
        return None
    return "running" if is_alive(pid) else None  # a system without /proc


def _shelf() -> str:
    return os.path.join(sessions_root(), ".kernels")


def _record(place: Place) -> str:
    name = hashlib.sha256(os.path.realpath(place.directory).encode()).hexdigest()[:32]
    return os.path.join(_shelf(), f"{name}.json")


def _load(path: str) -> Warm | None:
    try:
        found = loads(read_bytes(path))
        warm = Warm(**found) if isinstance(found, dict) else None
    except (OSError, ValueError, TypeError, RlmnbError):
        return None
    if warm is None or not all(isinstance(getattr(warm, key), kind) for key, kind in _KINDS):
        return None
    return warm


@contextlib.contextmanager
def _locked(place: Place) -> Iterator[None]:
    make_directory(_shelf())
    with Lock(_record(place) + ".lock", timeout=_LOCK_SECONDS):
        yield


def find(place: Place) -> Warm | None:
    """Return the kernel that runs for a session, None if there is none."""
    return _alive(_record(place))


def _alive(path: str) -> Warm | None:
    warm = _load(path)
    if warm is None:
        return None
    if warm.alive and not os.path.exists(warm.connection_file):
        # Somebody tidied up: nobody can ever talk to it again.
        end(warm.pid)
    elif warm.alive:
        return warm
    _forget(path, warm)
    return None


def running() -> list[Warm]:
    """Return every kernel that runs, the one started last first."""
    try:
        names = sorted(os.listdir(_shelf()))
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = [_alive(os.path.join(_shelf(), name)) for name in names if name.endswith(".json")]
    alive = [warm for warm in found if warm is not None]
    return sorted(alive, key=lambda warm: warm.started_at, reverse=True)


def start(
    place: Place,
    cwd: str,
    *,
    timeout: float | None = None,
    idle: float = IDLE_SECONDS,
    memory: int | None = None,
) -> Warm:
    """Start a kernel for a session and return when it answers; one that runs is returned as it is.

    `timeout` is how long it may take, in seconds; `idle` how long it may then be of no use.
    """
    with _locked(place):
        warm = find(place)
        return warm or _start(place, cwd, timeout or start_seconds(), idle, memory)


def ensure(place: Place, cwd: str, *, memory: int | None = None) -> Warm:
    """Return a kernel that answers, for a caller who cannot wait long; a hung one is replaced.

    Only for whoever owns the session: to another, a kernel that runs a long cell looks hung.
    """
    with _locked(place):
        warm = find(place)
        if warm is not None and warm.answers(ENSURE_SECONDS):
            return warm
        if warm is not None:
            _end(place, warm)
        return _start(place, cwd, ENSURE_SECONDS, IDLE_SECONDS, memory)


def stop(place: Place) -> bool:
    """End the kernel of a session; tell whether there was one."""
    with _locked(place):
        warm = find(place)
        if warm is None:
            return False
        _end(place, warm)
        return True


def restart(
    place: Place,
    cwd: str,
    *,
    timeout: float | None = None,
    idle: float | None = None,
    memory: int | None = None,
) -> Warm:
    """End the kernel of a session, if it has one, and start another.

    That one is as the one before was, but for what is said here.
    """
    with _locked(place):
        warm = find(place)
        if warm is not None:
            _end(place, warm)
        usual, kept = (warm.idle_seconds, warm.memory) if warm else (IDLE_SECONDS, None)
        return _start(place, cwd, timeout or start_seconds(), idle or usual, memory or kept)


def _start(place: Place, cwd: str, timeout: float, idle: float, memory: int | None) -> Warm:
    directory = tempfile.mkdtemp(prefix=_PREFIX, dir=runtime_base())
    connection_file, connection = write_connection_file(
        os.path.join(directory, "kernel.json"),
        key=os.urandom(32).hex().encode(),
        **_transport(directory),
    )
    life = {"idle": idle, "notebook": place.notebook, "record": _record(place), "files": directory}
    environment = {
        **{key: value for key, value in os.environ.items() if key != "JPY_PARENT_PID"},
        **own_environment(place),
        "RLMNB_LIFE": json.dumps(life),
        "RLMNB_NO_EFFECTS": "1",
    }
    if memory is not None:
        environment["RLMNB_MEMORY"] = str(memory)
    if "PYTHONHASHSEED" not in os.environ:
        environment |= {"PYTHONHASHSEED": "0", "RLMNB_HASH_SEED": "ours"}
    log = os.path.join(directory, "log")
    with open(os.open(log, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
        process = subprocess.Popen(  # noqa: S603 - our own kernel
            [sys.executable, "-m", "rlmnb.kernel", "-f", connection_file, _HISTORY],
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            # A kernel outlives the terminal and the replay that it was started in.
            start_new_session=True,
        )
    _CHILDREN[process.pid] = process
    warm = Warm(
        target=place.name,
        directory=place.directory,
        pid=process.pid,
        born=_born(process.pid) or "",
        connection_file=connection_file,
        started_at=times.now(),
        idle_seconds=idle,
        memory=memory,
    )
    # Written before it is ready, so that it can be found and ended whatever happens to us.
    write_atomic(_record(place), json.dumps(asdict(warm)).encode())
    for left in polls(timeout):
        if process.poll() is not None:
            said = read_bytes(log)[-500:].decode("utf-8", "replace").strip()
            said = said or _ending(process.returncode)
            _forget(_record(place), warm)
            hint = f"{advice(memory)}; or look with: rlmnb doctor"
            raise KernelError(f"the kernel ended before it was ready: {said}", hint=hint)
        if _listens(connection) and warm.answers(max(left, 0.1)):
            return warm
    _end(place, warm)
    longer = f"rlmnb kernel start {place.word} --timeout {max(60, 2 * timeout):g}"
    hint = f"give it longer: {longer}; or see how one starts: rlmnb doctor --kernel"
    raise KernelError(f"the kernel did not answer in {timeout:g} s", hint=hint)


def _ending(status: int) -> str:
    """Say how a process ended that said nothing itself."""
    if status < 0:
        return f"it was killed by signal {-status}, as happens when memory runs out"
    return f"it exited with {status} and said nothing"


def _transport(directory: str) -> dict[str, Any]:
    if os.name == "nt":
        return {"transport": "tcp", "ip": "127.0.0.1"}
    return {"transport": "ipc", "ip": os.path.join(directory, "socket")}


def _listens(connection: Mapping[str, Any]) -> bool:
    """Tell whether a kernel has come so far that asking it makes sense."""
    socket = f"{connection['ip']}-{connection['shell_port']}"
    return connection["transport"] != "ipc" or os.path.exists(socket)


def _end(place: Place, warm: Warm) -> None:
    """Ask a kernel to end, and see to it that it does."""
    client = warm.client()
    client.start_channels(shell=False, iopub=False, stdin=False, hb=False, control=True)
    client.shutdown()
    for _ in polls(_END_SECONDS):
        if not warm.alive:
            break
    else:
        end(warm.pid)
        for _ in polls(_END_SECONDS):
            if not warm.alive:
                break
    client.stop_channels()
    _forget(_record(place), warm)


def _forget(path: str, warm: Warm) -> None:
    """Take away what a kernel that is gone has left."""
    known = _load(path)
    if known is not None and (known.pid, known.born) == (warm.pid, warm.born):
        remove(path)
    directory = os.path.dirname(warm.connection_file)
    if os.path.basename(directory).startswith(_PREFIX):
        remove_tree(directory)


def describe(warm: Warm, *, timeout: float = 2.0) -> dict[str, Any]:
    """Return what there is to know of a kernel, for people and scripts."""
    return {
        **asdict(warm),
        "state": "idle" if warm.answers(timeout) else "busy",
        "memory_bytes": _memory(warm.pid),
        "age_seconds": _age(warm.started_at),
    }


def _memory(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def _age(moment: str) -> float:
    from datetime import datetime

    return max(0.0, time.time() - datetime.fromisoformat(moment).timestamp())
