"""How much a prompt asks for: a score from 0 to 1 with the reasons for it, by rules alone.

The same prompt always has the same score, nothing is learnt and nobody is asked. It runs in a
hook, so no regular expression either.
"""

from rlmnb.capture.words import words_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MODES = ("complexity", "manual", "always", "never")
# From here on a prompt counts as one that is worth breaking down.
THRESHOLD = 0.5
# Rules look at this much of a prompt; nobody types more, and pasted logs say little.
_LONGEST = 64 * 1024
_BREADTH = frozenset(
    [
        "across",
        "all",
        "every",
        "everywhere",
        "each",
        "entire",
        "whole",
        "codebase",
        "repository",
        "repo",
        "throughout",
    ]
)
_DEPTH = frozenset(
    [
        "refactor",
        "refactoring",
        "migrate",
        "migration",
        "redesign",
        "rearchitect",
        "architecture",
        "rewrite",
        "restructure",
        "investigate",
        "debug",
        "diagnose",
        "deadlock",
        "race",
        "optimize",
        "optimise",
        "audit",
        "analyse",
        "analyze",
        "port",
        "integrate",
        "convert",
        "upgrade",
    ]
)
_CAUSE = frozenset(["why", "cause", "explain", "understand", "reason"])
_COMPARISON = frozenset(
    [
        "compare",
        "comparison",
        "versus",
        "vs",
        "difference",
        "differences",
        "between",
        "tradeoff",
        "tradeoffs",
        "alternatives",
    ]
)
_SEQUENCE = frozenset(
    ["then", "after", "afterwards", "next", "finally", "first", "second", "third", "also"]
)
_BULLETS = ("- ", "* ", "+ ", "• ")
_NOT_ENDINGS = frozenset(("", "e", "g", "i"))


class Complexity:
    """A score, and what it is made of: each reason with its share."""

    __slots__ = ("reasons", "score")

    def __init__(self, reasons: "list[tuple[str, float]]") -> None:
        self.reasons = reasons
        self.score = round(min(1.0, sum((share for _, share in reasons), 0.0)), 2)

    @property
    def reason(self) -> str:
        """The reasons in one line, the heaviest first."""
        ordered = sorted(self.reasons, key=lambda pair: -pair[1])
        return "; ".join(f"{why} (+{share:g})" for why, share in ordered) or "a simple request"

    def as_dict(self) -> "dict[str, Any]":
        """Return it for a script."""
        shares = [{"reason": why, "share": share} for why, share in self.reasons]
        return {"complexity_score": self.score, "reasons": shares, "threshold": THRESHOLD}


def complexity_of(prompt: str) -> Complexity:
    """Judge a prompt."""
    text = prompt[:_LONGEST]
    words = words_of(text)
    known = set(words)
    found = [
        _graded(len(words), ((60, 0.1), (200, 0.2)), "words"),
        _graded(len(files_named(text)), ((2, 0.15), (4, 0.3)), "files named"),
        _graded(text.count("?"), ((2, 0.1), (4, 0.2)), "questions"),
        _graded(_steps(text, words), ((3, 0.15), (5, 0.25)), "steps"),
        _named(known & _BREADTH, 0.2, "reaches wide"),
        _named(known & _DEPTH, 0.3, "goes deep"),
        _named(known & _CAUSE, 0.15, "asks for reasons"),
        _named(known & _COMPARISON, 0.15, "compares"),
        ("code or a log pasted in", 0.1) if "```" in text or "Traceback (" in text else None,
    ]
    return Complexity([each for each in found if each is not None])


def is_active(mode: str, score: float, *, before: bool = False) -> bool:
    """Tell whether recursive work is on; `before` is what a person has switched it to."""
    if mode in ("always", "never"):
        return mode == "always"
    return before if mode == "manual" else score >= THRESHOLD


def why_active(mode: str, judged: Complexity) -> str:
    """Say in words why recursive work is on or off."""
    said = {
        "always": "always on",
        "never": "never on",
        "manual": "switched by hand",
    }.get(mode)
    return f"{said}; the prompt: {judged.reason}" if said else judged.reason


def _graded(
    count: int, steps: "tuple[tuple[int, float], ...]", what: str
) -> "tuple[str, float] | None":
    share = max((share for least, share in steps if count >= least), default=0.0)
    return (f"{count} {what}", share) if share else None


def _named(found: "set[str]", share: float, what: str) -> "tuple[str, float] | None":
    return (f"{what}: {', '.join(sorted(found))}", share) if found else None


def _steps(text: str, words: "list[str]") -> int:
    """Count the items of lists, or failing that the words that put one thing after another."""
    items = 0
    for line in text.splitlines():
        start = line.strip()
        number = start.partition(" ")[0]
        numbered = number[:-1].isdigit() and number[-1:] in (".", ")")
        items += start.startswith(_BULLETS) or numbered
    return max(items, sum(word in _SEQUENCE for word in words))


def files_named(text: str) -> "list[str]":
    """Return the words that look like a file: a path, or a name with an ending."""
    found = {}
    for word in text.split():
        bare = word.strip("'\"`()[]{}<>,;:!?*").rstrip(".")
        stem, _, ending = bare.rpartition(".")
        named = (
            0 < len(ending) <= 5
            and ending.isalnum()
            and not ending.isdigit()
            and ending not in _NOT_ENDINGS
            and stem.strip("./") != ""
        )
        path = "/" in bare.strip("/") and any(map(str.isalpha, bare))
        if (named or path) and "://" not in bare and len(bare) <= 256:
            found[bare] = True
    return list(found)
