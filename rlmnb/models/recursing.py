"""`rlm_query`: a question over a context, answered by a model that may itself ask further ones.

How deep that goes is bounded here, before anything is asked: a cell is at depth 0, the calls that
it makes recursively at depth 1, those they make at depth 2. At the deepest level that the session
allows (1 to 3) a question is one plain call.

What happens between is the loop's: `plug(loop)` sets it for this process. A loop is called with the
prompt, the context, and the model, at the depth it is to work at (`current.depth`), and returns the
answer as a text. It asks through `llm_query` and `rlm_query` like any cell, so that its calls are
kept and counted. Unless another is plugged in, it is that of `rlmnb.models.nested`.
"""

from __future__ import annotations

import importlib
from typing import Any, Protocol

from rlmnb.errors import BudgetError
from rlmnb.models import budget, current
from rlmnb.models.asking import note, take
from rlmnb.models.calling import prepared, request_for
from rlmnb.models.reading import peek
from rlmnb.models.threads import WithTwin


class Loop(Protocol):
    """Whoever works on a question step by step."""

    def __call__(self, prompt: str, context: Any, *, model: str | None, system: str | None) -> str:
        """Return the answer to a question over a context."""


def _nested(prompt: str, context: Any, *, model: str | None, system: str | None) -> str:
    # By its name: the loop itself asks recursive questions.
    loop: Loop = importlib.import_module("rlmnb.models.nested").loop
    return loop(prompt, context, model=model, system=system)


_plugged: list[Loop] = [_nested]


def plug(loop: Loop | None) -> None:
    """Let this loop answer recursive questions from now on; None for plain calls."""
    _plugged[:] = [] if loop is None else [loop]


@WithTwin
def rlm_query(
    prompt: str,
    context: Any = None,
    depth: int | None = None,
    model: str | None = None,
    system: str | None = None,
    **parameters: Any,
) -> str:
    """Ask a question over a context, which may be asked in parts, each again in the same way.

    `depth` is how deep calls may nest, at most what the session allows. What else is given, as in
    `temperature=0`, goes to the model with every call that is made for it.
    """
    here = current.surroundings()
    with here.apart():
        desk = here.desk()
    limit = min(desk.rules.limits.depth, current.deepest.get())
    if depth is not None:
        if type(depth) is not int or not 1 <= depth <= budget.DEEPEST:
            raise ValueError(f"depth is a number from 1 to {budget.DEEPEST}, found {depth!r}")
        limit = min(limit, depth)
    level = current.depth.get() + 1
    request = request_for(with_context(prompt, context), model, system, (), parameters)
    if why := budget.depth_refusal(desk.depth + level, limit):
        refused = f"this recursive call is refused: {why}"
        note(take(request, desk, depth=level), desk, refused)
        raise BudgetError(
            refused,
            hint=f"raise it, up to {budget.DEEPEST}, with: rlmnb budget --set depth=…",
        )
    with current.one_level_down(limit, parameters):
        if _plugged and desk.depth + level < limit:
            return _plugged[0](prompt, context, model=model, system=system)
        return str(prepared(request, role="recursive")())


def with_context(prompt: str, context: Any) -> str:
    """Put a context below a question."""
    if context is None:
        return prompt
    shown = context if isinstance(context, str) else peek(context, 0, _ALL)
    return f"{prompt}\n\nContext:\n{shown}"


_ALL = 1 << 40
