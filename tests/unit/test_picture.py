"""The picture of a session, in each of its forms."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import nbformat
import pytest
from rich.cells import cell_len

import rlmnb
from rlmnb import Session
from rlmnb.errors import MissingExtraError
from rlmnb.graph.effects import is_effectful
from rlmnb.graph.index import link
from rlmnb.picture import texts
from rlmnb.picture.layout import Size, Tie, laid_out
from rlmnb.picture.model import Picture, draw
from rlmnb.picture.svg import svg
from rlmnb.picture.wording import named, reasons_in
from rlmnb.views import replies
from tests.conftest import notebook_of
from tests.unit.test_cli import in_terminal

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = [
    '"]; click n1 "javascript:alert(1)"',
    "`code` **bold** <br> _it_",
    "</svg></text><script>alert(1)</script>",
    '%%{init: {"theme": "dark"}}%% end',
    "#quot; &lt; #35; &amp;",
    "\x1b[31mred\x00\x07\u202e\ufffe",
    "x" * 10_000,
    "1. a list",
    "a\nb\r\nc\\n\\",
    "] ) } | -->|x| n2 ; //",
    "界" * 300,
    "\ud800 alone",
    "",
    "e\u0301" * 500,
]


def code(cell_id: str, **fields: Any) -> dict[str, Any]:
    known = {"type": "repl", "status": "completed", "title": f"title of {cell_id}", "explicit": {}}
    return {"cell_id": cell_id, **known, **fields}


def prompt(cell_id: str, title: str) -> dict[str, Any]:
    return {"cell_id": cell_id, "type": "markdown", "status": None, "title": title}


def picture(
    *facts: dict[str, Any], stale: dict[str, list[str]] | None = None, **how: Any
) -> Picture:
    return draw(link(list(facts), {}), stale or {}, **how)


def random_session(count: int, *, turns: int = 0, seed: int = 1) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    facts = []
    for number in range(1, count + 1):
        if turns and (number - 1) % (count // turns) == 0:
            facts.append(prompt(f"prompt-{number}", f"what was asked before cell {number}"))
        reads = {f"v{chance.randint(1, number)}" for _ in range(chance.randint(0, 3))}
        facts.append(code(f"c{number}", reads=sorted(reads), writes=[f"v{number}"]))
    return facts


def hostile_session() -> tuple[list[dict[str, Any]], dict[str, list[str]]]:
    facts = []
    for number, text in enumerate(HOSTILE):
        facts.append(prompt(f"p{number}", text))
        needs = {f"c{number - 1}": text} if number else {}
        files = {f"/{text}/in.txt": {}}
        facts.append(
            code(f"c{number}", title=text, operation=text, explicit=needs, files_read=files)
        )
    return facts, {f"c{number}": [text] for number, text in enumerate(HOSTILE)}


FIVE = (
    prompt("ask", "## Fix the login"),
    code("a", writes=["x"]),
    code("b", reads=["x"], writes=["y"], operation="Bash", type="tool"),
    code("c", reads=["x", "y"], status="failed"),
    code("d", status="running"),
    code("e", reads=["y"]),
)
STALE = {"b": ["auth.py changed"], "c": ["failed when it last ran"], "d": ["has not finished"]}


def as_text(drawn: Picture, width: int | None = 80, marks: texts.Marks = texts.UNICODE) -> str:
    return texts.joined(texts.lines(drawn, width=width, marks=marks))


def boxes_of(text: str) -> list[tuple[float, float, float, float]]:
    """Return left, top, right and bottom of every node in an SVG."""
    found = []
    for group in ET.fromstring(text).iter(f"{SVG}g"):
        if not group.get("class", "").startswith("node"):
            continue
        rect, path = group.find(f"{SVG}rect"), group.find(f"{SVG}path")
        if rect is not None:
            x, y, wide, high = (float(rect.attrib[key]) for key in ("x", "y", "width", "height"))
            found.append((x, y, x + wide, y + high))
        elif path is not None:
            numbers = [float(each) for each in re.findall(r"[\d.]+", path.attrib["d"])]
            found.append(
                (min(numbers[::2]), min(numbers[1::2]), max(numbers[::2]), max(numbers[1::2]))
            )
    return found


def overlapping(boxes: list[tuple[float, float, float, float]]) -> list[Any]:
    return [
        (one, other)
        for at, one in enumerate(boxes)
        for other in boxes[at + 1 :]
        if one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
    ]


def parse_mermaid(text: str) -> tuple[dict[str, str], list[tuple[str, str, str]]]:
    """Return the label of each node, and the edges with theirs; anything unknown is an error."""
    nodes, edges = {}, []
    inside = r'([^"`<>\[\](){}|;]|#\d+;|<br/>)*'
    node = re.compile(rf'    (n\d+)(\["|\("|\{{\{{"|\[/")({inside})("\]|"\)|"\}}\}}|"/\]):::(\w+)')
    edge = re.compile(rf'  (n\d+) -->\|"({inside})"\| (n\d+)')
    other = re.compile(
        rf'flowchart TD|  subgraph t\d+\["{inside}"\]|  end|  classDef \w+ [\w#:,]+'
        r"|  style n\d+ stroke-width:4px"
    )
    for line in text.splitlines():
        if found := node.fullmatch(line):
            nodes[found[1]] = unescaped(found[3])
        elif found := edge.fullmatch(line):
            edges.append((found[1], found[4], unescaped(found[2])))
        else:
            assert other.fullmatch(line), line
    return nodes, edges


def unescaped(label: str) -> str:
    return re.sub(r"#(\d+);", lambda found: chr(int(found[1])), label.replace("<br/>", "\n"))


def test_tools_that_act_on_the_world_are_effectful():
    assert all(map(is_effectful, ["Bash", "Write", "Edit", "WebFetch", "mcp__github__merge"]))
    assert not any(map(is_effectful, ["Read", "Grep", "bash", "", None]))


def test_states_are_told_apart():
    drawn = picture(*FIVE, stale=STALE)
    states = {node.key: (node.state, node.effectful) for node in drawn.nodes}
    assert states == {
        "a": ("fresh", False),
        "b": ("stale", True),
        "c": ("failed", False),
        "d": ("running", False),
        "e": ("fresh", False),
    }
    assert drawn.counts == {"fresh": 2, "stale": 1, "running": 1, "failed": 1, "effectful": 1}


@pytest.mark.parametrize("form", [as_text, texts.mermaid, texts.dot, svg])
def test_every_form_shows_each_state_in_words(form):
    shown = form(picture(*FIVE, stale=STALE))
    for word in ("fresh", "stale", "failed", "running", "effectful"):
        assert word in shown


def test_every_edge_has_its_reason():
    drawn = picture(*FIVE)
    assert [edge.as_dict() for edge in drawn.edges] == [
        {"from": "a", "to": "b", "reason": "variable x"},
        {"from": "a", "to": "c", "reason": "variable x"},
        {"from": "b", "to": "c", "reason": "variable y"},
        {"from": "b", "to": "e", "reason": "variable y"},
    ]


def test_reasons_that_the_index_joined_are_taken_apart():
    joined = "my own, with a comma, variable x, file /a, b/c.csv, may set y"
    assert reasons_in(joined) == (
        "my own, with a comma", "variable x", "file /a, b/c.csv", "may set y",
    )  # fmt: skip
    assert named(reasons_in("variable x, file /a, b/c.csv")) == "x, file c.csv"


def test_the_text_has_a_line_for_each_cell_and_below_it_what_it_needs():
    lines = as_text(picture(*FIVE, stale=STALE)).splitlines()
    assert lines[0] == "5 cells: 2 fresh, 1 stale, 1 running, 1 failed, 1 effectful"
    assert lines[2:9] == [
        "turn 1: Fix the login",
        "#2  a  fresh     title of a",
        "#3  b  stale   ! title of b",
        "    because auth.py changed",
        "    ◀ #2  x",
        "#4  c  failed    title of c",
        "    ◀ #2  x",
    ]


def test_the_text_can_do_with_ascii():
    assert as_text(picture(*FIVE, stale=STALE, by_turn=True), marks=texts.ASCII).isascii()
    assert "<- #2  x" in as_text(picture(*FIVE), marks=texts.ASCII)


def test_mermaid_can_be_read_back():
    nodes, edges = parse_mermaid(texts.mermaid(picture(*FIVE, stale=STALE, files=True)))
    assert nodes["n2"] == "#3 · Bash · stale · effectful\ntitle of b"
    assert ("n1", "n2", "x") in edges
    assert len(edges) == 4
    assert '{{"' in texts.mermaid(picture(*FIVE))


def test_dot_can_be_read_back():
    facts, stale = hostile_session()
    text = texts.dot(picture(*facts, stale=stale, files=True))
    quoted = re.compile(r'"(?:[^"\\]|\\.)*"')
    bare = quoted.sub('""', text)
    assert '"' not in bare.replace('""', "")
    assert bare.count("{") == bare.count("}") == 1 + len(HOSTILE)
    assert len(re.findall(r'^  n\d+ -> n\d+ \[label=""\];$', bare, re.M)) == 2 * len(HOSTILE) - 1
    assert 'label="users \\"x\\" \\\\ &amp;"' in texts.dot(
        picture(code("a"), code("b", explicit={"a": 'users "x" \\ &'}))
    )


def test_hostile_words_are_harmless_in_mermaid():
    facts, stale = hostile_session()
    for how in ({}, {"files": True}, {"by_turn": True, "files": True}):
        nodes, edges = parse_mermaid(texts.mermaid(picture(*facts, stale=stale, **how)))
        assert len(nodes) == len(HOSTILE) * (2 if how else 1)
        assert len(edges) == (len(HOSTILE) - 1) + (len(HOSTILE) if how else 0)


def test_hostile_words_are_harmless_in_an_svg():
    facts, stale = hostile_session()
    text = svg(picture(*facts, stale=stale, files=True))
    root = ET.fromstring(text.encode("utf-8"))
    tags = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert tags == {"svg", "title", "defs", "marker", "path", "rect", "g", "text"}
    assert "\x1b" not in text
    assert len(text) < 200_000


@pytest.mark.parametrize("how", [{}, {"files": True}, {"by_turn": True}])
def test_hostile_words_stay_on_their_lines(how):
    facts, stale = hostile_session()
    for line in as_text(picture(*facts, stale=stale, **how)).split("\n"):
        assert cell_len(line) <= 80
        assert line.isprintable()


def test_an_svg_needs_nothing_else():
    text = svg(picture(*FIVE, stale=STALE))
    root = ET.fromstring(text)
    addresses = set(re.findall(r"https?://[^\"\s]+", text))
    assert addresses == {"http://www.w3.org/2000/svg"}
    assert not any(
        key.startswith("on") or key.endswith("href") for e in root.iter() for key in e.attrib
    )
    background = root.find(f"{SVG}rect")
    assert background is not None
    assert background.get("fill") == "#ffffff"


def test_an_svg_tells_why_a_cell_is_stale_and_why_an_edge_is_there():
    titles = [
        each.text or ""
        for each in ET.fromstring(svg(picture(*FIVE, stale=STALE))).iter(f"{SVG}title")
    ]
    assert "#3 b: stale, effectful\ntitle of b\nbecause auth.py changed" in titles
    assert "#2 → #3: x" in titles


def test_an_svg_has_the_reason_beside_each_edge():
    root = ET.fromstring(svg(picture(*FIVE)))
    reasons = [
        group.findtext(f"{SVG}text")
        for group in root.iter(f"{SVG}g")
        if group.get("class") == "reason"
    ]
    assert sorted(str(reason) for reason in reasons) == ["x", "x", "y", "y"]


def test_cells_that_need_nothing_get_places_of_their_own():
    boxes = boxes_of(svg(picture(*(code(f"c{number}") for number in range(7)))))
    assert len(set(boxes)) == 7
    assert not overlapping(boxes)


@pytest.mark.parametrize("seed", range(5))
def test_no_two_boxes_overlap_in_an_svg(seed):
    drawn = picture(*random_session(60, seed=seed), by_turn=False)
    boxes = boxes_of(svg(drawn))
    assert len(boxes) == 60
    assert not overlapping(boxes)


def test_no_two_reasons_overlap_and_all_is_on_the_page():
    chance = random.Random(3)
    ties = [
        Tie(chance.randrange(number), number, 60.0) for number in range(1, 50) for _ in range(2)
    ]
    layout = laid_out(52, ties, Size(200, 40))
    labels = [(at.x - 30, at.y - 8, at.x + 30, at.y + 8) for at in layout.labels.values()]
    assert len(labels) == len(ties)
    assert not overlapping(sorted(set(labels)))
    assert sorted(layout.boxes) == list(range(52))
    assert all(at.x >= 0 and at.x + 200 <= layout.width + 1 for at in layout.boxes.values())
    assert all(left >= -1 and right <= layout.width + 1 for left, _, right, _ in labels)


def test_a_layer_is_never_wider_than_a_person_can_look():
    star = [code("root", writes=["x"]), *(code(f"c{n}", reads=["x"]) for n in range(50))]
    boxes = boxes_of(svg(picture(*star, by_turn=False)))
    assert max(box[2] for box in boxes) < 3500
    assert not overlapping(boxes)


def test_earlier_cells_stand_left_of_later_ones():
    fan = [code("root", writes=["x"]), *(code(f"c{n}", reads=["x"]) for n in range(6))]
    root, *children = boxes_of(svg(picture(*fan)))
    assert children == sorted(children)
    assert all(root[3] < child[1] for child in children)


def test_a_cycle_is_drawn_too():
    drawn = picture(code("a", explicit={"b": "one"}), code("b", explicit={"a": "two"}))
    text = svg(drawn)
    assert len(boxes_of(text)) == 2
    assert text.count('class="edge"') == 2


def test_without_the_library_an_svg_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "fast_sugiyama", None)
    with pytest.raises(MissingExtraError) as caught:
        svg(picture(*FIVE))
    assert caught.value.hint == "run: pip install 'rlmnb[graph]'"


def test_collapsed_turns_count_their_cells_and_merge_reasons():
    drawn = picture(
        prompt("p1", "load"),
        *(code(f"a{n}", writes=[f"v{n}"]) for n in range(6)),
        prompt("p2", "fix the login"),
        code("b0", reads=["v0", "v1", "v2"], status="failed"),
        code("b1", reads=["v2", "v3", "v4", "v5"], operation="Write"),
        code("b2", reads=["v5"]),
        stale={"b1": ["x"], "b2": ["y"], "b0": ["failed"]},
        by_turn=True,
    )
    first, second = drawn.nodes
    assert second.heading == "turn 2: fix the login"
    assert second.tally == "3 cells, 2 stale, 1 failed, 1 effectful"
    assert (first.state, second.state) == ("fresh", "failed")
    (edge,) = drawn.edges
    assert (edge.source, edge.target) == ("turn-1", "turn-2")
    assert named(edge.reasons) == "v0, v1, v2 and 3 more"
    shown = as_text(drawn)
    assert "turn 2: fix the login — 3 cells, 2 stale, 1 failed, 1 effectful" in shown
    assert "◀ turn 1  v0, v1, v2 and 3 more" in shown


def test_a_turn_begins_with_a_prompt_and_not_with_what_the_agent_says():
    for turn in (1, 2):
        for kind, source in (
            ("prompt", f"> do {turn}"),
            ("answer", "I look."),
            ("answer", "Done."),
        ):
            event = {"rlmnb_event": {"type": kind}}
            rlmnb.append("said", {"cell_type": "markdown", "source": source, "metadata": event})
            rlmnb.append("said", {"source": f"x{turn} = 1"})
    session = Session.open("said")
    drawn = draw(session.index, {}, replies=replies(session.cells), by_turn=True)
    assert [node.heading for node in drawn.nodes] == ["turn 1: do 1", "turn 2: do 2"]
    assert [node.tally for node in drawn.nodes] == ["3 cells", "3 cells"]


def test_the_command_counts_prompts_as_turns(run):
    event = {"rlmnb_event": {"type": "answer"}}
    rlmnb.append("told", {"source": "x = 1"})
    rlmnb.append("told", {"cell_type": "markdown", "source": "Done.", "metadata": event})
    rlmnb.append("told", {"cell_type": "markdown", "source": "> next"})
    rlmnb.append("told", {"source": "y = 1"})
    assert "turn 1: next" in run("graph", "told").stdout


def test_many_cells_collapse_by_turn_and_few_do_not():
    many = picture(*random_session(300, turns=30))
    assert many.collapsed
    assert len(many.nodes) == 30
    assert sum(len(node.cells) for node in many.nodes) == 300
    few = picture(*random_session(60, turns=6))
    assert not few.collapsed
    assert len(few.nodes) == 60
    assert len(picture(*random_session(300, turns=30), by_turn=False).nodes) == 300


@pytest.mark.parametrize("turns", [0, 1, 150, 300])
def test_a_picture_of_many_cells_stays_readable_whatever_the_turns(turns):
    drawn = picture(*random_session(300, turns=turns))
    assert 20 <= len(drawn.nodes) <= 60
    assert [key for node in drawn.nodes for key in node.cells] == [f"c{n}" for n in range(1, 301)]
    assert len({node.key for node in drawn.nodes}) == len(drawn.nodes)
    assert not overlapping(boxes_of(svg(drawn)))


def test_turns_that_are_drawn_together_are_named_together():
    drawn = picture(*random_session(300, turns=150))
    assert drawn.nodes[1].heading == "turns 4-6: what was asked before cell 7"
    assert drawn.nodes[1].tally == "6 cells"


def test_the_parts_of_one_long_turn_go_by_their_cells():
    asked = [prompt(f"p{number}", "and?") for number in range(70)]
    drawn = picture(*asked, *random_session(300))
    assert len({node.key for node in drawn.nodes}) == len(drawn.nodes) == 40
    assert drawn.nodes[0].name.startswith("#71-")


@pytest.mark.parametrize(
    ("turns", "told"),
    [
        (0, "the group of cells above such a line needs #1-"),
        (1, "the group of cells above such a line needs #2-"),
        (30, "the turn above such a line needs turn 1,"),
        (150, "the turns above such a line need turns 1-3,"),
    ],
)
def test_what_a_line_of_a_collapsed_picture_stands_for_is_named(turns, told):
    assert told in as_text(picture(*random_session(300, turns=turns)), None)


def test_a_line_of_a_picture_of_each_cell_stands_for_the_cell():
    assert "the cell above such a line needs #2," in as_text(picture(*FIVE), None)


def test_runs_end_where_no_edge_crosses():
    starts = [0, *(10 * clump + clump % 5 - 2 for clump in range(1, 40))]
    cells = []
    for at in range(400):
        first = max(start for start in starts if start <= at)
        own = {"writes": [f"v{first}"]} if at == first else {"reads": [f"v{first}"]}
        cells.append(code(f"c{at}", **own))
    drawn = picture(*cells)
    assert drawn.collapsed
    assert drawn.edges == ()


def test_files_are_nodes_between_writers_and_readers():
    drawn = picture(
        code("w", files_written={"/p/data.csv": {}}),
        code("r", files_read={"/p/data.csv": {}, "/p/only.txt": {}}),
        files=True,
    )
    assert [node.key for node in drawn.nodes] == ["w", "file:/p/data.csv", "file:/p/only.txt", "r"]
    assert {(edge.source, edge.target): edge.reasons for edge in drawn.edges} == {
        ("w", "file:/p/data.csv"): ("written",),
        ("file:/p/data.csv", "r"): ("read",),
        ("file:/p/only.txt", "r"): ("read",),
    }
    assert "file:" not in json.dumps(picture(code("w", files_written={"/p/a": {}})).as_dict())


def test_many_files_of_a_collapsed_picture_are_shown_by_directory():
    cells = [code(f"c{n}", files_read={f"/p/{n % 5}/{n}.py": {}}) for n in range(200)]
    drawn = picture(*cells, files=True)
    files = [node.title for node in drawn.nodes if node.kind == "file"]
    assert files == [f"/p/{n}/ (40 files)" for n in range(5)]


def test_an_edge_still_names_its_file_where_the_file_is_one_of_a_directory():
    cells = [code(f"c{n}", files_written={f"/p/{n}.py": {}}) for n in range(100)]
    drawn = picture(*cells, code("last", files_read={"/p/3.py": {}}), files=True)
    assert ("file /p/3.py",) in [edge.reasons for edge in drawn.edges]


def test_one_cell_leaves_only_what_it_needs_and_what_needs_it():
    assert [node.key for node in picture(*FIVE, cell="b").nodes] == ["a", "b", "c", "e"]
    assert [node.key for node in picture(*FIVE, cell="e").nodes] == ["a", "b", "e"]


@pytest.fixture
def session() -> str:
    Path("auth.py").write_text("one\n")
    rlmnb.append("demo", {"source": "users = ['ann']"})
    subprocess.run(
        [
            sys.executable, "-m", "rlmnb", "append", "demo", "--type", "tool",
            "--source", 'tools.Read(file_path="auth.py")',
        ],
        check=True, capture_output=True,
    )  # fmt: skip
    rlmnb.append("demo", {"source": "print(len(users))"})
    Path("auth.py").write_text("two\n")
    return "demo"


def long_session(name: str, count: int) -> None:
    rlmnb.append(name, {"source": "v0 = 0"})
    notebook = nbformat.read(notebook_of(name), 4)
    for number in range(1, count):
        if number % 12 == 1:
            notebook.cells.append(nbformat.v4.new_markdown_cell(f"now do step {number} " * 9))
        notebook.cells.append(
            nbformat.v4.new_code_cell(f"v{number} = v{number // 2} + 1  # " + "x" * 80)
        )
    nbformat.write(notebook, notebook_of(name))


def test_the_command_prints_text_json_and_the_other_forms(session, run, run_json):
    shown = run("graph", session).stdout
    assert re.search(r"#2 +cell_\w+ +stale +tools\.Read", shown)
    assert "◀ #1  users" in shown
    found = run_json("graph", session)
    assert found["collapsed"] is False
    assert [node["state"] for node in found["nodes"]] == ["fresh", "stale", "fresh"]
    assert [edge["reason"] for edge in found["edges"]] == ["variable users"]
    assert run("graph", session, "--mermaid").stdout.startswith("flowchart TD\n")
    assert run("graph", session, "--dot").stdout.startswith("digraph session {\n")
    assert len(boxes_of(run("graph", session, "--svg", "--files").stdout)) == 4


def test_a_file_is_written_in_the_form_that_its_name_says(session, run):
    for name, beginning in (
        ("g.svg", "<svg"), ("g.mmd", "flowchart"), ("g.dot", "digraph"), ("g.txt", "3 cells"),
        ("g.json", '{"nodes"'),
    ):  # fmt: skip
        done = run("graph", session, "-o", name)
        assert (done.returncode, done.stdout) == (0, "")
        assert Path(name).read_text(encoding="utf-8").startswith(beginning)
    done = run("graph", session, "--svg", "-o", "nowhere/g.svg")
    assert done.returncode == 3
    assert "nowhere/g.svg: cannot write the picture: No such file" in done.stderr


def test_one_cell_can_be_named_and_a_text_cell_cannot(session, run, run_json):
    assert len(run_json("graph", session, "--cell", "3")["nodes"]) == 2
    long_session("long", 14)
    done = run("graph", "long", "--cell", "2")
    assert done.returncode == 2
    assert "is markdown" in done.stderr
    assert "rlmnb cells long" in done.stderr
    assert run("graph", session, "--cell", "99").returncode == 2


@pytest.mark.parametrize("columns", [40, 80])
@pytest.mark.parametrize("count", [5, 300])
def test_no_line_is_longer_than_the_terminal(count, columns):
    long_session("long", count)
    in_terminal("graph", "long")  # says what was added to the notebook by other hands
    drawn = in_terminal("graph", "long", columns=columns, NO_COLOR="1")
    assert max(map(cell_len, drawn.splitlines())) <= columns
    assert ("300 cells are drawn as 26 nodes" in drawn) == (count == 300)
    assert "\x1b" not in drawn


@pytest.mark.parametrize("width", [40, 80])
def test_what_is_counted_and_explained_is_told_in_full_in_a_narrow_terminal(width):
    other = (prompt("next", "and the tests"), code("f", reads=["y"]))
    drawn = as_text(picture(*FIVE, *other, stale=STALE, by_turn=True), width)
    assert max(map(cell_len, drawn.splitlines())) <= width
    told = " ".join(drawn.split())
    assert "6 cells: 3 fresh, 1 stale, 1 running, 1 failed, 1 effectful" in told
    assert "5 cells, 1 stale, 1 failed, 1 running, 1 effectful" in told
    assert "the turn above such a line needs turn 1, because of y" in told


@pytest.mark.parametrize("width", [None, 40, 80])
@pytest.mark.parametrize("by_turn", [True, False])
def test_no_line_of_the_text_ends_in_a_space(width, by_turn):
    drawn = picture(*FIVE, code("f", title=""), stale=STALE, by_turn=by_turn)
    told = ["".join(part for part, _ in line) for line in texts.lines(drawn, width=width)]
    assert [line for line in told if line != line.rstrip()] == []


def test_no_line_that_the_command_prints_ends_in_a_space(session, run):
    assert not re.search(" $", run("graph", session).stdout, re.MULTILINE)
    assert not re.search(" $", in_terminal("graph", session, NO_COLOR="1"), re.MULTILINE)


def test_states_are_coloured_in_a_terminal(session):
    drawn = in_terminal("graph", session)
    assert "\x1b[32mfresh" in drawn
    assert "\x1b[33mstale" in drawn
    plain = in_terminal("graph", session, NO_COLOR="1", PYTHONIOENCODING="ascii")
    assert "<- #1  users" in plain


@pytest.mark.parametrize("form", ["svg", "dot", "mermaid"])
def test_json_and_another_form_are_refused_together(session, run, form):
    done = run("graph", session, "--json", f"--{form}")
    assert done.returncode == 2
    assert f"argument --{form}: not allowed with argument --json" in done.stderr
    assert f"leave out --{form} or --json" in done.stderr
    assert json.loads(done.stdout)["error"]["type"] == "UsageError"


def test_a_session_without_code_has_nothing_to_draw(run):
    nbformat.write(nbformat.v4.new_notebook(), "empty.ipynb")
    done = run("graph", "empty.ipynb")
    assert done.returncode == 0
    assert "no code cells" in done.stderr
    assert boxes_of(run("graph", "empty.ipynb", "--svg").stdout) == []


def test_a_picture_put_into_the_notebook_is_one_cell_that_is_refreshed_and_begins_no_turn(
    run, run_json
):
    for source in ("a = 1", "b = a"):
        run("append", "drawn", "--source", source)
    first = run_json("graph", "drawn", "--into-notebook")["cell_id"]
    as_it_was = notebook_of("drawn").read_bytes()
    assert run_json("graph", "drawn", "--into-notebook")["cell_id"] == first
    assert notebook_of("drawn").read_bytes() == as_it_was
    run("append", "drawn", "--source", "c = b")
    assert run_json("graph", "drawn", "--into-notebook")["cell_id"] == first
    cells = nbformat.read(notebook_of("drawn"), as_version=4).cells
    drawn = [cell for cell in cells if cell.cell_type == "markdown"]
    assert [cell.id for cell in drawn] == [first]
    assert "```mermaid\n" in drawn[0].source
    assert "c = b" in drawn[0].source
    assert [node["turn"] for node in run_json("graph", "drawn")["nodes"]] == [None] * 3
    assert run("verify", "drawn").returncode == 0


def test_a_picture_goes_into_the_notebook_or_elsewhere_but_not_both(run):
    run("append", "drawn", "--source", "a = 1")
    done = run("graph", "drawn", "--into-notebook", "--svg")
    assert done.returncode == 2
    assert "rlmnb graph drawn --into-notebook" in done.stderr
