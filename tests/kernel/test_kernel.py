"""The kernel behaves as the plain one does in everything but what it notes."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager

pytestmark = pytest.mark.kernel
OURS, PLAIN = "rlmnb.kernel", "ipykernel_launcher"


@contextmanager
def started(module: str, directory: Path) -> Iterator[Any]:
    """Start a kernel and give a client that talks to it."""
    sockets = tempfile.mkdtemp(prefix="plain-", dir="/tmp")
    manager = KernelManager(transport="ipc", connection_file=f"{sockets}/kernel.json")
    manager._kernel_spec = KernelSpec(
        argv=[sys.executable, "-m", module, "-f", "{connection_file}"],
        display_name=module,
        language="python",
    )
    manager.start_kernel(cwd=str(directory))
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        client.manager = manager
        yield client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        shutil.rmtree(sockets, ignore_errors=True)


def run(client: Any, code: str, **options: Any) -> tuple[dict[str, Any], list[tuple[str, Any]]]:
    """Run code; return the reply and what was shown, apart from its busy and idle.

    Where a text is cut in two on its way is a matter of time.
    """
    message = client.execute(code, **options)
    shown: list[tuple[str, Any]] = []
    while True:
        each = client.get_iopub_msg(timeout=60)
        if each["parent_header"].get("msg_id") != message:
            continue
        kind, content = each["msg_type"], each["content"]
        if kind == "status" and content["execution_state"] == "idle":
            break
        if kind in ("stream", "display_data", "execute_result", "error"):
            told = {key: content.get(key) for key in ("name", "text", "data", "ename")}
            if kind == "stream" and shown and shown[-1][1]["name"] == told["name"]:
                shown[-1][1]["text"] += told["text"]
            else:
                shown.append((kind, told))
    while True:
        reply = client.get_shell_msg(timeout=60)
        if reply["parent_header"].get("msg_id") == message:
            return reply, shown


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[Any]:
    with started(OURS, tmp_path) as client:
        yield client


CELLS = [
    "x = 3\nx",
    "%%capture seen\nprint('hidden')",
    "seen.stdout",
    "%precision 3\n1 / 3",
    "import asyncio\nawait asyncio.sleep(0)\n'awaited'",
    "from IPython.display import HTML, display\ndisplay(HTML('<b>x</b>'))",
    "!echo from the shell",
    "import sys\nprint('err', file=sys.stderr)",
    "get_ipython().run_line_magic('who_ls', 'int')",
    "def f(n): return f(n + 1)\ntry:\n    f(0)\nexcept RecursionError:\n    print('deep')",
    "import threading\nthreading.Thread().name",
    "1 / 0",
    "int('x')",
    "class A: pass\n[A.__name__, A.__module__, A.__qualname__]",
    "sorted(name for name in globals() if not name.startswith('_'))",
    "import os\nsorted(key for key in os.environ if key.startswith(('RLMNB', 'PYTHONHASH')))",
    "sys.path[:1] == [''] or '' in sys.path",
    "_",
    "In[-1]",
    "os.stat.__name__, os.path.exists('nowhere'), os.stat in os.supports_follow_symlinks",
]


def test_cells_show_what_they_show_in_a_plain_kernel(tmp_path: Path) -> None:
    outcomes = []
    for module in (PLAIN, OURS):
        with started(module, tmp_path) as client:
            outcomes.append([run(client, cell)[1] for cell in CELLS])
    for cell, theirs, ours in zip(CELLS, *outcomes, strict=True):
        assert ours == theirs, cell


def test_completion_and_inspection_know_the_variables(ours: Any) -> None:
    run(ours, "import collections\nlong_name = 1")
    ours.complete("long_na")
    assert "long_name" in ours.get_shell_msg(timeout=60)["content"]["matches"]
    ours.complete("collections.Ord")
    found = ours.get_shell_msg(timeout=60)["content"]["matches"]
    assert [each for each in found if each.endswith("OrderedDict")]
    ours.inspect("collections.OrderedDict")
    assert "Dictionary" in ours.get_shell_msg(timeout=60)["content"]["data"]["text/plain"]
    ours.is_complete("for i in range(3):")
    assert ours.get_shell_msg(timeout=60)["content"]["status"] == "incomplete"


def test_input_is_asked_of_the_client(ours: Any) -> None:
    message = ours.execute("answer = input('who? ')", allow_stdin=True)
    asked = ours.get_stdin_msg(timeout=60)
    assert asked["content"]["prompt"] == "who? "
    ours.input("Ada")
    while ours.get_shell_msg(timeout=60)["parent_header"].get("msg_id") != message:
        pass
    reply, shown = run(ours, "print(answer)")
    assert shown[0][1]["text"] == "Ada\n"
    assert "answer" in reply["metadata"]["rlmnb"]["reads"]


BUSY = "import time\ny = 2\nprint('begun', flush=True)\ntime.sleep(60)"


def test_an_interrupt_ends_the_cell_and_nothing_else(ours: Any) -> None:
    run(ours, "x = 1")
    message = ours.execute(BUSY, stop_on_error=False)
    while True:
        each = ours.get_iopub_msg(timeout=60)
        if each["msg_type"] == "stream" and each["parent_header"].get("msg_id") == message:
            break
    ours.manager.interrupt_kernel()
    while (reply := ours.get_shell_msg(timeout=60))["parent_header"].get("msg_id") != message:
        pass
    assert reply["content"]["ename"] == "KeyboardInterrupt"
    assert reply["metadata"]["rlmnb"]["failed"]
    assert run(ours, "print(x, y)")[1][0][1]["text"] == "1 2\n"


def test_the_debugger_attaches_and_shows_variables(ours: Any) -> None:
    run(ours, "x = 41")

    def ask(command: str, **arguments: Any) -> Any:
        content = {"type": "request", "seq": 1, "command": command, "arguments": arguments}
        message = ours.session.msg("debug_request", content)
        ours.control_channel.send(message)
        while True:
            reply = ours.get_control_msg(timeout=60)
            if reply["parent_header"].get("msg_id") == message["header"]["msg_id"]:
                return reply["content"]

    assert ask("initialize", clientID="t", adapterID="", pathFormat="path")["success"]
    assert ask("attach")["success"]
    variables = ask("inspectVariables")["body"]["variables"]
    assert [each["value"] for each in variables if each["name"] == "x"] == ["41"]
    assert ask("disconnect", restart=False, terminateDebuggee=False)["success"]


@pytest.mark.parametrize("error", ["KeyboardInterrupt", "SystemExit", "MemoryError", "ValueError"])
def test_an_object_that_raises_when_looked_at_is_no_matter(ours: Any, error: str) -> None:
    code = f"class Odd:\n    def __reduce_ex__(self, p): raise {error}\nodd = Odd()"
    assert run(ours, code)[0]["content"]["status"] == "ok"
    reply, shown = run(ours, "print(type(odd).__name__)")
    assert shown == [("stream", {"name": "stdout", "text": "Odd\n", "data": None, "ename": None})]
    assert "rlmnb" in reply["metadata"]


def test_a_deep_value_does_not_end_the_kernel(ours: Any) -> None:
    deep = "import sys\nsys.setrecursionlimit(10**6)\nd = []\nfor _ in range(200_000):\n    d = [d]"
    assert run(ours, deep)[0]["content"]["status"] == "ok"
    assert run(ours, "print(len(d))")[1][0][1]["text"] == "1\n"


def test_without_a_home_that_can_be_written_cells_run_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLMNB_HOME", "/dev/null/nowhere")
    with started(OURS, tmp_path) as client:
        reply, shown = run(client, "print('here')")
    assert shown[0][1]["text"] == "here\n"
    assert "problem" in reply["metadata"]["rlmnb"]


def test_a_silent_request_leaves_no_trace(ours: Any) -> None:
    message = ours.execute("x = 1", silent=True)
    while (reply := ours.get_shell_msg(timeout=60))["parent_header"].get("msg_id") != message:
        pass
    assert "rlmnb" not in reply["metadata"]
    with pytest.raises(Empty):
        ours.get_shell_msg(timeout=0)
