"""The command that keeps a notebook and its text in step: pair."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict

from rlmnb import indexing, pairing
from rlmnb.cli import text
from rlmnb.errors import InvalidNameError
from rlmnb.pairing import Paired
from rlmnb.store import sessions


def keep_in_step(args: Namespace) -> int:
    """Bring a notebook and its text into step, or with --check say whether they are."""
    if args.check and args.prefer:
        raise InvalidNameError("--check changes nothing, so there is nothing to --prefer")
    place = sessions.find(args.session)
    # Only sources count here: making the index would take far longer than all of this.
    indexing.catch_up(place)
    if args.check:
        paired = pairing.compare(place, args.text)
    else:
        paired = pairing.pair(place, args.text, prefer=args.prefer)
    if args.json:
        text.print_json({"notebook": place.notebook, **asdict(paired)})
    else:
        _tell(paired, place.notebook, place.word)
    return 0 if paired.in_step else 1


def _tell(paired: Paired, notebook: str, word: str) -> None:
    if not paired.in_step:
        text.say(f"{paired.text}: is not in step with {notebook}")
        text.note(f"  run: rlmnb pair {word}")
        return
    for word in ("edited", "added", "deleted"):
        for cell_id in getattr(paired, word):
            text.say(f"{cell_id}  {word} in the notebook")
    if paired.text_written:
        text.say(f"{paired.text}: written")
    if not paired.text_written and not paired.notebook_written:
        text.say(f"{paired.text}: in step")
