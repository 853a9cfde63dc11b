"""From paths to the cell that holds them as `context`, and to what can be said without a kernel."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from rlmnb.errors import InvalidNameError

_SHOW = "print(outline(context))"
# A file that is larger is taken as text: to look whether it is JSON, all of it has to be read.
_LARGEST_JSON = 64 << 20
# A prompt without a kernel takes the beginning alone.
_BEGINNING = 64 << 10


def check_paths(paths: Sequence[str]) -> None:
    """Complain of a path that cannot be read, before anything is begun."""
    for path in paths:
        if not os.path.exists(path):
            raise InvalidNameError(f"--context {path}: there is no such file or directory")
        if not os.access(path, os.R_OK):
            raise InvalidNameError(f"--context {path}: cannot be read")
        if not (os.path.isfile(path) or os.path.isdir(path)):
            raise InvalidNameError(f"--context {path}: is neither a file nor a directory")


def seen_from(path: str, directory: str) -> str:
    """Return how a kernel that runs in a directory names a path: short where it can be."""
    whole = os.path.abspath(path)
    relative = os.path.relpath(whole, os.path.abspath(directory))
    return whole if relative.startswith(os.pardir) else relative


def context_code(paths: Sequence[str], directory: str) -> str:
    """Return the code that reads paths into `context`: a file as what it is, several by name."""
    names = [seen_from(path, directory) for path in paths]
    if len(paths) == 1 and os.path.isfile(paths[0]):
        imports, value = _reading(paths[0], names[0])
        return f"{imports}context = {value}\n{_SHOW}"
    if any(os.path.isdir(path) for path in paths):
        return _of_directories(names)
    listed = "".join(f"    {name!r}: read_file({name!r}),\n" for name in names)
    return f"context = {{\n{listed}}}\n{_SHOW}"


def _of_directories(names: Sequence[str]) -> str:
    return (
        "from pathlib import Path\n\n"
        f"context = {{\n    str(path): read_file(path)\n    for place in {list(names)!r}\n"
        "    for path in sorted([Path(place), *Path(place).rglob('*')])\n"
        "    if path.is_file()\n"
        "    and not any(part.startswith('.') for part in path.relative_to(place).parts)\n}\n"
        f"{_SHOW}"
    )


def _reading(path: str, name: str) -> tuple[str, str]:
    """Return the imports and the expression that read one file by its kind."""
    kind = os.path.splitext(path)[1].lower()
    read = f"read_file({name!r})"
    if kind in (".json", ".ipynb") and _is_json(path):
        return "import json\n\n", f"json.loads({read})"
    if kind in (".jsonl", ".ndjson") and _is_json(path, lines=True):
        return (
            "import json\n\n",
            f"[json.loads(line) for line in {read}.splitlines() if line.strip()]",
        )
    if kind == ".csv":
        return "import csv\n\n", f"list(csv.DictReader({read}.splitlines(keepends=True)))"
    return "", read


def _is_json(path: str, *, lines: bool = False) -> bool:
    if os.path.getsize(path) > _LARGEST_JSON:
        return False
    try:
        with open(path, encoding="utf-8") as file:
            found = [
                json.loads(text) for text in (file if lines else [file.read()]) if text.strip()
            ]
    except (ValueError, RecursionError):
        return False
    return bool(found)


def beginning(paths: Sequence[str]) -> Any:
    """Return the beginning of a context as a text, read without a kernel; None if there is none."""
    texts = []
    for path in paths:
        if os.path.isfile(path):
            with open(path, "rb") as file:
                found = file.read(_BEGINNING).decode("utf-8", "replace")
            texts.append(found if len(paths) == 1 else f"[{path}]\n{found}")
    return "\n".join(texts) if texts else None


def size_of(paths: Sequence[str]) -> int | None:
    """Return about how long a context is, None if there is none."""
    if not paths:
        return None
    total = 0
    for path in paths:
        if os.path.isdir(path):
            for folder, _, files in os.walk(path):
                total += sum(_size(os.path.join(folder, name)) for name in files)
        else:
            total += _size(path)
    return total


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
