"""Which model is meant where none is named, and who answers for a model."""

from __future__ import annotations

import importlib
import json
import os
from functools import lru_cache
from typing import Any

from rlmnb.errors import ModelError, NoModelError
from rlmnb.models.provider import Provider
from rlmnb.store.layout import sessions_root

VARIABLE = "RLMNB_MODEL"
GROUP = "rlmnb.providers"
# The first word of a model's name, and the class that answers for it; all else goes through `llm`.
_HOMES = {"offline": "rlmnb.models.offline:Offline"}
_OTHERS = "rlmnb.models.through_llm:ThroughLlm"


def configuration_path() -> str:
    """Return where the configuration is, if there is one."""
    return os.path.join(sessions_root(), "config.json")


def default_model() -> str | None:
    """Return the model that is meant where none is named: RLMNB_MODEL, else the configuration."""
    if named := os.environ.get(VARIABLE, "").strip():
        return named
    found = _configuration().get("model")
    return found if isinstance(found, str) and found else None


def _configuration() -> dict[str, Any]:
    try:
        with open(configuration_path(), encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def chosen(model: str | None, default: str | None) -> str:
    """Return the model that was named, else the default; complain if there is neither."""
    if model is not None and (not isinstance(model, str) or not model.strip()):
        raise NoModelError(f"a model is named by a text, found {model!r}", hint=_next_step())
    if name := model or default:
        return name
    raise NoModelError("no model is named, and there is no default", hint=_next_step())


def _next_step() -> str:
    path = configuration_path()
    found = ", which names none now" if os.path.exists(path) else ""
    return (
        "name one: export RLMNB_MODEL=gpt-4o-mini (any model that `llm models` lists), or "
        f'{{"model": "…"}} in {path}{found}; without a key: pip install '
        "'rlmnb[offline]', rlmnb model fetch, export RLMNB_MODEL=offline"
    )


def provider_for(model: str) -> Provider:
    """Return who answers for a model. Nothing is loaded before the first real call."""
    name = model.partition("/")[0]
    return _provider(name, providers().get(name, _OTHERS))


def providers() -> dict[str, str]:
    """Return by the first word of a model's name who answers for it, as `module:Class`.

    Packages have them as entry points of the group `rlmnb.providers`, people in the configuration.
    """
    own = _configuration().get("providers")
    own = own if isinstance(own, dict) else {}
    return {**_installed(), **_HOMES, **{str(name): str(place) for name, place in own.items()}}


@lru_cache(maxsize=1)
def _installed() -> dict[str, str]:
    from importlib import metadata  # a program that asks nobody need not load it

    return {each.name: each.value for each in metadata.entry_points(group=GROUP)}


@lru_cache(maxsize=8)
def _provider(name: str, place: str) -> Provider:
    module, _, kind = place.partition(":")
    try:
        provider: Provider = getattr(importlib.import_module(module), kind)()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ModelError(
            f"{place}, which answers for models named {name}, cannot be loaded: {error}",
            hint="it is written module:Class; install the module, or put it on PYTHONPATH",
        ) from error
    if not all(callable(getattr(provider, each, None)) for each in ("identity", "complete")):
        raise ModelError(
            f"{place}, which answers for models named {name}, is no provider",
            hint="it has the methods of rlmnb.models.provider.Provider: identity, complete",
        )
    return provider
