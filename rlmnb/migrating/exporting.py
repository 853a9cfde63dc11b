"""Write a session in the old shapes, for tools that still read those, as often as is wanted.

What others have put or changed there is left alone: a list beside the files says which are ours.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rlmnb import digest
from rlmnb.errors import InvalidNameError, RlmnbError
from rlmnb.files import Lock, make_directory, point_link, read_bytes, refuse_link, write_atomic
from rlmnb.jsontext import loads, pretty, to_bytes
from rlmnb.migrating import shapes
from rlmnb.session import Session

_OURS = ".rlmnb-export.json"
_LOCK_SECONDS = 30.0


@dataclass
class Written:
    """What an export came to."""

    directory: str
    written: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)


def contents(session: Session) -> dict[str, bytes]:
    """Return every old file of a session, under its path."""
    name = session.id
    context = shapes.context(session)
    frames = shapes.frames(session)
    now = {key: value for key, value in context.items() if key != "messages"}
    return {
        f"rlm-state/{name}.json": _json(shapes.state(session)),
        f"rlm-state/{name}_context.json": _json(context),
        "rlm-state/context.json": _json({"conversation": context["messages"], **now}),
        "rlm-state/session-metadata.json": _json(shapes.metadata(session)),
        f"rlm-state/file-access-{name}.jsonl": _lines(shapes.accesses(session)),
        f"rlm-frames/{name}/index.json": _json({"session_id": name, "frames": frames}),
        f"rlm-frames/{name}/frames.jsonl": _lines(frames),
        f"rlm-frames/{name}/tools.jsonl": _lines(shapes.tools(session)),
        "rlm-frames/.current_session": _json(shapes.current(session)),
    }


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()


def _lines(values: Iterable[Any]) -> bytes:
    return "".join(json.dumps(value) + "\n" for value in values).encode()


def write(
    session: Session, directory: str, *, links: str | None = None, force: bool = False
) -> Written:
    """Bring the old files of a session below a directory up to date."""
    if links is not None and os.name == "nt":
        raise InvalidNameError("--links needs symbolic links, which Windows keeps to itself")
    done = Written(os.path.abspath(os.path.expanduser(directory)))
    make_directory(done.directory)
    with Lock(os.path.join(done.directory, ".rlmnb-export.lock"), timeout=_LOCK_SECONDS):
        ours = _ours(done.directory)
        for path, data in contents(session).items():
            _write(path, data, done, ours, force=force)
        listed = to_bytes(pretty(ours) + "\n")
        write_atomic(os.path.join(done.directory, _OURS), listed)
    if links is not None:
        _link(session, done, os.path.abspath(os.path.expanduser(links)))
    return done


def _ours(directory: str) -> dict[str, str]:
    try:
        known = loads(read_bytes(os.path.join(directory, _OURS)))
    except (OSError, ValueError, RecursionError, RlmnbError):
        return {}
    return dict(known) if isinstance(known, dict) else {}


def _write(path: str, data: bytes, done: Written, ours: dict[str, str], *, force: bool) -> None:
    where = os.path.join(done.directory, *path.split("/"))
    here = os.path.dirname(where)
    while here != done.directory:
        refuse_link(here)
        here = os.path.dirname(here)
    new = digest.of_bytes(data)
    if os.path.islink(where) and not force:
        done.left[path] = "is a symbolic link"
        return
    found = digest.of_file(where)["hash"]
    if found == new:
        done.unchanged.append(path)
    elif found not in (digest.MISSING, ours.get(path)) and not force:
        done.left[path] = "was written by others; --force replaces it"
        return
    else:
        make_directory(os.path.dirname(where))
        write_atomic(where, data)
        done.written.append(path)
    ours[path] = new


def _link(session: Session, done: Written, root: str) -> None:
    """Let old paths lead to what was written, where nothing stands yet."""
    wanted = {path: os.path.join(done.directory, path) for path in [*done.written, *done.unchanged]}
    transcript = session.transcript_path
    if transcript is not None and os.path.isfile(transcript):
        wanted["rlm-state/current-transcript.jsonl"] = transcript
    for path, target in wanted.items():
        old = os.path.join(root, *path.split("/"))
        if os.path.realpath(old) == os.path.realpath(target):
            done.links.append(path)
        elif os.path.lexists(old):
            done.left.setdefault(path, f"{old} is there already")
        else:
            make_directory(os.path.dirname(old))
            point_link(old, target)
            done.links.append(path)
