"""One replay in a process of its own, for a server that must go on answering meanwhile.

What to do comes as a line of JSON on standard input; what happens goes out as lines of JSON, each
an event and its data. When standard input ends, whoever asked has gone: the replay is interrupted,
and what was done by then is kept.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from typing import Any

from rlmnb.errors import RlmnbError
from rlmnb.processes import import_lightly
from rlmnb.replay.planning import asked_for
from rlmnb.replay.run import replay
from rlmnb.session import Session
from rlmnb.store.layout import notebook_place

# Others that replay the same session are seen before; this is for those that just began.
_PATIENCE = 5.0


def main() -> int:
    """Replay what was asked for, telling of each cell."""
    # A server that was started in the background has its children deaf to this.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    import_lightly()
    asked = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_whoever_asked, daemon=True).start()
    try:
        report = _replay(asked)
    except RlmnbError as error:
        _tell("error", message=error.message, hint=error.hint)
        return error.exit_code
    except KeyboardInterrupt:
        _tell("error", message="the replay was interrupted", hint="what had run by then is kept")
        return 130
    _tell("done", **report)
    return 0


def _replay(asked: dict[str, Any]) -> dict[str, Any]:
    session = Session(notebook_place(asked["notebook"]))
    only = asked_for(session, asked["selector"])[0] if asked["selector"] else None

    def tell(cell_id: str, _: int, state: str) -> None:
        if cell_id:
            _tell("progress", cell_id=cell_id, state=state)
        else:
            _tell("note", message=state)

    report = replay(
        session,
        only=only,
        allow_effects=asked["allow_effects"],
        keep_kernel=asked["keep_kernel"],
        patience=_PATIENCE,
        tell=tell,
    )
    return report.as_dict()


def _tell(event: str, **told: Any) -> None:
    try:
        sys.stdout.write(json.dumps([event, told]) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        return  # nobody listens any more; standard input tells of that, too


def _end_with_whoever_asked() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    code = main()
    # The thread at standard input would hold up an orderly end.
    sys.stdout.flush()
    os._exit(code)
