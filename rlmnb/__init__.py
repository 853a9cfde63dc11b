"""An LLM agent's session, kept as a real Jupyter notebook that can be opened, edited and replayed.

`import rlmnb` imports nothing heavy: each name below is loaded when it is first used, and `append`
never needs more than the standard library.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlmnb.errors import RlmnbError as RlmnbError
    from rlmnb.session import Session as Session
    from rlmnb.views import Cell as Cell

    __version__: str

__all__ = ["Cell", "RlmnbError", "Session", "__version__", "append"]


def append(session: str, cell: "Mapping[str, Any]", **options: "Any") -> str:
    """Append one cell to a session and return its id, using the standard library only.

    `session` is an id, or a path to any notebook; it begins here if it has not yet. `cell` is
    `{"source": …}` with any field of a record beside it, or a whole nbformat cell. Options are
    `root`, `cwd` and `timeout`. The source is enough: which tool it calls, and the files it names,
    are read from there.
    """
    from rlmnb.store.append import append as append_cell

    told = isinstance(cell, dict) and not cell.keys() & {"cell_type", "operation"}
    # Most sources have nothing in them that could be the name of a file.
    if told and any(mark in str(cell.get("source")) for mark in "'\"./\\~"):
        import os

        from rlmnb.capture.toolcalls import with_tool_call

        cell = with_tool_call(cell, options.get("cwd") or os.getcwd())
    return append_cell(session, cell, **options).cell_id


_HOMES = {
    "Cell": ("rlmnb.views", "Cell"),
    "RlmnbError": ("rlmnb.errors", "RlmnbError"),
    "Session": ("rlmnb.session", "Session"),
    "__version__": ("rlmnb.format.version", "PACKAGE"),
    # What cells find without an import is found here, too, by whoever looks for it.
    **{
        name: ("rlmnb.models", name)
        for name in (
            "llm_query",
            "llm_query_batched",
            "map_reduce",
            "peek",
            "rlm_query",
            "search",
            "summarize",
        )
    },
}


def __getattr__(name: str) -> "Any":
    if name not in _HOMES:
        raise AttributeError(f"module 'rlmnb' has no attribute {name!r}")
    import importlib

    module, attribute = _HOMES[name]
    return getattr(importlib.import_module(module), attribute)
