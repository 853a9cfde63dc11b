"""Models through the `llm` library and its plugins, which reach every provider.

The library is imported at the first real call. It writes no log of its own: only its command does.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

from rlmnb.capture.secrets import redact_text
from rlmnb.errors import MissingExtraError, ModelBusyError, ModelError, ModelSilentError
from rlmnb.models import current, patience
from rlmnb.models.request import ANSWER_BOUNDS, Answer, Request, Usage
from rlmnb.models.threads import within

# What is worth asking again: too many requests, servers that are not themselves, half an answer.
_PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_PASSING_NAMES = (
    "Connection",
    "ConnectError",
    "ReadError",
    "RemoteProtocol",
    "Network",
    "JSONDecodeError",
)
# What is wrong with a question, not with the server.
_REFUSED = frozenset({400, 422})
# Where models say why an answer ended, and for which reasons it did for want of room.
_ENDINGS = ("finish_reason", "finishReason", "stop_reason", "done_reason", "reason")
_FOR_LENGTH = frozenset({"length", "max_tokens", "max_output_tokens"})
# Whoever is there takes a connection at once.
_CONNECTING = 10.0
_LOADING = threading.Lock()


class ThroughLlm:
    """Asks models by the names that `llm models` lists."""

    name = "llm"

    def identity(self, model: str) -> str:  # noqa: ARG002 - the protocol's own
        """Return the name alone: the library passes requests on, whatever its version."""
        return self.name

    def complete(self, request: Request) -> Answer:
        """Ask once."""
        model = _model(request.model)
        began = time.perf_counter()
        try:
            response = _in_time(model, lambda: _answered(model, request))
            text = response.text()
            usage = response.usage()
        except Exception as error:
            raise _translated(error, request.model) from error
        return Answer(
            text=text,
            model=response.resolved_model or getattr(model, "model_name", None) or model.model_id,
            usage=_usage(usage),
            duration_ms=(time.perf_counter() - began) * 1000,
            cut=_was_cut(response.response_json),
        )


def names() -> list[str]:
    """Return the names of all models that the library and its plugins reach."""
    return sorted(model.model_id for model in _library().get_models())


def _library() -> Any:
    try:
        import llm
    except ImportError as error:
        raise MissingExtraError(
            "calling a model needs the library llm, which is not installed",
            hint="run: pip install 'rlmnb[llm]'",
        ) from error
    return llm


def _model(name: str) -> Any:
    # The library loads its plugins at the first question; a second thread would find half of them.
    with _LOADING:
        llm = _library()
        try:
            model = llm.get_model(name)
        except llm.UnknownModelError as error:
            model, unknown = None, error
    if model is None:
        raise ModelError(
            f"there is no model {name} here",
            hint="see those there are: llm models; more come with plugins: llm install llm-…",
        ) from unknown
    _leave_retries_to_us(model)
    return model


def _leave_retries_to_us(model: Any) -> None:
    """Let each attempt be one request, of bounded length: it is we who count and keep them."""
    client_of = getattr(model, "get_client", None)
    if client_of is None or "get_client" in vars(model):
        return

    def get_client(*args: Any, **options: Any) -> Any:
        client = client_of(*args, **options)
        if not hasattr(client, "with_options"):
            return client
        client = client.with_options(max_retries=0, timeout=_bounded())
        _take_less(client)
        return client

    model.get_client = get_client


def _in_time(model: Any, ask: Callable[[], Any]) -> Any:
    """Wait for an answer no longer than is set, also where a plugin's own client would."""
    if hasattr(model, "get_client"):
        return ask()
    here = current.surroundings()

    def apart() -> Any:
        with here.apart():
            return ask()

    return within(patience.longest_wait(), apart)


def _bounded() -> Any:
    from openai import Timeout

    wait = patience.longest_wait()
    return Timeout(wait, connect=min(wait, _CONNECTING))


def _take_less(client: Any) -> None:
    """Let a server leave out what an answer took, which the library does not expect.

    What is no completion at all is told apart from an answer here, where it can be seen.
    """
    completions = getattr(getattr(client, "chat", None), "completions", None)
    if completions is None:
        return
    create = completions.create

    def created(*args: Any, **options: Any) -> Any:
        made = create(*args, **options)
        if options.get("stream"):
            return made
        choices = getattr(made, "choices", None)
        if not choices or getattr(choices[0], "message", None) is None:
            raise ModelBusyError(f"the server answered, and it is no completion: {made!r:.200}")
        if made.usage is None:
            made.usage = _not_told()
        return made

    completions.create = created


@lru_cache(maxsize=1)
def _not_told() -> Any:
    """Return what stands for a use of tokens that a server does not tell: for us, it is none."""
    from openai.types import CompletionUsage

    class NotTold(CompletionUsage):
        def model_dump(self, **_: Any) -> dict[str, Any]:
            return {}

    return NotTold(prompt_tokens=0, completion_tokens=0, total_tokens=0)


