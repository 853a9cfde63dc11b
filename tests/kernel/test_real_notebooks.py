"""Notebooks of the kinds people have: outputs as nbclient's, and nothing to do the second time."""

from __future__ import annotations

import nbformat
import pytest

from rlmnb import Session
from rlmnb.replay.run import replay
from tests.conftest import comparable, run_plainly

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("forked")]

ITEM = """@dataclass
class Item:
    name: str
    colour: Colour
    tags: list = field(default_factory=list)"""
FIB = """from functools import lru_cache
@lru_cache
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)"""
NOTEBOOKS = {
    "a data analysis": [
        "import numpy as np\nimport pandas as pd",
        "np.random.seed(0)\ndf = pd.DataFrame({'a': np.arange(6), 'b': np.random.rand(6)})",
        "df.head(3)",
        "df['c'] = df['a'] * 2",
        "df.groupby(df['a'] % 2)['c'].sum()",
        "small = df[df['b'] > 0.5].copy()\nlen(small)",
        "small.loc[:, 'b'] = 0\nprint(small['b'].sum(), df['b'].sum() > 0)",
        "df.describe().loc['mean']",
    ],
    "arrays and views": [
        "import numpy as np",
        "a = np.arange(10)",
        "v = a[2:5]",
        "v[0] = 100",
        "print(a)",
        "m = a.reshape(2, 5).T.copy()",
        "m.sum()",
    ],
    "a plot": [
        "%matplotlib inline\nimport matplotlib.pyplot as plt",
        "values = [1, 4, 9]",
        "plt.plot(values)\nplt.title('squares')\nplt.show()",
        "fig, ax = plt.subplots()\nax.bar([0, 1, 2], values);",
    ],
    "classes and functions": [
        "from dataclasses import dataclass, field\nfrom enum import Enum",
        "class Colour(Enum):\n    RED = 1\n    BLUE = 2",
        ITEM,
        "items = [Item('a', Colour.RED), Item('b', Colour.BLUE)]",
        "items[0].tags.append('x')",
        "sorted(items, key=lambda item: item.colour.value, reverse=True)",
        FIB,
        "fib(30), fib.cache_info().currsize",
    ],
    "streams, cleared and interleaved": [
        "import sys\nfrom IPython.display import clear_output, display",
        "n = 3",
        "for i in range(n):\n    print('out', i)\n    print('err', i, file=sys.stderr)",
        "print('first')\nclear_output(wait=True)\nprint('second')",
        "h = display('a', display_id='shown')\nprint('between')",
        "h.update('b')",
        "display('ünïcode ✓', {'k': [n]})",
    ],
    "widgets": [
        "from comm import create_comm",
        "n = 1",
        "state = {'_model_name': 'IntSliderModel', '_model_module': 'controls', 'value': n}",
        "c = create_comm(target_name='jupyter.widget', comm_id='w', data={'state': state})",
        "x = n + 1",
    ],
    "parameters": [
        "alpha = 0.5\nnames = ['a', 'b']",
        "total = sum(len(name) for name in names) * alpha",
        "def report(value):\n    return f'{value:.1f}'",
        "report(total)",
        "import json\nprint(json.dumps({'total': total, 'names': names}))",
    ],
    "files and a local table": [
        "import csv, pathlib\nrows = [('a', 1), ('b', 2)]",
        "with open('t.csv', 'w', newline='') as f:\n    csv.writer(f).writerows(rows)",
        "import pandas as pd\ndf = pd.read_csv('t.csv', names=['k', 'v'])",
        "df.groupby('k').v.sum().to_csv('sums.csv')",
        "print(pathlib.Path('sums.csv').read_text())",
        "sorted(p.name for p in pathlib.Path('.').glob('*.csv'))",
    ],
    "statistics": [
        "import numpy as np\nrng = np.random.default_rng(7)",
        "x = rng.normal(size=(50, 3))\ny = x @ np.array([1.0, 2.0, 3.0])",
        "x[:, 0] *= 2",
        "w, *_ = np.linalg.lstsq(x, y, rcond=None)",
        "np.round(w, 3)",
        "import pandas as pd\npd.DataFrame(x, columns=list('abc')).describe().round(2)",
    ],
    "rich output": [
        "from IPython.display import HTML, Markdown, JSON, display",
        "display(HTML('<i>x</i>'), Markdown('**y**'))\nJSON({'a': 1})",
        "import warnings\nwarnings.warn('careful')",
        "print('out')\nimport sys\nprint('err', file=sys.stderr)",
    ],
}
EDITS = {
    "a data analysis": (3, "df['c'] = df['a'] * 3"),
    "arrays and views": (3, "v[0] = 200"),
    "a plot": (1, "values = [1, 8, 27]"),
    "classes and functions": (4, "items[0].tags.append('y')"),
    "streams, cleared and interleaved": (1, "n = 2"),
    "widgets": (1, "n = 2"),
    "parameters": (0, "alpha = 0.25\nnames = ['a', 'bc']"),
    "files and a local table": (0, "import csv, pathlib\nrows = [('a', 1), ('a', 5)]"),
    "statistics": (2, "x[:, 0] *= 3"),
    "rich output": (3, "print('other')"),
}


def outcome(notebook: nbformat.NotebookNode) -> tuple[list, object]:
    return [normal(cell.outputs) for cell in notebook.cells], notebook.metadata.get("widgets")


def run_plain(sources: list[str]) -> tuple[list, object]:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(s) for s in sources])
    run_plainly(notebook)
    return outcome(notebook)


def normal(outputs: list) -> list:
    shown = []
    for plain in comparable(outputs):
        text = plain.get("text", "")
        if "ipykernel_" in text:  # the name of a temporary file, which has the process in it
            plain["text"] = text[text.index("UserWarning") :]
        shown.append(plain)
    return shown


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_real_notebook_replays_to_what_nbclient_gives(name: str):
    sources = list(NOTEBOOKS[name])
    cells = [nbformat.v4.new_code_cell(each, id=f"c{n}") for n, each in enumerate(sources)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), "nb.ipynb")
    for number, source in ((None, ""), EDITS[name]):
        if number is not None:
            notebook = nbformat.read("nb.ipynb", 4)
            notebook.cells[number].source = sources[number] = source
            nbformat.write(notebook, "nb.ipynb")
        report = replay(Session.open("nb.ipynb"))
        assert report.failed == []
        assert outcome(nbformat.read("nb.ipynb", 4)) == run_plain(sources), report.causes
        again = replay(Session.open("nb.ipynb"))
        assert (again.executed, again.kernel) == ([], "not started")
