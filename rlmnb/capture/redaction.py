"""What is taken out of everything before it is written: secrets, and more for those who ask."""

import os

from rlmnb.capture.secrets import redact, redact_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_NO = frozenset(("", "0", "false", "no", "off"))


def entropy_wanted(environ: "Mapping[str, str] | None" = None) -> bool:
    """Tell whether texts that look random are taken out too: RLMNB_REDACT_ENTROPY is set."""
    values = os.environ if environ is None else environ
    return values.get("RLMNB_REDACT_ENTROPY", "").strip().lower() not in _NO


def clean(value: "Any", *, entropy: "bool | None" = None) -> "Any":
    """Return a JSON value without what must not be kept."""
    done = redact(value)
    if entropy_wanted() if entropy is None else entropy:
        from rlmnb.capture.entropy import redact_random

        return redact_random(done)
    return done


def clean_text(text: str, *, entropy: "bool | None" = None) -> str:
    """Return a text without what must not be kept."""
    done = redact_text(text)
    if entropy_wanted() if entropy is None else entropy:
        from rlmnb.capture.entropy import redact_random_text

        return redact_random_text(done)
    return done
