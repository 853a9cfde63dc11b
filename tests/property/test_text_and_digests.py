from __future__ import annotations

import json
import os
import subprocess
import sys

import nbformat
from hypothesis import example, given
from hypothesis import strategies as st

from rlmnb import digest, jsontext
from rlmnb.format import migrations, nbjson, state
from rlmnb.format.version import SCHEMA
from rlmnb.store import fold
from tests.property.strategies import json_values, notebooks, text


@given(json_values)
@example({"a": [], "b": {}, "c": [[]], "é": '\u2028\x00"\\'})
@example([1e300, -0.0, 0.1, 1e-9, 123456789012345678])
def test_our_json_is_the_standard_librarys(value):
    assert jsontext.pretty(value) == json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True)
    assert jsontext.compact(value) == json.dumps(
        value, ensure_ascii=False, sort_keys=True, separators=(",", ":")
    )
    assert jsontext.loads(jsontext.pretty(value)) == value
    assert jsontext.loads(f" \n{json.dumps(value)}\t ".encode()) == value


@given(st.text(alphabet='{}[]",:0123456789.eE-+truefalsn \n\\', max_size=30))
def test_our_reader_refuses_what_the_standard_librarys_refuses(doubtful):
    try:
        expected = json.loads(doubtful)
    except ValueError:
        expected = ValueError
    try:
        found = jsontext.loads(doubtful)
    except ValueError:
        found = ValueError
    assert found == expected or (found != found and expected != expected)


BROKEN = ['{"a', '{"a":', '{"a":1', "[1,", '["x', "{1:2}", '"\\u12"', '{"a" 1}', "", "nul", "[1 2]"]


def test_broken_json_is_a_value_error_also_where_json_was_never_imported():
    code = (
        "import sys; from rlmnb import jsontext\n"
        f"for text in {BROKEN!r}:\n"
        "    try: jsontext.loads(text)\n"
        "    except ValueError: continue\n"
        "    print('accepted', text)\n"
        "print('json' in sys.modules)\n"
    )
    repository = os.path.dirname(os.path.dirname(jsontext.__file__))
    code = f"import sys; sys.path.insert(0, {repository!r})\n" + code
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("False\n", "")


@given(st.text(max_size=20))
def test_any_text_can_be_written_and_read_back(value):
    assert jsontext.loads(jsontext.to_bytes(jsontext.pretty([value]))) == [value]
    jsontext.clean_text(value).encode("utf-8")


@given(notebooks())
def test_our_notebook_is_nbformats_byte_for_byte(notebook):
    assert nbjson.notebook_bytes(notebook) == (nbformat.writes(notebook) + "\n").encode()


def shuffled(value):
    if isinstance(value, dict):
        return {key: shuffled(value[key]) for key in reversed(list(value))}
    return [shuffled(item) for item in value] if isinstance(value, list) else value


@given(json_values)
def test_equal_values_have_equal_digests_whatever_the_key_order(value):
    assert digest.of_value(value) == digest.of_value(shuffled(value))
    assert digest.of_value(value) == digest.of_value(json.loads(json.dumps(value)))


@given(json_values, json_values)
def test_different_values_have_different_digests(one, two):
    same = jsontext.compact(jsontext.portable(one)) == jsontext.compact(jsontext.portable(two))
    assert (digest.of_value(one) == digest.of_value(two)) == same


def test_digests_are_equal_from_one_process_to_the_next():
    code = (
        "from rlmnb import digest;"
        "value = {k: [k, 1.5, None, {'n': {'z': 1, 'a': 2}}] for k in {'a', 'b', 'c', 'd', 'e'}};"
        "print(digest.of_value(value), digest.output_hash([{'text': ['a', 'b']}]))"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in range(4)
    }
    assert len(seen) == 1


@given(st.lists(text, max_size=5))
def test_an_output_has_one_digest_however_its_text_is_split(lines):
    whole = [{"output_type": "stream", "name": "stdout", "text": "".join(lines)}]
    split = [{"output_type": "stream", "name": "stdout", "text": lines}]
    assert digest.output_hash(whole) == digest.output_hash(split)


@given(st.binary(max_size=100))
def test_the_small_and_the_large_way_to_hash_agree(data):
    import hashlib

    assert digest.of_bytes(data) == "sha256:" + hashlib.sha256(data).hexdigest()


@given(st.dictionaries(text, json_values))
def test_migrating_the_latest_version_is_the_identity(body):
    latest = {**body, "schema_version": SCHEMA}
    assert migrations.migrate(latest, "here") is latest


objects = st.recursive(
    st.dictionaries(st.sampled_from("abc"), st.none() | st.integers(0, 3), max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner | st.integers(0, 3), max_size=3),
    max_leaves=8,
)


@given(objects, objects)
def test_a_difference_takes_one_object_to_the_other(old, new):
    assert fold.changed(old, {"op": "state", **state.difference(old, new)}) == new
