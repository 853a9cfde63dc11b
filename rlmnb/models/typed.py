"""Answers in a form: a pydantic model, a type, a JSON Schema; asked for again if they miss it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rlmnb.errors import AnswerError, ModelError
from rlmnb.models.request import Answer, Message, Request

MOST_TRIES = 3
_FENCE = re.compile(r"^\s*```[a-zA-Z]*\s*\n(.*?)\n?\s*```\s*$", re.DOTALL)
_WRAPPED = "value"


class Form:
    """A form that answers must have: its JSON Schema, and how to read one."""

    def __init__(self, schema: Any) -> None:
        self._check, described = _reading(schema)
        self._wrapped = described.get("type") != "object"
        self.schema = _wrap(described) if self._wrapped else described

    def read(self, text: str) -> Any:
        """Return the value that an answer stands for; raises ValueError if it has another form."""
        fenced = _FENCE.match(text)
        try:
            value = json.loads(fenced.group(1) if fenced else text)
        except RecursionError:
            raise ValueError("that JSON is nested too deeply") from None
        if not self._wrapped:
            return self._check(value)
        if isinstance(value, dict) and _WRAPPED in value:
            return self._check(value[_WRAPPED])
        try:
            # Models that do not keep to a schema often answer with the value itself.
            return self._check(value)
        except ValueError as error:
            wanted = f'wanted an object with the key "{_WRAPPED}"'
            raise ValueError(f"{wanted}, found something else: {error}") from None


def _reading(schema: Any) -> tuple[Callable[[Any], Any], dict[str, Any]]:
    if isinstance(schema, dict):
        import fastjsonschema

        try:
            return fastjsonschema.compile(schema, use_default=False), schema
        except fastjsonschema.JsonSchemaDefinitionException as error:
            raise ModelError(f"this is no JSON Schema: {error}") from error
    from pydantic import PydanticUserError, TypeAdapter

    try:
        adapter = TypeAdapter(schema)
        described = adapter.json_schema()
    except (PydanticUserError, NameError, SyntaxError) as error:
        raise ModelError(
            f"schema is a pydantic model, a type or a JSON Schema, found {schema!r}: "
            f"{str(error).splitlines()[0]}"
        ) from error
    # As JSON: a strict model takes a date from a text there, and nowhere else.
    return lambda value: adapter.validate_json(json.dumps(value)), described


def _wrap(schema: dict[str, Any]) -> dict[str, Any]:
    """Put a schema into an object: providers take nothing else."""
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    outer: dict[str, Any] = {
        "type": "object",
        "properties": {_WRAPPED: inner},
        "required": [_WRAPPED],
    }
    return {**outer, "$defs": schema["$defs"]} if "$defs" in schema else outer


def read_or_asked_again(
    form: Form, answer: Answer, request: Request, ask: Callable[[Request], Answer]
) -> Any:
    """Read an answer in its form; while it has another, say what is wrong and ask again."""
    problem = ""
    for attempt in range(MOST_TRIES):
        if attempt:
            answer = ask(_once_more(request, answer, problem))
        try:
            return form.read(answer.text)
        except ValueError as error:
            problem = str(error)
    raise AnswerError(
        f"{request.model} answered {MOST_TRIES} times, never in the form that was asked for: "
        f"{problem[:500]}",
        hint="ask for less at a time, or take a larger model",
    )


def _once_more(request: Request, answer: Answer, problem: str) -> Request:
    said = (
        f"That answer cannot be used: {problem}\n"
        "Answer again, with nothing but JSON that fits the schema."
    )
    turns = (Message("assistant", answer.text), Message("user", said))
    return replace(request, messages=(*request.messages, *turns))
