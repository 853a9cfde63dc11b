"""A small model on this machine, for those without a key and for honest tests.

It runs inside the process that asks, on one thread: several threads that wait for one another come
to a standstill where other programs want the processor too, and one thread adds numbers in one
order, so that equal questions get equal answers. `RLMNB_OFFLINE_THREADS` sets another number.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from rlmnb.errors import MissingExtraError, ModelError
from rlmnb.models import weights
from rlmnb.models.request import Answer, Request, Usage

MODEL = "offline"
CONTEXT_TOKENS = 8192
LONGEST_ANSWER = 256
_NAME = "smollm2-135m-instruct"
# Parameters that may be set, as llama.cpp calls them; others are refused, not dropped.
_PARAMETERS = frozenset(
    {"max_tokens", "temperature", "top_p", "top_k", "seed", "stop", "frequency_penalty"}
    | {"presence_penalty"}
)
_LOADING = threading.Lock()


class Offline:
    """Answers with the model whose weights `rlmnb model fetch` has put here."""

    name = "offline"

    def identity(self, model: str) -> str:  # noqa: ARG002 - there is one
        """Return which weights answer: others would answer otherwise."""
        return f"{self.name}/{_NAME}@{weights.SHA256[:16]}"

    def complete(self, request: Request) -> Answer:
        """Answer a request; requests that come at once wait for one another."""
        question = _question(request)
        began = time.perf_counter()
        with _LOADING:
            server = _server()
        try:
            found = server.handle_chat_completions(question)
        except ValueError as error:
            raise ModelError(f"{request.model}: {error}") from error
        return _answer(request.model, found, (time.perf_counter() - began) * 1000)


def _question(request: Request) -> dict[str, Any]:
    unknown = sorted(set(request.parameters) - _PARAMETERS)
    if unknown or request.tools or request.attachments:
        refused = unknown or ["tools" if request.tools else "attachments"]
        raise ModelError(
            f"{request.model} takes no {', '.join(refused)}",
            hint=f"it takes: {', '.join(sorted(_PARAMETERS))}",
        )
    messages = [{"role": each.role, "content": each.content} for each in request.messages]
    if request.system:
        messages.insert(0, {"role": "system", "content": request.system})
    asked: dict[str, Any] = {
        "messages": messages,
        "max_tokens": min(LONGEST_ANSWER, request.room or LONGEST_ANSWER),
        "temperature": 0,
        "seed": 0,
        # What was asked before must not change an answer, not even in its last digit.
        "cache_prompt": False,
        **request.parameters,
    }
    if request.schema is not None:
        shape = {"name": "answer", "schema": dict(request.schema)}
        asked["response_format"] = {"type": "json_schema", "json_schema": shape}
    return asked


def _answer(model: str, found: Any, took: float) -> Answer:
    error = found.get("error") if isinstance(found, Mapping) else found
    if error or not isinstance(found, Mapping):
        said = error.get("message", error) if isinstance(error, Mapping) else error
        raise ModelError(
            f"{model}: {said}",
            hint=f"it takes {CONTEXT_TOKENS} tokens at most: ask about less, or use map_reduce",
        )
    usage = found.get("usage") or {}
    return Answer(
        text=found["choices"][0]["message"].get("content") or "",
        model=_NAME,
        usage=Usage(usage.get("prompt_tokens"), usage.get("completion_tokens")),
        duration_ms=took,
        # It runs on this machine: there is a price, and it is nothing.
        cost_usd=0.0,
    )


@lru_cache(maxsize=1)
def _server() -> Any:
    """Load the model once."""
    library = installed()
    path = weights.verified()
    settings = library.CommonParams()
    settings.model.path = path
    settings.n_ctx = CONTEXT_TOKENS
    settings.n_parallel = 1
    settings.warmup = False
    settings.verbosity = -1
    for processor in (settings.cpuparams, settings.cpuparams_batch):
        processor.n_threads = _threads()
        processor.poll = 0
    # The library also listens on loopback: nobody else is to ask it anything.
    settings.api_keys = [secrets.token_hex(32)]
    try:
        return library.Server(settings)
    except (RuntimeError, ValueError) as error:
        raise ModelError(f"{path}: cannot be loaded: {error}", hint="rlmnb model status") from error


def _threads() -> int:
    try:
        return max(1, int(os.environ.get("RLMNB_OFFLINE_THREADS", "1")))
    except ValueError:
        return 1


def installed() -> Any:
    """Return the library that runs the model, or say how to get it."""
    try:
        import xllamacpp
    except ImportError as error:
        raise MissingExtraError(
            "the offline model needs the library xllamacpp, which is not installed",
            hint="run: pip install 'rlmnb[offline]' && rlmnb model fetch",
        ) from error
    return xllamacpp
