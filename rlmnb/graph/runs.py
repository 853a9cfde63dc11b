"""The trace in a cell's record, if it is one: anybody can write anything into a notebook."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rlmnb.graph.environment import Run


def run_of(record: object) -> Run | None:
    """Return the trace of a record; None where there is none, or where a hand has broken it."""
    run = record.get("run") if isinstance(record, dict) else None
    if not isinstance(run, dict) or not run.keys() >= _NEEDED:
        return None
    for key, value in run.items():
        check = _CHECKS.get(key)
        if check is not None and not check(value):
            return None
    return run


# Plain loops below: with a thousand cells, this is asked of each before anything else is done.


def _are_texts(value: Any) -> bool:
    if not isinstance(value, list):
        return False
    for each in value:  # noqa: SIM110 - see above
        if not isinstance(each, str):
            return False
    return True


def _is_map(value: Any) -> bool:
    """Tell whether these are texts by name; what is not there may stand as nothing."""
    if not isinstance(value, dict):
        return False
    for each in value.values():  # noqa: SIM110 - see above
        if each is not None and not isinstance(each, str):
            return False
    return True


def _are_versions(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_version, value))


def _is_version(version: Any) -> bool:
    if not isinstance(version, dict) or not version.keys() >= _OF_VERSION:
        return False
    names, own = version["names"], version["own"]
    if not _are_texts(names) or not names or not isinstance(own, dict):
        return False
    for name in names:
        if not isinstance(own.get(name), str):
            return False
    return (
        isinstance(version["digest"], str)
        and isinstance(version["object"], str | None)
        and isinstance(version["problem"], str | None)
        and _are_texts(version["refs"])
        and _are_texts(version.get("holds", []))
        and _are_texts(version.get("packages", []))
    )


def _are_files(files: Any) -> bool:
    return _are_tables(files) and all(isinstance(each.get("hash"), str) for each in files.values())


def _are_tables(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(each, dict) for each in value.values())


def _is_table(value: Any) -> bool:
    return isinstance(value, dict)


def _are_lists(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_are_texts, value.values()))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


_OF_VERSION = {"names", "own", "digest", "object", "problem", "refs"}
_TEXTS = ("text", "code", "python")
_FLAGS = ("failed", "history", "opaque")
_FILES = ("files_read", "files_written")
_NEEDED = {*_TEXTS, *_FLAGS, *_FILES, "reads", "writes", "deleted", "listed"}
_MAPS = ("asked", "folders", "before", "abandoned", "depends", "lines", "from", "found", "or_read")
_CHECKS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(_TEXTS, _is_text),
    **dict.fromkeys(_FLAGS, _is_flag),
    **dict.fromkeys((*_FILES, "settled"), _are_files),
    **dict.fromkeys(("reads", *_MAPS), _is_map),
    **dict.fromkeys(
        ("asked_for", "deleted", "in_place", "named", "unseen", "updates", "updated_by", "around"),
        _are_texts,
    ),
    **dict.fromkeys(("listed", "shows", "traced"), _is_table),
    **dict.fromkeys(("only", "sets"), _are_lists),
    "writes": _are_versions,
    "looked": _are_tables,
}
