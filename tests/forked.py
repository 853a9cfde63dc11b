"""How jupyter_client is given kernels of a nursery in place of new processes."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint
from typing import Any

from jupyter_client.provisioning import KernelProvisionerFactory, LocalProvisioner

from tests.nursery import MODELS, ROOT

NAME = "forked"
_NURSERIES: dict[tuple[str, str | None, bool], Nursery] = {}


class Nursery:
    """A process that has loaded what a kernel needs."""

    def __init__(self, module: str, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.nursery", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment,
        )
        atexit.register(self._process.communicate)  # at the end of its input it ends

    def ask(self, **asked: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


class Kernel:
    """What jupyter_client asks of a process."""

    stdin = stdout = stderr = None

    def __init__(self, command: list[str], env: dict[str, str], cwd: str | None) -> None:
        _, _, module, *arguments = command
        key = module, env.get("PYTHONHASHSEED"), MODELS in env
        if key not in _NURSERIES:
            _NURSERIES[key] = Nursery(module, env)
        self._nursery = _NURSERIES[key]
        self._ended: int | None = None
        self.pid = self._nursery.ask(arguments=arguments, env=env, cwd=cwd or os.getcwd())

    def poll(self) -> int | None:
        if self._ended is None:
            self._ended = self._nursery.ask(poll=self.pid)
        return self._ended

    wait = poll

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


class Forked(LocalProvisioner):
    """Has a kernel forked off a nursery."""

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        self.process = Kernel(cmd, kwargs["env"], kwargs.get("cwd"))
        self.pid = self.pgid = self.process.pid
        return self.connection_info


def _factory() -> KernelProvisionerFactory:
    factory = KernelProvisionerFactory.instance()
    factory.provisioners[NAME] = EntryPoint(NAME, f"{__name__}:Forked", factory.GROUP_NAME)
    return factory


@contextmanager
def forked_kernels() -> Iterator[None]:
    """Have every kernel that is started meanwhile forked off."""
    factory = _factory()
    usual, factory.default_provisioner_name = factory.default_provisioner_name, NAME
    try:
        yield
    finally:
        factory.default_provisioner_name = usual
