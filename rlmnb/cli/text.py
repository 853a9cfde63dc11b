"""How things are shown: tables in a terminal, plain columns in a pipe, JSON for scripts."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from rlmnb.cli.styles import STYLES
from rlmnb.jsontext import clean_text
from rlmnb.picture import wording

# What a narrow terminal can do without, the first first.
_SPARE = (
    "age", "project", "journal", "notebook", "away", "size", "memory", "type", "cells", "state",
    "status",
)  # fmt: skip
# What can be cut short, as the column that grows can.
_SOFT = ("because of",)
_LEAST, _PADDING = 8, 2
# Below this, four places after the point say nothing.
_SMALL_MONEY = 0.0001
_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


def print_json(value: Any) -> None:
    """Print a value for a script."""
    # `json.dump` would write each comma by itself, ten times as slowly.
    sys.stdout.write(json.dumps(value, ensure_ascii=not unicode_output(), default=str) + "\n")


def print_lines_as_json(lines: Iterable[str]) -> None:
    """Print a list whose items are JSON text already, one to a line."""
    whole = "[" + ",\n".join(lines) + "]"
    sys.stdout.write((whole if unicode_output() else json.dumps(json.loads(whole))) + "\n")


def unicode_output() -> bool:
    """Tell whether standard output can take any character."""
    return (sys.stdout.encoding or "utf-8").lower().replace("-", "") == "utf8"


class Painted(str):
    """Text that has been made safe to print, with colours of our own."""

    __slots__ = ()


def say(*parts: str) -> None:
    """Print the parts as a line of the answer."""
    end_progress()
    sys.stdout.write("".join(_safe(part) for part in parts) + "\n")


def note(text: str) -> None:
    """Print a line beside the answer, where a pipe does not carry it."""
    end_progress()
    sys.stderr.write(_safe(text) + "\n")


_progress: list[str] = []


def progress(text: str) -> None:
    """Show in a terminal what is going on, in the place of what was shown before."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return
    import shutil

    width = shutil.get_terminal_size().columns - 1
    _progress[:] = [" " * width]
    sys.stderr.write(f"\r{_safe(text)[:width]:<{width}}\r")
    sys.stderr.flush()


def end_progress() -> None:
    """Make room for what stays."""
    if _progress:
        sys.stderr.write(f"\r{_progress.pop()}\r")
        sys.stderr.flush()


def _safe(part: str) -> str:
    return part if isinstance(part, Painted) else clean_text(printable(part))


def printable(text: str) -> str:
    """Spell out control characters: what an agent's tool printed must not drive the terminal."""
    return "".join(
        letter if letter in "\n\t" or letter.isprintable() else f"\\x{ord(letter):02x}"
        for letter in text
    )


def colour_wanted(stream: Any = None) -> bool:
    """Tell whether colours help: a terminal, and nobody said NO_COLOR."""
    stream = stream or sys.stdout
    if os.environ.get("NO_COLOR"):
        return False
    return bool(stream.isatty()) and os.environ.get("TERM") != "dumb"


def painted(text: str, style: str) -> Painted:
    """Colour a text where colours are wanted."""
    code = STYLES.get(style)
    safe = _safe(text)
    return Painted(f"\033[{code}m{safe}\033[0m" if code and colour_wanted() else safe)


def labelled(label: str, value: object, width: int) -> None:
    """Print a value after its label."""
    say(painted(f"{label:<{width}}", "dim"), str(value))


