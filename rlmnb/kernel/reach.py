"""What a cell's code can reach: its names, followed through all that they lead to."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from rlmnb.graph.ambient import state_of
from rlmnb.graph.names import order_of_use
from rlmnb.kernel.beginning import beginning_of, is_quiet_magic, what_it_expands
from rlmnb.kernel.codenames import LOOK_UP, OPAQUE_ATTRIBUTES, CodeNames, asked_for, names_in
from rlmnb.kernel.history import is_history, unnamed_history
from rlmnb.kernel.lasting import lasting_in
from rlmnb.kernel.timed import unwrapped
from rlmnb.kernel.warned import silenced

MODULE = "$module:"
# Through these a cell can reach any variable by a name that its code does not show.
_OPAQUE_NAMES = frozenset(
    {"exec", "eval", "globals", "locals", "vars", "dir", "get_ipython", "__import__", "compile"}
)
# So it can when it runs the tests that the notebook has, or gives code as a text.
_TESTS = frozenset({"cProfile", "profile", "timeit", "trace", "unittest"})
_RUNS = frozenset({"main", "repeat", "run", "runctx", "timeit"})
_MAIN = "__main__"
_MODULES = frozenset({"import_module", "modules"})
# With one of these a cell can bring back an object whose class it does not name; with the last,
# also functions that find any variable by its name.
_PICKLES = frozenset({"pickle", "cloudpickle", "joblib", "shelve", "dill"})
_LOADS = frozenset({"load", "loads", "open", "Unpickler"})


class _Dormant(ast.NodeTransformer):
    """Empties functions that a cell defines and does not call: their bodies may not run in it.

    They do run if something that the cell calls calls them, so what is in them is kept apart.
    """

    def __init__(self, loaded: set[str]) -> None:
        self._loaded = loaded
        self.found: dict[str, list[ast.stmt]] = {}

    def _function(self, node: Any) -> Any:
        if not node.decorator_list and node.name not in self._loaded:
            self.found[node.name] = node.body
            node.body = [ast.copy_location(ast.Pass(), node)]
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = _function  # noqa: N815 - ast's own names

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        # A base class, a metaclass or a decorator may call methods while the class is made.
        alone = not node.decorator_list and not node.keywords and not node.bases
        if node.name not in self._loaded and alone:
            inside = {
                each.id
                for part in node.body
                if not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)
                for each in ast.walk(part)
                if isinstance(each, ast.Name)
            }
            inner = _Dormant(inside)
            node.body = [inner.visit(part) for part in node.body]
            for body in inner.found.values():
                self.found.setdefault(node.name, []).extend(body)
        return node

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        return node


def _split_dormant(tree: ast.Module) -> dict[str, frozenset[str]]:
    """Empty the functions that nothing in a cell calls; return the names in each."""
    loaded: set[str] = set()
    for statement in tree.body:
        own = None
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            own = statement.name
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id != own:
                loaded.add(node.id)
    dormant = _Dormant(loaded)
    tree.body = [dormant.visit(statement) for statement in tree.body]
    return {name: _names_of(body) for name, body in dormant.found.items()}


def _names_of(body: list[ast.stmt]) -> frozenset[str]:
    """Return the names in a function; a `_` that it sets is its own, not that of the history."""
    nodes = [node for part in body for node in ast.walk(part)]
    names = [node for node in nodes if isinstance(node, ast.Name)]
    shared = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
    own = {node.id for node in names if not isinstance(node.ctx, ast.Load)} - shared
    return frozenset(node.id for node in names) - frozenset(filter(is_history, own))


def code_names(source: str, transform: Callable[[str], str]) -> CodeNames | None:
    """Return the names in a cell's code, None if it does not compile and so does nothing."""
    with silenced():
        try:
            tree = unwrapped(ast.parse(transform(source)), transform)
            _spell_out(tree)
            _quiet_magics(tree)
            beginning, within = beginning_of(tree), _imports_within(tree)
            bound, commands = _bound_by_imports(tree), _commands_at_top(tree)
            order = order_of_use(tree)
            dormant = _split_dormant(tree)
            flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            # Not as this module is compiled, in which annotations do not run.
            code = compile(tree, "<cell>", "exec", flags=flags, dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
    found = names_in(code)
    sure, early = order or (frozenset(), found.reads)
    queried = asked_for(set(found.attributes), set(found.strings))
    names = CodeNames(
        found.reads,
        found.writes | commands,
        found.attributes,
        found.strings,
        sure | commands,
        found.imports,
    )
    hidden = unnamed_history(found.reads, found.attributes, found.strings)
    names.early = (early & found.reads) | queried | hidden
    names.dormant = dormant
    names.lasting = lasting_in(code)
    names.beginning, names.within, names.bound = beginning, within, bound
    names.may_call = _has_functions(tree)
    names.looks_up = _looks_up(tree)
    names.stars = frozenset(
        node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.names[0].name == "*"
    )
    return names


class _Spelled(ast.NodeTransformer):
    """Puts an expression in the place of `eval` of a text that is written out."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        text = _given_text(node, "eval")
        if text is None:
            return node
        try:
            return ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError):
            return node


def _spell_out(tree: ast.Module) -> None:
    """Put code in the place of `exec` and `eval` of it, where the text is written out."""
    body: list[ast.stmt] = []
    for statement in tree.body:
        text = _given_text(statement.value, "exec") if isinstance(statement, ast.Expr) else None
        try:
            body += [statement] if text is None else ast.parse(text).body
        except (SyntaxError, ValueError):
            body.append(statement)
    tree.body = [_Spelled().visit(statement) for statement in body]


def _given_text(node: ast.expr, name: str) -> str | None:
    """Return the text that a function of this name is given, and nothing else."""
    if not isinstance(node, ast.Call) or node.keywords or len(node.args) != 1:
        return None
    called, given = node.func, node.args[0]
    if not isinstance(called, ast.Name) or called.id != name or not isinstance(given, ast.Constant):
        return None
    return given.value if isinstance(given.value, str) else None


def _quiet_magics(tree: ast.Module) -> None:
    """Take the shell out of magics and commands that have nothing to do with variables.

    Whoever has the shell in hand can reach any of them. What they expand stands in its place.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and is_quiet_magic(node):
            assert isinstance(node.func, ast.Attribute)
            expressions = ast.Tuple(what_it_expands(node), ast.Load())
            node.func.value = ast.copy_location(expressions, node.func.value)
            ast.fix_missing_locations(node)


def _imports_within(tree: ast.Module) -> frozenset[str]:
    """Return what functions import for themselves when they are called."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    inner = [
        node
        for function in ast.walk(tree)
        if isinstance(function, functions)
        for node in ast.walk(function)
    ]
    found = {alias.name for node in inner if isinstance(node, ast.Import) for alias in node.names}
    return frozenset(found | {node.module or "" for node in inner if type(node) is ast.ImportFrom})


def _bound_by_imports(tree: ast.Module) -> dict[str, str]:
    """Return the names that a cell gives to what it imports, each with its library."""
    found = {}
    for node in ast.walk(tree):
        for alias in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
            module = (node.module or "") if isinstance(node, ast.ImportFrom) else alias.name
            name = (alias.asname or alias.name).partition(".")[0]
            found[name] = module.partition(".")[0]
    return found


def _looks_up(tree: ast.Module) -> frozenset[str]:
    """Return the variables that code gives to a query of a library, which may name others."""
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args
    ]
    asking = [node.args[0] for node in calls if getattr(node.func, "attr", "") in LOOK_UP]
    return frozenset(node.id for node in asking if isinstance(node, ast.Name))


def _has_functions(tree: ast.Module) -> bool:
    """Tell whether code that is left has functions that it may call."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    asleep = (ast.Pass,)
    return any(
        isinstance(node, kinds)
        and not (isinstance(node.body, list) and isinstance(node.body[0], asleep))
        for node in ast.walk(tree)
    )


def _commands_at_top(tree: ast.Module) -> frozenset[str]:
    """Return what the shell sets itself after each command that a cell is sure to run."""
    for node in tree.body:
        call = node.value if isinstance(node, ast.Expr) else None
        if isinstance(call, ast.Call) and is_quiet_magic(call):
            assert isinstance(call.func, ast.Attribute)
            if call.func.attr == "system":
                return frozenset({"_exit_code"})
    return frozenset()


class Reach(NamedTuple):
    """What code can read: these variables, or any; and which of them only by what it calls."""

    reads: frozenset[str]
    opaque: bool
    led_to: frozenset[str]


NOWHERE = Reach(frozenset(), opaque=False, led_to=frozenset())


def follow(
    names: CodeNames,
    refs_of: Callable[[str], Iterable[str]],
    around: Mapping[str, Iterable[str]] | None = None,
    has_last_words: Callable[[str], bool] = lambda _: False,
    is_text: Callable[[str], bool] = lambda _: True,
    definitions: Callable[[], Iterable[str]] = tuple,
) -> Reach:
    """Close a cell's names over what each refers to.

    `around` are names that any code may reach, by the state that leads to them: a library was
    given a function of the notebook's.
    What does something when it is let go is not only set anew by whoever sets its name.
    `definitions` are the variables that hold functions and classes, which pickles know by name.
    """
    found: set[str] = set()
    runs_code = any(map(has_last_words, names.writes))
    runs_code = runs_code or bool(names.reads or names.attributes or names.imports)
    # What the shell was given runs before and after every cell, also one of constants alone.
    refs = {
        ref
        for state, leads_to in (around or {}).items()
        if runs_code or state_of(state) == "$shell"
        for ref in leads_to
    }
    asleep = dict(names.dormant)
    # What a name led to that is surely set, and not looked at before, is no matter.
    only_stored = {
        name for name in (names.sure & names.writes) - names.early if not has_last_words(name)
    }
    touched = (names.reads | names.writes) - only_stored
    waiting = [*touched, *(MODULE + name for name in names.imports), *refs]

    def close() -> None:
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                leads_to = set(refs_of(name))
                for called in leads_to & set(asleep):
                    leads_to |= asleep.pop(called)
                refs.update(leads_to)
                waiting.extend(leads_to)

    close()
    pickled = (found | names.reads) & _PICKLES if names.attributes & _LOADS else frozenset()
    if pickled or "read_pickle" in names.attributes:
        known = set(definitions())
        refs |= known
        waiting.extend(known)
        close()
    every = found | names.reads
    tested = every & _TESTS and names.attributes & _RUNS
    # Many a cell asks only whether it is the main module.
    ours = not names.attributes.isdisjoint(_MODULES)
    told = any(_MAIN in text and (ours or text != _MAIN) for text in names.strings)
    told = told or (ours and "__name__" in names.reads)
    opaque = bool(every & _OPAQUE_NAMES) or bool(names.attributes & OPAQUE_ATTRIBUTES)
    any_name = (
        opaque or told or bool("dill" in pickled or tested) or any(map(is_text, names.looks_up))
    )
    return Reach(frozenset(found), any_name, frozenset(refs))
