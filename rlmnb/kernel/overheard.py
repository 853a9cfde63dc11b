"""Which state a cell asks for: environment variables, options of pandas, how numpy prints.

While the cell runs, something else stands in the place of what holds them. Each key of a dictionary
is asked of the real one, and noted, only the first time.
"""

from __future__ import annotations

import copyreg
import importlib
import os
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from types import FrameType
from typing import Any

from rlmnb.graph.ambient import keyed, state_of
from rlmnb.kernel.sight import option_of_pandas

_Dict = dict[Any, Any]
# Of each state that was listened to, the names of the keys that were asked for; None: all may be.
Heard = dict[str, frozenset[str] | None]


class Stand(_Dict):
    """In the place of a dictionary: what is asked for moves in from there."""

    def __init__(self, real: _Dict) -> None:
        super().__init__()
        self.real = real
        self._on_duty = True
        self.asked: set[Any] = set()
        # Somebody has gone through all of it.
        self.gone_through = False

    def whole(self) -> _Dict:
        """Return all of it, for somebody who does not ask for keys."""
        self.gone_through = True
        return self.real

    def retire(self) -> None:
        """Keep nothing from now on: somebody may go on asking, and the real one changes."""
        self._on_duty = False
        super().clear()

    def __missing__(self, key: Any) -> Any:
        self.asked.add(key)
        value = self.real[key]
        if self._on_duty:
            super().__setitem__(key, value)
        return value

    def __setitem__(self, key: Any, value: Any) -> None:
        self.real[key] = value
        if self._on_duty:
            super().__setitem__(key, value)

    def __delitem__(self, key: Any) -> None:
        self.asked.add(key)
        del self.real[key]
        super().pop(key, None)

    def __contains__(self, key: Any) -> bool:
        self.asked.add(key)
        return key in self.real

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key, as a dictionary does."""
        self.asked.add(key)
        return self.real.get(key, default)

    def pop(self, key: Any, *default: Any) -> Any:
        """Take a key out, as a dictionary does."""
        self.asked.add(key)
        super().pop(key, None)
        return self.real.pop(key, *default)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.whole())

    def __reversed__(self) -> Iterator[Any]:
        return reversed(self.whole())

    def __len__(self) -> int:
        return len(self.whole())

    def __repr__(self) -> str:
        return repr(self.whole())

    __hash__ = None

    def __eq__(self, other: object) -> bool:
        return self.whole() == other

    def __ne__(self, other: object) -> bool:
        return self.whole() != other

    def __or__(self, other: Any) -> Any:
        return self.whole() | other

    def __ror__(self, other: Any) -> Any:
        return other | self.whole()

    def __ior__(self, other: Any) -> Any:
        self.update(other)
        return self

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return dict, (dict(self.whole()),)

    def copy(self) -> _Dict:
        """Return a plain dictionary."""
        return self.whole().copy()

    def keys(self) -> Any:
        """Return all keys."""
        return self.whole().keys()

    def values(self) -> Any:
        """Return all values."""
        return self.whole().values()

    def items(self) -> Any:
        """Return all of it."""
        return self.whole().items()

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key, set first if it is not there."""
        self.asked.add(key)
        return self.real.setdefault(key, default)

    def update(self, *args: Any, **named: Any) -> None:
        """Set many."""
        for key, value in dict(*args, **named).items():
            self[key] = value

    def popitem(self) -> tuple[Any, Any]:
        """Take out any of it."""
        super().clear()
        return self.whole().popitem()

    def clear(self) -> None:
        """Take out all of it."""
        super().clear()
        self.whole().clear()


class Environment:
    """Listens to who asks for variables of the environment."""

    state = "$environ"

    def __init__(self) -> None:
        self._stand: Stand | None = None
        self._places: list[Any] = []

    def listen(self) -> None:
        """Begin to listen."""
        self.heard()
        real = getattr(os.environ, "_data", None)
        if type(real) is dict:
            self._stand = Stand(real)
            self._places = [os.environ, getattr(os, "environb", None)]
            self._put(real, self._stand)

    def heard(self) -> frozenset[str] | None:
        """Stop to listen, and return what was asked for."""
        stand, self._stand = self._stand, None
        if stand is None:
            return None
        self._put(stand, stand.real)
        stand.retire()
        if stand.gone_through:
            return None
        decode = getattr(os.environ, "decodekey", os.fsdecode)
        return frozenset(keyed(self.state, decode(key)) for key in stand.asked)

    def _put(self, old: _Dict, new: _Dict) -> None:
        for place in self._places:  # a cell may have set others since
            if getattr(place, "_data", None) is old:
                place._data = new


