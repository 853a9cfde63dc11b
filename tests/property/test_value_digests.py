"""The digest of a value: equal for equal values in any process, different for different ones."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rlmnb.kernel.canonical import Walk
from rlmnb.kernel.state import StateStore

TEXTS = st.text(max_size=4) | st.binary(max_size=4)
ATOMS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS
HASHABLE = st.recursive(
    ATOMS, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=4
)
VALUES = st.recursive(
    ATOMS | st.sets(HASHABLE, max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(HASHABLE, inner, max_size=3)
        | st.tuples(inner, inner)
    ),
    max_leaves=10,
)


def digest(value: Any) -> str:
    walk = Walk({"x": value}, lambda: "")
    walk.variable("x")
    assert walk.problem is None
    return walk.digest()


@given(VALUES)
def test_a_copy_has_the_same_digest(value: Any) -> None:
    assert digest(copy.deepcopy(value)) == digest(value)


@given(st.lists(HASHABLE, max_size=6))
def test_the_order_of_a_set_does_not_count(items: list[Any]) -> None:
    backwards: set[Any] = set()
    for item in items[::-1]:
        backwards.add(item)
    if repr(sorted(map(repr, set(items)))) == repr(sorted(map(repr, backwards))):
        assert digest(set(items)) == digest(backwards)


@given(VALUES, VALUES)
def test_different_values_have_different_digests(one: Any, other: Any) -> None:
    if repr(one) != repr(other) and one != other:
        assert digest(one) != digest(other)


@given(st.lists(st.integers()))
def test_sharing_is_part_of_a_value(items: list[int]) -> None:
    assert digest([items, items]) != digest([items, list(items)])


@given(VALUES)
def test_what_is_stored_comes_back_with_its_digest(tmp_path_factory: Any, value: Any) -> None:
    store = StateStore(str(tmp_path_factory.getbasetemp() / "objects"), b"k" * 32)
    name = store.save({"x": value}, ("x",), 1 << 30)
    assert name is not None
    back = store.load({}, name, str)["x"]
    assert digest(back) == digest(value)


SCRIPT = """
import collections, dataclasses, datetime, decimal, enum, fractions, functools, pathlib, pickle, sys
from rlmnb.kernel.canonical import Walk
namespace = vars(sys.modules["__main__"])
exec('''
class Plain:
    shared = {"a", "b", "c"}
    def __init__(self): self.names = {"x", "y", "z"}
    def method(self): return sorted(self.names)
@dataclasses.dataclass
class Record:
    x: int = 1
    tags: list = dataclasses.field(default_factory=list)
class Colour(enum.Enum):
    RED = 1
Point = collections.namedtuple("Point", "a b")
def outer(n):
    def inner(x, y={"p", "q"}): return x + n
    return inner
@functools.lru_cache
def cached(x): return x
values = {
    "set": {"one", "two", "three"}, "nested": {"k": [frozenset({"a", "b"}), (1, "x")]},
    "plain": Plain, "instance": Plain(), "bound": Plain().method, "record": Record,
    "made": Record(3),
    "colour": Colour, "member": Colour.RED, "point": Point, "here": Point(1, 2), "inner": outer(3),
    "cached": cached, "lambda": lambda x: {"u", "v"}, "partial": functools.partial(max, {"m": 1}),
    "date": datetime.datetime(2026, 1, 2), "decimal": decimal.Decimal("1.50"),
    "fraction": fractions.Fraction(1, 3), "path": pathlib.PurePosixPath("a/b"),
    "counter": collections.Counter("hello"), "deque": collections.deque([1, 2], maxlen=3),
    "default": collections.defaultdict(list, a=[1]), "bytes": bytearray(b"x"), "complex": 1j,
}
''', namespace)
for name, value in namespace["values"].items():
    walk = Walk(namespace, lambda: "token")
    walk.value(value)
    print(name, walk.problem, walk.digest())
"""


def test_digests_are_the_same_in_every_process() -> None:
    shown = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout.splitlines()
        for seed in ("1", "2", "random")
    ]
    assert len(shown[0]) == 24
    assert shown[0] == shown[1] == shown[2]
    assert [line for line in shown[0] if " None " not in line] == []
    assert len({line.rsplit(" ", 1)[1] for line in shown[0]}) == len(shown[0])


def test_pickle_would_not_have_done() -> None:
    """Guard the reason for walking: these equal values have different pickles."""
    text = "".join(["sha", "red"])
    assert pickle.dumps([text, text]) != pickle.dumps([text, "".join(["sha", "red"])])
    assert digest([text, text]) == digest([text, "".join(["sha", "red"])])
