"""The notebook as text: byte for byte what `nbformat.write` would write."""

from rlmnb.errors import InvalidCellError
from rlmnb.ids import is_nbformat_id
from rlmnb.jsontext import pretty, to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_KEYS = {
    "code": {"cell_type", "execution_count", "id", "metadata", "outputs", "source"},
    "markdown": {"attachments", "cell_type", "id", "metadata", "source"},
    "raw": {"attachments", "cell_type", "id", "metadata", "source"},
}
_OUTPUT_KEYS = {
    "stream": {"output_type", "name", "text"},
    "display_data": {"output_type", "data", "metadata"},
    "execute_result": {"output_type", "data", "metadata", "execution_count"},
    "error": {"output_type", "ename", "evalue", "traceback"},
}
_METADATA_TYPES: "dict[str, type]" = {
    "collapsed": bool,
    "execution": dict,
    "format": str,
    "jupyter": dict,
    "name": str,
}


def lines(text: "str | list[str]") -> "list[str]":
    """Split text the way nbformat stores it, each line keeping its end."""
    return (text if isinstance(text, str) else "".join(text)).splitlines(True)


def _is_json(mime: str) -> bool:
    return mime == "application/json" or (
        mime.startswith("application/") and mime.endswith("+json")
    )


def _split_bundle(bundle: "Any") -> "Any":
    if not isinstance(bundle, dict):
        return bundle  # a hand has broken it: it stays as it is, and `verify` tells of it
    split = {}
    for mime, value in bundle.items():
        joined = "".join(value) if _is_text(value) and not _is_json(mime) else value
        textual = mime.startswith("text/") or mime in ("image/svg+xml", "application/javascript")
        split[mime] = lines(joined) if textual and isinstance(joined, str) else joined
    return split


def _split_output(output: "dict[str, Any]") -> "dict[str, Any]":
    kind = output.get("output_type")
    if kind in ("execute_result", "display_data"):
        return {**output, "data": _split_bundle(output.get("data", {}))}
    if kind == "stream" and _is_text(output.get("text", "")):
        return {**output, "text": lines(output.get("text", ""))}
    return output


def split_cell(cell: "dict[str, Any]") -> "dict[str, Any]":
    """Return the cell with its texts as lists of lines."""
    split = {**cell, "source": lines(cell.get("source", ""))}
    if cell.get("attachments"):
        split["attachments"] = {
            name: _split_bundle(bundle) for name, bundle in cell["attachments"].items()
        }
    if cell.get("cell_type") == "code":
        split["outputs"] = [_split_output(output) for output in cell.get("outputs", [])]
    metadata = cell.get("metadata", {})
    if "trusted" in metadata:
        # Lab's mark of this moment; nbformat never writes it.
        split["metadata"] = {key: value for key, value in metadata.items() if key != "trusted"}
    return split


def cell_text(cell: "dict[str, Any]") -> str:
    """Write a cell as it stands in the notebook, two levels deep, without what goes before it."""
    return "  " + pretty(split_cell(cell), depth=2)


def tail_text(metadata: "dict[str, Any]", minor: int = 5) -> str:
    """Write what follows the cells: from the end of their array to the end of the file."""
    return (
        ' "metadata": '
        + pretty(metadata, depth=1)
        + f',\n "nbformat": 4,\n "nbformat_minor": {minor}\n}}\n'
    )


def notebook_bytes(notebook: "dict[str, Any]") -> bytes:
    """Write a whole notebook in canonical form."""
    transient = ("orig_nbformat", "orig_nbformat_minor", "signature")
    metadata = {
        key: value for key, value in notebook.get("metadata", {}).items() if key not in transient
    }
    whole = {
        **notebook,
        "cells": [split_cell(cell) for cell in notebook["cells"]],
        "metadata": metadata,
    }
    return to_bytes(pretty(whole) + "\n")


def source_of(cell: "dict[str, Any]") -> str:
    """Return a cell's source as one string, whichever way it is stored."""
    source = cell.get("source", "")
    if isinstance(source, list):
        return "".join(line for line in source if isinstance(line, str))
    return source if isinstance(source, str) else ""


def _is_text(value: object) -> bool:
    return isinstance(value, str) or (
        isinstance(value, list) and all(isinstance(line, str) for line in value)
    )


