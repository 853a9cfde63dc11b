"""Which session each running client is at: a small file for each process, below the root.

A client tells its hooks which session an event is of, and not which one it was at before. This is
how a session that was cleared or forked finds the one it came from, and how two clients at work in
one project find each other.
"""

import os

from rlmnb.errors import RlmnbError
from rlmnb.files import make_directory, read_bytes, remove, write_atomic
from rlmnb.ids import check_session_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST = 500
_SHELLS = frozenset(("sh", "dash", "bash", "zsh", "ksh", "ash", "busybox"))


def client_pid(environ: "Mapping[str, str]") -> int:
    """Return the process of the client that asked for this hook."""
    told = environ.get("CLAUDE_PID", "")
    if told.isascii() and told.isdigit() and len(told) < 10:
        return int(told)
    parent = os.getppid()
    # A client that has its hooks run by a shell is one further up.
    try:
        with open(f"/proc/{parent}/stat", encoding="utf-8", errors="replace") as file:
            name, _, rest = file.read(4096).partition("(")[2].rpartition(")")
    except OSError:  # not Linux, where the shell most often makes way for its last command
        return parent
    above = rest.split()[1:2]
    return int(above[0]) if name in _SHELLS and above and above[0].isdigit() else parent


def _directory(root: str) -> str:
    return os.path.join(root, ".hooks", "clients")


def session_of(root: str, pid: int) -> "tuple[str, str] | None":
    """Return the session that a client was last at, and its project."""
    try:
        text = read_bytes(os.path.join(_directory(root), str(pid))).decode("utf-8", "replace")
        session, _, project = text.partition("\n")
        return check_session_id(session), project.rstrip("\n")
    except (OSError, RlmnbError):
        return None


def note_session(root: str, pid: int, session: str, project: str) -> None:
    """Remember which session a client is at."""
    directory = _directory(root)
    make_directory(directory)
    text = f"{session}\n{' '.join(project.splitlines())}\n"
    data = text.encode("utf-8", "backslashreplace")
    write_atomic(os.path.join(directory, str(pid)), data, wait=False)


def forget(root: str, pid: int) -> None:
    """Forget a client that is about to end."""
    remove(os.path.join(_directory(root), str(pid)))


def others_at(root: str, pid: int, project: str, session: str) -> "list[str]":
    """Return the sessions that other living clients are at in this project; forget the dead."""
    found = []
    try:
        names = os.listdir(_directory(root))
    except OSError:
        return []
    for name in sorted(names)[:_MOST]:
        if not name.isdigit() or int(name) == pid:
            continue
        if not _alive(int(name)):
            remove(os.path.join(_directory(root), name))
            continue
        known = session_of(root, int(name))
        if known is not None and known[1] == project and known[0] != session:
            found.append(known[0])
    return found


def _alive(pid: int) -> bool:
    from rlmnb.processes import is_alive

    return is_alive(pid)
