"""What libraries keep for themselves and cells rely on: options, handlers, patches, extensions.

Each entry says how a library differs from what it is when it has just been imported, None if it
does not. Where what was set can be set again, that is told too.
"""

from __future__ import annotations

import builtins
import contextvars
import importlib
import logging
import sys
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from rlmnb.graph.ambient import state_of
from rlmnb.kernel import streams
from rlmnb.kernel.canonical import value_digest
from rlmnb.kernel.identity import identity
from rlmnb.kernel.sight import option_of_numpy, option_of_pandas

_Put = Callable[[Any], None] | None
_Entry = (
    tuple[str, Callable[[], Any], _Put] | tuple[str, Callable[[], Any], _Put, Callable[[], None]]
)
# Set by IPython and its display hook, cell by cell.
_BUILTIN_NOISE = frozenset({"_", "__IPYTHON__", "display", "get_ipython", "input", "breakpoint"})
_DECIMAL = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")
_BACKEND = "matplotlib_inline.backend_inline"
_PLAIN_TEXT = ("float_format", "pprint")
# Settings that are told of key by key.
_PANDAS = ("$pandas", "$pandas.modes")
_NUMPY = ("$numpy", "$numpy.print")
WITH_KEYS = frozenset({*_NUMPY, *_PANDAS, "$matplotlib", "$decimal", "$shell", "$inline"})
_INLINE = (f"module://{_BACKEND}", "inline")


def facets(shell: Any) -> Iterable[_Entry]:
    """Yield the name of each, how to look at it, and how to put it back."""
    for state in _NUMPY:
        yield state, partial(_numpy, state), partial(_set_numpy, state)
    for state in _PANDAS:
        yield state, partial(_pandas, state), partial(_set_pandas, state)
    yield "$matplotlib", _matplotlib, _set_matplotlib
    yield "$decimal", _decimal, _set_decimal
    yield "$logging", _changed(_logging), None, _reset_logging()
    if shell is not None:
        yield "$directories", *_directories(shell.user_ns.get("_dh", []))
        for state, is_one in (("$autoreload", True), ("$extensions", False)):
            now = partial(_loaded, shell, autoreload=is_one)
            yield state, _changed(now), lambda value: _load_extensions(shell, value or ())
        yield "$inline", lambda: _other_than(_FRESH_INLINE, _inline_settings()), None
        fresh, configured = _shell(shell), _configured(shell)
        yield (
            "$shell",
            lambda: {
                **(_other_than(fresh, _shell(shell)) or {}),
                **dict(_configured(shell).items() - configured.items()),
            },
            None,
        )


def _changed(look: Callable[[], Any]) -> Callable[[], Any]:
    start = look()

    def now() -> Any:
        found = look()
        return None if found == start else found

    return now


def _numpy(state: str) -> Any:
    numpy = sys.modules.get("numpy")
    if numpy is None or not hasattr(numpy, "get_printoptions"):
        return None
    found = _other_than(_FRESH_NUMPY, _numpy_settings(numpy)) or {}
    return {key: each for key, each in found.items() if _is_of(state, key)} or None


def _is_of(state: str, option: str) -> bool:
    return state_of(option_of_numpy(option)) == state


# What numpy's settings are at import; what a newer version adds counts as untouched.
_FRESH_NUMPY = {
    "print.edgeitems": 3, "print.threshold": 1000, "print.floatmode": "maxprec",
    "print.precision": 8, "print.suppress": False, "print.linewidth": 75, "print.nanstr": "nan",
    "print.infstr": "inf", "print.sign": "-", "print.formatter": None, "print.legacy": False,
    "print.override_repr": None,
    "error.divide": "warn", "error.over": "warn", "error.under": "ignore", "error.invalid": "warn",
    "call": None,
}  # fmt: skip


def _numpy_settings(numpy: Any) -> dict[str, Any]:
    printing = {f"print.{key}": value for key, value in numpy.get_printoptions().items()}
    errors = {f"error.{key}": value for key, value in numpy.geterr().items()}
    return {**printing, **errors, "call": numpy.geterrcall()}


def _other_than(fresh: dict[str, Any], now: dict[str, Any]) -> dict[str, Any] | None:
    return {key: value for key, value in now.items() if value != fresh.get(key, value)} or None


def _set_numpy(state: str, value: Any) -> None:
    if value is None and "numpy" not in sys.modules:
        return
    import numpy

    now = _numpy_settings(numpy)
    fresh = {key: _FRESH_NUMPY.get(key, each) for key, each in now.items() if _is_of(state, key)}
    wanted = now | fresh | (value or {})

    def of(kind: str) -> dict[str, Any]:
        return {key[6:]: each for key, each in wanted.items() if key.startswith(kind)}

    numpy.seterrcall(wanted["call"])
    numpy.seterr(**of("error."))
    numpy.set_printoptions(**of("print."))


