"""A picture as text for other programs: SVG, Mermaid, DOT, JSON, or lines for a terminal."""

from __future__ import annotations

import json
from collections.abc import Callable

from rlmnb.picture import texts
from rlmnb.picture.model import Picture


def written(picture: Picture, form: str) -> str:
    """Return a picture in the form that was asked for."""
    if form == "svg":
        from rlmnb.picture.svg import svg

        return svg(picture)
    forms: dict[str, Callable[[Picture], str]] = {
        "mermaid": texts.mermaid,
        "dot": texts.dot,
        "json": lambda whole: json.dumps(whole.as_dict(), ensure_ascii=False) + "\n",
        "text": lambda whole: texts.joined(texts.lines(whole)),
    }
    return forms[form](picture)
