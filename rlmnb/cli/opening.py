"""The command that opens a session in JupyterLab."""

from __future__ import annotations

import webbrowser
from argparse import Namespace
from dataclasses import asdict

from rlmnb.cli import text
from rlmnb.cli.reading import opened
from rlmnb.lab.opening import shown_at


def open_in_lab(args: Namespace) -> int:
    """Start or find a JupyterLab that shows the session, and print the address."""
    session = opened(args)
    shown = shown_at(session.place)
    if args.json:
        text.print_json({"session": session.id, **asdict(shown)})
    else:
        text.say(shown.url)
        word = "started" if shown.started else "found"
        text.note(f"{word} JupyterLab (process {shown.pid}) in {shown.root}")
    if not args.no_browser and not args.json:
        webbrowser.open(shown.url)
    return 0
