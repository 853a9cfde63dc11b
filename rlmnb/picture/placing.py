"""A picture inside the notebook: a Mermaid fence in a markdown cell, which any Jupyter draws."""

from __future__ import annotations

from typing import Any

from rlmnb.picture.grouping import PICTURE
from rlmnb.picture.model import Picture
from rlmnb.picture.texts import mermaid
from rlmnb.session import Session

TAG = "rlmnb:graph"


def put_into(session: Session, picture: Picture) -> str:
    """Put a picture at the end of the notebook, or in the place of the last one; return its id."""
    text = f"{PICTURE}\n\n```mermaid\n{mermaid(picture).strip()}\n```"
    there = next((cell for cell in session.whole()["cells"] if _is_picture(cell)), None)
    if there is None:
        cell = {"cell_type": "markdown", "metadata": {"tags": [TAG]}, "source": text}
        return session.append_cell(cell).cell_id
    if "".join(there["source"]) != text:
        session.retell(there["id"], text)
    return str(there["id"])


def _is_picture(cell: dict[str, Any]) -> bool:
    tags = (cell.get("metadata") or {}).get("tags")
    return cell.get("cell_type") == "markdown" and isinstance(tags, list) and TAG in tags
