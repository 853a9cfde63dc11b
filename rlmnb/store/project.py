"""Which project a directory belongs to, read from git's own files: no process, a few opens.

Worktrees of one repository share its common directory, so that is the project's identity.
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_LIMIT = 1 << 20


def _read(*parts: str) -> str:
    try:
        # A pipe in the place of one of git's files would hold us up for ever.
        descriptor = os.open(os.path.join(*parts), os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return ""
    try:
        if (os.fstat(descriptor).st_mode & 0o170000) != 0o100000:
            return ""
        return os.read(descriptor, _LIMIT).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def _upwards(path: str) -> "Iterator[str]":
    while True:
        yield path
        parent = os.path.dirname(path)
        if parent == path:
            return
        path = parent


def _git_directory(cwd: str) -> "str | None":
    for directory in _upwards(os.path.realpath(cwd)):
        dot_git = os.path.join(directory, ".git")
        if os.path.isdir(dot_git):
            return dot_git
        if os.path.isfile(dot_git):
            text = _read(dot_git)
            if text.startswith("gitdir:"):
                return os.path.normpath(os.path.join(directory, text[7:].strip()))
    return None


def _commit_of(git: str, common: str, reference: str) -> "str | None":
    for place in (git, common):
        if commit := _read(place, reference).strip():
            return commit
    for line in _read(common, "packed-refs").splitlines():
        commit, _, name = line.partition(" ")
        if name == reference:
            return commit
    return None


def describe(cwd: str) -> "dict[str, str | None]":
    """Return the project a directory belongs to, and the branch and commit it is on."""
    git = _git_directory(cwd)
    if git is None:
        return {"project": os.path.realpath(cwd), "branch": None, "head_commit": None}
    common = os.path.realpath(os.path.join(git, _read(git, "commondir").strip() or "."))
    head = _read(git, "HEAD").strip()
    if not head.startswith("ref: "):
        return {"project": common, "branch": None, "head_commit": head or None}
    reference = head[5:]
    if reference == "refs/heads/.invalid":  # the commit is in a reftable, which takes git to read
        return {"project": common, "branch": None, "head_commit": None}
    return {
        "project": common,
        "branch": reference.removeprefix("refs/heads/"),
        "head_commit": _commit_of(git, common, reference),
    }
