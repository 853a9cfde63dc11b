"""Run what runs on Windows, in one process: `python -m tests.windows`."""

import sys

import pytest

from tests.windows.selection import FILES, TESTS, LeaveOut

if __name__ == "__main__":
    arguments = ["-q", "-p", "no:cacheprovider", "--tb=short", "--durations=8", *sys.argv[1:]]
    sys.exit(pytest.main([*arguments, *FILES, *TESTS], plugins=[LeaveOut()]))
