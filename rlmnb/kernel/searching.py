"""Finding files and the lines in them, the way the agent's Glob and Grep answer.

Both look at every file below a directory, so that a replay knows which directories were listed
and which files were read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

from rlmnb.capture.globs import TYPES, globs_of, matcher, rooted, walk

_MOST_NAMES = 100
_MODES = ("files_with_matches", "content", "count")


def find_files(pattern: str, path: str) -> dict[str, Any]:
    """Return the files below a path whose name matches, in the order of their names."""
    base, pattern = rooted(pattern, path)
    matches = matcher(pattern)
    found = [name for name in walk(base) if matches(name)]
    return {
        "filenames": [_from_here(base, name) for name in found[:_MOST_NAMES]],
        # How long it took would make two equal answers different.
        "durationMs": 0,
        "numFiles": min(len(found), _MOST_NAMES),
        "truncated": len(found) > _MOST_NAMES,
        "totalMatches": len(found),
        "countIsComplete": True,
    }


def _from_here(base: str, name: str) -> str:
    """Return a path as the agent shows it: from the working directory on, if it is below that."""
    whole = os.path.abspath(os.path.join(base, name))
    here = os.path.relpath(whole)
    return whole if here.startswith(f"..{os.sep}") else here


def search_files(pattern: str, path: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return what matches below a path: the files, the lines, or how many in each."""
    mode = options.get("output_mode", "files_with_matches")
    if mode not in _MODES:
        raise ValueError(f"output_mode is {mode!r}, wanted {', '.join(_MODES)}")
    flags = re.IGNORECASE if options.get("-i") else 0
    if options.get("multiline"):
        flags |= re.MULTILINE | re.DOTALL
    try:
        wanted = re.compile(pattern, flags)
    except re.error as error:
        raise ValueError(f"regex parse error: {error}: {pattern}") from None
    files = list(_searched(path, options))
    hits = [(name, lines, found) for name, lines in files if (found := _found(wanted, lines))]
    first = options.get("offset") or 0
    page = slice(first, first + options["head_limit"] if options.get("head_limit") else None)
    if mode == "content":
        shown = [line for hit in hits for line in _lines(*hit, options)][page]
        return {
            "mode": mode,
            "numFiles": 0,
            "filenames": [],
            "content": "\n".join(shown),
            "numLines": len(shown),
        }
    if mode == "count":
        counts = [f"{name}:{len(found)}" for name, _, found in hits][page]
        total = sum(len(found) for _, _, found in hits)
        answer = {"mode": mode, "numFiles": len(hits), "filenames": []}
        return {**answer, "content": "\n".join(counts), "numMatches": total}
    names = [name for name, _, _ in hits][page]
    return {"mode": mode, "numFiles": len(names), "filenames": names}


def _searched(path: str, options: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Yield the text files that are to be searched, each with its lines."""
    kind = options.get("type")
    if kind is not None and kind not in TYPES:
        raise ValueError(f"unrecognized file type: {kind}; there are {', '.join(TYPES)}")
    tests = [matcher(each) for each in globs_of(options)]
    if os.path.isfile(path):
        names, base = [os.path.basename(path)], os.path.dirname(path)
        tests = []
    elif os.path.isdir(path):
        names, base = list(walk(path)), path
    else:
        raise FileNotFoundError(f"Path does not exist: {path}")
    for name in names:
        if all(test(name) for test in tests):
            try:
                with open(os.path.join(base, name), "rb") as file:
                    data = file.read()
            except OSError:
                continue  # gone meanwhile, or not ours to read
            if b"\0" not in data[:1024]:
                yield _from_here(base, name), data.decode("utf-8", "replace").splitlines()


def _found(wanted: re.Pattern[str], lines: list[str]) -> list[int]:
    """Return the numbers of the lines that match, from 0."""
    if not wanted.flags & re.DOTALL:
        return [at for at, line in enumerate(lines) if wanted.search(line)]
    text = "\n".join(lines)
    found: set[int] = set()
    for match in wanted.finditer(text):
        first = text.count("\n", 0, match.start())
        found.update(range(first, first + match.group().count("\n") + 1))
    return sorted(found)


def _lines(name: str, lines: list[str], found: list[int], options: dict[str, Any]) -> Iterator[str]:
    around = options.get("-C") or options.get("context") or 0
    before, after = options.get("-B") or around, options.get("-A") or around
    numbered = options.get("-n", True)
    hits = set(found)
    shown = sorted(
        {
            near
            for at in found
            for near in range(max(0, at - before), min(len(lines), at + after + 1))
        }
    )
    last = None
    for at in shown:
        if last is not None and at > last + 1 and (before or after):
            yield "--"
        mark = ":" if at in hits else "-"
        yield f"{name}{mark}{f'{at + 1}{mark}' if numbered else ''}{lines[at]}"
        last = at
