"""Model calls: asked once, kept in the notebook, counted, and answered from there.

Each name below is loaded when it is first used.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rlmnb.models.calling import allm_query as allm_query
    from rlmnb.models.calling import llm_query as llm_query
    from rlmnb.models.calling import llm_query_batched as llm_query_batched
    from rlmnb.models.contexts import outline as outline
    from rlmnb.models.contexts import split_context as split_context
    from rlmnb.models.reading import peek as peek
    from rlmnb.models.reading import read_file as read_file
    from rlmnb.models.reading import search as search
    from rlmnb.models.recursing import rlm_query as rlm_query
    from rlmnb.models.reducing import map_reduce as map_reduce
    from rlmnb.models.reducing import summarize as summarize
    from rlmnb.models.remembering import memory_query as memory_query
    from rlmnb.models.verifying import verify as verify

# How to say where this process makes its calls, before the first one; a kernel sets it.
settle: "Callable[[], None] | None" = None

HOMES = {
    "allm_query": "calling",
    "llm_query": "calling",
    "llm_query_batched": "calling",
    "map_reduce": "reducing",
    "memory_query": "remembering",
    "outline": "contexts",
    "peek": "reading",
    "read_file": "reading",
    "rlm_query": "recursing",
    "search": "reading",
    "split_context": "contexts",
    "summarize": "reducing",
    "verify": "verifying",
}

__all__ = [
    "allm_query",
    "llm_query",
    "llm_query_batched",
    "map_reduce",
    "memory_query",
    "outline",
    "peek",
    "read_file",
    "rlm_query",
    "search",
    "split_context",
    "summarize",
    "verify",
]


def __getattr__(name: str) -> "Any":
    if name not in HOMES:
        raise AttributeError(f"module 'rlmnb.models' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"rlmnb.models.{HOMES[name]}"), name)
