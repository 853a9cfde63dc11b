"""Which variables a cell's code reads and writes, as far as its text tells.

Over-approximates: a name that may be read counts as read. Code that can reach any name (`exec`,
`globals()`, `%run`) is said to be opaque.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

_BUILTINS = frozenset(dir(builtins))
_OPAQUE_CALLS = frozenset({"exec", "eval", "globals", "locals", "vars", "__import__"})
# Methods of common containers, arrays and frames that change what they are called on.
_MUTATORS = frozenset(
    {
        "add", "append", "appendleft", "clear", "difference_update", "discard", "extend",
        "extendleft", "fill", "insert", "intersection_update", "move_to_end", "partition", "pop",
        "popitem", "popleft", "put", "remove", "resize", "reverse", "rotate", "setdefault",
        "setflags", "shuffle", "sort", "symmetric_difference_update", "update",
    }
)  # fmt: skip
# Magics that run Python code and do nothing else.
_TIMED = re.compile(r"^(?:%%(?:time|capture)\b.*\n|%time[ \t]+)", re.MULTILINE)
# Statements that call no function of the cell's own, unless it is by a decorator.
_DEFINES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Import, ast.ImportFrom)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True, slots=True)
class Names:
    """The variables of the notebook that a cell touches."""

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    opaque: bool = False


def names_of(source: str) -> Names:
    """Find the variables a cell's source reads and writes, each list sorted."""
    source = _TIMED.sub("", source)
    if source.lstrip().startswith("%%"):
        return Names(opaque=True)
    plain, magic = _without_magics(source)
    try:
        tree = ast.parse(plain)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # Only IPython's own syntax can run all the same; anything else fails before it starts.
        return Names(opaque=any(mark in source for mark in "%!?"))
    finder = _Finder()
    try:
        finder.block(tree.body)
    except RecursionError:
        return Names(opaque=True)
    reads = (finder.reads | finder.deferred) - (_BUILTINS - finder.writes)
    opaque = magic or bool(finder.reads & _OPAQUE_CALLS)
    return Names(tuple(sorted(reads)), tuple(sorted(finder.writes)), opaque)


def order_of_use(tree: ast.Module) -> tuple[frozenset[str], frozenset[str]] | None:
    """Return the names that code sets whatever happens, and those it may read before.

    Code that runs to its end sets the former. None if it is too deeply nested to tell.
    """
    finder = _Finder()
    try:
        finder.block(tree.body)
    except RecursionError:
        return None
    return frozenset(finder.sure), frozenset(finder.reads | finder.called)


