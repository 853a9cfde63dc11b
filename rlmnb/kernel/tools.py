"""The agent's tools as a cell can call them: `tools.Read(file_path="auth.py")`.

Arguments have the agent's own names and answers its own shapes, so that a cell which records what
an agent did can be run again. Tools that change things run only where that is allowed.
"""

from __future__ import annotations

import base64
import difflib
import json
import mimetypes
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from typing import Any

from rlmnb.capture.results import shown
from rlmnb.capture.toolnames import CHANGING, READING
from rlmnb.kernel.searching import find_files, search_files

_MOST_LINES = 2000
_MOST_OUTPUT = 30_000
_BASH_SECONDS, _LONGEST_SECONDS = 120, 600
_PATCH_CONTEXT = 3
_EDIT_MODES = ("replace", "insert", "delete")


class ToolError(Exception):
    """A tool could not do what it was asked, in the words its agent would have read."""


class ToolResult(dict[str, Any]):
    """What a tool answered: the agent's own shape, shown as the text it stands for."""

    def __init__(self, operation: str, answer: dict[str, Any]) -> None:
        super().__init__(answer)
        self.operation = operation

    def __repr__(self) -> str:
        return shown(self.operation, self)

    __str__ = __repr__

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.operation, dict(self))


class Tools:
    """The tools. Any other name is one that only its agent has."""

    __slots__ = ("_allowed", "_objects")

    def __init__(
        self, objects: str | None = None, allowed: Callable[[str], bool] = lambda _: True
    ) -> None:
        object.__setattr__(self, "_allowed", allowed)
        object.__setattr__(self, "_objects", objects)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("tools are as they are")

    def __dir__(self) -> list[str]:
        return sorted(READING | CHANGING)

    def __repr__(self) -> str:
        return f"<tools: {', '.join(dir(self))}>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise AttributeError(
            f"there is no tool {name} here, only {', '.join(dir(self))}; what another tool did is "
            "kept as its agent recorded it"
        )

    def _change(self, operation: str) -> None:
        if not self._allowed(operation):
            raise ToolError(
                f"{operation} changes things outside the notebook, and that was not allowed; "
                "run it with --allow-effects"
            )

    def kept(self, digest: str) -> str:
        """Return a text that was too long to stand in the code."""
        from rlmnb.store.layout import sessions_root
        from rlmnb.store.objects import Objects

        objects = self._objects or os.path.join(sessions_root(), "objects")
        return Objects(objects).get(digest).decode("utf-8", "surrogateescape")

    def call(self, name: str, /, **_: Any) -> ToolResult:
        """Refuse a tool that only its agent has, and whose name is none in Python."""
        raise ToolError(f"only its agent has {name}; what it did is kept as it was recorded")

    # looking

    def Read(  # noqa: N802 - the agent's own name, as all below
        self,
        file_path: str,
        offset: int | None = None,
        limit: int | None = None,
        **_: Any,
    ) -> ToolResult:
        """Return lines of a file, a picture, or the cells of a notebook."""
        data = _contents(file_path)
        kind = mimetypes.guess_type(file_path)[0] or ""
        if kind.startswith("image/") and kind != "image/svg+xml":
            encoded = base64.b64encode(data).decode("ascii")
            picture = {"base64": encoded, "type": kind, "originalSize": len(data)}
            return ToolResult("Read", {"type": "image", "file": picture})
        if kind == "application/pdf":
            encoded = base64.b64encode(data).decode("ascii")
            pages = {"filePath": file_path, "base64": encoded, "originalSize": len(data)}
            return ToolResult("Read", {"type": "pdf", "file": pages})
        if file_path.endswith(".ipynb"):
            cells = [_as_told(cell) for cell in _notebook(data, file_path)["cells"]]
            return ToolResult(
                "Read", {"type": "notebook", "file": {"filePath": file_path, "cells": cells}}
            )
        lines = data.decode("utf-8", "replace").split("\n")
        first = max(1, offset or 1)
        part = lines[first - 1 : first - 1 + (limit or _MOST_LINES)]
        file = {
            "filePath": file_path,
            "content": "\n".join(part),
            "numLines": len(part),
            "startLine": first,
            "totalLines": len(lines),
        }
        return ToolResult("Read", {"type": "text", "file": file})

    def NotebookRead(self, notebook_path: str, **_: Any) -> ToolResult:  # noqa: N802
        """Return the cells of a notebook."""
        cells = _notebook(_contents(notebook_path), notebook_path)["cells"]
        file = {"filePath": notebook_path, "cells": cells}
        return ToolResult("NotebookRead", {"type": "notebook", "file": file})

    def Glob(self, pattern: str, path: str | None = None, **_: Any) -> ToolResult:  # noqa: N802
        """Return the files whose path matches."""
        return ToolResult("Glob", find_files(pattern, path or "."))

    def Grep(  # noqa: N802
        self, pattern: str, path: str | None = None, **options: Any
    ) -> ToolResult:
        """Return the files, lines or counts of what matches a regular expression."""
        try:
            return ToolResult("Grep", search_files(pattern, path or ".", options))
        except (ValueError, FileNotFoundError) as error:
            raise ToolError(str(error)) from None

    def LS(  # noqa: N802
        self, path: str = ".", ignore: Sequence[str] = (), **_: Any
    ) -> str:
        """Return what is in a directory, one name to a line."""
        try:
            with os.scandir(path) as found:
                names = sorted(
                    each.name + ("/" if each.is_dir() else "")
                    for each in found
                    if not any(fnmatch(each.name, pattern.rstrip("/")) for pattern in ignore)
                )
        except OSError as error:
            raise ToolError(f"{path}: {error.strerror}") from None
        return "\n".join([f"- {os.path.abspath(path)}/", *(f"  - {name}" for name in names)])

    # changing

    def Bash(  # noqa: N802
        self, command: str, timeout: float | None = None, **options: Any
    ) -> ToolResult:
        """Run a shell command; its two streams come as one, as the agent sees them."""
        self._change("Bash")
        if options.get("run_in_background"):
            raise ToolError("a command in the background outlives its cell, and is not run again")
        seconds = min((timeout or _BASH_SECONDS * 1000) / 1000, _LONGEST_SECONDS)
        output, code, late = _run_shell(command, seconds)
        if len(output) > _MOST_OUTPUT:
            output = output[:_MOST_OUTPUT] + f"\n… {len(output) - _MOST_OUTPUT} characters more"
        if late:
            raise ToolError(f"Command timed out after {seconds:g}s\n{output}")
        if code:
            raise ToolError(f"Exit code {code}\n{output}".rstrip("\n"))
        answer = {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}
        return ToolResult("Bash", {**answer, "noOutputExpected": False})

    def Write(self, file_path: str, content: str, **_: Any) -> ToolResult:  # noqa: N802
        """Write a file, making the directories it needs."""
        self._change("Write")
        before = _contents(file_path).decode("utf-8", "replace") if _is_file(file_path) else None
        os.makedirs(os.path.dirname(os.path.abspath(file_path)), exist_ok=True)
        _write(file_path, content)
        answer = {
            "type": "create" if before is None else "update",
            "filePath": file_path,
            "content": content,
            "structuredPatch": [] if before is None else _patch(before, content),
            "originalFile": before,
            "userModified": False,
        }
        return ToolResult("Write", answer)

    def Edit(  # noqa: N802
        self, file_path: str, old_string: str, new_string: str, replace_all: bool = False, **_: Any
    ) -> ToolResult:
        """Replace a text in a file."""
        self._change("Edit")
        made = not old_string and not os.path.lexists(file_path)
        before = "" if made else _text(file_path)
        after = _replaced(before, old_string, new_string, everywhere=replace_all)
        os.makedirs(os.path.dirname(os.path.abspath(file_path)), exist_ok=True)
        _write(file_path, after)
        answer = {
            "filePath": file_path,
            "oldString": old_string,
            "newString": new_string,
            "originalFile": before,
            "structuredPatch": _patch(before, after),
            "userModified": False,
            "replaceAll": replace_all,
        }
        return ToolResult("Edit", answer)

    def MultiEdit(  # noqa: N802
        self, file_path: str, edits: list[dict[str, Any]], **_: Any
    ) -> ToolResult:
        """Replace several texts in a file, all or none."""
        self._change("MultiEdit")
        before = after = _text(file_path)
        for edit in edits:
            everywhere = bool(edit.get("replace_all"))
            after = _replaced(after, edit["old_string"], edit["new_string"], everywhere=everywhere)
        _write(file_path, after)
        answer = {
            "filePath": file_path,
            "edits": edits,
            "originalFileContents": before,
            "structuredPatch": _patch(before, after),
            "userModified": False,
        }
        return ToolResult("MultiEdit", answer)

    def NotebookEdit(  # noqa: N802
        self,
        notebook_path: str,
        new_source: str = "",
        cell_id: str | None = None,
        cell_type: str | None = None,
        edit_mode: str = "replace",
        **_: Any,
    ) -> ToolResult:
        """Replace, insert or delete a cell of a notebook."""
        self._change("NotebookEdit")
        if edit_mode not in _EDIT_MODES:
            raise ToolError(f"edit_mode is {edit_mode!r}, wanted {', '.join(_EDIT_MODES)}")
        original = _text(notebook_path)
        whole = _notebook(original.encode(), notebook_path)
        cell, old = _edit_cell(whole["cells"], new_source, cell_id, cell_type, edit_mode)
        updated = json.dumps(whole, indent=1, ensure_ascii=False)
        _write(notebook_path, updated)
        answer = {
            "new_source": new_source,
            "old_source": old,
            "cell_type": cell["cell_type"],
            "language": "python",
            "edit_mode": edit_mode,
            "cell_id": cell.get("id"),
            "error": "",
            "notebook_path": notebook_path,
            "original_file": original,
            "updated_file": updated,
        }
        return ToolResult("NotebookEdit", answer)


