"""What goes otherwise than planned: two clicks for one, notebooks that move, vanish, begin late."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, Request, expect

from rlmnb.format.state import notebook_metadata
from tests.browser.driving import Open, make_words, notebook_of, path_of, rlmnb
from tests.browser.serving import Lab

pytestmark = pytest.mark.browser


def make_plain(lab: Lab, name: str) -> tuple[Path, str]:
    """Write a notebook for our kernel that rlmnb never saw; return it, and its path in Lab."""
    cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    cells = [{**cell, "id": "one", "source": ["x = 1"]}, {**cell, "id": "two", "source": ["x + 1"]}]
    # Whole, so that nothing in it is changed by being opened.
    metadata = notebook_metadata({}, 0)
    del metadata["rlmnb"]
    whole = {"cells": cells, "metadata": metadata}
    path = lab.sessions / name / "plain.ipynb"
    path.parent.mkdir()
    path.write_text(json.dumps({**whole, "nbformat": 4, "nbformat_minor": 5}), encoding="utf-8")
    return path, f"{name}/plain.ipynb"


def toasts(page: Page, text: str | re.Pattern[str]) -> None:
    expect(page.locator(".Toastify__toast").filter(has_text=text).first).to_be_visible()


def test_a_double_click_replays_once(page: Page, lab: Lab) -> None:
    session = make_words()
    opened = Open(page, lab, path_of(session))
    opened.expect_state(1, "fresh")
    opened.edit(1, "text = 'a bee and a bumblebee'")
    begun: list[Request] = []
    page.on("request", lambda each: "api/replay?" in each.url and begun.append(each))
    page.locator("[data-command='rlmnb:replay-stale']").first.dblclick()
    expect(opened.cell(4)).to_contain_text("bumblebee")
    toasts(page, "Replay: 4 ran")
    assert [each.method for each in begun] == ["POST"]
    expect(page.locator(".Toastify__toast--error")).to_have_count(0)


def test_a_plan_calls_cells_by_their_place_and_is_gone_once_it_is_carried_out(
    page: Page, lab: Lab
) -> None:
    session = make_words()
    opened = Open(page, lab, path_of(session))
    opened.expect_state(1, "fresh")
    opened.edit(1, "text = 'a bee and a bumblebee'")
    opened.press("dry-run")
    plan = page.locator(".rlmnb-runs")
    expect(plan).to_contain_text("text from #1 changes")
    expect(plan).not_to_contain_text("cell_")
    opened.press("replay-stale")
    opened.expect_state(4, "fresh")
    expect(plan).to_have_count(0)


def test_of_a_notebook_that_was_deleted_nothing_is_claimed_and_commands_say_so(
    page: Page, lab: Lab
) -> None:
    path, shown = make_plain(lab, "deleted")
    rlmnb("replay", str(path))
    opened = Open(page, lab, shown)
    opened.expect_state(1, "fresh")
    opened.ready()  # Lab closes what vanishes while it is being opened
    path.unlink()
    opened.press("dry-run")
    toasts(page, re.compile("Dry run: .*there is no such notebook"))
    expect(page.locator(".rlmnb-mark")).to_have_count(0)
    # What the person has in front of them is the only copy now.
    assert opened.sources() == ["x = 1", "x + 1"]
    assert not path.exists()


def test_a_notebook_that_is_renamed_is_watched_under_its_new_name(page: Page, lab: Lab) -> None:
    path, shown = make_plain(lab, "moved")
    rlmnb("replay", str(path))
    opened = Open(page, lab, shown)
    opened.expect_state(1, "fresh")
    page.evaluate("() => jupyterapp.shell.currentWidget.context.rename('renamed.ipynb')")
    # Nothing was replayed under this name: what was said of the other is taken back.
    expect(page.locator(".rlmnb-mark")).to_have_count(0)
    heard = re.compile("api/events.*renamed.ipynb")
    with page.expect_response(lambda answer: bool(heard.search(answer.url)) and answer.ok):
        opened.press("replay-stale")
    opened.expect_state(1, "fresh")


def test_a_notebook_that_becomes_ours_while_it_is_open_is_listened_to_from_then_on(
    page: Page, lab: Lab
) -> None:
    _, shown = make_plain(lab, "late")
    with page.expect_response(lambda answer: "api/events" in answer.url) as refused:
        opened = Open(page, lab, shown)
    assert refused.value.status == 404
    opened.ready()
    with page.expect_response(lambda answer: "api/events" in answer.url) as heard:
        opened.run(1)
        opened.save()
    assert heard.value.ok
    opened.expect_state(1, "fresh")


def test_a_cell_that_fails_in_a_replay_is_marked_and_told_of(page: Page, lab: Lab) -> None:
    session = make_words()
    opened = Open(page, lab, path_of(session))
    opened.expect_state(1, "fresh")
    opened.edit(2, "words = text.split(1)")
    opened.press("replay-stale")
    toasts(page, "1 failed")
    opened.expect_state(2, "failed")
    opened.expect_state(3, "stale")
    expect(page.locator(".rlmnb-status")).to_have_text("3 stale, 1 of them failed")
    expect(opened.cell(2)).to_contain_text("TypeError")
    assert "TypeError" in notebook_of(session).read_text(encoding="utf-8")
