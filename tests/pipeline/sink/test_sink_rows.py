"""Rows of a sink: what becomes of them, and which are refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flaremq.client.producer.queue_selection import queue_of_key
from flaremq.client.streams.sending import Parcel
from flaremq.errors import InvalidArgumentError
from flaremq.message.batch import decode_batch
from flaremq.message.message import Message
from flaremq.message.properties import find_property, parse_properties
from flaremq.message.write_stream import (
    CHAIN_START,
    NOTHING_STORED,
    DoubtError,
    Search,
    Stored,
    chain_of,
    count_stored,
    link,
    search_stored,
    unique_key,
    unlink,
)
from flaremq.pipeline.sink.names import RESERVED, is_reserved
from flaremq.pipeline.sink.options import parse_sink_options
from flaremq.pipeline.sink.rows import RowRules, check_batch
from flaremq.pipeline.sink.task import LaneKey, SinkTask, TaskIdentity
from flaremq.protocol.bodies.queue import MessageQueue

MAP = pa.map_(pa.string(), pa.string())
TASK = TaskIdentity("query", 7, 3)
RULES = RowRules("T", 4 << 20)


class Collected:
    """A target that keeps what it gets."""

    def __init__(self) -> None:
        self.parcels: dict[LaneKey, list[Parcel]] = {}

    def open(self, lane: LaneKey) -> Stored:
        self.parcels[lane] = []
        return NOTHING_STORED

    def chains(self, lane: LaneKey, numbers: Any) -> dict[int, int]:
        raise AssertionError

    def put(self, lane: LaneKey, parcel: Parcel) -> None:
        self.parcels[lane].append(parcel)

    def finish(self) -> None:
        pass

    def items(self, lane: LaneKey) -> list[tuple[bytes, bytes]]:
        found = [item for parcel in self.parcels[lane] for item in decode_batch(parcel.body)]
        return [(bytes(item.body), bytes(item.properties)) for item in found]


def write(*batches: pa.RecordBatch, rules: RowRules = RULES, request_bytes: int = 4096) -> Collected:
    target = Collected()
    SinkTask(target, TASK, rules, request_bytes=request_bytes).write(batches)
    return target


def batch(rows: list[dict[str, Any]], **types: pa.DataType) -> pa.RecordBatch:
    kinds = {"body": pa.binary(), "topic": pa.string(), "tags": pa.string(), "keys": pa.string(), "properties": MAP}
    kinds |= {"queueId": pa.int32(), "delayLevel": pa.int32()} | types
    names = [name for name in kinds if any(name in row for row in rows)]
    return pa.record_batch({name: pa.array([row.get(name) for row in rows], kinds[name]) for name in names})


TEXT = st.text(st.characters(min_codepoint=3, exclude_categories=("Cs",)), min_size=1, max_size=12)
NAME = TEXT.filter(lambda name: not is_reserved(name))
ROW = st.fixed_dictionaries(
    {"body": st.binary(min_size=1, max_size=60)},
    optional={
        "tags": st.none() | st.just("") | TEXT,
        "keys": st.none() | TEXT,
        "properties": st.none() | st.dictionaries(NAME, TEXT, max_size=3).map(lambda d: list(d.items())),
        "delayLevel": st.none() | st.integers(0, 18),
    },
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(ROW, min_size=1, max_size=30), st.integers(200, 2000))
def test_rows_become_the_messages_a_producer_would_send(rows: list[dict[str, Any]], request_bytes: int) -> None:
    target = write(batch(rows), request_bytes=request_bytes)
    for is_delayed in (False, True):
        lane = LaneKey("T", -1, is_delayed)
        mine = [row for row in rows if (row.get("delayLevel") or 0) > 0] if is_delayed else rows
        mine = mine if is_delayed else [row for row in rows if not row.get("delayLevel")]
        items = target.items(lane) if lane in target.parcels else []
        assert len(items) == len(mine)
        chain = CHAIN_START
        for number, (row, (body, properties)) in enumerate(zip(mine, items, strict=True)):
            message = Message(
                "T",
                row["body"],
                tags=row.get("tags"),
                keys=row.get("keys"),
                properties=dict(row.get("properties") or ()),
                delay_level=row.get("delayLevel") or 0,
            )
            assert body == row["body"]
            key = unique_key(lane.stem(TASK), number)
            expected = message.encoded_properties() + f"UNIQ_KEY\x01{key}\x02FMQ_CHAIN\x01".encode()
            assert properties[: len(expected)] == expected and len(properties) == len(expected) + 17
            assert parse_properties(properties)["UNIQ_KEY"] == key
            content = unlink(chain_of(properties), chain)
            assert link(chain, content) == chain_of(properties)
            chain = chain_of(properties)
        for parcel in target.parcels.get(lane, []):
            assert len(parcel.body) <= request_bytes or parcel.count == 1


def test_equal_rows_have_equal_hashes_and_others_do_not() -> None:
    rows = [{"body": body, "tags": tags} for body in (b"a", b"b", b"ab" * 9, b"ab" * 8) for tags in ("", "x", "y")]
    items = write(batch(rows)).items(LaneKey("T", -1, False))
    chain, hashes = CHAIN_START, []
    for _, properties in items:
        hashes.append(unlink(chain_of(properties), chain))
        chain = chain_of(properties)
    assert len(set(hashes)) == len(rows)


def test_string_bodies_are_utf8_and_lists_of_keys_are_joined() -> None:
    rows = [{"body": "é", "keys": ["a", "b"]}, {"body": "z", "keys": None}, {"body": "y", "keys": []}]
    items = write(batch(rows, body=pa.string(), keys=pa.list_(pa.string()))).items(LaneKey("T", -1, False))
    assert [body for body, _ in items] == ["é".encode(), b"z", b"y"]
    assert [find_property(properties, b"KEYS") for _, properties in items] == [b"a b", None, None]


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.field("element", pa.string(), nullable=False)), pa.list_(pa.large_string())]
)
def test_lists_of_keys_come_in_several_arrow_types(kind: pa.DataType) -> None:
    items = write(batch([{"body": b"x", "keys": ["a", "b"]}], keys=kind)).items(LaneKey("T", -1, False))
    assert find_property(items[0][1], b"KEYS") == b"a b"


def test_large_arrow_types_are_read_too() -> None:
    kinds = {
        "body": pa.large_string(),
        "tags": pa.large_string(),
        "topic": pa.large_string(),
        "keys": pa.large_string(),
    }
    kinds["properties"] = pa.map_(pa.large_string(), pa.large_string())
    row = {"body": "x", "tags": "t", "topic": "A", "keys": "k", "properties": [("a", "b")]}
    items = write(batch([row, {"body": "y"}], **kinds)).items(LaneKey("A", -1, False))
    assert items[0][1].startswith(b"a\x01b\x02KEYS\x01k\x02TAGS\x01t\x02UNIQ_KEY")


def test_sliced_arrow_arrays_are_read_from_their_own_start() -> None:
    rows = [
        {"body": b"%d" % n, "tags": f"t{n}", "properties": [("n", str(n))], "topic": f"T{n % 2}"} for n in range(10)
    ]
    whole = batch(rows)
    target = write(whole.slice(3, 4))
    assert [body for body, _ in target.items(LaneKey("T1", -1, False))] == [b"3", b"5"]
    assert [find_property(p, b"n") for _, p in target.items(LaneKey("T0", -1, False))] == [b"4", b"6"]
    assert [find_property(p, b"TAGS") for _, p in target.items(LaneKey("T0", -1, False))] == [b"t4", b"t6"]


def test_rows_go_into_lanes_by_topic_queue_and_delay_in_their_order() -> None:
    rows = [
        {"body": b"%d" % n, "topic": ("A", "B", None)[n % 3], "queueId": (None, 0, 1)[n // 3 % 3]} for n in range(90)
    ]
    target = write(batch(rows), rules=RowRules("C", 4 << 20), request_bytes=1024)
    assert len(target.parcels) == 9
    for lane in target.parcels:
        expected = [
            row["body"]
            for row in rows
            if (row["topic"] or "C") == lane.topic
            and (-1 if row["queueId"] is None else row["queueId"]) == lane.queue_id
        ]
        assert [body for body, _ in target.items(lane)] == expected


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"body": None}, "no body"),
        ({"body": b""}, "empty body"),
        ({"body": b"x" * 2000}, "larger than maxMessageSize 1000"),
        ({"body": b"x", "topic": "no blanks"}, "not legal"),
        ({"body": b"x", "topic": "SCHEDULE_TOPIC_XXXX"}, "RocketMQ's own"),
        ({"body": b"x", "topic": "%RETRY%g"}, "RocketMQ's own"),
        ({"body": b"x", "tags": "a\x01b"}, "separates"),
        ({"body": b"x", "keys": "a\x02b"}, "separates"),
        ({"body": b"x", "keys": "a\x00b"}, "separates"),
        ({"body": b"x", "properties": [("UNIQ_KEY", "1")]}, "reservedProperties=drop"),
        ({"body": b"x", "properties": [("a\x01", "1")]}, "separates"),
        ({"body": b"x", "properties": [("a", None)]}, "empty or null"),
        ({"body": b"x", "properties": [("", "b")]}, "empty or null"),
        ({"body": b"x", "properties": [("a", "")]}, "empty or null"),
        ({"body": b"x", "queueId": -1}, "queueId -1"),
        ({"body": b"x", "delayLevel": -2}, "delayLevel -2"),
        ({"body": b"x", "delayLevel": 99}, "row 1 has delayLevel 99, levels are 1 to 18"),
    ],
)
def test_a_bad_row_stops_its_whole_batch(row: dict[str, Any], words: str) -> None:
    rows = [{"body": b"good"}, row, {"body": b"good"}]
    target = Collected()
    task = SinkTask(target, TASK, RowRules("T", 1000), request_bytes=4096)
    with pytest.raises(InvalidArgumentError, match=words):
        task.write([batch(rows)])
    assert target.parcels == {}


def test_properties_that_do_not_fit_a_record_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="bytes of properties"):
        check_batch(batch([{"body": b"x", "properties": [("a", "b" * 32_700)]}]), RULES)


@pytest.mark.parametrize("keys", [["a b"], [""], [None]])
def test_keys_of_a_list_are_single_words(keys: list[str | None]) -> None:
    rows = [{"body": b"x", "keys": ["a", "b"]}, {"body": b"x", "keys": ["c", *keys]}]
    with pytest.raises(InvalidArgumentError, match=r"row 1 .*keys"):
        check_batch(batch(rows, keys=pa.list_(pa.string())), RULES)


def test_a_tab_is_part_of_its_key() -> None:
    checked = check_batch(batch([{"body": b"x", "keys": ["a\tb", "c"]}], keys=pa.list_(pa.string())), RULES)
    assert bytes(checked.properties.data) == b"KEYS\x01a\tb c\x02"


def test_bytes_under_a_null_do_not_hide_what_is_wrong_with_a_later_row() -> None:
    tags = pa.array([b"\x01", b"fine", b"a\x02b"]).view(pa.string())
    hidden = pa.Array.from_buffers(pa.string(), 3, [pa.py_buffer(b"\x06"), *tags.buffers()[1:]])  # the first is null
    with pytest.raises(InvalidArgumentError, match=r"row 2 has tags b'a\\x02b' with a byte 0, 1 or 2"):
        check_batch(pa.record_batch({"body": pa.array([b"x"] * 3), "tags": hidden}), RULES)


@pytest.mark.parametrize("name", ["topic", "tags", "keys"])
def test_texts_that_are_no_utf8_are_refused(name: str) -> None:
    texts = pa.array([b"good", b"\xed\xa0\x80"]).view(pa.string())
    with pytest.raises(InvalidArgumentError, match=rf"row 1 has {name} .*no UTF-8"):
        check_batch(pa.record_batch({"body": pa.array([b"x"] * 2), name: texts}), RULES)


def test_a_row_without_topic_needs_the_option() -> None:
    with pytest.raises(InvalidArgumentError, match="row 1 has no topic"):
        check_batch(batch([{"body": b"x", "topic": "A"}, {"body": b"x"}]), RowRules(None, 1000))


def test_reserved_properties_can_be_left_out() -> None:
    rows = [{"body": b"x", "properties": [(name, "1") for name in sorted(RESERVED)] + [("own", "2")]}, {"body": b"y"}]
    checked = check_batch(batch(rows), RowRules("T", 10_000, drop_reserved=True))
    assert bytes(checked.properties.data) == b"own\x012\x02"
    assert checked.properties.offsets.tolist() == [0, 6, 6]


@pytest.mark.parametrize("first", [0, 1, 1000])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8, 9, 1000, 65_537])
def test_the_search_finds_the_end_of_a_stream_in_a_few_questions(count: int, first: int) -> None:
    asked: list[Sequence[int]] = []

    def stored_of(numbers: Sequence[int]) -> set[int]:
        asked.append(numbers)
        return {number for number in numbers if number < first + count}

    assert search_stored(stored_of, first) == Search(first + count)
    assert len(asked) <= count.bit_length() + 1 and len(asked[0]) == 33 - bool(first)


@pytest.mark.parametrize(("gone", "count"), [(1, 2), (1, 100), (50, 100), (500, 70_000), (5, 10)])
def test_a_stream_whose_beginning_is_gone_is_not_taken_for_a_new_one(gone: int, count: int) -> None:
    with pytest.raises(DoubtError, match="message 0 of an earlier attempt is not found in the store, but message"):
        count_stored(lambda number: gone <= number < count, "the store")


def test_links_of_a_chain_can_be_undone() -> None:
    values = np.random.default_rng(5).integers(0, 2**63, 200).tolist()
    for chain, content in zip(values, reversed(values), strict=True):
        assert unlink(link(chain, content), chain) == content


def test_delay_levels_end_where_the_table_of_the_store_does(tmp_path: Path) -> None:
    assert parse_sink_options({"nameServer": "h:1"}).row_rules.delay_level_max == 18
    told = {"path": str(tmp_path), "messageDelayLevel": "1s 5s"}
    assert parse_sink_options(told).row_rules.delay_level_max == 2
    rules = RowRules("T", 1000, delay_level_max=parse_sink_options(told).row_rules.delay_level_max)
    with pytest.raises(InvalidArgumentError, match="row 0 has delayLevel 3, levels are 1 to 2"):
        check_batch(batch([{"body": b"x", "delayLevel": 3}]), rules)


def test_rows_of_an_ordering_key_go_to_the_queue_of_ordered_sends() -> None:
    keys = ["customer-1", None, "é", "customer-1", "customer-2"]
    queues = [MessageQueue("T", "a", number) for number in range(8)]
    batch = pa.record_batch({"body": [b"x"] * 5, "orderKey": keys, "queueId": pa.array([None] * 4 + [7], pa.int32())})
    rules = RowRules("T", 4 << 20, queues=8)
    expected = [-1 if key is None else queue_of_key(queues, key).queue_id for key in keys[:4]]
    assert check_batch(batch, rules).queue_ids.tolist() == [*expected, 7]
