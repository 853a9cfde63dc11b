"""What a tool answered, as text for people: the same whether an agent or a replay ran it."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def shown(operation: str, response: "Any") -> str:
    """Return a tool's answer as a person would want to read it."""
    if isinstance(response, str):
        return response
    if (text := _said(response)) is not None:
        return text
    if not isinstance(response, dict):
        return _as_json(response)
    teller = _TELLERS.get(operation)
    told = teller(response) if teller is not None else None
    if told is None:
        told = _as_json(dict(response))
    return told


def blocks_of(response: "Any") -> "list[Any]":
    """Return the blocks of content of an answer: it is a list of them, or it holds one."""
    found = response.get("content") if isinstance(response, dict) else response
    return found if isinstance(found, list) else []


def _said(response: "Any") -> "str | None":
    """Return an answer that is nothing but texts and pictures as those texts, else None."""
    blocks = blocks_of(response)
    if not blocks or (isinstance(response, dict) and not response.keys() <= {"content", "isError"}):
        return None
    texts = []
    for block in blocks:
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "text" and isinstance(block.get("text"), str):
            texts.append(block["text"])
        elif kind != "image" or not isinstance(block.get("data", block.get("source")), (str, dict)):
            return None
    return "\n".join(texts)


def _as_json(value: "Any") -> str:
    import json  # rarely needed, and a hook counts its milliseconds

    return json.dumps(value, indent=1, ensure_ascii=False, default=str)


def _text(value: "Any") -> str:
    return value if isinstance(value, str) else ""


def _read(response: "Mapping[str, Any]") -> "str | None":
    file = response.get("file")
    if not isinstance(file, dict):
        return None
    if isinstance(content := file.get("content"), str):
        return content
    if response.get("type") == "file_unchanged":
        return f"{_text(file.get('filePath'))} is as it was when it was last read"
    if response.get("type") == "image":
        return f"{_text(file.get('type')) or 'image'} of {file.get('originalSize')} bytes"
    if response.get("type") == "pdf":
        return f"application/pdf of {file.get('originalSize')} bytes"
    cells = file.get("cells")
    return _cells(cells) if isinstance(cells, list) else None


def _cells(cells: "list[Any]") -> "str | None":
    """Return the cells of a notebook that an agent read: what each says, and what it printed."""
    parts = []
    for cell in cells:
        if not isinstance(cell, dict) or not isinstance(cell.get("source"), str):
            return None
        parts.append(f"{cell.get('cellType')} {cell.get('cell_id')}\n{cell['source']}")
        outputs = cell.get("outputs")
        parts += [
            text.rstrip("\n")
            for output in (outputs if isinstance(outputs, list) else ())
            if isinstance(output, dict) and (text := _text(output.get("text")))
        ]
    return "\n\n".join(parts)


def _bash(response: "Mapping[str, Any]") -> "str | None":
    if not isinstance(response.get("stdout"), str):
        return None
    parts = [_text(response.get(key)) for key in ("stdout", "stderr")]
    # A command that said nothing may have been explained, or be running still.
    return "\n".join(part for part in parts if part) or "\n".join(
        f"{key}: {value}" for key, value in response.items() if value and isinstance(value, str)
    )


def _names(response: "Mapping[str, Any]") -> "str | None":
    names = response.get("filenames")
    if not isinstance(names, list):
        return None
    lines = [str(name) for name in names]
    if response.get("truncated"):
        lines.append(f"and more: {response.get('totalMatches')} in all")
    return "\n".join(lines) or "nothing found"


def _grep(response: "Mapping[str, Any]") -> "str | None":
    if isinstance(content := response.get("content"), str) and content:
        return content
    return _names(response)


def _patched(response: "Mapping[str, Any]") -> "str | None":
    path = response.get("filePath")
    hunks = response.get("structuredPatch")
    if not isinstance(path, str) or not isinstance(hunks, list):
        return None
    lines = [path]
    for hunk in hunks:
        if isinstance(hunk, dict) and isinstance(hunk.get("lines"), list):
            old, new = hunk.get("oldStart"), hunk.get("newStart")
            lines.append(f"@@ -{old},{hunk.get('oldLines')} +{new},{hunk.get('newLines')} @@")
            lines += [str(line) for line in hunk["lines"]]
    if len(lines) == 1 and isinstance(content := response.get("content"), str):
        count = len(content.splitlines())
        lines.append(f"{count} {'line' if count == 1 else 'lines'} written")
    return "\n".join(lines)


def _notebook(response: "Mapping[str, Any]") -> "str | None":
    if error := response.get("error"):
        return str(error)
    mode, cell = response.get("edit_mode"), response.get("cell_id")
    if not isinstance(mode, str):
        return None
    return f"{response.get('notebook_path')}: {mode} {cell}\n{_text(response.get('new_source'))}"


_TELLERS = {
    "Read": _read,
    "Bash": _bash,
    "PowerShell": _bash,
    "Glob": _names,
    "Grep": _grep,
    "Write": _patched,
    "Edit": _patched,
    "MultiEdit": _patched,
    "NotebookEdit": _notebook,
}
