"""Any source survives the way through paired text."""

from __future__ import annotations

import io
import tokenize

from hypothesis import example, given
from hypothesis import strategies as st

from rlmnb.errors import InvalidCellError
from rlmnb.format.percent import Block, from_text, to_text

_PIECES = st.sampled_from(
    [
        "# %%", "#%%", "# %% [markdown]", '# %% id="cell_a"', " # %% x", "# # %%", "%%", "%%bash",
        "%ls", "# %ls", "# # %ls", "    %time x", "!ls", "# !ls", "?x", "x?", "x??", "a = !ls",
        "#~", "#~ ", "#~ x", "#~~", "#", "# ", "#  x", "x = 1", "  ", "\t", "\r", "x\r", "\u2028",
        "\x0b", "\x0c# %%", "ä = '🦊'", "# ---", "---", "", "\ud800", "\x00", "# \t%%", "#\xa0%%",
        "newlines=3", "# In[1]:", "'''", "\ufeff",
    ]
)  # fmt: skip
_LINES = st.one_of(_PIECES, st.text(max_size=12), st.tuples(_PIECES, _PIECES).map("".join))
SOURCES = st.lists(_LINES, max_size=6).flatmap(
    lambda lines: st.sampled_from(["\n", "\r\n"]).map(lambda end: end.join(lines))
)
_IDS = st.text("abcXYZ019-_", min_size=1, max_size=64)
_KINDS = st.sampled_from(["code", "markdown", "raw"])
BLOCKS = st.lists(
    st.builds(Block, _IDS, _KINDS, SOURCES), max_size=5, unique_by=lambda block: block.cell_id
)


@given(BLOCKS)
@example([Block("a", "code", "\n\n"), Block("b", "markdown", "\n"), Block("c", "raw", "")])
@example([Block("a", "code", "x" + "\n" * 1001), Block("b", "markdown", "\n" * 5000)])
@example([Block("a", "code", "x\r\n"), Block("b", "code", "\r")])
def test_every_source_comes_back_as_it_was(blocks):
    text = to_text(blocks)
    assert from_text(text, "text") == blocks
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert to_text(from_text(text, "text")) == text


@given(BLOCKS)
def test_bytes_of_a_file_keep_every_source(blocks):
    data = to_text(blocks).encode("utf-8", "surrogatepass")
    assert from_text(data.decode("utf-8", "surrogatepass"), "text") == blocks


@given(BLOCKS)
def test_blank_lines_that_a_formatter_puts_between_cells_change_nothing(blocks):
    text = to_text(blocks).replace("\n\n# %%", "\n\n\n\n# %%") + "\n\n"
    assert from_text(text, "text") == blocks


@given(
    st.lists(
        st.builds(Block, _IDS, _KINDS, SOURCES.map(lambda source: source.replace("\r", ""))),
        max_size=5,
        unique_by=lambda block: block.cell_id,
    )
)
def test_a_file_that_was_turned_to_crlf_says_the_same(blocks):
    assert from_text(to_text(blocks).replace("\n", "\r\n"), "text") == blocks


@given(st.one_of(st.text(max_size=200), SOURCES.map(lambda source: f"# %%\n{source}")))
def test_any_text_is_read_or_refused_with_its_line(text):
    try:
        blocks = from_text(text, "text")
    except InvalidCellError as refused:
        told = str(refused)
    else:
        told = "text, line"
        named = [
            Block(block.cell_id or f"new-{number}", block.kind, block.source)
            for number, block in enumerate(blocks)
        ]
        assert from_text(to_text(named), "text") == named
    assert told.startswith("text, line")


@given(st.lists(st.sampled_from(["%ls -l", "!pwd", "x?", "?x", "a = !ls", "%%bash", "if then"])))
def test_a_cell_magic_and_magics_leave_text_that_python_can_read(lines):
    text = to_text([Block("a", "code", "\n".join(["%%bash", *lines]))])
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    assert {token.type for token in tokens} <= {tokenize.COMMENT, tokenize.NL, tokenize.ENDMARKER}
