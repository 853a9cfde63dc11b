"""Commands for agents' hooks: hooks install | uninstall | status | serve, statusline."""

from __future__ import annotations

import difflib
import json
import os
import statistics
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rlmnb import installing
from rlmnb.cli import text
from rlmnb.cli.reading import judged
from rlmnb.errors import InvalidNameError, RlmnbError
from rlmnb.session import Session
from rlmnb.store import sessions
from rlmnb.store.layout import sessions_root

_MOST_NAMED = 20
_SCOPES = ("user", "project", "local")


def hooks(args: Namespace) -> int:
    """Put the hooks into Claude Code's settings, take them out, or say whether they are there."""
    if args.action == "status":
        return _status(args)
    if args.action == "serve":
        return _serve(args)
    change = (installing.install if args.action == "install" else installing.uninstall)(args.scope)
    if change.before == change.after:
        return _tell(args, change, "nothing to do", changed=False)
    if not args.json:
        for line in difflib.unified_diff(
            change.before.splitlines(),
            change.after.splitlines(),
            change.path,
            change.path,
            lineterm="",
        ):
            text.say(line)
    if not args.yes and not _agreed(args):
        text.note("nothing was changed; to do it: add --yes")
        return 1
    installing.apply(change)
    return _tell(args, change, "done", changed=True)


def _agreed(args: Namespace) -> bool:
    if args.json or not sys.stdin.isatty():
        return False
    text.note("make this change? [y/N]")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _tell(args: Namespace, change: installing.Change, word: str, *, changed: bool) -> int:
    if args.json:
        text.print_json({"path": change.path, "changed": changed, "events": [*installing.EVENTS]})
    else:
        text.say(f"{word}: {change.path}")
        if changed and args.action == "install":
            text.note("sessions that begin from now on are recorded; see them with: rlmnb sessions")
    return 0


def _status(args: Namespace) -> int:
    where = {scope: installing.settings_path(scope) for scope in _SCOPES}
    found = {scope: installing.installed(scope) for scope in _SCOPES}
    milliseconds = _trial()
    if args.json:
        text.print_json(
            {
                "installed": found,
                "paths": where,
                "command": installing.command(),
                "trial_ms": milliseconds,
                **hook_figures(),
            }
        )
    else:
        for scope in _SCOPES:
            state = text.painted("installed", "ok") if found[scope] else "not installed"
            text.say(f"{scope:<8} ", state, f"  {where[scope]}")
        text.labelled("command", installing.command(), 9)
        text.labelled("a trial", f"{milliseconds:.0f} ms", 9)
        tell_figures()
    return 0 if any(found.values()) else 1


def _serve(args: Namespace) -> int:
    """Take events over HTTP until Ctrl-C or SIGTERM, or print the settings for that."""
    from rlmnb import listening

    if args.settings:
        if not args.port:
            raise InvalidNameError(
                "settings need a port that stays the same", hint="leave --port 0 out"
            )
        settings = installing.http_settings(listening.url(args.port), listening.token())
        sys.stdout.write(json.dumps(settings, indent=None if args.json else 2) + "\n")
        return 0
    with listening.HookServer(args.port) as server:
        told = {"url": server.url, "token_file": listening.token_path(), "pid": os.getpid()}
        if args.json:
            text.print_json(told)
        else:
            text.labelled("address", told["url"], 9)
            text.labelled("token", f"in {told['token_file']}", 9)
            text.note("for Claude Code: rlmnb hooks serve --settings; Ctrl-C ends it")
        sys.stdout.flush()
        server.serve()
    return 0


def _trial() -> float:
    """Return how long the hook takes to start, in milliseconds; nothing is recorded."""
    started = time.perf_counter()
    subprocess.run(  # noqa: S603 - our own hook
        [installing.real_interpreter(), *installing.arguments()],
        input=b'{"hook_event_name": "Notification", "session_id": "trial"}',
        env={**os.environ, "RLMNB_OFF": "1"},
        check=False,
        timeout=30,
        capture_output=True,
    )
    return (time.perf_counter() - started) * 1000