def _pandas(state: str) -> Any:
    config = sys.modules.get("pandas._config.config")
    pandas = sys.modules.get("pandas")
    if config is None or not hasattr(pandas, "get_option"):
        return None
    found = {}
    for key, option in config._registered_options.items():
        place: Any = config._global_config
        for part in key.split("."):
            place = place[part]
        changed = place is not option.defval and place != option.defval
        if changed and state_of(option_of_pandas(key)) == state:
            found[key] = place
    return found or None


def _set_pandas(state: str, value: Any) -> None:
    if value is None and "pandas" not in sys.modules:
        return
    import pandas

    now = _pandas(state) or {}
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


def context_in_force() -> Any:
    """Return the context that decimal goes by, None if nobody has asked for it yet.

    To ask is to make one, here, and not in the copy of the surroundings that a cell may run in.
    """
    for variable, value in contextvars.copy_context().items():
        if variable.name == "decimal_context":
            return value
    return None


def _decimal() -> Any:
    if "decimal" not in sys.modules or context_in_force() is None:
        return None
    import decimal

    return _other_than(_decimal_settings(decimal.DefaultContext), _decimal_settings())


def _decimal_settings(context: Any = None) -> dict[str, Any]:
    import decimal

    context = context if context is not None else decimal.getcontext()
    traps = sorted(each.__name__ for each, on in context.traps.items() if on)
    return {**{key: getattr(context, key) for key in _DECIMAL}, "traps": traps}


def _set_decimal(value: Any) -> None:
    if value is None and context_in_force() is None:
        return
    import decimal

    # Somebody may hold the context: it stays the one that is in force.
    context = decimal.getcontext()
    wanted = _decimal_settings(decimal.DefaultContext) | (value or {})
    traps = wanted.pop("traps")
    for key, each in wanted.items():
        setattr(context, key, each)
    for signal in context.traps:
        context.traps[signal] = signal.__name__ in traps


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
    captures = getattr(logging, "_warnings_showwarning", None) is not None
    return (
        logging.root.manager.disable,
        captures,
        {name: how for name, how in sorted(found.items()) if how != plain},
    )


def _reset_logging() -> Callable[[], None]:
    """Return what sets logging up as it is now, and nothing else."""
    start = {
        logger: (logger.level, logger.disabled, logger.propagate, [*logger.handlers])
        for logger in _loggers()
    }
    disable = logging.root.manager.disable

    def reset() -> None:
        for logger in _loggers():
            fresh: tuple[int, bool, bool, list[Any]] = (logging.NOTSET, False, True, [])
            level, disabled, propagate, handlers = start.get(logger, fresh)
            logger.setLevel(level)
            logger.disabled, logger.propagate = disabled, propagate
            quiet = [each for each in logger.handlers if type(each) is logging.NullHandler]
            logger.handlers[:] = handlers + [each for each in quiet if each not in handlers]
        logging.disable(disable)
        if getattr(logging, "_warnings_showwarning", None) is not None:
            logging.captureWarnings(False)

    return reset


def _loggers() -> list[logging.Logger]:
    known = [logging.root, *logging.root.manager.loggerDict.values()]
    return [each for each in known if isinstance(each, logging.Logger)]


def accessors_of_pandas() -> dict[str, Any]:
    """Return what cells have registered to be an attribute of every series, frame or index."""
    pandas = sys.modules.get("pandas")
    kinds = [getattr(pandas, name, None) for name in ("Series", "DataFrame", "Index")]
    registered = {
        f"pandas.{kind.__name__}.{name}": getattr(vars(kind).get(name), "_accessor", None)
        for kind in kinds
        if kind is not None
        for name in sorted(kind._accessors)
    }
    return {name: each for name, each in registered.items() if _is_a_cells(each)}


def given_to_logging() -> list[Any]:
    """Return what cells have made that takes part when something is logged."""
    loggers = [logging.root, *list(logging.root.manager.loggerDict.values())]
    handlers = [each for logger in loggers for each in getattr(logger, "handlers", ())]
    parts = [each for handler in handlers for each in (handler.formatter, *handler.filters)]
    parts += [each for logger in loggers for each in getattr(logger, "filters", ())]
    return [each for each in [*handlers, *parts] if type(each).__module__ == "__main__"]


def handed_to_logging() -> frozenset[int]:
    """Return the identities of what handlers write into: whoever logs, or prints, changes it."""
    found: set[int] = set()
    loggers = [logging.root, *list(logging.root.manager.loggerDict.values())]
    for logger in loggers:
        for handler in getattr(logger, "handlers", ()):
            found.add(identity(handler))
            found.update(identity(each) for each in vars(handler).values() if _may_be_changed(each))
    for stream in streams.replacements():
        parts = getattr(stream, "__dict__", {}).values()
        found.update(identity(each) for each in (stream, *parts) if _may_be_changed(each))
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


