"""Whatever order appends, saves of old buffers, edits and deletions come in, nothing is lost."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import rlmnb
from rlmnb import indexing
from rlmnb.format.nbjson import notebook_bytes
from rlmnb.store.append import append, write_entry
from rlmnb.store.layout import Place, session_place
from tests.conftest import assert_valid, save_like_lab


class Interleaving(RuleBasedStateMachine):
    """An agent appends while a person has the notebook open in JupyterLab."""

    def __init__(self) -> None:
        super().__init__()
        self.home = tempfile.TemporaryDirectory()
        self.place: Place = session_place("demo", self.home.name)
        self.path = Path(self.place.notebook)
        self.alive: list[str] = []
        self.sources: dict[str, str] = {}
        self.buffer: dict[str, Any] | None = None
        self.in_buffer: set[str] = set()
        self.count = 0
        self.append()

    def teardown(self) -> None:
        self.home.cleanup()

    def notebook(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.path.read_text(encoding="utf-8"))
        return found

    @rule()
    def append(self) -> None:
        self.count += 1
        source = f"x{self.count} = 1"
        before = self.path.read_bytes() if self.path.exists() else b""
        behind = bool(before) and self.notebook()["metadata"]["rlmnb"]["appended"] < self.count - 1
        cell_id = append(self.place, {"source": source}).cell_id
        self.alive.append(cell_id)
        self.sources[cell_id] = source
        if before and not behind and b'"cells": []' not in before:
            # Appending alters no earlier cell.
            end = before.rindex(b'\n ],\n "metadata"')
            assert self.path.read_bytes()[:end] == before[:end]

    @rule()
    def open_in_lab(self) -> None:
        self.buffer = self.notebook()
        self.in_buffer = {cell["id"] for cell in self.buffer["cells"]}

    @precondition(lambda self: self.buffer is not None)
    @rule()
    def save_in_lab(self) -> None:
        assert self.buffer is not None
        save_like_lab(self.path, self.buffer)
        saved = {cell["id"]: "".join(cell["source"]) for cell in self.buffer["cells"]}
        # What the buffer knew and does not hold any more was deleted; the rest stays.
        gone = self.in_buffer - set(saved)
        self.alive = [each for each in self.alive if each not in gone]
        self.alive += [each for each in saved if each not in self.alive]
        self.sources |= saved

    @precondition(lambda self: self.buffer is not None and self.buffer["cells"])
    @rule(data=st.data())
    def edit_in_lab(self, data: st.DataObject) -> None:
        assert self.buffer is not None
        cell = data.draw(st.sampled_from(self.buffer["cells"]))
        reads, sets = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 9))
        cell["source"] = [f"x{sets} = x{reads}"]

    @precondition(lambda self: self.buffer is not None and self.buffer["cells"])
    @rule(data=st.data())
    def delete_in_lab(self, data: st.DataObject) -> None:
        assert self.buffer is not None
        at = data.draw(st.integers(0, len(self.buffer["cells"]) - 1))
        del self.buffer["cells"][at]

    @precondition(lambda self: self.buffer is not None and self.buffer["cells"])
    @rule(data=st.data())
    def move_in_lab(self, data: st.DataObject) -> None:
        assert self.buffer is not None
        places = st.integers(0, len(self.buffer["cells"]) - 1)
        cell = self.buffer["cells"].pop(data.draw(places))
        self.buffer["cells"].insert(data.draw(places), cell)

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def invalidate(self, data: st.DataObject) -> None:
        cell_id = data.draw(st.sampled_from(self.alive))
        indexing.catch_up(self.place)
        others = [text for text in self.texts() if f'"id": "{cell_id}"' not in text]
        entry = {"op": "update", "cell_id": cell_id, "record": {"status": "invalidated"}}
        self.count = write_entry(self.place, lambda _: entry)
        indexing.catch_up(self.place)
        # What becomes of one cell alters no other, and is written as nbformat would.
        assert [text for text in self.texts() if f'"id": "{cell_id}"' not in text] == others
        assert self.path.read_bytes() == notebook_bytes(self.notebook())

    def texts(self) -> list[str]:
        cells, _, _ = self.path.read_text(encoding="utf-8").rpartition("\n  }\n ],\n")
        return cells.split("\n  },\n  {\n")

    @rule()
    def delete_the_index(self) -> None:
        Path(self.place.index).unlink(missing_ok=True)

    @rule()
    def read(self) -> None:
        index = indexing.read_index(self.place).index
        assert sorted(index["cells"]) == sorted(self.alive)
        assert index == indexing.rebuild(self.place)

    @invariant()
    def nothing_is_lost(self) -> None:
        indexing.catch_up(self.place)
        found = {cell["id"]: "".join(cell["source"]) for cell in self.notebook()["cells"]}
        assert sorted(found) == sorted(self.alive)
        assert found == {each: self.sources[each] for each in self.alive}
        assert_valid(self.path)


TestInterleaving = Interleaving.TestCase
TestInterleaving.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)


def test_the_machine_looks_at_what_users_get(root):
    """The machine works below the public interface; this holds the two together."""
    assert (
        rlmnb.append("demo", {"source": "x"})
        == json.loads((root / "demo" / "session.ipynb").read_text())["cells"][0]["id"]
    )
    assert nbformat.read(os.path.join(root, "demo", "session.ipynb"), 4).cells[0].source == "x"
