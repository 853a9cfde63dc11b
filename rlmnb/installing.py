"""Put the hooks into Claude Code's settings, and take them out again, touching nothing else."""

from __future__ import annotations

import copy
import json
import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlmnb.errors import StorageError
from rlmnb.files import make_directory, read_bytes, write_like

# Each event that is recorded, with how long its hook may take in seconds. None that only newer
# clients have (PostModelSwitch, DirectoryAdded): 2.1.197 takes no hook at all of a plugin that asks
# for an event it has not heard of.
EVENTS: dict[str, int] = {
    "SessionStart": 10,
    "SessionEnd": 10,
    "UserPromptSubmit": 5,
    "PreToolUse": 5,
    "PostToolUse": 5,
    "PostToolUseFailure": 5,
    "PostToolBatch": 5,
    "SubagentStart": 5,
    "SubagentStop": 10,
    "Stop": 10,
    "StopFailure": 10,
    "PreCompact": 10,
    "PostCompact": 5,
    "CwdChanged": 5,
    "FileChanged": 5,
}
_MATCHED = ("PreToolUse", "PostToolUse", "PostToolUseFailure")
_OURS = "rlmnb.hook"
_HERE = os.path.dirname(os.path.abspath(__file__))
# A plugin cannot know where Python is, and no one name of it is right everywhere: `python3` is on
# Windows nothing, or a stub that only names a shop, and ends with an error. So this cannot be the
# form without a shell (`args`), which takes one name. Elsewhere the shell gives way to Python at
# once; on Windows it is Git's bash, which tries what installers give, the launcher first.
_PLUGIN_COMMAND = (
    'set -- -I -S "${CLAUDE_PLUGIN_ROOT}/hooks/run.py"; '
    '[ "$OS" = Windows_NT ] || exec python3 "$@"; '
    'py -3 "$@" 2>/dev/null || python "$@" 2>/dev/null || python3 "$@"'
)
# Only a process of the client's own can tell which client it is, and so where a session came from.
_BY_COMMAND = ("SessionStart", "SessionEnd", "UserPromptSubmit")


@dataclass(frozen=True)
class Change:
    """What a settings file has, and what it would have."""

    path: str
    before: str
    after: str


def settings_path(scope: str, environ: Mapping[str, str] | None = None) -> str:
    """Return the settings file of a scope: user, project or local."""
    environ = os.environ if environ is None else environ
    if scope == "user":
        home = environ.get("CLAUDE_CONFIG_DIR") or os.path.join("~", ".claude")
        return os.path.join(os.path.expanduser(home), "settings.json")
    name = "settings.json" if scope == "project" else "settings.local.json"
    return os.path.join(os.getcwd(), ".claude", name)


def real_interpreter() -> str:
    """Return the interpreter itself: a shim in front of it costs more than the hook does."""
    return os.path.abspath(sys.executable)


def arguments() -> list[str]:
    """Return what the interpreter is told to take an event in.

    The same as `-m rlmnb.hook`, isolated, so that a file of the project's is never taken for a
    module of ours, and without what Python imports to run a module and to look through all that is
    installed. Where the package is gone from its place, that is looked through after all.
    """
    place = json.dumps(os.path.dirname(_HERE), ensure_ascii=False)
    code = (
        f"import os, sys; os.path.isdir({json.dumps(_HERE, ensure_ascii=False)})"
        f' or __import__("site").main(); sys.path.append({place});'
        f" from {_OURS} import run; run()"
    )
    return ["-I", "-S", "-c", code]


def command() -> str:
    """Return the command that takes an event in, for a shell."""
    return shlex.join([real_interpreter(), *arguments()])


def hook_entry(seconds: int, *, windows: bool = os.name == "nt") -> dict[str, Any]:
    """Return one hook as settings have it. On Windows no shell reads the command."""
    if not windows:
        return {"type": "command", "command": command(), "timeout": seconds}
    whole = {"type": "command", "command": real_interpreter(), "args": arguments()}
    return {**whole, "timeout": seconds}


