"""Make a session's state as a plain dict, light enough for a hook.

`rlmnb.format.session` is the definition of the state; a test holds the two together.
"""

import sys

from rlmnb.format import times
from rlmnb.format.version import PACKAGE, SCHEMA
from rlmnb.jsontext import portable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def new_state(session_id: str, **session: "Any") -> "dict[str, Any]":
    """Make the state of a session that begins now; `session` are fields of its first section."""
    moment = times.now()
    known = {key: value for key, value in session.items() if value not in (None, [], "")}
    state: dict[str, Any] = portable(
        {
            "schema_version": SCHEMA,
            "session": {
                "id": session_id,
                "created_at": moment,
                "updated_at": moment,
                "version": PACKAGE,
                **known,
            },
            "activation": {},
            "budget": {},
            "context": {},
            "lifecycle": {"phase": "running"},
        }
    )
    return state


def notebook_metadata(state: "Mapping[str, Any]", appended: int) -> "dict[str, Any]":
    """Make the metadata of a notebook that JupyterLab opens without calling it changed."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    return {
        # Our own kernel: a cell that a person runs in JupyterLab counts as run.
        "kernelspec": {
            "display_name": "Python 3 (rlmnb)",
            "language": "python",
            "name": "rlmnb",
        },
        "language_info": {
            "codemirror_mode": {"name": "ipython", "version": 3},
            "file_extension": ".py",
            "mimetype": "text/x-python",
            "name": "python",
            "nbconvert_exporter": "python",
            "pygments_lexer": "ipython3",
            "version": version,
        },
        "rlmnb": {**state, "appended": appended},
    }


def merged(old: "Any", patch: "Any") -> "Any":
    """Lay one JSON value over another: objects merge, anything else replaces."""
    if not isinstance(patch, dict) or not isinstance(old, dict):
        return patch
    result = dict(old)
    for key, value in patch.items():
        result[key] = merged(result[key], value) if key in result else value
    return result


def difference(old: "dict[str, Any]", new: "dict[str, Any]") -> "dict[str, Any]":
    """Return what to set, and which paths to remove, to turn one object into the other."""
    put: dict[str, Any] = {}
    removed: list[list[str]] = [[key] for key in old if key not in new]
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            inner = difference(before, value)
            if inner["set"]:
                put[key] = inner["set"]
            removed += [[key, *path] for path in inner["remove"]]
        elif key not in old or before != value:
            put[key] = value
    return {"set": put, "remove": removed}