def _answered(model: Any, request: Request) -> Any:
    """Return a response that is there; one without a bound where the model refuses such a one."""
    try:
        response = _prompted(model, request)
        response.text()
    except Exception as error:
        refused = getattr(error, "status_code", None) in _REFUSED and "token" in str(error).lower()
        if request.room is None or not refused:
            raise
        # It cannot answer at such length anyway.
        response = _prompted(model, replace(request, room=None))
        response.text()
    return response


def _bounded_to(room: int | None, model: Any) -> dict[str, int]:
    """Say how long an answer may be, as the model calls it; nothing if it takes no bound."""
    taken = getattr(getattr(model, "Options", None), "model_fields", {})
    name = next((each for each in ANSWER_BOUNDS if each in taken), None)
    return {} if room is None or name is None else {name: room}


def _was_cut(found: Any) -> bool | None:
    """Tell whether an answer ended for want of room, where its provider says why it ended."""
    if not isinstance(found, dict):
        return None
    first = next(iter(found.get("choices") or found.get("candidates") or ()), None)
    places = [at for at in (first, found.get("incomplete_details"), found) if isinstance(at, dict)]
    reasons = [at[name] for at in places for name in _ENDINGS if isinstance(at.get(name), str)]
    return reasons[0].lower() in _FOR_LENGTH if reasons else None


def _prompted(model: Any, request: Request) -> Any:
    llm = _library()
    options: dict[str, Any] = {}
    shown = [
        llm.Attachment(type=each.kind, content=each.content, url=each.url)
        for each in request.attachments
    ]
    if request.schema is not None:
        if getattr(model, "supports_schema", False):
            options["schema"] = dict(request.schema)
        else:
            request = replace(request, system=_in_words(request))
    if request.tools:
        options["tools"] = [llm.Tool(**each) for each in request.tools]
    prompt: str | None = request.prompt
    if len(request.messages) > 1:
        options["messages"] = _turns(llm, request, shown)
        prompt = None
    else:
        options["attachments"] = shown
        options["system"] = request.system
    given = {**_bounded_to(request.room, model), **request.parameters}
    return model.prompt(prompt, stream=False, options=given, **options)


def _in_words(request: Request) -> str:
    """Ask for a form in words, of a model that takes no schema."""
    form = json.dumps(request.schema, ensure_ascii=False)
    asked = f"Answer with nothing but JSON that fits this JSON Schema: {form}"
    return f"{request.system}\n\n{asked}" if request.system else asked


def _turns(llm: Any, request: Request, shown: list[Any]) -> list[Any]:
    """Return a conversation as the library takes it; what is shown goes with the question."""
    first, *rest = request.messages
    found = [llm.user(first.content, *shown)]
    found += [(llm.user if each.role == "user" else llm.assistant)(each.content) for each in rest]
    return [llm.system(request.system), *found] if request.system else found


def _usage(usage: Any) -> Usage:
    details = usage.details if isinstance(usage.details, dict) else {}
    given = details.get("prompt_tokens_details") or details.get("input_tokens_details") or {}
    read = details.get("cache_read_input_tokens", given.get("cached_tokens"))
    written = details.get("cache_creation_input_tokens")
    total = usage.input
    if "cache_read_input_tokens" in details and isinstance(total, int):
        # Anthropic counts what comes from the cache beside the rest, others among it.
        total += (read or 0) + (written or 0)
    return Usage(total, usage.output, read, written)


def _translated(error: Exception, name: str) -> ModelError:
    """Tell an error that asking again may mend from one that it will not."""
    if isinstance(error, ModelError):
        return error
    status = getattr(error, "status_code", None)
    kind = type(error).__name__
    said = redact_text(f"{kind}: {error}")[:500]
    if status is None and "Timeout" in kind:
        return ModelSilentError(
            f"{name} gave no answer within {patience.longest_wait():g} s ({kind})",
            hint=f"wait longer with: export {patience.VARIABLE}=10m (and --timeout of rlmnb run)",
        )
    if status in _PASSING or (status is None and any(each in kind for each in _PASSING_NAMES)):
        return ModelBusyError(f"{name}: {said}", retry_after=_retry_after(error))
    hint = None
    if kind == "ValidationError":
        hint = "see what it takes: llm models --options"
    if kind == "NeedsKeyException" or status in (401, 403):
        hint = "give it a key: llm keys set …, or the variable that its plugin names"
    return ModelError(f"{name}: {said}", hint=hint)


def _retry_after(error: Exception) -> float | None:
    headers = getattr(getattr(error, "response", None), "headers", None)
    try:
        return float(headers["retry-after"]) if headers is not None else None
    except (KeyError, TypeError, ValueError):
        return None
