"""The list of what runs on Windows is whole."""

from __future__ import annotations

from pathlib import Path

from tests.windows.selection import FILES, LEFT_OUT, NOT_RUN, TESTS

HERE = Path(__file__).parents[1]


def test_each_test_file_runs_on_windows_or_says_why_not():
    there = {f"{tier}/{path.name}" for tier in ("unit", "property")
             for path in (HERE / tier).glob("test_*.py")}  # fmt: skip
    run = {name.removeprefix("tests/") for name in FILES}
    assert run | NOT_RUN.keys() == there
    assert not run & NOT_RUN.keys()


def test_each_test_that_is_named_is_there():
    for name in LEFT_OUT:
        file, _, test = name.partition("::")
        (path,) = [HERE.parent / each for each in FILES if each.endswith(f"/{file}")]
        assert f"def {test}(" in path.read_text(encoding="utf-8")
    for name in TESTS:
        file, _, test = name.partition("::")
        assert f"def {test}(" in (HERE.parent / file).read_text(encoding="utf-8")
