"""From a tool call to a cell: code that makes the call again, what it answered, what it touched."""

import os

from rlmnb import digest
from rlmnb.capture.results import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Keep = Callable[[str], str]

# An argument longer than this is kept among the objects, and named in the code.
LONGEST_ARGUMENT = 16 * 1024
LARGEST_FILE = 32 * 1024 * 1024
_PATHS = {
    "Read": ("file_path", False),
    "NotebookRead": ("notebook_path", False),
    "Write": ("file_path", True),
    "Edit": ("file_path", True),
    "MultiEdit": ("file_path", True),
    "NotebookEdit": ("notebook_path", True),
}
_MOST_FILES = 50
_LONGEST_PATH = 1024
_STRIPPED = "'\"`()[]{},;:<>=|&"


def source_of_call(tool: str, args: "Mapping[str, Any]", keep: "Keep") -> str:
    """Return Python that makes a call again; `keep` stores a long text and returns its digest."""
    parts, odd = [], []
    for key, value in args.items():
        written = _literal(value, keep)
        if isinstance(key, str) and key.isidentifier() and not _is_keyword(key):
            parts.append(f"{key}={written}")
        else:
            odd.append(f"{key!r}: {written}")
    if odd:
        parts.append("**{" + ", ".join(odd) + "}")
    if tool.isidentifier() and not _is_keyword(tool) and not tool.startswith("_"):
        return f"tools.{tool}({', '.join(parts)})"
    return f"tools.call({tool!r}{''.join(', ' + part for part in parts)})"


def _is_keyword(name: str) -> bool:
    import keyword

    return keyword.iskeyword(name)


def _literal(value: "Any", keep: "Keep") -> str:
    if isinstance(value, str) and len(value) > LONGEST_ARGUMENT:
        return f"tools.kept({keep(value)!r})"
    if isinstance(value, dict):
        inner = (f"{str(key)!r}: {_literal(item, keep)}" for key, item in value.items())
        return "{" + ", ".join(inner) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_literal(item, keep) for item in value) + "]"
    return repr(value)


def brief(args: "Any", keep: "Keep") -> "Any":
    """Return arguments as the record keeps them: long texts by their digest."""
    if isinstance(args, str):
        return args if len(args) <= LONGEST_ARGUMENT else {"object": keep(args)}
    if isinstance(args, dict):
        return {str(key): brief(value, keep) for key, value in args.items()}
    if isinstance(args, list):
        return [brief(value, keep) for value in args]
    return args


def outputs_of(tool: str, response: "Any") -> "list[dict[str, Any]]":
    """Return what a tool answered the way the notebook shows it."""
    data: dict[str, Any] = {}
    if (image := _image(response)) is not None:
        data.update(image)
    if text := shown(tool, response) if response is not None else "":
        data["text/plain"] = text
    if not data:
        return []
    return [
        {"output_type": "execute_result", "execution_count": None, "data": data, "metadata": {}}
    ]


def _image(response: "Any") -> "dict[str, str] | None":
    """Return a picture in an answer: Read gives one as a file, others as a block of content."""
    if not isinstance(response, dict):
        return None
    file = response.get("file")
    if response.get("type") == "image" and isinstance(file, dict):
        kind, data = file.get("type"), file.get("base64")
    elif response.get("isImage") is True:
        kind, data = "image/png", response.get("stdout")
        if isinstance(data, str) and data.startswith("data:"):
            head, _, data = data.partition(",")
            kind = head[5:].partition(";")[0]
    else:
        return None
    good = isinstance(kind, str) and kind in ("image/png", "image/jpeg", "image/gif", "image/webp")
    return {kind: data} if good and isinstance(data, str) else None  # type: ignore[dict-item]


def paths_of(tool: str, args: "Mapping[str, Any]", cwd: str) -> "tuple[list[str], list[str]]":
    """Return the files that a call names: those it reads, and those it writes."""
    if tool in _PATHS:
        key, writes = _PATHS[tool]
        path = _path(args.get(key), cwd)
        found = [path] if path else []
        return ([], found) if writes else (found, [])
    if tool in ("Bash", "PowerShell"):
        command = args.get("command")
        return (_named_in(command, cwd) if isinstance(command, str) else []), []
    return [], []


def is_path(value: "Any") -> bool:
    """Tell whether a value can be the name of a file here."""
    if not isinstance(value, str) or not value or "\0" in value or len(value) > _LONGEST_PATH:
        return False
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        return False
    return True


def _path(value: "Any", cwd: str) -> "str | None":
    if not is_path(value):
        return None
    return os.path.normpath(os.path.join(cwd, os.path.expanduser(value)))


def _named_in(command: str, cwd: str) -> "list[str]":
    """Return the files that words of a command name and that are there."""
    found = []
    for word in dict.fromkeys(command[:LONGEST_ARGUMENT].split()):
        for part in {word.strip(_STRIPPED), word.rpartition("=")[2].strip(_STRIPPED)}:
            path = _path(part, cwd) if part and not part.startswith("-") else None
            if path and path not in found and os.path.isfile(path):
                found.append(path)
        if len(found) >= _MOST_FILES:
            break
    return found


def versions_of(paths: "list[str]") -> "dict[str, Any]":
    """Describe files as they are now; one that is too large to be read in a hook is left out."""
    found = {}
    for path in paths:
        try:
            if os.stat(path).st_size > LARGEST_FILE:
                continue
        except OSError:
            pass  # missing is a version too
        found[path] = digest.of_file(path)
    return found


def versions_told(
    tool: str, reads: "list[str]", writes: "list[str]", response: "Any"
) -> "tuple[dict[str, Any], dict[str, Any]]":
    """Return the versions of files as far as an answer itself has all of them."""
    if not isinstance(response, dict):
        return {}, {}
    text = None
    file = response.get("file")
    if tool == "Read" and isinstance(file, dict):
        whole = file.get("startLine") == 1 and file.get("numLines") == file.get("totalLines")
        text = file.get("content") if whole else None
        return _versions(reads, text), {}
    if tool == "Write":
        text = response.get("content")
    elif tool == "Edit" and isinstance(response.get("originalFile"), str):
        old, new = response.get("oldString"), response.get("newString")
        if isinstance(old, str) and isinstance(new, str) and old:
            count = -1 if response.get("replaceAll") else 1
            text = response["originalFile"].replace(old, new, count)
    return {}, _versions(writes, text)


def _versions(paths: "list[str]", text: "Any") -> "dict[str, Any]":
    if not isinstance(text, str):
        return {}
    data = text.encode("utf-8", "surrogatepass")
    return {path: {"hash": digest.of_bytes(data), "size_bytes": len(data)} for path in paths}
