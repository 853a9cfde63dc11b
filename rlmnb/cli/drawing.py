"""The command that draws: graph."""

from __future__ import annotations

import os
import shutil
import sys
from argparse import Namespace

from rlmnb.cli import text
from rlmnb.cli.reading import judged, opened
from rlmnb.errors import CellNotFoundError, InvalidNameError, StorageError, UsageError
from rlmnb.files import write_like
from rlmnb.picture import texts
from rlmnb.picture.forms import written
from rlmnb.picture.model import Picture, draw
from rlmnb.picture.placing import put_into
from rlmnb.session import Session
from rlmnb.views import effectful, replies

_MERMAID_EDGES = 500
_ENDINGS = {
    ".svg": "svg",
    ".mmd": "mermaid",
    ".mermaid": "mermaid",
    ".dot": "dot",
    ".gv": "dot",
    ".json": "json",
}


def show_graph(args: Namespace) -> int:
    """Draw what the cells of a session need from one another."""
    # Every command has --json, so that it is in no group of options that leave each other out.
    if args.json and args.form:
        raise UsageError(
            f"argument --{args.form}: not allowed with argument --json",
            hint=f"leave out --{args.form} or --json",
        )
    session = judged(opened(args))
    picture = draw(
        session.index,
        session.stale,
        effectful=effectful(session.cells),
        replies=replies(session.cells),
        files=args.files,
        by_turn=False if args.all else (True if args.by_turn else None),
        cell=_chosen_cell(session, args.cell) if args.cell else None,
    )
    if args.into_notebook:
        return _put_into(session, picture, args)
    form = _form(args)
    if form == "text" and not args.output:
        _tell(picture, session)
    else:
        _hand_over(written(picture, form), args.output)
    if picture.collapsed and not args.by_turn:
        nodes = text.count(len(picture.nodes), "node")
        _note(f"note: {picture.cells} cells are drawn as {nodes}")
        _note(f"every cell: rlmnb graph {session.place.word} --all; around one: --cell CELL")
    if form == "mermaid" and len(picture.edges) > _MERMAID_EDGES:
        _note(
            f"note: {len(picture.edges)} edges; Mermaid draws at most {_MERMAID_EDGES} unless "
            "its maxEdges is raised; --svg has no limit"
        )
    return 0


def _note(sentence: str) -> None:
    text.note(text.wrapped(sentence, 0, 2))


def _put_into(session: Session, picture: Picture, args: Namespace) -> int:
    if args.form or args.output:
        raise InvalidNameError(
            "--into-notebook draws a Mermaid picture into the notebook, and nowhere else",
            hint=f"run: rlmnb graph {session.place.word} --into-notebook",
        )
    cell_id = put_into(session, picture)
    if args.json:
        text.print_json({"session": session.id, "cell_id": cell_id})
    else:
        text.say(f"{cell_id}  in {session.path}; again after a change: the same command")
    return 0


def _chosen_cell(session: Session, asked: str) -> str:
    cell = session.cell(asked)
    if cell.status is None:
        raise CellNotFoundError(
            f"cell {cell.number} ({cell.cell_id}) of {session.place.name} is {cell.type}, which "
            "needs nothing and which nothing needs; wanted a code cell",
            hint=f"see which there are: rlmnb cells {session.place.word}",
        )
    return cell.cell_id


def _form(args: Namespace) -> str:
    """Return the form that was asked for; failing that, what the file's name says."""
    if args.json:
        return "json"
    ending = os.path.splitext(args.output or "")[1].lower()
    return args.form or _ENDINGS.get(ending, "text")


def _tell(picture: Picture, session: Session) -> None:
    if not picture.nodes:
        _note(f"{session.place.name} has no code cells yet, so there is nothing to draw")
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    marks = texts.UNICODE if text.unicode_output() else texts.ASCII
    for line in texts.lines(picture, width=width, marks=marks):
        text.say(*(text.painted(part, style) if style else part for part, style in line))


def _hand_over(drawn: str, path: str | None) -> None:
    """Write what another program will read, which is UTF-8 whatever the terminal is."""
    data = drawn.encode("utf-8", "backslashreplace")
    if path is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        return
    try:
        write_like(path, data)
    except OSError as error:
        raise StorageError(
            f"{path}: cannot write the picture: {error.strerror or error}",
            hint="name a file that can be written, as in: rlmnb graph -o graph.svg",
        ) from error
