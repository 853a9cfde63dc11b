"""Which processes run, an end for those that must not, and what one of our own does without."""

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


def end(pid: int) -> None:
    """End a process that does not listen any more; one that is gone already is fine."""
    import signal

    # Windows knows no SIGKILL: any other signal ends a process there, and at once.
    try:
        os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))
    except OSError:
        if is_alive(pid):
            raise


def _alive_on_windows(pid: int) -> bool:
    """Ask for a handle: a signal of 0, which only asks elsewhere, interrupts the process there."""
    import ctypes

    kernel = getattr(ctypes, "windll").kernel32  # noqa: B009 - only Windows has it
    handle = kernel.OpenProcess(0x100000, False, pid)  # only to wait for it
    if not handle:
        return False
    try:
        # A process that has ended is there until the last handle of it is closed.
        return bool(kernel.WaitForSingleObject(handle, 0) == 0x102)  # "not yet"
    finally:
        kernel.CloseHandle(handle)
