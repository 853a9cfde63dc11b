"""The command line, forked off a process that has loaded what it loads.

Starting Python and importing the same modules again is most of what a command costs, and the tests
run a thousand of them. Run as `python -m tests.commands SOCKET`, this loads them, and then becomes
a command for each request that it reads. What is out of the ordinary is started as people start it.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import random
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import time
from typing import Any

from tests.nursery import MODELS, ROOT, load_models, settle

_LONGEST_REQUEST = 1 << 20
_PIPE = 1 << 16
# Many are loaded at once when tests begin; how long that takes is no command's fault.
_LOADING_SECONDS = 300
# What Python looks at when it starts, and no later.
_OF_PYTHON = ("PYTHON", "LC_", "LANG")


def run_command(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own."""
    options = {"timeout": 60, **options}
    given = options.get("input") or ""
    usual = options.keys() <= {"timeout", "input", "cwd"} and len(given.encode()) < _PIPE
    if usual and os.name != "nt" and _environment_of_python() == _ENVIRONMENT:
        return _forked(arguments, given, options.get("cwd") or os.getcwd(), options["timeout"])
    command = [sys.executable, "-m", "rlmnb", *arguments]
    return subprocess.run(command, capture_output=True, text=True, **options)


def _environment_of_python() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith(_OF_PYTHON)}


_ENVIRONMENT = _environment_of_python()
_SERVERS: dict[bool, socket.socket] = {}


def _server() -> socket.socket:
    models = MODELS in os.environ
    if models not in _SERVERS:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.commands", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd=ROOT,
                pass_fds=[theirs.fileno()],
            )
        atexit.register(process.wait)
        atexit.register(ours.close)
        ours.settimeout(_LOADING_SECONDS)
        if not ours.recv(1):
            raise RuntimeError("the process that becomes commands has ended while it was loading")
        ours.settimeout(None)
        _SERVERS[models] = ours
    return _SERVERS[models]


def _forked(
    arguments: tuple[str, ...], given: str, cwd: str, timeout: float
) -> subprocess.CompletedProcess[str]:
    asked = {
        "arguments": list(map(os.fspath, arguments)),
        "cwd": os.path.abspath(cwd),
        "env": dict(os.environ),
    }
    server = _server()
    # The standard streams, and how it ended.
    pipes = [os.pipe() for _ in range(4)]
    theirs = [pipes[0][0], *(write for _, write in pipes[1:])]
    os.write(pipes[0][1], given.encode())
    os.close(pipes[0][1])
    socket.send_fds(server, [json.dumps(asked).encode()], theirs)
    for end in theirs:
        os.close(end)
    ours = [read for read, _ in pipes[1:]]
    try:
        out, err, how = _read(ours, time.monotonic() + timeout)
    finally:
        for end in ours:
            os.close(end)
    _, code = how.split()
    return subprocess.CompletedProcess(["rlmnb", *arguments], int(code), out, err)


def _read(ends: list[int], until: float) -> list[str]:
    read = dict.fromkeys(ends, b"")
    with selectors.DefaultSelector() as selector:
        for end in ends:
            selector.register(end, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0, until - time.monotonic()))
            if not ready:
                if told := read[ends[-1]].split():
                    os.kill(int(told[0]), signal.SIGKILL)
                raise subprocess.TimeoutExpired("rlmnb", 0, *(read[end] for end in ends[:2]))
            for key, _ in ready:
                piece = os.read(key.fd, _PIPE)
                read[key.fd] += piece
                if not piece:
                    selector.unregister(key.fd)
    return [text.decode().replace("\r\n", "\n") for text in read.values()]


def _load() -> None:
    """Import all that a command may import of ours, and so what that imports of others."""
    for name in ("rlmnb.cli", "rlmnb.replay", "rlmnb.picture", "rlmnb.comparing"):
        for module in pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}."):
            importlib.import_module(module.name)
    load_models()
    gc.collect()
    gc.freeze()


def _serve(requests: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Answer until it is a child that goes on: what it is to be is returned there."""
    # Nobody waits for those who wait for the commands.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        text, ends, _, _ = socket.recv_fds(requests, _LONGEST_REQUEST, 4)
        if not text:
            raise SystemExit
        if not os.fork():
            requests.close()
            return json.loads(text), ends
        for end in ends:
            os.close(end)


def _become(asked: dict[str, Any], ends: list[int]) -> None:
    """Be a command in a child, and wait for it here."""
    *streams, how = ends
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if child := os.fork():
        for end in streams:
            os.close(end)
        os.write(how, f"{child} ".encode())
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.write(how, str(code).encode())
        os._exit(0)
    for number, end in enumerate(streams):
        os.dup2(end, number)
    for end in ends:
        os.close(end)
    _open_streams()
    settle(asked)
    # All children would have the same chance.
    random.seed()


def _open_streams() -> None:
    """Have Python look anew at what its streams are: those that it has were opened for others."""
    for number, (name, mode) in enumerate({"stdin": "r", "stdout": "w", "stderr": "w"}.items()):
        old = getattr(sys, name)
        lines = 1 if name == "stderr" else -1
        new = open(number, mode, lines, old.encoding, old.errors, closefd=False)  # noqa: SIM115
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv.pop(1))) as _requests:
        del sys.path[0]
        _load()
        _requests.send(b"!")
        _become(*_serve(_requests))
    runpy.run_module("rlmnb", run_name="__main__", alter_sys=True)
