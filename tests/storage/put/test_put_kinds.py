"""Kinds of messages: batches, delayed, transactional, with checksum, over IPv6; and the counters of a store."""

from __future__ import annotations

import pytest

from flaremq.clock import ManualClock
from flaremq.message.message import Message
from flaremq.message.record.check import check_record
from flaremq.message.stored_form import delivered
from flaremq.message.topics import SCHEDULE_TOPIC
from flaremq.storage.message_store import MessageStore
from flaremq.storage.status import PutMessageStatus
from tests.support.crash_fs import CrashFS
from tests.support.store_lab import SMALL, TOPIC, StoreLab, all_bodies, bodies

Status = PutMessageStatus


# Batches


def test_batch_gets_consecutive_offsets_and_one_store_time(lab: StoreLab) -> None:
    store = lab.open()
    lab.put(b"before")
    messages = [Message(TOPIC, b"b%d" % n, keys=f"k{n}", tags="t", flag=n) for n in range(4)]
    result = store.put_batch(messages, 0, born_timestamp=77)
    assert (result.queue_offset, result.count, len(result.message_ids)) == (1, 4, 4)
    found = store.get(TOPIC, 0, 1).messages
    assert bodies(found) == [b"b0", b"b1", b"b2", b"b3"]
    assert [m.queue_offset for m in found] == [1, 2, 3, 4]
    assert [m.flag for m in found] == [0, 1, 2, 3]
    assert {m.store_timestamp for m in found} == {result.store_timestamp}
    assert {m.born_timestamp for m in found} == {77}
    assert [m.message_id for m in found] == result.message_ids
    assert result.message_id == ",".join(result.message_ids)
    assert result.size == sum(m.size for m in found)


def test_batch_of_one_writes_what_a_single_put_writes(lab: StoreLab, tmp_path: object) -> None:
    store = lab.open()
    single = store.put(Message(TOPIC, b"x", keys="k"), 0)
    batch = store.put_batch([Message(TOPIC, b"x", keys="k")], 1)
    first, second = (store.read(r.physical_offset) for r in (single, batch))
    assert first is not None and second is not None
    places = ("physicalOffset", "queueId", "msgId")
    assert {k: v for k, v in first.to_dict().items() if k not in places} == {
        k: v for k, v in second.to_dict().items() if k not in places
    }


@pytest.mark.parametrize(
    "messages",
    [
        [Message(TOPIC, b"a"), Message("other", b"b")],
        [Message(TOPIC, b"a"), Message(TOPIC, b"b", delay_level=1)],
    ],
    ids=["two topics", "delay"],
)
def test_batch_that_breaks_a_rule_is_refused_whole(lab: StoreLab, messages: list[Message]) -> None:
    store = lab.open()
    assert store.put_batch(messages).status is Status.MESSAGE_ILLEGAL
    assert store.max_physical_offset == 0


@pytest.mark.parametrize("sys_flag", [0x4, 0x8, 0xC])
def test_transactional_batch_is_refused(lab: StoreLab, sys_flag: int) -> None:
    store = lab.open()
    assert store.put_batch([Message(TOPIC, b"x")], sys_flag=sys_flag).status is Status.MESSAGE_ILLEGAL


def test_empty_batch_is_illegal(lab: StoreLab) -> None:
    store = lab.open()
    assert store.put_batch([]).status is store.put_many(TOPIC, []).status is Status.MESSAGE_ILLEGAL


def test_batch_waits_for_the_disk_unless_a_message_asks_not_to(lab: StoreLab) -> None:
    store = lab.open()
    store.put_batch([Message(TOPIC, b"a"), Message(TOPIC, b"b", wait_store_msg_ok=False)])
    assert store.flushed_offset == 0
    store.put_batch([Message(TOPIC, b"c")])
    assert store.flushed_offset == store.max_physical_offset


# Delay


@pytest.mark.parametrize(("level", "stored"), [(1, 1), (3, 3), (18, 18), (19, 18), (1000, 18)])
def test_delayed_message_waits_in_the_schedule_topic(lab: StoreLab, level: int, stored: int) -> None:
    store = lab.open()
    result = lab.put(b"later", queue_id=5, delay_level=level, tags="t", keys="k")
    assert store.max_offset(TOPIC, 5) == 0
    message = store.get(SCHEDULE_TOPIC, stored - 1, 0).messages[0]
    expected = {"REAL_TOPIC": TOPIC, "REAL_QID": "5", "DELAY": str(stored), "TAGS": "t", "KEYS": "k"}
    assert message.properties == expected
    unit = store._queues.simple[(SCHEDULE_TOPIC, stored - 1)].unit(0)
    delay = [1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200][stored - 1]
    assert unit is not None and unit[2] == result.store_timestamp + delay * 1000
    assert [m.physical_offset for m in store.query(SCHEDULE_TOPIC, "k")] == [result.physical_offset]


def test_delay_levels_follow_the_option(lab: StoreLab) -> None:
    store = lab.open(message_delay_level="2s 1d")
    result = lab.put(delay_level=7)
    unit = store._queues.simple[(SCHEDULE_TOPIC, 1)].unit(0)
    assert unit is not None and unit[2] == result.store_timestamp + 86_400_000


def test_delivered_message_keeps_its_delay_property_and_is_not_delayed_again(lab: StoreLab) -> None:
    store = lab.open()
    waiting = store.read(lab.put(b"due", delay_level=2).physical_offset)
    assert waiting is not None
    form = delivered(waiting)
    del waiting
    assert form is not None
    store.put_form(form)
    store.tick()  # deliveries do not wait for the disk
    message = store.get(TOPIC, 0, 0).messages[0]
    assert message.body == b"due" and message.properties["DELAY"] == "2"


