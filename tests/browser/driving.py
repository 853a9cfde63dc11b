"""What a person does in JupyterLab and an agent does beside it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import uuid
from functools import cache
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, Response, ViewportSize, expect

from rlmnb import Session
from rlmnb import append as append_cell
from tests.browser.serving import Lab

PAYLOADS = Path(__file__).parents[1] / "payloads"
# How long anything may take that is waited for; a busy machine is no failure.
SOON = 180_000
WORDS = (
    "text = 'the cat and the dog and the bird'",
    "words = text.split()",
    "print(len(words), 'words')",
    "print(max(words, key=len))",
)
VIEWPORT: ViewportSize = {"width": 1700, "height": 1000}
# In a JupyterLab that is loaded already, as a double click in its file browser does.
_OPEN = """async path => {
    const opened = await jupyterapp.commands.execute('docmanager:open', {path});
    const others = [...jupyterapp.shell.widgets('main')].filter(each => each !== opened);
    others.forEach(each => each.dispose());
}"""
_NOTE_SAVES = """() => {
    const states = window.saves = [];
    jupyterapp.shell.currentWidget.context.saveState.connect((_, state) => states.push(state));
}"""
_LEAVE = """() => {
    [...jupyterapp.shell.widgets('main')].forEach(each => each.dispose());
    document.querySelectorAll('.jp-Notification-Toast-Close').forEach(each => each.click());
}"""
_MODEL = "jupyterapp.shell.currentWidget.content.model"


class Open:
    """A notebook in front of somebody."""

    def __init__(self, page: Page, lab: Lab, path: str, door: str = "lab/tree") -> None:
        self.page = page
        self.path = path
        if door == "lab/tree" and is_lab(page, lab.url):
            page.evaluate(_OPEN, path)
        else:
            page.goto(lab.address(path, door=door))
        expect(self.cells.first).to_be_visible(timeout=SOON)

    @property
    def cells(self) -> Locator:
        return self.page.locator(".jp-NotebookPanel .jp-Cell")

    def cell(self, number: int) -> Locator:
        return self.cells.nth(number - 1)

    def expect_state(self, number: int, state: str) -> None:
        """Wait until a cell is shown to stand so."""
        expect(self.cell(number)).to_have_attribute("data-rlmnb-state", state, timeout=SOON)

    def mark(self, number: int) -> Locator:
        return self.cell(number).locator(".rlmnb-mark")

    def edit(self, number: int, text: str) -> None:
        """Replace what a cell says, by hand."""
        self.cell(number).locator(".cm-content").click()
        self.page.keyboard.press("Control+a")
        self.page.keyboard.type(text)

    def save(self) -> None:
        """Save as a person does, and wait until Lab says that it is done."""
        self.page.evaluate(_NOTE_SAVES)
        self.page.keyboard.press("Control+s")
        # Waited for with a limit, which a promise would not be.
        self.page.wait_for_function("() => saves.some(state => state !== 'started')")
        states = self.page.evaluate("() => saves")
        assert any(state.startswith("completed") for state in states), states
        self.page.wait_for_function(f"() => !{_MODEL}.dirty")

    def run(self, number: int) -> None:
        """Run a cell by hand, and wait until it has run."""
        self.cell(number).locator(".cm-content").click()
        self.page.keyboard.press("Control+Enter")
        prompt = self.cell(number).locator(".jp-InputPrompt")
        expect(prompt).to_have_text(re.compile(r"\[\d+\]"), timeout=SOON)

    def press(self, command: str) -> None:
        """Press a button of the notebook's toolbar."""
        self.page.locator(f"[data-command='rlmnb:{command}']").first.click()

    def buffer(self) -> dict[str, Any]:
        """Return the notebook as the browser has it."""
        return self.page.evaluate(f"() => {_MODEL}.toJSON()")

    def sources(self) -> list[str]:
        return ["".join(cell["source"]) for cell in self.buffer()["cells"]]

    def expect_sources(self, wanted: str) -> None:
        """Wait until a cell with this text is in the buffer."""
        self.page.wait_for_function(
            "wanted => jupyterapp.shell.currentWidget.content.model.toJSON().cells"
            ".some(cell => [].concat(cell.source).join('').includes(wanted))",
            arg=wanted,
            timeout=SOON,
        )

    def expect_no_dialog(self) -> None:
        expect(self.page.locator(".jp-Dialog")).to_have_count(0)

    def ready(self) -> None:
        """Wait until the kernel that Lab starts for the notebook has nothing to do."""
        self.page.wait_for_function(
            "() => jupyterapp.shell.currentWidget.sessionContext.session"
            "?.kernel?.status === 'idle'",
            timeout=SOON,
        )


def is_lab(page: Page, url: str) -> bool:
    """Tell whether a page has a server's JupyterLab in it."""
    return bool(url) and page.url.startswith(f"{url}/lab")


def is_save(answer: Response) -> bool:
    """Tell whether a notebook was saved; JupyterLab writes its workspace in the same way."""
    return answer.request.method == "PUT" and "/api/contents/" in answer.url


def leave(page: Page) -> None:
    """Close all that a test has opened in JupyterLab, saved or not."""
    page.unroute_all()
    page.set_viewport_size(VIEWPORT)
    page.keyboard.press("Escape")
    page.evaluate(_LEAVE)
    expect(page.locator(".Toastify__toast, .jp-Dialog, .jp-NotebookPanel")).to_have_count(0)


def rlmnb(*arguments: str) -> str:
    """Run a command as somebody at a terminal would, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "rlmnb", *arguments], capture_output=True, text=True, timeout=300
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def make_words(*, replayed: bool = True) -> str:
    """Make a session of cells that need one another, run once; return its id."""
    session = f"words-{uuid.uuid4().hex[:8]}"
    if replayed:
        Session.open(_replayed(os.environ["RLMNB_HOME"])).fork(session_id=session)
    else:
        _append_words(session)
    return session


@cache
def _replayed(root: str) -> str:
    """Run such a session once for each sessions root; forks of it are as fresh, and cost little."""
    del root
    _append_words("words")
    rlmnb("replay", "words", "--force")
    return "words"


def _append_words(session: str) -> None:
    for source in WORDS:
        append_cell(session, {"source": source})


def start_hook(session: str, text: str, event: str = "PostToolUse.Bash") -> subprocess.Popen[bytes]:
    """Hand the hook a real payload about a command that printed a text."""
    payload = json.loads((PAYLOADS / f"{event}.json").read_text(encoding="utf-8"))
    payload |= {"session_id": session, "tool_use_id": f"toolu_{uuid.uuid4().hex}"}
    payload["tool_input"] = {**payload["tool_input"], "command": f"echo {text}"}
    process = subprocess.Popen(
        [sys.executable, "-m", "rlmnb.hook"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(payload).encode())
    process.stdin.close()
    return process


def append(session: str, text: str) -> None:
    """Let the agent run a command, and wait until its hook is done."""
    assert start_hook(session, text).wait(timeout=300) == 0


def notebook_of(session: str) -> Path:
    return Path(os.environ["RLMNB_HOME"]) / session / "session.ipynb"


def path_of(session: str) -> str:
    """Return the notebook's path as the file browser has it."""
    return f"{session}/session.ipynb"


def sources_of(session: str) -> list[str]:
    notebook = json.loads(notebook_of(session).read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in notebook["cells"]]
