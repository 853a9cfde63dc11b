"""Commands that explain: complexity, export, blame."""

from __future__ import annotations

import sys
from argparse import Namespace

from rlmnb.capture.complexity import THRESHOLD, complexity_of
from rlmnb.cli import text


def complexity(args: Namespace) -> int:
    """Say how much a prompt asks for, and why."""
    prompt = sys.stdin.read() if args.prompt == "-" else args.prompt
    judged = complexity_of(prompt)
    if args.json:
        text.print_json({**judged.as_dict(), "complex": judged.score >= THRESHOLD})
        return 0
    word = "complex" if judged.score >= THRESHOLD else "simple"
    text.say(f"{judged.score:.2f}  {word} (complex from {THRESHOLD:g})")
    for why, share in judged.reasons:
        text.say(f"  +{share:.2f}  {why}")
    return 0
