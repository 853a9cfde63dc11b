"""From a decision to code: a step is something that can be read, edited and replayed."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from rlmnb.models.decisions import Action, Decision, Seen

_FINDING = 4_000
_LONGEST_CODE = 20_000


@dataclass(frozen=True, slots=True)
class Step:
    """One step: its code, its type in a record, and whether it ends the work."""

    number: int
    decision: Decision
    code: str
    type: str
    final: bool

    @property
    def variable(self) -> str:
        """The name that its result has."""
        return "answer" if self.final else variable(self.number)

    @property
    def source(self) -> str:
        """The code of a cell, which also shows what it found."""
        shown = "print(answer)" if self.final else f"print(peek({self.variable}))"
        return f"{self.code}\n{shown}"


def variable(number: int) -> str:
    """Return the name of the variable that a step's result is in."""
    return f"step_{number}"


def check(decision: Decision, seen: Seen) -> None:
    """Raise ValueError with what is wrong about a decision, so that the model can mend it."""
    if decision.action is Action.EXECUTE:
        _bound(decision.code, variable(seen.number))
    elif decision.action is Action.SUBCALL:
        _expression(decision.code or "context")
    elif decision.action is Action.SYNTHESIZE and not seen.found:
        raise ValueError("there is nothing to synthesize: no step has found anything yet")


def step_for(decision: Decision, seen: Seen, model: str | None) -> Step:
    """Return the code of a decision. It names its model, so that it can be replayed anywhere."""
    name, action = variable(seen.number), decision.action
    final = action in (Action.DIRECT, Action.SYNTHESIZE)
    by = "" if model is None else f", model={model!r}"
    asked = decision.question.strip() or seen.question
    if action is Action.EXECUTE:
        final = decision.final
        source, kind = _bound(decision.code, name), "repl"
        source += f"\nanswer = {name}" if final else ""
    elif action is Action.DECOMPOSE:
        source, kind = _decomposed(name, asked, seen, by), "map_reduce"
    elif action is Action.SUBCALL:
        part = _expression(decision.code or "context")
        source, kind = f"{name} = rlm_query({asked!r}, context={part}{by})", "llm_call"
    elif action is Action.MEMORY_QUERY:
        source, kind = f"{name} = memory_query({asked!r})", "repl"
    elif action is Action.SYNTHESIZE:
        source, kind = _question_over(_findings(seen), seen, by), "llm_call"
    else:
        source, kind = _question_over(_beginning(seen), seen, by), "llm_call"
    return Step(seen.number, decision, source, kind, final)


def _decomposed(name: str, asked: str, seen: Seen, by: str) -> str:
    each = f"{asked}\n\nAnswer from this part of the context alone:\n{{item}}"
    all_of = (
        f"{seen.question}\n\nThe context was asked in parts: {asked}\n"
        "Combine the answers of the parts:\n{results}"
    )
    # A part goes into a prompt with the question around it.
    size = max(1_000, seen.prompt_limit - len(each))
    return (
        f"{name} = map_reduce(\n    split_context(context, {size}),\n"
        f"    {each!r},\n    {all_of!r}{by},\n)"
    )


def _question_over(pieces: Iterable[str], seen: Seen, by: str) -> str:
    literals = "".join(f"    {piece}\n" for piece in (repr(seen.question), *pieces))
    return f"answer = llm_query(\n{literals.rstrip()}{by},\n)"


def _findings(seen: Seen) -> list[str]:
    """Return what was found as code that reads the variables: an edited step changes it."""
    pieces = [repr("\n\nAnswer from what was found, step by step:")]
    for step in seen.found:
        label = f"\n\n{step.number}. {step.goal}: ".replace("{", "{{").replace("}", "}}")
        shown = f"{{peek({variable(step.number)}, 0, {_FINDING})}}"
        pieces.append("f" + repr(label + shown))
    return pieces


def _beginning(seen: Seen) -> list[str]:
    pieces = _findings(seen) if seen.found else []
    if seen.has_context:
        pieces += [
            repr("\n\nThe context, or its beginning if it is longer:\n"),
            f"f'{{peek(context, 0, {seen.prompt_limit})}}'",
        ]
    return pieces


def _expression(code: str) -> str:
    """Return code that gives a value, checked to be no more than that."""
    try:
        return ast.unparse(ast.parse(code.strip(), mode="eval"))
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"`code` is to be one Python expression: {error}") from None


def _bound(code: str, name: str) -> str:
    """Return code that leaves its result in the variable of its step.

    Code that ends in an expression, a print or an assignment says itself what its result is.
    """
    code = _unfenced(code)
    if not code:
        raise ValueError("EXECUTE needs `code`")
    if len(code) > _LONGEST_CODE:
        raise ValueError(f"`code` has {len(code)} characters, {_LONGEST_CODE} is the most")
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"`code` is no Python: {error}") from None
    except (RecursionError, MemoryError):
        raise ValueError("`code` is nested too deeply") from None
    if any(_sets(node, name) for node in ast.walk(tree)):
        return code
    last = tree.body[-1] if tree.body else None
    result = _result_of(last)
    if last is None or result is None:
        raise ValueError(f"`code` is to put what it finds into `{name}`")
    if isinstance(last, ast.Expr):
        # The rest stays as it was written, comments included.
        above = "\n".join(code.splitlines()[: last.lineno - 1])
        before = f"{above}\n" if above.strip() else ""
        if _shares_its_line(tree, last):
            before = "".join(f"{ast.unparse(each)}\n" for each in tree.body[:-1])
        return f"{before}{name} = {ast.unparse(result)}"
    return f"{code}\n{name} = {ast.unparse(result)}"


def _sets(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == name


def _shares_its_line(tree: ast.Module, last: ast.stmt) -> bool:
    return any((each.end_lineno or 0) >= last.lineno for each in tree.body[:-1])


def _result_of(last: ast.stmt | None) -> ast.expr | None:
    """Return the expression that stands for what code found."""
    if isinstance(last, ast.Assign) and isinstance(last.targets[0], ast.Name):
        return ast.Name(last.targets[0].id, ast.Load())
    if isinstance(last, ast.AugAssign | ast.AnnAssign) and isinstance(last.target, ast.Name):
        return ast.Name(last.target.id, ast.Load())
    if not isinstance(last, ast.Expr):
        return None
    call = last.value
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "print":
        return _printed(call)
    return call


def _printed(call: ast.Call) -> ast.expr | None:
    """Return what a print shows as an expression, None if that is not plain to see."""
    if not call.args or call.keywords or any(isinstance(each, ast.Starred) for each in call.args):
        return None
    if len(call.args) == 1:
        return call.args[0]
    together = ast.parse("' '.join(map(str, ()))", mode="eval").body
    assert isinstance(together, ast.Call)
    assert isinstance(together.args[0], ast.Call)
    together.args[0].args[1] = ast.Tuple(list(call.args), ast.Load())
    return together


def _unfenced(code: str) -> str:
    lines = code.strip("\n").rstrip().splitlines()
    if lines and lines[0].lstrip().startswith("```"):
        lines = lines[1:]
        if lines and lines[-1].strip() == "```":
            lines = lines[:-1]
    return "\n".join(lines).strip("\n")