class Builtins:
    """The names that are there without an import, as they were at the start."""

    def __init__(self) -> None:
        self._start = dict(vars(builtins))

    def changed(self) -> dict[str, Any]:
        """Return those that cells have set."""
        quiet = dict.fromkeys(_BUILTIN_NOISE)
        if {**vars(builtins), **quiet} == {**self._start, **quiet}:
            return {}
        return {
            name: value
            for name, value in vars(builtins).items()
            if name not in _BUILTIN_NOISE and self._start.get(name, self) is not value
        }


def _directories(visited: list[Any]) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    """Follow the list of directories that `%cd` has been to, and goes back by."""
    start = list(map(str, visited))

    def now() -> list[str] | None:
        found = list(map(str, visited))
        return None if found == start else found

    def restore(value: list[str] | None) -> None:
        visited[:] = map(type(visited[0]) if visited else str, start if value is None else value)

    return now, restore


def _formatters(shell: Any) -> dict[str, Any]:
    """Return what shows values, by kind; nothing is there before the first one is shown.

    Made before its time, it would not go by what cells have configured until then.
    """
    made = "formatters" in shell.display_formatter._trait_values
    return dict(shell.display_formatter.formatters) if made else {}


def _configured(shell: Any) -> dict[str, str]:
    """Return what was configured, of things that may not be there yet."""
    return {
        f"config.{kind}.{name}": repr(value)
        for kind, settings in shell.config.items()
        for name, value in settings.items()
        if kind != "InlineBackend"  # which is there once anything is drawn
    }


def _plain_text(shell: Any) -> dict[str, Any]:
    """Return how values are shown as text."""
    from IPython.core.formatters import PlainTextFormatter

    kinds = PlainTextFormatter.class_traits()
    used = _formatters(shell).get("text/plain")
    return {
        f"text.{name}": kinds[name].default_value if used is None else getattr(used, name)
        for name in _PLAIN_TEXT
    }


def _shell(shell: Any) -> dict[str, Any]:
    return {
        **_plain_text(shell),
        "shown": shell.ast_node_interactivity,
        "compiler": getattr(shell.compile, "flags", None),
        "tracebacks": shell.InteractiveTB.mode,
        "transformers": [repr(type(each)) for each in shell.ast_transformers],
        **{
            kind: {name: value_digest(shell.user_ns, each) for name, each in found.items()}
            for kind, found in registered(shell).items()
        },
    }


def registered(shell: Any) -> dict[str, dict[str, Any]]:
    """Return the functions that cells have given to the shell; libraries' own do not count."""
    magics = {
        f"{kind} {name}": each
        for kind, found in shell.magics_manager.magics.items()
        for name, each in found.items()
    }
    callbacks = {
        f"{event} {number}": each
        for event, found in shell.events.callbacks.items()
        for number, each in enumerate(found)
    }
    formatters = {
        f"{mime} {kind.__module__}.{kind.__qualname__}": each
        for mime, formatter in _formatters(shell).items()
        for kind, each in formatter.type_printers.items()
    }
    every = {"magics": magics, "callbacks": callbacks, "formatters": formatters}
    return {
        kind: {name: each for name, each in sorted(found.items()) if _is_a_cells(each)}
        for kind, found in every.items()
    }


def _is_a_cells(function: Any) -> bool:
    return getattr(function, "__module__", None) == "__main__"


def _loaded(shell: Any, *, autoreload: bool) -> list[str]:
    """Return the extensions that are there; the one apart does nothing but to local modules."""
    loaded = shell.extension_manager.loaded
    return sorted(name for name in loaded if name.endswith("autoreload") is autoreload)


def _load_extensions(shell: Any, names: Iterable[str]) -> None:
    for name in names:
        if name not in shell.extension_manager.loaded:
            shell.extension_manager.load_extension(name)


# How figures are shown unless somebody wishes otherwise.
_FRESH_INLINE = {
    "figure_formats": ["png"],
    "close_figures": True,
    "print_figure_kwargs": {"bbox_inches": "tight"},
}


def _inline_settings() -> dict[str, Any]:
    config = sys.modules.get("matplotlib_inline.config")
    if config is None or not config.InlineBackend.initialized():
        return {}
    backend = config.InlineBackend.instance()
    return {
        "figure_formats": sorted(backend.figure_formats),
        "close_figures": backend.close_figures,
        "print_figure_kwargs": dict(backend.print_figure_kwargs),
    }
