"""What JupyterLab does around a kernel: run a cell of its buffer, keep its outputs, save."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.manager import KernelManager

from rlmnb.files import polls
from tests.conftest import save_like_lab

PATIENCE = 60


class Lab:
    """A notebook that is open in a browser, with a kernel of the installed kernelspec `rlmnb`."""

    def __init__(self, path: str | Path, name: str = "rlmnb") -> None:
        self.path = Path(path).absolute()
        self.open()
        self._sockets = tempfile.mkdtemp(prefix="lab-", dir="/tmp")
        self._name = name
        # All that the stream at the end of the outputs was sent.
        self._sent = ""
        self._clear_next = False
        self._displays: dict[str, list[tuple[str, int]]] = {}
        self._start()

    def _start(self) -> None:
        self.manager = KernelManager(
            kernel_name=self._name,
            transport="ipc",
            connection_file=f"{self._sockets}/kernel.json",
        )
        env = {**os.environ, "JPY_SESSION_NAME": str(self.path)}
        self.manager.start_kernel(env=env, cwd=str(self.path.parent))
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=PATIENCE)

    # the buffer

    def open(self) -> None:
        """Read the notebook into the buffer."""
        self.buffer: dict[str, Any] = nbformat.read(self.path, 4)

    def cell(self, cell_id: str) -> dict[str, Any]:
        return next(cell for cell in self.buffer["cells"] if cell["id"] == cell_id)

    def edit(self, cell_id: str, source: str) -> None:
        self.cell(cell_id)["source"] = source

    def insert(self, cell_id: str, source: str, at: int) -> None:
        self.buffer["cells"].insert(at, nbformat.v4.new_code_cell(source, id=cell_id))

    def save(self) -> None:
        """Truncate and write in place, as jupyter_server does."""
        save_like_lab(self.path, copy.deepcopy(self.buffer))

    # the kernel

    def run(self, *cell_ids: str, typing: str | None = None) -> list[str]:
        """Run cells with Shift-Enter; all of the buffer's without ids. Return how each ended."""
        code = [cell["id"] for cell in self.buffer["cells"] if cell["cell_type"] == "code"]
        return [self._run(self.cell(each), typing) for each in cell_ids or code]

    def _run(self, cell: dict[str, Any], typing: str | None) -> str:
        request = self.send(cell)
        cell["outputs"] = []
        self._clear_next = False
        return self.hear(cell, request, typing)

    def send(self, cell: dict[str, Any]) -> str:
        """Send the request that Lab sends: with all of the cell's metadata, and its id."""
        content = {
            "code": cell["source"],
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": True,
            "stop_on_error": True,
        }
        message = self.client.session.msg("execute_request", content)
        message["metadata"] = {
            **json.loads(json.dumps(cell["metadata"])),
            "cellId": cell["id"],
            "deletedCells": [],
            "recordTiming": False,
            "trusted": True,
        }
        self.client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    def hear(self, cell: dict[str, Any], request: str, typing: str | None = None) -> str:
        """Take in what comes until the kernel is idle again."""
        while True:
            if typing is not None:
                with contextlib.suppress(Exception):
                    asked = self.client.get_stdin_msg(timeout=0.05)["content"]
                    self.client.input(typing)
                    text = f"{asked['prompt']} {'········' if asked['password'] else typing}\n"
                    self._add(cell, {"output_type": "stream", "name": "stdin", "text": text})
            try:
                message = self.client.get_iopub_msg(timeout=0.05 if typing else PATIENCE)
            except Exception:
                if typing is None:
                    raise
                continue
            if message["parent_header"].get("msg_id") != request:
                continue
            if message["content"].get("execution_state") == "idle":
                break
            self.take_in(cell, message["msg_type"], message["content"])
        while True:
            reply = self.client.get_shell_msg(timeout=PATIENCE)
            if reply["parent_header"].get("msg_id") == request:
                break
        cell["execution_count"] = reply["content"].get("execution_count")
        for page in [each for each in reply["content"].get("payload", ()) if "data" in each][:1]:
            shown = {"output_type": "display_data", "data": page["data"], "metadata": {}}
            self._add(cell, shown)
        return str(reply["content"]["status"])

    def take_in(self, cell: dict[str, Any], kind: str, content: dict[str, Any]) -> None:
        """Show what a message brings."""
        content = dict(content)
        display_id = (content.pop("transient", None) or {}).get("display_id")
        if kind == "clear_output":
            self._clear_next = bool(content["wait"])
            if not self._clear_next:
                cell["outputs"] = []
        elif kind == "update_display_data":
            for cell_id, at in self._displays.get(display_id, ()):
                self.cell(cell_id)["outputs"][at] = {"output_type": "display_data", **content}
        elif kind in ("stream", "display_data", "execute_result", "error"):
            self._add(cell, {"output_type": kind, **content}, display_id)

    def _add(self, cell: dict[str, Any], output: dict[str, Any], display_id: str | None = None):
        if self._clear_next:
            cell["outputs"], self._clear_next = [], False
        last = cell["outputs"][-1] if cell["outputs"] else {}
        if output["output_type"] == "stream":
            joined = last.get("output_type") == "stream" and last["name"] == output["name"]
            self._sent = (self._sent if joined else "") + output["text"]
            if joined:
                last["text"] = _as_on_a_terminal(self._sent)
                return
            output = {**output, "text": _as_on_a_terminal(self._sent)}
        if display_id is not None:
            self._displays.setdefault(display_id, []).append((cell["id"], len(cell["outputs"])))
        cell["outputs"].append(output)

    def silently(self, code: str) -> None:
        """Have the kernel do something as a variable inspector does."""
        self.client.execute_interactive(code, silent=True, timeout=PATIENCE)

    def restart(self) -> None:
        """Restart the kernel: a new process with nothing in it."""
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=False)
        self._start()

    def kill(self) -> None:
        """End the kernel as a crash would."""
        assert self.manager.provisioner is not None
        os.kill(self.manager.provisioner.pid, signal.SIGKILL)
        assert any(not self.manager.is_alive() for _ in polls(20))

    def close(self) -> None:
        self.client.stop_channels()
        with contextlib.suppress(Exception):
            self.manager.shutdown_kernel(now=False)
        shutil.rmtree(self._sockets, ignore_errors=True)


def _as_on_a_terminal(text: str) -> str:
    """Let what follows a carriage return overwrite the line; enough of it for the tests."""
    lines = []
    for line in text.split("\n"):
        shown = ""
        for piece in line.split("\r"):
            shown = piece + shown[len(piece) :]
        lines.append(shown)
    return "\n".join(lines)


@contextlib.contextmanager
def opened(path: str | Path, name: str = "rlmnb") -> Iterator[Lab]:
    """Have a notebook open for a while; its kernel ends with the block."""
    lab = Lab(path, name)
    try:
        yield lab
    finally:
        lab.close()
