"""Which processes run, and what one of our own does without."""

import os
import sys


def is_alive(pid: int) -> bool:
    """Tell whether a process of this number runs."""
    if pid <= 0:
        return False
    if os.name == "nt":
        return _alive_on_windows(pid)
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def import_lightly() -> None:
    """Leave out what no command needs and nbformat would bring; for processes that are ours alone.

    Where a Jupyter server is installed, jsonschema can check international addresses, and prepares
    for a second, whenever it is imported, to do so.
    """
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]


def _alive_on_windows(pid: int) -> bool:
    """Ask for a handle: a signal of 0, which only asks elsewhere, interrupts the process there."""
    import ctypes

    kernel = getattr(ctypes, "windll").kernel32  # noqa: B009 - only Windows has it
    handle = kernel.OpenProcess(0x1000, False, pid)  # only to look
    if handle:
        kernel.CloseHandle(handle)
    return bool(handle)
