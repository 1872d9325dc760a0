"""The digest of rows: blind to order and cut, not to any change."""

from __future__ import annotations

import random
import zlib

import numpy as np
import pyarrow as pa
import pytest

from flaremq.errors import InvalidArgumentError
from flaremq.pipeline.archive.row_digest import (
    DIGEST_COLUMNS,
    FIELDS,
    RowDigest,
    body_crcs,
    digest_batch,
    digest_numbers,
    properties_hashes,
)
from flaremq.pipeline.model.columns import SCHEMA
from flaremq.pipeline.model.spans import QueueRef
from tests.pipeline.memory_source import row

QUEUE = QueueRef("orders", "broker-a", 3)
ROWS = [row(QUEUE, offset) for offset in range(40)]
BATCH = pa.RecordBatch.from_pylist(ROWS, SCHEMA)


def test_order_and_cut_do_not_count() -> None:
    whole = digest_batch(BATCH)
    assert whole.count == 40
    order = list(range(40))
    random.Random(5).shuffle(order)
    shuffled = BATCH.take(pa.array(order))
    assert digest_batch(shuffled) == whole
    parts = [digest_batch(shuffled.slice(start, 7)) for start in range(0, 40, 7)]
    assert sum(parts, RowDigest()) == whole
    assert whole - parts[0] == sum(parts[1:], RowDigest())
    assert RowDigest.from_text(40, whole.text) == whole


@pytest.mark.parametrize("column", DIGEST_COLUMNS)
def test_a_change_in_any_column_counts(column: str) -> None:
    changed = dict(ROWS[7])
    value = changed[column]
    if column == "body":
        changed[column] = value[:-1] + b"?"
    elif column == "properties":
        changed[column] = [*value[:-1], ("region", "us")]
    else:
        changed[column] = value + (1000 if column.endswith("Timestamp") else 1)
    assert digest_batch(pa.RecordBatch.from_pylist([*ROWS[:7], changed, *ROWS[8:]], SCHEMA)) != digest_batch(BATCH)


def test_order_of_properties_does_not_count_and_their_pairing_does() -> None:
    kind = pa.map_(pa.string(), pa.string())
    maps = pa.array([[("a", "1"), ("b", "2")], [("b", "2"), ("a", "1")], [("a", "2"), ("b", "1")], [], None], kind)
    same, also, other, empty, absent = properties_hashes(maps).tolist()
    assert same == also != other and empty == absent == 0
    assert properties_hashes(maps.slice(1, 2)).tolist() == [also, other]


def test_body_checksum_is_that_of_a_record() -> None:
    bodies = pa.array([b"", b"a", b"x" * 100, bytes(range(256)) * 9], pa.binary())
    expected = [zlib.crc32(body) & 0x7FFFFFFF for body in bodies.to_pylist()]
    assert body_crcs(bodies).tolist() == expected
    assert body_crcs(bodies.slice(1, 2)).tolist() == expected[1:3]


def test_numbers_alone_give_the_same_digest() -> None:
    fields = np.array(
        [
            [value[name] for name in ("queueId", "queueOffset", "physicalOffset", "storeSize", "flag", "sysFlag")]
            + [value["bornTimestamp"] // 1000, value["storeTimestamp"] // 1000, value["reconsumeTimes"]]
            + [zlib.crc32(value["body"]) & 0x7FFFFFFF, 0]
            for value in ROWS
        ],
        np.int64,
    ).T.copy()
    fields[-1] = properties_hashes(BATCH.column("properties"))
    assert len(fields) == len(FIELDS)
    assert digest_numbers(fields) == digest_batch(BATCH)


def test_no_rows_have_the_neutral_digest() -> None:
    assert digest_batch(BATCH.slice(0, 0)) == RowDigest()
    with pytest.raises(InvalidArgumentError, match="no row digest"):
        RowDigest.from_text(1, "12")
