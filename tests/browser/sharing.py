"""A person who has a notebook open as a live document: a real client of jupyter-collaboration."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

from jupyter_ydoc import YNotebook
from pycrdt import Doc, Provider
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

from tests.lab.serving import TOKEN, Server

EXTENSIONS = ("jupyter_server_fileid", "jupyter_server_ydoc")
PATIENCE = 120.0


class _Channel:
    """The websocket as pycrdt wants it."""

    def __init__(self, socket: WebSocketClientConnection, path: str) -> None:
        self._socket = socket
        self.path = path

    async def send(self, message: bytes) -> None:
        await self._socket.write_message(message, binary=True)

    async def recv(self) -> bytes:
        message = await self._socket.read_message()
        if message is None:
            raise StopAsyncIteration
        return message if isinstance(message, bytes) else message.encode()

    def __aiter__(self) -> _Channel:
        return self

    async def __anext__(self) -> bytes:
        return await self.recv()


class Person:
    """Sees the document as it is, and types into it."""

    def __init__(self, document: YNotebook) -> None:
        self.document = document

    @property
    def cells(self) -> list[dict[str, Any]]:
        return list(self.document.get()["cells"])

    @property
    def ids(self) -> list[str]:
        return [cell["id"] for cell in self.cells]

    def type(self, cell: int, text: str) -> None:
        """Type at the end of a cell."""
        source = self.document.ycells[cell]["source"]
        source += text

    def delete(self, cell: int) -> None:
        """Delete a cell."""
        del self.document.ycells[cell]

    async def sees(self, wanted: Callable[[Person], bool]) -> None:
        """Wait until the document is as wanted."""
        await until(lambda: wanted(self))


async def until(wanted: Callable[[], bool]) -> None:
    """Wait for something that another process does."""
    async with asyncio.timeout(PATIENCE):
        while not wanted():
            await asyncio.sleep(0.02)


@asynccontextmanager
async def opened(server: Server, path: str) -> AsyncIterator[Person]:
    """Open a notebook as JupyterLab does where jupyter-collaboration is there."""
    body = {"format": "json", "type": "notebook"}
    address = f"/api/collaboration/session/{quote(path)}"
    session = (await asyncio.to_thread(server.ask, "PUT", address, body)).json
    name = f"json:notebook:{session['fileId']}"
    room = f"ws://127.0.0.1:{server.port}/api/collaboration/room/{name}"
    request = HTTPRequest(
        f"{room}?sessionId={session['sessionId']}", headers={"Authorization": f"token {TOKEN}"}
    )
    socket = await websocket_connect(request, max_message_size=1 << 30)
    document = YNotebook(Doc())
    try:
        async with Provider(document.ydoc, _Channel(socket, name)):
            person = Person(document)
            await person.sees(lambda me: bool(len(me.document.ycells)))
            yield person
    finally:
        socket.close()
        while await socket.read_message() is not None:
            pass  # until the server has said goodbye, too


def saved(path: Any) -> dict[str, Any]:
    """Return the notebook on disk, once it is whole."""
    while True:
        try:
            return dict(json.loads(path.read_text(encoding="utf-8")))
        except ValueError:
            continue
