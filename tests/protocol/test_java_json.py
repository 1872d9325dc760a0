"""The dialect: bare integer keys, object keys, references; and texts made to be expensive."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaremq.java_json import integer_keyed, object_keyed, parse_java_json, write_java_json

QUEUE = '{"brokerName":"b","queueId":0,"topic":"T"}'


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{0:5,1:7}", {"0": 5, "1": 7}),
        ('{"a":{ -1 : 5,\n\t2:6}}', {"a": {"-1": 5, "2": 6}}),
        ("{" + QUEUE + ":5}", {QUEUE: 5}),
        ('{"t":{' + QUEUE + ":{0:1},{} : [2]}}", {"t": {QUEUE: {"0": 1}, "{}": [2]}}),
        ('{{"a":"}{\\"]["}:1}', {'{"a":"}{\\"]["}': 1}),
        ('{"a":"{1:2}","b":"{\\"c\\":3}:4"}', {"a": "{1:2}", "b": '{"c":3}:4'}),
        ("{{}:1}", {"{}": 1}),
        ("[]", []),
        ("5", 5),
        ('"订单"', "订单"),
    ],
)
def test_odd_keys_become_texts_and_texts_stay_as_they_are(text: str, value: Any) -> None:
    assert parse_java_json(text) == value
    assert parse_java_json(text.encode()) == value
    assert parse_java_json(memoryview(text.encode())) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"a":1,}',
        '{"a":1 2:3}',
        '{"a": 1:2}',
        "[1:2]",
        "{[1]:2}",
        '{{"a":{"b":1}}:2}',
        "{'a':1}",
        "{a:1}",
        "{1.5:1}",
        '{"a":NaN}',
        '{"a":Infinity}',
        '{"a":1e999}',
        '"\\ud800"',
        '"unended',
        '"unended\\',
        "{} {}",
    ],
)
def test_anything_else_that_json_does_not_know_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_java_json(text)


def test_bytes_that_are_no_utf8_are_refused() -> None:
    with pytest.raises(ValueError):
        parse_java_json(b'{"a":"\xff"}')


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":{"x":1},"b":{"$ref":"$.a"}}', {"a": {"x": 1}, "b": {"x": 1}}),
        ('{"a":[{"x":1},{"$ref":"$.a[0]"}]}', {"a": [{"x": 1}, {"x": 1}]}),
        ('{"a":{"k.1":[7]},"b":{"$ref":"$.a.k\\\\.1"}}', {"a": {"k.1": [7]}, "b": [7]}),
        ('{"a":{"$ref":"$"}}', {"a": None}),
        ('{"a":{"$ref":".."}}', {"a": None}),
        ('{"a":{"b":{"$ref":"$.a"}}}', {"a": {"b": None}}),
        ('{"a":{"$ref":"$.b"},"b":{"$ref":"$.a"}}', {"a": None, "b": None}),
        ('{"a":[1],"b":{"$ref":"$.a[1]"}}', {"a": [1], "b": None}),
        ('{"a":{"$ref":"$.x.y"}}', {"a": None}),
        ('{"a":{"$ref":5}}', {"a": {"$ref": 5}}),
        ('{"a":"$ref"}', {"a": "$ref"}),
    ],
)
def test_references_are_put_back_and_hopeless_ones_are_null(text: str, value: Any) -> None:
    assert parse_java_json(text) == value


def test_a_reference_works_beside_odd_keys() -> None:
    assert parse_java_json('{"a":{0:1},"b":{"$ref":"$.a"}}') == {"a": {"0": 1}, "b": {"0": 1}}


def test_references_cannot_make_a_small_text_large() -> None:
    levels = ['"a0":[1,1,1,1,1,1,1,1]']
    for level in range(1, 40):
        levels.append(f'"a{level}":[{",".join([json.dumps({"$ref": f"$.a{level - 1}"})] * 8)}]')
    value = parse_java_json("{" + ",".join(levels) + "}")
    assert len(write_java_json(value)) < 5_000


def test_a_table_is_too_large_to_be_referred_to() -> None:
    table = {str(number): number for number in range(100)}
    text = json.dumps({"a": table, "b": {"$ref": "$.a"}})
    assert parse_java_json(text)["b"] is None


@pytest.mark.parametrize(
    "text",
    [
        '"' + '\\"' * 200_000,
        '{"' + '\\"' * 200_000,
        "{" * 400_000,
        "[" * 400_000,
        "{1" * 200_000,
        "{ " * 200_000,
        '{"a"}' * 80_000,
        '"a",' * 100_000 + "1:",
        "}" + " " * 400_000,
        "1" * 400_000 + ":",
        '{{"' * 130_000,
    ],
    ids=lambda text: text[:6],
)
def test_hostile_texts_are_refused_without_recursion_or_a_second_look_at_each_byte(text: str) -> None:
    # A parser that tried again at each quote or brace would not come back from these within the test's life.
    with pytest.raises(ValueError):
        parse_java_json(text)


def test_written_keys_are_quoted_bare_or_whole_objects() -> None:
    assert write_java_json({"a": {0: "x"}}) == b'{"a":{"0":"x"}}'
    assert write_java_json({"a": integer_keyed({0: 5, -1: [7]})}) == b'{"a":{0:5,-1:[7]}}'
    assert write_java_json({"a": object_keyed([({"q": 1}, {"n": 0.5})])}) == b'{"a":{{"q":1}:{"n":0.5}}}'
    assert write_java_json(integer_keyed({})) == b"{}"
    assert write_java_json("\x01订/单") == '"\\u0001订/单"'.encode()


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SCALAR = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXT
VALUE = st.recursive(
    SCALAR, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=12
)


@given(VALUE)
def test_what_is_written_reads_back_the_same(value: Any) -> None:
    assert parse_java_json(write_java_json(value)) == value


@given(st.dictionaries(st.integers(-(2**63), 2**63 - 1), VALUE, max_size=5))
def test_maps_with_bare_keys_read_back_with_their_digits(table: dict[int, Any]) -> None:
    assert parse_java_json(write_java_json({"t": integer_keyed(table)})) == {
        "t": {str(key): item for key, item in table.items()}
    }


@given(st.lists(st.tuples(st.dictionaries(TEXT, SCALAR, max_size=3), VALUE), max_size=5))
def test_maps_with_object_keys_read_back_with_the_text_of_the_objects(items: list[tuple[Any, Any]]) -> None:
    expected = {write_java_json(key).decode(): item for key, item in items}
    assert parse_java_json(write_java_json([object_keyed(items)])) == [expected]


@given(st.text(st.sampled_from('{}[]":,\\0a- $'), max_size=60) | st.binary(max_size=60))
def test_arbitrary_texts_parse_or_raise_value_error(text: str | bytes) -> None:
    try:
        parse_java_json(text)
    except ValueError:
        return
