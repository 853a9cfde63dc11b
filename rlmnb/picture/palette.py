"""The colours of a picture: dark words on light boxes, which read on any background."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ink:
    """What one kind of node is filled, bordered and written with."""

    fill: str
    stroke: str
    words: str


INKS = {
    "fresh": Ink("#d9f2df", "#1a7f37", "#0b3d1b"),
    "stale": Ink("#fff0bd", "#9a6700", "#4a3000"),
    "failed": Ink("#ffd9d6", "#cf222e", "#5c0f14"),
    "running": Ink("#d8e9ff", "#0969da", "#07305f"),
    "file": Ink("#eceef2", "#57606a", "#24292f"),
}


def ink_of(state: str | None) -> Ink:
    """Return the colours of a node in this state; of a file, which has none."""
    return INKS[state or "file"]
