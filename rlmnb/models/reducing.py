"""Work that is cut into parts: each part a call with its own slice, and one call over the answers.

Change one item, and its call and the last one are made again; all others are answered from what is
kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any
from zlib import crc32

from rlmnb.errors import ModelError
from rlmnb.models.calling import AT_ONCE, prepared, request_for
from rlmnb.models.threads import WithTwin, check_limit, side_by_side

Prompt = str | Callable[[Any], str]
# About four thousand tokens: small models take as much, and a part is still worth a call.
PART = 16_000
# One line in so many may end a part.
_ENDS = 16
_SUMMARIZE = "Summarize this text. Keep names, numbers and decisions.\n\n{item}"
_COMBINE = (
    "These are summaries of the parts of one text, in order. Combine them into one summary.\n\n"
    "{results}"
)


@WithTwin
def map_reduce(
    items: Iterable[Any],
    map_prompt: Prompt,
    reduce_prompt: Prompt,
    model: str | None = None,
    system: str | None = None,
    schema: Any = None,
    limit: int = AT_ONCE,
    **parameters: Any,
) -> Any:
    """Ask about each item, at most `limit` at a time, then once about all the answers.

    In `map_prompt`, `{item}` stands for the item; in `reduce_prompt`, `{results}` for the answers
    in the order of the items. Either may be a function that makes the prompt. `schema` is for the
    last answer.
    """
    most = check_limit(limit)
    given = list(items)
    requests = [
        request_for(_filled(map_prompt, "{item}", each, _shown), model, system, (), parameters)
        for each in given
    ]
    jobs = [
        prepared(request, role="map", item=at, of=len(given)) for at, request in enumerate(requests)
    ]
    results = side_by_side(jobs, most) if jobs else []
    prompt = _filled(reduce_prompt, "{results}", results, _numbered)
    request = request_for(prompt, model, system, (), parameters)
    return prepared(request, schema, role="reduce", of=len(given))()


def _filled(prompt: Prompt, mark: str, value: Any, show: Callable[[Any], str]) -> str:
    """Put a value into a prompt: where it is marked, else below."""
    if callable(prompt):
        made = prompt(value)
        if not isinstance(made, str):
            raise ModelError(f"a prompt is a text, the function made a {type(made).__name__}")
        return made
    if not isinstance(prompt, str):
        raise ModelError(f"a prompt is a text or a function, found a {type(prompt).__name__}")
    shown = show(value)
    return prompt.replace(mark, shown) if mark in prompt else f"{prompt}\n\n{shown}"


def _shown(item: Any) -> str:
    if isinstance(item, str):
        return item
    try:
        # The same text in every process, which `repr` of a set is not.
        return json.dumps(item, ensure_ascii=False, sort_keys=True)
    except (TypeError, ValueError):
        return repr(item)


def _numbered(results: list[str]) -> str:
    return "\n\n".join(f"{at}. {each}" for at, each in enumerate(results, start=1))


@WithTwin
def summarize(
    context: Any,
    instructions: str | None = None,
    model: str | None = None,
    size: int = PART,
    limit: int = AT_ONCE,
    **parameters: Any,
) -> str:
    """Summarize a text: in one call if it is short, else part by part and then the whole."""
    text = context if isinstance(context, str) else _shown(context)
    ask = _SUMMARIZE if instructions is None else f"{instructions}\n\n{{item}}"
    parts = [text] if len(text) <= size else cut(text, size)
    if len(parts) == 1:
        prompt = _filled(ask, "{item}", text, _shown)
        return str(prepared(request_for(prompt, model, None, (), parameters))())
    return str(map_reduce(parts, ask, _COMBINE, model=model, limit=limit, **parameters))


def cut(text: str, size: int = PART) -> list[str]:
    """Cut a text at line ends into parts of at most this many characters.

    Past half of that, a part ends where a line's own content says so: a change in one place leaves
    most parts elsewhere as they were, and the calls about them need not be made again.
    """
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise ValueError(f"size is a number of characters, at least 1, found {size!r}")
    parts: list[str] = []
    here = ""
    for line in text.splitlines(keepends=True):
        while len(here) + len(line) > size:
            room = size - len(here) if not here or len(line) > size else 0
            parts.append(here + line[:room])
            here, line = "", line[room:]  # noqa: PLW2901 - what is left of it
        here += line
        if len(here) > size // 2 and crc32(line.encode("utf-8", "replace")) % _ENDS == 0:
            parts.append(here)
            here = ""
    return [*parts, here] if here or not parts else parts
