"""Records lying back to back as an Arrow batch: what a pull reply holds."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from flaremq.errors import CorruptionError
from flaremq.message.batch import encode_batch
from flaremq.message.message import Message
from flaremq.message.message_ext import MessageExt
from flaremq.message.sys_flag import INNER_BATCH, NEED_UNWRAP
from flaremq.pipeline.model.columns import schema_of
from flaremq.storage.arrow.bodies import BodyReader, BodyRule
from flaremq.storage.arrow.records import decode_records
from tests.message.records import make_record
from tests.support.store_corpus import write_corpus
from tests.support.store_lab import StoreLab
from tests.support.store_rows import BROKER, row_of


@pytest.fixture
def records(lab: StoreLab) -> list[bytes]:
    lab.open()
    write_corpus(lab, 6, foreign=True)
    lab.store.tick()
    return [bytes(message.record) for message in lab.store.get("orders", 0, 0, max_count=200).messages]


def rows(data: bytes, **how: Any) -> list[dict[str, Any]]:
    found = []
    for batch in decode_records(data, schema_of(how.pop("columns", None)), broker=BROKER, **how):
        batch.validate(full=True)
        found += batch.to_pylist()
    for row in found:
        if "properties" in row:
            row["properties"] = dict(row["properties"])
    return found


def test_every_record_is_a_row(records: list[bytes]) -> None:
    assert rows(b"".join(records)) == [row_of(MessageExt(record)) for record in records]
    assert rows(b"") == []


def test_only_offsets_and_tags_asked_for(records: list[bytes]) -> None:
    every = [row_of(MessageExt(record)) for record in records]
    data = memoryview(b"".join(records))
    assert rows(bytes(data), start=3, end=9, topic="orders", queue_id=0) == every[3:9]
    tagged = rows(bytes(data), tags=frozenset({"zip", "TagA"}))
    assert tagged == [row for row in every if row["tags"] in ("zip", "TagA")]
    (batch,) = decode_records(data, schema_of(["body"]), broker=BROKER)
    assert batch.num_rows == len(every)


@pytest.mark.parametrize("columns", [None, ["body"], ["queueOffset"]])
def test_records_of_another_queue_are_refused(records: list[bytes], columns: list[str] | None) -> None:
    for how in ({"topic": "bills"}, {"queue_id": 3}):
        with pytest.raises(CorruptionError, match="the reply of broker-a"):
            rows(records[0], columns=columns, origin="the reply of broker-a", **how)


def test_damage_is_an_error_or_left_out(records: list[bytes], caplog: pytest.LogCaptureFixture) -> None:
    bad = bytearray(records[1])
    bad[90] ^= 1
    data = records[0] + bytes(bad) + records[2]
    with pytest.raises(CorruptionError, match=r"damaged.*failOnDataLoss=false"):
        rows(data)
    with caplog.at_level(logging.WARNING):
        left = rows(data, fail_on_data_loss=False)
    assert [row["queueOffset"] for row in left] == [0, 2]
    assert "1 damaged" in caplog.text
    assert len(rows(data, columns=["queueOffset"])) == 3  # a body that is not asked for is not checked


@pytest.mark.parametrize("cut", [1, 7, 50])
def test_a_cut_off_end_is_damage(records: list[bytes], cut: int) -> None:
    data = records[0] + records[1]
    with pytest.raises(CorruptionError):
        rows(data[:-cut])
    assert len(rows(data[:-cut], fail_on_data_loss=False)) == 1


def inner_batch(body: bytes, count: int, base: int) -> bytes:
    properties = f"INNER_NUM\x01{count}\x02INNER_BASE\x01{base}\x02".encode()
    return make_record(body=body, properties=properties, queue_offset=base, sys_flag=INNER_BATCH | NEED_UNWRAP)


def test_inner_batch_that_cannot_be_taken_apart_keeps_its_offsets() -> None:
    good = encode_batch([Message("T", b"one"), Message("T", b"two")])
    data = inner_batch(good, 2, 10) + inner_batch(good[:-3], 4, 12) + inner_batch(good, 2, 16)
    found = rows(data, columns=["queueOffset", "body", "bodyError"])
    assert [row["queueOffset"] for row in found] == list(range(10, 18))
    assert [row["body"] for row in found] == [b"one", b"two", b"one", None, None, None, b"one", b"two"]
    assert [row["bodyError"] is None for row in found] == [True, True, True, False, False, False, True, True]


def test_stored_bytes_of_such_a_batch_are_shown_once() -> None:
    data = inner_batch(b"no batch at all", 3, 0)
    found = rows(data, columns=["queueOffset", "body"], bodies=BodyReader(BodyRule("raw")))
    assert [row["body"] for row in found] == [b"no batch at all", None, None]


def test_count_that_an_inner_batch_only_claims_makes_no_millions_of_rows() -> None:
    assert len(rows(inner_batch(b"x", 2**31, 0), columns=["queueOffset"])) == 32_767
