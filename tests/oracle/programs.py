"""Random notebooks of the kinds people write: aliases, closures, classes, generators, files."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

MODULE = """value = 7
items = []


def scale(x):
    return x * value


def keep(x):
    items.append(x)
    return len(items)
"""

# Prints every variable with its sharing, so that two runs can be compared to the last alias.
PROBE = """
def probe_(names):
    import types
    seen = {}
    def show(value):
        if isinstance(value, types.GeneratorType):
            return "generator " + repr(list(value))
        if isinstance(value, (int, float, str, bool, type(None))):
            return repr(value)
        if isinstance(value, tuple):
            return "(" + ", ".join(map(show, value)) + ")"
        if id(value) in seen:
            return f"#{seen[id(value)]}"
        number = seen[id(value)] = len(seen)
        if isinstance(value, list):
            return f"#{number}[" + ", ".join(map(show, value)) + "]"
        if isinstance(value, dict):
            return f"#{number}{{" + ", ".join(f"{k!r}: {show(v)}" for k, v in value.items()) + "}"
        if isinstance(value, set):
            return f"#{number}" + repr(sorted(value))
        if type(value).__name__ == "ndarray":
            return f"#{number} array {value.tolist()} {value.base is None}"
        if isinstance(value, bytearray):
            return f"#{number} {value!r}"
        if type(value).__module__ in ("collections", "itertools", "functools"):
            if type(value).__name__ == "_lru_cache_wrapper":
                return f"#{number} cached {value.cache_info()}"
            if type(value).__name__ == "partial":
                return f"#{number} partial {show(value.func)} {show(value.args)}"
            return f"#{number} {type(value).__name__} " + ", ".join(map(show, value))
        if isinstance(value, BaseException):
            return f"#{number} {type(value).__name__} {show(value.args)}"
        if isinstance(value, types.FunctionType):
            cells = [show(c.cell_contents) for c in value.__closure__ or ()]
            return f"#{number} function {value.__name__} {show(value.__defaults__)} {cells}"
        if isinstance(value, types.ModuleType):
            own = [value.value, value.items] if value.__name__ == "helper" else []
            return f"module {value.__name__} {show(own)}"
        if type(value).__name__ in ("list_iterator", "deque_iterator", "enumerate"):
            return "iterator " + repr(list(value))
        if isinstance(value, type):
            return f"#{number} class {value.__name__} " + show(vars(value).get("count"))
        return f"#{number} {type(value).__name__} " + show(vars(value))
    for name in sorted(names):
        print(name, show(names[name]))
