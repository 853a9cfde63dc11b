"""A context that stays in a variable: what it looks like from outside, and its parts."""

from __future__ import annotations

import json
from typing import Any

from rlmnb.models.reducing import PART, cut

_HEAD = 400
_KEYS = 20


def outline(context: Any) -> str:
    """Say what a context is without showing all of it: its kind, its size, how it begins."""
    if context is None:
        return "there is no context"
    lines = [f"{_kind(context)}, {len(as_text(context)):,} characters as text"]
    if isinstance(context, dict):
        keys = list(context)
        more = f" and {len(keys) - _KEYS} more" if len(keys) > _KEYS else ""
        lines += [f"key {key!r}: {_kind(context[key])}" for key in keys[:_KEYS]]
        lines += [more.strip()] if more else []
    elif isinstance(context, list | tuple) and context:
        lines.append(f"the first item is {_kind(context[0])}")
    head = as_text(context)[:_HEAD]
    return "\n".join([*lines, "it begins:", head])


def _kind(value: Any) -> str:
    name = type(value).__name__
    if isinstance(value, str | bytes):
        return f"{name} of {len(value):,}"
    if isinstance(value, dict | list | tuple | set | frozenset):
        return f"{name} of {len(value):,} items"
    return name


def as_text(context: Any) -> str:
    """Return a context as one text, the same in every process."""
    if isinstance(context, str):
        return context
    if isinstance(context, bytes):
        return context.decode("utf-8", "replace")
    try:
        return json.dumps(context, ensure_ascii=False, sort_keys=True, indent=1)
    except (TypeError, ValueError):
        return repr(context)


def split_context(context: Any, size: int = PART) -> list[str]:
    """Cut a context into texts of at most `size` characters, each to be asked about by itself.

    Of a dict of texts (files by their names), each part says which one it is of.
    """
    if isinstance(context, dict) and all(isinstance(each, str) for each in context.values()):
        return [
            part for name, text in context.items() for part in _named_parts(str(name), text, size)
        ]
    if isinstance(context, list | tuple):
        return cut("".join(f"{_line(item)}\n" for item in context), size)
    return cut(as_text(context), size)


def _named_parts(name: str, text: str, size: int) -> list[str]:
    label = f"[{name}]\n"
    room = size - len(label)
    return [label + part for part in cut(text, room)] if room > 0 else cut(text, size)


def _line(item: Any) -> str:
    if isinstance(item, str):
        return item
    try:
        return json.dumps(item, ensure_ascii=False, sort_keys=True)
    except (TypeError, ValueError):
        return repr(item)
