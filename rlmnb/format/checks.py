"""Hold a plain dict against its model, where there is time to: not in a hook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from rlmnb.errors import InvalidCellError, SchemaError
from rlmnb.format.record import CellRecord
from rlmnb.format.session import SessionState


def checked_state(state: Mapping[str, Any], where: str) -> SessionState:
    """Return a state as its model, or say what is wrong with it."""
    try:
        return SessionState.model_validate(state)
    except ValidationError as error:
        raise SchemaError(f"{where}: the session's state is not valid: {first(error)}") from None


def check_record(cell: Mapping[str, Any]) -> None:
    """Refuse a cell whose record is not what the schema says."""
    record = cell["metadata"].get("rlmnb")
    try:
        if record is not None:
            CellRecord.model_validate(record)
    except ValidationError as error:
        raise InvalidCellError(f"a record is not valid: {first(error)}") from None


def first(error: Any) -> str:
    """Return the first thing a validation found, as a short line."""
    found = error.errors()[0]
    return f"{'.'.join(str(part) for part in found['loc'])}: {found['msg']}"