# Transactions


@pytest.mark.parametrize(
    ("sys_flag", "has_unit", "has_key"), [(0x0, True, True), (0x4, False, True), (0x8, True, True), (0xC, False, False)]
)
def test_transaction_type_decides_about_queue_and_index(
    lab: StoreLab, sys_flag: int, has_unit: bool, has_key: bool
) -> None:
    store = lab.open()
    lab.put(b"before")
    result = store.put(Message(TOPIC, b"tx", keys="tx"), sys_flag=sys_flag, prepared_transaction_offset=55)
    assert result.queue_offset == (1 if has_unit else 0)
    assert store.max_offset(TOPIC, 0) == (2 if has_unit else 1)
    assert len(store.query(TOPIC, "tx")) == (1 if has_key else 0)
    record = store._reader._whole(result.physical_offset)
    assert record is not None and record.prepared_transaction_offset == 55
    assert (store.read(result.physical_offset) is not None) == has_unit
    assert lab.put(b"after").queue_offset == (2 if has_unit else 1)


@pytest.mark.parametrize(("sys_flag", "topic"), [(0x4, TOPIC), (0x8, SCHEDULE_TOPIC)])
def test_only_committed_and_plain_messages_are_delayed(lab: StoreLab, sys_flag: int, topic: str) -> None:
    store = lab.open()
    result = store.put(Message(TOPIC, b"x", delay_level=1), sys_flag=sys_flag)
    record = store._reader._whole(result.physical_offset)
    assert record is not None and record.topic == topic


# Record forms


@pytest.mark.parametrize("batch", [False, True])
def test_record_checksum_covers_every_byte(lab: StoreLab, batch: bool) -> None:
    store = lab.open(enabled_append_prop_crc=True)
    message = Message(TOPIC, b"sealed", tags="t", properties={"a": "b"})
    result = store.put_batch([message, message]) if batch else store.put(message)
    record = store.read(result.physical_offset)
    assert record is not None and "__CRC32#" in record.properties and record.tags == "t"
    data = bytes(record.record)
    for at in range(len(data)):
        flipped = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        assert not check_record(flipped, physical_offset=result.physical_offset, require_record_crc=True).ok


@pytest.mark.parametrize("store_ip", ["10.0.0.9", "2001:db8::1"])
@pytest.mark.parametrize("born", [None, "1.2.3.4:5", "[fe80::2]:65535"])
def test_hosts_of_either_family_are_stored(lab: StoreLab, store_ip: str, born: str | None) -> None:
    store = lab.open(broker_ip1=store_ip)
    result = store.put(Message(TOPIC, b"x", keys="k"), born_host=born)
    store.put_batch([Message(TOPIC, b"y")], born_host=born)
    first, second = store.get(TOPIC, 0, 0).messages
    assert (first.born_host, first.store_host) == (second.born_host, second.store_host)
    assert bool(first.sys_flag & 0x20) == (":" in store_ip)
    assert bool(first.sys_flag & 0x10) == (":" in (born.rsplit(":", 1)[0] if born else store_ip))
    assert len(result.message_id) == (56 if ":" in store_ip else 32)
    assert first.message_id == result.message_id


# Counters


@pytest.mark.parametrize(
    ("elapsed", "bucket"),
    [
        (0, "<=0ms"),
        (1, "0~10ms"),
        (9, "0~10ms"),
        (10, "10~50ms"),
        (499, "200~500ms"),
        (999, "500ms~1s"),
        (3_500, "3~4s"),
        (10_000, "10s~"),
        (60_000, "10s~"),
    ],
)
@pytest.mark.parametrize("fast", [False, True])
def test_put_latency_is_counted_in_rocketmqs_buckets(elapsed: int, bucket: str, fast: bool) -> None:
    clock, disk = ManualClock(), CrashFS()
    store = MessageStore.open("/store", SMALL, filesystem=disk, clock=clock, threads=False)
    store._writer.fast_path = fast
    store.put(Message(TOPIC, b"warm"))

    def slow_sync(operation: str, path: str) -> None:
        if operation == "sync" and "/commitlog/" in path:
            clock.advance(elapsed)

    disk.observer = slow_sync
    store.put(Message(TOPIC, b"x"))
    disk.observer = None
    statistics = store.statistics()
    counted = {name: count for name, count in statistics["putMessageDistributeTime"].items() if count}
    assert counted == ({"<=0ms": 2} if elapsed == 0 else {"<=0ms": 1, bucket: 1})
    assert statistics["putMessageEntireTimeMax"] == elapsed
    store.close()


def test_counters_tell_puts_refusals_and_gets(lab: StoreLab) -> None:
    store = lab.open()
    lab.put_many(3)
    store.put_batch([Message(TOPIC, b"x")] * 2)
    store.put(Message("bad topic", b"x"))
    store.get(TOPIC, 0, 0)
    store.get(TOPIC, 0, 99)
    counted = store.statistics()
    assert (counted["putMessageTimesTotal"], counted["putMessageFailedTimes"]) == (5, 1)
    assert (counted["getMessageTimesTotalFound"], counted["getMessageTimesTotalMiss"]) == (1, 1)
    assert counted["getMessageTransferedMsgCount"] == 5
    assert counted["dispatchBehindBytes"] == 0 and counted["refusal"] is None


def test_message_that_asks_not_to_wait_is_flushed_by_the_next_round(lab: StoreLab) -> None:
    store = lab.open()
    lab.put(b"no hurry", wait_store_msg_ok=False)
    assert store.flushed_offset == 0
    store.tick()
    assert store.flushed_offset == store.max_physical_offset
    assert all_bodies(store) == [b"no hurry"]
