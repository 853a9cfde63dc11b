"""Named steps from an older schema to today's. Append only: a shipped step is never edited.

A step works on plain dicts, so it needs no model of a version that no longer exists. The version
of a record or state is the number of steps it has behind it.
"""

from rlmnb.errors import SchemaError
from rlmnb.format.version import PACKAGE, SCHEMA

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Step = Callable[[dict[str, Any]], dict[str, Any]]

STEPS: "list[tuple[str, Step]]" = []
_HASHES = ("source_hash", "context_hash", "output_hash")


def step(name: str) -> "Callable[[Step], Step]":
    """Register the next step."""

    def register(function: "Step") -> "Step":
        STEPS.append((name, function))
        return function

    return register


@step("001_hashes_name_their_algorithm_and_edges_their_reason")
def _(body: "dict[str, Any]") -> "dict[str, Any]":
    new = dict(body)
    for key in _HASHES:
        if isinstance(new.get(key), str) and ":" not in new[key]:
            new[key] = "sha256:" + new[key]
    if isinstance(new.get("dependencies"), list):
        new["dependencies"] = [
            {"cell_id": edge, "reason": "explicit"} if isinstance(edge, str) else edge
            for edge in new["dependencies"]
        ]
    return new


def migrate(body: "dict[str, Any]", where: str) -> "dict[str, Any]":
    """Return a record or state as today's schema has it; the latest comes back as it is.

    A newer one is refused: guessing at it could lose what it says.
    """
    found = body.get("schema_version", 0)
    if found == SCHEMA:
        return body
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise SchemaError(f"{where}: schema_version is {found!r}, wanted a number up to {SCHEMA}")
    if found > SCHEMA:
        session = body.get("session")
        writer = session.get("version") if isinstance(session, dict) else None
        needed = f"rlmnb {writer}" if isinstance(writer, str) else "a newer rlmnb"
        raise SchemaError(
            f"{where}: has schema {found}, rlmnb {PACKAGE} reads up to {SCHEMA}; "
            f"{needed} can read it",
            hint=f"run: pip install --upgrade 'rlmnb{f'>={writer}' if writer else ''}'",
        )
    for _, function in STEPS[found:]:
        body = function(body)
    return {**body, "schema_version": SCHEMA}
