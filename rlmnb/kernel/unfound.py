"""Modules that were looked for and not found: a file that comes later may be what was meant."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from types import FrameType

# Python's own machinery stands between the finder and whoever imports.
_IMPORTING = ("<frozen importlib", importlib.__file__, importlib.util.__file__)


class Unfound:
    """A finder that comes last and finds nothing: it hears of what nobody else has found.

    Whoever asks for something that most people do not have is a library, and is told apart.
    """

    def __init__(self, tell: Callable[[str], None], foreign: tuple[str, ...]) -> None:
        self._tell = tell
        self._foreign = foreign

    def find_spec(
        self, name: str, path: Iterable[str] | None = None, _target: object = None
    ) -> None:
        """Tell of the files that a module could have been in."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename.startswith(_IMPORTING):
            frame = frame.f_back
        if frame is not None and not frame.f_code.co_filename.startswith(self._foreign):
            for each in _places_of(name, sys.path if path is None else path):
                self._tell(each)

    def stand_in(self) -> None:
        """Be asked for modules from now on."""
        sys.meta_path.append(self)

    def step_back(self) -> None:
        """Be asked no more; a cell may have taken all finders away, or set others."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)


def _places_of(name: str, path: Iterable[str]) -> Iterator[str]:
    """Yield the files and directories that would have made a module of a name."""
    for place in path:
        if isinstance(place, str):
            stem = os.path.join(place, name.rpartition(".")[2])
            yield stem
            yield stem + ".py"


def preferred_to(path: str) -> str:
    """Return the file that Python would have taken a module from, had it been there."""
    return os.path.join(os.path.splitext(path)[0], "__init__.py")
