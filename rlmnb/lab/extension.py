"""Put everything in its place when a Jupyter server starts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from rlmnb.errors import RlmnbError
from rlmnb.lab.desk import Desk
from rlmnb.lab.routes import routes
from rlmnb.lab.saving import Saving
from rlmnb.lab.trusting import Trust

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp
    from tornado.web import Application

_CONTENTS = "https://events.jupyter.org/jupyter_server/contents_service/v1"


def load(server: ServerApp) -> None:
    """Add sessions to a server: requests, merging saves, live documents, trust."""
    root = str(getattr(server.contents_manager, "root_dir", server.root_dir))
    trust = Trust(server.contents_manager)
    trust.install()
    desk = Desk(root, _loop(server), server.web_app.settings, trust, server.log)
    Saving(server.contents_manager, server.log, desk.live, trust).install()
    _listen_to_saves(server, desk)
    server.io_loop.add_callback(desk.live.run)
    server.web_app.settings["rlmnb_desk"] = desk
    web: Application = server.web_app
    web.add_handlers(".*$", list(routes(server.base_url, desk)))


def _listen_to_saves(server: ServerApp, desk: Desk) -> None:
    """Judge a notebook again whenever it was saved, for those who listen."""

    async def saved(logger: object, schema_id: str, data: dict[str, Any]) -> None:
        del logger, schema_id
        path = data.get("path")
        if data.get("action") != "save" or not isinstance(path, str):
            return
        try:
            desk.news.changed(desk.confines.place(path=path))
        except RlmnbError:
            return  # no notebook, or not where requests may look

    assert server.event_logger is not None  # a server that loads extensions has one
    server.event_logger.add_listener(schema_id=_CONTENTS, listener=saved)


def _loop(server: ServerApp) -> asyncio.AbstractEventLoop:
    loop = server.io_loop.asyncio_loop  # type: ignore[attr-defined]
    assert isinstance(loop, asyncio.AbstractEventLoop)
    return loop
