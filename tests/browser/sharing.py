"""A person who has a notebook open as a live document: a real client of jupyter-collaboration."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import quote

from jupyter_ydoc import YNotebook
from pycrdt import Decoder, Doc, Encoder, Provider
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

from rlmnb.files import polls
from tests.lab.serving import TOKEN, Server

EXTENSIONS = ("jupyter_server_fileid", "jupyter_server_ydoc")
PATIENCE = 120.0
# The kind of message in which a save is asked for and answered.
_RAW = 2


class _Channel:
    """The websocket as pycrdt wants it."""

    def __init__(self, socket: WebSocketClientConnection, path: str) -> None:
        self._socket = socket
        self.path = path
        self.saves: dict[int, str] = {}

    async def send(self, message: bytes) -> None:
        await self._socket.write_message(message, binary=True)

    async def recv(self) -> bytes:
        while (message := await self._socket.read_message()) is not None:
            assert isinstance(message, bytes)
            if message[0] != _RAW:
                return message
            self._hear(Decoder(message[1:]).read_var_string())
        raise StopAsyncIteration

    def _hear(self, text: str) -> None:
        answer = json.loads(text)
        if answer.get("type") == "save":
            self.saves[answer["responseTo"]] = answer["status"]

    def __aiter__(self) -> _Channel:
        return self

    async def __anext__(self) -> bytes:
        return await self.recv()


class Person:
    """Sees the document as it is, and types into it."""

    def __init__(self, document: YNotebook, channel: _Channel) -> None:
        self.document = document
        self._channel = channel
        self._asked = 0

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

    async def save(self) -> str:
        """Press Ctrl+S; return what JupyterLab is told of it."""
        self._asked += 1
        number, message = self._asked, Encoder()
        message.write_var_uint(_RAW)
        message.write_var_string("save")
        message.write_var_uint(number)
        await self._channel.send(message.to_bytes())
        await until(lambda: number in self._channel.saves)
        return self._channel.saves[number]

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
        channel = _Channel(socket, name)
        async with Provider(document.ydoc, channel):
            person = Person(document, channel)
            await person.sees(lambda me: bool(len(me.document.ycells)))
            yield person
    finally:
        socket.close()
        async with asyncio.timeout(PATIENCE):
            while await socket.read_message() is not None:
                pass  # until the server has said goodbye, too


def saved(path: Any) -> dict[str, Any]:
    """Return the notebook on disk, once it is whole."""
    for _ in polls(PATIENCE):
        with suppress(ValueError):
            return dict(json.loads(path.read_text(encoding="utf-8")))
    raise AssertionError(f"{path}: half written for {PATIENCE} s")
