"""What frames of pandas have in common without showing it: memory that is copied before a write."""

from __future__ import annotations

import sys
from typing import Any


def copies_before_it_writes(value: Any) -> bool:
    """Tell whether this is a frame, a series or an index, which never show each other's changes."""
    pandas = _pandas(value)
    if pandas is None:
        return False
    frames = (pandas.DataFrame, pandas.Series, pandas.Index)
    return isinstance(value, frames) and int(pandas.__version__.partition(".")[0]) >= 3


def is_column_type(value: Any) -> bool:
    """Tell whether this is the type of a column, which is the same for all and never changes."""
    pandas = _pandas(value)
    return pandas is not None and isinstance(value, pandas.api.extensions.ExtensionDtype)


def is_column(value: Any) -> bool:
    """Tell whether this is what a column keeps its values in."""
    pandas = _pandas(value)
    return pandas is not None and isinstance(value, pandas.api.extensions.ExtensionArray)


def _pandas(value: Any) -> Any:
    """Return pandas if the value is of a class of its own and it is imported to the end."""
    if type(value).__module__.partition(".")[0] != "pandas":
        return None
    pandas = sys.modules.get("pandas")
    return pandas if hasattr(pandas, "api") and hasattr(pandas, "Index") else None


def without_cache(value: Any, state: Any) -> Any:
    """Return the state of an object, of pandas' without what it only remembers to be faster."""
    return _without_cache(state) if type(value).__module__[:6] == "pandas" else state


def _without_cache(state: Any) -> Any:
    if isinstance(state, dict):
        return {key: each for key, each in state.items() if key != "_cache"}
    if isinstance(state, tuple):
        parts = [_without_cache(each) if isinstance(each, dict) else each for each in state]
        return tuple(each for each in parts if type(each) is not dict or each)
    return state
