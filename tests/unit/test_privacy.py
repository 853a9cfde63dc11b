"""Paths and sessions that their owner wants nobody to record."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rlmnb.capture.privacy import ignored, recording_off


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def hides(project: Path, globs: str, path: str) -> bool:
    (project / ".rlmnbignore").write_text(globs, encoding="utf-8")
    return ignored(path, str(project), {})


@pytest.mark.parametrize(
    ("glob", "path", "hidden"),
    [
        ("*.env", "prod.env", True),
        ("*.env", "deep/down/prod.env", True),
        ("*.env", "prod.env.py", False),
        (".env*", ".env.local", True),
        ("secrets/", "secrets/key.txt", True),
        ("secrets/", "a/secrets/b/key.txt", True),
        ("secrets/", "secrets", False),
        ("secrets", "secrets", True),
        ("/config.json", "config.json", True),
        ("/config.json", "a/config.json", False),
        ("a/*.txt", "a/b.txt", True),
        ("a/*.txt", "a/b/c.txt", False),
        ("a/*.txt", "x/a/b.txt", False),
        ("a/**/c.txt", "a/c.txt", True),
        ("a/**/c.txt", "a/b/b/c.txt", True),
        ("**/logs", "x/y/logs/today", True),
        ("logs/**", "logs/a/b", True),
        ("key?.pem", "key1.pem", True),
        ("key[0-3].pem", "key2.pem", True),
        ("key[!0-3].pem", "key2.pem", False),
        ("key[!0-3].pem", "key7.pem", True),
        ("[z-a]", "x", False),
        ("# a comment", "# a comment", False),
        ("\\#file", "#file", True),
        ("", "anything", False),
        ("   ", "anything", False),
    ],
)
def test_globs_mean_what_they_mean_to_git(
    project: Path, glob: str, path: str, hidden: bool
) -> None:
    assert hides(project, glob + "\n", path) is hidden


def test_the_last_glob_that_fits_decides(project: Path) -> None:
    globs = "*.env\n!example.env\n"
    assert hides(project, globs, "prod.env")
    assert not hides(project, globs, "example.env")
    assert hides(project, globs + "example.env\n", "example.env")


def test_nothing_below_an_ignored_directory_is_taken_in_again(project: Path) -> None:
    assert hides(project, "private/\n!private/open.txt\n", "private/open.txt")


def test_a_path_is_the_same_however_it_is_written(project: Path) -> None:
    for path in ("secrets/a", "./secrets/a", "x/../secrets/a", str(project / "secrets" / "a")):
        assert hides(project, "/secrets/\n", path)


def test_a_path_outside_the_project_is_compared_whole(project: Path) -> None:
    assert hides(project, "/etc/shadow\n", "/etc/shadow")
    assert hides(project, "*.pem\n", "/somewhere/else/key.pem")
    assert not hides(project, "/etc/shadow\n", "/etc/hosts")
    assert not hides(project, "src/\n", "/etc/hosts")


def test_the_home_directory_can_be_named(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert hides(project, "~/.ssh/\n", "/home/ada/.ssh/id_rsa")
    assert hides(project, "~/.ssh/\n", "~/.ssh/id_rsa")


def test_a_link_to_an_ignored_file_is_ignored(project: Path) -> None:
    (project / "key.pem").write_text("x", encoding="utf-8")
    (project / "link").symlink_to("key.pem")
    assert hides(project, "*.pem\n", "link")


def test_the_environment_lists_globs_too(project: Path) -> None:
    for separator in (",", os.pathsep):
        environ = {"RLMNB_IGNORE": separator.join(["*.env", " secrets/"])}
        assert ignored("a.env", str(project), environ)
        assert ignored("secrets/a", str(project), environ)
        assert not ignored("a.py", str(project), environ)


def test_the_file_of_the_project_can_take_in_what_the_environment_left_out(project: Path) -> None:
    (project / ".rlmnbignore").write_text("!open.env\n", encoding="utf-8")
    assert not ignored("open.env", str(project), {"RLMNB_IGNORE": "*.env"})


def test_a_list_that_cannot_be_read_ignores_nothing_and_raises_nothing(project: Path) -> None:
    (project / ".rlmnbignore").mkdir()
    assert not ignored("a.py", str(project), {})
    assert not ignored("a.py", str(project / "missing"), {})


def test_a_list_may_be_in_any_encoding(project: Path) -> None:
    (project / ".rlmnbignore").write_bytes(b"\xef\xbb\xbf*.env\r\n\xff\n*.pem\n")
    assert ignored("a.env", str(project), {})
    assert ignored("a.pem", str(project), {})


@pytest.mark.parametrize(
    ("value", "off"), [("1", True), ("true", True), ("0", False), ("", False), ("no", False)]
)
def test_the_environment_turns_recording_off(tmp_path: Path, value: str, off: bool) -> None:
    assert recording_off(str(tmp_path), {"RLMNB_OFF": value}) is off


def test_a_file_in_the_session_turns_its_recording_off(tmp_path: Path) -> None:
    assert not recording_off(str(tmp_path), {})
    assert not recording_off(str(tmp_path / "missing"), {})
    (tmp_path / "off").touch()
    assert recording_off(str(tmp_path), {})
