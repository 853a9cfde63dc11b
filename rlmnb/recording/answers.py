"""What a hook says back at the start of a session: only where there is something to say."""

import os

from rlmnb.capture.complexity import MODES
from rlmnb.capture.privacy import IGNORE_FILE
from rlmnb.errors import StorageError, UnsafePathError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

_LONGEST_MESSAGE = 600
_SWITCHES = ("RLMNB_OFF", "RLMNB_REDACT_ENTROPY")
_WORDS = frozenset(("", "0", "1", "false", "true", "no", "yes", "off", "on"))


def answer(
    event: str,
    *,
    title: "str | None" = None,
    watched: "Sequence[str]" = (),
    messages: "Sequence[str]" = (),
) -> "dict[str, Any] | None":
    """Return what is said back, None for nothing."""
    said: dict[str, Any] = {}
    if title:
        said["sessionTitle"] = title
    if watched:
        said["watchPaths"] = list(watched)
    whole: dict[str, Any] = {}
    if said:
        whole["hookSpecificOutput"] = {"hookEventName": event, **said}
    if messages:
        whole["systemMessage"] = "\n".join(f"rlmnb: {text}" for text in messages)[:_LONGEST_MESSAGE]
    return whole or None


def not_recorded(error: BaseException) -> "dict[str, Any] | None":
    """Return what a person is told when a session cannot be kept where it should be."""
    if not isinstance(error, (OSError, StorageError, UnsafePathError)):
        return None  # what came was no session, which is nobody's mistake here
    text = str(getattr(error, "message", None) or error)
    hint = getattr(error, "hint", None)
    why = f"this session is not recorded: {text}"
    return answer("SessionStart", messages=[f"{why}; {hint}" if hint else why])


def problems(cwd: str, environ: "Mapping[str, str]") -> "list[str]":
    """Return what is wrong with how rlmnb is set up, each in a sentence."""
    found = []
    path = os.path.join(cwd, IGNORE_FILE)
    if os.path.lexists(path) and not (os.path.isfile(path) and os.access(path, os.R_OK)):
        found.append(f"{path} cannot be read, so no file is ignored; see: ls -l {path}")
    mode = environ.get("RLMNB_ACTIVATION")
    if mode and mode not in MODES:
        found.append(f"RLMNB_ACTIVATION is {mode!r}, wanted one of {', '.join(MODES)}")
    for name in _SWITCHES:
        value = environ.get(name, "")
        if value.strip().lower() not in _WORDS:
            found.append(f"{name} is {value!r}, wanted 1 or 0; it counts as 1")
    largest = environ.get("RLMNB_LARGEST_STATE", "")
    if largest and not largest.strip().isdigit():
        found.append(f"RLMNB_LARGEST_STATE is {largest!r}, wanted a number of bytes")
    return found


def two_at_once(sessions: "Sequence[str]") -> str:
    """Say that others are at work in the same project."""
    named = ", ".join(each[:8] for each in sessions[:3])
    count = f"{len(sessions)} other sessions record" if len(sessions) > 1 else "another session"
    verb = "" if len(sessions) > 1 else " records"
    return f"{count}{verb} this project now ({named}); each has its own notebook: rlmnb sessions"
