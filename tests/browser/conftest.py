"""One browser, one server of each kind and one page for each server, which tests use in turn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error, Page, expect, sync_playwright

from tests.browser.driving import SOON, VIEWPORT, is_lab, leave
from tests.browser.serving import Lab, running_lab

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    assert CHROMIUM.exists(), f"{CHROMIUM}: no browser there; run: make test-browser"
    expect.set_options(timeout=SOON)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def plain_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running_lab(tmp_path_factory.mktemp("plain")) as lab:
        yield lab


@pytest.fixture(scope="session")
def shared_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A server with jupyter-collaboration."""
    with running_lab(tmp_path_factory.mktemp("shared"), together=True) as lab:
        yield lab
    # Also while it ends, which takes it seconds.
    assert "could not be looked after" not in lab.log.read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def bare_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A server with our extension, and a JupyterLab without."""
    with running_lab(tmp_path_factory.mktemp("bare"), ours=False) as lab:
        yield lab


@pytest.fixture
def lab(plain_lab: Lab) -> Lab:
    """The server that a test is about; a module may name another."""
    return plain_lab


@pytest.fixture(autouse=True)
def seen(request: pytest.FixtureRequest, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands and hooks see the sessions of the server that a test is about."""
    if "lab" in request.fixturenames:
        lab: Lab = request.getfixturevalue("lab")
        monkeypatch.setenv("RLMNB_HOME", str(lab.sessions))
        monkeypatch.setenv("JUPYTER_DATA_DIR", str(lab.data))


@pytest.fixture(scope="session")
def kept_pages(browser: Browser) -> dict[str, Page]:
    """The page of each server: loading JupyterLab takes longer than most that is done in it."""
    return {}


@pytest.fixture
def page(
    request: pytest.FixtureRequest, browser: Browser, kept_pages: dict[str, Page]
) -> Iterator[Page]:
    """A page with nothing in it that another test has left, in which our scripts must not fail."""
    url = request.getfixturevalue("lab").url if "lab" in request.fixturenames else ""
    page = kept_pages.pop(url, None) or _new_page(browser)
    failed_before = request.session.testsfailed
    failures: list[str] = []

    def hear(error: Error) -> None:
        failures.append(f"{error}\n{error.stack}")

    page.on("pageerror", hear)
    yield page
    if request.session.testsfailed == failed_before and is_lab(page, url):
        leave(page)
        kept_pages[url] = page
    page.remove_listener("pageerror", hear)
    for each in page.context.pages:
        if each is not kept_pages.get(url):
            each.close()
    # Notebook 7 has failures of its own.
    assert not [failure for failure in failures if "extensions/rlmnb" in failure]


def _new_page(browser: Browser) -> Page:
    """Make a page in a profile of its own."""
    page = browser.new_context(viewport=VIEWPORT).new_page()
    page.set_default_timeout(SOON)
    return page
