"""What libraries keep for themselves and cells rely on: options, handlers, patches, extensions.

Each entry says how a library differs from what it is when it has just been imported, None if it
does not. Where what was set can be set again, that is told too.
"""

from __future__ import annotations

import builtins
import importlib
import logging
import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from rlmnb.kernel import streams
from rlmnb.kernel.canonical import value_digest

_Entry = tuple[str, Callable[[], Any], Callable[[Any], None] | None]
# Set by IPython and its display hook, cell by cell.
_BUILTIN_NOISE = frozenset({"_", "__IPYTHON__", "display", "get_ipython", "input", "breakpoint"})
_DECIMAL = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")
_BACKEND = "matplotlib_inline.backend_inline"
_INLINE = (f"module://{_BACKEND}", "inline")


def facets(shell: Any) -> Iterable[_Entry]:
    """Yield the name of each, how to look at it, and how to put it back."""
    yield "$numpy", _numpy, _set_numpy
    yield "$pandas", _pandas, _set_pandas
    yield "$matplotlib", _matplotlib, _set_matplotlib
    yield "$decimal", _decimal, _set_decimal
    yield "$logging", _changed(_logging), None
    if shell is not None:
        yield "$builtins", _patched_builtins(shell.user_ns), None
        yield (
            "$extensions",
            _changed(lambda: sorted(shell.extension_manager.loaded)),
            lambda value: _load_extensions(shell, value or ()),
        )
        yield "$shell", _changed(lambda: _shell(shell)), None


def _changed(look: Callable[[], Any]) -> Callable[[], Any]:
    start = look()

    def now() -> Any:
        found = look()
        return None if found == start else found

    return now


def _numpy() -> Any:
    numpy = sys.modules.get("numpy")
    if numpy is None or not hasattr(numpy, "get_printoptions"):
        return None
    found = {"errors": numpy.geterr(), "print": numpy.get_printoptions()}
    return None if found == _fresh_numpy(found["print"]) else found


def _fresh_numpy(known: dict[str, Any]) -> dict[str, Any]:
    """Return numpy's settings at import; what a newer version adds counts as untouched."""
    fresh = {
        "edgeitems": 3, "threshold": 1000, "floatmode": "maxprec", "precision": 8,
        "suppress": False, "linewidth": 75, "nanstr": "nan", "infstr": "inf", "sign": "-",
        "formatter": None, "legacy": False, "override_repr": None,
    }  # fmt: skip
    errors = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}
    return {"errors": errors, "print": {key: fresh.get(key, known[key]) for key in known}}


def _set_numpy(value: Any) -> None:
    if value is None and "numpy" not in sys.modules:
        return
    import numpy

    value = value or _fresh_numpy(dict(numpy.get_printoptions()))
    numpy.seterr(**value["errors"])
    numpy.set_printoptions(**value["print"])


def _pandas() -> Any:
    config = sys.modules.get("pandas._config.config")
    pandas = sys.modules.get("pandas")
    if config is None or not hasattr(pandas, "get_option"):
        return None
    found = {}
    for key, option in config._registered_options.items():
        place: Any = config._global_config
        for part in key.split("."):
            place = place[part]
        if place is not option.defval and place != option.defval:
            found[key] = place
    return found or None


