"""Which paths and which sessions are not recorded, because their owner said so."""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Iterator, Mapping

IGNORE_FILE = ".rlmnbignore"
_OFF_FILE = "off"
_LARGEST_FILE = 1 << 20
_NO = frozenset(("", "0", "false", "no", "off"))


def recording_off(session_directory: str, environ: "Mapping[str, str]") -> bool:
    """Tell whether a session is not recorded: RLMNB_OFF is set, or its directory has a file `off`.

    `RLMNB_OFF=0` is as if it were not set.
    """
    if environ.get("RLMNB_OFF", "").strip().lower() not in _NO:
        return True
    return os.path.lexists(os.path.join(session_directory, _OFF_FILE))


def ignored(path: str, cwd: str, environ: "Mapping[str, str] | None" = None) -> bool:
    """Tell whether a path is not to be recorded.

    RLMNB_IGNORE comes first and the project's file after it; the last glob that fits decides, as
    in a .gitignore. What lies below an ignored directory is ignored. A path outside the project is
    compared whole. A link is ignored under its own name and under the name of what it leads to.
    """
    rules = _rules_for(cwd, os.environ if environ is None else environ)
    if not rules:
        return False
    whole = os.path.normpath(os.path.join(cwd, os.path.expanduser(path)))
    real, base = os.path.realpath(whole), os.path.realpath(cwd)
    return _fits(whole, os.path.normpath(cwd), rules) or _fits(real, base, rules)


def ignores(cwd: str) -> bool:
    """Tell whether any path of a project is not to be recorded."""
    return bool(_rules_for(cwd, os.environ))


def _rules_for(
    cwd: str, environ: "Mapping[str, str]"
) -> "list[tuple[re.Pattern[str], bool, bool]]":
    return [*_rules(_listed(environ.get("RLMNB_IGNORE", ""))), *_rules(_lines(cwd))]


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.replace(os.pathsep, ",").split(",")]


def _lines(cwd: str) -> list[str]:
    """Return the lines of the project's file; none if it is not there or no file."""
    path = os.path.join(cwd, IGNORE_FILE)
    if not os.path.isfile(path):
        return []
    try:
        with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:
            return file.read(_LARGEST_FILE).splitlines()
    except OSError:
        return []


def _rules(lines: list[str]) -> "Iterator[tuple[re.Pattern[str], bool, bool]]":
    """Yield each glob as a pattern, whether it takes in again, and whether it means directories."""
    for line in lines:
        glob = line if line.endswith("\\ ") else line.rstrip()
        if not glob or glob.startswith("#"):
            continue
        again = glob.startswith("!")
        glob = glob[1:] if again else glob
        directory = glob.endswith("/")
        if body := glob.rstrip("/"):
            yield _compiled(os.path.expanduser(body)), again, directory


def _compiled(glob: str) -> "re.Pattern[str]":
    import re

    anchored = "/" in glob
    parts = ["" if anchored else "(?:.*/)?"]
    at = 1 if glob.startswith("/") else 0
    while at < len(glob):
        text, at = _piece(glob, at)
        parts.append(text)
    # A glob that begins with a slash may mean the project's root or the disk's.
    try:
        return re.compile("/?" + "".join(parts), re.DOTALL)
    except re.error:
        return re.compile(re.escape(glob))


def _piece(glob: str, at: int) -> "tuple[str, int]":
    """Return the pattern of the piece of a glob that begins at `at`, and where the next begins."""
    import re

    if glob.startswith("**/", at) and (at == 0 or glob[at - 1] == "/"):
        return "(?:.*/)?", at + 3
    if glob.startswith("**", at):
        return ".*", at + 2
    letter = glob[at]
    if letter == "*":
        return "[^/]*", at + 1
    if letter == "?":
        return "[^/]", at + 1
    if letter == "[" and (end := glob.find("]", at + 2)) > 0:
        inside = glob[at + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
        inside = "^/" + inside[1:] if inside[0] in "!^" else inside
        return f"[{inside}]", end + 1
    if letter == "\\" and at + 1 < len(glob):
        return re.escape(glob[at + 1]), at + 2
    return re.escape(letter), at + 1


def _fits(path: str, cwd: str, rules: "list[tuple[re.Pattern[str], bool, bool]]") -> bool:
    inside = path.startswith(cwd.rstrip(os.sep) + os.sep)
    name = (path[len(cwd.rstrip(os.sep)) + 1 :] if inside else path).replace(os.sep, "/")
    parts = name.split("/")
    for count in range(1, len(parts) + 1):
        start, directory = "/".join(parts[:count]), count < len(parts) or os.path.isdir(path)
        verdict = False
        for pattern, again, only_directory in rules:
            if directory or not only_directory:
                shapes = (start, os.path.join(cwd, start)) if inside else (start,)
                if any(pattern.fullmatch(shape) for shape in shapes):
                    verdict = not again
        if verdict:
            return True
    return False
