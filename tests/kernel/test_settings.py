"""Options of libraries, the environment, filters of warnings: who sets them, and who sees them."""

from __future__ import annotations

import re

import pytest

from rlmnb import Session
from rlmnb.files import polls
from rlmnb.replay.run import replay
from tests.kernel.lab import opened
from tests.kernel.test_by_hand import comes_to, stale
from tests.kernel.test_replay import texts, write

pytestmark = pytest.mark.kernel

SETUP = """import warnings
warnings.filterwarnings('ignore', category=FutureWarning)
import numpy as np, pandas as pd, matplotlib.pyplot as plt
%matplotlib inline
%config InlineBackend.figure_format = 'png'
pd.set_option('display.max_columns', None, 'display.precision', 3)
pd.options.display.float_format = '{:.2f}'.format
plt.rcParams['figure.figsize'] = (6, 4)
plt.rcParams.update({'lines.linewidth': 2})
plt.style.use('ggplot')
np.set_printoptions(precision=3)
np.random.seed(0)"""


EDITS = {
    "an option": (
        ["import pandas as pd", "pd.set_option('display.precision', 3)", "pd.Series([1 / 3])"],
        {1: "pd.set_option('display.precision', 5)"},
        {"c2"},
    ),
    "another option instead": (
        ["import pandas as pd", "pd.set_option('display.precision', 3)", "pd.Series([1 / 3])"],
        {1: "pd.options.display.width = 70"},
        {"c2"},
    ),
    "one of two options": (
        [
            "import numpy as np\nnp.seterr(all='ignore')\nnp.set_printoptions(precision=2)",
            "print(np.array([1 / 3]))",
        ],
        {0: "import numpy as np\nnp.seterr(divide='ignore')\nnp.set_printoptions(precision=2)"},
        {"c1"},
    ),
    "the same options": (
        ["import numpy as np\nnp.set_printoptions(precision=2)", "print(np.array([1 / 3]))"],
        {0: "import numpy as np\nimport math\nnp.set_printoptions(precision=2)"},
        set(),
    ),
    "what stands above options": (
        [
            "import pandas as pd",
            "n = 3\nwords = 'one two'.split()",
            "pd.set_option('display.precision', 3)\nimport os\nos.environ['N'] = str(n)",
            "pd.Series([1 / n])",
        ],
        {0: "import pandas as pd\nimport math", 1: "n = 4\nwords = 'one two'.split()"},
        {"c2", "c3"},
    ),
    "a set-up as people write them": (
        [SETUP, "pd.DataFrame({'a': [1 / 3]})", "plt.plot([1, 2]);", "plt.rc('font', size=9)"],
        {0: SETUP.replace("(6, 4)", "(5, 4)"), 3: "plt.rc('font', size=8)"},
        {"c1", "c2"},
    ),
    "a value that a module has": (
        [
            "import sys, numpy as np\nnp.set_printoptions(threshold=sys.maxsize)\n%env LEVEL=1",
            "print(np.arange(3))",
        ],
        {0: "import sys, numpy as np\nnp.set_printoptions(threshold=50)\n%env LEVEL=2"},
        {"c1"},
    ),
    "what warnings to show": (
        ["import warnings\nwarnings.filterwarnings('ignore')", "warnings.warn('oh')"],
        {0: "import warnings\nwarnings.simplefilter('default')"},
        {"c1"},
    ),
    "a backend": (
        [
            "import matplotlib\nmatplotlib.use('Agg')",
            "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.savefig('a.png')",
        ],
        {0: "import matplotlib, math\nmatplotlib.use('Agg')"},
        set(),
    ),
    "an option that is set and used": (
        [
            "import decimal, os\ndecimal.getcontext().prec = 5\nos.environ['X'] = '1'",
            "decimal.getcontext().prec = 4\nprint(decimal.Decimal(1) / 3, os.environ['X'])",
        ],
        {1: "decimal.getcontext().prec = 3\nprint(decimal.Decimal(1) / 3, os.environ['X'])"},
        set(),
    ),
}


@pytest.mark.parametrize("case", EDITS)
def test_an_edited_cell_of_settings_is_fresh_once_it_is_run(case):
    cells, edited, stale_then = EDITS[case]
    write(*cells)
    with opened("nb.ipynb") as lab:
        assert set(lab.run()) == {"ok"}
        lab.save()
        assert comes_to({})
        for number, source in edited.items():
            lab.edit(f"c{number}", source)
            lab.run(f"c{number}")
        lab.save()
        assert comes_to(stale_then)
    report = replay(Session.open("nb.ipynb"))
    assert set(report.executed) == stale_then
    by_replay = re.sub(r"ipykernel_\d+", "", str(texts()))
    replay(Session.open("nb.ipynb"), force=frozenset(f"c{each}" for each in range(len(cells))))
    assert re.sub(r"ipykernel_\d+", "", str(texts())) == by_replay
    assert stale() == {}


SEEN = {
    "looked at": (
        "import decimal\ndecimal.getcontext().prec = 5",
        "import decimal\ndecimal.getcontext().prec += 1",
    ),
    "left, and seen": (
        "import numpy as np\nnp.set_printoptions(precision=2)",
        "import numpy as np\nprint(np.array([1 / 3]))",
    ),
    "set where it may not be": (
        "import numpy as np\nnp.set_printoptions(precision=2)",
        "import numpy as np\nif np.geterr(): np.set_printoptions(precision=3)",
    ),
    "after it was seen": (
        "import numpy as np\nnp.set_printoptions(precision=2)",
        "import numpy as np\nprint(np.array([1 / 3]))\nnp.set_printoptions(precision=3)",
    ),
    "shown by who sets it": (
        "import numpy as np\nnp.seterr(all='ignore');",
        "import numpy as np\nnp.seterr(all='warn')",
    ),
    "through a function": (
        "import numpy as np\nnp.set_printoptions(precision=2)\nf = lambda: np.array([1 / 3])",
        "f = lambda: np.array([1 / 3])\nimport numpy as np\nprint(f())",
    ),
}


@pytest.mark.parametrize("case", SEEN)
def test_a_cell_that_saw_what_its_earlier_run_had_set_stays_stale(case):
    cells, edited = SEEN[case]
    write(cells, "1")
    with opened("nb.ipynb") as lab:
        lab.run()
        lab.save()
        assert comes_to({})
        lab.edit("c0", edited)
        lab.run("c0")
        lab.save()
        why = "was left by an earlier run of this cell"
        assert any(why in stale().get("c0", [""])[0] for _ in polls(20)), stale()


def test_whoever_sees_what_only_an_earlier_run_of_another_cell_had_set_says_so():
    style = "import matplotlib.pyplot as plt\nplt.style.use('{}')"
    write(style.format("ggplot"), "plt.plot([1, 2]);")
    with opened("nb.ipynb") as lab:
        lab.run()
        lab.save()
        assert comes_to({})
        lab.edit("c0", style.format("bmh"))
        lab.run("c0")
        lab.save()
        assert comes_to({"c1"})
        lab.run("c1")
        lab.save()
        why = "was left by an earlier run of c0"
        assert any(why in stale().get("c1", [""])[0] for _ in polls(20)), stale()
        assert stale().keys() == {"c1"}
    assert replay(Session.open("nb.ipynb")).executed == ["c1"]
    assert stale() == {}