def _set_pandas(value: Any) -> None:
    if value is None and "pandas" not in sys.modules:
        return
    import pandas

    now = _pandas() or {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some options warn when they are set
        for key in set(now) - set(value or {}):
            pandas.reset_option(key)
        for key, setting in (value or {}).items():
            if now.get(key) != setting:
                pandas.set_option(key, setting)


def _matplotlib() -> Any:
    matplotlib = sys.modules.get("matplotlib")
    original = getattr(matplotlib, "rcParamsOrig", None)
    if matplotlib is None or original is None:
        return None
    # Asking the usual way would make matplotlib choose a backend.
    found = {
        key: value
        for key, value in dict.items(matplotlib.rcParams)
        if dict.get(original, key) != value
    }
    if dict.get(matplotlib.rcParams, "backend") in _INLINE:
        found.pop("backend", None)
        # Whichever cell draws first turns this on; only turning it off is somebody's wish.
        if found.pop("interactive", False) is False and _BACKEND in sys.modules:
            found["interactive"] = False
    return found or None


def _set_matplotlib(value: Any) -> None:
    if value is None and "matplotlib" not in sys.modules:
        return
    import matplotlib

    settings = {key: dict.get(matplotlib.rcParamsOrig, key) for key in _matplotlib() or {}}
    settings |= value or {}
    backend = settings.pop("backend", None)
    if isinstance(backend, str):
        matplotlib.use(backend)
    if dict.get(matplotlib.rcParams, "backend") in _INLINE:
        shows_by_itself = (value or {}).get("interactive", True)
        if not shows_by_itself:
            importlib.import_module(_BACKEND)  # which turns it on, but only the first time
        if _BACKEND in sys.modules:
            settings["interactive"] = shows_by_itself
    dict.update(matplotlib.rcParams, settings)


def _decimal() -> Any:
    if "decimal" not in sys.modules:
        return None
    import decimal

    found, plain = decimal.getcontext(), decimal.DefaultContext
    shown = {key: getattr(found, key) for key in _DECIMAL}
    return None if shown == {key: getattr(plain, key) for key in _DECIMAL} else shown


def _set_decimal(value: Any) -> None:
    if value is None and "decimal" not in sys.modules:
        return
    import decimal

    decimal.setcontext(decimal.Context(**value) if value else decimal.DefaultContext.copy())


def _logging() -> Any:
    known = {"": logging.root, **logging.root.manager.loggerDict}
    found = {
        name: (
            logger.level,
            logger.disabled,
            logger.propagate,
            [_handler(each) for each in logger.handlers if type(each) is not logging.NullHandler],
        )
        for name, logger in list(known.items())
        if isinstance(logger, logging.Logger)
    }
    plain: tuple[Any, ...] = (logging.NOTSET, False, True, [])
    return logging.root.manager.disable, {
        name: how for name, how in sorted(found.items()) if how != plain
    }


def handed_to_logging() -> frozenset[int]:
    """Return the identities of what handlers write into: whoever logs, or prints, changes it."""
    found: set[int] = set()
    loggers = [logging.root, *list(logging.root.manager.loggerDict.values())]
    for logger in loggers:
        for handler in getattr(logger, "handlers", ()):
            found.add(id(handler))
            found.update(id(each) for each in vars(handler).values() if _may_be_changed(each))
    for stream in streams.replacements():
        parts = getattr(stream, "__dict__", {}).values()
        found.update(id(each) for each in (stream, *parts) if _may_be_changed(each))
    return frozenset(found)


def _may_be_changed(value: Any) -> bool:
    if streams.own_name(value) is not None:
        return False
    return not isinstance(value, str | int | float | tuple | type | None)


def _handler(handler: logging.Handler) -> tuple[Any, ...]:
    formatter = handler.formatter
    shape = (formatter._fmt, formatter.datefmt) if formatter is not None else None
    stream = getattr(handler, "stream", None)
    name = getattr(stream, "name", None)
    return (
        type(handler).__qualname__,
        handler.level,
        shape if formatter is None or type(formatter) is logging.Formatter else repr(formatter),
        name if isinstance(name, str) else type(stream).__name__,
        getattr(handler, "baseFilename", None),
        len(handler.filters),
    )


def _patched_builtins(namespace: dict[str, Any]) -> Callable[[], Any]:
    start = dict(vars(builtins))
    quiet = dict.fromkeys(_BUILTIN_NOISE)

    def now() -> dict[str, str] | None:
        found: dict[str, str] = {}
        if {**vars(builtins), **quiet} == {**start, **quiet}:
            return None
        for name, value in vars(builtins).items():
            if name not in _BUILTIN_NOISE and start.get(name, start) is not value:
                found[name] = value_digest(namespace, value)
        return found or None

    return now


def _shell(shell: Any) -> dict[str, Any]:
    magics = {
        f"{kind} {name}": value_digest(shell.user_ns, function)
        for kind, found in shell.magics_manager.magics.items()
        for name, function in found.items()
        if getattr(function, "__module__", "") == "__main__"
    }
    plain = shell.display_formatter.formatters["text/plain"]
    return {
        "magics": magics,
        "floats": plain.float_format,
        "pretty": plain.pprint,
        "shown": shell.ast_node_interactivity,
        "compiler": getattr(shell.compile, "flags", None),
        "tracebacks": shell.InteractiveTB.mode,
        "callbacks": _callbacks(shell),
        "transformers": [repr(type(each)) for each in shell.ast_transformers],
        "formatters": _formatters(shell),
        "figures": _figure_formats(),
    }


def _load_extensions(shell: Any, names: Iterable[str]) -> None:
    for name in names:
        if name not in shell.extension_manager.loaded:
            shell.extension_manager.load_extension(name)


def _callbacks(shell: Any) -> list[str]:
    return [
        f"{event} {getattr(each, '__qualname__', repr(each))}"
        for event, found in shell.events.callbacks.items()
        for each in found
        if not str(getattr(each, "__module__", "")).startswith(
            ("IPython.", "ipykernel.", "matplotlib")
        )
    ]


def _formatters(shell: Any) -> list[str]:
    """Return for which types a cell has set how they are shown; libraries' own do not count."""
    return sorted(
        f"{mime} {kind.__module__}.{kind.__qualname__}"
        for mime, formatter in shell.display_formatter.formatters.items()
        for kind, function in formatter.type_printers.items()
        if getattr(function, "__module__", None) == "__main__"
    )


def _figure_formats() -> Any:
    config = sys.modules.get("matplotlib_inline.config")
    if config is None or not config.InlineBackend.initialized():
        return None
    backend = config.InlineBackend.instance()
    found = (
        sorted(backend.figure_formats),
        backend.close_figures,
        dict(backend.print_figure_kwargs),
    )
    return None if found == (["png"], True, {"bbox_inches": "tight"}) else found
