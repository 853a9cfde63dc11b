"""Outputs that were made here render in Jupyter as if they had been made in it.

Jupyter trusts a notebook as a whole and by its every byte: a signature ends with the next append.
So the outputs of each cell that ran here are signed alone, with the user's own Jupyter key and in
Jupyter's own database, and our server extension marks each cell by what it shows. What an agent or
another machine brought is never signed. `jupyter trust --reset` forgets these signatures too.
"""

from __future__ import annotations

import hmac
import os
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

# What a browser shows without running or fetching anything, trusted or not.
_INERT = frozenset({"text/plain", "image/png", "image/jpeg", "image/gif", "image/webp"})


def is_active(outputs: Iterable[Mapping[str, Any]]) -> bool:
    """Tell whether it makes a difference that outputs are trusted."""
    return any(not _INERT.issuperset(output.get("data") or ()) for output in outputs)


class Vouchers:
    """What this user's kernels made, by the hash of a cell's outputs.

    A database that is not to be had costs the rendering, and nothing else.
    """

    def __init__(self, notary: Any = None) -> None:
        # Any: nbformat gives its notary no types. Without one it is the user's, opened when needed.
        self._notary = notary

    def add(self, output_hash: str) -> None:
        """Remember that outputs were made here."""
        with suppress(OSError, sqlite3.Error):
            self._store().store_signature(self._signature(output_hash), self._notary.algorithm)

    def knows(self, output_hash: str) -> bool:
        """Tell whether outputs were made here."""
        with suppress(OSError, sqlite3.Error):
            return bool(
                self._store().check_signature(self._signature(output_hash), self._notary.algorithm)
            )
        return False

    def close(self) -> None:
        """Close the database if it was opened here."""
        if self._notary is not None:
            self._notary.store.close()

    def _store(self) -> Any:
        if self._notary is None:
            from jupyter_core.paths import jupyter_data_dir
            from nbformat.sign import NotebookNotary

            place = jupyter_data_dir()
            os.makedirs(place, mode=0o700, exist_ok=True)
            self._notary = NotebookNotary(data_dir=place)  # type: ignore[no-untyped-call]
        return self._notary.store

    def _signature(self, output_hash: str) -> str:
        text = f"rlmnb outputs {output_hash}".encode()
        return hmac.new(self._notary.secret, text, self._notary.digestmod).hexdigest()