def http_entry(seconds: int, url: str, token: str) -> dict[str, Any]:
    """Return one hook that goes to the server of `rlmnb hooks serve`."""
    headers = {"Authorization": f"Bearer {token}"}
    return {"type": "http", "url": url, "headers": headers, "timeout": seconds}


def http_settings(url: str, token: str) -> dict[str, Any]:
    """Return settings whose hooks go to a server, but for those that a server cannot stand for."""
    found = {}
    for event, seconds in EVENTS.items():
        by_command = event in _BY_COMMAND
        found[event] = [
            _matched(event, hook_entry(seconds) if by_command else http_entry(seconds, url, token))
        ]
    return {"hooks": found}


def _matched(event: str, hook: dict[str, Any]) -> dict[str, Any]:
    return {**({"matcher": "*"} if event in _MATCHED else {}), "hooks": [hook]}


def installed(scope: str) -> bool:
    """Tell whether the hooks are in a settings file."""
    return _OURS in _read(settings_path(scope))


def install(scope: str) -> Change:
    """Return the change that puts the hooks in; `apply` makes it."""
    path = settings_path(scope)
    settings = _without(_parsed(path))
    hooks = settings.setdefault("hooks", {})
    for event, seconds in EVENTS.items():
        hooks.setdefault(event, []).append(_matched(event, hook_entry(seconds)))
    return Change(path, _read(path), _written(settings))


def uninstall(scope: str) -> Change:
    """Return the change that takes the hooks out and leaves all others."""
    path = settings_path(scope)
    return Change(path, _read(path), _written(_without(_parsed(path))))


def apply(change: Change) -> None:
    """Write a settings file as a change has it, if it is still what was shown."""
    if _read(change.path) != change.before:
        raise StorageError(f"{change.path} was changed meanwhile", hint="run the command again")
    make_directory(os.path.dirname(change.path))
    write_like(os.path.realpath(change.path), change.after.encode())


def _read(path: str) -> str:
    try:
        return read_bytes(path).decode("utf-8")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        raise StorageError(f"{path} is not UTF-8 text", hint="repair it first") from None


def _parsed(path: str) -> dict[str, Any]:
    text = _read(path)
    try:
        found = json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise StorageError(f"{path} is not JSON: {error}", hint="repair it first") from None
    hooks = found.get("hooks", {}) if isinstance(found, dict) else None
    if not isinstance(hooks, dict) or not all(isinstance(each, list) for each in hooks.values()):
        raise StorageError(f"{path}: its hooks are not lists by event", hint="repair it first")
    return dict(found)


def _without(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings without what is ours; an event that only we had goes with it."""
    left = copy.deepcopy(settings)
    hooks = left.get("hooks", {})
    for event in list(hooks):
        entries = []
        for entry in hooks[event]:
            if isinstance(entry, dict) and isinstance(entry.get("hooks"), list):
                kept = [each for each in entry["hooks"] if not _is_ours(each)]
                if not kept and entry["hooks"]:
                    continue
                entry = {**entry, "hooks": kept}  # noqa: PLW2901 - the same, without ours
            entries.append(entry)
        if entries or not hooks[event]:
            hooks[event] = entries
        else:
            del hooks[event]
    if "hooks" in left and not hooks and settings.get("hooks"):
        del left["hooks"]
    return left


def _is_ours(hook: Any) -> bool:
    places = ("command", "args", "url")
    return isinstance(hook, dict) and any(_OURS in str(hook.get(name, "")) for name in places)


def _written(settings: dict[str, Any]) -> str:
    return json.dumps(settings, indent=2, ensure_ascii=False) + "\n" if settings else "{}\n"


def plugin_hooks() -> dict[str, Any]:
    """Return what `hooks/hooks.json` of the plugin has: the same events, run from where it is."""
    run = {"type": "command", "command": _PLUGIN_COMMAND, "shell": "bash"}
    found = {
        event: [_matched(event, {**run, "timeout": seconds})] for event, seconds in EVENTS.items()
    }
    return {"description": "Records the session as a notebook", "hooks": found}
