"""The one door for agents' hooks: `python -m rlmnb.hook` with an event on standard input.

An agent waits for its hooks, so this imports the standard library only, has a deadline of its own,
and ends with 0 whatever happens. What could not be done is in the journal or in a side file, and
`rlmnb doctor --hooks` tells of it.
"""

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rlmnb.capture.events import Event

_STARTED = time.perf_counter()
# How long an event may take in all, in seconds; then what is left is done by the next reader.
_DEADLINE = 0.2
LARGEST_PAYLOAD = 64 * 1024 * 1024
# Looking through more than this takes longer than an agent should wait.
_LARGE_PAYLOAD = 1024 * 1024
_MOST_OLD_LINES = 64 * 1024
_HANDED_ON = "RLMNB_EVENT_HANDED_ON"


def main(arguments: "list[str] | None" = None, read: "Callable[[], bytes] | None" = None) -> int:
    """Take one event in. Always 0: a hook that fails would stop its agent."""
    agent = _agent(sys.argv[1:] if arguments is None else arguments)
    answer(read or _standard_input, agent, _STARTED, _print)
    return 0


def answer(
    read: "Callable[[], bytes]", agent: str, started: float, say: "Callable[[bytes], object]"
) -> None:
    """Take in the event that `read` gives, and say what its client wants to hear; never raise."""
    name = "unknown"
    root = None
    try:
        from rlmnb.store.layout import sessions_root

        root = sessions_root()
        event = _event(read(), agent)
        name = event.name
        _say(_take_in(event, root, started + _DEADLINE), say)
    except BaseException as error:  # noqa: BLE001 - nothing may get through to the agent
        note_failure(root, name, error)
        if name == "SessionStart":
            _say_not_recorded(error, say)
    _note_time(root, name, started)


def _standard_input() -> bytes:
    return sys.stdin.buffer.read(LARGEST_PAYLOAD + 1)


def _not_to_wait_for() -> bytes:
    """Return what is on standard input; if that is large, in a process that nobody waits for."""
    data = _standard_input()
    if _LARGE_PAYLOAD < len(data) <= LARGEST_PAYLOAD and _another_goes_on(data):
        os._exit(0)
    return data


def _another_goes_on(data: bytes) -> bool:
    """Begin a process that nobody waits for; True in the one that has no more to do."""
    if not hasattr(os, "fork"):
        return _another_begins(data)
    try:
        if os.fork():
            return True
    except OSError:  # there may be no more processes
        return False
    # A client listens until everybody who could speak has gone.
    nowhere = os.open(os.devnull, os.O_RDWR)
    for each in (0, 1, 2):
        os.dup2(nowhere, each)
    os.setsid()
    return False


def _another_begins(data: bytes) -> bool:
    """Hand the event to a second process of the same command: Windows cannot fork."""
    import subprocess

    if os.environ.get(_HANDED_ON):
        return False
    nowhere = subprocess.DEVNULL  # a client listens until everybody who could speak has gone
    try:
        other = subprocess.Popen(  # noqa: S603 - the command that we are ourselves
            [sys.executable, *sys.orig_argv[1:]],
            stdin=subprocess.PIPE,
            stdout=nowhere,
            stderr=nowhere,
            env={**os.environ, _HANDED_ON: "1"},
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    except OSError:  # there may be no more processes
        return False
    assert other.stdin is not None
    other.stdin.write(data)
    other.stdin.close()
    return True


def _print(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.flush()


def _agent(arguments: "list[str]") -> str:
    return arguments[arguments.index("--agent") + 1] if "--agent" in arguments[:-1] else "claude"


def _event(data: bytes, agent: str) -> "Event":
    from rlmnb.capture.events import read_event
    from rlmnb.jsontext import loads

    if len(data) > LARGEST_PAYLOAD:
        raise ValueError(f"an event of more than {LARGEST_PAYLOAD} bytes was left out")
    if not data.strip():
        raise ValueError("an event of no bytes; wanted JSON")
    try:
        payload = loads(data)
    except UnicodeDecodeError:
        payload = loads(data.decode("utf-8", "replace"))
    event = read_event(payload, agent)
    if event is None:
        raise ValueError("an event without hook_event_name")
    return event


def _take_in(event: "Event", root: str, deadline: float) -> "dict[str, Any] | None":
    from rlmnb.capture.events import heard
    from rlmnb.capture.privacy import recording_off
    from rlmnb.capture.redaction import clean
    from rlmnb.ids import check_session_id
    from rlmnb.store.layout import session_place

    session = event.text("session_id") or os.environ.get("CLAUDE_CODE_SESSION_ID") or ""
    place = session_place(check_session_id(session), root)
    if recording_off(place.directory, os.environ):
        return None
    event.payload = clean(event.payload)
    from rlmnb.recording.events import Recording

    recording = Recording(place, event, deadline=deadline)
    recording.take_in()
    return heard(event.agent, recording.answer)


def _say(told: "dict[str, Any] | None", say: "Callable[[bytes], object]") -> None:
    """Answer the client, where its contract has a place for it."""
    if told is not None:
        from rlmnb.jsontext import compact, to_bytes

        say(to_bytes(compact(told) + "\n"))


def _say_not_recorded(error: BaseException, say: "Callable[[bytes], object]") -> None:
    """Tell the person once, at the start, that nothing will be kept; the agent goes on."""
    try:
        from rlmnb.recording.answers import not_recorded

        _say(not_recorded(error), say)
    except BaseException:  # noqa: BLE001 - nobody to tell
        return


def note_failure(root: "str | None", name: str, error: BaseException) -> None:
    """Keep what went wrong, each kind once, where doctor finds it."""
    try:
        from rlmnb.files import append_line, make_directory

        if root is None:
            return
        make_directory(root)
        text = f"{type(error).__name__}: {error}".replace("\n", " ")[:500]
        path = os.path.join(root, ".hooks", "failures")
        make_directory(os.path.dirname(path))
        append_line(path, f"{time.time():.0f}\t{name[:100]}\t{text}", limit=_MOST_OLD_LINES)
    except BaseException:  # noqa: BLE001 - a full disk, a root that is not ours: nobody to tell
        return


def _note_time(root: "str | None", name: str, started: float) -> None:
    try:
        from rlmnb.files import append_line

        if root is None or not os.path.isdir(root):
            return
        path = os.path.join(root, ".hooks", "times")
        took = (time.perf_counter() - started) * 1000
        if not os.path.isdir(os.path.dirname(path)):
            from rlmnb.files import make_directory

            make_directory(os.path.dirname(path))
        append_line(path, f"{name[:100]}\t{took:.1f}", limit=_MOST_OLD_LINES)
    except BaseException:  # noqa: BLE001 - see above
        return


def run() -> None:
    """Be the whole process: take the event in, and end at once."""
    import gc

    gc.disable()  # to look for what could be freed takes longer than the process has to live
    code = main(read=_not_to_wait_for)
    try:
        sys.stdout.flush()
    except BaseException:  # noqa: BLE001 - whoever listened has gone
        code = 0
    # Without the interpreter's own tidying up: nothing is left to do, and the agent waits.
    os._exit(code)


if __name__ == "__main__":
    run()
