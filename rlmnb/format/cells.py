"""Make notebook cells with their records as plain dicts, light enough for a hook.

`rlmnb.format.record` is the definition of a record; a test holds the two together.
"""

from rlmnb import digest
from rlmnb.errors import InvalidCellError
from rlmnb.format import times
from rlmnb.format.nbjson import check_cell, check_outputs, source_of
from rlmnb.format.version import SCHEMA
from rlmnb.ids import check_cell_id
from rlmnb.jsontext import clean_text, portable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

CELL_TYPES = ("repl", "tool", "llm_call", "map_reduce", "verification")
STATUSES = ("running", "completed", "suspended", "invalidated", "promoted", "failed")
# What a person cannot read in a glance belongs in the object store, not in the notebook.
PREVIEW_LIMIT = 16 * 1024
_EDGE_CHARACTERS, _EDGE_LINES = 4 * 1024, 40


def edges(dependencies: "Iterable[str | Mapping[str, Any]]") -> "list[dict[str, str]]":
    """Return dependencies as the record keeps them: a cell and the reason for the edge."""
    if isinstance(dependencies, str):
        dependencies = [dependencies]
    elif isinstance(dependencies, dict):  # as `Cell.reasons` gives them
        dependencies = [{"cell_id": each, "reason": dependencies[each]} for each in dependencies]
    try:
        items = list(dependencies)
    except TypeError:
        raise InvalidCellError(f"dependencies are a list, found {dependencies!r}") from None
    found: dict[str, str] = {}
    for item in items:
        if isinstance(item, str):
            found.setdefault(check_cell_id(item), "explicit")
        elif not isinstance(item, dict):
            raise InvalidCellError(f"a dependency is a cell's id, found {item!r}")
        else:
            found[check_cell_id(item.get("cell_id"))] = clean_text(
                str(item.get("reason", "explicit"))
            )
    return [{"cell_id": cell_id, "reason": reason} for cell_id, reason in found.items()]


def stream(text: str, name: str = "stdout") -> "dict[str, Any]":
    """Make an output of plain text."""
    return {"output_type": "stream", "name": name, "text": clean_text(text)}


def error_output(error: "str | Mapping[str, Any]") -> "dict[str, Any]":
    """Make an error output of a message, or of ename, evalue and traceback."""
    if not isinstance(error, dict):
        error = {"ename": "Error", "evalue": str(error), "traceback": [str(error)]}
    return {
        "output_type": "error",
        "ename": clean_text(str(error.get("ename", "Error"))),
        "evalue": clean_text(str(error.get("evalue", ""))),
        "traceback": [clean_text(str(line)) for line in error.get("traceback") or ()],
    }


def preview(text: str, stored: str, size: int) -> str:
    """Show the head and the tail of a long text and where the whole of it is."""
    head = "".join(text[:_EDGE_CHARACTERS].splitlines(True)[:_EDGE_LINES])
    tail = "".join(text[-_EDGE_CHARACTERS:].splitlines(True)[-_EDGE_LINES:])
    left_out = text.count("\n", len(head), len(text) - len(tail))
    note = f"… {left_out} lines left out; all {size} bytes are kept as {stored} …"
    return f"{head}{'' if head.endswith(chr(10)) else chr(10)}{note}\n{tail}"


def new_record(source: str, outputs: "list[Any]", fields: "Mapping[str, Any]") -> "dict[str, Any]":
    """Make the record of a cell. Only what is known is written; the models supply the rest."""
    kind = fields.get("type", "repl")
    if kind not in CELL_TYPES:
        raise InvalidCellError(f"cell type {kind!r} is not one of {', '.join(CELL_TYPES)}")
    status = fields.get("status") or ("failed" if fields.get("error") else "completed")
    if status not in STATUSES:
        raise InvalidCellError(f"status {status!r} is not one of {', '.join(STATUSES)}")
    for key in ("files_read", "files_written"):
        versions = fields.get(key) or {}
        if not isinstance(versions, dict) or not all(
            isinstance(version, dict) for version in versions.values()
        ):
            raise InvalidCellError(f"{key} maps each path to a version of the file")
    moment = fields.get("created_at") or times.now()
    record = {
        "schema_version": SCHEMA,
        "type": kind,
        "status": status,
        "created_at": moment,
        "input": _given(
            fields, "operation", "args", "cwd", "context_snapshot", source=fields.get("origin")
        ),
        "output": _given(fields, "result", "error", "execution_time_ms", "cached_response"),
        "dependencies": edges(fields.get("dependencies") or ()),
        "source_hash": digest.source_hash(source),
        "output_hash": digest.output_hash(outputs),
    }
    if status != "running":
        record["completed_at"] = fields.get("completed_at") or times.now()
    record |= _given(fields, *_OPTIONAL)
    plain: dict[str, Any] = portable(record)
    plain["context_hash"] = digest.context_hash(plain)
    return plain


