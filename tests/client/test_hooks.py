"""How hooks are loaded, and that one which is slow or broken does not harm the agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlmnb.testing.messages_api import Call, Turn
from tests.client.recording import RECORD, hooks, make_plugin, read_events
from tests.client.running import ClientRun, run_client

pytestmark = pytest.mark.client

MOST = ["SessionStart", "PreToolUse", "PostToolUse", "PostToolBatch", "Stop", "SessionEnd"]
BROKEN = {
    "exits with 1": "import sys; sys.exit(1)",
    "raises": "raise RuntimeError",
    "prints what is no JSON": "print('{ no JSON')",
    "prints JSON that means nothing": "print('[1, 2]')",
    "closes its input unread": "import os; os.close(0)",
    "is killed": "import os; os.kill(os.getpid(), 9)",
}


def turns(project: Path) -> list[Turn]:
    return [Call("Read", {"file_path": str(project / "data.txt")}, id="toolu_read"), "Done."]


def assert_unharmed(run: ClientRun) -> None:
    assert (run.code, run.answer) == (0, "Done."), run.stderr
    (result,) = run.results().values()
    assert "alpha beta" in str(result["content"])
    assert not result.get("is_error")


def test_settings_bring_hooks_as_a_plugin_does(project: Path, tmp_path: Path) -> None:
    both = []
    for name in ("plugin", "settings"):
        log = tmp_path / f"{name}.jsonl"
        loaded = hooks(RECORD, str(log))
        if name == "plugin":
            plugin = make_plugin(tmp_path / "plugin", loaded)
            run = run_client(turns(project), "read", project, plugin_dir=plugin)
        else:
            run = run_client(turns(project), "read", project, settings=loaded)
        assert_unharmed(run)
        both.append([event.name for event in read_events(log)])
    assert both[0] == both[1]
    assert {"SessionStart", "PostToolUse", "PostToolBatch", "SessionEnd"} <= set(both[0])


def test_without_hooks_the_same_run_has_the_same_answer(project: Path) -> None:
    assert_unharmed(run_client(turns(project), "read", project))


@pytest.mark.parametrize("code", BROKEN.values(), ids=BROKEN)
def test_a_broken_hook_does_not_harm_the_run(project: Path, tmp_path: Path, code: str) -> None:
    plugin = make_plugin(tmp_path / "plugin", hooks(code))
    assert_unharmed(run_client(turns(project), "read", project, plugin_dir=plugin))


def test_a_hook_whose_program_is_missing_does_not_harm_the_run(
    project: Path, tmp_path: Path
) -> None:
    command = {"type": "command", "command": str(tmp_path / "nowhere"), "args": []}
    missing = {"hooks": {event: [{"hooks": [command]}] for event in MOST}}
    plugin = make_plugin(tmp_path / "plugin", missing)
    assert_unharmed(run_client(turns(project), "read", project, plugin_dir=plugin))


def test_a_hook_that_hangs_is_cut_off_at_its_timeout(project: Path, tmp_path: Path) -> None:
    began = tmp_path / "began"
    code = "import os, sys, time; os.mkdir(sys.argv[1]); time.sleep(50)"
    hanging = hooks(code, str(began), events=["PostToolUse"], timeout=1)
    plugin = make_plugin(tmp_path / "plugin", hanging)
    assert_unharmed(run_client(turns(project), "read", project, plugin_dir=plugin, timeout=40))
    assert began.exists()


def test_a_hook_that_hangs_at_the_end_of_the_session_is_cut_off(
    project: Path, tmp_path: Path
) -> None:
    hanging = hooks("import time; time.sleep(50)", events=["SessionEnd"], timeout=1)
    plugin = make_plugin(tmp_path / "plugin", hanging)
    assert_unharmed(run_client(turns(project), "read", project, plugin_dir=plugin, timeout=40))


def test_a_plugin_with_a_broken_file_of_hooks_does_not_harm_the_run(
    project: Path, tmp_path: Path
) -> None:
    plugin = make_plugin(tmp_path / "plugin", hooks(RECORD, str(tmp_path / "log")))
    (plugin / "hooks" / "hooks.json").write_text("{ no JSON")
    assert_unharmed(run_client(turns(project), "read", project, plugin_dir=plugin))
    assert not (tmp_path / "log").exists()
