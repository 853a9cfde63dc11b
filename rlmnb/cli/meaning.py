"""The session that a command line means; a word in the wrong place is told where it goes."""

from __future__ import annotations

import shlex
from argparse import Namespace

from rlmnb.errors import CellNotFoundError, InvalidNameError, RlmnbError, SessionNotFoundError
from rlmnb.selecting import is_selector
from rlmnb.session import Session
from rlmnb.store.layout import looks_like_path, session_place
from rlmnb.views import files_of, same_file


def session_of(args: Namespace) -> Session:
    """Open the session that is named, or the usual one."""
    alone = args.cell if "wanted" in args and args.session is None else None
    try:
        session = Session.open(args.session)
    except (SessionNotFoundError, InvalidNameError) as error:
        if alone is not None and what_is(alone):
            raise _without_cell(alone, args) from None
        raise hinted(error, _advice(args, error)) from None
    if alone is not None and what_is(alone) and not _is_in(session, alone):
        raise _without_cell(alone, args)
    return session


def selector_of(args: Namespace) -> str | None:
    """Return the selector that is given. An empty one is a mistake to point out, and not all."""
    parts = [*args.selectors, *([] if args.cells is None else [args.cells])]
    return ",".join(parts) if parts else None


def hinted(error: RlmnbError, hint: str) -> RlmnbError:
    """Return an error with another next step."""
    return type(error)(error.message, hint=hint)


def what_is(word: str) -> str:
    """Say what a word names that stands where something else should; nothing if it is neither."""
    if looks_like_path(word):
        return "notebook"
    try:
        return "session" if session_place(word).exists() else ""
    except InvalidNameError:
        return ""


def _advice(args: Namespace, error: RlmnbError) -> str:
    if "selectors" in args and args.session is not None:
        selector = ",".join([args.session, *args.selectors])
        if is_selector(selector):
            return (
                f"a selector goes after the session: rlmnb {args.command} SESSION {selector}; "
                f"or with --cells: rlmnb {args.command} --cells {selector}"
            )
    return error.hint or "name a notebook, or a session: rlmnb sessions"


def _without_cell(word: str, args: Namespace) -> InvalidNameError:
    name = shlex.quote(word)
    like = f"rlmnb {args.command} {name} 1"
    return InvalidNameError(
        f"{word} is a {what_is(word)}, and no cell is named",
        hint=f"name one after it: {like}; list them with: rlmnb cells {name}",
    )


def _is_in(session: Session, word: str) -> bool:
    """Tell whether a word that names a session names cells of this one as well."""
    try:
        session.select(word)
    except (CellNotFoundError, InvalidNameError):
        paths = (path for cell in session.cells for path in files_of(cell.entry))
        return any(same_file(path, word) for path in paths)
    return True
