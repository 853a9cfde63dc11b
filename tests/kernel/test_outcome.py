"""What a replay leaves is what a full run leaves, in the corners where that is hard."""

from __future__ import annotations

import pytest

from tests.kernel.replaying import Case, check

MANAGER = """from contextlib import contextmanager
@contextmanager
def around():
    print('in', k)
    yield
    print('out')"""
CACHED = "from functools import lru_cache\n@lru_cache\ndef f(x): return x + k"
DISPATCH = "from functools import singledispatch\n@singledispatch\ndef f(x): return 'any'"
ACCESSOR = """@pd.api.extensions.register_series_accessor('own')
class Own:
    def __init__(self, series):
        self.series = series
    def total(self):
        return self.series.sum()"""
INNER = """def f():
    def g():
        global n
        return n
    n = 3
    return g()
print(f())
n = 7"""
SLOTTED = """import dataclasses
class A:
    __slots__ = ('x', '__own', '__dict__')
    def __init__(self): self.x, self.__own, self.free = 1, [2], 3
    def own(self): return self.__own
@dataclasses.dataclass(slots=True, frozen=True)
class B:
    y: list
class C(A):
    __slots__ = {'z': 'what it is for'}
a, b, c = A(), B([]), C()"""
TOLD = """print(a.x, a.own(), a.free, b, c.z, c.own(), sorted(vars(C)), A.__slots__, vars(A)['x'])
for each in (b, c):
    try:
        each.y = 1
    except Exception as error:
        print(type(error), error)"""
SLOTS = "class S:\n    __slots__ = ('x',)"
TRY_SLOT = "s = S()\ntry:\n    s.z = 1\nexcept AttributeError:\n    print('no', k)"
NODE = """class Node:
    def __init__(self, below):
        self.below = set(below)
layer = []
for _ in range(12):
    layer = [Node(layer) for _ in range(3)]"""
QUIET = """class Quiet:
    def __reduce_ex__(self, protocol):
        print('looked at')
        raise ValueError('not to be stored')
q = Quiet()"""
LINKED = """class Link:
    def __init__(self, after):
        self.after = after
first = None
for _ in range(3000):
    first = Link(first)"""
COUNTING = "class A:\n    def __del__(self): print('gone')\na = A()"
LATE = "def g(): return f()"
SUBCLASS = "class B(A):\n    def hook(cls):\n        log.append(k)"
HOOKED = "class A:\n    def __init_subclass__(cls):\n        cls.hook(cls)"
LOGGING = """import logging, io
buffer = io.StringIO()
logger = logging.getLogger('mine')
logger.propagate = False
logger.handlers[:] = [logging.StreamHandler(buffer)]"""
COUNTING_META = """class Meta(type):
    made = []
    def __new__(meta, name, bases, contents):
        meta.made.append(name)
        return super().__new__(meta, name, bases, contents)
    def __init__(cls, *args):
        super().__init__(*args)
        cls.order = len(Meta.made)"""
COUNTING_BASE = """class A:
    below = []
    def __init_subclass__(cls):
        super().__init_subclass__()
        A.below.append(cls.__name__)"""
TESTING = """import io
runner = unittest.TextTestRunner(stream=io.StringIO())
unittest.main(argv=['tests'], exit=False, testRunner=runner);"""
TEE = """import sys
class Tee:
    def __init__(self, real): self.real = real
    def write(self, text): self.real.write(text.upper())
    def flush(self): self.real.flush()
sys.stdout = Tee(sys.stdout)"""
# It can be pickled, but what comes of it cannot be loaded.
RAISED = """class Odd(Exception):
    def __init__(self, a):
        super().__init__(a, 8)"""

