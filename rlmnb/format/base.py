"""What all models share: unknown keys survive, times know their zone, hashes their algorithm."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


class Model(BaseModel):
    """A part of the format. What a newer version adds is carried along, not dropped."""

    model_config = ConfigDict(extra="allow", validate_assignment=True)


def _aware(text: str) -> str:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text} has no time zone")
    return text


# Kept as the text that was written, so that reading and writing a record changes nothing.
Timestamp = Annotated[str, AfterValidator(_aware), Field(json_schema_extra={"format": "date-time"})]
HashText = Annotated[str, Field(pattern=r"^((sha256|blake2b):[0-9a-f]{8,128}|missing|unreadable)$")]
CellIdText = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
SessionIdText = Annotated[str, Field(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9_-]{0,127}$")]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]
