"""From what is known of calls, messages and files to cells."""

from __future__ import annotations

import os
from collections import defaultdict
from datetime import datetime
from typing import Any

from rlmnb import digest
from rlmnb.capture import calls as capturing
from rlmnb.capture.privacy import ignored
from rlmnb.migrating.conversation import ROLES, Call, Conversation
from rlmnb.migrating.items import Gathered, Item, note
from rlmnb.migrating.reading import Tree, moment, text

_NEAR_SECONDS = 2
# Nobody can say what the file was: a hash that no file has.
_UNKNOWN = {"hash": digest.UNREADABLE, "size_bytes": None}


def take_accesses(said: Conversation, accesses: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Let a log of file accesses date the calls, and add calls that nothing else tells of."""
    waiting: dict[tuple[str, str], list[Call]] = defaultdict(list)
    for call in reversed(said.calls):
        for target in _targets(call):
            waiting[call.tool, target].append(call)
    nameless: dict[tuple[str, int], list[Call]] = defaultdict(list)
    for call in said.calls:
        if call.args is None and call.at is not None:
            nameless[call.tool, _second(call.at)].append(call)
    rest = []
    for access in accesses:
        tool, at = text(access.get("tool")), moment(access.get("timestamp"))
        path, pattern = text(access.get("file")), text(access.get("pattern"))
        target = path or pattern or ""
        if tool is None or not capturing.is_path(target):
            rest.append(access)
            continue
        if same := waiting.get((tool, target)):
            call = same.pop()
            call.at = call.at or at
            continue
        args = {"file_path": target} if path else {"pattern": target}
        near = _near(nameless, tool, at) if at is not None else []
        if len(near) == 1:
            near[0].args = args
        else:
            said.calls.append(Call(tool, args, at=at, version=_UNKNOWN if path else None))
    return rest


def _targets(call: Call) -> list[str]:
    keys = ("file_path", "notebook_path", "pattern")
    found = [(call.args or {}).get(key) for key in keys]
    return [each for each in found if isinstance(each, str)]


def _second(at: str) -> int:
    return int(datetime.fromisoformat(at).timestamp())


def _near(nameless: dict[tuple[str, int], list[Call]], tool: str, at: str) -> list[Call]:
    """Return the calls of a tool around a moment of which nobody has said the arguments yet."""
    here = _second(at)
    moments = range(here - _NEAR_SECONDS, here + _NEAR_SECONDS + 1)
    found = [call for each in moments for call in nameless.get((tool, each), ())]
    return [call for call in found if call.args is None]


def take_files(said: Conversation, tree: Tree) -> None:
    """Let the files at hand tell which file a call read, and what it was; the rest were read too.

    Only reading put a file among them.
    """
    by_answer: dict[str, list[Call]] = defaultdict(list)
    by_path: dict[str, list[Call]] = defaultdict(list)
    for call in said.calls:
        if call.tool == "Read" and call.args is None and call.told:
            by_answer[call.told].append(call)
        elif call.tool == "Read":
            for path in _targets(call):
                by_path[path].append(call)
    for path, content in said.files:
        version = tree.versions.get((path, content), _UNKNOWN)
        if same := by_answer.get(content) or by_path.get(path):
            call = same.pop(0)
            call.args = call.args or {"file_path": path}
            call.answer = content if call.answer is None else call.answer
        else:
            call = Call("Read", {"file_path": path}, content)
            said.calls.append(call)
        call.version = version


def message_items(said: Conversation, key: str) -> list[Item]:
    """Return what was said as text cells."""
    items = []
    for number, message in enumerate(said.messages):
        source = message["content"]
        if message["role"] == "user":
            source = "\n".join(f"> {line}" if line else ">" for line in source.split("\n"))
        kind = ROLES[message["role"]]
        more = {"legacy": message["more"]} if message["more"] else {}
        items.append(note(f"{key}/message/{number}", source, kind, message["at"], **more))
    return items


def call_items(said: Conversation, key: str, kept: Gathered, cwd: str) -> list[Item]:
    """Return the calls as tool cells that make them again."""
    return [
        _call_item(call, f"{key}/call/{number}", kept, cwd)
        for number, call in enumerate(said.calls)
    ]


def _call_item(call: Call, key: str, kept: Gathered, cwd: str) -> Item:
    args = call.args
    found = capturing.paths_of(call.tool, args or {}, cwd) if call.tool != "Bash" else ([], [])
    reads, writes = ([path for path in paths if os.path.isabs(path)] for paths in found)
    if any(ignored(path, cwd or "/") for path in (*reads, *writes)):
        return Item(key, _withheld(call), call.at)
    read, written = capturing.versions_told(call.tool, reads, writes, call.answer)
    if call.version is not None:
        read = dict.fromkeys(reads, call.version) if reads else read
        written = dict.fromkeys(writes, call.version) if writes else written
    more = call.more | ({} if call.exit_code is None else {"exit_code": call.exit_code})
    # Without its arguments nobody can make the call again: it is kept as it was.
    source = (
        capturing.source_of_call(call.tool, args, kept.keep)
        if args is not None
        else f"tools.call({call.tool!r})"
    )
    failed = f"Exit code {call.exit_code}" if call.exit_code else None
    fields = {
        "source": source,
        "type": "tool",
        "operation": call.tool,
        "args": capturing.brief(args, kept.keep) if args is not None else None,
        "origin": "legacy",
        "outputs": capturing.outputs_of(call.tool, call.answer),
        "files_read": read,
        "files_written": written,
        "tool_use_id": call.tool_use_id,
        "error": failed,
        "metadata": {"legacy": more} if more else None,
    }
    return Item(key, fields, call.at, reads=tuple(reads), writes=tuple(writes))


def _withheld(call: Call) -> dict[str, Any]:
    return {
        "source": f"tools.call({call.tool!r})",
        "type": "tool",
        "operation": call.tool,
        "origin": "legacy",
        "output": "not recorded: the file is among those to be ignored\n",
        "tool_use_id": call.tool_use_id,
    }
