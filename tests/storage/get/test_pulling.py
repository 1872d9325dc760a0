"""Pulls: bytes of the log for consumers. Plain code and kernels answer alike, and as MessageStore.get does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaremq.message.java_hash import java_hash
from flaremq.message.message import Message
from flaremq.message.message_ext import MessageExt
from flaremq.storage.engine.driver import StoreDriver
from flaremq.storage.get.pull import Puller, PullResult
from flaremq.storage.message_store import MessageStore
from flaremq.storage.status import GetMessageStatus
from tests.support.crash_fs import CrashFS
from tests.support.driven_store import BORN_HOST, DrivenStore, kernels, open_driven, show
from tests.support.store_lab import SMALL, TOPIC, StoreLab

FOUND, NO_MATCH = GetMessageStatus.FOUND, GetMessageStatus.NO_MATCHED_MESSAGE
both_ways = pytest.mark.parametrize("compiled", [False, True], ids=["plain", "kernels"])
MUCH = 1 << 20
TAGS = ["A", "B", "Aa", "BB", "été", None]  # "Aa" and "BB" have one hash

PropertiesFilter = Callable[[Mapping[str, str]], bool]


def driven(**changes: Any) -> DrivenStore:
    options = replace(SMALL, **changes)
    return DrivenStore(MessageStore.open("/store", options, filesystem=CrashFS(), threads=False, driven=True))


def append(driver: StoreDriver, body: bytes = b"body", queue_id: int = 0, topic: str = TOPIC, **fields: Any) -> bytes:
    """Append a message; its record."""
    message = Message(topic, body, **fields)
    outcome = driver.append(topic, queue_id, body, message.encoded_properties(), 0, 0, 1, BORN_HOST, 0)
    assert isinstance(outcome, tuple), outcome
    _, start, end = outcome
    return bytes(file_at(driver, start).buffer[start % SMALL.mapped_file_size_commit_log :][: end - start])


def file_at(driver: StoreDriver, physical_offset: int) -> Any:
    file = driver._log.files.find(physical_offset)
    assert file is not None
    return file


def joined(result: PullResult) -> bytes:
    data = b"".join(result.views)
    assert result.size == len(data)
    return data


def records(data: bytes) -> list[bytes]:
    found = []
    while data:
        size = int.from_bytes(data[:4], "big")
        found.append(data[:size])
        data = data[size:]
    return found


def everything(
    puller: Puller, max_count: int = 32, max_bytes: int = MUCH, queue_id: int = 0, **filters: Any
) -> list[bytes]:
    """All records a consumer gets that pulls again and again from the beginning."""
    found: list[bytes] = []
    offset = 0
    while True:
        result = puller.pull(TOPIC, queue_id, offset, max_count, max_bytes, **filters)
        if result.status not in (FOUND, NO_MATCH):
            assert result.status is GetMessageStatus.OFFSET_OVERFLOW_ONE, result.status
            return found
        got = records(joined(result))
        assert (result.status is FOUND) == bool(got) and len(got) == result.count <= max_count
        assert len(got) == 1 or result.size <= max_bytes
        assert offset < result.next_offset <= result.max_offset
        found += got
        offset = result.next_offset


def codes(*tags: str) -> list[int]:
    return [java_hash(tag) for tag in tags]


# Plain and compiled answer alike


@both_ways
@given(
    st.lists(st.tuples(st.integers(0, 1), st.sampled_from(TAGS), st.integers(0, 3000)), max_size=40),
    st.lists(st.sampled_from([tag for tag in TAGS if tag]), unique=True),
    st.integers(1, 40),
    st.integers(1, 9000),
)
def test_pulling_a_queue_through_gives_its_messages_in_order(
    compiled: bool, sent: list[tuple[int, str | None, int]], wanted: list[str], max_count: int, max_bytes: int
) -> None:
    driver = driven()
    expected: list[bytes] = []
    matching: list[bytes] = []
    hashes = set(codes(*wanted))
    for queue_id, tag, size in sent:
        record = append(driver, b"x" * size, queue_id, tags=tag)
        if queue_id == 0:
            expected.append(record)
            if tag is not None and java_hash(tag) in hashes:
                matching.append(record)
    if sent and not expected:
        expected.append(append(driver))
    show(driver)
    puller = driver.puller
    with kernels(compiled):
        if expected:
            assert everything(puller, max_count, max_bytes) == expected
            tagged = everything(puller, max_count, max_bytes, codes=codes(*wanted)) if wanted else []
            assert tagged == matching
            tags = everything(puller, max_count, max_bytes, matches=lambda properties: "TAGS" in properties)
            assert tags == [record for record in expected if b"TAGS\x01" in record]
    driver.store.close()


@both_ways
@pytest.mark.parametrize("offset", [-1, 0, 1, 19, 20, 21, 22, 100])
@pytest.mark.parametrize("queue_id", [0, 7])
def test_status_and_offsets_are_those_of_a_get(compiled: bool, offset: int, queue_id: int) -> None:
    driver = driven()
    for _ in range(21):
        append(driver)
    show(driver)
    expected = driver.store.get(TOPIC, queue_id, offset)
    with kernels(compiled):
        result = driver.puller.pull(TOPIC, queue_id, offset, 32, MUCH)
    assert (result.status, result.next_offset, result.min_offset, result.max_offset) == (
        (expected.status, expected.next_offset, expected.min_offset, expected.max_offset)
    )
    assert joined(result) == b"".join(message.record for message in expected.messages)


@both_ways
def test_first_message_is_served_however_large_it_is(compiled: bool) -> None:
    driver = driven()
    large, small = append(driver, b"x" * 5000), append(driver)
    show(driver)
    with kernels(compiled):
        first = driver.puller.pull(TOPIC, 0, 0, 32, 100)
        second = driver.puller.pull(TOPIC, 0, 1, 32, 100)
    assert (joined(first), first.next_offset) == (large, 1)
    assert (joined(second), second.next_offset) == (small, 2)


@both_ways
def test_rare_tag_makes_a_pull_stop_after_its_share_of_units_and_go_on_from_there(compiled: bool) -> None:
    driver = driven(max_filter_message_size=20 * 50)
    for number in range(180):
        append(driver, tags="rare" if number == 170 else "common")
    show(driver)
    with kernels(compiled):
        result = driver.puller.pull(TOPIC, 0, 0, 8, MUCH, codes("rare"))
        assert (result.status, result.count, result.views) == (NO_MATCH, 0, [])
        assert 0 < result.next_offset <= 60
        assert len(everything(driver.puller, 8, codes=codes("rare"))) == 1


@both_ways
def test_tags_are_compared_by_hash_alone(compiled: bool) -> None:
    driver = driven()
    sent = [append(driver, tags=tag) for tag in ("Aa", "BB", "C", None)]
    show(driver)
    with kernels(compiled):
        assert everything(driver.puller, codes=codes("Aa")) == sent[:2]
        # A message without tags has the hash 0, and so has this one.
        assert java_hash("f5a5a608") == 0
        assert everything(driver.puller, codes=[0]) == sent[3:]


@both_ways
def test_properties_filter_sees_the_properties_of_each_message(compiled: bool) -> None:
    driver = driven()
    sent = [append(driver, properties={"price": str(number)}) for number in range(30)]
    show(driver)
    with kernels(compiled):
        cheap = everything(driver.puller, 4, matches=lambda properties: int(properties["price"]) % 7 == 3)
    assert cheap == sent[3::7]


def test_adjoining_records_are_one_view_of_the_log() -> None:
    driver = driven()
    for number in range(6):
        append(driver, queue_id=1 if number == 3 else 0)
    show(driver)
    with kernels(True):
        result = driver.puller.pull(TOPIC, 0, 1, 32, MUCH)
    assert (result.count, len(result.views)) == (4, 2)
    assert all(isinstance(view, memoryview) for view in result.views)


@both_ways
def test_nothing_that_is_not_durable_is_pulled(compiled: bool) -> None:
    driver = driven()
    safe = append(driver, b"safe")
    show(driver)
    append(driver, b"unsure")
    driver.dispatch()
    with kernels(compiled):
        assert everything(driver.puller) == [safe]


# Damage


def damage(driver: StoreDriver, physical_offset: int, bits: int = 0xFF) -> None:
    file = file_at(driver, physical_offset)
    file.buffer[physical_offset - file.start] ^= bits


@pytest.mark.parametrize("sealed", [False, True], ids=["plain records", "with record checksum"])
def test_record_with_any_byte_changed_is_served_as_it_is_or_not_at_all_alike_by_both(sealed: bool) -> None:
    driver = driven(enabled_append_prop_crc=sealed)
    sent = [append(driver, b"body %d" % number, tags="A", properties={"k": "v"}) for number in range(3)]
    show(driver)
    start, size = len(sent[0]), len(sent[1])
    served: set[int] = set()
    for at in range(start, start + size):
        for bits in (0x01, 0x80):
            damage(driver, at, bits)
            answers = []
            for compiled in (False, True):
                with kernels(compiled):
                    answers.append(everything(driver.puller))
                    with_tag = everything(driver.puller, codes=codes("A"))
                    assert [record for record in with_tag if record in sent] == [sent[0], sent[2]]
            assert answers[0] == answers[1], f"byte {at - start}"
            if len(answers[0]) == 3:
                served.add(at - start)
            assert answers[0][0] == sent[0] and answers[0][-1] == sent[2]
            damage(driver, at, bits)
    # Of a plain record no checksum covers the other header fields, topic and properties. The rest shows: size, magic,
    # checksum, queue, offsets, body, and every length.
    topic_at = 88 + len(b"body 1")
    shows = {*range(0, 16), *range(20, 36), *range(84, topic_at + 1), *range(topic_at + 1 + len(TOPIC), size)[:2]}
    assert not served & shows
    assert not (sealed and served)


@both_ways
@pytest.mark.parametrize("field", ["offset", "size"])
def test_unit_that_contradicts_the_log_is_put_right_from_it(compiled: bool, field: str) -> None:
    driver = driven()
    sent = [append(driver, b"body %d" % number) for number in range(5)]
    show(driver)
    queue = driver.store._queues.simple[(TOPIC, 0)]
    unit = queue.unit(2)
    assert unit is not None
    broken = (unit[0] + 1, unit[1], unit[2]) if field == "offset" else (unit[0], unit[1] + 1, unit[2])
    queue.replace(2, b"".join(number.to_bytes(8 if place != 1 else 4, "big") for place, number in enumerate(broken)))
    with kernels(compiled):
        assert everything(driver.puller) == sent
    assert queue.unit(2) == unit


@both_ways
def test_damaged_record_costs_only_itself(compiled: bool) -> None:
    driver = driven()
    sent = [append(driver, b"body %d" % number) for number in range(8)]
    show(driver)
    damage(driver, sum(map(len, sent[:3])) + 90)
    with kernels(compiled):
        assert everything(driver.puller) == sent[:3] + sent[4:]
        alone = driver.puller.pull(TOPIC, 0, 3, 1, MUCH)
    assert joined(alone) == sent[4], "a pull that begins at the damage goes on behind it"


# Views


def test_views_of_a_pull_stay_readable_when_their_file_is_deleted(lab: StoreLab) -> None:
    driver = open_driven(lab)
    sent = [append(driver, bytes([number]) * 2000) for number in range(30)]
    show(driver)
    with kernels(True):
        held = [driver.puller.pull(TOPIC, 0, offset, 1, MUCH) for offset in range(30)]
    files = len(lab.log_files())
    assert lab.store.delete_expired(force=True) == files - 1
    assert len(lab.log_files()) == 1
    assert [joined(pull) for pull in held] == sent
    for compiled in (False, True):
        with kernels(compiled):
            gone = driver.puller.pull(TOPIC, 0, 0, 4, MUCH)
        assert gone.status is GetMessageStatus.OFFSET_TOO_SMALL and not gone.views
        assert gone.next_offset == gone.min_offset == lab.store.min_offset(TOPIC, 0) > 0


def test_message_views_and_pull_views_are_the_same_bytes() -> None:
    driver = driven()
    append(driver, b"body", tags="A", keys="k")
    show(driver)
    with kernels(True):
        (view,) = driver.puller.pull(TOPIC, 0, 0, 1, MUCH).views
    message = MessageExt(memoryview(view))
    assert (message.topic, message.body, message.tags, message.queue_offset) == (TOPIC, b"body", "A", 0)


# What is likely on disk


def test_pull_is_cold_when_its_record_lies_further_back_than_memory_reaches() -> None:
    driver = driven()
    sent = [append(driver, b"x" * 1000) for _ in range(40)]
    show(driver)
    puller = driver.puller
    assert not puller.is_cold(TOPIC, 0, 0)
    puller._reader.memory_bytes = 10 * len(sent[0])
    assert [puller.is_cold(TOPIC, 0, offset) for offset in (0, 20, 36, 40, 99)] == [True, True, False, False, False]
    assert not puller.is_cold("unknown", 0, 0)
