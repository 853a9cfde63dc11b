"""The ways in: who is let in, Notebook 7, and the command that opens a session."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import APIRequestContext, Browser, Page, expect

from tests.browser.driving import Open, append, make_words, path_of
from tests.browser.serving import OURS, TOKEN, Lab, end

pytestmark = pytest.mark.browser


@pytest.fixture
def client(browser: Browser) -> APIRequestContext:
    """Somebody with the browser's manners who has not signed in."""
    return browser.new_context().request


def test_a_request_without_the_token_is_refused(client: APIRequestContext, lab: Lab) -> None:
    session = make_words(replayed=False)
    asked = lab.api(f"status?path={path_of(session)}")
    assert client.get(asked).status == 403
    assert client.get(asked, headers={"Authorization": f"token {TOKEN}"}).status == 200
    assert client.post(lab.api("replay"), data={"path": path_of(session)}).status == 403


def test_a_path_outside_is_refused(client: APIRequestContext, lab: Lab, tmp_path: Path) -> None:
    known = {"Authorization": f"token {TOKEN}"}
    outside = tmp_path / "outside.ipynb"
    outside.write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    (lab.sessions / "leads-out.ipynb").symlink_to(outside)
    for path in ("../outside.ipynb", str(outside), "leads-out.ipynb", "a/../../outside.ipynb"):
        answer = client.get(lab.api("status"), params={"path": path}, headers=known)
        assert answer.status in (400, 403, 404), path
        assert "outside.ipynb" not in answer.text() or path in answer.text()


def test_a_page_of_another_origin_gets_nothing_and_changes_nothing(page: Page, lab: Lab) -> None:
    session = make_words(replayed=False)
    # Signed in, so that the browser has the cookie; the other page is the same machine, elsewhere.
    Open(page, lab, path_of(session))
    page.goto("data:text/html,<title>elsewhere</title>")
    tried = """async ([url, path]) => {
        const options = {credentials: 'include', method: 'POST', mode: 'no-cors',
                         body: JSON.stringify({path})};
        const sent = await fetch(url + '/rlmnb/api/replay', options)
            .then(a => a.type, e => 'error');
        const read = await fetch(url + '/rlmnb/api/status?path=' + path, {credentials: 'include'})
            .then(a => 'read', e => 'refused');
        return [sent, read];
    }"""
    refused: list[int] = []
    page.on("response", lambda answer: refused.append(answer.status))
    sent, read = page.evaluate(tried, [lab.url, path_of(session)])
    assert sent in ("opaque", "error")
    assert read == "refused"
    assert all(status in (403, 404) for status in refused)


def test_notebook_seven_shows_the_same(page: Page, lab: Lab) -> None:
    session = make_words()
    opened = Open(page, lab, path_of(session), door="notebooks")
    opened.expect_state(4, "fresh")
    append(session, "seen-in-notebook-seven")
    expect(page.get_by_text("seen-in-notebook-seven").first).to_be_attached()
    opened.edit(1, "text = 'a bee and a bumblebee'")
    page.keyboard.press("Control+s")
    opened.expect_state(4, "stale")
    opened.press("replay-stale")
    opened.expect_state(4, "fresh")
    expect(opened.cell(4)).to_contain_text("bumblebee")
    opened.press("graph")
    expect(page.locator(".rlmnb-node").first).to_be_visible()
    opened.expect_no_dialog()


def test_the_command_starts_a_lab_finds_it_again_and_the_page_has_the_badges(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As somebody would who has just installed it: nothing is told to JupyterLab."""
    for name in ("HOME", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setenv("RLMNB_HOME", str(tmp_path / "sessions"))
    monkeypatch.setenv("JUPYTER_PATH", str(_installed(tmp_path)))
    session = make_words()
    first = _opened(session)
    try:
        assert first["started"]
        again = _opened(session)
        assert (again["started"], again["url"]) == (False, first["url"])
        page.goto(first["url"])
        expect(page.locator(".rlmnb-mark")).to_have_count(4)
    finally:
        end(first["pid"])


def _installed(tmp_path: Path) -> Path:
    """Put the Lab extension where pip puts it; the one of this checkout."""
    place = tmp_path / "share"
    (place / "labextensions").mkdir(parents=True)
    (place / "labextensions" / "rlmnb").symlink_to(OURS)
    return place


def _opened(session: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-m", "rlmnb", "open", session, "--no-browser", "--json"],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