def hook_figures() -> dict[str, Any]:
    """Return how long hooks have taken, and what has gone wrong in them."""
    times: list[float] = []
    failures: dict[tuple[str, str], dict[str, Any]] = {}
    for line in _lines("times"):
        _, _, took = line.partition("\t")
        try:
            times.append(float(took))
        except ValueError:
            continue
    for line in _lines("failures"):
        at, _, rest = line.partition("\t")
        event, _, what = rest.partition("\t")
        known = failures.setdefault((event, what), {"event": event, "error": what, "count": 0})
        known["count"] += 1
        known["last"] = at
    times.sort()
    found: dict[str, Any] = {"events": len(times), "failures": list(failures.values())}
    if times:
        found["p50_ms"] = statistics.median(times)
        found["p90_ms"] = times[min(len(times) - 1, len(times) * 9 // 10)]
    return found


def _lines(name: str) -> list[str]:
    try:
        path = os.path.join(sessions_root(), ".hooks", name)
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return []


def tell_figures() -> None:
    """Say how hooks have done."""
    figures = hook_figures()
    if "p50_ms" in figures:
        text.labelled(
            "events",
            f"{figures['events']}, half of them within {figures['p50_ms']:.0f} ms, nine of ten "
            f"within {figures['p90_ms']:.0f} ms",
            9,
        )
    else:
        text.labelled("events", "none yet", 9)
    for each in figures["failures"]:
        text.say(text.painted("failed   ", "failed"), f"{each['count']} times in {each['event']}: ",
                 each["error"])  # fmt: skip


def import_sessions(args: Namespace) -> int:
    """Bring past transcripts in as sessions."""
    from rlmnb import importing

    paths = importing.find_transcripts() if args.all else args.paths
    if not paths:
        raise InvalidNameError(
            "no transcript was named" if not args.all else "no transcript was found",
            hint="run: rlmnb import claude --all, or name one: rlmnb import claude FILE.jsonl",
        )
    done = []
    for number, path in enumerate(paths, 1):

        def tell(read: int, size: int, number: int = number, path: str = path) -> None:
            if not args.json and sys.stderr.isatty():
                part = f"{100 * read // size if size else 100:>3}%"
                sys.stderr.write(f"\r{part}  {number} of {len(paths)}  {path[-60:]}\033[K")

        done.append(importing.import_transcript(path, tell))
        if not args.json and sys.stderr.isatty():
            sys.stderr.write("\r\033[K")
    if args.json:
        text.print_json([asdict(each) for each in done])
    else:
        for each in done:
            text.say(f"{each.status:<9} {each.cells:>6} cells  {each.session_id}  ", each.reason)
    return 1 if any(each.status == "failed" for each in done) else 0


def _because(session: Session) -> str:
    """Name the file that makes cells stale: one seen to change, else any that did."""
    told = [*session.changes_seen(), *_changed(session)]
    return f" ({os.path.basename(told[0])} changed)" if told else ""


def _changed(session: Session) -> list[str]:
    causes = [cause for each in session.stale.values() for cause in each]
    paths = [cause.removesuffix(" changed") for cause in causes if cause.endswith(" changed")]
    return [path for path in paths if os.path.isabs(path)]


def statusline(args: Namespace) -> int:
    """Print one line for Claude Code's status line, from what it says on standard input."""
    told: Any = {}
    if not sys.stdin.isatty():
        try:
            told = json.loads(sys.stdin.read() or "{}")
        except ValueError:
            told = {}
    name = args.session or (told.get("session_id") if isinstance(told, dict) else None)
    try:
        session = judged(Session.open(name if isinstance(name, str) else None))
    except (RlmnbError, OSError):
        # A status line that shows an error is worse than one that shows nothing.
        if args.json:
            text.print_json({"session": None})
        else:
            text.say("rlmnb: not recorded yet")
        return 0
    budget = sessions.section(session.stored_state(), "budget")
    figures = {
        "session": session.id,
        "cells": len(session.cells),
        "stale": len(session.stale),
        "stale_cells": list(session.stale)[:_MOST_NAMED],
        "changed_files": session.changes_seen(),
        "failed": len(session.cells(status="failed")),
        "tokens": budget.get("total_tokens_used") or 0,
        "cost_usd": _known_cost(budget, told),
    }
    if args.json:
        text.print_json(figures)
        return 0
    parts = [text.count(len(session.cells), "cell")]
    parts += [f"{figures['stale']} stale{_because(session)}"] if figures["stale"] else []
    parts += [f"{figures['failed']} failed"] if figures["failed"] else []
    parts += [f"{figures['tokens']:,} tokens"] if figures["tokens"] else []
    if figures["cost_usd"] is not None:
        parts.append(f"${figures['cost_usd']:.2f}")
    text.say("rlmnb: " + ", ".join(parts))
    return 0


def _known_cost(budget: Mapping[str, Any], told: Any) -> float | None:
    """Return what the session cost: as it was recorded, else as the client itself has it."""
    client = told.get("cost") if isinstance(told, dict) else None
    said = client.get("total_cost_usd") if isinstance(client, dict) else None
    for cost in (budget.get("cost_usd"), said):
        if isinstance(cost, int | float) and not isinstance(cost, bool):
            return cost
    return None