def reads_at_once(source: str) -> frozenset[str]:
    """Return the variables that code reads as it runs, not only in a function called later."""
    try:
        tree = ast.parse(_without_magics(source)[0])
        finder = _Finder()
        finder.block(tree.body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    return frozenset(finder.reads - (_BUILTINS - finder.writes))


def _without_magics(source: str) -> tuple[str, bool]:
    """Blank out lines that only IPython understands; tell whether one may touch variables."""
    kept, opaque = [], False
    for line in source.splitlines():
        code = line.lstrip()
        if code.startswith(("%", "!")):
            opaque = opaque or not code.startswith(("%matplotlib", "!", "%config"))
            kept.append(line[: len(line) - len(code)] + "pass")
        else:
            kept.append(line)
    return "\n".join(kept), opaque


class _Finder:
    """Walks code in the order it runs; what is read before it is surely written is a read."""

    def __init__(self, around: set[str] | None = None) -> None:
        # In the body of a class: what functions in it can see is set around it, not in it.
        self._around = around
        # What functions read that they have said to be the notebook's, whatever is around them.
        self.shared: set[str] = set()
        self.reads: set[str] = set()
        self.writes: set[str] = set()
        self.deferred: set[str] = set()
        # What functions read that was not sure to be set when they could be called first.
        self.called: set[str] = set()
        self._asleep: set[str] = set()
        self.sure: set[str] = set()

    def block(self, statements: Iterable[ast.stmt]) -> None:
        for statement in statements:
            self._visit(statement)
        self._may_be_called()
        # A function's body runs when it is called, which is after the cell has defined the rest.
        if self._around is None:
            self.deferred -= self.sure

    def _may_be_called(self) -> None:
        """Count what functions read that may run from now on, as far as it is not set by now."""
        self.called |= self._asleep - self._visible
        self._asleep.clear()

    @property
    def _visible(self) -> set[str]:
        """What code inside can rely on to be set: it does not see what a class has for itself."""
        return self.sure if self._around is None else self._around

    def _visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.stmt) and not isinstance(node, _DEFINES):
            self._may_be_called()
        visitor = _VISITORS.get(type(node))
        if visitor is not None:
            visitor(self, node)
        else:
            self._all(ast.iter_child_nodes(node))

    def _lambda(self, node: ast.Lambda) -> None:
        self._function_body(node)
        self._all([*node.args.defaults, *node.args.kw_defaults])

    def _handler(self, node: ast.ExceptHandler) -> None:
        before = set(self.sure)
        if node.name:
            self._write(node.name)
        self._branched(node)
        self.sure = before

    def _case(self, node: ast.match_case) -> None:
        before = set(self.sure)
        self._all(ast.iter_child_nodes(node))
        self.sure = before

    def _compare(self, node: ast.Compare) -> None:
        """Visit `a < b < c`, of which the third is only looked at if it still matters."""
        self._all([node.left, node.comparators[0]])
        before = set(self.sure)
        self._all(node.comparators[1:])
        self.sure = before

    def _pattern(self, node: ast.MatchAs | ast.MatchStar | ast.MatchMapping) -> None:
        name = node.rest if isinstance(node, ast.MatchMapping) else node.name
        if name:
            self._write(name)
        self._all(ast.iter_child_nodes(node))

    def _all(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self._visit(node)

    def _name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            self._write(node.id)
        else:
            if node.id not in self.sure:
                self.reads.add(node.id)
            if isinstance(node.ctx, ast.Del):
                self.writes.add(node.id)
                if self._around is not None:
                    self.sure.discard(node.id)  # from now on it means what is around the class

    def _part(self, node: ast.Attribute | ast.Subscript) -> None:
        """Visit `a.b` or `a[b]`; storing into a part of a variable changes that variable."""
        self._all(ast.iter_child_nodes(node))
        if isinstance(node.ctx, ast.Store | ast.Del):
            self._change(node)

    def _call(self, node: ast.Call) -> None:
        self._all(ast.iter_child_nodes(node))
        in_place = any(
            keyword.arg == "inplace" and not _is_false(keyword.value) for keyword in node.keywords
        )
        if isinstance(node.func, ast.Attribute) and (in_place or node.func.attr in _MUTATORS):
            self._change(node.func)

    def _change(self, node: ast.expr) -> None:
        """Note that the variable this expression starts from is changed in place."""
        while isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
        if isinstance(node, ast.Name):
            self.writes.add(node.id)

    def _write(self, name: str) -> None:
        self.writes.add(name)
        self.sure.add(name)

    def _assignment(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr) -> None:
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            self.reads |= {node.target.id} - self.sure
        if node.value is not None:
            self._visit(node.value)
        if isinstance(node, ast.AnnAssign):
            self._visit(node.annotation)
            if node.value is None:
                return
        self._all(list(node.targets) if isinstance(node, ast.Assign) else [node.target])

    def _for(self, node: ast.For | ast.AsyncFor) -> None:
        self._visit(node.iter)
        before = set(self.sure)
        self._visit(node.target)
        after = set(self.sure) if _has_any(node.iter) else before
        self._all(node.body)
        # What the body sets is sure unless it may be left half way.
        ends = any(isinstance(each, ast.Break | ast.Continue) for each in ast.walk(node))
        after = set(self.sure) if after is not before and not ends else after
        self.sure = set(after)
        self._all(node.orelse)  # which also runs if there was nothing to go through
        self.sure = after

    def _branching(self, node: ast.stmt) -> None:
        for field in ("test", "iter", "subject"):
            if (first := getattr(node, field, None)) is not None:
                self._visit(first)
        self._branched(node, skip=("test", "iter", "subject"))

    def _branched(self, node: ast.AST, skip: tuple[str, ...] = ()) -> None:
        """Visit code that may not run: what it writes is sure only until it ends."""
        before = set(self.sure)
        for field, value in ast.iter_fields(node):
            if field in skip:
                continue
            if isinstance(value, list):
                at_start = set(self.sure)
                self._all([part for part in value if isinstance(part, ast.AST)])
                self.sure = at_start
            elif isinstance(value, ast.AST):
                self._visit(value)
        self.sure = before

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        """Visit a block that may end early and go on: some contexts swallow errors."""
        for item in node.items:
            self._all([item.context_expr, item.optional_vars])
        if all(_is_open(item.context_expr) for item in node.items):
            self._all(list(node.body))
        else:
            self._branched(node, skip=("items",))

    def _choice(self, node: ast.BoolOp | ast.IfExp) -> None:
        first, *rest = (
            node.values if isinstance(node, ast.BoolOp) else [node.test, node.body, node.orelse]
        )
        self._visit(first)
        before = set(self.sure)
        for each in rest:
            self._visit(each)
            if isinstance(node, ast.IfExp):
                self.sure = set(before)
        self.sure = before

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if alias.name == "*":
                self.reads.add("exec")  # any name may have been written
            else:
                self._write(alias.asname or alias.name.split(".")[0])

    def _definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        self._all(list(node.decorator_list))
        if isinstance(node, ast.ClassDef):
            self._all([*node.bases, *(keyword.value for keyword in node.keywords)])
            inner = _Finder(around=self._visible)
            inner.block(node.body)
            self.reads |= inner.reads - self._visible
            self.deferred |= inner.deferred
            self.shared |= inner.shared
            self._asleep |= inner.called - self._visible - _own_name(node)
        else:
            arguments = node.args
            self._all([*arguments.defaults, *arguments.kw_defaults])
            self._function_body(node)
        self._write(node.name)

    def _function_body(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        free, globals_written, shared = _free_names(node)
        self.deferred |= free
        self.shared |= shared
        self._asleep |= free - self._visible - _own_name(node)
        if not _own_name(node):
            self._may_be_called()  # by whoever decorates it, or has it in hand
        self.writes |= globals_written

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
    ) -> None:
        bound = {
            name.id
            for generator in node.generators
            for name in ast.walk(generator.target)
            if isinstance(name, ast.Name)
        }
        self._visit(node.generators[0].iter)  # around it, where its own names mean nothing
        inner = _Finder()
        inner.sure = self._visible | bound
        for number, generator in enumerate(node.generators):
            inner._all([*([generator.iter] if number else []), *generator.ifs])
        inner._all([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt])
        self.reads |= inner.reads - bound
        self.deferred |= inner.deferred - bound
        self.called |= inner.called - bound
        self.shared |= inner.shared
        self.writes |= inner.writes


# Decorators that do not call what they are given.
_WAITING = frozenset(
    {
        "abstractmethod", "cache", "cached_property", "classmethod", "contextmanager", "dataclass",
        "jit", "lru_cache", "njit", "overload", "property", "singledispatch", "staticmethod",
        "total_ordering", "vectorize", "wraps",
    }
)  # fmt: skip


# Contexts of libraries that let errors out, and modules whose `open` opens a file.
_LETS_ERRORS_OUT = frozenset(
    {
        "BytesIO", "Lock", "NamedTemporaryFile", "Pool", "ProcessPoolExecutor", "RLock", "StringIO",
        "TarFile", "TemporaryDirectory", "TemporaryFile", "ThreadPoolExecutor", "ZipFile",
        "catch_warnings", "closing", "connect", "errstate", "localcontext", "nullcontext", "open",
        "option_context", "printoptions", "rc_context", "redirect_stderr", "redirect_stdout",
        "urlopen",
    }
)  # fmt: skip
_OPENING = frozenset({"bz2", "codecs", "gzip", "io", "lzma", "os", "tarfile", "tokenize"})


def _own_name(node: ast.AST) -> set[str]:
    """Return the name that a function or class has by the time its code runs."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return set()
    for each in node.decorator_list:
        called = each.func if isinstance(each, ast.Call) else each
        name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
        if name not in _WAITING:
            return set()
    alone = not isinstance(node, ast.ClassDef) or not (node.bases or node.keywords)
    return {node.name} if alone else set()


def _has_any(node: ast.expr) -> bool:
    """Tell whether there is surely something to go through."""
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return any(not isinstance(each, ast.Starred) for each in node.elts)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return isinstance(node, ast.Constant) and bool(node.value)
    if node.func.id != "range" or node.keywords or len(node.args) > 2:
        return False
    given = [each.value if isinstance(each, ast.Constant) else None for each in node.args]
    numbers = [each for each in given if isinstance(each, int)]
    return len(numbers) == len(given) > 0 and len(range(*numbers)) > 0


def _is_open(node: ast.expr) -> bool:
    """Tell whether this is a context that never swallows an error, such as an open file."""
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    if isinstance(called, ast.Attribute) and called.attr == "open":
        return isinstance(called.value, ast.Name) and called.value.id in _OPENING
    name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
    return name in _LETS_ERRORS_OUT


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def _own_statements(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield what is in a function's body, but not in functions and classes inside it."""
    for node in body:
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from _own_statements(ast.iter_child_nodes(node))


def _declared_in(nodes: Iterable[ast.AST]) -> set[str]:
    return {name for node in nodes if isinstance(node, ast.Global) for name in node.names}


def _free_names(
    function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
) -> tuple[set[str], set[str], set[str]]:
    """Return the names a function takes from the notebook, and those declared global in it.

    Last, those it takes because they are: functions around it may have a variable of that name.
    """
    arguments = function.args
    bound = {
        argument.arg
        for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    }
    bound |= {extra.arg for extra in (arguments.vararg, arguments.kwarg) if extra is not None}
    body = function.body if isinstance(function.body, list) else [ast.Expr(function.body)]
    declared = _declared_in(node for part in body for node in ast.walk(part))
    own = _declared_in(_own_statements(body))
    inner = _Finder()
    inner.block(body)
    local = (inner.writes | bound) - own
    shared = inner.shared | (((inner.reads | inner.deferred) - local) & own)
    return ((inner.reads | inner.deferred) - local) | shared, declared, shared


_VISITORS: dict[type[ast.AST], Callable[[_Finder, Any], None]] = {
    ast.Name: _Finder._name,
    ast.FunctionDef: _Finder._definition,
    ast.AsyncFunctionDef: _Finder._definition,
    ast.ClassDef: _Finder._definition,
    ast.Lambda: _Finder._lambda,
    **dict.fromkeys(_COMPREHENSIONS, _Finder._comprehension),
    ast.Import: _Finder._import,
    ast.ImportFrom: _Finder._import,
    ast.Attribute: _Finder._part,
    ast.Subscript: _Finder._part,
    ast.Call: _Finder._call,
    **dict.fromkeys((ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr), _Finder._assignment),
    ast.ExceptHandler: _Finder._handler,
    **dict.fromkeys(
        (ast.If, ast.While, ast.Try, ast.TryStar, ast.Match),
        _Finder._branching,
    ),
    **dict.fromkeys((ast.For, ast.AsyncFor), _Finder._for),
    **dict.fromkeys((ast.With, ast.AsyncWith), _Finder._with),
    ast.match_case: _Finder._case,
    ast.Compare: _Finder._compare,
    **dict.fromkeys((ast.BoolOp, ast.IfExp), _Finder._choice),
    **dict.fromkeys((ast.MatchAs, ast.MatchStar, ast.MatchMapping), _Finder._pattern),
}
