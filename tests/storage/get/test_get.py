"""Reading a queue by offset: statuses, next offsets, limits, tags, and what is not served unchecked."""

from __future__ import annotations

from typing import Any

import pytest

from flaremq.errors import InvalidArgumentError, UnavailableError
from flaremq.message.java_hash import tags_code
from flaremq.storage.get.get_result import parse_tags
from flaremq.storage.queue.consume_queue import UNIT
from flaremq.storage.status import GetMessageStatus
from tests.support.forgery import body_place, forged_record
from tests.support.store_lab import TOPIC, StoreLab, all_bodies, bodies

Status = GetMessageStatus


@pytest.fixture
def ten(lab: StoreLab) -> StoreLab:
    """Ten messages in queue 0."""
    lab.open()
    lab.put_many(10)
    return lab


@pytest.fixture
def expired(lab: StoreLab) -> StoreLab:
    """A queue whose first messages are gone."""
    store = lab.open()
    lab.fill_files(3)
    assert store.delete_expired(force=True) == 3
    assert store.min_offset(TOPIC, 0) > 0
    return lab


def test_queue_that_never_existed(lab: StoreLab) -> None:
    result = lab.open().get("nowhere", 0, 5)
    assert (result.status, result.next_offset) == (Status.NO_MATCHED_LOGIC_QUEUE, 0)


def test_queue_without_messages(lab: StoreLab) -> None:
    store = lab.open()
    store._queues.get_or_create(TOPIC, 0)
    result = store.get(TOPIC, 0, 5)
    assert (result.status, result.next_offset) == (Status.NO_MESSAGE_IN_QUEUE, 0)


@pytest.mark.parametrize(
    ("offset", "status", "next_offset"),
    [
        (-1, Status.OFFSET_TOO_SMALL, 0),
        (0, Status.FOUND, 10),
        (9, Status.FOUND, 10),
        (10, Status.OFFSET_OVERFLOW_ONE, 10),
        (11, Status.OFFSET_OVERFLOW_BADLY, 10),
        (10**12, Status.OFFSET_OVERFLOW_BADLY, 10),
    ],
)
def test_offset_against_the_range_of_the_queue(ten: StoreLab, offset: int, status: Status, next_offset: int) -> None:
    result = ten.store.get(TOPIC, 0, offset)
    assert (result.status, result.next_offset) == (status, next_offset)
    assert (result.min_offset, result.max_offset) == (0, 10)


def test_offset_below_the_minimum_is_too_small(expired: StoreLab) -> None:
    low = expired.store.min_offset(TOPIC, 0)
    result = expired.store.get(TOPIC, 0, low - 1)
    assert (result.status, result.next_offset, result.min_offset) == (Status.OFFSET_TOO_SMALL, low, low)


def test_found_messages_carry_bytes_and_offsets(ten: StoreLab) -> None:
    result = ten.store.get(TOPIC, 0, 3, 4)
    assert bodies(result.messages) == [b"body %03d" % n for n in (3, 4, 5, 6)]
    assert result.next_offset == 7
    assert result.bytes == sum(message.size for message in result.messages)
    assert result.message_count == 4


def test_read_ends_at_the_end_of_a_queue_file(lab: StoreLab) -> None:
    store = lab.open(mapped_file_size_consume_queue=20 * 8)
    lab.put_many(20)
    assert store.get(TOPIC, 0, 3).next_offset == 8
    assert len(all_bodies(store)) == 20


def test_missing_unit_sends_the_reader_to_the_next_file(lab: StoreLab) -> None:
    store = lab.open(mapped_file_size_consume_queue=20 * 8)
    lab.put_many(20)
    path = lab.queue_files()[1]
    content = path.read_bytes()
    path.unlink()  # as retention does between a reader's look at the range and its read
    store._queues._handles.close()
    result = store.get(TOPIC, 0, 9)
    path.write_bytes(content)
    assert (result.status, result.next_offset) == (Status.OFFSET_FOUND_NULL, 16)


def test_records_gone_from_the_log_are_skipped(lab: StoreLab) -> None:
    store = lab.open()
    results = lab.fill_files(2)
    log = store._commit_log
    log.files.files[0].available = False  # its destruction has begun, the queue does not know yet
    gone = sum(result.physical_offset < log.min_offset for result in results)
    found = store.get(TOPIC, 0, 0, 3)
    log.files.files[0].available = True
    assert (found.status, found.next_offset) == (Status.FOUND, gone + 3)
    assert [message.queue_offset for message in found.messages] == [gone, gone + 1, gone + 2]


def test_only_unreadable_records_give_message_was_removing(ten: StoreLab) -> None:
    ten.store._commit_log.files.files[0].available = False
    result = ten.store.get(TOPIC, 0, 2)
    assert (result.status, result.next_offset, result.messages) == (Status.MESSAGE_WAS_REMOVING, 10, [])
    ten.store._commit_log.files.files[0].available = True


# Limits


