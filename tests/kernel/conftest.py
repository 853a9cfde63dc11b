"""What holds for every test that has a kernel."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlmnb.replay import warm


@pytest.fixture(autouse=True)
def no_kernel_is_left(root: Path) -> Iterator[None]:
    """End the kernels that stay warm: each would for half an hour."""
    yield
    for each in warm.running():
        with contextlib.suppress(ProcessLookupError):
            os.kill(each.pid, signal.SIGKILL)
