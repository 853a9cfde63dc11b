"""What stands in the place of a dictionary is one, and knows what was asked for."""

from __future__ import annotations

import copy
import os

import pandas
import pytest
from pandas._config.config import _global_config

from rlmnb.kernel.overheard import Environment, Listeners, OptionsOfPandas, Stand

KEYS = {"a": 1, "b": {"c": 2}}
ALL = None
# What is done to a dictionary, and which keys that asks for.
DONE = {
    "get": (lambda d: d.get("a"), {"a"}),
    "get of nothing": (lambda d: d.get("x", 5), {"x"}),
    "item": (lambda d: d["b"]["c"], {"b"}),
    "no item": (lambda d: d["x"], {"x"}),
    "in": (lambda d: "a" in d, {"a"}),
    "set": (lambda d: d.__setitem__("a", 3), set()),
    "set and read": (lambda d: (d.update(a=3), d["a"]), set()),
    "delete": (lambda d: d.__delitem__("a"), {"a"}),
    "delete and read": (lambda d: (d.pop("a"), d.get("a")), {"a"}),
    "pop of nothing": (lambda d: d.pop("x", 7), {"x"}),
    "setdefault": (lambda d: d.setdefault("x", 8), {"x"}),
    "popitem": (lambda d: d.popitem(), ALL),
    "clear": (lambda d: d.clear(), ALL),
    "list": (list, ALL),
    "dict": (dict, ALL),
    "stars": (lambda d: {**d}, ALL),
    "sorted": (lambda d: sorted(d.keys()), ALL),
    "values": (lambda d: list(d.values()), ALL),
    "items": (lambda d: list(d.items()), ALL),
    "length": (len, ALL),
    "truth": (bool, ALL),
    "repr": (repr, ALL),
    "equal": (lambda d: (d == KEYS, d != KEYS), ALL),
    "or": (lambda d: (d | {"y": 1}, {"y": 1} | d), ALL),
    "or in place": (lambda d: d.__ior__({"y": 1}) is None, set()),
    "copy": (lambda d: d.copy(), ALL),
    "deepcopy": (copy.deepcopy, ALL),
    "reversed": (lambda d: list(reversed(d)), ALL),
}


def outcome(does, given):
    try:
        return does(given)
    except KeyError as error:
        return repr(error)


@pytest.mark.parametrize("name", DONE)
def test_it_does_what_a_dictionary_does_and_hears_of_it(name):
    does, asks = DONE[name]
    plain, real = copy.deepcopy(KEYS), copy.deepcopy(KEYS)
    stand = Stand(real)
    assert outcome(does, stand) == outcome(does, plain)
    assert real == plain
    assert (ALL if stand.gone_through else stand.asked) == asks


def test_once_retired_it_keeps_nothing():
    real = {"a": 1}
    stand = Stand(real)
    assert stand["a"] == 1
    stand.retire()
    real["a"] = 2
    assert stand["a"] == stand["a"] == 2
    stand["b"] = 3
    del real["b"]
    assert stand.get("b") is None


def test_the_environment_is_itself_again_and_what_was_set_stays(monkeypatch):
    monkeypatch.setenv("OF_A_TEST", "1")
    ours, data = Environment(), os.environ._data
    ours.listen()
    os.environ["OF_A_TEST"] = "2"
    assert os.environ["OF_A_TEST"] == os.environb[b"OF_A_TEST"].decode() == "2"
    assert os.getenv("NOBODY_HAS_SET") is None
    assert ours.heard() == {"$environ[NOBODY_HAS_SET]"}
    assert os.environ._data is data
    assert os.environ["OF_A_TEST"] == "2"
    ours.listen()
    assert dict(os.environ) == dict(os.environ)
    assert ours.heard() is None


def test_an_environment_that_a_cell_has_put_aside_is_itself_again(monkeypatch):
    ours, real, data = Environment(), os.environ, os.environ._data
    ours.listen()
    monkeypatch.setattr(os, "environ", {})
    ours.heard()
    assert real._data is data


def test_options_that_somebody_keeps_at_hand_stay_the_present_ones():
    ours = OptionsOfPandas()
    ours.listen()
    kept = _global_config["display"]
    with pandas.option_context("display.width", 90):
        assert kept["width"] == 90
    assert kept["precision"] == pandas.get_option("display.precision")
    assert ours.heard() == {"$pandas[display.width]", "$pandas[display.precision]"}
    with pandas.option_context("display.precision", 3):
        assert kept["precision"] == 3


def test_what_a_forked_process_asks_for_nobody_knows():
    ours = Listeners()
    ours.listen()
    if (child := os.fork()) == 0:
        os._exit(0)
    os.waitpid(child, 0)
    assert ours.heard()["$environ"] is None
    ours.listen()
    assert ours.heard()["$environ"] == frozenset()
