"""A session in JupyterLab: seen, edited, replayed, while an agent works on it."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.driving import (
    Open,
    append,
    append_cell,
    is_save,
    make_words,
    notebook_of,
    path_of,
    rlmnb,
    sources_of,
)
from tests.browser.serving import Lab

pytestmark = pytest.mark.browser


def test_a_session_opens_with_its_cells_and_how_each_stands(page: Page, lab: Lab) -> None:
    session = make_words()
    append(session, "hello")
    opened = Open(page, lab, path_of(session))
    for number in range(1, 5):
        opened.expect_state(number, "fresh")
    expect(opened.cell(3)).to_contain_text("8 words")
    last = opened.cells.last
    expect(last.locator(".rlmnb-effects")).to_be_visible()
    expect(last.locator(".rlmnb-mark")).to_have_attribute("aria-label", _contains("outside"))
    expect(page.locator(".rlmnb-status")).to_contain_text("fresh")
    opened.expect_no_dialog()


def test_opening_and_saving_leaves_every_byte(page: Page, lab: Lab) -> None:
    session = make_words()
    append(session, "hello")
    numbers = "[2.0, 0.5, 1e-7, 1e17, 1e300, 10**20]"
    append_cell(session, {"source": f"from IPython.display import JSON\nJSON({numbers})"})
    rlmnb("replay", session, "6", "--force")
    before = notebook_of(session).read_bytes()
    opened = Open(page, lab, path_of(session))
    opened.expect_state(1, "fresh")
    opened.ready()
    assert not page.evaluate("() => jupyterapp.shell.currentWidget.content.model.dirty")
    with page.expect_response(is_save) as saved:
        page.evaluate("() => jupyterapp.commands.execute('docmanager:save')")
    assert saved.value.ok
    assert notebook_of(session).read_bytes() == before


def test_a_cell_that_the_hook_appends_appears_and_the_person_stays_where_they_are(
    page: Page, lab: Lab
) -> None:
    session = make_words()
    for number in range(12):
        append_cell(session, {"source": f"print('filler', {number})"})
    opened = Open(page, lab, path_of(session))
    opened.ready()
    opened.expect_state(1, "fresh")
    where = "() => [jupyterapp.shell.currentWidget.content.activeCellIndex, \
        jupyterapp.shell.currentWidget.content.activeCell.editor.getCursorPosition().column, \
        document.querySelector('.jp-WindowedPanel-outer').scrollTop, \
        document.activeElement.className, \
        jupyterapp.shell.currentWidget.sessionContext.session.kernel.id]"
    opened.cell(2).locator(".cm-content").click()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    before = page.evaluate(where)
    append(session, "appended-while-open")
    opened.expect_sources("appended-while-open")
    expect(page.locator(".rlmnb-news")).to_be_visible()
    assert page.evaluate(where) == before
    assert not page.evaluate("() => jupyterapp.shell.currentWidget.content.model.dirty")
    opened.expect_no_dialog()
    page.locator(".rlmnb-news").click()
    expect(page.get_by_text("appended-while-open").first).to_be_in_viewport()


def test_an_edit_makes_stale_what_came_from_it_and_a_click_replays_it(page: Page, lab: Lab) -> None:
    session = make_words()
    opened = Open(page, lab, path_of(session))
    opened.expect_state(1, "fresh")
    opened.edit(1, "text = 'a bee and a bumblebee'")
    opened.save()
    for number in range(1, 5):
        opened.expect_state(number, "stale")
    expect(opened.mark(1)).to_have_attribute("title", _contains("source edited"))
    expect(page.locator(".rlmnb-status")).to_contain_text("4 stale")
    opened.press("replay-stale")
    for number in range(1, 5):
        opened.expect_state(number, "fresh")
    expect(opened.cell(3)).to_contain_text("5 words")
    expect(opened.cell(4)).to_contain_text("bumblebee")
    expect(page.locator(".rlmnb-status")).to_contain_text("fresh")
    opened.expect_no_dialog()
    # And the file, which the replay has rewritten, can be saved without a question.
    opened.edit(2, "words = text.split('e')")
    opened.save()
    opened.expect_state(2, "stale")
    opened.expect_no_dialog()


def test_replaying_one_cell_leaves_the_others_as_they_are(page: Page, lab: Lab) -> None:
    session = make_words()
    opened = Open(page, lab, path_of(session))
    opened.expect_state(1, "fresh")
    opened.edit(3, "print('three')")
    opened.edit(4, "print('four')")
    opened.save()
    opened.expect_state(3, "stale")
    opened.expect_state(4, "stale")
    opened.press("replay-cell")
    opened.expect_state(4, "fresh")
    opened.expect_state(3, "stale")
    expect(opened.cell(4)).to_contain_text("four")


def test_what_is_typed_and_what_is_appended_meanwhile_are_saved_without_a_question(
    page: Page, lab: Lab
) -> None:
    session = make_words()
    # Nobody tells the browser of the agent's cell, so Lab finds another file than it knows.
    page.route("**/rlmnb/api/**", lambda route: route.abort())
    opened = Open(page, lab, path_of(session))
    opened.edit(4, "mine = 1")
    append(session, "theirs")
    opened.save()
    opened.expect_no_dialog()
    opened.expect_sources("theirs")
    assert "mine = 1" in sources_of(session)
    assert any("theirs" in source for source in sources_of(session))


def test_a_dry_run_names_what_would_run_and_runs_nothing(page: Page, lab: Lab) -> None:
    session = make_words()
    opened = Open(page, lab, path_of(session))
    opened.expect_state(1, "fresh")
    opened.edit(4, "print('<b>four</b>')")
    opened.save()
    opened.expect_state(4, "stale")
    before = notebook_of(session).read_bytes()
    opened.press("dry-run")
    plan = page.locator(".rlmnb-runs")
    expect(plan).to_contain_text("1 cell would run")
    expect(plan).to_contain_text("print('<b>four</b>')")
    expect(plan).to_contain_text("source edited")
    assert notebook_of(session).read_bytes() == before


def test_a_click_or_a_key_in_the_graph_goes_to_the_cell(page: Page, lab: Lab) -> None:
    session = make_words()
    opened = Open(page, lab, path_of(session))
    opened.expect_state(1, "fresh")
    opened.press("graph")
    boxes = page.locator(".rlmnb-node")
    expect(boxes).to_have_count(4)
    expect(page.locator(".rlmnb-edge")).to_have_count(3)
    active = "() => jupyterapp.shell.widgets('main').next().value.content.activeCellIndex"
    boxes.nth(2).click()
    page.wait_for_function(f"{active[6:]} === 2")
    boxes.nth(3).focus()
    page.keyboard.press("Enter")
    page.wait_for_function(f"{active[6:]} === 3")
    opened.edit(1, "text = 'x'")
    opened.save()
    expect(boxes.nth(1)).to_have_attribute("aria-label", _contains("because text from #1 changes"))


def test_in_a_long_notebook_a_cell_that_is_not_on_the_page_yet_is_gone_to(
    page: Page, lab: Lab
) -> None:
    session = make_words()
    for number in range(150):
        append_cell(session, {"source": f"print('filler', {number})"})
    opened = Open(page, lab, path_of(session))
    opened.expect_state(1, "fresh")
    page.evaluate("() => jupyterapp.commands.execute('rlmnb:graph')")
    last, second_last = page.locator(".rlmnb-node").nth(-1), page.locator(".rlmnb-node").nth(-2)
    # Whoever changes their mind while the first is waited for gets the second.
    last.click()
    second_last.click()
    wanted = second_last.get_attribute("data-cell")
    active = "jupyterapp.shell.widgets('main').next().value.content.activeCell"
    page.wait_for_function(f"wanted => {active}.model.id === wanted", arg=wanted)
    page.wait_for_function(f"() => {active}.node.getBoundingClientRect().height > 0")
    page.wait_for_function(
        f"() => {active}.node.getBoundingClientRect().top < innerHeight"
        f" && {active}.node.getBoundingClientRect().bottom > 0"
    )


def test_the_commands_are_in_the_palette_and_the_marks_take_the_keyboard(
    page: Page, lab: Lab
) -> None:
    session = make_words()
    opened = Open(page, lab, path_of(session))
    opened.expect_state(1, "fresh")
    opened.edit(1, "text = 'x'")
    opened.save()
    opened.expect_state(1, "stale")
    opened.mark(1).focus()
    page.keyboard.press("Enter")
    expect(opened.mark(1)).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Control+Shift+c")
    palette = page.locator("#command-palette, .jp-ModalCommandPalette")
    page.keyboard.type("rlmnb")
    for name in ("Replay stale", "Replay this cell", "Dry run", "Graph"):
        expect(palette.get_by_text(name, exact=True).first).to_be_visible()


def test_a_notebook_of_nobody_of_ours_is_left_alone(page: Page, lab: Lab) -> None:
    cell = {"cell_type": "code", "execution_count": None, "id": "one", "metadata": {}}
    plain = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    whole = {"cells": [{**cell, "outputs": [], "source": ["x = 1"]}], "metadata": plain}
    path = lab.sessions / "other.ipynb"
    path.write_text(json.dumps({**whole, "nbformat": 4, "nbformat_minor": 5}), encoding="utf-8")
    opened = Open(page, lab, "other.ipynb")
    opened.expect_sources("x = 1")
    expect(page.locator(".rlmnb-mark")).to_have_count(0)
    button = page.locator(".jp-NotebookPanel-toolbar [data-command='rlmnb:replay-stale']")
    expect(button).to_be_hidden()
    assert not (lab.sessions / ".rlmnb").exists()


def test_nothing_that_a_notebook_says_becomes_part_of_the_page(page: Page, lab: Lab) -> None:
    session = make_words(replayed=False)
    evil = "<img src=x onerror=\"document.title='taken over'\">"
    rlmnb("append", session, "--source", f"y = {evil!r}", "--error", evil, "--goal", evil)
    rlmnb("invalidate", session, "1", "--reason", evil)
    opened = Open(page, lab, path_of(session))
    opened.expect_state(5, "failed")
    expect(opened.mark(1)).to_have_attribute("title", _contains(evil))
    opened.press("graph")
    expect(page.locator(".rlmnb-node")).to_have_count(5)
    opened.press("dry-run")
    expect(page.locator(".rlmnb-plan").first).to_be_visible()
    assert page.locator(".rlmnb-panel img, .rlmnb-note img").count() == 0
    assert page.title() != "taken over"


def test_the_marks_follow_the_theme(page: Page, lab: Lab) -> None:
    session = make_words()
    opened = Open(page, lab, path_of(session))
    opened.expect_state(1, "fresh")
    colour = "node => getComputedStyle(node).color"
    light = opened.mark(1).evaluate(colour)
    _change_theme(page, "JupyterLab Dark", "false")
    page.wait_for_function(
        "light => getComputedStyle(document.querySelector('.rlmnb-mark')).color !== light",
        arg=light,
    )
    _change_theme(page, "JupyterLab Light", "true")
    expect(opened.mark(1)).to_have_css("color", light)


def _change_theme(page: Page, name: str, light: str) -> None:
    command = "theme => jupyterapp.commands.execute('apputils:change-theme', {theme})"
    page.evaluate(command, name)
    page.wait_for_function("light => document.body.dataset.jpThemeLight === light", arg=light)


def test_in_a_narrow_window_no_mark_stands_on_a_prompt(page: Page, lab: Lab) -> None:
    session = make_words()
    page.set_viewport_size({"width": 700, "height": 800})
    opened = Open(page, lab, path_of(session))
    opened.expect_state(1, "fresh")
    mark = opened.mark(1).bounding_box()
    written = "node => { const all = document.createRange(); all.selectNodeContents(node); \
        return all.getBoundingClientRect().right }"
    prompt = opened.cell(1).locator(".jp-InputPrompt").evaluate(written)
    assert mark is not None
    assert mark["x"] >= prompt


def test_effects_are_allowed_by_name_and_not_in_passing(page: Page, lab: Lab) -> None:
    session = make_words()
    append(session, "an-effect")
    opened = Open(page, lab, path_of(session))
    opened.expect_state(5, "fresh")
    command = "() => void jupyterapp.commands.execute('rlmnb:replay-with-effects')"
    # Where no cell with effects would run there is nothing to ask.
    page.evaluate(command)
    expect(page.locator(".Toastify__toast").filter(has_text="Replay: 0 ran").first).to_be_visible()
    opened.expect_no_dialog()
    rlmnb("invalidate", session, "5", "--reason", "to see what happens")
    opened.expect_state(5, "stale")
    page.evaluate(command)
    dialog = page.locator(".jp-Dialog")
    expect(dialog).to_contain_text("1 cell would change things outside the notebook")
    expect(dialog).to_contain_text("an-effect")
    page.keyboard.press("Enter")
    opened.expect_no_dialog()
    opened.expect_state(5, "stale")


def _contains(text: str) -> re.Pattern[str]:
    return re.compile(re.escape(text))
