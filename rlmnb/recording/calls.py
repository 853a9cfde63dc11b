"""Tool calls and sub-agents: from what the client says of them to cells."""

import os

from rlmnb.capture import calls
from rlmnb.capture.privacy import ignored
from rlmnb.capture.results import shown
from rlmnb.capture.toolnames import DECIDING, LISTING
from rlmnb.digest import MISSING
from rlmnb.errors import RlmnbError, UnsafePathError
from rlmnb.format import times
from rlmnb.recording.writing import Writing
from rlmnb.store.append import fit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_RECENT_BYTES = 4 * 1024 * 1024


class Calls(Writing):
    """Events that tell of calls."""

    def _before_call(self) -> None:
        call = self._event.text("tool_use_id")
        tool = self._event.text("tool_name")
        if not call or not tool or call in self._progress.table("calls"):
            return
        args = self._event.object("tool_input")
        reads, writes = calls.paths_of(tool, args, self._cwd)
        named = [*reads, *writes]
        before = calls.versions_of(named, self._deadline)
        pending: dict[str, Any] = {
            "before": {path: before[path]["hash"] if path in before else None for path in named}
        }
        if tool in ("Agent", "Task"):
            # Its cell comes first, so that those of the sub-agent can stand below it.
            pending["cell"] = self._append(self._call_cell(tool, args, status="running"))
            self._progress.table("calls")[call] = pending["cell"]
        else:
            pending |= self._also_told()
        self._progress.table("pending")[call] = pending

    def _after_call(self) -> None:
        self._call_done(self._event.payload.get("tool_response"), None)

    def _failed_call(self) -> None:
        error = self._event.text("error") or "the call failed"
        self._call_done(None, error)

    def _call_done(self, response: "Any", error: "str | None") -> None:
        tool = self._event.text("tool_name") or "unknown"
        call = self._event.text("tool_use_id") or ""
        pending = self._progress.table("pending").pop(call, {})
        known = self._progress.table("calls").get(call)
        if known is not None and "cell" not in pending:
            return  # told of already, by another installation of these hooks
        args = self._event.object("tool_input")
        if "cell" in pending:
            self._complete(pending["cell"], tool, response, error)
            return
        before = pending.get("before") if isinstance(pending.get("before"), dict) else None
        cell = self._call_cell(tool, args, response=response, error=error, before=before)
        if isinstance(told := pending.get("also_told"), dict) and "args" in cell:
            metadata = cell.setdefault("metadata", {})
            metadata["also_told"] = {**told, **metadata.get("also_told", {})}
        cell_id = self._append(cell)
        if call:
            self._progress.table("calls")[call] = cell_id
        for path in cell.get("files_written", ()):
            self._progress.table("writers")[path] = cell_id
        self._note_files(cell)
        if agent := self._event.text("agent_id"):
            self._agent(agent).setdefault("cells", []).append(cell_id)

    def _call_cell(
        self,
        tool: str,
        args: "dict[str, Any]",
        *,
        response: "Any" = None,
        error: "str | None" = None,
        before: "dict[str, Any] | None" = None,
        status: "str | None" = None,
    ) -> "dict[str, Any]":
        reads, writes = calls.paths_of(tool, args, self._cwd, response)
        reads += [path for path in before or () if path not in reads and path not in writes]
        if any(ignored(path, self._cwd) for path in (*reads, *writes)):
            return self._withheld(tool, [*reads, *writes], failed=error is not None)
        if self._together:  # what files were then, only the answer can tell
            read, written = calls.versions_told(tool, reads, writes, response)
        else:
            read = calls.versions_of(reads, self._deadline)
            wrote = error is None and status is None
            written = calls.versions_of(writes, self._deadline) if wrote else {}
            if before is not None and not calls.tells_what_it_writes(tool):
                read, written = calls.sorted_out(before, read)
        if before is not None:
            for path, version in written.items():
                if isinstance(old := before.get(path, MISSING), str):
                    version["before"] = old
        cell: dict[str, Any] = {
            "source": calls.source_of_call(tool, args, self._keep),
            "type": "tool",
            "operation": tool,
            "args": calls.brief(args, self._keep),
            "origin": self._event.agent,
            "outputs": calls.outputs_of(tool, self._whole(response)),
            "files_read": read,
            "files_written": written,
            "listed": self._listed(tool, args),
            "dependencies": self._edges([*reads, *writes]),
            "tool_use_id": self._event.text("tool_use_id"),
            "execution_time_ms": self._event.number("duration_ms"),
            "error": error,
            "status": status,
        }
        if trace := self._trace(tool, args, response):
            cell["trace"] = trace
        if not self._together:
            cell["cwd"] = self._cwd if self._progress.text("cwd") not in (None, self._cwd) else None
            cell["commit"] = self._commit(args, written)
        told = self._also_told()
        if parent := self._parent():
            cell["parent_id"] = parent
        # Whose call it was is worth knowing, even if nobody told who asked for the agent.
        agent = {key: self._event.text(key) for key in ("agent_id", "agent_type")}
        if agent["agent_id"]:
            told = {"depth": 1, **{key: name for key, name in agent.items() if name}, **told}
        if told:
            cell["metadata"] = told
        return {key: value for key, value in cell.items() if value is not None}

    def _listed(self, tool: str, args: "dict[str, Any]") -> "dict[str, Any] | None":
        """Return the directories that a call has looked through, if they can be as they were."""
        if self._together or tool not in LISTING:
            return None
        from rlmnb.capture.folders import listed_by_call

        return listed_by_call(tool, args, self._cwd, self._deadline) or None

    def _trace(self, tool: str, args: "dict[str, Any]", response: "Any") -> "dict[str, str]":
        """Return why a call was made, as far as that is known by now."""
        task = self._progress.text("task")
        if tool in DECIDING:
            from rlmnb.capture.decisions import decided

            tasks = self._progress.table("tasks")
            decision, task = decided(tool, args, response, tasks, task)
            self._progress.keep("task", task)
        else:
            decision = task
        told = {
            "goal": self._progress.text("goal"),
            "decision": decision,
            "rationale": self._event.text("imported_rationale"),
        }
        return {key: text for key, text in told.items() if text}

    def _commit(self, args: "dict[str, Any]", written: "dict[str, Any]") -> "dict[str, str] | None":
        """Return where the repository stands after a call that changed files, or git's own."""
        command = args.get("command")
        if not written and not (isinstance(command, str) and "git" in command):
            return None
        from rlmnb.store.project import describe

        here = describe(os.path.dirname(next(iter(written))) if written else self._cwd)
        found = {"head": here["head_commit"], "branch": here["branch"]}
        return {key: value for key, value in found.items() if value} or None

    def _note_files(self, cell: "dict[str, Any]") -> None:
        """Remember the files of a call, the last one last: they are what is worth watching."""
        seen = self._progress.table("seen")
        for key in ("files_read", "files_written"):
            for path, version in (cell.get(key) or {}).items():
                seen.pop(path, None)
                seen[path] = version.get("hash")

    def _withheld(self, tool: str, paths: "list[str]", *, failed: bool) -> "dict[str, Any]":
        """Return a cell that says there was a call, and nothing of what it read or wrote."""
        names = [os.path.relpath(path, self._cwd) for path in paths if ignored(path, self._cwd)]
        cell: dict[str, Any] = {
            "source": f"tools.call({tool!r}, withheld={names!r})",
            "type": "tool",
            "operation": tool,
            "origin": self._event.agent,
            "output": "not recorded: the file is among those to be ignored\n",
            "tool_use_id": self._event.text("tool_use_id"),
        }
        return {**cell, "error": "it failed"} if failed else cell

    def _whole(self, response: "Any") -> "Any":
        """Return an answer with what the client has put into a file of its own, if it did."""
        path = response.get("persistedOutputPath") if isinstance(response, dict) else None
        if not calls.is_path(path) or not self._is_the_clients(str(path)):
            return response
        from rlmnb.files import open_regular, read_at

        try:
            descriptor = open_regular(str(path))
            try:
                data = read_at(descriptor, 0, calls.LARGEST_FILE)
            finally:
                os.close(descriptor)
        except (OSError, UnsafePathError):
            return response
        from rlmnb.capture.redaction import clean_text

        return {**response, "stdout": clean_text(data.decode("utf-8", "replace"))}

    def _is_the_clients(self, path: str) -> bool:
        """Tell whether a file stands where the client keeps its own, and not just anywhere."""
        told = self._event.text("transcript_path")
        places = [os.environ.get("TMPDIR") or "/tmp"]  # noqa: S108 - only read from
        if told and calls.is_path(told) and os.path.isabs(told):
            places.append(os.path.dirname(told))
        real = os.path.realpath(path)
        return any(real.startswith(os.path.realpath(each) + os.sep) for each in places)

    def _edges(self, paths: "list[str]") -> "list[dict[str, str]]":
        """Return the cells that wrote these files last."""
        writers = self._progress.table("writers")
        found: dict[str, str] = {}
        for path in paths:
            if isinstance(writer := writers.get(path), str):
                found.setdefault(writer, f"file {os.path.basename(path)}")
        return [{"cell_id": cell_id, "reason": reason} for cell_id, reason in found.items()]

    def _complete(self, cell_id: str, tool: str, response: "Any", error: "str | None") -> None:
        """Finish a cell that was begun before its call: an agent's, with what it built on."""
        answer = response if isinstance(response, dict) else {}
        agent = answer.get("agentId")
        known = self._agent(agent) if isinstance(agent, str) else self._agent_below(cell_id)
        outputs = calls.outputs_of(tool, response)
        if known.get("parent") != cell_id:
            known["parent"] = cell_id
        if "content" not in answer and error is None:
            # The client goes on while the agent works: what that comes to is told when it stops.
            known["awaited"] = True
            if isinstance(said := known.get("said"), str):
                outputs = calls.outputs_of(tool, said)
        self._finish(cell_id, outputs, error, known)

    def _finish(
        self,
        cell_id: str,
        outputs: "list[dict[str, Any]]",
        error: "str | None",
        agent: "dict[str, Any]",
    ) -> None:
        from rlmnb.digest import output_hash
        from rlmnb.format.cells import error_output
        from rlmnb.jsontext import portable

        if error is not None:
            outputs.append(error_output(error))
        outputs = portable(outputs)
        record: dict[str, Any] = {
            "status": "failed" if error is not None else "completed",
            "completed_at": self._event.text("imported_at") or times.now(),
            "output_hash": output_hash(outputs),
            "output": {"error": error} if error is not None else {},
        }
        if (took := self._event.number("duration_ms")) is not None:
            record["output"]["execution_time_ms"] = took
        evidence = [each for each in agent.get("cells", ()) if isinstance(each, str)]
        replaced = {"evidence": evidence} if evidence else {}
        made: dict[str, Any] = {
            "cell_type": "code",
            "outputs": outputs,
            "metadata": {"rlmnb": record},
        }
        made = fit(self._place, made)
        entry = {"op": "update", "cell_id": cell_id, "record": made["metadata"]["rlmnb"]}
        self._write({**entry, "replace": replaced, "outputs": made["outputs"]})

    def _batch(self) -> None:
        """Put the calls of a batch in order, and add those that nothing else told of."""
        told = self._event.payload.get("tool_calls")
        if not isinstance(told, list):
            return
        known = self._progress.table("calls")
        order = []
        whole = self._event.payload
        for call in told:
            if not isinstance(call, dict):
                continue
            name = call.get("tool_use_id")
            if not isinstance(name, str):
                continue
            if name not in known and not self._in_journal(name):
                self._event.payload = _told_alone(whole, call, self._event.agent)
                # A call that told of neither success nor failure was refused, and never ran.
                answer = call.get("tool_response")
                self._call_done(None, _plain_error(shown("", answer)) or "the call was refused")
            if isinstance(known.get(name), str):
                order.append(known[name])
        self._event.payload = whole
        appended = [cell for cell in known.values() if cell in set(order)]
        if len(order) > 1 and appended != order:
            self._write({"op": "order", "cells": order})

    def _in_journal(self, call: str) -> bool:
        """Tell whether a call was told of by a hook that could not say so to the others."""
        from rlmnb.files import open_regular, read_at

        try:
            descriptor = open_regular(self._place.journal)
        except OSError:
            return False
        try:
            size = os.fstat(descriptor).st_size
            start = max(0, size - _RECENT_BYTES)
            told = f'"tool_use_id":"{call}"'.encode("utf-8", "backslashreplace")
            return told in read_at(descriptor, start, size - start)
        finally:
            os.close(descriptor)

    # sub-agents

    def _agent(self, name: str) -> "dict[str, Any]":
        """Return what is known of an agent, to be added to."""
        agents = self._progress.table("agents")
        known = agents.get(name)
        if not isinstance(known, dict):
            known = agents[name] = {}
        return known

    def _agent_below(self, cell_id: str) -> "dict[str, Any]":
        """Return what is known of the agent whose cells stand below this one."""
        for known in self._progress.table("agents").values():
            if isinstance(known, dict) and known.get("parent") == cell_id:
                return known
        return {}

    def _agent_stop(self) -> None:
        """Keep what an agent came to, if its call was over before it was."""
        agent = self._event.text("agent_id")
        said = self._event.text("last_assistant_message")
        if not agent or not said or agent not in self._progress.table("agents"):
            return
        known = self._agent(agent)
        parent = known.get("parent")
        if known.get("awaited") and isinstance(parent, str):
            self._finish(parent, calls.outputs_of("", said), None, known)
        else:
            known["said"] = said[: calls.LONGEST_ARGUMENT]

    def _parent(self) -> "str | None":
        agent = self._event.text("agent_id")
        if not agent:
            return None
        known = self._agent(agent)
        calls_of = self._progress.table("calls")
        if isinstance(cell := calls_of.get(self._event.text("imported_parent") or ""), str):
            known |= {"parent": cell, "told": True}
        if not known.get("told"):
            # Who asked for it stands beside its transcript, from its first call on.
            told = self._told_parent(agent)
            if told is not None:
                known |= {"parent": told, "told": True}
        parent = known.get("parent")
        return parent if isinstance(parent, str) else None

    def _told_parent(self, agent: str) -> "str | None":
        from rlmnb.files import read_bytes
        from rlmnb.jsontext import loads

        path = self._event.text("transcript_path")
        if not calls.is_path(path) or not calls.is_path(agent) or "/" in agent:
            return None
        name = os.path.join(
            str(path).removesuffix(".jsonl"), "subagents", f"agent-{agent}.meta.json"
        )
        try:
            meta = loads(read_bytes(name))
        except (OSError, ValueError, RlmnbError):
            return None
        call = meta.get("toolUseId") if isinstance(meta, dict) else None
        found = self._progress.table("calls").get(call) if isinstance(call, str) else None
        return found if isinstance(found, str) else None

    def _agent_start(self) -> None:
        agent = self._event.text("agent_id")
        if not agent:
            return
        taken = {
            each.get("parent")
            for each in self._progress.table("agents").values()
            if isinstance(each, dict)
        }
        waiting = [
            pending["cell"]
            for pending in self._progress.table("pending").values()
            if isinstance(pending, dict) and "cell" in pending and pending["cell"] not in taken
        ]
        known = self._agent(agent)
        if waiting and "parent" not in known:
            known["parent"] = waiting[0]


def _told_alone(whole: "dict[str, Any]", call: "dict[str, Any]", agent: str) -> "dict[str, Any]":
    """Return a call of a batch as an event of its own would tell of it."""
    from rlmnb.capture.events import read_event

    event = read_event({**whole, **call}, agent)
    return whole if event is None else event.payload


def _plain_error(text: str) -> str:
    """Return what a client said went wrong, without the tag that it has around it for the model."""
    plain = text.strip().removeprefix("<tool_use_error>").removesuffix("</tool_use_error>")
    return plain.removeprefix("Error: ")
