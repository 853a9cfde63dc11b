"""What stands between us and whoever runs a model. Another provider is another class."""

from __future__ import annotations

from typing import Protocol

from rlmnb.models.request import Answer, Request


class Provider(Protocol):
    """Whoever can answer a request."""

    name: str

    def identity(self, model: str) -> str:
        """Return what of this provider can change an answer, for the key of a request.

        Said without loading anything: a session is replayed from its notebook where neither the
        library nor the model is at hand.
        """

    def complete(self, request: Request) -> Answer:
        """Ask the model once and return its answer; called from any thread, several at a time.

        Raises `ModelBusyError` if asking again may help, any other `ModelError` if not.
        """
