"""Which of the state that every cell may read a cell can see at all.

Options of pandas are nothing to code that reaches neither pandas nor anything made by it. What is
not known of a library is taken to see everything.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from rlmnb.graph.ambient import keyed

UNKNOWN = "?"
# Not libraries, but what code of the notebook's own can do wherever it is called from.
WARNS = "~warns"
CALLS = "~calls"
LASTS = "~lasts"
_LIBRARIES = frozenset({"$numpy", "$pandas", "$matplotlib", "$decimal", "$logging", "$inline"})
PROCESS = frozenset({"$environ", "$sys.path"})
_PLACE = frozenset({"$cwd", "$directories"})
_REST = frozenset(
    {"$warnings", "$recursion limit", "$csv", "$gc", "$argv", "$autoreload", "$patched"}
)
_ALL = _LIBRARIES | PROCESS | _PLACE | _REST
# What shows how code runs, not what it does: for statements that run no code but their own.
QUIET = _ALL | {
    "$builtins", "$extensions", "$locale", "$patched.python", "$python", "$signals", "$streams",
}  # fmt: skip
# Parts of Python's own library that look at none of it,
_BLIND = frozenset(
    {
        "builtins", "_abc", "abc", "array", "bisect", "cmath", "collections", "copy", "copyreg",
        "dataclasses", "enum", "fractions", "functools", "heapq", "itertools", "json", "math",
        "numbers", "_operator", "operator", "reprlib", "statistics", "string", "textwrap",
        "types", "uuid",
    }
)  # fmt: skip
_SYSTEM = PROCESS | _PLACE
# and parts of it, and libraries, that look at some.
_LOOKS_AT: dict[str, frozenset[str]] = {
    **dict.fromkeys(("random", "re", "typing"), frozenset({"$warnings"})),
    **dict.fromkeys(("base64", "fnmatch", "hashlib", "struct", "zlib"), PROCESS),
    **dict.fromkeys(("calendar", "datetime", "time"), PROCESS | {"$warnings"}),
    **dict.fromkeys(
        (
            "_io", "contextlib", "glob", "io", "nt", "ntpath", "os", "pathlib", "posix",
            "posixpath", "rlmnb", "shutil", "tempfile", "zipfile",
        ),
        _SYSTEM | {"$warnings"},
    ),
    "IPython": _SYSTEM | {"$autoreload", "$warnings"},
    **dict.fromkeys(("csv", "_csv"), PROCESS | {"$csv"}),
    "decimal": frozenset({"$decimal"}),
    "logging": _SYSTEM | {"$logging", "$warnings"},
    "numpy": _SYSTEM | {"$numpy", "$patched", "$warnings"},
    "pandas": _ALL,
    "matplotlib": _ALL - {"$pandas"},
}  # fmt: skip
_SEES = {
    WARNS: frozenset({"$warnings"}),
    CALLS: frozenset({"$recursion limit"}),
    LASTS: frozenset(),
    **_LOOKS_AT,
}
# Whoever imports these is warned, or may be.
_WARNS_WHEN_IMPORTED = frozenset(
    {
        "aifc", "ast", "asynchat", "asyncore", "audioop", "cgi", "cgitb", "chunk", "crypt",
        "distutils", "imghdr", "imp", "lib2to3", "mailcap", "msilib", "nis", "nntplib",
        "ossaudiodev", "pipes", "smtpd", "sndhdr", "spwd", "sunau", "telnetlib", "typing", "uu",
        "xdrlib",
    }
)  # fmt: skip
_QUIET_WHEN_IMPORTED = frozenset({"numpy", "matplotlib"})


def mark_on(where: str) -> str:
    """Return the name of what cells did to one thing in a library.

    Any code may go through Python's own modules; the others are for whoever has to do with them.
    """
    return keyed("$patched.python" if is_of_python(where) else "$patched", where)


def is_of_python(where: str) -> bool:
    """Tell whether this is in one of Python's own modules."""
    return where.partition(".")[0] in sys.stdlib_module_names


def telling(packages: Iterable[str]) -> frozenset[str]:
    """Return those packages that look at anything."""
    return frozenset(packages) - _BLIND


def unseen_by(packages: Iterable[str]) -> frozenset[str]:
    """Return what code that reaches only these packages cannot see."""
    unseen = _ALL
    for package in packages:
        unseen -= frozenset() if package in _BLIND else _SEES.get(package, _ALL)
    return unseen


def unseen_by_imports(modules: Iterable[str]) -> frozenset[str]:
    """Return what cannot be seen by an import, which looks for modules, and runs them."""
    packages = {name.partition(".")[0] for name in modules}
    libraries = packages - sys.stdlib_module_names
    warned = not packages.isdisjoint(_WARNS_WHEN_IMPORTED) or not libraries <= _QUIET_WHEN_IMPORTED
    looked_at = _SYSTEM | {"$patched"} if libraries else frozenset()
    return _ALL - looked_at - ({"$warnings"} if warned else set())


def unseen_by_commands() -> frozenset[str]:
    """Return what other programs that are called cannot see."""
    return _ALL - _SYSTEM - {"$autoreload"}