def _is_file(path: str) -> bool:
    return os.path.isfile(path)


def _contents(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        raise ToolError(
            f"File does not exist. Note: your current working directory is {os.getcwd()}."
        ) from None
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror}") from None


def _text(path: str) -> str:
    """Return a file that is about to be written back: guessing at bytes would lose them."""
    try:
        return _contents(path).decode("utf-8")
    except UnicodeDecodeError:
        raise ToolError(f"{path} is not UTF-8 text, and would not survive an edit") from None


def _write(path: str, content: object) -> None:
    if not isinstance(content, str):
        what = type(content).__name__
        raise ToolError(f"{path} is left as it was: its content is to be text, and is a {what}")
    try:
        data = content.encode("utf-8")
    except UnicodeEncodeError:
        raise ToolError(f"{path} is left as it was: its content cannot be UTF-8") from None
    try:
        with open(path, "wb") as file:
            file.write(data)
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror}") from None


def _replaced(text: str, old: str, new: str, *, everywhere: bool) -> str:
    if old == new:
        raise ToolError("No changes to make: old_string and new_string are exactly the same.")
    if not old and not text:
        return new  # an edit of nothing makes a file
    if not old:
        raise ToolError("Cannot create new file - file already exists.")
    found = text.count(old)
    if not found:
        raise ToolError(f"String to replace not found in file.\nString: {old}")
    if found > 1 and not everywhere:
        raise ToolError(
            f"Found {found} matches of the string to replace, but replace_all is false. To replace "
            "all occurrences, set replace_all to true. To replace only one occurrence, please "
            f"provide more context to uniquely identify the instance.\nString: {old}"
        )
    return text.replace(old, new)


