"""What a cell shows, whoever wrote it down: pieces of a stream put together, overwriting done.

JupyterLab joins pieces of one stream and carries out carriage returns and backspaces in them;
nbclient keeps what the kernel sent. Held against each other, both have to be brought to one form.
"""

from rlmnb.digest import output_hash, value_of_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any


def shown_hash(outputs: "Iterable[Mapping[str, Any]]") -> str:
    """Hash what a cell shows, the same before and after JupyterLab has saved it."""
    return output_hash(as_shown(outputs))


def as_shown(outputs: "Iterable[Mapping[str, Any]]") -> "list[dict[str, Any]]":
    """Return outputs as JupyterLab keeps them."""
    found: list[dict[str, Any]] = []
    for output in outputs:
        text = value_of_lines(output.get("text"))
        if output.get("output_type") != "stream" or not isinstance(text, str):
            found.append(dict(output))
            continue
        last = found[-1] if found else {}
        if last.get("output_type") == "stream" and last.get("name") == output.get("name"):
            last["text"] += text
        else:
            found.append({**output, "text": text})
    for output in found:
        if output.get("output_type") == "stream" and isinstance(output.get("text"), str):
            output["text"] = overwritten(output["text"])
    return found


def overwritten(text: str) -> str:
    """Carry out carriage returns and backspaces, line by line, as a terminal would."""
    if "\r" not in text and "\b" not in text:
        return text
    return "\n".join(_line(line) for line in text.split("\n"))


def _line(text: str) -> str:
    if "\r" not in text and "\b" not in text:
        return text
    shown, at = "", 0
    for piece in text.split("\r"):
        at = 0
        for number, part in enumerate(piece.split("\b")):
            if number and at > 0:
                # A backspace takes away the letter before, and JupyterLab one more with it.
                shown = shown[: at - 1] + shown[at + 1 :]
                at -= 1
            shown = shown[:at] + part + shown[at + len(part) :]
            at += len(part)
    return shown
