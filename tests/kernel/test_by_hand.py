"""Cells that a person runs in JupyterLab: they count as run, and never for more than they are."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import nbformat
import pytest

import rlmnb
from rlmnb import Session
from rlmnb.files import polls
from rlmnb.replay.cells import stale_cells
from rlmnb.replay.run import replay
from tests.conftest import notebook_of
from tests.kernel.lab import opened
from tests.kernel.test_replay import texts, write

pytestmark = pytest.mark.kernel


def stale(path: str = "nb.ipynb") -> dict[str, list[str]]:
    return stale_cells(Session.open(path))


def comes_to(wanted: dict[str, list[str]] | set[str], path: str = "nb.ipynb") -> bool:
    """Wait until what is stale is this: a trace is on disk a moment after its cell."""
    for _ in polls(20):
        now = stale(path)
        if (set(now) if isinstance(wanted, set) else now) == wanted:
            return True
    raise AssertionError(now)


def written(count: int) -> bool:
    """Wait until so many traces are on disk."""
    hand = Path(".rlmnb/nb.ipynb/by-hand.jsonl")
    return any(hand.exists() and hand.read_text().count("\n") >= count for _ in polls(20))


def test_run_all_by_hand_leaves_nothing_to_replay(run_json):
    write("x = [1, 2]", "x.append(3)", "print(x)", "len(x)")
    with opened("nb.ipynb") as lab:
        assert lab.run() == ["ok"] * 4
        lab.save()
        assert comes_to({})
    assert run_json("status", "nb.ipynb")["stale"] == []
    run_json("verify", "nb.ipynb")
    before = Path("nb.ipynb").read_bytes()
    report = replay(Session.open("nb.ipynb"))
    assert (report.executed, report.kernel) == ([], "not started")
    assert Path("nb.ipynb").read_bytes() == before


def test_an_edit_is_stale_until_it_is_run_and_then_what_depends_on_it():
    write("x = 1", "y = x * 2", "print(y)", "print('apart')")
    with opened("nb.ipynb") as lab:
        lab.run()
        lab.save()
        assert comes_to({})
        lab.edit("c0", "x = 5")
        lab.save()
        assert stale()["c0"] == ["source edited"]
        assert set(stale()) == {"c0", "c1", "c2"}
        lab.run("c0")
        lab.save()
        assert comes_to({"c1": ["x from c0 changed"], "c2": ["y from c1 changes"]})
        lab.run("c1")
        lab.save()
        assert comes_to({"c2": ["y from c1 changed"]})
    report = replay(Session.open("nb.ipynb"))
    assert (report.executed, report.restored) == (["c2"], ["c1"])
    assert texts()[2] == "10\n"


def test_an_equal_result_leaves_what_depends_on_it_fresh():
    write("x = 6", "print(x)")
    with opened("nb.ipynb") as lab:
        lab.run()
        lab.edit("c0", "x = 2 * 3")
        lab.save()
        assert comes_to({"c0", "c1"})
        lab.run("c0")
        lab.save()
        assert comes_to({})


def test_what_came_from_below_or_from_an_earlier_run_is_said():
    write("x = 1", "print(x)", "x = 2", "n = 0", "n = n + 1", "print(n)")
    with opened("nb.ipynb") as lab:
        lab.run()
        lab.run("c1")  # with the x of c2
        lab.run("c4")  # a second time
        lab.run("c5")
        lab.save()
        for cell, cause in {
            "c1": "x came from c2, which is not above it",
            "c4": "n was left by an earlier run of this cell",
        }.items():
            assert any(stale().get(cell) == [cause] for _ in polls(20)), (cell, stale())
        assert comes_to({"c1", "c4", "c5"})
    replay(Session.open("nb.ipynb"))
    assert [texts()[number] for number in (1, 5)] == ["1\n", "1\n"]
    assert stale() == {}


@pytest.mark.parametrize("first", ["by hand", "replayed"])
def test_a_run_out_of_order_that_gives_the_same_changes_nothing(first):
    write(
        "import decimal, os\nos.makedirs('made', exist_ok=True)",
        "decimal.getcontext().prec = 5\nopen('seen.txt', 'w').write(str(os.path.exists('it.txt')))",
        "print(decimal.Decimal(1) / 3)",
        "if not os.path.exists('made.txt'):\n    print('making it')\nopen('made.txt', 'w').close()",
    )
    if first == "replayed":
        replay(Session.open("nb.ipynb"))
    with opened("nb.ipynb") as lab:
        lab.run()
        lab.save()
        assert comes_to({} if first == "by hand" else {"c3"})
        for each in ("c0", "c1", "c2"):
            lab.run(each)
            lab.save()
            assert written(5)
            assert comes_to({} if first == "by hand" else {"c3"})
        lab.run("c3")
        lab.save()
        # It says nothing now: that is another result.
        assert comes_to({"c3"})
        lab.edit("c1", "prec = decimal.getcontext().prec")
        lab.run("c1")
        lab.save()
        why = ["decimal's prec was left by an earlier run of this cell"]
        assert any(stale().get("c1") == why for _ in polls(20))


@pytest.mark.parametrize(
    ("cells", "edit"),
    [
        (["class A: v = 1", "a = A()", "print(a.v)"], "class A: v = 2"),
        (
            ["def f(n):\n    return n and f(n - 1) + 1", "%time y = f(1)", "print(f(1) + y)"],
            "def f(n):\n    return n and f(n - 1) + 2 - 1",
        ),
        (
            ["items = [{'a': 1}, {'a': 3}]", "for it in items: print(it['a'])", "print(2)"],
            "items = [{'a': 1}, {'a': 4}]",
        ),
        (
            ["class T:\n    v = 1", "ts = [T(), T()]", "for t in ts: print(t.v)", "print(t.v)"],
            "class T:\n    v = 2",
        ),
        (
            [
                "from dataclasses import dataclass\n@dataclass\nclass T:\n    v: int",
                "t = T(2)",
                "print(t.v)",
            ],
            "from dataclasses import dataclass\n@dataclass\nclass T:\n    v: int\n    w: int = 1",
        ),
        (
            [
                "def even(n): return not n or odd(n - 1)\ndef odd(n): return n > 0 and even(n - 1)",
                "print(2 if even(4) else 1)",
            ],
            "def even(n): return n <= 0 or odd(n - 1)\ndef odd(n): return n > 0 and even(n - 1)",
        ),
        (
            ["rows = [{'a': 1}, {'a': 3}]", "for r in rows:\n    print(r['a'] - 1)", "print(2)"],
            "rows = [{'a': 1}, {'a': 4}]",
        ),
        (["def f(): return 1", "all = [f]", "print(all[0]())"], "def f(): return 2"),
        (["class A: v = 1", "class B(A): pass", "b = B()", "print(b.v)"], "class A: v = 2"),
    ],
)
def test_a_class_that_is_edited_is_fresh_when_it_is_run_though_cells_below_hold_it(cells, edit):
    write(*cells)
    below = [f"c{number}" for number in range(1, len(cells))]
    with opened("nb.ipynb") as lab:
        lab.run()
        lab.edit("c0", edit)
        lab.run("c0")
        lab.save()
        assert written(len(cells) + 1)
        below = sorted(stale())
        assert below[:1] == ["c1"]
        while below:
            assert comes_to(set(below))
            lab.run(below.pop(0))
            lab.save()
        assert comes_to({})
        lab.run("c0")
        lab.save()
        assert comes_to({})
    assert replay(Session.open("nb.ipynb")).executed == []
    assert texts()[-1] == "2\n"


def test_a_header_that_is_run_again_leaves_what_is_below_it_fresh():
    write(
        "import json\nimport warnings\nwarnings.filterwarnings('ignore')\nOUT = 'o.txt'",
        "import re\nprint(re.sub('a', 'b', 'aa'))",
        "cfg = {'out': 'o.txt'}",
        "with open(OUT, 'w') as file:\n    for row in ['a', 'b']: file.write(row)",
        "for row in 'ab': print('row', row)",
    )
    with opened("nb.ipynb") as lab:
        lab.run()
        lab.save()
        assert comes_to({})
        lab.edit("c0", lab.cell("c0")["source"].replace("json", "json, csv"))
        lab.run("c0", "c1", "c2", "c4")
        lab.save()
        assert comes_to({})
        lab.run()
        lab.save()
        assert comes_to({})


# Headers that find what they do done when they are run again: what is added, what rests on them.
AGAIN = {
    "import helper": "print(helper.value)",
    "import pandas as pd, matplotlib.pyplot as plt\nplt.style.use('default')\n"
    "pd.set_option('display.width', 100)": "print(pd.DataFrame({'a': [1]}))",
    "import matplotlib.pyplot as plt\nplt.style.use(['default', 'ggplot'])": (
        "print(plt.rcParams['axes.facecolor'])"
    ),
    "import logging\nlogging.basicConfig(level=logging.INFO)\nlog = logging.getLogger('a')": (
        "print(log.isEnabledFor(20))"
    ),
    "import pickle\nopen('a.pkl', 'wb').write(pickle.dumps([1]));": (
        "with open('a.pkl', 'rb') as f: data = pickle.load(f)"
    ),
    "y = eval('1 + 1')": "exec('z = y')",
}


def test_a_header_that_does_again_what_it_has_done_is_fresh():
    Path("helper.py").write_text("value = 1\n")
    cells = [each for pair in AGAIN.items() for each in pair]
    write(*cells)
    with opened("nb.ipynb") as lab:
        lab.run()
        lab.save()
        assert comes_to({})
        for number in range(0, len(cells), 2):
            lab.edit(f"c{number}", f"import math\nSIZE{number} = 3\n{cells[number]}")
            lab.run(f"c{number}")
            lab.save()
            assert comes_to({}), cells[number]
    assert replay(Session.open("nb.ipynb")).executed == []


@pytest.mark.parametrize(
    ("cell", "edited"),
    [
        (
            "import logging\nprint(len(logging.root.handlers))\nlogging.basicConfig()",
            "import logging, json\nprint(len(logging.root.handlers))\nlogging.basicConfig()",
        ),
        (
            "import logging\nlogging.basicConfig(level=logging.INFO)",
            "import logging\nlogging.basicConfig(level=logging.ERROR)",
        ),
        ("import helper\nhelper.items.append(1)", "import helper, json\nhelper.items.append(1)"),
        ("import helper\nhelper.n = 1", "import helper"),
        (
            "import warnings\nwarnings.simplefilter('ignore', UserWarning)",
            "import warnings\nwarnings.simplefilter('ignore', FutureWarning)",
        ),
        ("y = eval('len(dir())')", "y = eval('len(dir())') + 0"),
        (
            "import logging\nfmt = 'A%(message)s'\nlogging.basicConfig(format=fmt)\ndel fmt",
            "import logging\nfmt = 'B%(message)s'\nlogging.basicConfig(format=fmt)\ndel fmt",
        ),
        (
            "import logging as log\ndef do(): log.basicConfig(format='A%(message)s')\ndo()\ndo = 1",
            "import logging as log\ndef do(): log.basicConfig(format='B%(message)s')\ndo()\ndo = 1",
        ),
    ],
)
def test_a_header_that_does_something_else_than_it_has_done_is_not(cell, edited):
    Path("helper.py").write_text("items = []\n")
    write(cell, "import warnings, helper\nwarnings.warn('u')\nprint(vars(helper).get('n'))")
    with opened("nb.ipynb") as lab:
        lab.run()
        lab.save()
        assert comes_to({})
        lab.edit("c0", edited)
        lab.run()
        lab.save()
        assert any("c0" in stale() for _ in polls(5))


def test_a_cell_that_loads_a_pickle_is_fresh_when_it_is_run_again():
    write(
        "import pickle\nclass A: n = 1\nopen('a.pkl', 'wb').write(pickle.dumps(A()));",
        "with open('a.pkl', 'rb') as file: data = pickle.load(file)",
        "other = 1",
    )
    with opened("nb.ipynb") as lab:
        lab.run()
        lab.edit("c1", lab.cell("c1")["source"] + "\nprint(data.n)")
        lab.run("c1")
        lab.save()
        assert comes_to({})


def test_a_function_by_the_name_of_the_last_output_is_no_output():
    write(
        "from functools import singledispatch\n@singledispatch\ndef g(x): return 'any'",
        "@g.register\ndef _(x: int): return 'int'",
        "print(g(1))",
    )
    with opened("nb.ipynb") as lab:
        lab.run()
        lab.save()
        assert comes_to({})


def test_variables_that_are_only_looked_at_are_as_they_were_when_a_cell_is_run_again():
    write(
        "import matplotlib.pyplot as plt, numpy as np, pandas as pd",
        "data = {'a': np.arange(3), 'b': np.ones(3)}\nidx = pd.date_range('2020', periods=10)",
        "fig, axes = plt.subplots(1, 2)\nfor ax, v in zip(axes, data.values()): ax.plot(v)",
        "pd.Series(range(10), index=idx).resample('5D').sum()",
    )
    with opened("nb.ipynb") as lab:
        lab.run()
        lab.save()
        assert comes_to({})
        lab.edit("c3", lab.cell("c3")["source"].replace("5D", "2D"))
        lab.run("c2", "c3")
        lab.save()
        assert comes_to({})


def test_a_directory_that_only_an_earlier_version_of_a_cell_made_is_not_there():
    write(
        "import os\nos.makedirs('one', exist_ok=True)",
        "print([each for each in sorted(os.listdir('.')) if each in ('one', 'two')])",
    )
    with opened("nb.ipynb") as lab:
        lab.run()
        lab.run()
        lab.save()
        assert comes_to({})
        lab.edit("c0", "import os\nos.makedirs('two', exist_ok=True)")
        lab.run()
        lab.save()
        assert comes_to({"c1"})
        lab.run()
        lab.save()
        assert comes_to({"c1"})
        assert "one was left by an earlier run of c0" in stale()["c1"][0]
    replay(Session.open("nb.ipynb"))
    assert texts()[1] == "['two']\n"
    assert stale() == {}


def test_a_file_that_a_command_begins_anew_is_not_what_it_was():
    write("!echo hello > note.txt", "!cat note.txt", "!echo more >> note.txt")
    with opened("nb.ipynb") as lab:
        lab.run("c0", "c1")
        lab.save()
        lab.edit("c0", "!echo bye > note.txt")
        lab.run("c0")
        lab.save()
        assert comes_to({"c1", "c2"})
        lab.run("c1", "c2")
        lab.save()
        assert comes_to({})
        lab.run("c2")  # which adds to what it has added before
        lab.save()
        assert comes_to({"c2"})


def test_a_file_is_known_by_the_name_that_a_command_was_given():
    write("n = 'a'", "!echo hi > out_{n}.txt", "import glob\nprint(sorted(glob.glob('out_*')))")
    with opened("nb.ipynb") as lab:
        lab.run()
        lab.edit("c0", "n = 'b'")
        lab.run()
        lab.save()
        assert comes_to({"c2"})
        assert "out_a.txt was left by an earlier run of c1" in str(stale()["c2"])
    assert replay(Session.open("nb.ipynb")).executed == ["c2"]
    assert texts()[2] == "['out_b.txt']\n"


def test_a_directory_that_is_made_if_it_is_not_there_settles():
    write(
        "import os\nd = 'one'",
        "if not os.path.exists(d): os.makedirs(d)",
        "print(os.path.exists('one'), os.path.exists('two'))",
        "if not os.path.isdir('one/sub'): os.makedirs('one/sub')",
    )
    with opened("nb.ipynb") as lab:
        lab.run()
        lab.edit("c0", "import os\nd = 'two'")
        lab.run()
        lab.save()
        assert comes_to({"c2", "c3"})
    assert replay(Session.open("nb.ipynb")).executed == ["c2", "c3"]
    assert texts()[2] == "False True\n"
    assert stale() == {}


def test_what_is_written_to_by_whoever_logs_is_nothing_to_a_definition():
    write(
        "import logging, sys",
        "h = logging.StreamHandler(sys.stdout)\nlogging.getLogger('a').addHandler(h)",
        "def step(n): return n + 1",
        "print(step(1))",
        "h.flush()",
    )
    with opened("nb.ipynb") as lab:
        lab.run()
        lab.edit("c2", "def step(n): return n + 2")
        lab.run("c0", "c2")
        lab.save()
        assert comes_to({"c3": ["step from c2 changed"], "c4": ["h from c3 changes"]})


def test_after_a_script_variables_are_not_doubted():
    write("%%bash\necho a", "g = iter([1, 2])", "print(next(g))")
    with opened("nb.ipynb") as lab:
        lab.run()
        lab.save()
        assert comes_to({})


def test_a_listing_may_change_where_a_cell_above_it_that_writes_there_is_stale():
    write("n = 1", "open(f'f{n}.txt', 'w').close()", "import glob\nprint(glob.glob('*.txt'))")
    with opened("nb.ipynb") as lab:
        lab.run()
        lab.edit("c0", "n = 2")
        lab.run("c0")
        lab.save()
        assert comes_to({"c1", "c2"})
        assert "may change: c1 runs again" in stale()["c2"][0]


def test_an_instance_above_the_class_that_is_run_again_is_not_forgotten():
    write("class A: v = 1", "a = A()", "class A: v = 3", "print(a.v, A.v, type(a) is A)")
    with opened("nb.ipynb") as lab:
        lab.run()
        lab.save()
        assert comes_to({})
    replay(Session.open("nb.ipynb"), force=frozenset({"c3"}))
    assert texts()[3] == "1 3 False\n"


# Pairs of what a cell does first and what it is edited to: none can see what is set below.
BLIND = {
    "x = 1": "x = 2",
    "class A: v = 1": "class A: v = 2",
    "class B(Exception):\n    def f(self): pass": "class B(Exception):\n    def g(self): pass",
    "def f(a): return a": "def f(a): return a + 1",
    "print('a')": "print('b')",
    "sum([i * i for i in range(5)])": "sum([i * i for i in range(6)])",
    "import math\ny = math.sqrt(2)": "import math\ny = math.sqrt(3)",
    "import math, json": "import math, json, re",
    "for k in [2, 1]:\n    print(f'{k}: {len(str(k))}')": "for k in [1, 1]:\n    print(f'{k}!')",
    "from dataclasses import dataclass\n@dataclass\nclass P:\n    v: int": (
        "from dataclasses import dataclass\n@dataclass\nclass P:\n    v: str"
    ),
}
BELOW = [
    "import warnings\nwarnings.filterwarnings('ignore')",
    "import random, sys\nsys.argv = ['x']\nsys.path.append('/nowhere')\nrandom.seed(1)",
    "import os\nos.makedirs('sub', exist_ok=True)\nos.environ['FOO'] = '1'",
    "import pandas as pd\npd.set_option('display.width', 200)",
    "import numpy as np\nnp.set_printoptions(precision=3)\nnp.random.seed(1)",
    "import matplotlib.pyplot as plt\nplt.style.use('ggplot')\nplt.rcParams['figure.dpi'] = 50",
    "%matplotlib inline\n%config InlineBackend.figure_format = 'svg'",
    "import logging\nlogging.basicConfig(level=logging.INFO)",
    "import decimal, gc\ndecimal.getcontext().prec = 5\ngc.disable()",
    "%load_ext autoreload\n%autoreload 2",
    "pd.DataFrame.twice = lambda self: self * 2\nv, f = 3, 4",
    "%cd sub",
]


def test_settings_below_a_cell_that_cannot_see_them_leave_it_fresh_when_it_is_run():
    write(*BLIND, *BELOW)
    with opened("nb.ipynb") as lab:
        lab.run()
        lab.save()
        assert comes_to({})
        for number, source in enumerate(BLIND.values()):
            lab.edit(f"c{number}", source)
            lab.run(f"c{number}")
            lab.save()
            assert comes_to({}), source


# What they are edited to asks for nothing that is set below.
ASKING = {
    "df = pd.DataFrame({'a': [1]})": "df = pd.DataFrame({'a': [2]})",
    "a = np.arange(3) / 3": "a = np.arange(4) / 3",
    "home = os.environ.get('HOME')": "home = os.path.expanduser('~')",
    "print(os.getenv('NOBODYS'))": "print(os.getenv('NOBODYS', 'none'))",
    "!echo {len(x)} $HOME": "!echo {len(x) + 1}",
    "%%bash\ntrue": "%%bash\necho done",
}


def test_settings_below_that_a_cell_does_not_ask_for_leave_it_fresh_when_it_is_run():
    write(
        "import os\nx = 'abc'",
        "import numpy as np, pandas as pd",
        *ASKING,
        "pd.set_option('display.precision', 3)\nnp.set_printoptions(precision=3)",
        "print(df, a, sep='\\n')",
        "y = 1",
    )
    with opened("nb.ipynb") as lab:
        lab.run()
        lab.save()
        assert comes_to({})
        for number, source in enumerate(ASKING.values(), 2):
            lab.edit(f"c{number}", source)
            lab.run(f"c{number}")
        lab.run("c9")
        lab.save()
        assert comes_to({})


def test_a_variable_of_the_environment_that_is_set_below_is_nothing_to_who_asks_for_another():
    write(
        "import os",
        "print(os.getenv('HOME') is not None)",
        "print(os.getenv('B'))",
        "os.environ['B'] = '1'",
    )
    with opened("nb.ipynb") as lab:
        lab.run()
        lab.edit("c1", "print(os.environ.get('HOME') is None)")
        lab.edit("c2", "print(os.getenv('B'), 1)")
        lab.run("c1")
        lab.run("c2")
        lab.save()
        why = "the environment variable B came from c3, which is not above it"
        assert comes_to({"c2": [why]})
    assert replay(Session.open("nb.ipynb")).executed == ["c2"]
    assert texts()[1:3] == ["False\n", "None 1\n"]


# Whether or not an earlier run has left something, these leave the same.
CLEARING = {
    "remove": "if os.path.exists('{0}'):\n    os.remove('{0}')\nopen('{0}', 'w').write('{1}')",
    "unlink": "p = Path('{0}')\nif p.exists():\n    p.unlink()\np.write_text('{1}')",
    "writefile": "%%writefile {0}\n{1}",
    "rmtree": (
        "if os.path.isdir('d'):\n    shutil.rmtree('d')\nos.mkdir('d')\n"
        "open('d/{0}', 'w').write('{1}')"
    ),
    "mkdir": "if not os.path.exists('e'):\n    os.makedirs('e')\nopen('e/{0}', 'w').write('{1}')",
}


def test_a_cell_that_clears_the_place_of_what_it_makes_is_fresh_when_it_is_run_again():
    write(
        "import os, shutil\nfrom pathlib import Path",
        *(code.format(name, 1) for name, code in CLEARING.items()),
    )
    with opened("nb.ipynb") as lab:
        lab.run()
        lab.save()
        assert comes_to({})
        for number, (name, code) in enumerate(CLEARING.items(), 1):
            lab.edit(f"c{number}", code.format(name, 2))
            lab.run(f"c{number}")
        lab.save()
        assert comes_to({})
    assert replay(Session.open("nb.ipynb")).executed == []
    assert Path("d/rmtree").read_text() == Path("e/mkdir").read_text() == "2"


@pytest.mark.parametrize(
    "asks",
    [
        "if os.path.exists('f'):\n    print('there')\n    os.remove('f')",
        "if os.path.exists('f'):\n    os.remove('f')\nelse:\n    print('new')",
        "if os.path.exists('f'):\n    os.remove('g')",
        "there = os.path.exists('f')",
    ],
)
def test_a_cell_that_does_something_else_about_what_it_finds_is_not(asks):
    write("import os", "open('g', 'w').close()", f"{asks}\nopen('f', 'w').write('1')")
    with opened("nb.ipynb") as lab:
        lab.run()
        lab.edit("c2", f"{asks}\nopen('f', 'w').write('2')")
        lab.run("c1")
        lab.run("c2")
        lab.save()
        why = "f was left by an earlier run of this cell"
        assert any(why in str(stale().get("c2")) for _ in polls(20)), stale()


def test_settings_below_a_cell_that_can_see_them_are_said():
    sees = {
        "print(f(0))": "the recursion limit",
        "import os\nprint(os.path.abspath('x'))": "the working directory",
        "print(~True, 'ab\\d')": "the warnings filters",
        "import numpy as np\nprint(np.array([1 / 3]))": "numpy's print.precision",
        "async def later(): pass\nlater()": "the warnings filters",
    }
    write(
        "def f(n): return n and f(n - 1)", *sees, "import sys\nsys.setrecursionlimit(5000)", *BELOW
    )
    with opened("nb.ipynb") as lab:
        lab.run()
        for number in range(1, len(sees) + 1):
            lab.run(f"c{number}")
        for number, source in enumerate(sees, 1):
            lab.edit(f"c{number}", source + "\nprint(2)")
            lab.run(f"c{number}")
        lab.save()
        for number, name in enumerate(sees.values(), 1):
            assert any(
                any(cause.startswith(name) for cause in stale().get(f"c{number}", ()))
                for _ in polls(10)
            ), (number, name, stale())


def test_what_only_an_earlier_run_of_a_cell_has_written_is_not_there():
    write(
        "open('a.txt', 'w').close()",
        "import glob, os\nprint(sorted(glob.glob('*.txt')))",
        "print(os.path.exists('a.txt'))",
        "print(len(open('b.txt').read()))",
    )
    Path("b.txt").write_text("mine")
    with opened("nb.ipynb") as lab:
        lab.run()
        lab.save()
        assert comes_to({})
        lab.edit("c0", "open('c.txt', 'w').close()")
        lab.run()
        lab.save()
        assert comes_to({"c1", "c2"})
        assert "a.txt was left by an earlier run of c0" in str(stale()["c2"])
    assert set(replay(Session.open("nb.ipynb")).executed) == {"c1", "c2"}
    assert texts()[1:] == ["['b.txt', 'c.txt']\n", "False\n", "4\n"]
    assert stale() == {}
    assert Path("b.txt").read_text() == "mine"


@pytest.mark.parametrize("first", ["by hand", "replayed"])
def test_what_was_not_saved_or_saved_otherwise_does_not_count(first):
    write("x = 1", "print(x)")
    if first == "replayed":
        replay(Session.open("nb.ipynb"))
    with opened("nb.ipynb") as lab:
        lab.run()
        lab.save()
        assert comes_to({})
        lab.edit("c0", "x = 7")
        lab.run()  # nothing of this is saved
        assert written(4)
        assert stale() == {}
        lab.edit("c0", "x = 8")  # saved as it never ran
        lab.save()
        assert stale()["c0"] == ["source edited"]
        # What it shows is of a run with x = 7, which the notebook does not have.
        assert set(stale()) == {"c0", "c1"}
    replay(Session.open("nb.ipynb"))
    assert texts()[1] == "8\n"


def test_outputs_of_a_kernel_that_leaves_no_trace_are_not_taken_for_ours():
    write("import os\nx = 1", "print(x)")
    replay(Session.open("nb.ipynb"))
    with opened("nb.ipynb", "python3") as lab:
        lab.run()
        lab.cell("c1")["source"] = "print(x)"
        lab.run("c0")
        lab.silently("x = 99")
        lab.run("c1")
        lab.save()
    assert texts()[1] == "99\n"
    assert stale() == {"c1": ["shows something else than when rlmnb last saw it run"]}
    replay(Session.open("nb.ipynb"))
    assert texts()[1] == "1\n"


def test_a_cell_that_is_run_before_it_was_ever_saved_counts_once_it_is():
    write("x = 1")
    with opened("nb.ipynb") as lab:
        lab.run()
        lab.insert("new-one", "print(x + 1)", at=1)
        lab.run("new-one")
        lab.save()
        assert comes_to({})


def test_a_save_of_an_older_buffer_takes_nothing_away():
    write("x = 1", "print(x)")
    with opened("nb.ipynb") as lab:
        lab.run()
        lab.save()
        assert comes_to({})
        old = json.loads(Path("nb.ipynb").read_text())
        lab.edit("c0", "x = 2")
        lab.run()
        lab.save()
        assert comes_to({})
        newest = lab.buffer
        lab.buffer = nbformat.from_dict(old)
        lab.save()
        assert comes_to({})
        lab.buffer = newest
        lab.save()
        assert comes_to({})
        assert texts()[1] == "2\n"


def test_a_replay_brings_what_was_run_by_hand_into_the_notebook():
    write("x = [1]", "y = x + [2]", "print(y)")
    with opened("nb.ipynb") as lab:
        lab.run()
        lab.edit("c2", "print(len(y))")
        lab.save()
        assert comes_to({"c2"})
        report = replay(Session.open("nb.ipynb"))
        assert (report.executed, report.restored) == (["c2"], ["c1"])
        records = [cell.metadata.get("rlmnb") for cell in nbformat.read("nb.ipynb", 4).cells]
        assert [record["status"] for record in records] == ["completed"] * 3
        assert records[0]["run"]["by_hand"]
        os.rename(".rlmnb/nb.ipynb/by-hand.jsonl", "aside")
        assert stale() == {}
        os.rename("aside", ".rlmnb/nb.ipynb/by-hand.jsonl")
        # The person's buffer knows nothing of the replay.
        lab.run("c2")
        lab.save()
        assert comes_to({})


def test_a_renamed_notebook_is_found_again_and_another_is_never_written_to():
    write("x = 1", "print(x)")
    with opened("nb.ipynb") as lab:
        lab.run("c0")
        lab.save()
        assert comes_to({"c1"})
        os.rename("nb.ipynb", "other.ipynb")
        write("print('a stranger')", path="nb.ipynb")
        lab.path = Path("other.ipynb").absolute()
        lab.run("c1")
        lab.save()
        assert comes_to({}, "other.ipynb")
        assert comes_to({"c0"})
        hand = Path(".rlmnb/nb.ipynb/by-hand.jsonl").read_text().splitlines()
        assert [json.loads(line)["cell_id"] for line in hand] == ["c0"]


def test_a_notebook_that_is_nowhere_is_not_written_to():
    write("x = 1")
    with opened("nb.ipynb") as lab:
        os.makedirs("elsewhere")
        os.rename("nb.ipynb", "elsewhere/nb.ipynb")
        assert lab.run() == ["ok"]
        lab.path = Path("elsewhere/nb.ipynb").absolute()
        lab.save()
        assert lab.run() == ["ok"]
    assert set(stale("elsewhere/nb.ipynb")) == {"c0"}
    assert not Path(".rlmnb/nb.ipynb/by-hand.jsonl").exists()


def test_a_session_runs_where_its_agent_did_and_takes_cells_in_between(tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    (project / "auth.py").write_text("def login(): ...\n")
    session = Session.create("s1", project)
    session.append("text = open('auth.py').read()")
    session.append("print(len(text), working_memory['limit'])")
    session.remember(limit=3)
    path = notebook_of("s1")
    ids = [cell.cell_id for cell in session.cells]
    with opened(path) as lab:
        assert lab.run() == ["ok", "ok"]
        lab.save()
        assert comes_to({}, "s1")
        late = rlmnb.append("s1", {"source": "print('from the agent')", "output": "from the agent"})
        lab.edit(ids[1], "print(len(text) + working_memory['limit'])")
        lab.run(ids[1])
        lab.save()  # an older buffer: it has not got the cell of the agent
        assert comes_to({}, "s1")
        assert [cell.cell_id for cell in Session.open("s1").cells] == [*ids, late]
        (project / "auth.py").write_text("changed\n")
        assert set(stale("s1")) == {*ids}
        (project / "auth.py").write_text("def login(): ...\n")
        assert stale("s1") == {}
        session.remember(limit=4)
        assert stale("s1") == {ids[1]: ["working_memory changed"]}


def test_a_kernel_that_is_killed_leaves_what_was_written_and_a_new_one_begins_empty():
    write("x = [1]", "x.append(2)", "print(x)")
    with opened("nb.ipynb") as lab:
        lab.run("c0", "c1")
        lab.save()
        assert comes_to({"c2"})
        lab.kill()
        lab.restart()
        assert lab.run("c2") == ["error"]
        lab.save()
        assert comes_to({"c2": ["failed when it last ran", "x is set now, by c1"]})
    report = replay(Session.open("nb.ipynb"))
    assert (report.executed, report.restored) == (["c2"], ["c1"])
    assert texts()[2] == "[1, 2]\n"


def test_two_kernels_on_one_notebook_both_count():
    write("x = 1", "print(x)")
    with opened("nb.ipynb") as one, opened("nb.ipynb") as other:
        one.run()
        other.edit("c0", "x = 2")
        other.run()
        one.save()
        assert comes_to({})
        assert texts()[1] == "1\n"
        other.save()
        assert comes_to({})
        assert texts()[1] == "2\n"
        one.run("c1")  # where x is 1 still
        other.cell("c1")["outputs"] = one.cell("c1")["outputs"]
        other.save()
        assert comes_to({"c1": ["x from c0 changed"]})


def test_errors_interrupts_and_what_is_allowed_to_fail():
    write(
        "1 / 0",
        "x = 1",
        "raise ValueError('as said')",
        "print('begun')\nimport time\ntime.sleep(100)",
    )
    with opened("nb.ipynb") as lab:
        lab.cell("c2")["metadata"]["tags"] = ["raises-exception"]
        assert lab.run("c0", "c1", "c2") == ["error", "ok", "error"]
        slow = lab.cell("c3")
        request = lab.send(slow)
        while (message := lab.client.get_iopub_msg(timeout=60))["msg_type"] != "stream":
            pass
        lab.take_in(slow, "stream", message["content"])
        lab.manager.interrupt_kernel()
        assert lab.hear(slow, request) == "error"
        lab.save()
        failed = ["failed when it last ran"]
        assert comes_to({"c0": failed, "c3": failed})


def test_what_people_type_and_see_overwritten_and_paged_counts_as_shown():
    write(
        "name = input('who?')\nprint('hello', name)",
        "import sys\nfor n in range(5):\n    print(n, end='\\r', flush=True)\nprint('done')",
        "from IPython.display import clear_output, display\nprint(1)\nclear_output(wait=True)\n"
        "display(2)\nprint('err', file=sys.stderr)\nprint('out')",
        "len?",
        "import getpass\nsecret = getpass.getpass('key')",
        "%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2]);",
    )
    with opened("nb.ipynb") as lab:
        assert lab.run("c0", typing="Ada") == ["ok"]
        assert lab.run("c1", "c2", "c3") == ["ok"] * 3
        assert lab.run("c4", typing="hidden") == ["ok"]
        assert lab.run("c5") == ["ok"]
        lab.save()
        assert comes_to({})
    assert "hidden" not in Path(".rlmnb/nb.ipynb/by-hand.jsonl").read_text()


def test_a_display_that_another_cell_changes_is_right_in_both():
    write(
        "from IPython.display import display\nhandle = display('first', display_id='d')",
        "handle.update('second')",
    )
    with opened("nb.ipynb") as lab:
        lab.run()
        lab.save()
        assert "second" in str(lab.cell("c0")["outputs"])
        assert comes_to({})
        lab.edit("c1", "handle.update('third')")
        lab.save()
        assert comes_to({"c0", "c1"})
        lab.run("c1")
        lab.save()
        assert comes_to({})


def test_drawing_makes_no_cell_stale_and_turning_the_display_of_figures_off_does():
    write(
        "import matplotlib.pyplot as plt",
        "xs = [1, 2]",
        "plt.plot(xs)\nplt.show()",
        "print(len(xs))",
        "_ = plt.ioff()",
        "_, axes = plt.subplots()\nplt.close()\nprint(plt.isinteractive())",
    )
    with opened("nb.ipynb") as lab:
        lab.run("c0", "c1", "c2", "c3")
        lab.save()
        assert comes_to({"c4", "c5"})
        for each in ("c0", "c1", "c2", "c3"):
            lab.run(each)
            lab.save()
            assert comes_to({"c4", "c5"})
        lab.run("c4", "c5")
        lab.save()
        assert comes_to({})
    # Alone in a kernel where nothing has been drawn yet, it finds the display off all the same.
    report = replay(Session.open("nb.ipynb"), force=frozenset({"c5"}))
    assert report.executed == ["c5"]
    assert texts()[-1] == "False\n"


def test_what_changes_between_two_cells_is_noticed():
    write("x = [1]", "print(x)", "import threading\ngo = threading.Event()",
          "items = []\ndef work():\n    go.wait()\n    items.append(1)\n"
          "worker = threading.Thread(target=work)\nworker.start()",
          "print(items)")  # fmt: skip
    with opened("nb.ipynb") as lab:
        lab.run("c0")
        lab.silently("x.append(2)")
        lab.run("c1")
        lab.run("c2", "c3")
        lab.silently("go.set()\nworker.join()")
        lab.run("c4")
        lab.save()
        assert comes_to({"c1", "c4"})
        assert stale()["c1"] == ["x was changed between two cells"]


def test_a_module_that_was_edited_after_its_import_is_not_taken_for_its_source():
    Path("helper.py").write_text("value = 1\n")
    write("import helper", "print(helper.value)")
    with opened("nb.ipynb") as lab:
        lab.run("c0")
        Path("helper.py").write_text("value = 2222\n")
        lab.run("c1")
        lab.save()
        assert comes_to({"c0", "c1"})
    replay(Session.open("nb.ipynb"))
    assert texts()[1] == "2222\n"


def test_files_that_only_a_cell_below_makes_are_not_there_for_one_above():
    write(
        "import os\nprint(os.path.exists('made.txt'))",
        "print(sorted(os.listdir('.')))",
        "open('made.txt', 'w').write('x');",
        "print(open('made.txt').read())",
    )
    with opened("nb.ipynb") as lab:
        lab.run()
        lab.save()
        assert comes_to({})
        lab.run("c0", "c1")
        lab.save()
        assert comes_to({"c0", "c1"})
        lab.restart()
        lab.run("c0", "c1", "c2")
        lab.save()
        assert comes_to({"c0", "c1"})
    report = replay(Session.open("nb.ipynb"))
    assert report.executed == ["c0", "c1"]
    assert texts()[0] == "False\n"
    assert "made.txt" not in texts()[1]
    assert stale() == {}


def test_a_generator_that_is_seeded_twice_is_seeded_still():
    write("import random\nrandom.seed(0)", "x = random.random()", "print(x)")
    with opened("nb.ipynb") as lab:
        lab.run()
        lab.run("c1")
        lab.run("c0")
        lab.run("c0", "c2")
        lab.save()
        assert comes_to({"c1", "c2"})
        lab.run("c1", "c2")
        lab.save()
        assert comes_to({})


def test_a_file_that_a_notebook_writes_over_is_only_strange_where_it_was_read_too_late():
    Path("data.txt").write_text("b a")
    write("text = open('data.txt').read()", "print(len(text))",
          "with open('data.txt', 'w') as file:\n    file.write(' '.join(sorted(text.split())))",
          )  # fmt: skip
    with opened("nb.ipynb") as lab:
        lab.run()
        lab.save()
        assert comes_to({})
        lab.run()  # what it reads now is what it has written
        lab.save()
        assert comes_to({"c0", "c1", "c2"})
        lab.restart()
        lab.run()
        lab.save()
        assert comes_to({})


def test_a_mark_is_done_with_by_a_run_that_knew_of_it_and_by_no_other():
    write("x = 1", "print(x)")
    with opened("nb.ipynb") as lab:
        lab.run()
        lab.save()
        assert comes_to({})
        Session.open("nb.ipynb").invalidate("c1", "looks wrong")
        assert set(stale()) == {"c1"}
        lab.run("c1")  # in a buffer that does not know of the mark
        lab.save()
        assert comes_to({"c1"})
        lab.open()
        lab.run("c1")
        lab.save()
        assert comes_to({})


def test_others_than_notebooks_leave_no_trace():
    write("x = 1")
    with opened("nb.ipynb") as lab:
        lab.client.execute_interactive("y = 2", timeout=60)
        lab.run()
        lab.save()
        assert comes_to({})
        found: Any = [json.loads(line) for line in
                      Path(".rlmnb/nb.ipynb/by-hand.jsonl").read_text().splitlines()]  # fmt: skip
        assert [entry["cell_id"] for entry in found] == ["c0"]


def test_every_command_calls_the_same_cells_stale(run_json, run):
    write("x = 1", "y = 0 * x", "print(y)")
    with opened("nb.ipynb") as lab:
        lab.run()
        lab.edit("c0", "x = 5")
        lab.run("c0")
        lab.save()
        assert comes_to({"c1", "c2"})
        lab.run("c1")  # with an equal result, so c2 holds
        lab.save()
        assert comes_to({})
        assert run_json("cells", "nb.ipynb", "--status", "stale") == []
        lab.run("c2", "c0")
        lab.edit("c1", "y = 7")
        lab.save()
        assert comes_to({"c1", "c2"})
    listed = run_json("cells", "nb.ipynb", "--status", "stale")
    assert [cell["cell_id"] for cell in listed] == ["c1", "c2"]
    drawn = run_json("graph", "nb.ipynb")
    assert [node["id"] for node in drawn["nodes"] if "stale" in str(node)] == ["c1", "c2"]
    assert "2 stale" in run("show", "nb.ipynb").stdout
    assert run_json("stats", "nb.ipynb")["stale"] == 2


def test_a_figure_that_is_saved_over_its_earlier_version_is_fresh():
    plot = "fig, ax = plt.subplots()\nax.plot([1, {}])\nfig.savefig('out.png')\nplt.close(fig)"
    write(
        "import matplotlib\nmatplotlib.use('Agg')\nimport matplotlib.pyplot as plt", plot.format(2)
    )
    with opened("nb.ipynb") as lab:
        lab.run()
        lab.save()
        assert comes_to({})
        lab.edit("c1", plot.format(3))
        lab.save()
        assert comes_to({"c1": ["source edited"]})
        lab.run("c1")
        lab.save()
        assert comes_to({})


def test_a_cell_that_asks_for_a_file_it_has_made_before_is_stale_for_that():
    make = "import os\nif not os.path.exists('made.txt'):\n    open('made.txt', 'w').close()\n"
    write(make)
    with opened("nb.ipynb") as lab:
        lab.run()
        lab.save()
        assert comes_to({})
        lab.edit("c0", make.replace(".close()", ".write('more')") + "open('made.txt', 'a').close()")
        lab.run("c0")
        lab.save()
        why = f"{os.path.abspath('made.txt')} was left by an earlier run of this cell"
        assert comes_to({"c0": [why]})
