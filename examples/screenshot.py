"""Make the picture of the README: a session in JupyterLab, by a real browser, as it really looks.

`python examples/screenshot.py [light|dark] [FILE]`
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from playwright.sync_api import Page, sync_playwright  # noqa: E402 - after the path is set

from tests.browser.conftest import CHROMIUM, FLAGS  # noqa: E402
from tests.browser.serving import Lab, running_lab  # noqa: E402

THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
LOG = """\
09:12 GET /login 200 31
09:13 GET /cart 200 48
09:13 POST /login 500 912
09:14 POST /login 500 887
09:15 GET /cart 200 51
"""
CELLS = (
    "log = tools.Read(file_path='access.log')",
    """\
lines = [line.split() for line in str(log).splitlines()]
slow = [line for line in lines if int(line[-1]) > 500]""",
    "print(len(lines), 'requests,', len(slow), 'slow')",
    "from collections import Counter\n\nCounter(line[-3] for line in slow)",
)


def rlmnb(*arguments: str, **options: str) -> None:
    """Run a command as a user would."""
    command = [sys.executable, "-m", "rlmnb", *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **options)


def make_session(home: Path) -> None:
    """Let an agent look into a log, and then the log changes."""
    project = home / "project"
    project.mkdir()
    os.chdir(project)
    os.environ["RLMNB_HOME"] = str(home / "sessions")
    (project / "access.log").write_text(LOG, encoding="utf-8")
    append_text("**Why are logins slow since this morning?**")
    rlmnb("append", "slow-logins", "--type", "tool", "--source", CELLS[0])
    for source in CELLS[1:]:
        rlmnb("append", "slow-logins", "--source", source)
    rlmnb("replay", "slow-logins", "--force")
    rlmnb(
        *("append", "slow-logins", "--type", "llm_call", "--output", ANSWER, "--record", CALL),
        *("--source", "llm_query('What makes POST /login ten times slower overnight?')"),
    )
    rlmnb(
        *("append", "slow-logins", "--type", "tool", "--output", "restarted"),
        *("--source", "tools.Bash(command='systemctl --user restart shop')"),
    )


ANSWER = "Look at the cost of the password hash: three steps up, eight times the work."
CALL = '{"metadata": {"model": "a-model", "tokens_used": 412}}'


def append_text(text: str) -> None:
    """Put a line of the story into the notebook."""
    import rlmnb as package

    package.append("slow-logins", {"cell_type": "markdown", "source": text})


def take(page: Page, lab: Lab, theme: str, target: Path) -> None:
    """Open the session, change a cell, draw the graph, and take the picture."""
    page.goto(lab.address("slow-logins/session.ipynb"))
    page.wait_for_selector(".rlmnb-mark")
    page.evaluate(
        f"() => jupyterapp.commands.execute('apputils:change-theme', {{theme: '{theme}'}})"
    )
    page.wait_for_function("theme => document.body.dataset.jpThemeName === theme", arg=theme)
    page.evaluate("() => jupyterapp.commands.execute('application:toggle-left-area')")
    page.locator(".cm-line", has_text="> 500").click()
    page.keyboard.press("End")
    for _ in range(5):
        page.keyboard.press("Backspace")
    page.keyboard.type(" 900]")
    page.keyboard.press("Control+s")
    page.wait_for_selector(".jp-Cell[data-rlmnb-state='stale']")
    page.evaluate("() => jupyterapp.commands.execute('rlmnb:graph')")
    page.wait_for_selector(".rlmnb-node.rlmnb-stale")
    page.wait_for_function(
        "() => jupyterapp.shell.widgets('main').next().value.sessionContext.session"
        "?.kernel?.status === 'idle'"
    )
    page.keyboard.press("Escape")
    page.screenshot(path=target)


def main() -> None:
    """Make the picture."""
    theme = THEMES[sys.argv[1] if len(sys.argv) > 1 else "light"]
    kept = HERE / "session-in-jupyterlab.png"
    target = Path(sys.argv[2]).absolute() if len(sys.argv) > 2 else kept
    home = Path(tempfile.mkdtemp(prefix="screenshot-"))
    try:
        with running_lab(home) as lab, sync_playwright() as playwright:
            make_session(home)
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            page = browser.new_page(viewport={"width": 1360, "height": 740})
            take(page, lab, theme, target)
            browser.close()
    finally:
        os.chdir(HERE)
        shutil.rmtree(home, ignore_errors=True)
    print(f"{target}: {target.stat().st_size // 1024} KB")


if __name__ == "__main__":
    main()