class OptionsOfPandas:
    """Listens to who asks for options of pandas, but for those that nobody has to ask for."""

    state = "$pandas"

    def __init__(self) -> None:
        self._stands: dict[str, Stand] = {}

    def listen(self) -> None:
        """Begin to listen."""
        self.heard()
        config = _config_of_pandas()
        if config is not None and hasattr(config, "DictWrapper"):
            copyreg.pickle(config.DictWrapper, _by_path)
        for section, real in config._global_config.items() if config is not None else ():
            if type(real) is dict and state_of(option_of_pandas(section)) == self.state:
                self._stands[section] = Stand(real)
        if self._stands:
            config._global_config.update(self._stands)

    def heard(self) -> frozenset[str] | None:
        """Stop to listen, and return what was asked for."""
        stands, self._stands = self._stands, {}
        config = _config_of_pandas()
        if not stands or config is None:
            return None
        for section, stand in stands.items():
            if config._global_config.get(section) is stand:
                config._global_config[section] = stand.real
            stand.retire()
        if any(stand.gone_through for stand in stands.values()):
            return None
        asked = {f"{section}.{key}." for section, stand in stands.items() for key in stand.asked}
        # An option, or all of those below.
        options = [
            option
            for option in config._registered_options
            if any(f"{option}.".startswith(each) for each in asked)
        ]
        return frozenset(map(option_of_pandas, options))


class PrintingOfNumpy:
    """Listens to who asks how arrays are to be printed."""

    state = "$numpy.print"

    def __init__(self) -> None:
        self._stand: _Options | None = None

    def listen(self) -> None:
        """Begin to listen."""
        self.heard()
        printing = vars(sys.modules.get("numpy._core.arrayprint", self))
        if isinstance(real := printing.get("format_options"), ContextVar):
            printing["format_options"] = self._stand = _Options(real)

    def heard(self) -> frozenset[str] | None:
        """Stop to listen, and return that nothing was asked for, or that all may have been."""
        stand, self._stand = self._stand, None
        if stand is None:
            return None
        printing = vars(sys.modules.get("numpy._core.arrayprint", self))
        still_there = printing.get("format_options") is stand
        if still_there:
            printing["format_options"] = stand.real
        return None if stand.asked else frozenset()


class _Options:
    """In the place of what holds how arrays are printed; it has no keys of its own."""

    def __init__(self, real: ContextVar[Any]) -> None:
        self.real = real
        self.asked = False

    def __getattr__(self, name: str) -> Any:
        self.asked = self.asked or name == "get"
        return getattr(self.real, name)


def _by_path(options: Any) -> tuple[Any, ...]:
    """Tell of some of pandas' options where they are to be found: they are the same for all."""
    return options_at, (object.__getattribute__(options, "prefix"),)


def options_at(path: str) -> Any:
    """Return pandas' options of this kind: `display`."""
    found = importlib.import_module("pandas").options
    for part in path.split(".") if path else ():
        found = getattr(found, part)
    return found


def _config_of_pandas() -> Any:
    """Return the module that holds the options, None before pandas is there."""
    config = sys.modules.get("pandas._config.config")
    known = type(getattr(config, "_global_config", None)) is dict
    return config if known and hasattr(sys.modules.get("pandas"), "get_option") else None


def is_for_a_terminal(frame: FrameType) -> bool:
    """Tell whether a process is forked off only to run a command in a terminal of its own."""
    return os.path.basename(frame.f_code.co_filename) == "pty.py"


class Listeners:
    """All of them."""

    def __init__(self) -> None:
        self._all = (Environment(), OptionsOfPandas(), PrintingOfNumpy())
        # A process was forked off since.
        self.forked = False
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self._note_fork)

    def _note_fork(self) -> None:
        # What is about to be another program asks nothing of ours.
        self.forked = self.forked or not is_for_a_terminal(sys._getframe(1))

    def listen(self) -> None:
        """Begin to listen."""
        self.forked = False
        for each in self._all:
            each.listen()

    def heard(self) -> Heard:
        """Stop to listen, and return what was asked for, as far as it is known.

        What a process asks for that was forked off meanwhile, nobody hears.
        """
        found: Heard = {each.state: each.heard() for each in self._all}
        return dict.fromkeys(found) if self.forked else found
