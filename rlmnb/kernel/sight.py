"""Which of the state that every cell may read a cell can see at all.

Options of pandas are nothing to code that reaches neither pandas nor anything made by it. What is
not known of a library is taken to see everything.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable

from rlmnb.graph.ambient import keyed

UNKNOWN = "?"
# Not libraries, but what code of the notebook's own can do wherever it is called from.
CALLS = "~calls"
LASTS = "~lasts"
# A function that answers from a cache asks for nothing.
REMEMBERS = "~remembers"
# What a pickle knows by its name: functions and classes of the notebook's own.
DEFINES = "~defines"
_PANDAS = frozenset({"$pandas", "$pandas.modes"})
_NUMPY = frozenset({"$numpy", "$numpy.print"})
_LIBRARIES = _PANDAS | _NUMPY | {"$matplotlib", "$decimal", "$logging", "$inline"}
PROCESS = frozenset({"$environ", "$sys.path"})
_PLACE = frozenset({"$cwd", "$directories"})
_REST = frozenset({"$recursion limit", "$csv", "$gc", "$argv", "$autoreload", "$patched"})
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
        "numbers", "_operator", "operator", "random", "re", "reprlib", "statistics", "string",
        "textwrap", "types", "typing", "uuid",
    }
)  # fmt: skip
_SYSTEM = PROCESS | _PLACE
# and parts of it, and libraries, that look at some.
_LOOKS_AT: dict[str, frozenset[str]] = {
    **dict.fromkeys(
        ("base64", "calendar", "datetime", "fnmatch", "hashlib", "struct", "time", "zlib"), PROCESS
    ),
    **dict.fromkeys(
        (
            "_io", "contextlib", "glob", "io", "nt", "ntpath", "os", "pathlib", "posix",
            "posixpath", "rlmnb", "shutil", "tempfile", "zipfile",
        ),
        _SYSTEM,
    ),
    "IPython": _SYSTEM | {"$autoreload"},
    **dict.fromkeys(("csv", "_csv"), PROCESS | {"$csv"}),
    "decimal": frozenset({"$decimal"}),
    "logging": _SYSTEM | {"$logging"},
    "numpy": _SYSTEM | _NUMPY | {"$patched"},
    "pandas": _ALL,
    "matplotlib": _ALL - _PANDAS,
}  # fmt: skip
_SEES = {
    CALLS: frozenset({"$recursion limit"}),
    **dict.fromkeys((DEFINES, LASTS, REMEMBERS), frozenset()),
    **_LOOKS_AT,
}
# Whoever imports these is warned, if only the first time.
_WARNS_WHEN_IMPORTED = frozenset(
    {
        "aifc", "asynchat", "asyncore", "audioop", "cgi", "cgitb", "chunk", "crypt",
        "distutils", "imghdr", "imp", "lib2to3", "mailcap", "msilib", "nis", "nntplib",
        "ossaudiodev", "pipes", "smtpd", "sndhdr", "spwd", "sunau", "telnetlib", "uu",
        "xdrlib",
    }
)  # fmt: skip

# What these set, pandas acts on without asking for it, or asks for all the time.
_MODES = re.compile(
    r"(?:compute|future|mode)(?:\.|$)|display\.html\.table_schema"
    r"|plotting\.matplotlib\.register_converters"
)
# They ask for what they look at of the environment, variable by variable, in Python.
_ASKING = _BLIND | {
    CALLS, DEFINES, LASTS, "_csv", "_io", "base64", "contextlib", "csv", "decimal", "fnmatch",
    "glob", "hashlib", "io", "ntpath", "os", "pathlib", "posix", "posixpath", "shutil", "struct",
    "zipfile", "zlib",
}  # fmt: skip


def asks_by_name(packages: Iterable[str]) -> bool:
    """Tell whether code that reaches only these looks at the environment in no other way."""
    return _ASKING.issuperset(packages)


def option_of_pandas(option: str) -> str:
    """Return the name of an option: of those that are listened for, or of the others."""
    return keyed("$pandas.modes" if _MODES.match(option) else "$pandas", option)


def option_of_numpy(option: str) -> str:
    """Return the name of an option: of those that are listened for, or of the others."""
    asked = option.startswith("print.") and option != "print.legacy"  # which is asked for in C
    return keyed("$numpy.print" if asked else "$numpy", option)


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
    return _ALL - (_SYSTEM | {"$patched"}) if libraries else _ALL


def warns_when_imported(modules: Iterable[str]) -> bool:
    """Tell whether one of these is known to warn whoever imports it first."""
    return not _WARNS_WHEN_IMPORTED.isdisjoint(name.partition(".")[0] for name in modules)


def unseen_by_commands() -> frozenset[str]:
    """Return what other programs that are called cannot see."""
    return _ALL - _SYSTEM - {"$autoreload"}
