"""Commands that cells have the shell run (`!touch {name}`), as they are when their time has come.

The shell runs them in a terminal of its own, of which no event tells.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

_RUNNING = ("system_piped", "system_raw")


def hear_commands(shell: Any, told: Callable[[str], None]) -> None:
    """Be told of each command when the variables it names have been put in."""
    expand = shell.var_expand

    def heard(command: Any, depth: int = 0, *rest: Any, **named: Any) -> Any:
        text = expand(command, depth + 1, *rest, **named)
        if isinstance(text, str) and sys._getframe(1).f_code.co_name in _RUNNING:
            told(text)
        return text

    shell.var_expand = heard