def check_cell(cell: "dict[str, Any]") -> None:
    """Refuse a cell that nbformat 4.5 would call invalid."""
    kind = cell.get("cell_type")
    wanted = _KEYS.get(kind) if isinstance(kind, str) else None
    if wanted is None:
        raise InvalidCellError(f"cell_type {kind!r} is not one of code, markdown, raw")
    if extra := set(cell) - wanted:
        raise InvalidCellError(f"a {kind} cell has no {', '.join(sorted(extra))}")
    if missing := wanted - set(cell) - {"attachments"}:
        raise InvalidCellError(f"a {kind} cell needs {', '.join(sorted(missing))}")
    where = f"cell {cell['id']}"
    _want(is_nbformat_id(cell["id"]), where, "its id is not one that nbformat takes")
    _want(_is_text(cell["source"]), where, "its source is neither text nor lines of text")
    _check_metadata(cell["metadata"], where)
    if "attachments" in cell:
        _want(isinstance(cell["attachments"], dict), where, "its attachments are not an object")
        for bundle in cell["attachments"].values():
            _check_bundle(bundle, where)
    if kind == "code":
        _want(_is_count(cell["execution_count"]), where, "its execution_count is no number")
        check_outputs(cell["outputs"], where)


def _want(right: bool, where: str, wrong: str) -> None:
    if not right:
        raise InvalidCellError(f"{where}: {wrong}")


def _is_count(value: object) -> bool:
    return value is None or (type(value) is int and value >= 0)


def _check_metadata(metadata: object, where: str) -> None:
    if not isinstance(metadata, dict):
        raise InvalidCellError(f"{where}: its metadata is not an object")
    tags = metadata.get("tags", [])
    right = isinstance(tags, list) and all(
        isinstance(tag, str) and tag and "," not in tag for tag in tags
    )
    _want(right and len(set(tags)) == len(tags), where, "tags are different texts without commas")
    for key, kind in _METADATA_TYPES.items():
        if key in metadata:
            _want(isinstance(metadata[key], kind), where, f"its {key} is not a {kind.__name__}")
    _want(metadata.get("name") != "", where, "its name is empty")
    scrolled = metadata.get("scrolled", "auto")
    _want(scrolled in (True, False, "auto"), where, "scrolled is true, false or auto")
    times = metadata.get("execution", {}).values()
    _want(all(isinstance(each, str) for each in times), where, "its execution times are not texts")


def _check_bundle(bundle: object, where: str) -> None:
    if not isinstance(bundle, dict):
        raise InvalidCellError(f"{where}: a mime bundle is not an object")
    for mime, value in bundle.items():
        _want(_is_json(mime) or _is_text(value), where, f"{mime} is neither text nor lines")


def check_outputs(outputs: object, where: str) -> None:
    """Refuse outputs that nbformat 4.5 would call invalid."""
    if not isinstance(outputs, list):
        raise InvalidCellError(f"{where}: its outputs are not a list")
    for output in outputs:
        _check_output(output, where)


def _check_output(output: object, where: str) -> None:
    if not isinstance(output, dict):
        raise InvalidCellError(f"{where}: an output is not an object")
    kind = output.get("output_type")
    wanted = _OUTPUT_KEYS.get(kind) if isinstance(kind, str) else None
    if wanted is None:
        raise InvalidCellError(f"{where}: output_type {kind!r} is not known")
    if set(output) != wanted:
        found = ", ".join(sorted(output))
        raise InvalidCellError(
            f"{where}: a {kind} output has {', '.join(sorted(wanted))}; found {found}"
        )
    if kind == "stream":
        named = isinstance(output["name"], str)
        _want(named and _is_text(output["text"]), where, "a stream output has a name and text")
    elif kind == "error":
        texts = isinstance(output["ename"], str) and isinstance(output["evalue"], str)
        lines_of_it = isinstance(output["traceback"], list) and _is_text(output["traceback"])
        _want(texts and lines_of_it, where, "an error has ename, evalue and lines of traceback")
    else:
        _check_bundle(output["data"], where)
        _want(isinstance(output["metadata"], dict), where, "an output's metadata is no object")
        _want(_is_count(output.get("execution_count")), where, "an execution_count is no number")
