"""Verification: whether what a cell says holds, by a check in code or by a model that judges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from rlmnb.errors import ModelError
from rlmnb.models import current
from rlmnb.models.calling import prepared, request_for

_FORM = {
    "type": "object",
    "properties": {
        "holds": {"type": "boolean"},
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
        "reason": {"type": "string"},
    },
    "required": ["holds", "confidence", "reason"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check came to. True where it holds; a confidence that nobody gave is None."""

    of: str
    holds: bool
    confidence: float | None = None
    reason: str = ""
    by: str = "code"

    def __bool__(self) -> bool:
        return self.holds


def verify(cell: Any, check: str | Callable[[Any], Any], model: str | None = None) -> Verdict:
    """Check what a cell says, and keep verdict and confidence in the record of this cell.

    `cell` is a number, an id or what `cell()` returns. `check` is a function of it that returns
    whether it holds, or that and a confidence; or a sentence, which a model is asked to judge.
    """
    here = current.surroundings()
    looked = here.cell(cell) if isinstance(cell, str | int) else cell
    if not hasattr(looked, "cell_id"):
        raise ModelError(f"verify takes a cell, found a {type(looked).__name__}")
    verdict = _judged(looked, check, model) if isinstance(check, str) else _checked(looked, check)
    here.notes["verification"] = asdict(verdict)
    return verdict


def _checked(cell: Any, check: Callable[[Any], Any]) -> Verdict:
    found = check(cell)
    if isinstance(found, Verdict):
        return found
    if isinstance(found, tuple) and len(found) == 2:
        return Verdict(cell.cell_id, bool(found[0]), _share(found[1]))
    return Verdict(cell.cell_id, bool(found))


def _share(value: Any) -> float | None:
    if value is None:
        return None
    number = float(value)
    if not 0 <= number <= 1:
        raise ValueError(f"a confidence is from 0 to 1, found {value!r}")
    return number


def _judged(cell: Any, check: str, model: str | None) -> Verdict:
    prompt = (
        "You check the result of one step of an analysis.\n\n"
        f"The step:\n{cell.source}\n\nIts result:\n{cell.output}\n\nWhat to check: {check}\n\n"
        "Say whether it holds, how sure you are (0 to 1), and why."
    )
    request = request_for(prompt, model, None, (), {})
    found = prepared(request, _FORM, role="verify")()
    return Verdict(
        cell.cell_id,
        bool(found["holds"]),
        _share(found["confidence"]),
        str(found["reason"]),
        request.model,
    )
