"""`memory_query`: what outlives sessions. There is none yet, and a question is told so."""

from __future__ import annotations

NOTHING = "there is no memory yet: nothing is known from earlier sessions"


def memory_query(query: str) -> str:
    """Ask what is known from earlier sessions."""
    if not isinstance(query, str) or not query.strip():
        raise ValueError(f"a question to memory is a text, found {query!r}")
    return NOTHING
