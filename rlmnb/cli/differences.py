"""A comparison as people read it: the way nbdime shows notebooks, lines that went and that came."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from rlmnb.cli import fitting, text
from rlmnb.comparing.compare import CellDifference, Comparison, NameDifference, is_resumable
from rlmnb.comparing.lines import line_changes
from rlmnb.comparing.outputs import Piece
from rlmnb.comparing.sides import Side, SideCell
from rlmnb.comparing.spending import Amount
from rlmnb.graph.freshness import begins
from rlmnb.picture.wording import columns
from rlmnb.views import COLOURS

_LINES = 40
_NAMES = 12
_STALE = 10
_TITLE = 200
_LEAST = 8
_SUMMARY = 11
_WORDS = {"changed": "modified"}
# As many cells of a kind as are shown with their lines; the next thousand say nothing new.
_ALIKE = {"modified": 50, "added": 20, "removed": 20, "moved": 20, "only in status or freshness": 5}
_STYLES = {"-": "line removed", "+": "line added", "@": "dim"}
# What programs print to colour their output: in a diff it is no text, only noise.


def show_sides(comparison: Comparison) -> None:
    """Say which is which: what went is of the first, what came of the second."""
    for mark, side in (("---", comparison.a), ("+++", comparison.b)):
        name = fitting.ending(side.name, 4)
        text.say(text.painted(f"{mark} {name}", _STYLES[mark[0]]), _about(side, 4 + columns(name)))


def _about(side: Side, begin: int) -> str:
    """Say how much a side has and what it is called, on another line where its name fills one."""
    count = f"({text.count(len(side.cells), 'cell')})"
    title = f"  {side.title}" if side.title else ""
    left = fitting.room(begin)
    if left is None or left >= len(count) + 2:
        return f"  {text.cut(count + title, begin + 2)}"
    return f"\n    {text.cut(count + title, 4)}"


def show_cells(cells: Sequence[CellDifference], *, full: bool) -> None:
    """Show the cells that differ, with their lines; of many alike, the first few."""
    seen: Counter[str] = Counter()
    for each in cells:
        if each.kind == "same":
            continue
        kind = _kind(each)
        seen[kind] += 1
        if seen[kind] > _ALIKE[kind] and not full:
            continue
        text.say()
        _say_heading(_header(each))
        lines = list(_lines(each))
        shown = lines if full or len(lines) <= _LINES + 1 else lines[:_LINES]
        for line in shown:
            text.say(text.painted(fitting.folded(_printed(line)), _STYLES.get(line[:1], "")))
        if len(shown) < len(lines):
            more = f"… {len(lines) - len(shown)} more lines (--full shows them)"
            text.say(text.painted(fitting.broken(more, 0, 2), "dim"))
    if left := {kind: seen[kind] - most for kind, most in _ALIKE.items() if seen[kind] > most}:
        told = ", ".join(f"{number} {kind}" for kind, number in left.items())
        text.say()
        text.say(
            fitting.broken(f"… and more cells: {told} (--stat lists them, --full shows them)", 0, 2)
        )


def _say_heading(words: str) -> None:
    text.say(text.painted(f"## {fitting.broken(words, 3, 3)}", "heading"))


def _printed(line: str) -> str:
    """Return a line as it is shown; spaces at its end say something only where it differs."""
    plain = COLOURS.sub("", line)
    return plain.rstrip() if plain.startswith(" ") else plain


def _kind(each: CellDifference) -> str:
    """Return what a cell counts as where there are many: one whose code is the same says less."""
    if each.kind == "changed" and not {"source", "outputs", "type"} & {*each.changes}:
        return "only in status or freshness"
    return _WORDS.get(each.kind, each.kind)


def list_cells(cells: Sequence[CellDifference]) -> None:
    """Show a line for every cell that differs."""
    for each in cells:
        if each.kind != "same":
            mark = {"added": "+", "removed": "-"}.get(each.kind, " ")
            head = f"{mark} {text.cut(_header(each), 2)}"
            text.say(text.painted(head, _STYLES.get(mark, "")), _title(each.b or each.a, head))


def _title(cell: SideCell | None, head: str) -> str:
    """Return the first line of a cell as it stands behind its heading, if there is room for it."""
    line = text.first_line(cell.source, _TITLE) if cell is not None else None
    begin = columns(head) + 2
    left = fitting.room(begin)
    if line is None or (left is not None and left < _LEAST):
        return ""
    return f"  {text.cut(line, begin)}"


def _header(each: CellDifference) -> str:
    cell = each.b or each.a
    if cell is None:
        return each.kind
    number = str(cell.number)
    if each.a is not None and each.b is not None and each.a.number != each.b.number:
        number = f"{each.a.number} → {each.b.number}"
    name = cell.cell_id
    if each.a is not None and each.b is not None and each.a.cell_id != each.b.cell_id:
        name = f"{each.a.cell_id} → {each.b.cell_id}"
    parts = list(each.changes)
    parts += ["moved"] if each.moved and each.kind == "changed" else []
    told = f": {', '.join(parts)}" if parts else ""
    return f"{_WORDS.get(each.kind, each.kind)} cell {number} {name}{told}"


def _lines(each: CellDifference) -> Iterator[str]:
    """Yield what differs of a cell; the first character says which side a line is of."""
    if each.a is not None and each.b is not None:
        for key in ("type", "status", "freshness"):
            if key in each.changes:
                yield f"@@ {key}: {getattr(each.a, key)} → {getattr(each.b, key)} @@"
        if "source" in each.changes:
            if len(each.changes) > 1:
                yield "@@ source @@"
            yield from line_changes(each.a.source, each.b.source)
        if "outputs" in each.changes:
            yield from _output_lines(each.a.pieces, each.b.pieces)
        return
    mark, cell = ("-", each.a) if each.a is not None else ("+", each.b)
    if cell is not None:
        yield from (f"{mark}{line}" for line in cell.source.split("\n"))
        nothing: tuple[Piece, ...] = ()
        both = (cell.pieces, nothing) if mark == "-" else (nothing, cell.pieces)
        yield from _output_lines(*both)


def _output_lines(before: Sequence[Piece], after: Sequence[Piece]) -> Iterator[str]:
    for old, new in _aligned(before, after):
        piece = new or old
        if piece is None or old == new:
            continue
        if piece.text is None:
            yield _sizes(piece.kind, old, new)
            continue
        yield f"@@ output {piece.kind} @@"
        ours, theirs = _readable(old), _readable(new)
        if ours is None or theirs is None:
            mark, whole = ("-", ours) if theirs is None else ("+", theirs)
            yield from (f"{mark}{line}" for line in (whole or "").split("\n"))
        elif ours == theirs:
            yield "@@ only colours, or the newline at its end, differ @@"
        else:
            yield from line_changes(ours, theirs)


def _readable(piece: Piece | None) -> str | None:
    if piece is None or piece.text is None:
        return None
    return COLOURS.sub("", piece.text).removesuffix("\n")


def _aligned(
    before: Sequence[Piece], after: Sequence[Piece]
) -> Iterator[tuple[Piece | None, Piece | None]]:
    """Set the first of a kind against the first of that kind, and so on."""
    kinds = dict.fromkeys(piece.kind for piece in (*before, *after))
    for kind in kinds:
        ours = [piece for piece in before if piece.kind == kind]
        theirs = [piece for piece in after if piece.kind == kind]
        yield from zip_longest(ours, theirs)


def _sizes(kind: str, old: Piece | None, new: Piece | None) -> str:
    if old is None or new is None:
        mark, piece = ("-", old) if old is not None else ("+", new)
        return f"{mark}{kind} ({text.size(piece.size if piece else None)})"
    return f"@@ {kind} changed ({text.size(old.size)} → {text.size(new.size)}) @@"


def show_names(title: str, names: NameDifference, comparison: Comparison) -> None:
    """Show names by how they stand on the two sides; nothing if all is the same."""
    if not names.differs:
        return
    text.say()
    _say_heading(title)
    for mark, kind, told in (
        ("@", names.changed, "changed"),
        ("-", names.only_a, f"only in {comparison.a.name}"),
        ("+", names.only_b, f"only in {comparison.b.name}"),
        ("@", names.unknown, "not known, as rlmnb never ran what sets them"),
    ):
        if kind:
            style = "" if mark == "@" else _STYLES[mark]
            lead = "  " if mark == "@" else f"{mark} "
            listed = fitting.broken(f"{told}: {_listed(kind)}", 2, 4)
            text.say(text.painted(f"{lead}{listed}", style))
    if names.same:
        listed = fitting.broken(f"the same: {_listed(names.same)}", 2, 4)
        text.say(text.painted(f"  {listed}", "dim"))


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(name.removeprefix("$") for name in names[:_NAMES])
    return shown + (f" and {len(names) - _NAMES} more" if len(names) > _NAMES else "")


def show_files(comparison: Comparison) -> None:
    """Show the files that both sides touched and found or left different."""
    if not comparison.files.changed:
        return
    text.say()
    _say_heading("files that both touched, and that are not the same")
    for path in comparison.files.changed:
        old, new = (_short(side.files[path]) for side in (comparison.a, comparison.b))
        told = f"  {old} → {new}"
        text.say(f"  {fitting.ending(path, 2 + len(told))}{told}")


def _short(known: str) -> str:
    return known.removeprefix("sha256:")[:8]


def show_spending(comparison: Comparison) -> None:
    """Show what each side took, where anything is known of it."""
    spending = comparison.spending
    rows: list[tuple[str, Amount, str]] = [
        ("tokens", spending.total["tokens"], ""),
        ("calls", spending.total["calls"], ""),
        ("cost", spending.total["cost_usd"], "$"),
    ]
    for model, amounts in spending.by_model.items():
        rows.append((f"{model} tokens", amounts["tokens"], ""))
        rows.append((f"{model} cost", amounts["cost_usd"], "$"))
    rows.append(("model calls of cells", spending.of_cells["calls"], ""))
    rows.append(("cost of cells", spending.of_cells["cost_usd"], "$"))
    rows.append(("tokens of cells", spending.of_cells["tokens"], ""))
    rows.append(("time of cells", spending.of_cells["execution_time_ms"], "ms"))
    if not any(amount.a or amount.b for _, amount, _ in rows):
        return
    text.say()
    _say_heading("tokens and cost")
    told = {
        label: _change(amount, unit)
        for label, amount, unit in rows
        if (amount.a, amount.b) != (0, 0)
    }
    width = max(len(label) for label in told)
    left = fitting.room(width + 4)
    if left is None or left >= max(map(len, told.values())):
        for label, change in told.items():
            text.say(f"  {label:<{width}}  {change}")
        return
    for label, change in told.items():
        text.say("  ", text.cut(label, 2))
        text.say("    ", fitting.broken(change, 4, 4))


def _change(amount: Amount, unit: str) -> str:
    told = f"{_amount(amount.a, unit)} → {_amount(amount.b, unit)}"
    change = amount.difference
    if change:
        told += f"  ({'+' if change > 0 else '-'}{_amount(abs(change), unit)})"
    return told


def _amount(number: float | None, unit: str) -> str:
    if number is None:
        return "unknown"
    if unit == "$":
        return text.money(number)
    if unit == "ms":
        return f"{number / 1000:,.1f} s"
    return f"{number:,}"


def show_stale(comparison: Comparison) -> None:
    """Show what no longer holds on either side, the cells of one cause together."""
    for side in (comparison.a, comparison.b):
        stale = [cell for cell in side.cells if cell.causes]
        if not stale:
            continue
        text.say()
        count = text.count(len(stale), "cell")
        verb = "do not hold" if len(stale) > 1 else "does not hold"
        _say_heading(f"{side.name}: {count} {verb}")
        causes: dict[str, list[str]] = {}
        for cell in stale:
            own = [cause for cause in cell.causes if begins([cause])]
            for cause in own or ["depends on those"]:
                causes.setdefault(cause, []).append(str(cell.number))
        followers = causes.pop("depends on those", [])
        shown = list(causes.items())[:_STALE]
        for cause, numbers in [*shown, *([("depends on those", followers)] if followers else [])]:
            noun = "cell" if len(numbers) == 1 else "cells"
            text.say("  ", fitting.broken(f"{cause}: {noun} {_listed(numbers)}", 2, 4))
        if len(causes) > _STALE:
            more = f"  … {len(causes) - _STALE} more; all of them with --json"
            text.say(text.painted(fitting.broken(more, 0, 4), "dim"))


def show_summary(comparison: Comparison) -> None:
    """End with the whole of it in a few lines."""
    counts = [f"{number} {kind}" for kind, number in comparison.counts.items() if number]
    text.say()
    _sum_up("cells", ", ".join(counts) or "none")
    _sum_up("variables", _counted(comparison.variables))
    same = "; ".join(comparison.same_task)
    _sum_up("same task", f"yes: {same}" if same else "not known to be")
    going = [side.section("session").get("id") for side in _sides(comparison) if is_resumable(side)]
    if going := [str(each) for each in dict.fromkeys(going) if each]:
        _sum_up("can go on", ", ".join(going))


def _sum_up(label: str, words: str) -> None:
    text.labelled(label, fitting.broken(words, _SUMMARY, _SUMMARY), _SUMMARY)


def _sides(comparison: Comparison) -> tuple[Side, Side]:
    return comparison.a, comparison.b


def _counted(names: NameDifference) -> str:
    parts = {
        "changed": names.changed,
        "removed": names.only_a,
        "added": names.only_b,
        "not known": names.unknown,
        "same": names.same,
    }
    return ", ".join(f"{len(each)} {word}" for word, each in parts.items() if each) or "none known"
