"""The commands that start, stop and look at the kernels that stay warm: kernel."""

from __future__ import annotations

import shutil
from argparse import Namespace
from importlib.util import find_spec
from typing import Any

from rlmnb.cli import text
from rlmnb.cli.reading import opened
from rlmnb.replay import warm
from rlmnb.replay.cells import working_directory
from rlmnb.replay.language import require_python
from rlmnb.replay.owning import running_cell
from rlmnb.session import Session


def kernel(args: Namespace) -> int:
    """Start, stop and look at the kernels that stay warm."""
    if args.action == "list":
        return _list(opened(args) if args.session is not None else None, args)
    session = opened(args)
    return _ACTIONS[args.action](session, args)


def _list(session: Session | None, args: Namespace) -> int:
    """List the kernels that run: all of them, or that of one session."""
    alive = warm.running() if session is None else [warm.find(session.place)]
    found = [warm.describe(each, timeout=1.0) for each in alive if each is not None]
    if args.json:
        text.print_json(found)
    elif not found:
        word = "SESSION" if session is None else session.place.word
        whose = "" if session is None else f" for {session.place.name}"
        text.note(f"no kernel is running{whose}; start one with: rlmnb kernel start {word}")
    else:
        text.table(
            ("pid", "state", "age", "memory", "session"),
            [
                (
                    each["pid"],
                    each["state"],
                    text.ago(each["started_at"]),
                    text.size(each["memory_bytes"]),
                    each["target"],
                )
                for each in found
            ],
            grow="session",
        )
    return 0


def _start(session: Session, args: Namespace) -> int:
    require_python(session)
    found = warm.start(
        session.place,
        working_directory(session),
        timeout=args.timeout,
        idle=_idle(args) or warm.IDLE_SECONDS,
        memory=args.memory,
    )
    code = _tell(found, args, "runs")
    _tell_kept(found, session, args)
    return code


def _tell_kept(found: warm.Warm, session: Session, args: Namespace) -> None:
    """Say which options were for a kernel that is yet to start, and how to have them."""
    options = []
    if args.idle is not None and found.idle_seconds != _idle(args):
        options.append(f"--idle {args.idle:.15g}")
    if args.memory is not None and found.memory != args.memory:
        options.append(f"--memory {args.memory}")
    if options:
        again = f"rlmnb kernel restart {session.place.word} {' '.join(options)}"
        text.note(f"it ran before, and goes on as it was started; to change that: {again}")


def _idle(args: Namespace) -> float | None:
    return None if args.idle is None else float(args.idle * 60)


def _status(session: Session, args: Namespace) -> int:
    found = warm.find(session.place)
    if found is not None:
        return _tell(found, args, "runs")
    if args.json:
        text.print_json({"state": "none", "target": session.place.name})
    else:
        text.say(f"no kernel is running for {session.place.name}")
        text.note(f"start one with: rlmnb kernel start {session.place.word}")
    return 1


def _stop(session: Session, args: Namespace) -> int:
    running = running_cell(session.place)
    stopped = warm.stop(session.place)
    if stopped and running is not None and not args.json:
        number = session.cell(running).number
        text.note(f"a replay was running cell {number} ({running}) in it, and ends with it")
    if args.json:
        text.print_json({"stopped": stopped, "target": session.place.name})
    else:
        text.say("stopped" if stopped else f"no kernel was running for {session.place.name}")
    return 0


def _restart(session: Session, args: Namespace) -> int:
    require_python(session)
    found = warm.restart(
        session.place,
        working_directory(session),
        timeout=args.timeout,
        idle=_idle(args),
        memory=args.memory,
    )
    return _tell(found, args, "runs anew")


def _tell(found: warm.Warm, args: Namespace, word: str) -> int:
    described = warm.describe(found)
    if args.json:
        text.print_json(described)
        return 0
    text.say(f"the kernel of {found.target} {word}: ", text.painted(described["state"], "ok"))
    lines: dict[str, Any] = {
        "process": f"{found.pid}, {text.size(described['memory_bytes'])}",
        "since": text.ago(found.started_at),
        "ends": f"after {found.idle_seconds / 60:g} min of no use",
        "talk to it": console(found.connection_file),
    }
    for label, value in lines.items():
        text.labelled(label, value, 12)
    return 0


def console(connection_file: str) -> str:
    """Return what to type to talk to a kernel; the program for it may have to be fetched first."""
    command = f"jupyter console --existing {connection_file}"
    if find_spec("jupyter_console") or shutil.which("jupyter-console"):
        return command
    return f"pip install jupyter-console && {command}"


_ACTIONS = {"start": _start, "status": _status, "stop": _stop, "restart": _restart}
