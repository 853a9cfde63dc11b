"""Which cells run again after one change: exactly the right ones."""

from __future__ import annotations

import pytest

from tests.kernel.replaying import Case, check

COUNTER = (
    "def make():\n    n = 0\n    def up():\n        nonlocal n\n        n += 1\n        return n\n"
    "    def get():\n        return n\n    return up, get\nup, get = make()"
)
POINT = (
    "class P:\n    def __init__(self, x):\n        self.x = x\n    def get(self):\n"
    "        return self.x"
)
LOGGING = """import logging, sys
logging.basicConfig(level='INFO', stream=sys.stdout, format='%(message)s')"""
MAGIC = """from IPython.core.magic import register_line_magic
@register_line_magic
def twice(line):
    return line * 2"""
FRAME = """import pandas as pd
df = pd.DataFrame({'a': range(6), 's': list('aabbcc'), 'c': pd.Categorical(list('xxyyzz'))})"""
FIGURE = """import matplotlib.pyplot as plt
fig, ax = plt.subplots(figsize=(2, 1))
line, = ax.plot([1, 2])
ax.set_title('one')
plt.close(fig)"""
LOCAL = "import pack.inner\nprint(pack.inner.total(5))"

CASES = {
    "a figure, and objects that are made where its parts were looked at": Case(
        [
            FIGURE,
            "from collections import OrderedDict\no = OrderedDict(a=1, b=2)",
            "o.move_to_end('a')",
            "import pandas as pd\ndf = pd.DataFrame({'a': [1]})",
            "import queue\nq = queue.Queue()",
            "print(ax.get_title())",
        ],
        [0, 5],
        {0: FIGURE.replace("'one'", "'two'")},
    ),
    "what a script imports that a command runs": Case(
        ["!python script.py", "x = 1", "!python other.py"],
        [0],
        start={
            "script.py": "import kit.part\n",
            "other.py": "import kit\n",
            "kit/__init__.py": "",
            "kit/part.py": "from . import deep\n",
            "kit/deep.py": "print(1)\n",
        },
        files={"kit/deep.py": "print(2)\n"},
    ),
    "what stands in files that a command finds by itself": Case(
        [
            "!grep -rh needle src | sort",
            "!ls src",
            "!cat src/a.txt",
            "!find src -type f | xargs wc -c | sort",
            "!find src -type f | sort",
            "!grep -rh needle --include=*.txt | sort",
            "!grep -h needle src/a.txt",
        ],
        [0, 3, 5],
        start={"src/a.txt": "needle\n", "src/deep/b.txt": "needle 1\n"},
        files={"src/deep/b.txt": "needle 2\n"},
    ),
    "a file far below that a command would find": Case(
        ["!grep -rh needle src | sort", "!ls src", "!find src -type f | sort", "!ls -R src"],
        [0, 2, 3],
        start={"src/a.txt": "needle\n", "src/deep/b.txt": "needle 1\n"},
        files={"src/deep/c.txt": "needle 2\n"},
    ),
    "what is timed or captured": Case(
        [
            "def f(n):\n    return 1 if n < 2 else n * f(n - 1)\nk = 4",
            "%%capture\n%time y = f(k)",
            "%%capture\n%prun -q z = y + 1",
            "%%capture\n%timeit -n 1 -r 1 y = f(3)",
            "%%capture out\nprint(y, z)",
            "print(out.stdout, y)",
            "%%capture _\nv = %time f(2)\nw = 3",
        ],
        [0, 1, 2, 4, 5],
        {0: "def f(n):\n    return 1 if n < 2 else n * f(n - 1)\nk = 5"},
    ),
    "a comment beside magics and commands": Case(
        ["x = !printf a", "%%capture\ny = 1", "%pwd\nz = 2\nprint(x, y, z)", "!echo hi"],
        [],
        {
            0: "# first\nx = !printf a",
            1: "%%capture\n# one\ny =  1",
            2: "%pwd\nz  = 2\n\nprint(x, y, z)  # all",
        },
    ),
    "a function and a class that name themselves": Case(
        [
            "import functools",
            "@functools.lru_cache(None)\ndef f(n):\n    return n and f(n - 1)\nf(3)",
            "class Node:\n    def twin(self):\n        return Node()",
            "def f(n):\n    return n and f(n - 2)\nprint(f(4))",
        ],
        [1],
        {1: "@functools.lru_cache(None)\ndef f(n):\n    return n and f(n - 1)\nf(4)"},
    ),
    "a file that one program leaves for another": Case(
        ["!python gen.py", "x = 1", "!python two.py", "!sh three.sh"],
        [0, 2, 3],
        start={
            "gen.py": "open('between.txt', 'w').write('1')",
            "two.py": "print(open('between.txt').read())",
            "three.sh": "cat <between.txt | tr -d x",
        },
        files={"gen.py": "open('between.txt', 'w').write('2')"},
    ),
    "a directory that a library reads whole": Case(
        [
            "class lib:\n    @staticmethod\n    def dataset(path): return path",
            "lib.dataset('parts')",
            "x = 'parts'",
        ],
        [1],
        start={"parts/a=1/one.csv": "1", "parts/a=2/two.csv": "2"},
        files={"parts/a=2/two.csv": "3"},
    ),
    "a file whose rights are asked for": Case(
        ["import os\nprint(os.access('late.txt', os.R_OK))", "print(os.access('x', os.F_OK))"],
        [0],
        files={"late.txt": ""},
    ),
    "a file that is known by its number": Case(
        [
            "import os, tempfile\nfd = os.open('d.txt', os.O_RDONLY)",
            "print(os.read(fd, 5))",
            "n = 3",
            "print(os.read(fd, n))",
            "pair = tempfile.mkstemp()\nos.close(pair[0])",
            "m = n + len(pair)",
        ],
        [0, 1, 2, 3, 5],
        {2: "n = 4"},
        start={"d.txt": "hello world\n"},
    ),
    "a file whose number was closed, and one that others have": Case(
        [
            "import os\nf = open('d.txt')\nn = 3",
            "fd = os.open('d.txt', os.O_RDONLY)\nprint(os.read(fd, 5))\nos.close(fd)",
            "print(os.read(f.fileno(), n))\nf.close()",
            "print(n)",
        ],
        [3],
        {3: "print(n + 1)"},
        start={"d.txt": "hello world\n"},
    ),
    "a cell that was emptied": Case(
        ["x = [1]", "x.append(2)", "print(x)", "y = 1"],
        [2],
        {1: " "},
    ),
    "a file that a program writes": Case(
        [
            "import subprocess, sys\nk = 'A'",
            "subprocess.run([sys.executable, 'make.py', k], check=True);",
            "print(open('made.txt').read())",
            "y = 1",
        ],
        [0, 1, 2],
        {0: "import subprocess, sys\nk = 'B'"},
        start={"make.py": "import sys\nopen('made.txt', 'w').write(sys.argv[1])\n"},
    ),
    "a module that was not there": Case(
        [
            "try:\n    import late\nexcept ImportError:\n    late = None",
            "print(late is None)",
            "x = 1",
        ],
        [0, 1],
        files={"late.py": "x = 1\n"},
    ),
    "a part of a package that was not there": Case(
        [
            "import importlib.util\nfound = importlib.util.find_spec('kit.part')",
            "print(found is None)",
        ],
        [0, 1],
        start={"kit/__init__.py": ""},
        files={"kit/part.py": "x = 1\n"},
    ),
    "a module that a local one does without": Case(
        ["import mine", "print(mine.quick is None)", "x = 1"],
        [0, 1],
        start={"mine.py": "try:\n    import quick\nexcept ImportError:\n    quick = None\n"},
        files={"quick/__init__.py": ""},
    ),
    "a package that comes before a module": Case(
        ["import mine\nx = mine.x", "print(x)", "y = 1"],
        [0, 1],
        start={"mine.py": "x = 1\n"},
        files={"mine/__init__.py": "x = 2\n"},
    ),
    "a thread that has ended": Case(
        [
            "import threading\nout = []",
            "def work(n):\n    out.append(n)",
            "t = threading.Thread(target=work, args=(3,))\nt.start()\nt.join()",
            "print(out, t.is_alive())",
            "print(len(out))",
        ],
        [2, 3],
        edit={3: "print(out, t.is_alive(), 1)"},
    ),
    "a module in a package, by a cell that fails now": Case(
        ["a = 1", LOCAL, f"n = 9\n{LOCAL}"],
        [0, 2],
        {0: "a = 2", 2: f"n = 9\n{LOCAL}\n1 / 0"},
        start={"pack/__init__.py": "", "pack/inner.py": "def total(x): return x + 1\n"},
        tags={2: "raises-exception"},
    ),
    "the name of the notebook itself": Case(
        [
            "x = 1",
            "import os\nprint([n for n in os.listdir('.') if n[0] != '.' and n != 'nb.ipynb'])",
            "import os.path\nprint(os.path.basename('nb.ipynb'))",
        ],
        [0],
        {0: "x = 2"},
    ),
    "a comment runs nothing": Case(["x = 1", "print(x)"], [], {0: "x = 1  # one"}),
    "layout runs nothing": Case(["x = [1, 2]", "print(x)"], [], {0: "x = [\n    1,\n    2,\n]\n"}),
    "a library is given a function": Case(
        ["import math\ndef f(): return k\nmath.own = f", "k = 1", "y = 2", "print(math.own())"],
        [0, 1, 3],
        {1: "k = 3"},
    ),
    "a function among the builtins": Case(
        ["import builtins\ndef shout(): return 'HO'\nbuiltins.shout_it = shout", "shout_it()"],
        [0, 1],
        {0: "import builtins\ndef shout(): return 'HI'\nbuiltins.shout_it = shout"},
    ),
    "an option, below what cannot see it": Case(
        [
            "import pandas as pd, math",
            "pd.set_option('display.precision', 3)",
            "words = 'b a'.split()\nprint(sorted(words), math.pi)",
            "def half(x):\n    return x / 2\nprint(half(3))",
            "print(pd.Series([1 / 3]))",
        ],
        [1, 4],
        {1: "pd.set_option('display.precision', 2)"},
    ),
    "an option, seen through functions and files": Case(
        [
            "import pandas as pd, pickle\npd.Series([1 / 3]).to_pickle('s.pkl')",
            "pd.set_option('display.precision', 3)",
            "def show():\n    import pandas\n    return str(pandas.Series([1 / 3]))",
            "class Shown:\n    def __repr__(self): return show()\nx = [Shown()]",
            "x",
            "print(pickle.load(open('s.pkl', 'rb')))",
        ],
        [1, 4, 5],
        {1: "pd.set_option('display.precision', 2)"},
    ),
    "how frames and arrays are shown is nothing to cells that show none": Case(
        [
            "import numpy as np, pandas as pd",
            "pd.set_option('display.precision', 3)\nnp.set_printoptions(precision=3)",
            "df = pd.DataFrame({'a': np.arange(3) / 3})\nprint(len(df), df.a.max() > 0)",
            "total = df.groupby('a').a.sum().to_numpy()",
            "print(total)",
            "df",
            "print(np.geterr()['all'] if 'all' in np.geterr() else 'no')",
        ],
        [1, 4, 5],
        {1: "pd.set_option('display.precision', 2)\nnp.set_printoptions(precision=2)"},
    ),
    "an option that pandas acts on without asking": Case(
        [
            "import pandas as pd",
            "pd.set_option('compute.use_numexpr', True)",
            "x = 1",
            "print(pd.Series([1]).sum())",
        ],
        [1, 3],
        {1: "pd.set_option('compute.use_numexpr', False)"},
    ),
    "another variable of the environment": Case(
        [
            "import os",
            "os.environ['A'], os.environ['B'] = '1', '2'",
            "print(os.getenv('A'))",
            "def b():\n    return os.environ.get('B')\nprint(os.path.expanduser('~/x') != '')",
            "print(b())",
            "print(len(dict(os.environ)) > 1)",
            "print('B' in os.environ, os.path.expandvars('$B'))",
            "!echo $B",
            "import time\nprint(time.tzname)",
        ],
        [1, 4, 5, 6, 7, 8],
        {1: "os.environ['A'], os.environ['B'] = '1', '3'"},
    ),
    "a database that is only asked": Case(
        [
            "import sqlite3, pandas as pd\nconn = sqlite3.connect(':memory:')",
            "conn.execute('create table t (a)'); conn.execute('insert into t values (1)'); ",
            "def ask(sql):\n    return pd.read_sql(sql, conn)",
            "print(ask('select a from t').a.tolist())",
            "print(conn.execute('select count(*) from t').fetchone())",
            "print(conn.execute('pragma table_info(t)').fetchall())",
        ],
        [0, 1, 3],
        {3: "print(ask('select a + 1 from t').values.tolist())"},
    ),
    "a database that is asked in another way from there on": Case(
        [
            "import sqlite3\nconn = sqlite3.connect(':memory:')\nn = 1",
            "_ = conn.executescript('create table t (a); insert into t values (1)')",
            "print(conn.execute('select a from t').fetchall())",
            "conn.row_factory = sqlite3.Row",
            "print(conn.execute('select a from t').fetchone().keys())",
            "conn.create_function('f', 1, lambda x: x + n)",
            "print(conn.execute('select f(a) from t').fetchone()[0])",
            "print(conn.execute('select f(a) from t').fetchone()['f(a)'])",
        ],
        None,
        {0: "import sqlite3\nconn = sqlite3.connect(':memory:')\nn = 2"},
    ),
    "a database that is changed in between": Case(
        [
            "import sqlite3\nconn = sqlite3.connect(':memory:')",
            "_ = conn.executescript('create table t (a); insert into t values (1)')",
            "print(conn.execute('select a from t').fetchall())",
            "_ = conn.execute('update t set a = 2')",
            "print(conn.execute('select a from t').fetchall())",
        ],
        [0, 1, 3, 4],
        {3: "_ = conn.execute('update t set a = 3')"},
    ),
    "an option, seen by a process that is forked off": Case(
        [
            "import pandas as pd, multiprocessing",
            "pd.set_option('display.precision', 3)",
            "def show(x):\n    return str(pd.Series([x]))",
            "pool = multiprocessing.get_context('fork').Pool(1)\nprint(pool.map(show, [1 / 3]))",
        ],
        [1, 3],
        {1: "pd.set_option('display.precision', 2)"},
    ),
    "options that a variable keeps at hand": Case(
        [
            "import pandas as pd\ndisplay = pd.options.display",
            "pd.set_option('display.precision', 3)",
            "def show():\n    return display.precision",
            "print(show())",
        ],
        [1, 3],
        {1: "pd.set_option('display.precision', 2)"},
    ),
    "files of processes that are forked off": Case(
        [
            "import multiprocessing, os\nfork = multiprocessing.get_context('fork')",
            "def write(n): open(f'{n}.txt', 'w').write(text)",
            "def read(n): return open(f'{n}.txt').read() if os.path.exists(f'{n}.txt') else None",
            "text = 'a'",
            "if os.fork() == 0: write(1), os._exit(0)\n_ = os.wait()\nprint(read(1))",
            "with fork.Pool(1) as pool: print(pool.map(read, [1, 2]))",
            "print(open('1.txt').read())",
            "x = 1",
        ],
        [3, 4, 5, 6],
        {3: "text = 'b'"},
    ),
    "files of a worker that stays": Case(
        [
            "import multiprocessing",
            "def read(n): return open(f'{n}.txt').read()",
            "pool = multiprocessing.get_context('fork').Pool(1)",
            "for n, text in enumerate('ab'): open(f'{n}.txt', 'w').write(text)",
            "print(pool.map(read, [0]))",
            "print(pool.map(read, [0, 1]))",
            "print(pool.map(read, [1]))",
        ],
        None,
        {3: "for n, text in enumerate('cb'): open(f'{n}.txt', 'w').write(text)"},
    ),
    "an option, seen by a function that remembers": Case(
        [
            "import functools, os\nos.environ['A'] = '1'",
            "@functools.cache\ndef f(name): return os.environ[name]",
            "f('A')",
            "print(f('A'))",
        ],
        [0, 2, 3],
        {0: "import functools, os\nos.environ['A'] = '2'"},
    ),
    "a warning that was caught by a function that remembers": Case(
        [
            (
                "import functools, warnings\n@functools.cache\ndef f():\n"
                "    try: return warnings.warn('w')\n    except Warning: return 'caught'"
            ),
            "warnings.simplefilter('error')",
            "f();",
            "print(f())",
        ],
        [1, 2, 3],
        {1: "warnings.simplefilter('ignore')"},
    ),
    "an item of a library's table": Case(
        [
            "import mimetypes\ndef put(end, kind): mimetypes.types_map[end] = kind",
            "put('.zz', 'a/b')",
            "mimetypes.types_map['.yy'] = 'b/c'",
            "print(mimetypes.types_map['.zz'])",
            "x = 1",
        ],
        [1, 2, 3],
        {1: "put('.zz', 'a/d')"},
    ),
    "the defaults of a library's function": Case(
        [
            "import textwrap",
            "textwrap.fill.__defaults__ = (5,)",
            "print(textwrap.fill('aa bb cc'))",
        ],
        [1, 2],
        {1: "textwrap.fill.__defaults__ = (2,)"},
    ),
    "how warnings are shown": Case(
        [
            "import warnings\ndef warn(): warnings.warn('careful')",
            "def show(text, *_, **__): print('A', text)\nwarnings.showwarning = show",
            "warn()",
            "x = 1",
        ],
        [1, 2],
        {1: "def show(text, *_, **__): print('B', text)\nwarnings.showwarning = show"},
    ),
    "a logging setup that comes after a level, and what has to be made again": Case(
        [
            "import logging, sys\ng = (i for i in range(3))",
            "logging.basicConfig(stream=sys.stdout, level=logging.INFO)",
            "logging.getLogger().setLevel(80)",
            "print(next(g), logging.getLogger().level)",
        ],
        [0, 1, 2, 3],
        {
            1: "logging.getLogger().setLevel(80)",
            2: "logging.basicConfig(stream=sys.stdout, level=logging.INFO)",
        },
    ),
    "methods that helpers give to a library's classes": Case(
        [
            "import pandas as pd\ndef brief(cls, text): cls.__repr__ = lambda self: text",
            "def plain(cls): cls._repr_html_ = None",
            "brief(pd.Series, 'A'); plain(pd.DataFrame)",
            "print(repr(pd.Series([1])))",
            "pd.DataFrame({'a': [1]})",
        ],
        [2, 3, 4],
        {2: "brief(pd.Series, 'B')"},
    ),
    "what only other programs see of the environment": Case(
        ["import os\nos.putenv('P', '1')", "!echo $P", "x = 1"],
        [0, 1],
        {0: "import os\nos.putenv('P', '2')"},
    ),
    "what a command expands": Case(
        ["a, b, c = 1, 2, 3", "b = 2", "!echo {a} $c", "!echo $b.real", "%%bash\necho $b"],
        [1, 3],
        {1: "b = 4"},
    ),
    "a variable of the environment, unseen": Case(
        ["import os\nos.environ['A'] = '1'", "x = sum([1, 2])", "print(os.environ['A'])"],
        [0, 2],
        {0: "import os\nos.environ['A'] = '2'"},
    ),
    "a command that names no variable": Case(
        ["x = 1", "!echo hello", "%env LEVEL=3", "print(x)"], [0, 3], {0: "x = 2"}
    ),
    "settings of Python's own": Case(
        ["import sys, csv", "sys.argv[1:] = ['a']", "print(sys.argv[1:])", "x = 1"],
        [1, 2],
        {1: "sys.argv[1:] = ['b']"},
    ),
    "a loop's variable that an earlier loop has, too": Case(
        [
            "for i in range(3): print(i)",
            "for i in range(3): print(-i)",
            "if i: last = i",
            "total = 0\nwhile total < 2: step = 1; total += step",
            "if i: step = 1",
            "print(step, last)",
        ],
        [0],
        {0: "for i in range(4): print(i)"},
    ),
    "a loop that did not run leaves what an earlier one left": Case(
        ["for i in range(3): pass", "for i in []: pass", "print(i)"],
        [0, 1, 2],
        {0: "for i in range(4): pass"},
    ),
    "a loop's variable that a function looks at meanwhile": Case(
        [
            "i = 1",
            "def seen(): return i",
            "found = []\nfor _ in [0]:\n    found.append(seen())\n    if found: i = 1",
            "print(found)",
        ],
        [0, 2, 3],
        {0: "i = 3"},
    ),
    "attributes of a class named like variables": Case(
        ["v, f = 1, 2", "class A:\n    v = 5\n    def f(self): return 3", "print(A.v, A().f())"],
        [0],
        {0: "v, f = 7, 8"},
    ),
    "a variable that the body of a class reads before it sets it": Case(
        ["v = 1", "class A:\n    if True:\n        v = v + 5", "print(A.v)"],
        [0, 1, 2],
        {0: "v = 7"},
    ),
    "how a kind of value is shown": Case(
        [
            "plain = get_ipython().display_formatter.formatters['text/plain']",
            "plain.for_type(set, lambda o, p, c: p.text('one'));",
            "{1}",
        ],
        [0, 1, 2],
        {1: "plain.for_type(set, lambda o, p, c: p.text('two'));"},
    ),
    "numbers of lines in what is shown": Case(
        [
            "import warnings\ndef f():\n    warnings.warn('old')",
            "f()",
            "y = 2",
            "import traceback\ntry: 1 / 0\nexcept ArithmeticError: print(traceback.format_exc())",
        ],
        [0, 1],
        {0: "import warnings\n# soon\ndef f():\n    warnings.warn('old')"},
    ),
    "a file that an earlier cell has opened is written, closed and read": Case(
        [
            "fw = open('out.txt', 'w')\nfw.write('a')\nfw.flush()",
            "fw.write('b')\nfw.close()\nprint(open('out.txt').read())",
            "x = 1",
        ],
        [2],
        {2: "x = 2"},
    ),
    "a cell nobody needs": Case(["x = 1", "y = 2", "print(x)"], [1], {1: "y = 3"}),
    "a chain": Case(["x = 1", "y = x + 1", "print(y)", "z = 5"], [0, 1, 2], {0: "x = 2"}),
    "an equal result stops the cascade": Case(
        ["x = 4", "y = x", "print(y)"], [0], {0: "x = 2 + 2"}
    ),
    "an equal result further down": Case(
        ["x = 5", "big = x > 3", "print(big)"], [0, 1], {0: "x = 6"}
    ),
    "a change in place": Case(
        ["l = [1]", "print(l)", "l.append(2)", "print(l)"], [2, 3], {2: "l.append(3)"}
    ),
    "a change through an alias": Case(
        ["a = [1]", "b = a", "b.append(2)", "print(a)", "c = 3"], [2, 3], {2: "b.append(3)"}
    ),
    "a change inside a nested object": Case(
        ["a = [1]", "d = {'x': a}", "d['x'].append(2)", "print(a)"], [2, 3], {2: "d['x'].append(5)"}
    ),
    "rebinding one alias leaves the other": Case(
        ["a = [1]", "b = a", "a = 7", "print(b)"], [2], {2: "a = 8"}
    ),
    "a function's body": Case(
        ["def f(): return 1", "x = 10", "print(f())", "print(x)"], [0, 2], {0: "def f(): return 2"}
    ),
    "through a function that calls it": Case(
        ["def f(): return 1", "def g(): return f()", "print(g())"], [0, 2], {0: "def f(): return 2"}
    ),
    "a global that a function reads": Case(
        ["k = 1", "def f(): return k", "print(f())"], [0, 2], {0: "k = 2"}
    ),
    "a default argument": Case(
        ["d = [1]", "def f(x=d): return len(x)", "d.append(2)", "print(f())"],
        [2, 3],
        {2: "d.extend([2, 3])"},
    ),
    "a closure's shared state": Case(
        [COUNTER, "up()", "print(get())", "x = 1"], [1, 2], {1: "up(); up()"}
    ),
    "a decorator": Case(
        ["def deco(f): return f", "@deco\ndef g(): return 1", "print(g())"],
        [0, 1, 2],
        {0: "def deco(f): return lambda: f() + 1"},
    ),
    "a lambda": Case(
        ["f = lambda x: x", "print(f(1))", "y = 1"], [0, 1], {0: "f = lambda x: x + 1"}
    ),
    "a method": Case(
        [POINT, "p = P(3)", "print(p.get())"],
        [0, 1, 2],
        {0: POINT.replace("self.x\n", "self.x\n") + " + 1"},
    ),
    "an attribute": Case(
        [POINT, "p = P(3)", "p.x = 4", "print(p.get())", "q = 1"], [2, 3], {2: "p.x = 5"}
    ),
    "a class variable": Case(
        ["class C:\n    n = 0", "C.n = 1", "print(C.n)"], [1, 2], {1: "C.n = 2"}
    ),
    "a comprehension": Case(
        ["k = 2", "l = [i * k for i in range(3)]", "print(l)"], [0, 1, 2], {0: "k = 3"}
    ),
    "a global statement": Case(
        ["n = 1", "def f():\n    global n\n    n += 1", "f()", "print(n)"], [0, 2, 3], {0: "n = 5"}
    ),
    "an augmented assignment": Case(["n = 1", "n += 1", "print(n)"], [1, 2], {1: "n += 2"}),
    "a deletion": Case(["x = 1", "y = 2", "del x", "print(y)"], [1, 3], {1: "y = 3"}),
    "unpacking": Case(["a, b = 1, 2", "print(a)", "print(b)"], [0, 2], {0: "a, b = 1, 3"}),
    "a loop variable": Case(
        ["for i in range(3):\n    last = i", "print(last)", "x = 1"],
        [0, 1],
        {0: "for i in range(4):\n    last = i"},
    ),
    "exec reads anything": Case(
        ["x = 1", "y = 5", "exec('z = x')", "print(z)"], [0, 2, 3], {0: "x = 2"}
    ),
    "eval reads anything": Case(["x = 1", "print(eval('x'))"], [0, 1], {0: "x = 2"}),
    "globals() reads anything": Case(["x = 1", "print(globals()['x'])"], [0, 1], {0: "x = 2"}),
    "a magic": Case(
        ["x = 1", "%%capture seen\nprint(x)", "print(seen.stdout)"], [0, 1, 2], {0: "x = 2"}
    ),
    "a file that changed": Case(
        ["t = open('data.txt').read()", "print(t)", "x = 1"],
        [0, 1],
        start={"data.txt": "one"},
        files={"data.txt": "two"},
    ),
    "a file that was only touched": Case(
        ["t = open('data.txt').read()"], [], start={"data.txt": "one"}, files={"data.txt": "one"}
    ),
    "a file that was missing": Case(
        ["try:\n    t = open('late.txt').read()\nexcept OSError:\n    t = ''", "print(t)"],
        [0, 1],
        files={"late.txt": "here"},
    ),
    "a file named in the code and read by other means": Case(
        ["import os\nsize = os.stat('data.txt').st_size", "print(size)"],
        [0, 1],
        start={"data.txt": "one"},
        files={"data.txt": "three"},
    ),
    "a file that another cell writes": Case(
        ["n = 1", "_w = open('out.txt', 'w').write(str(n))", "print(open('out.txt').read())"],
        [0, 1, 2],
        {0: "n = 2"},
    ),
    "a written file that was removed": Case(
        ["n = 1", "_w = open('out.txt', 'w').write(str(n))", "print(n)"],
        [1],
        files={"out.txt": None},
    ),
    "a directory that was listed": Case(
        ["import os\nnames = sorted(os.listdir('d'))", "print(names)"],
        [0, 1],
        start={"d/a": "1"},
        files={"d/b": "2"},
    ),
    "a local module": Case(
        ["import helper", "print(helper.value)", "x = 1"],
        [0, 1],
        start={"helper.py": "value = 1\n"},
        files={"helper.py": "value = 2\n"},
    ),
    "a name from a local module": Case(
        ["from helper import value", "print(value)", "x = 1"],
        [0, 1],
        start={"helper.py": "value = 1\n"},
        files={"helper.py": "value = 2\n"},
    ),
    "a module that a local module imports": Case(
        ["import outer", "print(outer.get())", "x = 1"],
        [0, 1],
        start={
            "outer.py": "import inner\ndef get(): return inner.value\n",
            "inner.py": "value = 1\n",
        },
        files={"inner.py": "value = 2\n"},
    ),
    "all names of a module": Case(
        ["from helper import *", "print(value)", "x = 1"],
        [0, 1],
        start={"helper.py": "value = 1\n"},
        files={"helper.py": "value = 2\n"},
    ),
    "a seed": Case(
        ["import random", "random.seed(1)", "a = random.random()", "print(a)", "x = 1"],
        [1, 2, 3],
        {1: "random.seed(2)"},
    ),
    "chance that nobody touched": Case(
        ["import random; random.seed(1)", "a = random.random()", "x = 1", "print(a)"],
        [2],
        {2: "x = 2"},
    ),
    "the environment": Case(
        ["import os", "os.environ['RLMNB_T'] = '1'", "print(os.environ['RLMNB_T'])"],
        [1, 2],
        {1: "os.environ['RLMNB_T'] = '2'"},
    ),
    "the working directory": Case(
        ["import os", "os.chdir('a')", "print(os.path.basename(os.getcwd()))"],
        [1, 2],
        {1: "os.chdir('b')"},
        start={"a/x": "", "b/x": ""},
    ),
    "a generator is made and used again": Case(
        ["g = iter(i for i in range(9))", "print(next(g))", "print(next(g))", "x = 1"],
        [0, 1, 2],
        {2: "print(next(g) * 10)"},
    ),
    "an open file": Case(
        ["h = open('data.txt')", "a = h.readline()", "b = h.readline()", "print(a)"],
        [0, 1, 2],
        {2: "b = h.readline() * 2"},
        start={"data.txt": "1\n2\n3\n"},
    ),
    "what cannot be stored and is not needed": Case(
        ["import threading\nlock = threading.Lock()", "x = 1", "print(x)"], [1, 2], {1: "x = 2"}
    ),
    "a producer that is gone": Case(["x = 1", "y = 2", "print(y)"], [], delete=0),
    "what a cell that is gone had added to a file": Case(
        [
            "open('j.txt', 'w').write('a');",
            "open('j.txt', 'a').write('b');",
            "print(open('j.txt').read())",
            "open('j.txt', 'a').write('c');",
        ],
        [1],
        delete=3,
    ),
    "a tag that forces": Case(
        ["x = 1", "y = 2", "print(y)"], [1], tags={1: "rlmnb:always"}, again=[1, 2]
    ),
    "a tag that forbids": Case(
        ["x = 1", "y = x", "print(y)"], [0], {0: "x = 2"}, tags={1: "rlmnb:pinned"}
    ),
    "an error that is allowed": Case(
        ["x = 1", "1 / 0", "print(x)"], [0, 2], {0: "x = 2"}, tags={1: "raises-exception"}
    ),
    "the state of a local module": Case(
        ["import helper", "helper.n += 1", "print(helper.n)", "x = 1"],
        [1, 2],
        {1: "helper.n += 2"},
        start={"helper.py": "n = 0\n"},
    ),
    "the state of a local module, through its functions": Case(
        ["from helper import add, total", "add(5)", "print(total())", "x = 1"],
        [1, 2],
        {1: "add(6)"},
        start={
            "helper.py": "items = []\ndef add(x): items.append(x)\ndef total(): return sum(items)\n"
        },
    ),
    "a local module's state is restored": Case(
        ["import helper; helper.n = 4", "y = 1", "print(helper.n + y)"],
        [1, 2],
        {1: "y = 2"},
        start={"helper.py": "n = 0\n"},
    ),
    "a class of a local module with state": Case(
        ["import helper", "helper.C.n = 1", "y = 1", "print(helper.C.n + y)"],
        [1, 2, 3],
        {2: "y = 2"},
        start={"helper.py": "class C:\n    n = 0\n"},
    ),
    "a local module that a cell writes anew after its import": Case(
        ["import helper", "open('helper.py', 'w').write('n = 9');", "print(helper.n)", "x = 1"],
        [2],
        {2: "print(helper.n, 'still')"},
        start={"helper.py": "n = 0\n"},
    ),
    "a list that a module and a variable share": Case(
        ["import helper\nfrom helper import items", "items.append(1)", "print(helper.items)"],
        [0, 1, 2],
        {1: "items.append(2)"},
        start={"helper.py": "items = []\n"},
    ),
    "a library that was patched": Case(
        ["import math", "math.pi = 3", "x = 1", "print(math.pi + x)"],
        [1, 2, 3],
        {2: "x = 2"},
    ),
    "another patch": Case(
        ["import math", "math.tau = 3", "print(math.tau)"], [1, 2], {1: "math.tau = 4"}
    ),
    "a library patched by a function": Case(
        ["import math\ndef patch(n):\n    math.tau = n", "patch(5)", "x = 1", "print(math.tau)"],
        [1, 3],
        {1: "patch(6)"},
    ),
    "a library patched under a name that is worked out": Case(
        ["import math\nx = 1", "for name in ['tau']:\n    setattr(math, name, 5)", "math.tau"],
        [1, 2],
        {1: "for name in ['tau']:\n    setattr(math, name, 6)"},
    ),
    "a filter of warnings below another": Case(
        [
            "import warnings\nwarnings.filterwarnings('ignore', category=UserWarning)",
            "warnings.simplefilter('ignore', FutureWarning)",
            "warnings.warn('u')\nprint(1)",
        ],
        [0, 1, 2],
        {0: "import warnings\nwarnings.filterwarnings('ignore', category=DeprecationWarning)"},
    ),
    "a variable that is set from itself by a name that is worked out": Case(
        ["y = 1", "y = globals()['y'] + 1", "print(y)"], [0, 1, 2], {0: "y = 5"}
    ),
    "a text of code that is written out": Case(
        ["x, z = 1, 1", "y = eval('x + 1')", "exec('w = x')", "print(y, w)"],
        [0],
        {0: "x, z = 1, 2"},
    ),
    "a text of code that names what changed": Case(
        ["x, z = 1, 1", "y = eval('x + 1')", "exec('w = z')", "print(y, w)"],
        [0, 1, 3],
        {0: "x, z = 2, 1"},
    ),
    "what is in a pickle": Case(
        [
            "import pickle\nclass A: n = 1\nx = 1",
            "data = pickle.dumps(A())",
            "print(pickle.loads(data).n)",
            "y = x",
        ],
        [0, 3],
        {0: "import pickle\nclass A: n = 1\nx = 2"},
    ),
    "a class that is in a pickle": Case(
        [
            "import pickle\nclass A: n = 1",
            "open('a.pkl', 'wb').write(pickle.dumps(A()));",
            "print(pickle.loads(open('a.pkl', 'rb').read()).n)",
        ],
        [0, 1, 2],
        {0: "import pickle\nclass A: n = 2"},
    ),
    "a stand-in for a function of a library": Case(
        [
            "from unittest import mock\nimport textwrap\np = mock.patch('textwrap.dedent')",
            "p.start().return_value = 'another'",
            "x = 1",
            "print(textwrap.dedent('a'), x)",
        ],
        [1, 2, 3],
        {2: "x = 2"},
    ),
    "a stand-in that says something else": Case(
        [
            "from unittest import mock\nimport textwrap",
            "mock.patch('textwrap.dedent', return_value='b').start();",
            "x = 1",
            "print(textwrap.dedent('a'))",
        ],
        [1, 3],
        {1: "mock.patch('textwrap.dedent', return_value='c').start();"},
    ),
    "a stand-in that is gone again": Case(
        [
            "from unittest import mock\nimport textwrap",
            "with mock.patch.object(textwrap, 'dedent', len):\n    print(textwrap.dedent('a'))",
            "x = 1",
            "print(textwrap.dedent('a'), x)",
        ],
        [2, 3],
        {2: "x = 2"},
    ),
    "a library patched by a local module": Case(
        ["import helper, math", "helper.patch(5)", "x = 1", "print(math.tau)"],
        [1, 3],
        {1: "helper.patch(6)"},
        start={"helper.py": "import math\ndef patch(n):\n    math.tau = n\n"},
    ),
    "what was registered with a library": Case(
        [
            "import codecs\ndef mark(error):\n    return '?', error.end\nx = 1",
            "codecs.register_error('mark', mark)",
            "y = 2",
            "print('\u00e9'.encode('ascii', 'mark'))",
        ],
        [0, 1, 3],
        {0: "import codecs\ndef mark(error):\n    return '!', error.end\nx = 1"},
    ),
    "a name registered by a function, with a value of another cell": Case(
        [
            "import mimetypes\ndef name_it():\n    mimetypes.add_type(kind, '.zzz')",
            "kind = 'a/one'",
            "name_it()",
            "print(mimetypes.guess_type('x.zzz'))",
        ],
        [1, 2, 3],
        {1: "kind = 'a/two'"},
    ),
    "what a local module registers": Case(
        ["import helper", "helper.begin('!')", "x = 1", "print('\u00e9'.encode('ascii', 'mine'))"],
        [1, 3],
        {3: "print('\u00e9\u00e9'.encode('ascii', 'mine'))"},
        start={
            "helper.py": "import codecs\ndef begin(mark):\n    register(mark)\n"
            "def register(mark):\n"
            "    codecs.register_error('mine', lambda error: (mark, error.end))\n"
        },
    ),
    "a list of a library's own": Case(
        ["import keyword", "keyword.kwlist.append('one')", "print(keyword.kwlist[-1])"],
        [1, 2],
        {1: "keyword.kwlist.append('two')"},
    ),
    "what is read of a library that was set up": Case(
        ["import mimetypes", "mimetypes.add_type('a/b', '.z')", "mimetypes.guess_type('x.z')"],
        [1, 2],
        {2: "mimetypes.guess_type('y.z')"},
    ),
    "a warning that a library gives once, by another cell now": Case(
        ["import numpy as np", "np.mean([])", "x = 1", "y = np.mean([])"],
        [1, 3],
        {1: "np.mean([1])"},
    ),
    "a warning that a library has given": Case(
        ["import numpy as np", "np.mean([])", "x = 1", "y = np.mean([])"],
        [3],
        {3: "y = np.mean([]) * 2"},
    ),
    "a warning that is forgotten as the filters change": Case(
        [
            "import numpy as np, warnings",
            "np.mean([])",
            "with warnings.catch_warnings():\n    pass",
            "y = np.mean([])",
        ],
        [2, 3],
        {2: "pass"},
    ),
    "a method given to a library's class": Case(
        [
            "import fractions",
            "fractions.Fraction.twice = lambda self: self * 2",
            "x = fractions.Fraction(1, 3)",
            "print(x.twice())",
        ],
        [1, 2, 3],
        {2: "x = fractions.Fraction(1, 4)"},
    ),
    "a builtin of one's own": Case(
        ["import builtins", "builtins.shout = lambda: 'HO'", "x = 1", "print(shout(), x)"],
        [1, 2, 3],
        {2: "x = 2"},
    ),
    "how numpy prints": Case(
        [
            "import numpy as np",
            "np.set_printoptions(precision=2)",
            "x = 1",
            "print(np.array([x / 3]))",
        ],
        [2, 3],
        {2: "x = 2"},
    ),
    "how numpy prints, changed": Case(
        ["import numpy as np", "np.set_printoptions(precision=2)", "print(np.array([1 / 3]))"],
        [1, 2],
        {1: "np.set_printoptions(precision=3)"},
    ),
    "numpy imported and seeded at once": Case(
        ["import numpy as np; np.random.seed(3)", "y = 1", "print(np.random.randint(1000) + y)"],
        [1, 2],
        {1: "y = 2"},
    ),
    "numpy imported where it was not": Case(
        ["x = 1", "print(x)", "y = 2"], [0], {0: "import numpy as np\nx = 1"}
    ),
    "an option of pandas": Case(
        [
            "import pandas as pd; pd.set_option('display.max_rows', 4)",
            "n = 30",
            "pd.DataFrame({'a': range(n)})",
        ],
        [1, 2],
        {1: "n = 40"},
    ),
    "frames made of a frame have lives of their own": Case(
        [
            FRAME,
            "small = df[df.a > 2]\nby = df.groupby('s').a.sum()\nboth = df.merge(by, on='s')",
            "col = df['s']\nkind = df.c\nlate = df.sort_values('a').reset_index(drop=True)",
            "df['z'] = 1",
            "print(len(small), by.to_dict(), both.shape)",
            "print(col.tolist(), kind.cat.categories.tolist(), late.shape)",
            "print(df.shape, df.z.sum())",
        ],
        [3, 6],
        {3: "df['z'] = 2"},
    ),
    "a column in hand changes the frame": Case(
        [FRAME, "a = df['s'].array", "x = 1", "a[0] = 'q'", "print(df.s[0], x)"],
        [3, 4],
        {3: "a[0] = 'r'"},
    ),
    "a list in two frames": Case(
        [
            "import pandas as pd",
            "l = [1]\ndf = pd.DataFrame({'a': [l, 2]})\nother = df.copy()",
            "other.a[0].append(3)",
            "print(df.a[0], l)",
        ],
        [1, 2, 3],
        {2: "other.a[0].append(4)"},
    ),
    "functions, types and times of libraries tie nothing": Case(
        [
            "import numpy as np, pandas as pd",
            "f, t, at = [np.sum, np.add], [np.dtype('int64')], [pd.Timestamp('2020')]",
            "g, u, to = [np.sum, np.add], [t[0]], [at[0], pd.NaT]",
            "g.append(1); u.append(1); to.append(1)",
            "print(f, t, at)",
            "print(len(g), len(u), len(to))",
        ],
        [3, 5],
        {3: "g.append(1); u.append(1); to += [1, 2]"},
    ),
    "logging that was set up": Case(
        [
            LOGGING,
            "x = 1",
            "logging.info('x is %s', x)",
        ],
        [0, 1, 2],
        {1: "x = 2"},
    ),
    "an extension that was loaded": Case(
        ["%load_ext autoreload", "x = 1", "%autoreload 0\nprint(x)"], [1, 2], {1: "x = 2"}
    ),
    "a magic of one's own": Case(
        [
            MAGIC,
            "x = 1",
            "print(get_ipython().run_line_magic('twice', str(x)))",
        ],
        [0, 1, 2],
        {1: "x = 2"},
    ),
    "how numbers are shown": Case(["%precision 2", "x = 1 / 3", "x"], [0, 1, 2], {1: "x = 2 / 3"}),
    "a file that was asked for and missing": Case(
        ["import os\nfound = os.path.exists('late.txt')", "print(found)", "x = 1"],
        [0, 1],
        files={"late.txt": "here"},
    ),
    "a path that was asked for, its name computed": Case(
        ["from pathlib import Path\nfound = Path('la' + 'te').is_dir()", "print(found)", "x = 1"],
        [0, 1],
        files={"late/x": "here"},
    ),
    "a file that a program reads": Case(
        [
            "import subprocess",
            "t = subprocess.run(['cat', 'data.txt'], capture_output=True, text=True).stdout",
            "print(t)",
        ],
        [1, 2],
        start={"data.txt": "one"},
        files={"data.txt": "two"},
    ),
    "a file that a shell command reads": Case(
        ["t = !cat data.txt | sort", "print(t)"],
        [0, 1],
        start={"data.txt": "one"},
        files={"data.txt": "two"},
    ),
    "a file that a shell command writes": Case(
        ["!echo one > out.txt", "print(open('out.txt').read())", "x = 1"],
        [0, 1],
        {0: "!echo two > out.txt"},
    ),
    "a file whose name is in a variable, read by a program": Case(
        [
            "import subprocess\npath = '.'.join(['data', 'txt'])",
            "t = subprocess.getoutput(f'cat {path}')",
            "print(t)",
        ],
        [1, 2],
        start={"data.txt": "one"},
        files={"data.txt": "two"},
    ),
    "a figure that stays open": Case(
        [
            "import matplotlib; matplotlib.use('Agg')\nimport matplotlib.pyplot as plt",
            "_f = plt.figure()",
            "_l = plt.plot([1, 2])",
            "x = 1",
            "print(len(plt.gca().lines) + x)",
        ],
        [1, 2, 3, 4],
        {3: "x = 2"},
    ),
    "the recursion limit": Case(
        [
            "import sys",
            "sys.setrecursionlimit(5000)",
            "x = 1",
            "print(sys.getrecursionlimit() + x)",
        ],
        [2, 3],
        {2: "x = 2"},
    ),
    "a listing of files, and what an import leaves beside them": Case(
        [
            "import os\nprint(len([n for n in os.listdir() if n[-3:] == 'txt']))",
            "import lib",
            "x = 1",
        ],
        [2],
        {2: "x = 2"},
        start={"lib.py": "A = 1", "data.txt": "one"},
    ),
    "the last output": Case(["5", "print(_)", "x = 1"], [0, 1], {0: "6"}),
    "the last output, whose cell is gone": Case(["5", "6", "print(_)"], [0, 2], delete=1),
    "the last output, when cells change places": Case(
        ["5", "6", "print(_)", "x = 1"], [1, 0, 2], order=[1, 0, 2, 3]
    ),
    "the last output, when others below change places": Case(
        ["5", "print(_)", "x = 1", "y = 2"], [], order=[0, 1, 3, 2]
    ),
}


@pytest.mark.kernel
@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("name", CASES)
def test_exactly_the_right_cells_run(name: str):
    check(CASES[name])
