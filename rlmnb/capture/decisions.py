"""What an agent has decided to do: from the lists of tasks it keeps and the plans it makes."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LONGEST = 300


def decided(
    tool: str, args: "dict[str, Any]", response: "Any", tasks: "dict[str, Any]", now: "str | None"
) -> "tuple[str | None, str | None]":
    """Return what a call decides, and what the calls after it are part of.

    `tasks` are the agent's by their ids, and are kept up to date; `now` is the one at work.
    """
    if tool == "TodoWrite":
        todos = [each for each in _list(args.get("todos")) if isinstance(each, dict)]
        active = [each for each in todos if each.get("status") == "in_progress"]
        doing = _text(active[0].get("content")) if active else None
        first = _text(todos[0].get("content")) if todos else None
        return doing or first, doing
    if tool == "TaskCreate":
        subject = _text(args.get("subject"))
        made = response.get("task") if isinstance(response, dict) else None
        name = made.get("id") if isinstance(made, dict) else None
        if isinstance(name, str) and subject:
            tasks[name] = subject
        return subject, now
    if tool == "TaskUpdate":
        name = args.get("taskId")
        known = tasks.get(name) if isinstance(name, str) else None
        subject = _text(args.get("subject")) or (known if isinstance(known, str) else None)
        if args.get("status") == "in_progress":
            return subject, subject
        return None, None if subject == now else now
    if tool == "ExitPlanMode":
        return _text(args.get("plan")), now
    return now, now


def _list(value: "Any") -> "list[Any]":
    return value if isinstance(value, list) else []


def _text(value: "Any") -> "str | None":
    if not isinstance(value, str):
        return None
    line = next((line.strip(" #*") for line in value.splitlines() if line.strip(" #*")), "")
    return line[:_LONGEST] or None
