"""Ports for servers that bind them a while after they were told which."""

from __future__ import annotations

import random
import re
import socket
from pathlib import Path

# Below what the system hands out to connections of its own, which a browser makes by the hundred:
# a free port from there can be somebody's before the server is up.
_FIRST, _LAST = 15_000, 32_000


def unused_port() -> int:
    """Return a port of loopback that nothing is bound to."""
    while True:
        port = random.randint(_FIRST, _LAST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


def lost_its_port(log: Path) -> bool:
    """Tell whether a Jupyter server gave up because somebody else was quicker to bind its port."""
    said = log.read_text(encoding="utf-8")
    return re.search(r"port \d+ is (already in use|not available)", said) is not None
