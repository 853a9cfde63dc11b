"""A cell that a person runs in JupyterLab counts as run."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Page, expect

from tests.browser.driving import Open, make_words, path_of, rlmnb
from tests.browser.serving import Lab

pytestmark = pytest.mark.browser


def stale_of(session: str) -> set[str]:
    return {each["cell_id"] for each in json.loads(rlmnb("status", session, "--json"))["stale"]}


def test_a_cell_run_by_hand_is_fresh_for_the_command_line_and_its_dependents_are_stale(
    page: Page, lab: Lab
) -> None:
    session = make_words()
    opened = Open(page, lab, path_of(session))
    opened.expect_state(1, "fresh")
    opened.ready()
    ids = [cell["id"] for cell in opened.buffer()["cells"]]
    opened.edit(1, "text = 'a bee and a bumblebee'\nprint('ran by hand')")
    opened.save()
    opened.expect_state(1, "stale")
    opened.run(1)
    expect(opened.cell(1)).to_contain_text("ran by hand")
    opened.save()
    opened.expect_state(1, "fresh")
    for number in (2, 3, 4):
        opened.expect_state(number, "stale")
    assert stale_of(session) == set(ids[1:])
    for number in (2, 3, 4):
        opened.run(number)
    expect(opened.cell(4)).to_contain_text("bumblebee")
    opened.save()
    for number in (1, 2, 3, 4):
        opened.expect_state(number, "fresh")
    assert stale_of(session) == set()
    opened.expect_no_dialog()