LOGS_BY_ITSELF = """import logging, sys
pre = 'a'
def begin():
    class Own(logging.Formatter):
        def format(self, record): return pre + record.getMessage()
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(Own())
    logging.getLogger('own').addHandler(handler)
begin()"""
HOOK = """log = []
def hook(result): log.append(1)
get_ipython().events.register('post_run_cell', hook)"""
DECIMALS = "import decimal\ndecimal.getcontext().prec = "
CASES = {
    "an option that is a function of the notebook": Case(
        [
            "import numpy as np\nk = 1\ndef fmt(v): return f'{v:.{k}f}'",
            "np.set_printoptions(formatter={'float': fmt})",
            "k = 2",
            "print(np.array([1 / 3]))",
        ],
        None,
        {2: "k = 5"},
    ),
    "an option that uses another library": Case(
        [
            "import numpy as np, decimal\nd = decimal.Decimal",
            "np.set_printoptions(formatter={'float': lambda v: str(d(v) + 0)})",
            "decimal.getcontext().prec = 4",
            "print(np.array([1 / 3]))",
        ],
        None,
        {2: "decimal.getcontext().prec = 6"},
    ),
    "a library whose name is dropped again": Case(
        [DECIMALS + "5", "import decimal as d\nprint(d.Decimal(1) / 3)\ndel d"],
        None,
        {0: DECIMALS + "7"},
    ),
    "an option that resets others": Case(
        [
            "import numpy as np\nnp.set_printoptions(precision=2)",
            "np.set_printoptions(precision=3)",
            "print(np.array([1 / 3]))",
        ],
        None,
        {0: "import numpy as np\nnp.set_printoptions(formatter={'float': '{:.1f}'.format})"},
    ),
    "an option that is left as it was": Case(
        [
            "import numpy as np\nnp.set_printoptions(precision=2)",
            "np.set_printoptions(precision=None, suppress=True)",
            "print(np.array([1 / 3]))",
        ],
        None,
        {0: "import numpy as np\nnp.set_printoptions(precision=4)"},
    ),
    "a ufunc of one's own": Case(
        ["import numpy as np\nu = np.frompyfunc(lambda v: v * 2, 1, 1)", "print(u(3))"],
        None,
        {0: "import numpy as np\nu = np.frompyfunc(lambda v: v * 3, 1, 1)"},
    ),
    "a library among the builtins": Case(
        [
            "import builtins, decimal\nbuiltins.numbers_of = [decimal.Decimal(1)]",
            "decimal.getcontext().prec = 4",
            "print(numbers_of[0] / 3)",
        ],
        None,
        {1: "decimal.getcontext().prec = 6"},
    ),
    "how a command ended": Case(["!true", "!true", "print(_exit_code)"], None, {0: "!exit 3"}),
    "back to the directory before": Case(
        [
            "import os\nos.makedirs('a', exist_ok=True)\nos.makedirs('b', exist_ok=True)",
            "%cd -q a",
            "%cd -q ../b",
            "%cd -q -",
            "import os.path\nprint(os.path.basename(os.getcwd()))",
        ],
        None,
        {3: "%cd -q -\n1"},
    ),
    "decimal's context in a variable, and its traps": Case(
        [
            "import decimal\nctx = decimal.getcontext()",
            "ctx.prec = 5\nctx.traps[decimal.DivisionByZero] = False",
            "print(decimal.Decimal(1) / 3)",
            "print(decimal.Decimal(1) / 0)",
        ],
        None,
        {1: "ctx.prec = 7\nctx.traps[decimal.DivisionByZero] = False", 3: "decimal.Decimal(2) / 0"},
    ),
    "decimal in a cell that waits": Case(
        [
            "import decimal, asyncio",
            "await asyncio.sleep(0)\ndecimal.getcontext().prec = 4",
            "print(decimal.Decimal(1) / 3)",
        ],
        None,
        {2: "print(decimal.Decimal(2) / 3)"},
    ),
    "Python's own list in a variable": Case(
        ["import sys\np = sys.path", "p.append('xx')", "print(sys.path[-1])"],
        None,
        {1: "p.append('yy')"},
    ),
    "an annotation that runs": Case(
        [DECIMALS + "4", "def f(a: print(decimal.Decimal(1) / 3)): pass"],
        None,
        {0: DECIMALS + "6"},
    ),
    "how sequences are shown": Case(
        ["%config PlainTextFormatter.max_seq_length = 3", "list(range(9))"],
        None,
        {0: "%config PlainTextFormatter.max_seq_length = 5"},
    ),
    "an object that a library keeps": Case(
        ["import reprlib\nreprlib.aRepr.maxlist = 2", "print(reprlib.repr(list(range(9))))"],
        None,
        {0: "import reprlib\nreprlib.aRepr.maxlist = 4"},
    ),
    "what numpy calls": Case(
        [
            "import numpy as np\ndef f(kind, flag): print('err', kind)\nnp.seterrcall(f);",
            "np.seterr(all='call');",
            "x = np.float64(1) / 0",
        ],
        None,
        {0: "import numpy as np\ndef f(kind, flag): print('ERR', kind)\nnp.seterrcall(f);"},
    ),
    "a formatter that only a handler has": Case(
        [
            LOGS_BY_ITSELF,
            "pre = 'b'",
            "import logging\nlogging.getLogger('own').warning('x')",
        ],
        None,
        {1: "pre = 'c'"},
    ),
    "a hook that counts cells": Case(
        [
            HOOK,
            "1",
            "x = 2",
            "print(len(log))",
        ],
        None,
        delete=1,
    ),
    "what an object says when it is let go": Case(
        [COUNTING.replace("'gone'", "k"), "k = 1", "a = A()", "del a"],
        None,
        {1: "k = 2", 2: "a = [A()]"},
    ),
    "an exception that goes further": Case(
        [
            "def f(): raise ValueError(1)",
            "try:\n    f()\nexcept ValueError as e:\n    k = e",
            "import traceback\nprint(''.join(traceback.format_exception(k)))",
            "try:\n    raise k\nexcept ValueError:\n    pass",
            "print(len(traceback.extract_tb(k.__traceback__)))",
        ],
        None,
        {2: "import traceback\nprint(''.join(traceback.format_exception(k)), 2)"},
    ),
    "what is written through a link": Case(
        [
            "import os\nopen('o.txt', 'w').write('x')",
            "os.symlink('o.txt', 'l.txt')",
            "print(open('l.txt').read(), os.path.islink('l.txt'))",
            "open('l.txt', 'w').write('through')",
            "print(open('o.txt').read())",
        ],
        None,
        {0: "import os\nopen('o.txt', 'w').write('y')", 3: "open('l.txt', 'w').write('more')"},
    ),
    "a dialect, and what a signal does": Case(
        [
            "import csv, signal\ncsv.register_dialect('own', delimiter=';')",
            "before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)",
            "csv.get_dialect('own').delimiter, signal.getsignal(signal.SIGUSR1)",
        ],
        None,
        {0: "import csv, signal\ncsv.register_dialect('own', delimiter=':')", 1: "before = 1"},
    ),
    "the last lines of the history": Case(
        ["x = 1", "y = 2", "%history -l 2", "print(x)"], None, {0: "x = 3"}
    ),
    "adding to a file that only a cell below made": Case(
        ["x = 1", "%%writefile -a b.txt\nlow", "print(open('b.txt').read())"],
        None,
        {0: "%%writefile -a b.txt\nhigh"},
    ),
    "adding to a file between two that do, elsewhere": Case(
        [
            "import os\nos.makedirs('in')\nos.chdir('in')",
            "%%writefile -a b.txt\nfirst",
            "y = 1",
            "%%writefile -a b.txt\nlast",
            "print(open('b.txt').read())",
        ],
        None,
        {2: "%%writefile -a b.txt\nbetween"},
    ),
    "adding to a file that only a cell below made, elsewhere": Case(
        [
            "import os\nos.makedirs('in')\nos.chdir('in')",
            "y = 1",
            "%%writefile -a b.txt\nlow",
            "print(open('b.txt').read())",
        ],
        None,
        {1: "%%writefile -a b.txt\nhigh"},
    ),
    "a file that only a cell below makes": Case(
        ["x = 1", "with open('f.txt', 'w') as file:\n    file.write('1')", "print(2)"],
        [0],
        {0: "import os\nprint(os.path.exists('f' + '.txt'), os.listdir('.').count('f.txt'))"},
    ),
    "a comprehension over what has the name of its variable": Case(
        ["x = [1, 2]", "x = [x for x in x]\nprint(x)"], [0, 1], {0: "x = [3]"}
    ),
    "what functions in a class see of its own names": Case(
        ["n = 2", "class A:\n    n = 1\n    def get(self): return n\nprint(A().get())\nn = 5"],
        [0, 1],
        {0: "n = 3"},
    ),
    "what a class reads after it has let go of its own": Case(
        ["n = 2", "class A:\n    n = 1\n    for i in [0]: pass\n    del n\n    m = n\nprint(A.m)"],
        [0, 1],
        {0: "n = 3"},
    ),
    "what one case binds is not bound in the next": Case(
        ["n = 2", "match 7:\n    case 1: n = 5\n    case _: print(n)\nn = 6"], [0, 1], {0: "n = 3"}
    ),
    "a comparison that ends early": Case(
        ["n = 2", "0 > 1 > (n := 5)\nprint(n)"], [0, 1], {0: "n = 3"}
    ),
    "a name that an inner function takes from the notebook": Case(
        [
            "n = 2",
            INNER,
        ],
        [0, 1],
        {0: "n = 3"},
    ),
    "variables that texts name to pandas": Case(
        [
            "import pandas as pd\ndf = pd.DataFrame({'a': [1, 2, 3, 4]})",
            "low = 2",
            "text = 'a > @low'",
            "print(len(df.query(text)))",
            "def most(): return df.query('a > @low')",
            "print(len(most()))",
            "print(len(df.query('a > 1')))",
        ],
        [1, 3, 5],
        {1: "low = 3"},
    ),
    "state that is had as an attribute": Case(
        ["import sys\nsys.argv = ['a']", "args = sys.argv", "print(args)", "x = 1"],
        [0, 1, 2],
        {0: "import sys\nsys.argv = ['b']"},
    ),
    "a default that looks at the environment": Case(
        [
            "import os\nos.environ['X'] = '1'",
            "class Conf:\n    path = property(lambda self: os.environ['X'])\nconf = Conf()",
            "def load(path=conf.path): return path",
            "print(load())",
        ],
        None,
        {0: "import os\nos.environ['X'] = '2'"},
    ),
    "a warning that logging gives": Case(
        [
            "import warnings\nwarnings.simplefilter('ignore')",
            "import logging",
            "logging.warn('x')",
        ],
        None,
        {0: "import warnings\nwarnings.simplefilter('always')"},
    ),
    "two data classes": Case(
        [
            "from dataclasses import dataclass",
            "@dataclass\nclass A:\n    x: int",
            "@dataclass\nclass B:\n    x: int",
            "print(A(1), B(2))",
        ],
        [3],
        {3: "print(A(3), B(2))"},
    ),
    "a named tuple": Case(
        [
            "from collections import namedtuple\nP = namedtuple('P', 'a b')",
            "p = P(1, 2)",
            "print(p)",
        ],
        [2],
        {2: "print(p.b)"},
    ),
    "the body of a context manager": Case(
        ["k = 1", MANAGER, "with around(): pass"], [1, 2], {1: MANAGER.replace("'in'", "'IN'")}
    ),
    "a global that a context manager reads": Case(
        ["k = 1", MANAGER, "with around(): pass"], [0, 1, 2], {0: "k = 2"}
    ),
    "a global that a cached function reads": Case(
        ["k = 1", CACHED, "print(f(1))", "print(f.cache_info().currsize)"], None, {0: "k = 2"}
    ),
    "what is in a cache": Case(
        ["k = 1", CACHED, "f(1); f(2);", "print(f.cache_info())"],
        [2, 3],
        {3: "print(f.cache_info().currsize)"},
    ),
    "a function for each type": Case(
        [DISPATCH, "@f.register\ndef _(x: int): return 'int'", "print(f(1), f('a'))"],
        None,
        {1: "@f.register\ndef _(x: str): return 'str'"},
    ),
    "an instance of a class that was defined again": Case(
        ["class P: n = 1", "p = P()", "class P: n = 2", "print(p.n, P().n, isinstance(p, P))"],
        None,
        {3: "print(p.n, P().n, isinstance(p, P), 1)"},
    ),
    "the first of two classes of one name": Case(
        ["class P: n = 1", "p = P()", "class P: n = 2", "print(p.n, P().n)"],
        [0, 1, 2, 3],
        {0: "class P: n = 7"},
    ),
    "a function in a list, then another of its name": Case(
        ["def f(): return 1", "fs = [f]", "def f(): return 2", "print(fs[0](), f())"],
        [0, 1, 2, 3],
        {0: "def f(): return 10"},
    ),
    "a function whose default changes, held elsewhere": Case(
        [
            "def f(x, seen=[]):\n    seen.append(x)\n    return len(seen)",
            "g = [f]",
            "r = f(1)",
            "print(g[0](0), f(0))",
        ],
        None,
        {1: "g = [f, 1]"},
    ),
    "a class made in a function": Case(
        [
            "def make(n):\n    class L: v = n\n    return L",
            "A = make(1)",
            "a = A()",
            "A.v = 5",
            "print(a.v, type(a) is A)",
        ],
        [3, 4],
        {3: "A.v = 6"},
    ),
    "slots": Case([SLOTS, "k = 1", TRY_SLOT], [1, 2], {1: "k = 2"}),
    "slots of many kinds": Case(
        [SLOTTED, "a.x += 1\nb.y.append(1)\nc.z = b", TOLD],
        [1, 2],
        {1: "a.x += 2\nb.y.append(2)\nc.z = a"},
    ),
    "what every series of pandas was given": Case(
        ["import pandas as pd", ACCESSOR, "s = pd.Series([1, 2])", "print(s.own.total())"],
        [1, 2, 3],
        {2: "s = pd.Series([1, 3])"},
    ),
    "what every series of pandas is given in another way": Case(
        ["import pandas as pd", ACCESSOR, "s = pd.Series([1, 2])", "print(s.own.total())"],
        None,
        {1: ACCESSOR.replace("sum()", "max()")},
    ),
    "slots of an iterator": Case(
        ["class S:\n    __slots__ = iter('xy')", "k = 1", TRY_SLOT], None, {1: "k = 2"}
    ),
    "keys that look at a dict": Case(
        ["d = {'a': 1}", "k = d.keys()", "d['b'] = 2", "print(list(k))"], None, {2: "d['c'] = 2"}
    ),
    "a generator over a list": Case(
        ["l = [1]", "g = (x for x in l)", "l.append(2)", "print(list(g))"], None, {2: "l.append(3)"}
    ),
    "a generator that reads a global": Case(
        ["k = 1", "g = (x * k for x in range(3))", "print(list(g))"], None, {0: "k = 5"}
    ),
    "a weak reference": Case(
        [
            "class O: n = 0",
            "o = O()",
            "import weakref\nw = weakref.ref(o)",
            "o.n = 1",
            "print(w().n)",
        ],
        None,
        {3: "o.n = 2"},
    ),
    "memory that is looked at": Case(
        ["b = bytearray(b'abc')", "m = memoryview(b)", "m[0] = 120", "print(b)"],
        None,
        {2: "m[0] = 121"},
    ),
    "a long chain of objects": Case(
        [LINKED, "k = 1", "print(first.after is not None, k)"], None, {1: "k = 2"}
    ),
    "objects with sets of each other": Case(
        [NODE, "k = 1", "print(len(layer), k)"], [1, 2], {1: "k = 2"}
    ),
    "tuples that are shared": Case(
        ["t = ()\nfor _ in range(40):\n    t = (t, t)", "k = 1", "print(len(t), k)"],
        [1, 2],
        {1: "k = 2"},
    ),
    "looking is not seen": Case([QUIET, "k = 1", "print(k, type(q).__name__)"], None, {1: "k = 2"}),
    "what is let go is gone at once": Case(
        [COUNTING, "k = 1", "del a\nprint('after', k)"], None, {1: "k = 2"}
    ),
    "a file that is written twice": Case(
        [
            "_ = open('o.txt', 'w').write('one')",
            "t = open('o.txt').read()\nprint(t)",
            "_ = open('o.txt', 'w').write('two')",
            "print(open('o.txt').read())",
        ],
        [1],
        {1: "t = open('o.txt').read() * 2\nprint(t)"},
    ),
    "a file that is added to": Case(
        [
            "_ = open('o.txt', 'w').write('a')",
            "_ = open('o.txt', 'a').write('b')",
            "print(open('o.txt').read())",
        ],
        [1, 2],
        {1: "_ = open('o.txt', 'a').write('c')"},
    ),
    "a file that is removed later": Case(
        [
            "_ = open('o.txt', 'w').write('a')",
            "print(open('o.txt').read())",
            "import os\nos.remove('o.txt')",
        ],
        [1],
        {1: "print(open('o.txt').read() * 2)"},
    ),
    "a file whose name is computed": Case(
        [
            "name = 'o' + str(1)\n_ = open(name, 'w').write('one')",
            "print(open(name).read())",
            "_ = open(name, 'w').write('two')",
        ],
        [1],
        {1: "print(open(name).read() * 2)"},
    ),
    "a file that stays open": Case(
        ["h = open('o.txt', 'w')", "_ = h.write('a')", "h.close()", "print(open('o.txt').read())"],
        None,
        {1: "_ = h.write('b')"},
    ),
    "a directory that a later cell adds to": Case(
        [
            "import os\nos.makedirs('d')\nprint(os.listdir('d'))",
            "k = 1",
            "_ = open('d/x', 'w').write(str(k))",
        ],
        [1, 2],
        {1: "k = 2"},
    ),
    "files that are read by threads": Case(
        [
            "from concurrent.futures import ThreadPoolExecutor",
            "def size(n):\n    return len(open(f'f{n}').read())",
            "with ThreadPoolExecutor(8) as pool:\n    print(list(pool.map(size, range(20))))",
        ],
        [2],
        start={f"f{n}": "x" * n for n in range(20)},
        files={"f13": "y"},
    ),
    "a function that runs only because another calls it": Case(
        ["k = 1", LATE, "def f(): return k\nprint(g())"], [0, 2], {0: "k = 2"}
    ),
    "a method that the base class calls": Case(
        ["log = []", "k = 1", HOOKED, SUBCLASS, "print(log)"], [1, 3, 4], {1: "k = 2"}
    ),
    "a block that may end early": Case(
        [
            "from contextlib import suppress\nk = 0",
            "y = 1",
            "with suppress(ZeroDivisionError):\n    1 / k\n    y = 2",
            "print(y)",
        ],
        [1, 2, 3],
        {1: "y = 5"},
    ),
    "an assignment that may not happen": Case(
        ["k = 0", "y = 1", "k and (y := 2);", "print(y)"], None, {1: "y = 7"}
    ),
    "all names of a module, one of them equal": Case(
        ["value = 7", "from helper import *", "print(value)"],
        [0],
        {0: "value = 8"},
        start={"helper.py": "value = 7\n"},
    ),
    "a name in a query": Case(
        [
            "import pandas as pd\ndf = pd.DataFrame({'a': [1, 2, 3]})",
            "k = 1",
            "print(df.query('a > @k'))",
        ],
        [1, 2],
        {1: "k = 2"},
    ),
    "a column taken from a frame": Case(
        [
            "import pandas as pd\ndf = pd.DataFrame({'a': [1, 2], 'b': [3, 4]})",
            "s = df['a']",
            "print(s.sum())",
        ],
        [2],
        {2: "print(s.max())"},
    ),
    "a class that is found by pickle": Case(
        [
            "import pickle\nclass P: n = 1",
            "data = pickle.dumps(P())",
            "print(pickle.loads(data).n)",
        ],
        [2],
        {2: "print(pickle.loads(data).n + 1)"},
    ),
    "a builtin of the same name from elsewhere": Case(
        ["from math import sqrt", "print(sqrt(4))"], [0, 1], {0: "from cmath import sqrt"}
    ),
    "a semicolon": Case(["x = 5", "x"], [1], {1: "x;"}),
    "the output before last": Case(["5", "6", "print(_)"], [0, 1, 2], {1: "7"}),
    "an underscore of one's own": Case(
        ["x = 1", "y = 2", "for _ in range(2): print(y)"], [0], {0: "x = 3"}
    ),
    "a name that is set before it is read": Case(
        ["i = 1", "i = 2\nprint(i)", "x = 5"], [0], {0: "i = 9"}
    ),
    "a variable called open": Case(
        ["open, close = 1.0, 1.5", "print(open, close)"], [1], {1: "print(open + close)"}
    ),
    "the mask of an array": Case(
        ["import numpy as np\nm = np.ma.array([1, 2, 3])", "m[0] = np.ma.masked", "print(m)"],
        [1, 2],
        {1: "m[1] = np.ma.masked"},
    ),
    "an array that owns its memory": Case(
        ["import numpy as np\na = np.arange(4)", "print(a.base is None)"], [1], {1: "print(a.base)"}
    ),
    "the source of a function": Case(
        ["def f():\n    return 1", "import inspect\nprint(inspect.getsource(f))"],
        [1],
        {1: "import inspect\nprint(inspect.getsource(f), 1)"},
    ),
    "how decimals are rounded": Case(
        ["import decimal\ndecimal.getcontext().prec = 4", "x = 3", "print(decimal.Decimal(2) / x)"],
        [1, 2],
        {1: "x = 7"},
    ),
    "a kept exception": Case(
        ["try:\n    1 / 0\nexcept Exception as e:\n    kept = e", "k = 1", "print(repr(kept), k)"],
        None,
        {1: "k = 2"},
    ),
    "names from the future": Case(
        ["from __future__ import annotations", "def f(x: Unknown): return x", "print(f(1))"],
        None,
        {1: "def f(x: Unknown): return x + 1"},
    ),
    "a list of many dicts": Case(
        [
            "l = [{'n': i} for i in range(3000)]",
            "k = 1",
            "print(len(l) + k)",
            "l[7]['n'] = 1",
            "print(l[7])",
        ],
        [1, 2],
        {1: "k = 2"},
    ),
    "one of many dicts": Case(
        ["l = [{'n': i} for i in range(3000)]", "l[7]['n'] = 1", "print(l[7])"],
        [1, 2],
        {1: "l[7]['n'] = 2"},
    ),
    "a module of the standard library's name": Case(
        ["x = 1", "print(x)"], [0, 1], {0: "x = 2"}, start={"random.py": "raise SystemExit"}
    ),
    "a key that is no name": Case(
        ["globals()[5] = 1\nx = 1", "print(x)"], None, {1: "print(x, 1)"}
    ),
    "a function that is held, and whose name goes to something else": Case(
        ["def f(): return 1", "l = [f]", "k = 1", "print(l[0]())"], [2, 3], {2: "f = 7"}
    ),
    "a function that is held, and whose name is deleted": Case(
        ["def f(): return 1", "d = {'f': f}", "k = 1", "print(d['f'](), k)"],
        [2, 3],
        {2: "k = 2\ndel f"},
    ),
    "a function that comes to be held, and whose name goes to another": Case(
        ["def f(): return 1", "l = []", "def f(): return 2", "print([each() for each in l])"],
        [1, 2, 3],
        {1: "l = [f]"},
    ),
    "an object whose class comes to be defined anew": Case(
        ["class A: x = 1", "l = []", "class A: x = 2", "print([each.x for each in l])"],
        [1, 2, 3],
        {1: "l = [A()]"},
    ),
    "a deleted name that comes to share what cannot be stored": Case(
        [
            "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    e = error",
            "print(e)",
            "f = lambda x: x",
            "del f",
            "d = {'e': e}",
            "print('f' in globals())",
        ],
        None,
        {1: "f = lambda x=e: x\nprint(e)"},
    ),
    "a metaclass that counts its classes": Case(
        [
            COUNTING_META,
            "class E(metaclass=Meta):\n    v = 1",
            "e = E()",
            "print(Meta.made, E.order, e.v)",
        ],
        [3],
        {3: "print(Meta.made, E.order, e.v, type(E).__name__, type(e) is E)"},
    ),
    "a class that counts those below it": Case(
        [COUNTING_BASE, "class B(A):\n    v = 1", "b = B()", "print(A.below, b.v)"],
        [3],
        {3: "class C(A): pass\nprint(A.below, b.v, type(b) is B)"},
    ),
    "an iterator over a dict": Case(
        ["d = {'a': 1, 'b': 2}", "i = iter(d)", "next(i)", "print(type(i), list(i))"],
        [1, 2, 3],
        {3: "print(type(i), list(i), 1)"},
    ),
    "a reversed iterator at its end": Case(
        ["i = reversed([1])", "next(i)", "next(i, 0)", "print(type(i))"],
        [0, 1, 2, 3],
        {3: "print(type(i), 1)"},
    ),
    "files below the notebook": Case(
        ["from pathlib import Path\nprint(sorted(map(str, Path('.').rglob('*.txt'))))", "x = 1"],
        [1],
        {1: "x = 2"},
        start={"a/b.txt": "1"},
    ),
    "commands that add to a file": Case(
        ["!echo 1 >> f.txt", "!echo 2 >> f.txt", "!echo 3 >> f.txt", "print(open('f.txt').read())"],
        [1, 2, 3],
        {1: "!echo 7 >> f.txt"},
    ),
    "a listing before a command makes a file": Case(
        ["import os\nprint([n for n in os.listdir('.') if n[-4:] == '.txt'])", "!echo 1 >> f.txt"],
        [1],
        {1: "!echo 2 >> f.txt"},
    ),
    "a class that is changed after something came to hold it that cannot be stored": Case(
        [
            "class A: pass",
            "import weakref\nw = weakref.ref(A)",
            "A.x = 1",
            "A.y = 2",
            "k = 1",
            "print(w() is A, vars(w())['x'])",
        ],
        [1, 2, 3, 5],
        {5: "print(w() is A, vars(w())['y'])"},
    ),
    "what shared objects with a name that is something else now": Case(
        [RAISED, "l = [1]", "e, m = Odd(l), [l]", "l = 5", "print(eval('m'[:]))"],
        [2, 3, 4],
        {3: "l = 6"},
    ),
    "a name that is written out in eval, and shared objects with another": Case(
        [RAISED, "l = [1]", "e, m = Odd(l), [l]", "l = 5", "print(eval('m'))"],
        [3],
        {3: "l = 6"},
    ),
    "an attribute that a class and its base have in common": Case(
        ["class A: n = 0", "class B(A): n = 0", "k = 1", "A.n = 5\nprint(B.n)"],
        [3],
        {3: "A.n = 6\nprint(B.n)"},
    ),
    "a class that is registered with another": Case(
        [
            "import abc\nclass A(abc.ABC): pass",
            "A.register(int);",
            "print(isinstance(1, A), isinstance('', A))",
        ],
        [1, 2],
        {1: "A.register(str);"},
    ),
    "the classes below a class": Case(
        ["class A: pass", "class B(A): pass", "print([c.__name__ for c in A.__subclasses__()])"],
        None,
        {1: "class C(A): pass"},
    ),
    "a module that was made by hand": Case(
        [
            "import types\nm = types.ModuleType('m')\nm.x = [1]",
            "q = m.x",
            "m.x.append(2)",
            "print(m.x, q is m.x)",
        ],
        [0, 1, 2, 3],
        {2: "m.x.append(3)"},
    ),
    "what is not a number, and is one of a kind": Case(
        [
            "import math\nimport numpy as np\nx, m = np.nan, math.nan",
            "l = [1, np.nan, float('nan')]\na = np.array(['a', np.nan], dtype=object)",
            "print(x is np.nan, m is math.nan, np.nan in l, l[2] is np.nan, a[1] is np.nan)",
        ],
        [2],
        {2: "print(x is np.nan, m is math.nan, np.nan in l, l[2] is np.nan, a[1] is np.nan, 1)"},
    ),
    "an array that is only to be read": Case(
        [
            "import numpy as np\na = np.arange(3)\na.flags.writeable = False",
            "k = 1",
            "try:\n    a[0] = k\nexcept ValueError as error:\n    print(error)",
        ],
        [1, 2],
        {1: "k = 2"},
    ),
    "what only a set held is gone at once": Case(
        [COUNTING, "s = {a}\ndel a", "k = 1", "del s\nprint('after', k)"], None, {2: "k = 2"}
    ),
    "the tests of a notebook": Case(
        [
            "def f(): return 1",
            "import unittest\nclass T(unittest.TestCase):\n    def test_f(self): print(f())",
            TESTING,
        ],
        None,
        {0: "def f(): return 2"},
    ),
    "code that is given as a text": Case(
        [
            "def f(): print(1)",
            "import timeit\ntimeit.timeit('f()', setup='from __main__ import f', number=1);",
        ],
        [0, 1],
        {0: "def f(): print(2)"},
    ),
    "a listing of what the cell itself made": Case(
        [
            "import os\nos.makedirs('d/e')\n_ = open('d/x', 'w').write('1')\nos.listdir('d')",
            "k = 1",
        ],
        [1],
        {1: "k = 2"},
    ),
    "a listing of all there is": Case(
        [
            "import os\nprint([n for n in os.listdir('.') if n[-6:] != '.ipynb'])",
            "print([inner for _, inner, _ in os.walk('.')])",
        ],
        [0],
        {0: "import os\nprint([e.name for e in os.scandir() if e.name[-6:] != '.ipynb'])"},
    ),
    "a directory that a later cell makes": Case(
        ["import os\nprint(os.path.isdir('d'), 'd' in os.listdir('.'))", "os.mkdir('d')"],
        [0],
        {0: "import os\nprint(os.path.isdir('d'), 'd' in os.listdir('.'), 1)"},
    ),
    "a directory that is made again": Case(
        [
            "import os\nos.mkdir('d')\nx = 1",
            "_ = open('d/f', 'w').write('1')",
            "print(os.listdir('d'))",
        ],
        [0],
        {0: "import os\nos.mkdir('d')\nx = 2"},
    ),
    "a directory that is there already, and a file that comes": Case(
        ["import os\nos.makedirs('d', exist_ok=True)\nprint(os.path.exists('d/' + 'f'))", "x = 1"],
        [0],
        files={"d/f": "1"},
    ),
    "a file that is listed and then removed": Case(
        [
            "import os\n_ = open('a.txt', 'w').write('1')",
            "print([n for n in os.listdir('.') if n[-4:] == '.txt'])",
            "os.remove('a.txt')",
        ],
        [1],
        {1: "print([n for n in os.listdir('.') if n[-4:] == '.txt'], 1)"},
    ),
    "a directory that is removed with all that is in it": Case(
        [
            "import os, shutil\nos.makedirs('d/e')\n_ = open('d/e/f', 'w').write('1')",
            "print(open('d/e/f').read())",
            "shutil.rmtree('d')",
            "print(os.path.exists('d'))",
        ],
        [1],
        {1: "print(open('d/e/f').read() * 2)"},
    ),
    "a directory that is renamed": Case(
        [
            "import os\nos.mkdir('d')\n_ = open('d/f', 'w').write('1')",
            "os.rename('d', 'e')",
            "print(open('e/f').read(), os.path.isdir('d'))",
        ],
        [0, 1, 2],
        {0: "import os\nos.mkdir('d')\n_ = open('d/f', 'w').write('2')"},
    ),
    "a file added to by a cell that looked too early": Case(
        [
            "import os\nos.path.exists('b' + '.txt')\n_ = open('a' + '.txt', 'a').write('1')",
            "print(open('a.txt').read())",
            "_ = open('b.txt', 'w').write('1')",
        ],
        [0, 1],
        {0: "import os\nos.path.exists('b' + '.txt')\n_ = open('a' + '.txt', 'a').write('2')"},
    ),
    "a link": Case(
        [
            "import os\n_ = open('a', 'w').write('1')",
            "os.symlink('a', 'l')",
            "print(open('l').read(), os.path.islink('l'))",
        ],
        [0, 1, 2],
        {0: "import os\n_ = open('a', 'w').write('2')"},
    ),
    "a file that is closed when the kernel ends": Case(
        ["h = open('o.txt', 'w')\n_ = h.write('a')", "k = 1", "print(open('o.txt').read())"],
        [1],
        {1: "k = 2"},
    ),
    "a file under a computed name that a command makes": Case(
        [
            "import os, subprocess\nn = 1",
            "_ = subprocess.run(['sh', '-c', f'echo {n} > f{n}.txt'])",
            "print(sorted(name for name in os.listdir('.') if name[0] == 'f'))",
        ],
        [0, 1, 2],
        {0: "import os, subprocess\nn = 2"},
    ),
    "a traceback that says where the cell stands": Case(
        ["x = 1", "y = 2", "1 / 0"], [2], tags={2: "raises-exception"}, order=[1, 2]
    ),
    "a comment in code that a traceback shows": Case(
        ["def f():\n    return 1 / 0", "x = 1", "f()"],
        [0, 2],
        {0: "# said first\ndef f():\n    return 1 / 0", 1: "x = 1  # shown nowhere"},
        tags={2: "raises-exception"},
    ),
    "code that a traceback shows and that stands elsewhere": Case(
        ["x = 1", "def f():\n    return 1 / 0", "f()"],
        [1, 2],
        tags={2: "raises-exception"},
        order=[1, 0, 2],
    ),
    "the history of the kernel through a function": Case(
        ["def count(): return len(In), _", "7", "k = 1", "print(count(), k)", "k"],
        [0, 1, 2, 3, 4],
        {2: "k = 2"},
    ),
    "a function that comes to look at history": Case(
        ["7", "def made():\n    return lambda: 0", "f = made()", "print(f())"],
        [0, 1, 2, 3],
        {1: "def made():\n    return lambda: Out[1]"},
    ),
    "the history of the kernel in other ways": Case(
        [
            "k = 1",
            "def f(): return len(get_ipython().history_manager.input_hist_parsed)",
            "print(f(), eval('len(In)'), globals()['_ih'][1])",
            "%history",
        ],
        [0, 1, 2, 3],
        {0: "k = 1  # said"},
    ),
    "a name that a function has for itself, not for the history": Case(
        ["def f():\n    for _ in range(2): pass", "k = 1", "f()\nprint(k)"], [1, 2], {1: "k = 2"}
    ),
    "the order of what a class has": Case(
        [
            "class Config:\n    lr = 0.1\n    epochs = 3\n    batch = 8",
            "n = 1",
            "print([each for each in vars(Config) if each.isalpha()], n)",
        ],
        [1, 2],
        {1: "n = 2"},
    ),
    "a new file that a wildcard in a command stands for": Case(
        [
            "import subprocess\nword = 'data' + '/*.txt'",
            "!cat data/*.txt",
            "print(subprocess.run(f'cat {word}', shell=True, capture_output=True).stdout)",
            "%%bash\ncat d*/[ab].txt",
            "!ls data",
            "!cat more/*.txt",
        ],
        [1, 2, 3, 4],
        start={"data/a.txt": "1\n", "more/c.txt": "3\n"},
        files={"data/b.txt": "2\n"},
    ),
    "an error in a function that is watched": Case(
        ["import os", "os.listdir('nowhere')", "os.path.getsize('no' + 'where')"],
        [0],
        {0: "import os, sys"},
        tags={1: "raises-exception", 2: "raises-exception"},
    ),
    "a restored function in a traceback": Case(
        ["x = 1", "def f():\n    return 1 / k", "k = 1", "f()"],
        [2, 3],
        {2: "k = 0"},
        tags={3: "raises-exception"},
        order=[1, 2, 3],
    ),
    "a variable that a failed cell has set to what it was": Case(
        ["import os", "import os\n1 / 0", "print('os' in dir())"],
        [0, 1],
        {0: "pass"},
        tags={1: "raises-exception"},
    ),
    "a cell that comes to stand above the one whose file it reads": Case(
        ["open('f.txt', 'w').write('1')", "print(open('f.txt').read())"],
        [1],
        tags={1: "raises-exception"},
        order=[1, 0],
    ),
    "a file that is removed above the cell that makes it": Case(
        [
            "import os\nos.makedirs('d', exist_ok=True)",
            "open('d/f.txt', 'w').write('1')",
            "os.remove('d/f.txt')\nprint(os.listdir('d'))",
        ],
        [2, 1],
        tags={2: "raises-exception"},
        order=[0, 2, 1],
    ),
    "a stream that stands for the kernel's": Case(
        [TEE, "k = 1", "print('a', k)", "sys.stdout = sys.stdout.real", "print('b', k)"],
        [0, 1, 2, 4],
        {1: "k = 2"},
    ),
    "another stream that stands for the kernel's": Case(
        [TEE, "k = 1", "print('a', k)", "sys.stdout = sys.stdout.real", "print('b', k)"],
        [0, 1, 2, 3, 4],
        {0: TEE.replace("upper", "title"), 1: "k = 2"},
    ),
    "what a class has, when objects of it were looked at": Case(
        [
            "class A:\n    def __init__(self): self.n = 1",
            "class S(A):\n    __slots__ = ('__x', 'y')\na, s = A(), S()\ns.y = [2]",
            "s.y.append(a)",
            "print([name for name in (*vars(A), *vars(S)) if 'slot' in name], s.y[1].n)",
        ],
        None,
        {2: "s.y.append(3)\ns.y.insert(1, a)"},
    ),
    "what encodes for the kernel is replaced": Case(
        [
            "import json\nreal, m = json.dumps, [7]",
            "json.dumps = lambda *a, **b: real(*a, **b) if b else 'mine'",
            "k = 1",
            "print(json.dumps(k), k, m)",
        ],
        [1, 2, 3],
        {2: "k = 2"},
    ),
    "a variable that is logged into": Case(
        [
            LOGGING,
            "k = 1",
            "logging.getLogger('mine').error('one %s', k)",
            "print(buffer.getvalue())",
        ],
        [0, 1, 2, 3],
        {1: "k = 2"},
    ),
    "what was logged into a variable": Case(
        [
            LOGGING,
            "k = 1",
            "logging.getLogger('mine').error('one %s', k)",
            "print(buffer.getvalue())",
        ],
        [0, 2, 3],
        {3: "logging.getLogger('mine').error('two')\nprint(buffer.getvalue())"},
    ),
    "classes below another": Case(
        ["class A: pass", "class B(A): pass", "print(A.__subclasses__())"],
        [2],
        {2: "print([each.__name__ for each in A.__subclasses__()])"},
    ),
    "a class that is restored with those that are registered": Case(
        [
            "from abc import ABC\nclass S(ABC): pass",
            "class P: pass",
            "S.register(P)",
            "print(issubclass(P, S))",
        ],
        [3],
        {3: "print(issubclass(P, S), isinstance(P(), S))"},
    ),
    "a variable by way of the main module": Case(
        ["n = 1", "import sys", "sys.modules['__main__'].n += 7", "print(n)"],
        None,
        {2: "sys.modules['__main__'].n += 8"},
    ),
    "a warning about the code": Case(["x = 1", "print(x is 1)"], None, {0: "x = 2"}),
}


@pytest.mark.kernel
@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("name", CASES)
def test_a_replay_leaves_what_a_full_run_leaves(name: str):
    check(CASES[name])
