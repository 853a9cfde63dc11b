"""The real Claude Code client, run against a scripted model in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlmnb.testing.messages_api import Request, Script, scripted_api

REPOSITORY = Path(__file__).parents[2]
INSTALLED = REPOSITORY / "build" / "claude" / "node_modules" / ".bin" / "claude"
# Made absolute here, because each test runs in a directory of its own.
CLIENT = Path(os.environ.get("CLAUDE_CODE_BINARY") or INSTALLED).absolute()


@dataclass(frozen=True, slots=True)
class ClientRun:
    """What a run of the client left behind."""

    code: int
    stdout: str
    stderr: str
    requests: tuple[Request, ...]
    session_id: str
    transcript: Path | None

    @property
    def result(self) -> dict[str, Any]:
        """The client's own account of the run."""
        return json.loads(self.stdout)

    @property
    def answer(self) -> str:
        return self.result["result"]

    def results(self) -> dict[str, Any]:
        """What the model was told of each tool call, by the call's id."""
        parts = [part for request in self.requests for part in request.results]
        return {part["tool_use_id"]: part for part in parts}


def home_of(project: Path) -> Path:
    """The private HOME of whoever works in a project: its sessions are resumed from there."""
    return project.parent / "home"


def sessions_of(project: Path) -> Path:
    return home_of(project) / "sessions"


def run_client(
    script: Script,
    prompt: str,
    project: Path,
    *,
    plugin_dir: Path | None = None,
    settings: Mapping[str, Any] | None = None,
    resume: str | None = None,
    flags: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    timeout: float = 60,
) -> ClientRun:
    """Run `claude -p` in a project, with the hooks of a plugin directory or of settings."""
    session = resume or str(uuid.uuid4())
    command = [str(CLIENT), "-p", "--output-format", "json", *flags]
    command += ["--resume" if resume else "--session-id", session]
    command += ["--plugin-dir", str(plugin_dir)] if plugin_dir else []
    command += ["--settings", json.dumps(settings)] if settings else []
    with scripted_api(script) as api:
        done = subprocess.run(
            [*command, "--", prompt],
            cwd=project,
            env={**_environment(project, api.url), **(environment or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
    written = sorted(home_of(project).glob(f".claude/projects/*/{session}.jsonl"))
    transcript = written[0] if written else None
    return ClientRun(
        done.returncode, done.stdout, done.stderr, tuple(api.messages), session, transcript
    )


def _environment(project: Path, url: str) -> dict[str, str]:
    """Nothing of the caller's own, which may name keys, proxies and an agent around the tests."""
    home = home_of(project)
    config = home / ".claude"
    config.mkdir(parents=True, exist_ok=True)
    return {
        "PATH": f"{Path(sys.executable).parent}:{os.defpath}",
        "HOME": str(home),
        "TMPDIR": str(home),
        "PYTHONPATH": str(REPOSITORY),
        "RLMNB_HOME": str(sessions_of(project)),
        "CLAUDE_CONFIG_DIR": str(config),
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "scripted",
        "CLAUDE_CODE_MAX_RETRIES": "2",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
