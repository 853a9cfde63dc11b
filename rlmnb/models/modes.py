"""When calls are made, by name; and lengths of time as people write them."""

from __future__ import annotations

import re
from typing import Literal, get_args

from rlmnb.errors import ModelError

Mode = Literal["none", "once", "new_episodes", "all"]
MODES: tuple[str, ...] = get_args(Mode)
_SPAN = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([smhdw]?)\s*$", re.ASCII)
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def seconds(span: str) -> float:
    """Read a length of time: `90`, `15m`, `12h`, `7d`, `2w`."""
    found = _SPAN.match(span)
    if found is None:
        raise ModelError(f"{span!r} is no length of time", hint="write it as 90s, 15m, 12h or 7d")
    return float(found.group(1)) * _SECONDS[found.group(2)]
