"""Offsets as one value: JSON both ways, special numbers, queues that are not there."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaremq.errors import InvalidArgumentError, NotFoundError
from flaremq.pipeline.model.spans import QueueExtent, QueueRef
from flaremq.pipeline.planning.offsets import (
    EARLIEST,
    LATEST,
    brokers_named,
    from_nested,
    parse_offsets,
    resolve,
    resolve_time,
    to_json,
    to_nested,
)

QUEUES = [QueueRef("orders", "b", 0), QueueRef("orders", "b", 1), QueueRef("users", "b", 0)]
EXTENTS = [QueueExtent(queue, 10, 20) for queue in QUEUES]

queues = st.builds(QueueRef, st.text(min_size=1), st.text(min_size=1), st.integers(0, 2**31 - 1))


@given(st.dictionaries(queues, st.integers(-2, 2**63 - 1)))
def test_json_gives_the_value_back(offsets: dict[QueueRef, int]) -> None:
    assert from_nested(json.loads(to_json(offsets))) == offsets
    assert from_nested(to_nested(offsets)) == offsets


def test_the_order_of_keys_is_fixed() -> None:
    offsets = {QueueRef("b", "x", 10): 1, QueueRef("b", "x", 9): 2, QueueRef("a", "y", 0): 3}
    assert to_json(offsets) == '{"a":{"y":{"0":3}},"b":{"x":{"9":2,"10":1}}}'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("soon", "startingOffsets='soon' is neither earliest nor latest nor JSON"),
        ("[1]", "holds \\[1\\] where an object is wanted"),
        ('{"orders": 3}', "topic 'orders' holds 3"),
        ('{"orders": {"b": {"x": 3}}}', "queue 'x' of topic 'orders' is no queue number"),
        ('{"orders": {"b": {"0": -3}}}', "offset -3 of queue orders/b/0"),
        ('{"orders": {"b": {"0": "3"}}}', "offset '3' of queue"),
        ('{"orders": {"b": {"0": true}}}', "offset True of queue"),
    ],
)
def test_a_bad_value_is_named(text: str, sentence: str) -> None:
    with pytest.raises(InvalidArgumentError, match=sentence):
        parse_offsets(text, what="startingOffsets")


def test_words_and_numbers_resolve_against_what_is_held() -> None:
    assert parse_offsets("Earliest", what="x") == EARLIEST
    assert set(resolve(EARLIEST, EXTENTS, otherwise=LATEST, what="x").values()) == {10}
    wanted = parse_offsets('{"orders": {"b": {"0": -1, "1": 15}}}', what="x")
    assert resolve(wanted, EXTENTS, otherwise=EARLIEST, what="x") == dict(zip(QUEUES, (20, 15, 10), strict=True))


def test_an_offset_that_is_not_held_is_left_to_the_check() -> None:
    assert resolve({QUEUES[0]: 3}, EXTENTS, otherwise=EARLIEST, what="x")[QUEUES[0]] == 3


@pytest.mark.parametrize(
    ("queue", "sentence"),
    [
        (QueueRef("order", "b", 0), "names topic 'order', which is not among those read: orders, users"),
        (QueueRef("orders", "c", 0), "names broker 'c'; topic 'orders' is on b"),
        (QueueRef("orders", "b", 7), "names queue 7; topic 'orders' on 'b' has 0, 1"),
    ],
)
def test_a_queue_that_is_not_there_is_an_error(queue: QueueRef, sentence: str) -> None:
    with pytest.raises(NotFoundError, match=sentence):
        resolve({queue: 1}, EXTENTS, otherwise=EARLIEST, what="startingOffsets")


def test_times_resolve_within_what_is_held() -> None:
    assert set(resolve_time(5, EXTENTS, lambda queue, ms: ms).values()) == {10}
    assert set(resolve_time(15, EXTENTS, lambda queue, ms: ms).values()) == {15}
    assert set(resolve_time(500, EXTENTS, lambda queue, ms: ms).values()) == {20}


def test_brokers_are_found_in_offsets() -> None:
    assert brokers_named('{"t": {"a": {"0": 1}, "b": {"0": 1}}}') == {"a", "b"}
    assert brokers_named("latest") == set()
    assert brokers_named("") == set()