def test_count_is_limited_by_the_asker(ten: StoreLab) -> None:
    assert len(ten.store.get(TOPIC, 0, 0, 1).messages) == 1
    with pytest.raises(InvalidArgumentError):
        ten.store.get(TOPIC, 0, 0, 0)


def test_recent_messages_are_limited_to_32_and_256_kib(lab: StoreLab) -> None:
    store = lab.open(mapped_file_size_commit_log=1 << 20, mapped_file_size_consume_queue=20 * 1000)
    lab.put_many(40)
    assert len(store.get(TOPIC, 0, 0, 100).messages) == 32
    for _ in range(10):
        lab.put(b"x" * 60_000, queue_id=1)
    result = store.get(TOPIC, 1, 0, 100)
    assert len(result.messages) == 4 and result.bytes <= 262_144
    assert result.next_offset == 4


def test_messages_on_disk_are_limited_to_8_and_64_kib(lab: StoreLab) -> None:
    store = lab.open(
        mapped_file_size_commit_log=1 << 20,
        mapped_file_size_consume_queue=20 * 1000,
        access_message_in_memory_max_ratio=0,  # nothing counts as in memory
    )
    lab.put_many(40)
    for _ in range(10):
        lab.put(b"x" * 30_000, queue_id=1)
    lab.put(queue_id=2)  # the last record of the log is never "on disk"
    assert len(store.get(TOPIC, 0, 0, 100).messages) == 8
    result = store.get(TOPIC, 1, 0, 100)
    assert len(result.messages) == 2 and result.suggest_slave


def test_one_message_passes_however_large(lab: StoreLab) -> None:
    store = lab.open(max_transfer_bytes_on_message_in_memory=100)
    lab.put(b"x" * 5000)
    lab.put(b"y")
    assert bodies(store.get(TOPIC, 0, 0).messages) == [b"x" * 5000]
    assert bodies(store.get(TOPIC, 0, 0, max_bytes=1).messages) == [b"x" * 5000]


def test_max_bytes_replaces_the_options(ten: StoreLab) -> None:
    size = ten.store.get(TOPIC, 0, 0, 1).bytes
    assert len(ten.store.get(TOPIC, 0, 0, max_bytes=3 * size).messages) == 3
    assert len(ten.store.get(TOPIC, 0, 0, max_bytes=3 * size - 1).messages) == 2


def test_filter_examines_a_bounded_number_of_units(lab: StoreLab) -> None:
    store = lab.open(mapped_file_size_consume_queue=20 * 1000, max_filter_message_size=20 * 50)
    lab.put_many(120, tags="A")
    lab.put(tags="B")
    result = store.get(TOPIC, 0, 0, 10, tags="B")
    assert (result.status, result.next_offset) == (Status.NO_MATCHED_MESSAGE, 50)
    assert store.get(TOPIC, 0, 0, 100, tags="B").next_offset == 100  # 20 bytes for each message asked for


# Tags


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (None, ["A", "B", "Aa", "BB", None]),
        ("*", ["A", "B", "Aa", "BB", None]),
        ("", ["A", "B", "Aa", "BB", None]),
        ("A", ["A"]),
        ("A || B", ["A", "B"]),
        ("A||BB", ["A", "BB"]),
        ("Aa", ["Aa"]),
        ("nothing", []),
        ("ключ🔥", []),
    ],
)
def test_tag_expression_selects_by_text_not_by_hash(
    lab: StoreLab, expression: str | None, expected: list[str | None]
) -> None:
    assert tags_code("Aa") == tags_code("BB")
    store = lab.open()
    for tag in ("A", "B", "Aa", "BB", None):
        lab.put(b"x", tags=tag)
    result = store.get(TOPIC, 0, 0, tags=expression)
    assert [message.tags for message in result.messages] == expected
    assert result.status is (Status.FOUND if expected else Status.NO_MATCHED_MESSAGE)
    assert result.next_offset == 5


def test_tags_of_every_script_are_matched(lab: StoreLab) -> None:
    store = lab.open()
    for tag in ("ключ", "键", "🔥", "x" * 300):
        lab.put(tag.encode(), tags=tag)
    for tag in ("ключ", "键", "🔥", "x" * 300):
        assert bodies(store.get(TOPIC, 0, 0, tags=tag).messages) == [tag.encode()]


def test_tags_are_grouped_by_the_low_half_of_their_hash() -> None:
    assert parse_tags(" Aa || BB|| ") == {tags_code("Aa"): {"Aa", "BB"}}
    with pytest.raises(InvalidArgumentError):
        parse_tags("||")


# Nothing is served unchecked


