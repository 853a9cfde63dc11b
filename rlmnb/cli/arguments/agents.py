"""The commands that deal with agents and what they left, and their options."""

from __future__ import annotations

from rlmnb.cli.arguments.common import (
    SESSION,
    Commands,
    port,
    session,
)

USUAL_PORT = 47625


def add_hooks(commands: Commands) -> None:
    """Add what has to do with agents."""
    parser = commands.add(
        "hooks",
        "hooking:hooks",
        "record Claude Code's sessions: put its hooks into the settings, or take them out",
        "rlmnb hooks install            # shows the change first\n"
        "  rlmnb hooks status --json\n"
        "  rlmnb hooks serve              # take events over HTTP until Ctrl-C; optional\n"
        "  rlmnb hooks serve --settings   # what to put into the settings for that\n"
        "\nor as a plugin: claude --plugin-dir PATH_OF_THIS_REPOSITORY",
    )
    parser.add_argument(
        "action",
        choices=("install", "uninstall", "status", "serve"),
        help="status exits with 1 if they are in no settings; serve takes events over HTTP on "
        "this machine, for as long as it runs",
    )
    parser.add_argument(
        "--scope",
        choices=("user", "project", "local"),
        default="user",
        help="for you (the default), for everybody in this project, or for you in it",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument(
        "--port",
        type=port,
        default=USUAL_PORT,
        metavar="N",
        help=f"with serve: {USUAL_PORT} unless said; 0 is any that is free",
    )
    parser.add_argument(
        "--settings",
        action="store_true",
        help="with serve: only print Claude Code's settings for it, token included",
    )
    commands.add(
        "mcp",
        "serving:serve",
        "serve sessions to an agent over MCP, on standard input and output",
        "rlmnb mcp\n\nin Claude Code: claude mcp add rlmnb -- rlmnb mcp",
    )
    parser = commands.add(
        "import",
        "hooking:import_sessions",
        "bring sessions in that were before the hooks, from Claude Code's own transcripts",
        "rlmnb import claude --all\n  rlmnb import claude ~/.claude/projects/*/2716cb5d*.jsonl",
    )
    parser.add_argument("agent", choices=("claude",), help="whose transcripts they are")
    parser.add_argument("paths", nargs="*", metavar="PATH", help="transcripts")
    parser.add_argument("--all", action="store_true", help="every one that Claude Code has kept")
    add_migrate(commands)
    parser = commands.add(
        "statusline",
        "hooking:statusline",
        "print one line on a session: cells, stale ones, tokens, cost",
        "rlmnb statusline demo\n"
        '\nin Claude Code\'s settings: "statusLine": {"type": "command", "command": '
        '"rlmnb statusline"}',
    )
    session(parser)


def add_migrate(commands: Commands) -> None:
    """Add `migrate`."""
    parser = commands.add(
        "migrate",
        "migrating:migrate",
        "turn the state of earlier RLM tools into sessions, and take that back",
        "rlmnb migrate                      # what would become of ~/.claude/rlm-*\n"
        "  rlmnb migrate --execute            # do it; the old files stay as they are\n"
        "  rlmnb migrate --rollback 2716cb5d  # take one back; without an id, all\n"
        "  rlmnb migrate --dual-write DIR     # the other way: the old shapes",
    )
    parser.add_argument(
        "old_root",
        nargs="?",
        metavar="ROOT",
        help="the directory with rlm-state, rlm-frames, ...; ~/.claude unless said",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--dry-run", action="store_true", help="only say what would be done; the default"
    )
    what.add_argument("--execute", action="store_true", help="do it")
    what.add_argument(
        "--rollback",
        nargs="?",
        const="",
        metavar="ID",
        help="remove exactly what was made, unless somebody has changed it since",
    )
    what.add_argument(
        "--dual-write",
        metavar="DIR",
        help="write a session in the old shapes below DIR, for tools that still read those",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="roll back what was changed too, a copy goes to the archive; migrate again what was "
        "removed; replace files in DIR that others wrote",
    )
    parser.add_argument("--session", metavar="SESSION", help=f"with --dual-write: {SESSION}")
    parser.add_argument(
        "--links",
        metavar="ROOT",
        help="with --dual-write: let the old paths below ROOT lead there, where nothing is yet",
    )


def add_telling(commands: Commands) -> None:
    """Add what tells of prompts, lines and decisions."""
    parser = commands.add(
        "complexity",
        "telling:complexity",
        "say how much a prompt asks for, by rules alone, and why",
        "rlmnb complexity 'why do all workers stop? compare a.py with b.py'",
    )
    parser.add_argument("prompt", metavar="PROMPT", help="the prompt; - is stdin")
    parser = commands.add(
        "blame",
        "telling:blame",
        "say which cell, in which session and for which goal, wrote a file or a line of it",
        "rlmnb blame auth.py:12\n  rlmnb blame auth.py --json",
    )
    parser.add_argument("place", metavar="FILE[:LINE]", help="a file, and a line of it from 1")
    parser.add_argument("--all", action="store_true", help="sessions of other projects too")
    parser = commands.add(
        "export",
        "telling:export",
        "write a session's traces, decisions or events as lines of JSON",
        "rlmnb export decisions demo --output decisions.jsonl",
    )
    parser.add_argument(
        "kind",
        choices=("traces", "decisions", "events"),
        help="why each cell was made; only those that decide something; all that happened",
    )
    session(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="write to a file")