def described(label: str, words: str, width: int) -> None:
    """Print words after their label, the lines of a terminal ending between them."""
    first, *others = words.split("\n")
    lines = [wrapped(first, width, width), *(wrapped(line, 0, width) for line in others)]
    labelled(label, "\n".join(lines), width)


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], grow: str) -> None:
    """Print rows under their headings. In a terminal, the column `grow` takes what room is left."""
    if not sys.stdout.isatty():
        for row in rows:
            say("\t".join(_in_one_cell(value) for value in row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(color_system="standard" if colour_wanted() else None, highlight=False)
    columns, rows, widths = _with_room(columns, rows, grow, console.width)
    drawn = Table(box=None, pad_edge=False, header_style="dim", padding=(0, _PADDING, 0, 0))
    for column, width in zip(columns, widths, strict=True):
        growing = column == grow
        drawn.add_column(
            column,
            no_wrap=True,
            overflow="ellipsis",
            ratio=1 if growing else None,
            min_width=_LEAST if growing else None,
            max_width=width if column in _SOFT else None,
        )
    drawn.expand = True
    for row in rows:
        drawn.add_row(
            *(
                Text(_fitted(value, width), style=_rich_style(str(value)))
                for value, width in zip(row, widths, strict=True)
            )
        )
    console.print(drawn)


def _with_room(
    columns: Sequence[str], rows: Sequence[Sequence[object]], grow: str, width: int
) -> tuple[Sequence[str], Sequence[Sequence[object]], Sequence[int]]:
    """Leave columns out where a terminal is too narrow for all, so that the others can be read.

    Returned with the width that each is to have.
    """
    whole = [
        max([len(column), *(_columns_of(row[at]) for row in rows)])
        for at, column in enumerate(columns)
    ]
    yielding = [column == grow or column in _SOFT for column in columns]
    least = [_LEAST if soft else full for soft, full in zip(yielding, whole, strict=True)]
    kept = list(range(len(columns)))
    for name in _SPARE:
        if _used(least, kept) <= width:
            break
        kept = [at for at in kept if columns[at] != name or name == grow]
    spare = max(width - _used(least, kept), 0)
    for at in kept:
        if columns[at] in _SOFT:
            # What grows is to have as much of it.
            least[at] = min(whole[at], least[at] + spare // 2)
    for at in kept:
        if columns[at] == grow:
            least[at] += max(width - _used(least, kept), 0)
    return (
        [columns[at] for at in kept],
        [[row[at] for at in kept] for row in rows],
        [least[at] for at in kept],
    )


def _used(widths: Sequence[int], kept: Sequence[int]) -> int:
    """Return how wide a table is whose columns have these widths."""
    return sum(widths[at] + _PADDING for at in kept) - _PADDING


def _fitted(value: object, width: int) -> str:
    """Return a value in so many columns, what tells it from the others last to be left out."""
    shown = printable(_in_one_cell(value))
    fit = wording.ending if os.path.isabs(shown) else wording.brief
    return fit(shown, width, _ellipsis())


def _columns_of(value: object) -> int:
    return wording.columns(printable(_in_one_cell(value)))


def _in_one_cell(value: object) -> str:
    """Keep a value within its line and column: tabs and line ends part them in a pipe."""
    return str(value).replace("\n", " ").replace("\t", " ")


def _rich_style(value: str) -> str:
    return {"31": "red", "32": "green", "33": "yellow", "2": "dim", "1": "bold"}.get(
        STYLES.get(value, ""), ""
    )


def _ellipsis() -> str:
    return "…" if unicode_output() else "..."


def cut(text: str, begin: int) -> str:
    """Cut a line that begins in this column at the edge of the terminal; a pipe gets it whole."""
    if not sys.stdout.isatty():
        return text
    import shutil

    room = max(shutil.get_terminal_size().columns - begin, _LEAST)
    return wording.brief(printable(text), room, _ellipsis())


def wrapped(text: str, begin: int, indent: int) -> str:
    """Break a sentence at the edge of the terminal, if there is one; a pipe gets it whole.

    Its first line begins in column `begin`, the others in column `indent`.
    """
    if not sys.stdout.isatty():
        return text
    import shutil
    import textwrap

    width = max(shutil.get_terminal_size().columns, indent + 20)
    lines = textwrap.wrap(
        text, width, initial_indent=" " * begin, subsequent_indent=" " * indent,
        break_on_hyphens=False, break_long_words=False,
    )  # fmt: skip
    return "\n".join(lines)[begin:]


def first_line(text: object, most: int = 66) -> str | None:
    """Return the beginning of a text that fits beside its label."""
    line = text.strip().partition("\n")[0] if isinstance(text, str) else ""
    return (line if len(line) <= most else line[: most - 1] + "…") or None


def ago(moment: object) -> str:
    """Say how long ago a recorded time was."""
    if not isinstance(moment, str):
        return "-"
    try:
        then = datetime.fromisoformat(moment)
    except ValueError:
        return "-"
    seconds = int((datetime.now(UTC) - then).total_seconds()) if then.tzinfo else -1
    if seconds < 0:
        return "-"
    for unit, length in _UNITS:
        if seconds >= length:
            return f"{seconds // length} {unit} ago"
    return "now"


def size(number: object) -> str:
    """Write a number of bytes for people."""
    if not isinstance(number, int):
        return "-"
    value = float(number)
    for unit in ("B", "KB", "MB", "GB"):
        if value < 1024 or unit == "GB":
            return f"{value:.0f} {unit}" if unit == "B" or value >= 10 else f"{value:.1f} {unit}"
        value /= 1024
    return f"{number} B"


def money(amount: object) -> str:
    """Write an amount of US dollars: to the cent from one on, and as small as it is below."""
    if not isinstance(amount, int | float):
        return "-"
    if 0 < abs(amount) < _SMALL_MONEY:
        digits = f"{amount:.1e}"
        return f"${amount:.{1 - int(digits.partition('e')[2])}f}"
    return f"${amount:,.4f}" if abs(amount) < 1 else f"${amount:,.2f}"


def count(number: int, noun: str) -> str:
    """Write a number with its noun in the right form."""
    plural = noun + "s" if not noun.endswith(("s", "y")) else noun[:-1] + "ies"
    return f"{number} {noun if number == 1 else plural}"
