"""The notebook that the plugin in this repository writes while the real client works."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rlmnb.testing.messages_api import Call
from tests.client.running import REPOSITORY, ClientRun, run_client, sessions_of
from tests.client.scenario import (
    FAILED,
    FLAGS,
    REFUSED,
    SETTINGS,
    helper_script,
    make_project,
    tool_turns,
    tools_script,
    two_helpers_script,
)
from tests.conftest import assert_valid

pytestmark = pytest.mark.client

Cell = dict[str, Any]


class Written:
    """A finished session, and the notebook of it."""

    def __init__(self, run: ClientRun, project: Path) -> None:
        self.run = run
        self.project = project
        self.path = sessions_of(project) / run.session_id / "session.ipynb"

    def cells(self) -> list[Cell]:
        return json.loads(self.path.read_text(encoding="utf-8"))["cells"]

    def tool_cells(self) -> list[Cell]:
        return [cell for cell in self.cells() if record_of(cell).get("type") == "tool"]

    def calls_of(self, operation: str, **arguments: Any) -> list[Cell]:
        wanted = Call(operation, arguments)
        return [cell for cell in self.tool_cells() if stands_for(cell, wanted)]

    def rlmnb(self, *arguments: str) -> Any:
        """Run the command line as the person at this project would."""
        done = subprocess.run(
            [sys.executable, "-m", "rlmnb", *arguments, "--json"],
            cwd=self.project,
            env={**os.environ, "RLMNB_HOME": str(sessions_of(self.project))},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


def record_of(cell: Cell) -> dict[str, Any]:
    return cell["metadata"].get("rlmnb", {})


def source_of(cell: Cell) -> str:
    return "".join(cell["source"])


def stands_for(cell: Cell, call: Call) -> bool:
    """Whether the cell is this call; the client adds arguments that have a default."""
    made = record_of(cell)["input"]
    arguments = made.get("args") or {}
    return made["operation"] == call.name and dict(call.input).items() <= arguments.items()


def part_of(cell: Cell) -> str | None:
    """Return the cell that began the sub-agent which made this one, or the sub-agent's id."""
    record = record_of(cell)
    return record.get("parent_id") or record.get("metadata", {}).get("agent_id")


def prompts_in(cells: list[Cell]) -> list[str]:
    return [source_of(cell) for cell in cells if cell["cell_type"] == "markdown"]


