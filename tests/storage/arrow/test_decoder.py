"""Columns made by the core are those the plain way makes, of one message object each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flaremq.core.arrays import as_array
from flaremq.core.columns import fill_columns
from flaremq.core.scan import topic_hash
from flaremq.core.table import CHECK_BODY_CRC
from flaremq.message.hosts import encode_host
from flaremq.message.message_ext import MessageExt
from flaremq.message.properties import parse_properties
from flaremq.message.record.codec import encode_record
from flaremq.storage.arrow.bodies import BodyReader
from flaremq.storage.arrow.decoder import ColumnDecoder, Rows
from flaremq.storage.arrow.live import SCHEMA
from flaremq.storage.arrow.objects import plain_rows

FULL = pa.schema([*SCHEMA, ("brokerName", pa.string()), ("transactionId", pa.string()), ("bodyError", pa.string())])

numbers = st.integers(-(2**31), 2**31 - 1)
longs = st.integers(-(2**63), 2**63 - 1)
hosts = st.one_of(
    st.sampled_from([encode_host("10.0.0.5:10911"), encode_host("[2001:db8::a]:0")]),
    st.binary(min_size=8, max_size=8),
    st.binary(min_size=20, max_size=20),
)
names = st.sampled_from(["KEYS", "TAGS", "__transactionId__", "a", "é", "", "KEYSX"])
texts = st.text("ab=é 1", max_size=8)
properties = st.one_of(
    st.binary(max_size=60).map(lambda data: data.replace(b"\xff", b"\2").decode("utf-8", "replace").encode()),
    st.lists(st.tuples(names, texts), max_size=20).map(
        lambda pairs: "".join(f"{key}\1{value}\2" for key, value in pairs).encode()
    ),
)
fields = st.fixed_dictionaries(
    {
        "topic": st.text("ab%é", min_size=1, max_size=90).map(str.encode),
        "body": st.binary(max_size=100),
        "properties": properties,
        "queue_id": numbers,
        "queue_offset": longs,
        "born_timestamp": longs,
        "born_host": hosts,
        "store_timestamp": longs,
        "store_host": hosts,
        "flag": numbers,
        "reconsume_times": numbers,
        "prepared_transaction_offset": longs,
        "append_crc": st.booleans(),
    }
)


def rows_of(records: list[bytes]) -> tuple[Any, Rows]:
    """The records one after the other behind a few strange bytes, and where they are."""
    sizes = np.array([len(record) for record in records], np.int64)
    at = 5 + np.cumsum(sizes) - sizes
    messages = [MessageExt(record) for record in records]
    physical = np.array([message.physical_offset for message in messages], np.int64)
    offsets = np.array([message.queue_offset for message in messages], np.int64)
    hashes = np.array([topic_hash(message.topic.encode(), message.queue_id) for message in messages], np.int64)
    return as_array(b"front" + b"".join(records)), Rows(at, physical, sizes, offsets, hashes)


def made(records: list[bytes], schema: pa.Schema = FULL, flags: int = CHECK_BODY_CRC) -> pa.RecordBatch | None:
    log, rows = rows_of(records)
    return ColumnDecoder(schema, broker="b").batch(log, rows, flags=flags, special=0, bodies=None)


def plainly(records: list[bytes], schema: pa.Schema = FULL) -> list[dict[str, Any]]:
    messages = [MessageExt(record) for record in records]
    batches = plain_rows(messages, schema, bodies=BodyReader(), broker="b")
    return [shown(row) for batch in batches for row in rows(batch)]


def rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows with times as numbers: a record may hold any."""
    kinds = [pa.int64() if pa.types.is_timestamp(field.type) else field.type for field in batch.schema]
    arrays = [column.view(kind) for column, kind in zip(batch.columns, kinds, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names).to_pylist()


def shown(row: dict[str, Any]) -> dict[str, Any]:
    if row.get("properties") is not None:
        assert len(row["properties"]) == len(dict(row["properties"])), "a key twice"
        row["properties"] = dict(row["properties"])
    return row


@settings(deadline=None)
@given(st.lists(fields, max_size=6))
def test_columns_are_those_of_the_plain_way(records: list[dict[str, Any]]) -> None:
    stored = [encode_record(physical_offset=1000 * n, **record) for n, record in enumerate(records)]
    batch = made(stored)
    assert batch is not None
    batch.validate(full=True)
    assert [shown(row) for row in rows(batch)] == plainly(stored)


RECORD = {
    "topic": b"TopicTest",
    "body": b"hello",
    "properties": b"TAGS\1TagA\2KEYS\1key1\2",
    "queue_id": 3,
    "queue_offset": 7,
    "physical_offset": 1234,
    "born_timestamp": 1700000000000,
    "born_host": encode_host("192.168.0.1:10000"),
    "store_timestamp": 1700000000123,
    "store_host": encode_host("10.0.0.5:10911"),
}


def record(**changes: Any) -> bytes:
    return encode_record(**(RECORD | changes))


@pytest.mark.parametrize("name", FULL.names)
def test_each_column_can_be_made_alone(name: str) -> None:
    schema = pa.schema([FULL.field(name)])
    stored = [record(queue_offset=n, body=b"%d" % n) for n in range(40)]
    batch = made(stored, schema)
    assert batch is not None
    assert [shown(row) for row in rows(batch)] == plainly(stored, schema)


@pytest.mark.parametrize(
    "data",
    [
        b"".join(b"%c%c%c\1v\2" % (97 + n % 26, 97 + n // 26 % 26, 97 + n // 676) for n in range(5000)),
        b"a\1b\2" * 8000 + b"a\1c\2",
        b"KEYS\1" + b"k" * 32_000 + b"\2",
    ],
)
def test_the_largest_properties_strings_are_read_in_full(data: bytes) -> None:
    batch = made([record(), record(properties=data), record()])
    assert batch is not None
    batch.validate(full=True)
    assert [dict(pairs) for pairs in batch["properties"].to_pylist()][1] == parse_properties(data)
    assert batch["keys"].to_pylist() == ["key1", parse_properties(data).get("KEYS"), "key1"]


def test_what_is_not_as_expected_makes_no_batch() -> None:
    good = [record(queue_offset=n) for n in range(3)]
    log, places = rows_of(good)
    decoder = ColumnDecoder(FULL, broker="b")

    def batch(**changes: Any) -> pa.RecordBatch | None:
        return decoder.batch(log, places._replace(**changes), flags=CHECK_BODY_CRC, special=0, bodies=None)

    assert batch() is not None
    for name in ("physical", "size", "queue_offset", "hashes", "at"):
        assert batch(**{name: getattr(places, name) + np.array([0, 0, 1])}) is None
    for size in (-1, 0, 90, 2**31 - 2, 2**62):
        assert batch(size=np.array([len(good[0]), size, len(good[0])])) is None
    assert batch(hashes=np.empty(0, np.int64), queue_id=3) is not None
    assert batch(hashes=np.empty(0, np.int64), queue_id=4) is None
    for at in (-1, len(log), 2**62):
        assert batch(at=places.at + np.array([0, at - places.at[1], 0])) is None
    assert decoder.batch(log, places, flags=0, special=1, bodies=None) is not None
    assert made([record(sys_flag=1)]) is not None
    log, places = rows_of([record(sys_flag=1)])
    assert decoder.batch(log, places, flags=0, special=1, bodies=None) is None
    assert made([record(topic=b"\xff")], flags=0) is None
    assert made([record(properties=b"a\1\xff\2")]) is None
    damaged = record().replace(b"hello", b"jello")
    assert made([damaged]) is None
    assert made([damaged], flags=0) is not None


def test_memory_of_a_batch_somebody_holds_is_not_written_again() -> None:
    decoder = ColumnDecoder(FULL, broker="b")
    held, expected = [], []
    for number in range(8):
        stored = [record(queue_offset=number, body=b"%d" % number, properties=b"KEYS\1k%d\2" % number)] * 50
        log, places = rows_of(stored)
        batch = decoder.batch(log, places, flags=0, special=0, bodies=None)
        assert batch is not None
        expected.append(plainly(stored))
        held.append(batch if number % 2 else batch.slice(10, 3)["body"])
    for number, (kept, right) in enumerate(zip(held, expected, strict=True)):
        if number % 2:
            assert [shown(row) for row in rows(kept)] == right
        else:
            assert kept.to_pylist() == [row["body"] for row in right[10:13]]


def test_buffers_that_are_too_small_are_refused() -> None:
    log, places = rows_of([record()])
    empty = np.empty(0, np.int64)
    few, none = np.empty(0, np.int32), np.empty(0, np.uint8)
    layout = np.full((11, 4), -1, np.int64)
    cells = np.empty((10, 1), np.int64)

    def fill(layout: Any, ends: Any, texts: Any, cells: Any = cells) -> int:
        return fill_columns(log, *places[:4], empty, 3, 0, 0, cells, layout, ends, texts)[2]

    assert fill(layout, few, none) == 0
    assert fill(layout[:10], few, none) == 1
    assert fill(layout, few, none, empty) == 1
    for column in range(11):
        wanted = layout.copy()
        wanted[column] = 0, 4, 0, 0
        assert fill(wanted, few, np.empty(4, np.uint8)) == 1
        assert fill(wanted, np.empty(1, np.int32), none) == 1
        if column in (0, 1, 2, 4, 5, 6, 7):  # a text of this record is longer than three bytes
            wanted[column, 1] = 3
            assert fill(wanted, np.empty(2, np.int32), np.empty(4, np.uint8)) == 4
