"""Which notebooks can be run: those of Python, as their metadata say in Jupyter's own words."""

from __future__ import annotations

from rlmnb.errors import LanguageError
from rlmnb.session import Session


def require_python(session: Session) -> None:
    """Refuse a notebook of another language: in our kernel, its code would fail or mean another."""
    name = _language(session)
    if name and "python" not in name.lower():
        raise LanguageError(
            f"{session.place.name} is a notebook of {name}, and only Python can be run here",
            hint=f"it can be read all the same: rlmnb cells {session.place.word}",
        )


def _language(session: Session) -> str:
    """Return the language that a kernel has noted, or else the one that was chosen; "" if none."""
    metadata = session.whole().get("metadata", {})
    for key, word in (("language_info", "name"), ("kernelspec", "language")):
        section = metadata.get(key)
        name = section.get(word) if isinstance(section, dict) else None
        if isinstance(name, str) and name:
            return name
    return ""