probe_({k: v for k, v in globals().items() if k[0] != "_" and k not in PROBE_OWN_})
"""
OWN = (
    "In", "Out", "exit", "quit", "get_ipython", "open", "probe_", "PROBE_OWN_", "os", "copy",
    "functools", "math", "np", "random", "dataclass", "field", "deque", "partial",
)  # fmt: skip


def probe_source() -> str:
    return f"PROBE_OWN_ = {OWN!r}\n" + PROBE


@dataclass
class Program:
    """A notebook as a list of sources, grown cell by cell from a seed."""

    chance: random.Random
    cells: list[str] = field(default_factory=list)
    kinds: dict[str, list[str]] = field(default_factory=dict)
    count: int = 0

    def name(self, kind: str, fresh: float = 0.6) -> str:
        """Return a name to bind: a new one, or one that is bound already."""
        known = self.kinds.setdefault(kind, [])
        if known and self.chance.random() > fresh:
            return self.chance.choice(known)
        self.count += 1
        name = f"{kind}{self.count}"
        known.append(name)
        return name

    def some(self, kind: str) -> str | None:
        known = self.kinds.get(kind)
        return self.chance.choice(known) if known else None

    def number(self) -> int:
        return self.chance.randint(0, 9)

    def grow(self, count: int) -> None:
        while len(self.cells) < count:
            source = self.cell()
            if source is not None:
                self.cells.append(source)

    def cell(self) -> str | None:
        return self.chance.choice(_MAKERS)(self)


def _int(p: Program) -> str:
    return f"{p.name('n')} = {p.number()}"


def _int_from(p: Program) -> str | None:
    a = p.some("n")
    return a and f"{p.name('n')} = {a} * 2 + {p.number()}"


def _aug(p: Program) -> str | None:
    a = p.some("n")
    return a and f"{a} += {p.number()}"


def _show(p: Program) -> str | None:
    kind = p.chance.choice(["n", "l", "d"])
    a = p.some(kind)
    return a and f"print({a})"


def _expression(p: Program) -> str | None:
    a = p.some("l")
    return a and f"len({a}), {a}[:2]"


def _list(p: Program) -> str:
    return f"{p.name('l')} = [{p.number()}, {p.number()}]"


def _alias(p: Program) -> str | None:
    a = p.some("l")
    return a and f"{p.name('l')} = {a}"


def _nest(p: Program) -> str | None:
    a, b = p.some("l"), p.some("l")
    return a and f"{p.name('d')} = {{'k': {a}, 'm': [{b}, {p.number()}]}}"


def _append(p: Program) -> str | None:
    a = p.some("l")
    return a and f"{a}.append({p.number()})"


def _store(p: Program) -> str | None:
    a = p.some("l")
    return a and f"{a}[0] = {p.number()}"


def _through(p: Program) -> str | None:
    a = p.some("d")
    return a and f"{a}['k'].append({p.number()})\n{a}['x{p.number()}'] = {p.number()}"


def _copy(p: Program) -> str | None:
    a = p.some("l")
    return a and f"{p.name('l')} = list({a})"


def _comprehension(p: Program) -> str | None:
    a, b = p.some("l"), p.some("n")
    return a and b and f"{p.name('l')} = [str(i) + str({b}) for i in {a}]"


def _loop(p: Program) -> str | None:
    a = p.some("l")
    if a is None:
        return None
    n = p.name("n")
    return f"{n} = 0\nfor item in {a}:\n    {n} += len(str(item))"


def _function(p: Program) -> str | None:
    a = p.some("n")
    return a and f"def {p.name('f')}(x, y={p.number()}):\n    return x + y + {a}"


def _changer(p: Program) -> str | None:
    a = p.some("l")
    return a and f"def {p.name('c')}():\n    {a}.append({p.number()})\n    return len({a})"


def _global(p: Program) -> str | None:
    a = p.some("n")
    return a and f"def {p.name('c')}():\n    global {a}\n    {a} += 1\n    return {a}"


def _lambda(p: Program) -> str | None:
    a = p.some("n")
    return a and f"{p.name('f')} = lambda x: x * 2 + {a}"


def _call(p: Program) -> str | None:
    f = p.some("f")
    return f and f"{p.name('n')} = {f}({p.number()})"


def _call_changer(p: Program) -> str | None:
    c = p.some("c")
    return c and f"print({c}())"


def _wrapper(p: Program) -> str | None:
    f = p.some("f")
    return f and f"def {p.name('f')}(x):\n    return {f}(x) + {p.number()}"


def _closure(p: Program) -> str:
    a, b = p.name("i", 1), p.name("i", 1)
    return (
        f"def make():\n    n = {p.number()}\n    def up():\n        nonlocal n\n        n += 1\n"
        f"        return n\n    def get():\n        return n\n    return up, get\n{a}, {b} = make()"
    )


def _use_closure(p: Program) -> str | None:
    a = p.some("i")
    return a and f"print({a}())"


def _class(p: Program) -> str | None:
    a = p.some("n")
    if a is None:
        return None
    c = p.name("C", 0.8)
    return (
        f"class {c}:\n    count = 0\n    def __init__(self, x):\n        self.x = x\n"
        f"        {c}.count += 1\n    def get(self):\n        return str(self.x) + str({a})"
    )


def _instance(p: Program) -> str | None:
    c = p.some("C")
    value = p.some("l") or p.number()
    return c and f"{p.name('o')} = {c}({value})"


def _attribute(p: Program) -> str | None:
    o = p.some("o")
    return o and f"{o}.y = {p.number()}"


def _method(p: Program) -> str | None:
    o = p.some("o")
    return o and f"print({o}.get(), type({o}).count)"


def _generator(p: Program) -> str:
    return f"{p.name('g')} = (i * {p.number() + 1} for i in range(30))"


def _next(p: Program) -> str | None:
    g = p.some("g")
    return g and f"print(next({g}))"


def _write(p: Program) -> str | None:
    a = p.some("n")
    if a is None:
        return None
    path = p.name("file")
    return f"with open('{path}.txt', 'w') as handle:\n    handle.write(str({a}))\ndel handle"


def _read(p: Program) -> str | None:
    path = p.some("file")
    return path and f"{p.name('n')} = len(open('{path}.txt').read())"


def _module(p: Program) -> str:
    return f"import helper\n{p.name('n')} = helper.scale({p.number()})"


def _exec(p: Program) -> str | None:
    a = p.some("n")
    return a and f"exec('{p.name('n')} = {a} + {p.number()}')"


def _delete(p: Program) -> str | None:
    a = p.some("l")
    if a is None or len(p.kinds["l"]) < 3:
        return None
    p.kinds["l"].remove(a)
    return f"del {a}"


def _seed(p: Program) -> str:
    p.kinds.setdefault("seeded", []).append("yes")
    return f"import random\nrandom.seed({p.number()})"


def _random(p: Program) -> str | None:
    return p.some("seeded") and f"{p.name('n')} = random.randint(0, 1000)"


def _unpack(p: Program) -> str | None:
    a, b = p.some("n"), p.some("n")
    return a and b and f"{p.name('n')}, {p.name('n')} = {b}, {a}"


def _try(p: Program) -> str | None:
    a = p.some("l")
    return a and f"try:\n    {a}[99]\nexcept IndexError as error:\n    print(error)"


def _set(p: Program) -> str | None:
    a = p.some("l")
    return a and f"{p.name('s')} = {{str(i) for i in {a}}}"


def _module_state(p: Program) -> str:
    return f"import helper\nhelper.value += {p.number()}\nprint(helper.scale(2))"


def _module_items(p: Program) -> str:
    return f"import helper\nprint(helper.keep({p.number()}), helper.items)"


def _star(p: Program) -> str:
    return f"from helper import *\n{p.name('n')} = scale({p.number()}) + len(items)"


def _deque(p: Program) -> str:
    return f"from collections import deque\n{p.name('q')} = deque([{p.number()}], maxlen=3)"


def _rotate(p: Program) -> str | None:
    q = p.some("q")
    return q and f"{q}.append({p.number()})\n{q}.rotate(1)\nprint({q})"


def _cached(p: Program) -> str | None:
    a = p.some("n")
    if a is None:
        return None
    k = p.name("k")
    return f"import functools\n@functools.lru_cache\ndef {k}(x):\n    return x + {a}"


def _use_cached(p: Program) -> str | None:
    k = p.some("k")
    return k and f"print({k}({p.number()}), {k}.cache_info().currsize)"


def _partial(p: Program) -> str | None:
    f, a = p.some("f"), p.some("n")
    return f and a and f"from functools import partial\n{p.name('f')} = partial({f}, {a})\n{f}"


def _record(p: Program) -> str:
    name = p.name("R", 0.8)
    return (
        f"from dataclasses import dataclass, field\n@dataclass\nclass {name}:\n"
        f"    x: int = {p.number()}\n    seen: list = field(default_factory=list)\n"
        f"    def add(self, y):\n        self.seen.append(y)\n        return self"
    )


def _make_record(p: Program) -> str | None:
    r = p.some("R")
    return r and f"{p.name('r')} = {r}().add({p.some('l') or p.number()})"


def _use_record(p: Program) -> str | None:
    r = p.some("r")
    return r and f"{r}.add({p.number()}).x += 1\nprint({r})"


def _subclass(p: Program) -> str | None:
    c = p.some("C")
    if c is None:
        return None
    d = p.name("C", 1)
    return (
        f"class {d}({c}):\n    def get(self):\n        return super().get() + '!{p.number()}'\n"
        f"    @property\n    def double(self):\n        return [self.x, self.x]"
    )


def _patch_class(p: Program) -> str | None:
    c = p.some("C")
    return c and f"{c}.extra = lambda self: {p.number()}\nprint({c}.extra(None))"


def _setattr(p: Program) -> str | None:
    o = p.some("o")
    return o and f"setattr({o}, 'z{p.number()}', {p.number()})\nprint(sorted(vars({o})))"


def _iterator(p: Program) -> str | None:
    a = p.some("l")
    return a and f"{p.name('t')} = iter({a})"


def _advance(p: Program) -> str | None:
    t = p.some("t")
    return t and f"print(next({t}, None))"


def _walrus(p: Program) -> str | None:
    a = p.some("n")
    return a and f"if ({p.name('n')} := {a} + {p.number()}) > 5:\n    print('large')"


def _star_unpack(p: Program) -> str | None:
    a = p.some("l")
    return a and f"{p.name('n')}, *{p.name('l')} = [{p.number()}, *{a}]"


def _slice(p: Program) -> str | None:
    a = p.some("l")
    return a and f"{a}[:1] = [{p.number()}, {p.number()}]\n{a}.sort(key=str)"


def _deepcopy(p: Program) -> str | None:
    d = p.some("d")
    return d and f"import copy\n{p.name('d')} = copy.deepcopy({d})"


def _kept_error(p: Program) -> str:
    return (
        f"try:\n    raise ValueError({p.number()})\nexcept ValueError as problem:\n"
        f"    {p.name('e')} = problem"
    )


def _environment(p: Program) -> str:
    return f"import os\nos.environ['RLMNB_ORACLE_X'] = '{p.number()}'"


def _read_environment(p: Program) -> str:
    return "import os\nprint(os.environ.get('RLMNB_ORACLE_X'))"


def _exists(p: Program) -> str | None:
    path = p.some("file")
    return path and f"import os\nprint(os.path.exists('{path}' + '.txt'))"


def _bytes(p: Program) -> str:
    return f"{p.name('b')} = bytearray(b'ab{p.number()}')"


def _set_byte(p: Program) -> str | None:
    b = p.some("b")
    return b and f"{b}[0] += {p.number()}\nprint({b})"


def _array(p: Program) -> str:
    return f"import numpy as np\n{p.name('a')} = np.arange({p.number() + 3})"


def _view(p: Program) -> str | None:
    a = p.some("a")
    return a and f"{p.name('a')} = {a}[1:]"


def _into_array(p: Program) -> str | None:
    a = p.some("a")
    return a and f"{a}[:1] += {p.number()}\nprint({a})"


def _patch_library(p: Program) -> str:
    return f"import math\nmath.tau = {p.number()}"


def _use_patched(p: Program) -> str:
    return "import math\nprint(math.tau)"


def _eval(p: Program) -> str | None:
    a = p.some("n")
    return a and f"print(eval('{a} + {p.number()}'))"


def _by_globals(p: Program) -> str | None:
    a = p.some("n")
    return a and f"globals()['{a}'] += {p.number()}"


def _self_reference(p: Program) -> str | None:
    a = p.some("l")
    return a and f"{p.name('d')} = {{}}\n{p.kinds['d'][-1]}.update(k={a}, me={p.kinds['d'][-1]})"


def _callbacks(p: Program) -> str | None:
    f = p.some("f")
    return f and f"{p.name('h')} = {{'call': [{f}, {f}]}}"


def _run_callbacks(p: Program) -> str | None:
    h = p.some("h")
    return h and f"print([each({p.number()}) for each in {h}['call']])"


_MAKERS = [
    _module_state, _module_items, _star, _deque, _rotate, _cached, _use_cached, _partial, _record,
    _make_record, _use_record, _use_record, _subclass, _patch_class, _setattr, _iterator, _advance,
    _walrus, _star_unpack, _slice, _deepcopy, _kept_error, _environment, _read_environment,
    _exists, _bytes, _set_byte, _array, _view, _into_array, _patch_library, _use_patched, _eval,
    _by_globals, _self_reference, _callbacks, _run_callbacks,
    _int, _int, _int_from, _aug, _show, _show, _expression, _list, _list, _alias, _alias, _nest,
    _append, _append, _store, _through, _through, _copy, _comprehension, _loop, _function,
    _changer, _global, _lambda, _call, _call, _call_changer, _call_changer, _wrapper, _closure,
    _use_closure, _use_closure, _class, _instance, _instance, _attribute, _method, _method,
    _generator, _next, _next, _write, _read, _read, _module, _exec, _delete, _seed, _random,
    _unpack, _try, _set,
]  # fmt: skip


def edited(program: Program) -> list[tuple[str, str]]:
    """Return the cells after one to three edits, each with the id it keeps."""
    chance = program.chance
    cells = [(f"c{number}", source) for number, source in enumerate(program.cells)]
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(cells))
        kind = chance.choice(["digit", "digit", "digit", "insert", "delete", "comment", "swap"])
        cell_id, source = cells[at]
        if kind == "digit":
            digits = [i for i, letter in enumerate(source) if letter.isdigit()]
            loose = [
                i
                for i in digits
                if not source[i - 1 : i].isalnum() and not source[i + 1 : i + 2].isalnum()
            ]
            if loose:
                i = chance.choice(loose)
                cells[at] = (cell_id, source[:i] + str(chance.randint(0, 9)) + source[i + 1 :])
        elif kind == "insert":
            new = program.cell()
            if new is not None:
                cells.insert(at + 1, (f"new{len(cells)}", new))
        elif kind == "delete":
            del cells[at]
        elif kind == "comment":
            cells[at] = (cell_id, source + "  # a remark")
        elif at + 1 < len(cells):
            cells[at], cells[at + 1] = cells[at + 1], cells[at]
    return cells
