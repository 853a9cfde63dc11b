"""Measure everything side by side with its peers, and print the table. It takes some minutes."""

from __future__ import annotations

import argparse
import itertools
import json

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
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON, for scripts")
    parser.add_argument("--check", action="store_true", help="exit 1 if a row misses its bound")
    args = parser.parse_args()
    found = []
    for row in itertools.chain(sessions.rows(), replays.rows()):
        found.append(row)
        if not args.json:
            show(row)
    if args.json:
        print(json.dumps([row.as_dict() for row in found], indent=1))
    missed = not all(row.kept for row in found)
    return 1 if missed and args.check else 0


raise SystemExit(main())
