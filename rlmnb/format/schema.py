"""The JSON Schema of a session notebook, generated from the models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic.json_schema import models_json_schema

from rlmnb.format.record import CellRecord
from rlmnb.format.session import SessionState

PUBLISHED = Path(__file__).with_name("schema.json")
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def _under_rlmnb(model: str) -> dict[str, Any]:
    return {"type": "object", "properties": {"rlmnb": {"$ref": f"#/$defs/{model}"}}}


def generate() -> dict[str, Any]:
    """Return the schema that a session's notebook keeps, beside nbformat's own."""
    _, definitions = models_json_schema([(SessionState, "validation"), (CellRecord, "validation")])
    cell = {"type": "object", "properties": {"metadata": _under_rlmnb("CellRecord")}}
    return {
        "$schema": _DIALECT,
        "title": "rlmnb session notebook",
        "description": "What rlmnb adds to an nbformat 4.5 notebook, at both levels.",
        "type": "object",
        "required": ["metadata", "cells"],
        "properties": {
            "metadata": _under_rlmnb("SessionState"),
            "cells": {"type": "array", "items": cell},
        },
        "$defs": definitions["$defs"],
    }


def text() -> str:
    """Return the schema as the published file has it; `rlmnb schema` prints this."""
    return json.dumps(generate(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
