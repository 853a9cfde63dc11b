"""Start the kernel: `python -m rlmnb.kernel -f CONNECTION_FILE`.

Nothing is imported before the working directory is off the path, so that a `random.py` beside the
notebook is not taken for Python's own; IPython puts it back where it belongs.
"""

import os
import sys

if __name__ == "__main__":
    if sys.path[0] in ("", os.getcwd()):
        del sys.path[0]

    from rlmnb.kernel.app import main

    main()
