"""A person types while an agent appends: with and without jupyter-collaboration, all is kept."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.driving import (
    Open,
    append,
    is_save,
    make_words,
    path_of,
    rlmnb,
    sources_of,
    start_hook,
)
from tests.browser.serving import Lab

pytestmark = pytest.mark.browser

TYPED = "typed = 'the quick brown fox jumps over it'"


@pytest.fixture(params=["plain_lab", "shared_lab"], ids=["alone", "together"])
def lab(request: pytest.FixtureRequest) -> Lab:
    return request.getfixturevalue(request.param)


def test_typing_while_twenty_cells_are_appended_keeps_every_key_and_every_cell(
    page: Page, lab: Lab
) -> None:
    session = make_words()
    opened = Open(page, lab, path_of(session))
    opened.expect_state(1, "fresh")
    opened.ready()
    opened.cell(4).locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    hooks = []
    for number, letter in enumerate(TYPED):
        page.keyboard.type(letter)
        if number % 2 == 0 and len(hooks) < 20:
            hooks.append(start_hook(session, f"appended-{len(hooks)}-"))
    assert [hook.wait(timeout=300) for hook in hooks] == [0] * 20
    for number in range(20):
        opened.expect_sources(f"appended-{number}-")
    assert opened.sources()[3] == TYPED
    opened.save()
    opened.expect_no_dialog()
    assert opened.sources()[3] == TYPED
    rlmnb("status", session)
    kept = sources_of(session)
    assert kept[3] == TYPED
    assert [sum(f"appended-{n}-" in source for source in kept) for n in range(20)] == [1] * 20


def test_a_cell_that_is_appended_is_seen_in_time_and_nothing_is_asked(page: Page, lab: Lab) -> None:
    session = make_words()
    opened = Open(page, lab, path_of(session))
    opened.expect_state(1, "fresh")
    append(session, "seen-by-the-person")
    opened.expect_sources("seen-by-the-person")
    opened.expect_state(5, "fresh")
    opened.expect_no_dialog()


def test_an_edit_is_replayed_where_the_person_sees_it(page: Page, lab: Lab) -> None:
    session = make_words()
    opened = Open(page, lab, path_of(session))
    opened.expect_state(1, "fresh")
    opened.edit(1, "text = 'a bee and a bumblebee'")
    opened.save()
    opened.expect_state(4, "stale")
    opened.press("replay-stale")
    opened.expect_state(4, "fresh")
    expect(opened.cell(4)).to_contain_text("bumblebee")
    opened.expect_no_dialog()


@pytest.mark.parametrize("lab", ["bare_lab"], indirect=True)
def test_overwriting_after_a_conflict_keeps_both_sides(page: Page, lab: Lab) -> None:
    session = make_words()
    opened = Open(page, lab, path_of(session))
    opened.edit(4, "mine = 1")
    append(session, "theirs")
    page.keyboard.press("Control+s")
    dialog = page.locator(".jp-Dialog")
    expect(dialog).to_contain_text("File Changed")
    with page.expect_response(is_save):
        dialog.get_by_role("button", name="Overwrite").click()
    kept = sources_of(session)
    assert "mine = 1" in kept
    assert any("theirs" in source for source in kept)


@pytest.mark.parametrize("lab", ["plain_lab"], indirect=True)
def test_one_cell_that_is_edited_in_two_windows_keeps_both_texts(page: Page, lab: Lab) -> None:
    session = make_words()
    mine, theirs = (Open(each, lab, path_of(session)) for each in (page, page.context.new_page()))
    mine.expect_state(1, "fresh")
    mine.edit(3, "print('written here')")
    theirs.edit(3, "print('written there')")
    theirs.save()
    mine.expect_sources("written there")
    mine.save()
    mine.expect_no_dialog()
    kept = sources_of(session)
    assert kept[2] == "print('written here')"
    assert "```python\nprint('written there')\n```" in kept[3]
    theirs.expect_sources("written here")
    theirs.expect_no_dialog()


@pytest.mark.parametrize("lab", ["plain_lab"], indirect=True)
def test_a_cell_that_is_deleted_in_one_window_and_edited_in_another_is_kept(
    page: Page, lab: Lab
) -> None:
    session = make_words()
    mine, theirs = (Open(each, lab, path_of(session)) for each in (page, page.context.new_page()))
    mine.expect_state(1, "fresh")
    delete = "() => jupyterapp.shell.currentWidget.content.model.sharedModel.deleteCell(3)"
    page.evaluate(delete)
    theirs.edit(4, "print('still wanted')")
    theirs.save()
    mine.expect_sources("still wanted")
    mine.save()
    assert sources_of(session)[3:] == ["print('still wanted')"]