_OPTIONAL = (
    "reads",
    "writes",
    "files_read",
    "files_written",
    "listed",
    "calls",
    "verification",
    "trace",
    "metadata",
    "tool_use_id",
    "commit",
    "parent_id",
    "branched_from",
    "evidence",
    "confidence",
    "invalidation_condition",
    "escalation_reason",
)
FIELDS = frozenset(
    (
        *_OPTIONAL,
        *("type", "status", "created_at", "completed_at", "origin", "operation", "args", "cwd"),
        *("context_snapshot", "result", "error", "execution_time_ms", "cached_response"),
        "dependencies",
    )
)


def _given(fields: "Mapping[str, Any]", *names: str, **more: "Any") -> "dict[str, Any]":
    chosen = {name: fields[name] for name in names if fields.get(name) is not None}
    return chosen | {name: value for name, value in more.items() if value is not None}


def code_cell(
    source: str, outputs: "list[dict[str, Any]] | None" = None, **fields: "Any"
) -> "dict[str, Any]":
    """Make a code cell with its record. The id is given when the cell is appended."""
    if unknown := set(fields) - FIELDS:
        raise InvalidCellError(
            f"a cell has no {', '.join(sorted(unknown))}; it has {', '.join(sorted(FIELDS))}"
        )
    if not isinstance(source, str):
        raise InvalidCellError(f"a cell's source is text, found {type(source).__name__}")
    source = clean_text(source)
    outputs = portable(outputs or [])
    check_outputs(outputs, "the new cell")
    if fields.get("error") is not None and not any(
        output.get("output_type") == "error" for output in outputs
    ):
        outputs.append(error_output(fields["error"]))
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": "",
        "metadata": {"rlmnb": new_record(source, outputs, fields)},
        "outputs": outputs,
        "source": source,
    }


def markdown_cell(source: str) -> "dict[str, Any]":
    """Make a markdown cell: the story between the calls."""
    return {"cell_type": "markdown", "id": "", "metadata": {}, "source": clean_text(source)}


def complete(cell: "Mapping[str, Any]") -> "dict[str, Any]":
    """Return a caller's cell as a whole nbformat cell, made from fields if it is not one yet."""
    try:
        return _completed(cell)
    except RecursionError:
        raise InvalidCellError("a cell that is nested too deeply to be written") from None
    except TypeError as error:
        raise InvalidCellError(f"a cell has JSON values only: {error}") from None


def _completed(cell: "Mapping[str, Any]") -> "dict[str, Any]":
    if "cell_type" not in cell:
        fields = dict(cell)
        source = fields.pop("source", None)
        if source is None:
            raise InvalidCellError("a cell needs a source")
        outputs = fields.pop("outputs", None) or []
        if not isinstance(outputs, list | tuple):
            raise InvalidCellError(f"outputs are a list, found {outputs!r}")
        outputs = list(outputs)
        if (text := fields.pop("output", None)) is not None:
            outputs.insert(0, text if isinstance(text, dict) else stream(str(text)))
        cell_id = fields.pop("id", "")
        return {**code_cell(source, outputs, **fields), "id": cell_id}
    whole: dict[str, Any] = portable({"id": "", "metadata": {}, "source": "", **cell})
    if not isinstance(whole["metadata"], dict):
        raise InvalidCellError("a cell's metadata is an object")
    if whole["cell_type"] == "code":
        whole = {"execution_count": None, "outputs": [], **whole}
        check_outputs(whole["outputs"], "the new cell")
        if "rlmnb" not in whole["metadata"]:
            record = new_record(source_of(whole), whole["outputs"], {})
            whole["metadata"] = {**whole["metadata"], "rlmnb": record}
    return whole


def named(cell: "dict[str, Any]", cell_id: str) -> "dict[str, Any]":
    """Return the cell under its id, checked.

    The record repeats the id: tools that copy, split or rename cells keep metadata and not ids,
    and this is how the next reader can tell.
    """
    metadata = cell["metadata"]
    if isinstance(metadata, dict) and isinstance(metadata.get("rlmnb"), dict):
        metadata = {**metadata, "rlmnb": {**metadata["rlmnb"], "cell_id": cell_id}}
    result = {**cell, "id": cell_id, "metadata": metadata}
    check_cell(result)
    return result
