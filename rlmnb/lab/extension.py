"""Put everything in its place when a Jupyter server starts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rlmnb.lab.desk import Desk
from rlmnb.lab.routes import routes

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp
    from tornado.web import Application


def load(server: ServerApp) -> None:
    """Add sessions to a server: requests, merging saves, live documents."""
    root = str(getattr(server.contents_manager, "root_dir", server.root_dir))
    desk = Desk(root, _loop(server))
    server.web_app.settings["rlmnb_desk"] = desk
    web: Application = server.web_app
    web.add_handlers(".*$", list(routes(server.base_url, desk)))


def _loop(server: ServerApp) -> asyncio.AbstractEventLoop:
    loop = server.io_loop.asyncio_loop  # type: ignore[attr-defined]
    assert isinstance(loop, asyncio.AbstractEventLoop)
    return loop
