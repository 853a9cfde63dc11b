"""The names that cells find without importing them: `llm_query`, `map_reduce`, `peek` and others.

They stand among the builtins, where a variable of the same name comes first, and load what they
need when they are first called.
"""

from __future__ import annotations

import builtins
import importlib
from typing import Any

_HOMES = {
    "allm_query": "rlmnb.models.calling",
    "cell": "rlmnb.kernel.calls",
    "conversation": "rlmnb.kernel.calls",
    "llm_query": "rlmnb.models.calling",
    "llm_query_batched": "rlmnb.models.calling",
    "map_reduce": "rlmnb.models.reducing",
    "memory_query": "rlmnb.models.remembering",
    "outline": "rlmnb.models.contexts",
    "peek": "rlmnb.models.reading",
    "read_file": "rlmnb.models.reading",
    "rlm_query": "rlmnb.models.recursing",
    "search": "rlmnb.models.reading",
    "split_context": "rlmnb.models.contexts",
    "summarize": "rlmnb.models.reducing",
    "verify": "rlmnb.models.verifying",
}


class Offered:
    """One of these functions, by its name."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def _real(self) -> Any:
        return getattr(importlib.import_module(_HOMES[self._name]), self._name)

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Call the function."""
        return self._real()(*args, **options)

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_") and attribute not in ("__doc__", "__signature__"):
            raise AttributeError(attribute)
        return getattr(self._real(), attribute)

    def __repr__(self) -> str:
        return f"<function {self._name} of rlmnb>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Offered, (self._name,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Offered) and other._name == self._name

    def __hash__(self) -> int:
        return hash(self._name)


def offer() -> None:
    """Let every cell find them."""
    for name in _HOMES:
        setattr(builtins, name, Offered(name))
