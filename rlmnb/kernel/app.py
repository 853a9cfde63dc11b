"""The kernel: ipykernel as it is, with a trace of each cell in its reply."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from typing import Any

from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import IPKernelApp

from rlmnb.kernel.hidden import Hidden
from rlmnb.kernel.state import StateStore, load_key
from rlmnb.kernel.tracker import Tracker
from rlmnb.kernel.watch import Watch
from rlmnb.store.layout import sessions_root


class RlmnbKernel(IPythonKernel):
    """A Python kernel that notes what each cell reads and writes."""

    implementation = "rlmnb"

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)  # type: ignore[no-untyped-call]
        self._trace: dict[str, Any] | None = None
        self._tracker: Tracker | None = None

    @property
    def tracker(self) -> Tracker:
        """The tracker, made when the first cell is about to run."""
        if self._tracker is None:
            assert self.shell is not None
            root = sessions_root()
            objects = os.environ.get("RLMNB_OBJECTS") or os.path.join(root, "objects")
            self._tracker = Tracker(
                namespace=self.shell.user_ns,
                store=StateStore(objects, load_key(root)),
                watch=Watch((os.path.realpath(objects) + os.sep,)),
                transform=self.shell.transform_cell,
                hidden=Hidden(self.shell),
                limit=_largest(),
            )
        return self._tracker

    async def do_execute(self, code: str, silent: bool, *args: Any, **options: Any) -> Any:
        """Run a cell between two looks at what it may touch."""
        self._trace = None
        if silent:
            return await super().do_execute(code, silent, *args, **options)  # type: ignore[no-untyped-call]
        tracker = self.tracker
        followed = _quietly(tracker.before, code)
        reply: dict[str, Any] = {}
        try:
            reply = await super().do_execute(code, silent, *args, **options)  # type: ignore[no-untyped-call]
            return reply
        finally:
            if followed is not None:
                self._trace = _quietly(tracker.after, failed=reply.get("status") != "ok")
            if self._trace is None:
                tracker.groups.clear()

    def finish_metadata(self, parent: Any, metadata: Any, reply_content: Any) -> Any:
        """Send the trace along with the reply."""
        metadata = super().finish_metadata(parent, metadata, reply_content)  # type: ignore[no-untyped-call]
        if self._trace is not None:
            metadata["rlmnb"], self._trace = self._trace, None
        return metadata

    def restore_state(self, request: str) -> str:
        """Bring variables to the versions asked for; called through a silent request."""
        asked = json.loads(request)
        return json.dumps(self.tracker.restore(asked["wanted"], asked["absent"]))


def _largest() -> int:
    """Return the size from which variables are made again and not stored: RLMNB_LARGEST_STATE."""
    try:
        return int(os.environ["RLMNB_LARGEST_STATE"])
    except (KeyError, ValueError):
        return Tracker.limit


def _quietly(action: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Do something that must never be in the way of the user's code; None if it cannot be done."""
    try:
        return action(*args, **options) or True
    except Exception:
        logging.getLogger(__name__).exception("a cell could not be followed")
        return None


def main() -> None:
    """Start the kernel."""
    IPKernelApp.launch_instance(kernel_class=RlmnbKernel)


if __name__ == "__main__":
    main()
