"""Start the kernel: `python -m rlmnb.kernel -f CONNECTION_FILE`.

Nothing is imported before the working directory is off the path, so that a `random.py` beside the
notebook is not taken for Python's own; IPython puts it back where it belongs.
"""

import os
import sys


def leave_out_the_debugger() -> None:
    """Tell ipykernel that there is none: loading it takes a quarter of a kernel's start."""
    sys.modules["debugpy"] = None  # type: ignore[assignment]
    import ipykernel.debugger  # noqa: F401 - it looks for one once

    del sys.modules["debugpy"]


if __name__ == "__main__":
    if sys.path[0] in ("", os.getcwd()):
        del sys.path[0]

    if "RLMNB_OBJECTS" in os.environ:  # a kernel for replays, in which nobody stops a cell
        leave_out_the_debugger()

    from rlmnb.kernel.app import main

    main()
