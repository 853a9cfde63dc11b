"""Commands that explain: complexity, export, blame."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from rlmnb.capture.complexity import THRESHOLD, complexity_of
from rlmnb.cli import text
from rlmnb.cli.reading import opened
from rlmnb.errors import StorageError
from rlmnb.files import write_like

if TYPE_CHECKING:
    from rlmnb.blaming import Author


def complexity(args: Namespace) -> int:
    """Say how much a prompt asks for, and why."""
    prompt = sys.stdin.read() if args.prompt == "-" else args.prompt
    judged = complexity_of(prompt)
    if args.json:
        text.print_json({**judged.as_dict(), "complex": judged.score >= THRESHOLD})
        return 0
    word = "complex" if judged.score >= THRESHOLD else "simple"
    text.say(f"{judged.score:.2f}  {word} (complex from {THRESHOLD:g})")
    for why, share in judged.reasons:
        text.say(f"  +{share:.2f}  {why}")
    return 0


def export(args: Namespace) -> int:
    """Write traces, decisions or events as lines of JSON."""
    from rlmnb import exporting

    session = opened(args)
    data = "".join(f"{line}\n" for line in exporting.lines(session, args.kind))
    if args.output is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(data.encode("utf-8", "backslashreplace"))
        return 0
    try:
        write_like(args.output, data.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise StorageError(
            f"{args.output}: cannot write: {error.strerror or error}",
            hint=f"name a file that can be written: rlmnb export {args.kind} --output FILE",
        ) from error
    count = text.count(data.count("\n"), "line")
    if args.json:
        text.print_json({"path": args.output, "lines": data.count("\n")})
    else:
        text.note(f"{count} to {args.output}")
    return 0


def blame(args: Namespace) -> int:
    """Say which cell wrote a file, or a line of it."""
    from rlmnb import blaming

    path, line = _file_and_line(args.place)
    found = blaming.blame(path, line, everywhere=args.all)
    if args.json:
        text.print_json(found.as_dict())
        return 0 if found.authors else 1
    if found.text is not None:
        text.say(text.painted(f"{line}: {found.text}", "bold"))
    if not found.authors:
        text.note(f"no recorded call wrote {path}")
        return 1
    if found.how == "text":
        text.note("the file has changed since; found by the line's text")
    elif line is not None and found.how == "file":
        text.note("no recorded call brought this line in; the last one that wrote the file:")
    for author in found.authors:
        _tell_author(author, found.lines.get(author.cell_id))
    return 0


def _file_and_line(place: str) -> tuple[str, int | None]:
    path, colon, number = place.rpartition(":")
    if colon and number.isdecimal() and path and not os.path.exists(place):
        return path, int(number)
    return place, None


def _tell_author(author: Author, lines: int | None) -> None:
    owned = f", {text.count(lines, 'line')} of it now" if lines else ""
    head = f"{author.cell_id}  {author.operation}  {text.ago(author.at)}{owned}"
    text.say(text.painted(head, "bold"))
    commit = f"{author.head[:12]} {author.branch or ''}".strip() if author.head else None
    if commit and author.next_head:
        commit += f", then {author.next_head[:12]}"
    for label, value in (
        ("session", f"{author.session_id}  {author.title or ''}".strip()),
        ("goal", author.goal),
        ("decision", author.decision),
        ("because", author.rationale),
        ("head", commit),
    ):
        if value:
            text.labelled(f"  {label}", text.first_line(value), 12)