# The tests are of the hook: until there is one, there is nothing to say about it.
if importlib.util.find_spec("rlmnb.hook"):

    @pytest.fixture(scope="module")
    def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
        project = make_project(tmp_path_factory.mktemp("written") / "project")
        options: Any = {"plugin_dir": REPOSITORY, "settings": SETTINGS, "flags": FLAGS}
        return Written(run_client(tools_script(project), "use them", project, **options), project)

    def test_the_client_works_as_it_does_without_the_plugin(written: Written) -> None:
        run = written.run
        assert (run.code, run.answer) == (0, "All done."), run.stderr
        failed = {call for call, result in run.results().items() if result.get("is_error")}
        assert failed == FAILED | REFUSED

    def test_the_notebook_is_valid(written: Written) -> None:
        assert_valid(written.path)

    def test_every_call_is_one_cell_in_the_order_of_the_model(written: Written) -> None:
        cells = written.tool_cells()
        for turn in tool_turns(written.project):
            here, cells = cells[: len(turn)], cells[len(turn) :]
            # Calls of one answer run side by side: they may be written in any order.
            found = Counter(call.id for cell in here for call in turn if stands_for(cell, call))
            assert found == Counter(call.id for call in turn)
        assert cells == []

    def test_the_source_of_a_cell_is_its_call(written: Written) -> None:
        for cell in written.tool_cells():
            assert cell["cell_type"] == "code"
            assert source_of(cell).startswith(f"tools.{record_of(cell)['input']['operation']}(")

    def test_calls_that_failed_or_were_refused_say_so_and_no_others(written: Written) -> None:
        calls = [call for turn in tool_turns(written.project) for call in turn]
        status = {
            call.id: record_of(cell)["status"]
            for call in calls
            for cell in written.tool_cells()
            if stands_for(cell, call)
        }
        assert {call for call, said in status.items() if said == "failed"} == FAILED | REFUSED
        assert set(status.values()) == {"completed", "failed"}

    def test_what_a_call_gave_is_the_output_of_its_cell(written: Written) -> None:
        (read,) = written.calls_of("Read", file_path=str(written.project / "data.txt"))
        (bash,) = written.calls_of("Bash", command="echo printed")
        assert "alpha beta" in json.dumps(read["outputs"])
        assert "printed" in json.dumps(bash["outputs"])

    def test_the_prompt_is_a_markdown_cell_before_all_calls(written: Written) -> None:
        cells = written.cells()
        kinds = [cell["cell_type"] for cell in cells]
        assert any("use them" in prompt for prompt in prompts_in(cells))
        assert kinds.index("markdown") < kinds.index("code")

    def test_a_changed_file_makes_the_cell_that_read_it_stale(project: Path) -> None:
        data = project / "data.txt"
        script = [Call("Read", {"file_path": str(data)}), "Done."]
        run = run_client(script, "read", project, plugin_dir=REPOSITORY)
        written = Written(run, project)
        plan = ("replay", "--dry-run", run.session_id)
        assert written.rlmnb(*plan)["would_execute"] == []
        data.write_text("changed\n")
        (read,) = written.calls_of("Read", file_path=str(data))
        assert [step["cell_id"] for step in written.rlmnb(*plan)["would_execute"]] == [read["id"]]

    def test_the_cells_of_a_sub_agent_name_what_they_are_part_of(project: Path) -> None:
        run = run_client(helper_script(project), "delegate", project, plugin_dir=REPOSITORY)
        written = Written(run, project)
        (read,) = written.calls_of("Read")
        (agent,) = written.calls_of("Agent")
        assert part_of(read)
        assert not part_of(agent)

    def test_the_cells_of_two_sub_agents_at_once_are_told_apart(project: Path) -> None:
        run = run_client(two_helpers_script(project), "delegate", project, plugin_dir=REPOSITORY)
        reads = Written(run, project).calls_of("Read")
        assert len(reads) == 2
        assert len({part_of(cell) for cell in reads}) == 2

    def test_a_resumed_and_compacted_session_goes_on_in_the_same_notebook(project: Path) -> None:
        script = helper_script(project)
        run = run_client(script, "delegate", project, plugin_dir=REPOSITORY)
        for prompt in ("go on", "/compact", "go on again"):
            options: Any = {"plugin_dir": REPOSITORY, "resume": run.session_id}
            assert run_client(script, prompt, project, **options).code == 0
        written = Written(run, project)
        assert_valid(written.path)
        assert len(written.tool_cells()) == 2
        prompts = prompts_in(written.cells())
        for prompt in ("delegate", "go on", "go on again"):
            assert any(prompt in text for text in prompts), prompt

    def test_a_title_that_a_person_gave_is_the_clients_too_after_a_resume(project: Path) -> None:
        run = run_client(["Hello."], "hello", project, plugin_dir=REPOSITORY)
        Written(run, project).rlmnb("set", run.session_id, "--title", "A name of my own")
        options: Any = {"plugin_dir": REPOSITORY, "resume": run.session_id}
        again = run_client(["Hello again."], "go on", project, **options)
        records = [json.loads(line) for line in again.transcript.read_text().splitlines()]
        titles = [each["customTitle"] for each in records if each["type"] == "custom-title"]
        assert titles[-1] == "A name of my own"
        about = Written(run, project).rlmnb("show", run.session_id)["session"]
        assert (about["title"], about["title_from"]) == ("A name of my own", "person")

    def test_a_file_that_changes_while_the_client_watches_is_told_to_the_session(
        project: Path,
    ) -> None:
        data = project / "data.txt"
        script = [Call("Read", {"file_path": str(data)}), "Done."]
        run = run_client(script, "read", project, plugin_dir=REPOSITORY)
        written = Written(run, project)
        journal = written.path.with_name("journal.jsonl")
        # The client waits until a file has been left alone for a while.
        command = (
            f"for n in $(seq 10); do echo $n >> {data}; for m in $(seq 40); do "
            f"grep -q changed_files {journal} && break 2; sleep 0.1; done; done"
        )
        change = [Call("Bash", {"command": command, "description": "change it"}), "Done."]
        options: Any = {"plugin_dir": REPOSITORY, "resume": run.session_id}
        run_client(change, "change", project, flags=["--allowedTools=Bash"], **options)
        status = written.rlmnb("status", run.session_id)
        (read,) = written.calls_of("Read")
        assert read["id"] in [each["cell_id"] for each in status["stale"]]
        assert list(status["changed_files"]) == [str(data)]

    def test_a_forked_session_names_its_parent_and_the_cell_it_left_it_at(project: Path) -> None:
        run = run_client(["Hello."], "hello", project, plugin_dir=REPOSITORY)
        parent = Written(run, project)
        options: Any = {"plugin_dir": REPOSITORY, "flags": ["--fork-session"]}
        forked = run_client(["Hello again."], "go on", project, resume=run.session_id, **options)
        name = forked.result["session_id"]
        assert name != run.session_id
        about = parent.rlmnb("show", name)["session"]
        assert about["parent_session_id"] == run.session_id
        origin = about["forked_from"]
        assert origin["session_id"] == run.session_id
        assert origin["cell_id"] == parent.cells()[-1]["id"]
        assert parent.rlmnb("show", run.session_id)["session"]["ended_at"] is not None

    def test_what_the_last_answer_took_is_counted_when_the_session_ends(project: Path) -> None:
        run = run_client(["Hello."], "hello", project, plugin_dir=REPOSITORY)
        budget = Written(run, project).rlmnb("show", run.session_id)["budget"]
        used = run.result["usage"]
        assert budget["total_tokens_used"] == used["input_tokens"] + used["output_tokens"]

    def test_a_prompt_is_judged_and_its_goal_is_kept(project: Path) -> None:
        prompt = "Why do all tests fail? Compare a.py, b.py, c.py and d.py"
        run = run_client(["Because."], prompt, project, plugin_dir=REPOSITORY)
        state = Written(run, project).rlmnb("show", run.session_id)
        assert state["activation"]["rlm_active"] is True
        assert "4 files named" in state["activation"]["activation_reason"]
        assert state["session"]["original_goal"] == state["session"]["goal"] == prompt
        assert state["session"]["prompt_id"]
