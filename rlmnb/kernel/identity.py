"""Which object is which, asked in silence.

Python tells whoever listens for files of each call of `id`, and there is always a listener here:
what takes a few nanoseconds elsewhere takes a microsecond, for each object of a large value.
"""

from __future__ import annotations

from collections.abc import Callable

# Made of the address alone, and different wherever that is; whatever a class says of its hash.
identity: Callable[[object], int] = object.__hash__
