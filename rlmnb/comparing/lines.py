"""Two texts as lines that went and lines that came."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

_CONTEXT = 3
# Above this, what lies between the common beginning and end is shown as replaced.
_MOST_COMPARED = 2000


def line_changes(before: str, after: str) -> list[str]:
    """Return the lines of a unified diff: `-`, `+` or a space before each, `@@` where some skip."""
    if before.endswith("\n") and after.endswith("\n"):
        before, after = before[:-1], after[:-1]  # or an empty line would be shown at the end
    old, new = before.split("\n"), after.split("\n")
    shown: list[str] = []
    reached = 0
    for hunk in _hunks(old, new):
        _, start, _, from_new, _ = hunk[0]
        if start > reached:
            shown.append(f"@@ line {start + 1} → {from_new + 1} @@")
        for tag, low, high, low_new, high_new in hunk:
            if tag == "equal":
                shown += [f" {line}" for line in old[low:high]]
            else:
                shown += [f"-{line}" for line in old[low:high]]
                shown += [f"+{line}" for line in new[low_new:high_new]]
        reached = hunk[-1][2]
    return shown


Block = tuple[str, int, int, int, int]


def _hunks(old: list[str], new: list[str]) -> Iterator[list[Block]]:
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    middle, middle_new = old[start : len(old) - end], new[start : len(new) - end]
    if not middle and not middle_new:
        return
    blocks: Sequence[Block]
    if max(len(middle), len(middle_new)) > _MOST_COMPARED:
        blocks = [("replace", 0, len(middle), 0, len(middle_new))]
    else:
        matcher = SequenceMatcher(None, middle, middle_new, autojunk=False)
        blocks = list(matcher.get_opcodes())
    moved = [
        (tag, low + start, high + start, low_new + start, high_new + start)
        for tag, low, high, low_new, high_new in blocks
    ]
    whole: list[Block] = [
        ("equal", 0, start, 0, start),
        *moved,
        ("equal", len(old) - end, len(old), len(new) - end, len(new)),
    ]
    yield from _grouped([block for block in whole if block[1] < block[2] or block[3] < block[4]])


def _grouped(blocks: list[Block]) -> Iterator[list[Block]]:
    """Keep a few equal lines around each change, and part where there are many."""
    hunk: list[Block] = []
    for number, (tag, low, high, low_new, high_new) in enumerate(blocks):
        if tag != "equal":
            hunk.append((tag, low, high, low_new, high_new))
            continue
        last = number == len(blocks) - 1
        if hunk and (last or high - low > 2 * _CONTEXT):
            kept = min(_CONTEXT, high - low)
            hunk.append((tag, low, low + kept, low_new, low_new + kept))
            yield hunk
            hunk = []
        if not last:
            kept = min(_CONTEXT, high - low) if not hunk else high - low
            hunk.append((tag, high - kept, high, high_new - kept, high_new))
    if any(block[0] != "equal" for block in hunk):
        yield hunk
