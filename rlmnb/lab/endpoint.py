"""What all requests have in common: who may ask, how large, and how a refusal reads."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar, cast

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from tornado.web import HTTPError, authenticated

from rlmnb.errors import (
    AmbiguousSessionError,
    CellNotFoundError,
    InvalidNameError,
    KernelError,
    LockTimeoutError,
    MissingExtraError,
    NotebookError,
    RlmnbError,
    SchemaError,
    SessionNotFoundError,
    StorageError,
    UnsafePathError,
)

if TYPE_CHECKING:
    from rlmnb.lab.desk import Desk
    from rlmnb.store.layout import Place

_Found = TypeVar("_Found")
_Method = TypeVar("_Method", bound=Callable[..., Awaitable[None]])
_LARGEST_BODY = 64 * 1024
_STATUS: tuple[tuple[type[RlmnbError], HTTPStatus], ...] = (
    (SessionNotFoundError, HTTPStatus.NOT_FOUND),
    (CellNotFoundError, HTTPStatus.NOT_FOUND),
    (AmbiguousSessionError, HTTPStatus.CONFLICT),
    (LockTimeoutError, HTTPStatus.CONFLICT),
    (UnsafePathError, HTTPStatus.FORBIDDEN),
    (NotebookError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (SchemaError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (MissingExtraError, HTTPStatus.NOT_IMPLEMENTED),
    (KernelError, HTTPStatus.SERVICE_UNAVAILABLE),
    (StorageError, HTTPStatus.INSUFFICIENT_STORAGE),
)


class Endpoint(APIHandler):
    """A request under `/rlmnb/api/`. Mistakes are answered as JSON, never with a traceback."""

    def initialize(self, desk: Desk) -> None:
        """Take what the requests share."""
        self.desk = desk

    async def prepare(self) -> None:  # type: ignore[override]
        """Let in who the server lets in, with no more than anybody has to say."""
        await super().prepare()
        if len(self.request.body) > _LARGEST_BODY:
            raise HTTPError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the request is too large")

    def skip_check_origin(self) -> bool:
        """Refuse another origin even with the token, unless the server's `allow_origin` has it.

        Behind a proxy that renames the host, the browser's own word tells our page from others.
        """
        if self.request.method == "OPTIONS":
            return True
        own_page = self.request.headers.get("Sec-Fetch-Site") == "same-origin"
        return own_page and bool(super().skip_check_origin())

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Say what is wrong and what to do, as JSON."""
        error = (kwargs.get("exc_info") or (None, None))[1]
        status, message, hint = status_code, _phrase(status_code), None
        if isinstance(error, RlmnbError):
            status = next(
                (status for kind, status in _STATUS if isinstance(error, kind)),
                HTTPStatus.BAD_REQUEST,
            )
            message, hint = error.message, error.hint
        elif isinstance(error, HTTPError):
            message = error.log_message or message
        elif isinstance(error, OSError):
            message = f"the disk would not do it: {error.strerror or type(error).__name__}"
        self.set_status(int(status))
        self.finish(json.dumps({"message": message, "hint": hint}))

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """Keep mistakes of whoever asks out of the server's log; ours belong there."""
        if not isinstance(value, RlmnbError):
            super().log_exception(typ, value, tb)

    def asked(self) -> Place:
        """Return the notebook that the address names."""
        return self.desk.confines.place(
            path=self.get_query_argument("path", None),
            session=self.get_query_argument("session", None),
        )

    def asked_in_body(self) -> tuple[Place, dict[str, Any]]:
        """Return the notebook that the body names, and the rest of what it says."""
        try:
            body = json.loads(self.request.body or b"{}")
        except (ValueError, RecursionError):
            raise InvalidNameError("the request is not JSON") from None
        if not isinstance(body, dict):
            raise InvalidNameError("wanted an object with a path or a session")
        place = self.desk.confines.place(
            path=text_in(body, "path"), session=text_in(body, "session")
        )
        return place, body

    def answer(self, found: Any, status: HTTPStatus = HTTPStatus.OK) -> None:
        """Send a value as JSON."""
        self.set_status(int(status))
        self.finish(json.dumps(found, ensure_ascii=False))

    async def aside(self, work: Callable[[], _Found]) -> _Found:
        """Do what takes time in a thread, so that nobody else waits."""
        return await asyncio.get_running_loop().run_in_executor(self.desk.threads, work)


def permitted(action: str, resource: str) -> Callable[[_Method], _Method]:
    """Let only those in whom the server knows, and who may do this to that."""

    def guarded(method: _Method) -> _Method:
        return cast("_Method", authenticated(cast("Any", authorized)(action, resource)(method)))

    return guarded


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "the request could not be answered"


def text_in(body: dict[str, Any], key: str) -> str | None:
    """Return a text that a body may have."""
    value = body.get(key)
    if value is None or isinstance(value, str):
        return value or None
    raise InvalidNameError(f"{key} is {type(value).__name__}; wanted text")


def switch_in(body: dict[str, Any], key: str) -> bool:
    """Return a switch that a body may have, off unless it says so."""
    value = body.get(key, False)
    if not isinstance(value, bool):
        raise InvalidNameError(f"{key} is {type(value).__name__}; wanted true or false")
    return value
