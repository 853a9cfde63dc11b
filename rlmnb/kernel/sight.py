"""Which of the state that every cell may read a cell can see at all.

Options of pandas are nothing to code that reaches neither pandas nor anything made by it. What is
not known of a library is taken to see everything.
"""

from __future__ import annotations

from collections.abc import Iterable

UNKNOWN = "?"
_LIBRARIES = frozenset({"$numpy", "$pandas", "$matplotlib", "$decimal", "$logging"})
PROCESS = frozenset({"$environ", "$sys.path"})
_ALL = _LIBRARIES | PROCESS
# Parts of Python's own library that look at none of it,
_BLIND = frozenset(
    {
        "builtins", "_abc", "abc", "array", "bisect", "cmath", "collections", "copy", "copyreg",
        "dataclasses", "enum", "fractions", "functools", "heapq", "itertools", "json", "math",
        "numbers", "_operator", "operator", "random", "re", "statistics", "string", "textwrap",
        "types", "typing", "uuid",
    }
)  # fmt: skip
# and parts of it, and libraries, that look at some.
_SEES = {
    **dict.fromkeys(
        (
            "IPython", "_io", "base64", "calendar", "contextlib", "csv", "datetime", "fnmatch",
            "glob", "hashlib", "io", "nt", "ntpath", "os", "pathlib", "posix", "posixpath",
            "rlmnb", "shutil", "struct", "tempfile", "time", "zipfile", "zlib",
        ),
        PROCESS,
    ),
    "decimal": frozenset({"$decimal"}),
    "logging": PROCESS | {"$logging"},
    "numpy": PROCESS | {"$numpy"},
    "pandas": _ALL,
    "matplotlib": _ALL - {"$pandas"},
}  # fmt: skip


def telling(packages: Iterable[str]) -> frozenset[str]:
    """Return those packages that look at anything."""
    return frozenset(packages) - _BLIND


def unseen_by(packages: Iterable[str], *, imports: bool) -> frozenset[str]:
    """Return what code that reaches only these packages cannot see.

    An import looks at the environment and for modules.
    """
    unseen = _LIBRARIES if imports else _ALL
    for package in packages:
        unseen -= frozenset() if package in _BLIND else _SEES.get(package, _ALL)
    return unseen
