"""Which words are coloured, and how (as ANSI codes)."""

STYLES = {
    "fresh": "32",
    "completed": "32",
    "promoted": "32",
    "ok": "32",
    "stale": "33",
    "new": "33",
    "running": "33",
    "suspended": "33",
    "invalidated": "33",
    "failed": "31",
    "error": "31",
    "line removed": "31",
    "line added": "32",
    "heading": "1",
    "dim": "2",
    "bold": "1",
}
