"""JSON as rlmnb writes it, and a reader that starts fast.

`import json` costs a hook process ten milliseconds, nearly all of them for `re`, which neither
writing nor well-formed reading needs. The C parts that `json` itself uses are taken directly where
they exist; everywhere else `json` does the work, with equal results.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

try:
    from _json import encode_basestring as _quote
    from _json import make_encoder as _make_encoder
    from _json import make_scanner as _make_scanner
except ImportError:  # not CPython
    from json.encoder import encode_basestring as _quote

    _make_scanner = _make_encoder = None  # type: ignore[assignment, misc]

_CONSTANTS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_SPACE = " \t\n\r"
_DEEPEST = 5000
# Past this a JavaScript number is rounded, and JupyterLab would change what we wrote.
MAX_SAFE_INTEGER = 2**53 - 1
# Up to here JavaScript writes a number with all its digits.
_ALL_DIGITS = 1e21


class _Defaults:
    """What the C scanner asks its caller for: the settings of `json.loads`."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = _CONSTANTS.__getitem__
    memo: "dict[str, str]" = {}  # noqa: RUF012 - read by the Python scanner of other interpreters


_scan: "Any" = _make_scanner(_Defaults()) if _make_scanner is not None else None  # type: ignore[arg-type]


def loads(text: "str | bytes | bytearray | memoryview") -> "Any":
    """Parse one JSON document; ValueError if it is not one, RecursionError if it is too deep."""
    if not isinstance(text, str):
        text = str(text, "utf-8")
    # Some programs begin what they write with a mark of its encoding.
    text = text.removeprefix("\ufeff")
    if _scan is None:
        import json

        return json.loads(text)
    value, end = scan_value(text, len(text) - len(text.lstrip(_SPACE)))
    if text[end:].strip(_SPACE):
        raise ValueError(f"more text after the JSON document, at character {end}")
    return value


def scan_value(text: str, start: int) -> "tuple[Any, int]":
    """Parse the one JSON value that begins at `start`; return it and where it ends."""
    if _scan is None:
        import json

        return json.JSONDecoder().raw_decode(text, start)
    try:
        value, end = _scan(text, start)
    except StopIteration as stop:
        raise ValueError(f"not JSON at character {stop.value}") from None
    except SystemError:
        # What the scanner says when it wants to raise an error that `json.decoder` defines, and
        # that module has not been imported.
        raise ValueError("not JSON") from None
    return value, int(end)


def _scalar(value: "Any") -> "str | None":
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        if value != value:
            return "NaN"
        if value in (float("inf"), float("-inf")):
            return "Infinity" if value > 0 else "-Infinity"
        return float.__repr__(value)
    return None


def _write(value: "Any", emit: "Callable[[str], object]", newline: str, step: str) -> None:
    if isinstance(value, str):
        emit(_quote(value))
    elif isinstance(value, dict):
        _write_dict(value, emit, newline, step)
    elif isinstance(value, (list, tuple)):
        if not value:
            emit("[]")
            return
        inner = newline + step
        opening = "[" + inner
        between = "," + (inner or "")
        for item in value:
            emit(opening)
            opening = between
            _write(item, emit, inner, step)
        emit(newline + "]")
    else:
        text = _scalar(value)
        emit(_refuse(value) if text is None else text)


def _write_dict(
    value: "dict[str, Any]", emit: "Callable[[str], object]", newline: str, step: str
) -> None:
    if not value:
        emit("{}")
        return
    inner = newline + step
    opening = "{" + inner
    between = "," + (inner or "")
    colon = ": " if step else ":"
    for key in sorted(value):
        emit(opening + _quote(key) + colon)
        opening = between
        _write(value[key], emit, inner, step)
    emit(newline + "}")


def pretty(value: "Any", depth: int = 0) -> str:
    """Write `value` as nbformat does (sorted keys, one space a level), standing `depth` deep."""
    return _written(value, "\n" + " " * depth, " ")


def compact(value: "Any") -> str:
    """Write `value` on one line with sorted keys and no spaces."""
    if _encode is not None:
        try:
            return "".join(_encode(value, 0))
        except RecursionError:
            pass  # C code may go less deep than Python code
    return _written(value, "", "")


def _refuse(value: "Any") -> "Any":
    raise TypeError(f"a {type(value).__name__} has no JSON form")


# No marks of what it is inside of, no indent, keys sorted, none left out, NaN as it is.
_encode: "Any" = (
    _make_encoder(None, _refuse, _quote, None, ":", ",", True, False, True)
    if _make_encoder is not None
    else None
)


def _written(value: "Any", newline: str, step: str) -> str:
    parts: list[str] = []
    try:
        _write(value, parts.append, newline, step)
    except RecursionError:
        # What could be read must be written again, and writing takes two frames a level.
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(max(limit, _DEEPEST))
        parts.clear()
        try:
            _write(value, parts.append, newline, step)
        finally:
            sys.setrecursionlimit(limit)
    return "".join(parts)


def to_bytes(text: str) -> bytes:
    """Encode JSON text; a lone surrogate becomes its own JSON escape, so nothing is lost."""
    return text.encode("utf-8", "backslashreplace")


def portable(value: "Any") -> "Any":
    """Return `value` as JupyterLab would give it back: no whole floats, NaN or huge numbers.

    A huge one becomes text: Lab would write a float of that size as an integer, and a live document
    as one of hundreds of digits, with which it does not open again. Text with lone surrogates is
    escaped, because nbformat cannot save it and Lab's next save of the notebook would fail.
    """
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, dict):
        return {clean_text(str(key)): portable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [portable(item) for item in value]
    if isinstance(value, int):
        return value if -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER else str(value)
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            return repr(value)
        if abs(value) > MAX_SAFE_INTEGER:
            return str(int(value)) if abs(value) < _ALL_DIGITS else repr(value)
        return int(value) if value.is_integer() else value
    raise TypeError(f"a {type(value).__name__} has no JSON form")


def clean_text(text: str) -> str:
    """Return `text` with each lone surrogate spelled out as an escape."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text
