"""Which files a search goes through, as the agent's Glob and Grep choose them."""

import fnmatch
import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

_SKIPPED = frozenset({".git", ".hg", ".svn", ".rlmnb", "__pycache__", "node_modules", ".venv"})
_BRACES = re.compile(r"\{([^{}]*)\}")
TYPES = {
    "py": "*.{py,pyi}",
    "js": "*.{js,jsx,mjs,cjs}",
    "ts": "*.{ts,tsx,mts,cts}",
    "rust": "*.rs",
    "go": "*.go",
    "java": "*.java",
    "md": "*.{md,markdown}",
    "json": "*.json",
    "html": "*.{html,htm}",
    "css": "*.css",
    "c": "*.{c,h}",
    "cpp": "*.{cc,cpp,cxx,hpp,hh,h}",
    "yaml": "*.{yml,yaml}",
    "toml": "*.toml",
    "txt": "*.txt",
    "sh": "*.{sh,bash}",
}


def rooted(pattern: str, path: str) -> "tuple[str, str]":
    """Return where to look and for what; an absolute pattern says both."""
    if not os.path.isabs(pattern):
        return path, pattern
    parts = pattern.split("/")
    plain = next(at for at, part in enumerate([*parts, "*"]) if set(part) & set("*?[{"))
    plain = min(plain, len(parts) - 1)
    return "/".join(parts[:plain]) or "/", "/".join(parts[plain:])


def globs_of(options: "Mapping[str, Any]") -> "list[str]":
    """Return the patterns that a file has to fit to be searched, as a Grep's options tell."""
    given = (options.get("glob"), TYPES.get(str(options.get("type"))))
    return [each if "/" in each else f"**/{each}" for each in given if each]


def walk(base: str) -> "Iterator[str]":
    """Yield the files below a directory that searches go through, each by its path from there."""
    for directory, files in _folders(base):
        for name in sorted(files):
            yield os.path.relpath(os.path.join(directory, name), base)


def folders(base: str) -> "Iterator[str]":
    """Yield a directory and those below it that searches go through."""
    return (directory for directory, _ in _folders(base))


def _folders(base: str) -> "Iterator[tuple[str, list[str]]]":
    for directory, names, files in os.walk(base):
        names[:] = sorted(name for name in names if name not in _SKIPPED)
        yield directory, files


def is_passed(name: str) -> bool:
    """Tell whether searches pass a file by, because of a directory that it is in."""
    return not _SKIPPED.isdisjoint(name.split(os.sep)[:-1])


def matcher(pattern: str) -> "Callable[[str], bool]":
    """Return a test for paths: `*` stays within a name, `**` does not, `{a,b}` is either."""
    whole = re.compile("|".join(_as_regex(each) for each in _alternatives(pattern)))
    return lambda name: whole.fullmatch(name.replace(os.sep, "/")) is not None


def _alternatives(pattern: str, depth: int = 0) -> "list[str]":
    found = _BRACES.search(pattern)
    if found is None or depth > 4:
        return [pattern]
    head, tail = pattern[: found.start()], pattern[found.end() :]
    return [
        each
        for choice in found.group(1).split(",")
        for each in _alternatives(head + choice + tail, depth + 1)
    ]


def _as_regex(pattern: str) -> str:
    parts = []
    for part in pattern.removeprefix("./").split("/"):
        if part == "**":
            parts.append("(?:[^/]+/)*")
        else:
            inner = fnmatch.translate(part).removeprefix("(?s:").removesuffix(r")\Z")
            parts.append(inner.removesuffix(r"\z").replace(".*", "[^/]*") + "/")
    return "".join(parts).removesuffix("/")
