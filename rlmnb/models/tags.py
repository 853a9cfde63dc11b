"""What a cell's own tags say about its calls: `rlmnb:calls=none`, `rlmnb:calls-expire=7d`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from rlmnb.errors import ModelError
from rlmnb.models.modes import MODES, Mode, seconds

_MODE, _EXPIRE = "rlmnb:calls=", "rlmnb:calls-expire="


def mode_of(tags: Iterable[object], asked: Mode) -> Mode:
    """Return the mode of a cell: its tag's, else the one asked for. `none` is never overruled."""
    for tag in tags:
        if isinstance(tag, str) and tag.startswith(_MODE) and asked != "none":
            mode = tag.removeprefix(_MODE)
            if mode not in MODES:
                raise ModelError(f"the tag {tag} names no mode", hint=f"one of {', '.join(MODES)}")
            return cast("Mode", mode)
    return asked


def expiry_of(tags: Iterable[object], asked: float | None) -> float | None:
    """Return after how many seconds a cell's answers are too old: its tag's, else as asked."""
    for tag in tags:
        if isinstance(tag, str) and tag.startswith(_EXPIRE):
            return seconds(tag.removeprefix(_EXPIRE))
    return asked
