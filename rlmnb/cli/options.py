"""The commands and their options."""

from __future__ import annotations

import argparse

from rlmnb.cli.calloptions import add_calls, add_replay_options
from rlmnb.cli.modeloptions import add_model, add_run
from rlmnb.format.cells import CELL_TYPES, STATUSES
from rlmnb.format.version import PACKAGE
from rlmnb.graph.rules import RULES
from rlmnb.selecting import GRAMMAR

_TOP = """\
An LLM agent's session, kept as a real Jupyter notebook.

  rlmnb sessions                      what there is
  rlmnb show                          the session of this project
  rlmnb cells --status stale          what no longer holds, and why
  rlmnb append demo --source 'x = 1'  add a cell from a script
"""
_CODES = """\
exit codes: 0 done; 1 the answer is no (verify, doctor, lint found something, diff a difference);
2 a mistake in what was asked; 3 a notebook, lock or disk that would not do it.
Sessions are kept in $RLMNB_HOME, ~/.claude/rlm-sessions unless set.
"""
_SESSION = "a session's id, the beginning of it, or the path of any notebook"


class _Commands:
    """Collects the commands; each names the function that does it, loaded only when it is run."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._subparsers = parser.add_subparsers(
            dest="command", metavar="COMMAND", title="commands"
        )

    def add(self, name: str, function: str, summary: str, example: str) -> argparse.ArgumentParser:
        parser = self._subparsers.add_parser(
            name,
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            epilog=f"example:\n  {example}\n",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        parser.add_argument("--json", action="store_true", help="print JSON, for scripts")
        parser.set_defaults(function=function)
        return parser


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="rlmnb",
        description=_TOP,
        epilog=_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"rlmnb {PACKAGE}")
    commands = _Commands(parser)
    _add_reading(commands)
    _add_writing(commands)
    _add_replaying(commands)
    add_calls(commands)
    _add_running(commands)
    add_run(commands)
    add_model(commands)
    _add_hooks(commands)
    _add_telling(commands)
    _add_seeing(commands)
    _add_judging(commands)
    _add_keeping(commands)
    return parser


def _session(
    parser: argparse.ArgumentParser,
    without: str = "the agent's own or the newest of this project",
) -> None:
    parser.add_argument(
        "session", nargs="?", metavar="SESSION", help=f"{_SESSION}; without it, {without}"
    )


def _add_reading(commands: _Commands) -> None:
    add = commands.add
    parser = add(
        "sessions", "reading:list_sessions", "list sessions", "rlmnb sessions --active --here"
    )
    parser.add_argument("--active", action="store_true", help="only those that have not ended")
    parser.add_argument("--here", action="store_true", help="only those of this project")
    parser.add_argument("--tag", help="only those with this tag")
    parser.add_argument("--archived", action="store_true", help="those in the archive instead")
    _session(add("show", "reading:show", "show one session", "rlmnb show 2716cb5d"))
    parser = add(
        "cells",
        "reading:list_cells",
        "list the cells of a session",
        "rlmnb cells --type tool --file auth.py --status stale\n"
        "  rlmnb cells demo 2-4,downstream:7",
    )
    _session(parser)
    _selectors(parser, "only these")
    parser.add_argument(
        "--type", help=f"of this type ({', '.join(CELL_TYPES)}, markdown), or of a tool like Read"
    )
    parser.add_argument(
        "--status", choices=("fresh", "stale", "new", *STATUSES), help="in this status"
    )
    parser.add_argument("--file", metavar="PATH", help="that read or wrote this file")
    parser = add(
        "cell", "reading:show_cell", "show one cell", "rlmnb cell cell_4f0z --session demo"
    )
    _one_cell(parser)
    parser.add_argument(
        "--output", action="store_true", help="print the whole output, exactly, and nothing else"
    )
    parser = add(
        "chain",
        "reading:show_chain",
        "show what a cell depends on",
        "rlmnb chain 7 --session demo --reverse",
    )
    _one_cell(parser)
    parser.add_argument(
        "--reverse", action="store_true", help="show what depends on the cell instead"
    )
    parser.add_argument("--depth", type=int, metavar="N", help="only what is at most N edges away")
    _session(add("files", "reading:list_files", "list the files a session touched", "rlmnb files"))
    _session(add("stats", "reading:show_stats", "count and sum up a session", "rlmnb stats --json"))


def _one_cell(parser: argparse.ArgumentParser) -> None:
    _last(parser, "CELL", "its id, the beginning of it, or its number")


def _last(parser: argparse.ArgumentParser, name: str, what: str) -> None:
    """Let a command take one thing, and a session before it if it is not the usual one."""
    parser.add_argument("names", nargs="+", metavar=f"[SESSION] {name}", help=argparse.SUPPRESS)
    parser.add_argument("--session", metavar="SESSION", help=_SESSION)
    parser.usage = f"{parser.prog} [SESSION] {name} [options]"
    parser.description = f"{parser.description} {name} is {what}."
    parser.set_defaults(wanted=name)


def _selectors(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("selectors", nargs="*", metavar="SELECTOR", help=f"{what}: {GRAMMAR}")
    parser.add_argument(
        "--cells", metavar="SELECTOR", help="the same, where no session is named before it"
    )


def _add_writing(commands: _Commands) -> None:
    parser = commands.add(
        "append",
        "writing:append_cell",
        "append a cell, beginning the session if need be, and print the cell's id",
        "rlmnb append demo --type tool --source 'tools.Read(file_path=\"auth.py\")' --output -",
    )
    parser.add_argument("session", metavar="SESSION", help="a session's id, or a notebook's path")
    parser.add_argument("--source", required=True, metavar="CODE", help="the code; - is stdin")
    parser.add_argument("--type", default="repl", choices=CELL_TYPES, help="repl unless said")
    parser.add_argument("--output", metavar="TEXT", help="what it printed; - is stdin")
    parser.add_argument("--error", metavar="TEXT", help="the error it failed with")
    parser.add_argument(
        "--depends",
        action="append",
        default=[],
        metavar="CELL",
        help="a cell it depends on; may be repeated",
    )
    parser.add_argument(
        "--reads",
        action="append",
        default=[],
        metavar="PATH",
        help="a file it read; may be repeated",
    )
    parser.add_argument(
        "--writes",
        action="append",
        default=[],
        metavar="PATH",
        help="a file it wrote; may be repeated",
    )
    parser.add_argument("--goal", metavar="TEXT", help="what it was for")
    parser.add_argument("--record", metavar="JSON", help="any other fields of the record")
    parser = commands.add(
        "set",
        "writing:set_state",
        "change a session's title, tags and working memory, or end it",
        "rlmnb set demo --title 'fix the login' --tag auth",
    )
    _session(parser)
    parser.add_argument("--title", help="the new title; empty removes it")
    parser.add_argument("--goal", metavar="TEXT", help="what it was begun for, in other words")
    parser.add_argument(
        "--activation",
        choices=("complexity", "always", "never", "on", "off"),
        help="recursive work: by the prompt's complexity, always, never; on and off are by hand",
    )
    parser.add_argument("--tag", action="append", default=[], help="add a tag")
    parser.add_argument("--untag", action="append", default=[], help="remove a tag")
    parser.add_argument(
        "--remember",
        action="append",
        default=[],
        metavar="NAME=JSON",
        help="keep a value at hand in working_memory; what is not JSON is taken as text",
    )
    parser.add_argument(
        "--forget", action="append", default=[], metavar="NAME", help="drop such a value"
    )
    parser.add_argument("--end", action="store_true", help="mark the session as ended now")
    parser = commands.add(
        "fork",
        "writing:fork",
        "begin a session with the cells of another, up to one of them",
        "rlmnb fork demo --at cell_4f0z",
    )
    _session(parser)
    parser.add_argument("--at", metavar="CELL", help="the last cell to take; all unless said")
    parser.add_argument("--id", metavar="ID", help="the new session's id; made up unless said")


def _add_replaying(commands: _Commands) -> None:
    _session(
        commands.add(
            "status",
            "replaying:status",
            "show which cells no longer hold, and why; nothing is run",
            "rlmnb status analysis.ipynb",
        )
    )
    parser = commands.add(
        "replay",
        "replaying:run_replay",
        "run the cells whose inputs changed, and reuse the rest",
        "rlmnb replay analysis.ipynb --dry-run\n"
        "  rlmnb replay demo 2-4,7                  # these, and what they need\n"
        "  rlmnb replay demo --on-fork --edit 3 'limit = 5'   # what if?",
    )
    _session(parser)
    _selectors(parser, "bring only these up to date, and what they need")
    parser.add_argument("--dry-run", action="store_true", help="only say what would run, and why")
    parser.add_argument("--check", action="store_true", help="exit 1 if anything is stale")
    parser.add_argument("--verify", action="store_true", help="exit 1 if anything had to run")
    parser.add_argument(
        "--force",
        action="store_true",
        help="run every cell, or every one that is selected, and past the budget for model calls",
    )
    add_replay_options(parser)
    parser.add_argument(
        "--allow-effects",
        action="store_true",
        help="also run cells that change things outside the notebook (Bash, Write, Edit, ...); "
        "see which with --dry-run first",
    )
    parser.add_argument(
        "--keep-kernel", action="store_true", help="leave the kernel running for the next replay"
    )
    parser.add_argument(
        "--on-fork",
        action="store_true",
        help="replay a fork, leave the session alone, and show the difference",
    )
    parser.add_argument(
        "--edit",
        nargs=2,
        action="append",
        default=[],
        metavar=("CELL", "CODE"),
        help="with --on-fork: give a cell another source there; may be repeated",
    )
    parser.add_argument("--diff", action="store_true", help="show what the replay changed")
    parser.add_argument(
        "--fail-fast", action="store_true", help="stop at the first cell that fails"
    )
    parser.add_argument(
        "--timeout", type=float, metavar="SECONDS", help="the longest that a cell may run"
    )
    parser.add_argument(
        "--memory", type=_megabytes, metavar="MB", help="the most memory that the kernel may take"
    )


def _add_running(commands: _Commands) -> None:
    parser = commands.add(
        "invalidate",
        "replaying:invalidate",
        "mark cells as no longer valid, so that they and what depends on them are replayed",
        "rlmnb invalidate demo auth.py --reason 'the key was rotated'\n"
        "  rlmnb invalidate demo auth.py --undo",
    )
    _last(parser, "FILE|SELECTOR", f"a file that cells read, or {GRAMMAR}")
    parser.add_argument("--reason", metavar="TEXT", help="why, for whoever reads it later")
    parser.add_argument("--undo", action="store_true", help="take the marks back")
    parser = commands.add(
        "exec",
        "running:execute",
        "run code in the session's kernel as a new cell, starting the kernel if need be",
        "rlmnb exec 'print(len(users))'\n  rlmnb exec demo - < script.py",
    )
    _last(parser, "CODE", "Python code; - is stdin")
    parser.add_argument(
        "--timeout", type=float, metavar="SECONDS", help="the longest that it may run"
    )
    parser = commands.add(
        "kernel",
        "running:kernel",
        "start, stop and look at kernels that stay warm between replays",
        "rlmnb kernel start demo\n  rlmnb kernel status demo --json\n  rlmnb kernel list",
    )
    parser.add_argument(
        "action",
        choices=("start", "status", "stop", "restart", "list"),
        help="status exits with 1 if none is running",
    )
    _session(parser)
    parser.add_argument(
        "--timeout", type=float, metavar="SECONDS", help="start: how long it may take; 30 if unset"
    )
    parser.add_argument(
        "--idle", type=float, metavar="MINUTES", help="start: end after so long unused; 30 if unset"
    )
    parser.add_argument(
        "--memory", type=_megabytes, metavar="MB", help="start: the most memory it may take"
    )
    parser = commands.add(
        "watch",
        "watching:watch",
        "stay, and say after every change what became stale",
        "rlmnb watch analysis.ipynb --replay",
    )
    _session(parser)
    parser.add_argument("--replay", action="store_true", help="and bring it up to date")
    parser.add_argument(
        "--debounce", type=float, metavar="SECONDS", help="how long changes are gathered; 0.2"
    )


def _add_hooks(commands: _Commands) -> None:
    parser = commands.add(
        "hooks",
        "hooking:hooks",
        "record Claude Code's sessions: put its hooks into the settings, or take them out",
        "rlmnb hooks install            # shows the change first\n"
        "  rlmnb hooks status --json\n"
        "\nor as a plugin: claude --plugin-dir PATH_OF_THIS_REPOSITORY",
    )
    parser.add_argument(
        "action",
        choices=("install", "uninstall", "status"),
        help="status exits with 1 if they are in no settings",
    )
    parser.add_argument(
        "--scope",
        choices=("user", "project", "local"),
        default="user",
        help="for you (the default), for everybody in this project, or for you in it",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")
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
    _add_migrate(commands)
    parser = commands.add(
        "statusline",
        "hooking:statusline",
        "print one line on a session: cells, stale ones, tokens, cost",
        "rlmnb statusline demo\n"
        '\nin Claude Code\'s settings: "statusLine": {"type": "command", "command": '
        '"rlmnb statusline"}',
    )
    _session(parser)


def _add_migrate(commands: _Commands) -> None:
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
    parser.add_argument("--session", metavar="SESSION", help=f"with --dual-write: {_SESSION}")
    parser.add_argument(
        "--links",
        metavar="ROOT",
        help="with --dual-write: let the old paths below ROOT lead there, where nothing is yet",
    )


def _add_telling(commands: _Commands) -> None:
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
    _session(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="write to a file")


def _add_seeing(commands: _Commands) -> None:
    parser = commands.add(
        "open",
        "opening:open_in_lab",
        "open a session in JupyterLab, starting one if none shows it, and print the address",
        "rlmnb open demo --no-browser",
    )
    _session(parser)
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser = commands.add(
        "graph",
        "drawing:show_graph",
        "draw what the cells need from one another, and which of them no longer hold",
        "rlmnb graph analysis.ipynb\n  rlmnb graph demo --cell 7 --files --svg -o graph.svg",
    )
    _session(parser)
    forms = parser.add_mutually_exclusive_group()
    for form, summary in (
        ("mermaid", "a Mermaid flowchart, for Markdown on GitHub and in JupyterLab"),
        ("dot", "for Graphviz"),
        ("svg", "an image; needs: pip install 'rlmnb[graph]'"),
    ):
        forms.add_argument(f"--{form}", dest="form", action="store_const", const=form, help=summary)
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write to a file, whose ending can name the form"
    )
    parser.add_argument(
        "--into-notebook",
        action="store_true",
        help="put a Mermaid picture into the notebook, which any Jupyter draws; again refreshes it",
    )
    parser.add_argument("--cell", metavar="CELL", help="only what it needs and what needs it")
    parser.add_argument("--files", action="store_true", help="files read and written are nodes too")
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument(
        "--by-turn", action="store_true", help="one node a turn, as is done with many cells"
    )
    amount.add_argument(
        "--all", action="store_true", help="one node a cell, however many there are"
    )


def _add_judging(commands: _Commands) -> None:
    parser = commands.add(
        "diff",
        "judging:diff",
        "show what two sessions, or a fork and its origin, have not in common",
        "rlmnb diff demo demo-2 --stat\n"
        "  rlmnb diff demo-2                       # a fork with what it was forked from\n"
        "  rlmnb diff monday.ipynb tuesday.ipynb   # any two notebooks; exit code 1: they differ",
    )
    parser.add_argument("a", nargs="?", metavar="A", help=f"{_SESSION}")
    parser.add_argument(
        "b", nargs="?", metavar="B", help="the other; without it, A is compared with its origin"
    )
    parser.add_argument("--stat", action="store_true", help="one line for each cell, no lines")
    parser.add_argument("--full", action="store_true", help="cut nothing short")
    parser.add_argument("--cell", metavar="CELL", help="only this cell: its id or number")
    parser = commands.add(
        "lint",
        "judging:lint",
        "point out cells that make a session hard to follow and to replay, with the reason",
        "rlmnb lint analysis.ipynb --ignore unused\n"
        "\nthe tag rlmnb:lint-ignore on a cell keeps it out; exit code 1: something was found",
    )
    _session(parser)
    for option, word in (("--only", "apply only this rule"), ("--ignore", "leave this rule out")):
        parser.add_argument(
            option, action="append", default=[], metavar="RULE", help=f"{word}; may be repeated"
        )
    width = max(len(rule) for rule in RULES)
    listed = "".join(f"  {rule:<{width}}  {what}\n" for rule, what in RULES.items())
    parser.epilog = f"rules:\n{listed}\n{parser.epilog}"


def _add_keeping(commands: _Commands) -> None:
    add = commands.add
    _session(
        add(
            "verify",
            "keeping:verify",
            "derive every hash again, validate, compare the index with a rebuild",
            "rlmnb verify demo && echo unchanged",
        )
    )
    parser = add("doctor", "keeping:run_doctor", "find what went wrong", "rlmnb doctor --fix")
    _session(parser, without="all sessions")
    parser.add_argument("--fix", action="store_true", help="repair what can be repaired")
    parser.add_argument(
        "--hooks", action="store_true", help="how long hooks have taken, and what went wrong"
    )
    parser.add_argument(
        "--kernel",
        action="store_true",
        help="start a kernel, run a cell in it, and say how it went",
    )
    parser = add(
        "scrub",
        "scrubbing:scrub",
        "find secrets in what was written before, and with --yes take them out",
        "rlmnb scrub demo\n  rlmnb scrub --all --yes\n"
        "\nexit code 1: something was found and left as it is",
    )
    parser.add_argument("session", nargs="?", metavar="SESSION", help=_SESSION)
    parser.add_argument("--all", action="store_true", help="every session, archived ones too")
    parser.add_argument(
        "--entropy", action="store_true", help="what only looks random too; takes some ids with it"
    )
    parser.add_argument("--yes", action="store_true", help="do it; without this, only say")
    parser = add("du", "keeping:du", "show what takes disk space", "rlmnb du")
    _session(parser, without="all sessions")
    parser = add(
        "prune",
        "keeping:prune",
        "show what nothing needs, and with --yes remove it",
        "rlmnb prune --older-than 90 --yes",
    )
    _session(parser, without="all sessions")
    parser.add_argument(
        "--older-than", type=_days, metavar="DAYS", help="sessions too, if this old"
    )
    parser.add_argument("--yes", action="store_true", help="do it; without this, only say")
    parser = add(
        "archive",
        "archiving:put_away",
        "put a session away as one zip file with its manifest, and free its space",
        "rlmnb archive --older-than 30 --yes",
    )
    parser.add_argument("session", nargs="?", metavar="SESSION", help=_SESSION)
    parser.add_argument(
        "--older-than", type=_days, metavar="DAYS", help="every session that is this old instead"
    )
    parser.add_argument("--yes", action="store_true", help="with --older-than: do it, do not ask")
    parser.add_argument("--force", action="store_true", help="also one whose agent still runs")
    parser = add(
        "restore",
        "archiving:bring_back",
        "bring an archived session back, or a kernel to where it was after a cell",
        "rlmnb restore 2716cb5d\n  rlmnb restore demo --at 7    # the variables after cell 7",
    )
    parser.add_argument(
        "session",
        nargs="?",
        metavar="SESSION",
        help="an archived session's id or its beginning, or a zip; with --at, any session",
    )
    parser.add_argument(
        "--at",
        metavar="CELL",
        help="bring the session's kernel to its variables after this cell; nothing is run that "
        "can be restored",
    )
    parser = add("rm", "keeping:remove", "remove one session for good", "rlmnb rm demo --yes")
    parser.add_argument("session", metavar="SESSION", help=_SESSION)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add(
        "schema",
        "keeping:schema",
        "print the JSON Schema of a session notebook",
        "rlmnb schema > rlmnb.schema.json",
    )


def _megabytes(text: str) -> int:
    amount = int(text)
    if amount < 256:
        raise argparse.ArgumentTypeError(f"{text} MB is too little for a kernel; 256 is the least")
    return amount


def _days(text: str) -> float:
    days = float(text)
    if not 0 <= days <= 36_500:
        raise argparse.ArgumentTypeError(f"{text} is not a number of days from 0 to 36500")
    return days
