"""What a replay made is trusted in JupyterLab as if it had been run there; nothing else is."""

from __future__ import annotations

import json
import uuid

import pytest
from playwright.sync_api import Page, expect

from rlmnb import append as append_cell
from tests.browser.driving import Open, append, notebook_of, path_of, rlmnb
from tests.browser.serving import Lab

pytestmark = pytest.mark.browser
# A script runs only in what JupyterLab trusts.
SHOW = "from IPython.display import HTML\nmark = 40\nHTML(f'<i>shown</i><script>SCRIPT</script>')"
SHOW = SHOW.replace("SCRIPT", "document.body.dataset.mark = {mark}")


@pytest.fixture(params=["plain_lab", "shared_lab"])
def lab(request: pytest.FixtureRequest) -> Lab:
    """With and without jupyter-collaboration."""
    found: Lab = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def page(page: Page) -> Page:
    """A page in which no script of another test has left its mark."""
    page.evaluate("() => delete document.body.dataset.mark")
    return page


def test_what_a_replay_made_is_trusted_after_an_append_and_after_the_next_replay(
    page: Page, lab: Lab
) -> None:
    session = f"made-{uuid.uuid4().hex[:8]}"
    append_cell(session, {"source": SHOW})
    rlmnb("replay", session, "--force")
    append(session, "hello")
    opened = Open(page, lab, path_of(session))
    expect(page.locator("body")).to_have_attribute("data-mark", "40")
    opened.edit(1, SHOW.replace("40", "60"))
    opened.save()
    opened.expect_state(1, "stale")
    opened.press("replay-stale")
    opened.expect_state(1, "fresh")
    expect(page.locator("body")).to_have_attribute("data-mark", "60")
    opened.expect_no_dialog()


def test_what_somebody_put_into_the_file_is_shown_and_not_trusted(page: Page, lab: Lab) -> None:
    session = f"forged-{uuid.uuid4().hex[:8]}"
    append_cell(session, {"source": SHOW})
    rlmnb("replay", session, "--force")
    path = notebook_of(session)
    whole = json.loads(path.read_text(encoding="utf-8"))
    forged = "<i>forged</i><script>document.body.dataset.mark = 'taken over'</script>"
    whole["cells"][0]["outputs"][0]["data"]["text/html"] = [forged]
    path.write_text(json.dumps(whole), encoding="utf-8")
    opened = Open(page, lab, path_of(session))
    expect(opened.cell(1).locator(".jp-RenderedHTML i")).to_have_text("forged")
    assert page.evaluate("() => document.body.dataset.mark") is None
