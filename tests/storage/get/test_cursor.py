"""Units read ahead: many calls read the file once, and never show a unit that has become another."""

from __future__ import annotations

import pytest

from flaremq.storage.get.cursor import QueueCursor
from flaremq.storage.queue.consume_queue import FILLER, UNIT, UNIT_SIZE, ConsumeQueue
from tests.support.store_lab import TOPIC, StoreLab, bodies


def units_of(cursor: QueueCursor, offset: int, count: int) -> bytes:
    units, first, used = cursor.read(offset, count)
    return units[first * UNIT_SIZE : (first + used) * UNIT_SIZE]


@pytest.fixture
def queue(lab: StoreLab) -> ConsumeQueue:
    """A hundred messages in queue 0."""
    store = lab.open()
    lab.put_many(100)
    queue = store._queues.find(TOPIC, 0)
    assert isinstance(queue, ConsumeQueue)
    return queue


@pytest.mark.parametrize("step", [1, 7, 32, 100, 200])
def test_the_units_are_those_of_the_queue(queue: ConsumeQueue, step: int) -> None:
    cursor = QueueCursor(queue)
    for offset in [*range(0, 100, step), 99, 100, 3, 4, 5, 50, 1]:
        assert units_of(cursor, offset, step) == queue.read_units(offset, step)


def test_who_reads_on_reads_a_file_once(lab: StoreLab, monkeypatch: pytest.MonkeyPatch) -> None:
    store = lab.open(mapped_file_size_consume_queue=UNIT_SIZE * 1000)
    lab.put_many(100)
    queue = store._queues.simple[TOPIC, 0]
    reads = []
    read_units = ConsumeQueue.read_units

    def counted(queue: ConsumeQueue, offset: int, count: int) -> bytes:
        reads.append(offset)
        return read_units(queue, offset, count)

    monkeypatch.setattr(ConsumeQueue, "read_units", counted)
    cursor = QueueCursor(queue)
    for offset in range(0, 96, 8):
        cursor.read(offset, 8)
    assert reads == [0, 8]


def test_units_put_right_and_units_added_are_seen(queue: ConsumeQueue, lab: StoreLab) -> None:
    cursor = QueueCursor(queue)
    for offset in range(0, 40, 10):
        cursor.read(offset, 10)
    right = queue.read_units(45, 1)
    queue.replace(45, FILLER)
    assert units_of(cursor, 45, 1) == FILLER
    queue.replace(45, right)
    assert units_of(cursor, 45, 1) == right
    lab.put_many(5)
    assert units_of(cursor, 99, 6) == queue.read_units(99, 6)
    lab.broken_on_purpose = True
    queue.truncate(50)
    assert units_of(cursor, 49, 6) == queue.read_units(49, 1)


def test_a_message_found_later_for_a_filler_is_read(queue: ConsumeQueue, lab: StoreLab) -> None:
    store = lab.store
    right = queue.read_units(45, 1)
    queue.replace(45, FILLER)
    assert [message.queue_offset for message in store.get(TOPIC, 0, 40, 5).messages] == [40, 41, 42, 43, 44]
    assert store.get(TOPIC, 0, 45, 5).messages[0].queue_offset == 46
    queue.replace(45, right)
    assert store.get(TOPIC, 0, 45, 5).messages[0].queue_offset == 45
    _, count, next_offset = store.get_bytes(TOPIC, 0, 45, 5)
    assert (count, next_offset) == (5, 50)


def test_blocks_of_any_step_are_the_records_of_get(queue: ConsumeQueue, lab: StoreLab) -> None:
    store = lab.store
    for step in (1, 3, 32):
        offset = 0
        while offset < 100:
            records, count, following = store.get_bytes(TOPIC, 0, offset, step)
            found = store.get(TOPIC, 0, offset, step)
            assert bytes(records) == b"".join(message.record for message in found.messages)
            assert (count, following) == (len(found.messages), found.next_offset)
            offset = following


def test_the_first_record_of_a_block_always_fits(queue: ConsumeQueue, lab: StoreLab) -> None:
    records, count, following = lab.store.get_bytes(TOPIC, 0, 3, 32, max_bytes=1)
    assert (count, following) == (1, 4)
    assert bytes(records) == lab.store.get(TOPIC, 0, 3, 1).messages[0].record
    two = UNIT.unpack(queue.read_units(3, 1))[1] + UNIT.unpack(queue.read_units(4, 1))[1]
    assert lab.store.get_bytes(TOPIC, 0, 3, 32, max_bytes=two)[1:] == (2, 5)
    assert lab.store.get_bytes(TOPIC, 0, 3, 32, max_bytes=two - 1)[1:] == (1, 4)


def test_messages_outlive_the_store(queue: ConsumeQueue, lab: StoreLab) -> None:
    result = lab.store.get(TOPIC, 0, 0, 3)
    expected = [bytes(body) for body in bodies(result.messages)]
    lab.store.close()
    assert [message.body for message in result.messages] == expected
    assert [message.topic for message in result.messages] == [TOPIC] * 3
