"""The agent's own transcript: where it is, and reading on from where one stopped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rlmnb
from rlmnb.capture import transcripts
from rlmnb.errors import InvalidNameError


def lines(*records: object) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


@pytest.mark.parametrize(
    ("cwd", "name"),
    [
        ("/home/ada/my.project_2", "-home-ada-my-project-2"),
        ("/srv/naïve dir", "-srv-na-ve-dir"),
    ],
)
def test_the_path_follows_the_rule_of_claude_code(cwd: str, name: str) -> None:
    found = transcripts.default_path("0b1c", cwd, {"CLAUDE_CONFIG_DIR": "/c"})
    assert found == f"/c/projects/{name}/0b1c.jsonl"


def test_the_path_is_below_the_home_directory_unless_configured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    found = transcripts.default_path("0b1c", "/srv", {})
    assert found == "/home/ada/.claude/projects/-srv/0b1c.jsonl"


def test_no_path_is_made_of_an_id_that_is_none() -> None:
    with pytest.raises(InvalidNameError):
        transcripts.default_path("../../etc/passwd", "/srv", {})


def test_a_path_too_long_for_the_rule_is_unknown() -> None:
    assert transcripts.default_path("0b1c", "/d" * 150, {}) is None


def test_a_session_knows_its_transcript_told_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    session = rlmnb.Session.create("0b1c", cwd="/srv/x")
    assert session.transcript_path is None
    by_rule = tmp_path / "claude" / "projects" / "-srv-x" / "0b1c.jsonl"
    by_rule.parent.mkdir(parents=True)
    by_rule.write_bytes(b"")
    assert session.transcript_path == str(by_rule)
    session.state.session.transcript_path = "/told.jsonl"
    session.save()
    assert session.transcript_path == "/told.jsonl"


def test_a_reader_goes_on_where_the_last_one_stopped(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(lines({"n": 1}, {"n": 2}) + b'{"n": 3, "half')
    with transcripts.Reader(str(path)) as reader:
        assert [record["n"] for record in reader] == [1, 2]
        mark = reader.bookmark
    with path.open("ab") as file:
        file.write(b'": 1}\n' + lines({"n": 4}))
    with transcripts.Reader(str(path), mark) as reader:
        assert [record["n"] for record in reader] == [3, 4]
        assert not reader.restarted


def test_nothing_new_is_nothing_read(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(lines({"n": 1}))
    with transcripts.Reader(str(path)) as reader:
        list(reader)
        mark = reader.bookmark
    with transcripts.Reader(str(path), mark) as reader:
        assert list(reader) == []
        assert reader.bookmark == mark


@pytest.mark.parametrize("now", [b"", lines({"n": 9}), lines({"n": 8}, {"n": 9}, {"n": 10})])
def test_a_transcript_that_is_another_one_is_read_from_its_beginning(
    tmp_path: Path, now: bytes
) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(lines({"n": 1}, {"n": 2}))
    with transcripts.Reader(str(path)) as reader:
        list(reader)
        mark = reader.bookmark
    path.write_bytes(now)
    with transcripts.Reader(str(path), mark) as reader:
        assert len(list(reader)) == now.count(b"\n")
        assert reader.restarted


@pytest.mark.parametrize("mark", [{}, {"offset": -1}, {"offset": "9"}, {"offset": 10**12}])
def test_a_bookmark_that_makes_no_sense_is_passed_over(
    tmp_path: Path, mark: dict[str, object]
) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(lines({"n": 1}))
    with transcripts.Reader(str(path), mark) as reader:
        assert len(list(reader)) == 1


def test_lines_that_are_no_records_are_counted_and_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    deep = b'{"a":' * 100_000
    path.write_bytes(b'nonsense\n\n[1]\n{"n"\n' + deep + b"\n\xff{}\n" + lines({"n": 1}))
    with transcripts.Reader(str(path)) as reader:
        assert [record["n"] for record in reader] == [1]
        assert reader.skipped == 5


def test_a_line_longer_than_a_chunk_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(lines({"text": "x" * 3_000_000}, {"n": 1}))
    with transcripts.Reader(str(path)) as reader:
        assert [len(record.get("text", "")) for record in reader] == [3_000_000, 0]
        assert reader.bookmark["offset"] == path.stat().st_size


def test_a_line_that_no_record_can_be_is_not_held_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcripts, "_LONGEST_LINE", 1 << 21)
    path = tmp_path / "t.jsonl"
    path.write_bytes(lines({"text": "x" * 9_000_000}, {"n": 1}))
    with transcripts.Reader(str(path)) as reader:
        assert [record["n"] for record in reader] == [1]
        assert reader.skipped
