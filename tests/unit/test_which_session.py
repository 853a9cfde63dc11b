"""Which session is meant when a person names one, or none."""

from __future__ import annotations

import os
import subprocess

import pytest

import rlmnb
from rlmnb import Session
from rlmnb.errors import AmbiguousSessionError, InvalidNameError, SessionNotFoundError
from rlmnb.store import project, sessions


def git(*arguments: str, cwd=None) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", *identity, *arguments], cwd=cwd, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path):
    path = tmp_path / "repo"
    git("init", "-q", "-b", "main", str(path))
    git("commit", "-q", "--allow-empty", "-m", "first", cwd=path)
    return path


def test_a_full_id_wins_over_longer_ones():
    for name in ("abc", "abcd"):
        Session.create(name)
    assert Session.open("abc").id == "abc"


def test_a_unique_prefix_is_enough_and_an_ambiguous_one_lists_the_candidates():
    Session.create("2716cb5d-b734", title="login")
    Session.create("2716aaaa-0000", title="logout")
    assert Session.open("2716c").id == "2716cb5d-b734"
    with pytest.raises(AmbiguousSessionError) as caught:
        Session.open("2716")
    assert "2716cb5d-b734  login" in str(caught.value)
    assert "2716aaaa-0000  logout" in str(caught.value)


def test_a_path_to_the_notebook_or_its_directory_is_the_session(root):
    Session.create("demo").append(source="x = 1")
    for path in (root / "demo" / "session.ipynb", root / "demo"):
        session = Session.open(path)
        assert session.id == "demo"
        assert not session.place.plain
    rlmnb.append(str(root / "demo" / "session.ipynb"), {"source": "y = 2"})
    assert len(Session.open("demo").cells) == 2


def test_without_a_name_it_is_the_agents_own(monkeypatch):
    Session.create("mine")
    Session.create("newer")
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "mine")
    assert Session.open().id == "mine"
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "not-recorded")
    assert Session.open().id == "newer"


def test_without_an_agent_it_is_the_newest_of_this_project(repository, tmp_path, monkeypatch):
    (repository / "deep").mkdir()
    Session.create("here-old", cwd=repository)
    Session.create("here-new", cwd=repository / "deep")
    Session.create("elsewhere", cwd=tmp_path)
    monkeypatch.chdir(repository)
    assert Session.open().id == "here-new"
    rlmnb.append("here-old", {"source": "x"})
    assert Session.open().id == "here-old"


def test_a_fork_to_try_something_on_is_meant_only_where_it_is_named(repository, monkeypatch):
    monkeypatch.chdir(repository)
    work = Session.create("work", cwd=repository)
    work.append(source="x = 1")
    fork = work.fork(trial=True)
    assert Session.open().id == Session.open("current").id == "work"
    assert Session.open(fork.id).state.session.forked_from.trial
    assert Session.open(fork.id).fork(session_id="kept").id == Session.open().id == "kept"


def test_a_plan_for_a_fork_leaves_no_fork(repository, root, monkeypatch, run_json):
    monkeypatch.chdir(repository)
    Session.create("work", cwd=repository).append(source="x = 1")
    told = run_json("replay", "--on-fork", "--edit", "1", "x = 2", "--dry-run")
    assert [each["causes"] for each in told["would_execute"]] == [["source edited"]]
    assert {each.name for each in root.iterdir()} <= {"work", "current", "objects"}


def test_worktrees_share_the_project(repository, tmp_path, monkeypatch):
    tree = tmp_path / "tree"
    git("worktree", "add", "-q", "-b", "topic", str(tree), cwd=repository)
    Session.create("in-main", cwd=repository)
    monkeypatch.chdir(tree)
    assert Session.open().id == "in-main"
    main, topic = project.describe(str(repository)), project.describe(str(tree))
    assert main["project"] == topic["project"] == str(repository / ".git")
    assert (main["branch"], topic["branch"]) == ("main", "topic")
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=tree, capture_output=True, text=True, check=True
    ).stdout.strip()
    assert topic["head_commit"] == main["head_commit"] == head


def test_the_commit_is_found_when_git_has_packed_it_or_is_on_none(repository):
    head = project.describe(str(repository))["head_commit"]
    git("pack-refs", "--all", cwd=repository)
    assert project.describe(str(repository))["head_commit"] == head
    git("checkout", "-q", "--detach", cwd=repository)
    assert project.describe(str(repository)) == {
        "project": str(repository / ".git"),
        "branch": None,
        "head_commit": head,
    }


def test_a_directory_outside_git_is_its_own_project(tmp_path):
    described = project.describe(str(tmp_path))
    assert described == {"project": str(tmp_path), "branch": None, "head_commit": None}


def test_a_project_without_sessions_says_how_to_begin():
    with pytest.raises(SessionNotFoundError, match="no session of the project") as caught:
        Session.open()
    assert "rlmnb append" in str(caught.value.hint)


def test_a_file_that_is_no_notebook_is_told_to_be_none(tmp_path):
    (tmp_path / "notes.txt").touch()
    for path in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(SessionNotFoundError, match=r"wanted a name that ends in \.ipynb"):
            Session.open(path)


@pytest.mark.parametrize("command", ["cells", "du", "prune"])
def test_an_empty_name_is_a_mistake_and_not_the_newest_session(command, run):
    Session.create("one")
    with pytest.raises(InvalidNameError, match="non-empty"):
        Session.open("")
    done = run(command, "")
    assert (done.returncode, done.stdout) == (2, "")


def test_current_points_to_the_session_begun_last_and_is_only_a_convenience(root):
    Session.create("one")
    Session.create("two")
    assert os.readlink(root / "current") == "two"
    assert Session.open("current").id == "two"
    (root / "current").unlink()
    (root / "current").mkdir()
    Session.create("three")
    assert (root / "current").is_dir()
    assert [place.session_id for place in sessions.all_places(str(root))] == ["one", "three", "two"]


def test_active_sessions_are_those_whose_process_lives(run_json):
    Session.create("ended").append(source="x")
    ended = Session.open("ended")
    ended.state.session.ended_at = "2026-11-16T00:00:00Z"
    ended.save()
    process = subprocess.Popen(["sleep", "60"])
    for name, pid in (("alive", process.pid), ("dead", 2**22 + 1)):
        session = Session.create(name)
        session.state.lifecycle.pid = pid
        session.save()
    try:
        active = {row["id"]: row["active"] for row in run_json("sessions")}
        assert active == {"ended": False, "alive": True, "dead": False}
        assert [row["id"] for row in run_json("sessions", "--active")] == ["alive"]
    finally:
        process.kill()
        process.wait()


def test_a_link_planted_among_the_sessions_is_passed_over(root, tmp_path):
    Session.create("demo")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "session.ipynb").write_text("{}")
    (root / "planted").symlink_to(outside)
    assert [place.session_id for place in sessions.all_places(str(root))] == ["demo"]
