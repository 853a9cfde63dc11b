"""What a cell calls: `llm_query` for one question, `llm_query_batched` for many."""

from __future__ import annotations

import mimetypes
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rlmnb.errors import AnswerError, ModelError
from rlmnb.jsontext import portable
from rlmnb.models import choosing, current
from rlmnb.models.asking import fulfil, reject, take
from rlmnb.models.request import Answer, Attachment, Message, Request
from rlmnb.models.threads import WithTwin, apart, check_limit, side_by_side
from rlmnb.models.typed import Form, read_or_asked_again

AT_ONCE = 8
Given = str | bytes | os.PathLike[str] | Attachment


class _Query:
    """A function with a twin for asynchronous code: `await llm_query.aio(…)`."""

    __name__ = "llm_query"

    def __call__(
        self,
        prompt: str,
        model: str | None = None,
        system: str | None = None,
        schema: Any = None,
        attachments: Iterable[Given] = (),
        **parameters: Any,
    ) -> Any:
        """Ask a model and return its answer: a text, or a value if a schema is given.

        Without a name it is the model that RLMNB_MODEL names. `schema` is a pydantic model, a type
        or a JSON Schema; `attachments` are paths, addresses or bytes; what else is given goes to
        the model, as in `temperature=0`. An answer is kept in the cell's record and used again
        while nothing that could change it has changed.
        """
        return prepared(request_for(prompt, model, system, attachments, parameters), schema)()

    async def aio(
        self,
        prompt: str,
        model: str | None = None,
        system: str | None = None,
        schema: Any = None,
        attachments: Iterable[Given] = (),
        **parameters: Any,
    ) -> Any:
        """Ask as `llm_query` does, while other code goes on."""
        request = request_for(prompt, model, system, attachments, parameters)
        return await apart(prepared(request, schema))

    def __repr__(self) -> str:
        return "<llm_query(prompt, model=None, system=None, schema=None, attachments=(), **more)>"

    def __reduce__(self) -> str:
        return "llm_query"


llm_query = _Query()
allm_query = llm_query.aio


def request_for(
    prompt: str,
    model: str | None,
    system: str | None,
    attachments: Iterable[Given],
    parameters: Mapping[str, Any],
) -> Request:
    """Put a request together, with the default model where none is named."""
    for name, text in (("a prompt", prompt), ("system", system)):
        if not isinstance(text, str) and (text is not None or name == "a prompt"):
            raise ModelError(f"{name} is a text, found a {type(text).__name__}")
    here = current.surroundings()
    # Attachments are read as the cell's own files: a changed picture makes it stale.
    shown = tuple(_attachment(each) for each in attachments)
    with here.apart():
        name = choosing.chosen(model, None if model else here.default_model())
        provider = choosing.provider_for(name).identity(name)
    given = {**current.parameters.get(), **parameters}
    given = {key: value for key, value in given.items() if value is not None}
    if given.pop("stream", False):
        raise ModelError("answers come whole, so that they can be kept", hint="leave stream out")
    try:
        portable(given)
    except (TypeError, RecursionError) as error:
        raise ModelError(f"what goes to a model is JSON: {error}") from None
    return Request(
        model=name,
        messages=(Message("user", prompt),),
        system=system or None,
        parameters=given,
        attachments=shown,
        provider=provider,
    )


def prepared(request: Request, schema: Any = None, **more: Any) -> Callable[[], Any]:
    """Take a place for a call now; return what answers it, in the form that was asked for.

    The order of calls in the record is that of the code, whoever is answered first.
    """
    here = current.surroundings()
    depth = current.depth.get()
    with here.apart():
        form = None if schema is None else Form(schema)
        first = request if form is None else replace(request, schema=form.schema)
        desk = here.desk()
        ticket = take(first, desk, depth=depth, **more)

    tickets = [ticket]

    def ask_again(again: Request) -> Answer:
        with here.apart():
            tickets.append(take(again, desk, depth=depth, **more))
            return fulfil(tickets[-1], desk)

    def job() -> Any:
        with here.apart():
            answer = fulfil(ticket, desk)
        if form is None:
            return answer.text
        try:
            return read_or_asked_again(form, answer, first, ask_again)
        except AnswerError:
            reject(tickets, desk)
            raise

    return job


@WithTwin
def llm_query_batched(
    prompts: Sequence[str],
    model: str | None = None,
    system: str | None = None,
    schema: Any = None,
    limit: int = AT_ONCE,
    **parameters: Any,
) -> list[Any]:
    """Ask many questions, at most `limit` at a time, and return the answers in their order."""
    if isinstance(prompts, str):
        raise ModelError("prompts are a list of texts, found one text")
    most = check_limit(limit)
    requests = [request_for(each, model, system, (), parameters) for each in prompts]
    return side_by_side([prepared(each, schema) for each in requests], most)


def _attachment(given: Given) -> Attachment:
    if isinstance(given, Attachment):
        return given
    if isinstance(given, bytes):
        return Attachment(_kind_of(given), content=given)
    if isinstance(given, str) and given.startswith(("https://", "http://")):
        return Attachment(mimetypes.guess_type(given)[0] or "", url=given)
    if not isinstance(given, str | os.PathLike):
        raise ModelError(f"an attachment is a path, an address or bytes, found {given!r}")
    try:
        with open(given, "rb") as file:
            data = file.read()
    except OSError as error:
        raise ModelError(f"{os.fspath(given)} cannot be attached: {error.strerror}") from error
    return Attachment(mimetypes.guess_type(os.fspath(given))[0] or _kind_of(data), content=data)


_MARKS = {
    b"\x89PNG": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"%PDF": "application/pdf",
    b"ID3": "audio/mpeg",
    b"RIFF": "audio/wav",
}


def _kind_of(data: bytes) -> str:
    """Tell what bytes are by how they begin."""
    return next(
        (kind for mark, kind in _MARKS.items() if data.startswith(mark)),
        "application/octet-stream",
    )
