"""Run the hook from a plugin's directory, whether or not rlmnb is installed.

The directory is not ours to write to, so bytecode goes to the plugin's data; without any, every
hook would compile the package again.
"""

import os
import sys

if __name__ == "__main__":
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    data = os.environ.get("CLAUDE_PLUGIN_DATA") or os.path.join(
        os.path.expanduser("~"), ".cache", "rlmnb"
    )
    sys.dont_write_bytecode = False
    sys.pycache_prefix = os.path.join(data, "pycache")
    sys.path.insert(0, here)
    from rlmnb.hook import run

    run()
