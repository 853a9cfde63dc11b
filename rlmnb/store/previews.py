"""Long outputs: all of them among the objects, a preview that a person can read in the cell."""

from rlmnb import digest
from rlmnb.format.cells import PREVIEW_LIMIT, preview

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlmnb.store.objects import Objects


def fit_outputs(cell: "dict[str, Any]", objects: "Objects") -> "dict[str, Any]":
    """Return the cell with its long outputs kept as objects, named in its record."""
    kept: list[dict[str, Any]] = []
    outputs = [_fit(output, number, objects, kept) for number, output in enumerate(cell["outputs"])]
    if not kept:
        return cell
    record = dict(cell["metadata"]["rlmnb"])
    told = record.get("output", {})
    if isinstance(error := told.get("error"), str) and len(error) > PREVIEW_LIMIT:
        told = {**told, "error": _fit_text(error, objects)}
    record["output"] = {**told, "objects": kept}
    record["output_hash"] = digest.output_hash(outputs)
    return {**cell, "outputs": outputs, "metadata": {**cell["metadata"], "rlmnb": record}}


def _fit(
    output: "dict[str, Any]", number: int, objects: "Objects", kept: "list[dict[str, Any]]"
) -> "dict[str, Any]":
    def fitted(value: "Any", mime: str) -> "Any":
        text = digest.value_of_lines(value)
        if not isinstance(text, str):
            return value
        data = text.encode("utf-8")
        if len(data) <= PREVIEW_LIMIT or not mime.startswith("text/"):
            return value
        name = objects.put(data)
        kept.append({"output": number, "mime": mime, "object": name, "bytes": len(data)})
        return preview(text, name, len(data))

    if output.get("output_type") == "stream":
        return {**output, "text": fitted(output["text"], "text/plain")}
    if output.get("output_type") == "error":
        lines = [_fit_text(line, objects) for line in output["traceback"]]
        return {**output, "evalue": fitted(output["evalue"], "text/plain"), "traceback": lines}
    if isinstance(output.get("data"), dict):
        data = {mime: fitted(value, mime) for mime, value in output["data"].items()}
        return {**output, "data": data}
    return output


def _fit_text(text: str, objects: "Objects") -> str:
    data = text.encode("utf-8")
    return text if len(data) <= PREVIEW_LIMIT else preview(text, objects.put(data), len(data))
