"""The Jupyter server's side: sessions over HTTP, saves that lose nothing, live documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    """Name the modules that a Jupyter server loads."""
    return [{"module": "rlmnb.lab"}]


def _load_jupyter_server_extension(server: ServerApp) -> None:
    """Add sessions to a Jupyter server."""
    from rlmnb.lab.extension import load

    load(server)
