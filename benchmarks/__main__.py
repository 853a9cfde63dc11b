"""Print the table; `--json` for scripts, `--check` to exit 1 if a row misses its bound."""

from __future__ import annotations

import itertools
import json
import sys

from benchmarks import replays, sessions
from benchmarks.measure import Row


def show(row: Row) -> None:
    """Print one row."""
    verdict = "" if row.kept else "  MISSED"
    print(
        f"{row.name:<36} {row.ours_ms:>9.2f} ms  {row.peer:<22} {row.peer_ms:>9.2f} ms  "
        f"{row.ratio:>8.3f}x  ({row.bound}){verdict}",
        flush=True,
    )


def main() -> int:
    """Measure and print."""
    as_json = "--json" in sys.argv[1:]
    found = []
    for row in itertools.chain(sessions.rows(), replays.rows()):
        found.append(row)
        if not as_json:
            show(row)
    if as_json:
        print(json.dumps([row.as_dict() for row in found], indent=1))
    missed = not all(row.kept for row in found)
    return 1 if missed and "--check" in sys.argv[1:] else 0


raise SystemExit(main())