def _patch(before: str, after: str) -> list[dict[str, Any]]:
    old, new = before.splitlines(), after.splitlines()
    hunks = []
    for group in difflib.SequenceMatcher(None, old, new).get_grouped_opcodes(_PATCH_CONTEXT):
        lines = []
        for tag, old_from, old_to, new_from, new_to in group:
            if tag == "equal":
                lines += [f" {line}" for line in old[old_from:old_to]]
                continue
            lines += [f"-{line}" for line in old[old_from:old_to]]
            lines += [f"+{line}" for line in new[new_from:new_to]]
        first, last = group[0], group[-1]
        hunks.append(
            {
                "oldStart": first[1] + 1,
                "oldLines": last[2] - first[1],
                "newStart": first[3] + 1,
                "newLines": last[4] - first[3],
                "lines": lines,
            }
        )
    return hunks


def _notebook(data: bytes, path: str) -> dict[str, Any]:
    try:
        whole = json.loads(data)
        cells = whole["cells"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ToolError(f"{path} is not a notebook") from None
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise ToolError(f"{path} is not a notebook: its cells are not a list of objects")
    found: dict[str, Any] = whole
    return found


def _as_told(cell: dict[str, Any]) -> dict[str, Any]:
    """Return a cell of a notebook the way the agent's own tool tells of it."""
    told = {
        "cellType": cell.get("cell_type"),
        "source": "".join(cell.get("source") or ()),
        "cell_id": cell.get("id"),
    }
    if cell.get("cell_type") == "code":
        told["outputs"] = [
            {"output_type": output.get("output_type"), "text": text}
            for output in cell.get("outputs") or ()
            if (text := _output_text(output))
        ]
    return told


def _output_text(output: dict[str, Any]) -> str:
    data = output.get("data")
    text = output.get("text") or (data.get("text/plain") if isinstance(data, dict) else None)
    return "".join(text or ())


def _edit_cell(
    cells: list[dict[str, Any]],
    source: str,
    cell_id: str | None,
    cell_type: str | None,
    mode: str,
) -> tuple[dict[str, Any], str]:
    at = next((at for at, cell in enumerate(cells) if cell.get("id") == cell_id), None)
    if cell_id is not None and at is None:
        raise ToolError(f"Cell with ID {cell_id!r} not found in notebook.")
    if mode == "insert":
        made: dict[str, Any] = {
            "cell_type": cell_type or "code",
            "id": os.urandom(4).hex(),
            "metadata": {},
            "source": source,
        }
        if made["cell_type"] == "code":
            made |= {"execution_count": None, "outputs": []}
        cells.insert(0 if at is None else at + 1, made)
        return made, ""
    if at is None:
        raise ToolError(f"Cell ID must be specified to {mode} a cell.")
    cell = cells[at]
    old = cell.get("source", "")
    if mode == "delete":
        del cells[at]
    else:
        cell["source"] = source
        if cell_type and cell_type != cell["cell_type"]:
            cell["cell_type"] = cell_type
        if cell["cell_type"] == "code":
            cell |= {"execution_count": None, "outputs": []}
        else:
            cell.pop("outputs", None)
            cell.pop("execution_count", None)
    return cell, "".join(old) if isinstance(old, list) else str(old)


def _run_shell(command: str, seconds: float) -> tuple[str, int, bool]:
    """Return what a command printed, its exit code, and whether it ran for too long."""
    with subprocess.Popen(  # noqa: S602 - to run a shell command is what was asked for
        command,
        shell=True,
        executable="/bin/bash" if os.path.exists("/bin/bash") else None,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        late = False
        try:
            data, _ = process.communicate(timeout=seconds)
        except BaseException as error:
            # Its children too: they would hold the pipe open, and go on after an interrupt.
            if os.name == "nt":
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)
            data, _ = process.communicate()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            late = True
    return data.decode("utf-8", "replace").rstrip("\n"), process.returncode, late
