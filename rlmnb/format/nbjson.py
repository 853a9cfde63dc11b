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


def lines(text: "str | list[str]") -> "list[str]":
    """Split text the way nbformat stores it, each line keeping its end."""
    return text.splitlines(True) if isinstance(text, str) else text


def _split_bundle(bundle: "dict[str, Any]") -> "dict[str, Any]":
    return {
        mime: lines(value) if isinstance(value, str) and mime != "application/json" else value
        for mime, value in bundle.items()
    }


def _split_output(output: "dict[str, Any]") -> "dict[str, Any]":
    kind = output.get("output_type")
    if kind in ("execute_result", "display_data"):
        return {**output, "data": _split_bundle(output.get("data", {}))}
    if kind == "stream":
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
    if not is_nbformat_id(cell["id"]):
        raise InvalidCellError(f"cell id {cell['id']!r} is not one that nbformat takes")
    if not isinstance(cell["metadata"], dict):
        raise InvalidCellError(f"cell {cell['id']}: metadata is not an object")
    if not _is_text(cell["source"]):
        raise InvalidCellError(f"cell {cell['id']}: source is neither text nor lines of text")
    if kind == "code":
        count = cell["execution_count"]
        if count is not None and (not isinstance(count, int) or count < 0):
            raise InvalidCellError(f"cell {cell['id']}: execution_count is {count!r}")
        if not isinstance(cell["outputs"], list):
            raise InvalidCellError(f"cell {cell['id']}: outputs is not a list")
        for output in cell["outputs"]:
            _check_output(output, cell["id"])


def _check_output(output: object, cell_id: str) -> None:
    if not isinstance(output, dict):
        raise InvalidCellError(f"cell {cell_id}: an output is not an object")
    kind = output.get("output_type")
    wanted = _OUTPUT_KEYS.get(kind) if isinstance(kind, str) else None
    if wanted is None:
        raise InvalidCellError(f"cell {cell_id}: output_type {kind!r} is not known")
    if set(output) != wanted:
        found = ", ".join(sorted(output))
        raise InvalidCellError(
            f"cell {cell_id}: a {kind} output has {', '.join(sorted(wanted))}; found {found}"
        )
    if kind == "stream" and not (_is_text(output["text"]) and isinstance(output["name"], str)):
        raise InvalidCellError(f"cell {cell_id}: a stream output has a name and text")
    if kind in ("display_data", "execute_result") and not (
        isinstance(output["data"], dict) and isinstance(output["metadata"], dict)
    ):
        raise InvalidCellError(f"cell {cell_id}: data and metadata of an output are objects")
    if kind == "error" and not (
        isinstance(output["ename"], str)
        and isinstance(output["evalue"], str)
        and isinstance(output["traceback"], list)
    ):
        raise InvalidCellError(f"cell {cell_id}: an error output has ename, evalue, traceback")
