"""From a tool call to a cell: code that makes the call again, what it answered, what it touched."""

import os
import time

from rlmnb import digest
from rlmnb.capture.results import blocks_of, shown
from rlmnb.capture.toolnames import HELPERS, READING

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
_SHELLS = ("Bash", "PowerShell")
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf")
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
    plain = tool.isidentifier() and not _is_keyword(tool) and tool not in HELPERS
    if plain and not tool.startswith("_"):
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
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return f"float({str(value)!r})"
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
    first, *more = _images(response) or [{}]
    if text := shown(tool, response) if response is not None else "":
        first = {**first, "text/plain": text}
    if not first:
        return []
    result = {"output_type": "execute_result", "execution_count": None}
    return [
        {**result, "data": first, "metadata": {}},
        *({"output_type": "display_data", "data": data, "metadata": {}} for data in more),
    ]


def _images(response: "Any") -> "list[dict[str, Any]]":
    """Return the pictures in an answer: Read gives one as a file, others as blocks of content."""
    found: list[tuple[Any, Any]] = []
    for block in blocks_of(response):
        if isinstance(block, dict) and block.get("type") == "image":
            source = block.get("source")
            if isinstance(source, dict):
                found.append((source.get("media_type"), source.get("data")))
            else:
                found.append((block.get("mimeType"), block.get("data")))
    if isinstance(response, dict):
        file = response.get("file")
        if response.get("type") == "image" and isinstance(file, dict):
            found.append((file.get("type"), file.get("base64")))
        elif response.get("type") == "pdf" and isinstance(file, dict):
            found.append(("application/pdf", file.get("base64")))
        elif response.get("isImage") is True:
            kind, data = "image/png", response.get("stdout")
            if isinstance(data, str) and data.startswith("data:"):
                head, _, data = data.partition(",")
                kind = head[5:].partition(";")[0]
            found.append((kind, data))
    return [
        {kind: data}
        for kind, data in found
        if isinstance(kind, str) and kind in _PICTURES and isinstance(data, str)
    ]


def paths_of(
    tool: str, args: "Mapping[str, Any]", cwd: str, response: "Any" = None
) -> "tuple[list[str], list[str]]":
    """Return the files that a call names: those it reads, and those it writes.

    Of a tool that nobody knows, only that it names files that are there.
    """
    if tool in _PATHS:
        key, writes = _PATHS[tool]
        path = _path(args.get(key), cwd)
        found = [path] if path else []
        return ([], found) if writes else (found, [])
    if tool in _SHELLS:
        command = args.get("command")
        return (_named_in(command, cwd) if isinstance(command, str) else []), []
    if tool == "ApplyPatch":
        patch = args.get("command", args.get("input"))
        return [], _patched_in(patch, cwd) if isinstance(patch, str) else []
    if tool == "Grep":
        return _there([args.get("path"), *_found_in(response)], cwd), []
    if tool in READING:
        return [], []
    words = [each for value in args.values() for each in (value if _is_list(value) else [value])]
    return _there(words, cwd), []


def tells_what_it_writes(tool: str) -> bool:
    """Tell whether it is known of a tool which files it reads and which it writes."""
    return tool in _PATHS or tool in READING or tool == "ApplyPatch"


def _is_list(value: "Any") -> bool:
    return isinstance(value, list)


def _there(names: "list[Any]", cwd: str) -> "list[str]":
    """Return those of the values that name a file that is there."""
    found: list[str] = []
    for name in names:
        path = _path(name, cwd) if isinstance(name, str) and "\n" not in name else None
        if path and path not in found and os.path.isfile(path):
            found.append(path)
        if len(found) >= _MOST_FILES:
            break
    return found


def _found_in(response: "Any") -> "list[str]":
    """Return what may be the files in the answer of a search: listed, or before each line."""
    if not isinstance(response, dict):
        return []
    names = response.get("filenames")
    content = response.get("content")
    lines = content[:LONGEST_ARGUMENT].splitlines() if isinstance(content, str) else []
    before = dict.fromkeys(line.partition(":")[0] for line in lines)
    return [*(names if isinstance(names, list) else ()), *before]


def _patched_in(patch: str, cwd: str) -> "list[str]":
    """Return the files that a patch of Codex says it adds, changes, moves and removes."""
    found = []
    for line in patch.splitlines():
        for start in ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "):
            path = _path(line[len(start) :].strip(), cwd) if line.startswith(start) else None
            if path and path not in found:
                found.append(path)
    return found[:_MOST_FILES]


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
    command = command[:LONGEST_ARGUMENT]
    words = command.split()
    for quote in ("'", '"'):  # a name in quotes can have spaces in it
        words += [part for part in command.split(quote)[1::2] if " " in part]
    found: list[str] = []
    for word in dict.fromkeys(words):
        parts = (word.strip(_STRIPPED), word.rpartition("=")[2].strip(_STRIPPED))
        named = _there([part for part in parts if part and not part.startswith("-")], cwd)
        found += [path for path in named if path not in found]
        if len(found) >= _MOST_FILES:
            break
    return found


def versions_of(paths: "list[str]", deadline: float = float("inf")) -> "dict[str, Any]":
    """Describe files as they are now.

    One that is too large to be read in a hook is left out, and so are those whose turn does not
    come in time.
    """
    found: dict[str, Any] = {}
    for path in paths:
        if found and time.perf_counter() > deadline:
            break
        try:
            if os.stat(path).st_size > LARGEST_FILE:
                continue
        except OSError:
            pass  # missing is a version too
        found[path] = digest.of_file(path)
    return found


def sorted_out(
    before: "Mapping[str, Any]", now: "Mapping[str, Any]"
) -> "tuple[dict[str, Any], dict[str, Any]]":
    """Return the files that a call found as they are, and those it wrote: they were not so before.

    `before` has the hash of each file that the call named when it began, None where nobody looked.
    """
    read, written = {}, {}
    for path, version in now.items():
        old = before.get(path, digest.MISSING)
        if old is None or version["hash"] == old:
            read[path] = version
        else:
            written[path] = version
    return read, written


def versions_told(
    tool: str, reads: "list[str]", writes: "list[str]", response: "Any"
) -> "tuple[dict[str, Any], dict[str, Any]]":
    """Return the versions of files as far as an answer itself has all of them."""
    if not isinstance(response, dict):
        return {}, {}
    text = None
    file = response.get("file")
    if tool == "Read" and isinstance(file, dict):
        if isinstance(file.get("base64"), str):
            return _versions_of_bytes(reads, file["base64"], file.get("originalSize")), {}
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


def _versions_of_bytes(paths: "list[str]", encoded: str, size: "Any") -> "dict[str, Any]":
    """Describe a picture or document, unless what was answered is a smaller one."""
    from binascii import Error, a2b_base64

    try:
        data = a2b_base64(encoded)
    except (Error, ValueError):
        return {}
    whole = {"hash": digest.of_bytes(data), "size_bytes": len(data)}
    return {path: dict(whole) for path in paths} if len(data) == size else {}


def _versions(paths: "list[str]", text: "Any") -> "dict[str, Any]":
    if not isinstance(text, str):
        return {}
    data = text.encode("utf-8", "surrogatepass")
    return {path: {"hash": digest.of_bytes(data), "size_bytes": len(data)} for path in paths}
