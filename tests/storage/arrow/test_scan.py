"""Queues as Arrow batches and as bytes, and batches from columns: the same messages as by ``get`` and ``put``."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import pytest

from flaremq.errors import InvalidArgumentError
from flaremq.message.message import Message
from flaremq.message.message_ext import MessageExt
from flaremq.storage.message_store import MessageStore
from flaremq.storage.queue.consume_queue import UNIT
from flaremq.storage.status import PutMessageStatus
from tests.support.store_corpus import append_foreign, raw_form, write_corpus
from tests.support.store_lab import TOPIC, StoreLab

TIMES = ("bornTimestamp", "storeTimestamp")


def everything(store: MessageStore, topic: str, queue_id: int, low: int = 0) -> list[MessageExt]:
    found: list[MessageExt] = []
    offset = max(low, store.min_offset(topic, queue_id))
    while offset < store.max_offset(topic, queue_id):
        result = store.get(topic, queue_id, offset)
        found += result.messages
        offset = result.next_offset
    return found


def row_of(message: MessageExt) -> dict[str, Any]:
    return {
        "topic": message.topic,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "physicalOffset": message.physical_offset,
        "storeSize": message.size,
        "msgId": message.message_id,
        "tags": message.tags,
        "keys": message.properties.get("KEYS"),
        "body": message.body,
        "properties": message.properties,
        "flag": message.flag,
        "sysFlag": message.sys_flag,
        "bornTimestamp": message.born_timestamp,
        "bornHost": message.born_host,
        "storeTimestamp": message.store_timestamp,
        "storeHost": message.store_host,
        "reconsumeTimes": message.reconsume_times,
        "preparedTransactionOffset": message.prepared_transaction_offset,
    }


def scanned(store: MessageStore, topic: str = TOPIC, queue_id: int = 0, **scan: Any) -> list[dict[str, Any]]:
    rows = []
    for batch in store.scan(topic, queue_id, **scan):
        batch.validate(full=True)
        for row in batch.to_pylist():
            if "properties" in row:
                row["properties"] = dict(row["properties"])
            for name in TIMES:
                if name in row:
                    row[name] = round(row[name].timestamp() * 1000)
            rows.append(row)
    return rows


@pytest.mark.parametrize("foreign", [False, True])
@pytest.mark.parametrize("store_ip", ["127.0.0.1", "2001:db8::1"])
def test_scan_gives_the_fields_that_get_gives(lab: StoreLab, foreign: bool, store_ip: str) -> None:
    store = lab.open(broker_ip1=store_ip)
    write_corpus(lab, foreign=foreign)
    for topic, queue_id in store.queues():
        expected = [row_of(message) for message in everything(store, topic, queue_id)]
        assert scanned(store, topic, queue_id) == expected


def test_scan_takes_a_range_of_offsets(lab: StoreLab) -> None:
    store = lab.open()
    lab.put_many(50)
    for start, end, expected in [(0, 10, range(10)), (45, None, range(45, 50)), (-5, 3, range(3)), (60, 70, ())]:
        rows = scanned(store, start=start, end=end, columns=["queueOffset"])
        assert [row["queueOffset"] for row in rows] == list(expected)


def test_scan_of_an_unknown_queue_is_empty(lab: StoreLab) -> None:
    assert list(lab.open().scan("nowhere", 0)) == []


def test_scan_gives_only_the_columns_asked_for_in_that_order(lab: StoreLab) -> None:
    store = lab.open()
    lab.put(b"x", tags="t")
    (batch,) = store.scan(TOPIC, 0, columns=["tags", "queueOffset"])
    assert batch.schema.names == ["tags", "queueOffset"]
    with pytest.raises(InvalidArgumentError, match="nonsense"):
        list(store.scan(TOPIC, 0, columns=["nonsense"]))


@pytest.mark.parametrize("compression", [0x001, 0x301], ids=["old zlib", "zlib"])
def test_scan_inflates_compressed_bodies(lab: StoreLab, compression: int) -> None:
    store = lab.open()
    lab.put(b"plain")
    store.put(Message(TOPIC, zlib.compress(b"words " * 1000)), sys_flag=compression)
    assert [row["body"] for row in scanned(store)] == [b"plain", b"words " * 1000]


def test_scan_starts_where_the_log_starts(lab: StoreLab) -> None:
    store = lab.open()
    lab.fill_files(3)
    store.delete_expired(force=True)
    low = store.min_offset(TOPIC, 0)
    rows = scanned(store, columns=["queueOffset"])
    assert [row["queueOffset"] for row in rows] == list(range(low, store.max_offset(TOPIC, 0)))


def test_scan_leaves_out_what_get_leaves_out(lab: StoreLab) -> None:
    store = lab.open()
    results = lab.put_many(6)
    buffer = store._commit_log.files.files[0].buffer
    buffer[results[2].physical_offset + 90] ^= 0xFF
    assert [row["queueOffset"] for row in scanned(store)] == [0, 1, 3, 4, 5]
    buffer[results[2].physical_offset + 90] ^= 0xFF


def test_damage_that_a_scan_leaves_out_is_counted_and_told(lab: StoreLab, caplog: pytest.LogCaptureFixture) -> None:
    store = lab.open()
    results = lab.put_many(6)
    buffer = store._commit_log.files.files[0].buffer
    buffer[results[2].physical_offset + 90] ^= 0xFF
    scanned(store)
    buffer[results[2].physical_offset + 90] ^= 0xFF
    assert store.statistics()["damagedReads"] >= 1
    assert "1 damaged message" in caplog.text


@pytest.mark.parametrize("columns", [None, ["queueOffset", "body"], ["queueOffset"]])
def test_scan_repairs_units_that_get_repairs(lab: StoreLab, columns: list[str] | None) -> None:
    store = lab.open()
    results = lab.put_many(9)
    queue = store._queues.simple[(TOPIC, 0)]
    queue.replace(0, UNIT.pack(results[5].physical_offset, results[5].size, 0))  # of another message
    queue.replace(3, bytes(UNIT.size))
    queue.replace(4, UNIT.pack(2**50, 100, 7))  # of no file
    queue.replace(8, UNIT.pack(results[8].physical_offset + 1, results[8].size, 0))
    assert [row["queueOffset"] for row in scanned(store, columns=columns)] == list(range(9))
    assert store.statistics()["repairedUnits"] == 4
    assert queue.unit(4) == (results[4].physical_offset, results[4].size, 0)


def test_scan_skips_filler(lab: StoreLab) -> None:
    store = lab.open()
    store._writer.queue_offsets.setdefault(TOPIC, {})[0] = 7
    lab.put(b"seven")
    store._writer.queue_offsets[TOPIC][0] = 12
    lab.put(b"twelve")
    assert [row["queueOffset"] for row in scanned(store)] == [7, 12]
    lab.broken_on_purpose = True


def test_scan_reads_properties_that_are_not_utf8_as_get_does(lab: StoreLab) -> None:
    store = lab.open()
    lab.put(b"before", keys="k")
    append_foreign(store, b"KEYS\x01\xff\xfe\x02TAGS\x01\xc3(\x02", lab.clock.now_ms())
    lab.odd_text = True
    lab.put(b"after", tags="t")
    assert scanned(store) == [row_of(message) for message in everything(store, TOPIC, 0)]


def test_scan_takes_the_last_of_a_repeated_property(lab: StoreLab) -> None:
    store = lab.open()
    store.put_form(raw_form(TOPIC, b"KEYS\x01a\x02TAGS\x01x\x02KEYS\x01b\x02TAGS\x01y\x02"))
    assert scanned(store) == [row_of(message) for message in everything(store, TOPIC, 0)]
    assert scanned(store)[0]["keys"] == "b"


# Records as bytes


@pytest.mark.parametrize("max_bytes", [None, 1, 500, 5_000])
@pytest.mark.parametrize("max_count", [1, 7, 32])
def test_records_as_bytes_are_the_records_of_get(lab: StoreLab, max_count: int, max_bytes: int | None) -> None:
    store = lab.open()
    write_corpus(lab, 6)
    for topic, queue_id in store.queues():
        offset, seen = 0, []
        while offset < store.max_offset(topic, queue_id):
            data, count, next_offset = store.get_bytes(topic, queue_id, offset, max_count, max_bytes=max_bytes)
            assert 1 <= count <= max_count and next_offset > offset
            assert max_bytes is None or count == 1 or len(data) <= max_bytes
            seen.append(bytes(data))
            offset = next_offset
        assert b"".join(seen) == b"".join(bytes(m.record) for m in everything(store, topic, queue_id))


def test_records_as_bytes_skip_filler_and_damage_is_found_by_who_decodes(lab: StoreLab) -> None:
    store = lab.open()
    store._writer.queue_offsets.setdefault(TOPIC, {})[0] = 7
    lab.put(b"seven")
    store._writer.queue_offsets[TOPIC][0] = 12
    lab.put(b"twelve")
    data, count, next_offset = store.get_bytes(TOPIC, 0, 8)
    assert (count, next_offset, MessageExt(data).queue_offset) == (1, 13, 12)
    lab.broken_on_purpose = True


@pytest.mark.parametrize("offset", [-1, 3, 99])
def test_records_as_bytes_outside_the_queue_are_none(lab: StoreLab, offset: int) -> None:
    store = lab.open()
    lab.put_many(3)
    data, count, next_offset = store.get_bytes(TOPIC, 0, offset)
    assert (bytes(data), count) == (b"", 0)
    assert next_offset == store.get(TOPIC, 0, offset).next_offset


# Batches from columns


def test_columns_write_what_messages_write(lab: StoreLab, tmp_path: Path) -> None:
    other = StoreLab(tmp_path / "messages")
    lab.open()
    other.open()._writer.fast_path = False
    for size in (1, 2, 30):
        bodies = [b"body %d" % n * n for n in range(size)]
        keys = [None if n % 3 == 0 else f"k{n} всё" for n in range(size)]
        tags = [None if n % 2 else "tag" for n in range(size)]
        assert lab.store.put_many(TOPIC, bodies, 1, keys=keys, tags=tags).count == size
        messages = [Message(TOPIC, b, keys=k, tags=t) for b, k, t in zip(bodies, keys, tags, strict=True)]
        assert other.store.put_batch(messages, 1).count == size
    lab.close()
    other.close()
    assert lab.log_bytes() == other.log_bytes()
    assert (lab.queue_bytes(), lab.index_bytes()) == (other.queue_bytes(), other.index_bytes())


def test_columns_of_different_lengths_are_refused(lab: StoreLab) -> None:
    store = lab.open()
    with pytest.raises(InvalidArgumentError, match="keys"):
        store.put_many(TOPIC, [b"a", b"b"], keys=["k"])
    assert store.max_physical_offset == 0


@pytest.mark.parametrize("bad", ["a\x01b", "a\x02b"])
def test_separators_within_columns_are_refused(lab: StoreLab, bad: str) -> None:
    store = lab.open()
    assert store.put_many(TOPIC, [b"a"], keys=[bad]).status is PutMessageStatus.MESSAGE_ILLEGAL
    assert store.put_many(TOPIC, [b"a"], tags=[bad]).status is PutMessageStatus.MESSAGE_ILLEGAL
    assert store.max_physical_offset == 0
