"""Which processes run."""

import os


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


def _alive_on_windows(pid: int) -> bool:
    """Ask for a handle: a signal of 0, which only asks elsewhere, interrupts the process there."""
    import ctypes

    kernel = getattr(ctypes, "windll").kernel32  # noqa: B009 - only Windows has it
    handle = kernel.OpenProcess(0x1000, False, pid)  # only to look
    if handle:
        kernel.CloseHandle(handle)
    return bool(handle)