@pytest.mark.parametrize("wrong", [(0, 0, 0), (7, 100, 5), (0, 2**31 - 1, 0), (10**9, 100, 0)], ids=str)
def test_unit_that_contradicts_the_log_is_repaired(ten: StoreLab, wrong: tuple[int, int, int]) -> None:
    queue = ten.store._queues.simple[(TOPIC, 0)]
    right = queue.unit(4)
    queue.replace(4, UNIT.pack(*wrong))
    found = all_bodies(ten.store)
    if wrong[1] == 2**31 - 1:  # a filler says that there is no record; only a rebuild can tell
        queue.replace(4, UNIT.pack(*(right or (0, 0, 0))))
        return
    assert found == [b"body %03d" % n for n in range(10)]
    assert queue.unit(4) == right
    assert ten.store.statistics()["repairedUnits"] == 1


def test_unit_that_points_to_another_message_is_repaired(ten: StoreLab) -> None:
    queue = ten.store._queues.simple[(TOPIC, 0)]
    queue.replace(4, UNIT.pack(*(queue.unit(6) or (0, 0, 0))))
    assert bodies(ten.store.get(TOPIC, 0, 4, 1).messages) == [b"body 004"]


@pytest.mark.parametrize("at", [4, 12, 20, 28, 88, -1], ids=str)
def test_damaged_record_is_left_out_and_counted(lab: StoreLab, at: int) -> None:
    store = lab.open(enabled_append_prop_crc=True)
    results = lab.put_many(5, tags="t")
    record = results[2]
    buffer = store._commit_log.files.files[0].buffer
    place = record.physical_offset + (at if at >= 0 else record.size + at)
    buffer[place] ^= 0xFF
    assert all_bodies(store) == [b"body %03d" % n for n in (0, 1, 3, 4)]
    assert store.read(record.physical_offset) is None
    buffer[place] ^= 0xFF
    assert len(all_bodies(store)) == 5


def test_read_by_physical_offset_needs_a_record_start(ten: StoreLab) -> None:
    first = ten.store.get(TOPIC, 0, 0).messages[0]
    assert ten.store.read(first.physical_offset) is not None
    for offset in (-1, 1, first.size - 1, ten.store.max_physical_offset, 10**12):
        assert ten.store.read(offset) is None


def _forge(lab: StoreLab, **claims: Any) -> int:
    """Put a message whose body is a record; where that lies."""
    place = body_place(lab.store.max_physical_offset)
    result = lab.put(forged_record(place, **claims), topic="carrier")
    assert place < result.physical_offset + result.size
    return place


@pytest.mark.parametrize(
    "claims",
    [
        {"topic": TOPIC, "queue_offset": 3},
        {"topic": TOPIC, "queue_offset": 10},
        {"topic": TOPIC, "queue_offset": 10**6},
        {"topic": TOPIC, "queue_id": 7},
        {"topic": "carrier"},
        {"topic": "carrier", "queue_offset": 1},
        {"topic": "nowhere"},
        {"topic": "RMQ_SYS_TRANS_HALF_TOPIC"},
        {"topic": TOPIC, "sys_flag": 4},
    ],
    ids=str,
)
def test_record_inside_a_body_is_no_record(ten: StoreLab, claims: dict[str, Any]) -> None:
    place = _forge(ten, **claims)
    assert ten.store.read(place) is None
    assert ten.store.statistics()["repairedUnits"] == 0


def test_record_inside_a_body_is_no_record_while_no_queue_shows_either(lab: StoreLab) -> None:
    store = lab.open(threads=False)
    lab.put_many(3)
    store._dispatch.run = lambda: None  # type: ignore[method-assign]
    place = body_place(store.max_physical_offset)
    carrier = lab.put(forged_record(place, topic=TOPIC, queue_offset=3), topic="carrier")
    honest = lab.put(b"honest")
    filled = lab.fill_files(2)
    assert store.dispatched_offset <= carrier.physical_offset
    assert store.read(place) is None
    for result in (carrier, honest, *filled):
        message = store.read(result.physical_offset)
        assert message is not None and message.queue_offset == result.queue_offset
    del store._dispatch.run  # type: ignore[method-assign]
    store._dispatch.run()


def test_read_by_physical_offset_repairs_the_unit_first(ten: StoreLab) -> None:
    queue = ten.store._queues.simple[(TOPIC, 0)]
    right = queue.unit(4)
    assert right is not None
    place = _forge(ten, topic=TOPIC, queue_offset=4)
    for wrong in (bytes(UNIT.size), UNIT.pack(*(queue.unit(6) or (0, 0, 0)))):
        queue.replace(4, wrong)
        assert ten.store.read(place) is None
        message = ten.store.read(right[0])
        assert message is not None and message.body == b"body 004"
        assert queue.unit(4) == right


def test_closed_store_raises_on_every_read(ten: StoreLab) -> None:
    store = ten.store
    ten.close()
    for read in (
        lambda: store.get(TOPIC, 0, 0),
        lambda: store.read(0),
        lambda: store.query(TOPIC, "k"),
        lambda: store.offset_by_time(TOPIC, 0, 0),
        lambda: store.scan(TOPIC, 0),
    ):
        with pytest.raises(UnavailableError):
            read()
