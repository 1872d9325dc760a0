"""Queue offset by time: first at or after (LOWER), last at or before (UPPER), with equal times, gaps and filler."""

from __future__ import annotations

import pytest

from flaremq.errors import InvalidArgumentError
from flaremq.message.message import Message
from tests.support.store_lab import TOPIC, StoreLab

START = 1_700_000_000_000


def put_at(lab: StoreLab, *times: int) -> None:
    """One message at each of these milliseconds after the start."""
    for time in times:
        lab.clock.jump(START + time - lab.clock.now_ms())
        assert lab.store.put(Message(TOPIC, b"%d" % time)).ok


def lower(lab: StoreLab, time: int) -> int:
    return lab.store.offset_by_time(TOPIC, 0, START + time)


def upper(lab: StoreLab, time: int) -> int:
    return lab.store.offset_by_time(TOPIC, 0, START + time, "UPPER")


def expected_lower(times: list[int], time: int) -> int:
    return next((offset for offset, at in enumerate(times) if at >= time), len(times))


def expected_upper(times: list[int], time: int) -> int:
    return max((offset for offset, at in enumerate(times) if at <= time), default=0)


@pytest.mark.parametrize(
    "times",
    [
        [10],
        [10, 10],
        [10, 20, 30, 40, 50],
        [10, 10, 10, 20, 20, 30],
        [10] * 25 + [20] * 25 + [30],
        list(range(10, 500, 7)),
    ],
    ids=["one", "two equal", "five", "equal groups", "groups over files", "many"],
)
def test_both_boundaries_against_the_definition(lab: StoreLab, times: list[int]) -> None:
    lab.open()
    put_at(lab, *times)
    for time in [-(10**6), 0, 10**9, *range(5, 60), *times]:
        assert lower(lab, time) == expected_lower(times, time), time
        assert upper(lab, time) == expected_upper(times, time), time


def test_batch_of_equal_times_is_taken_from_its_edges(lab: StoreLab) -> None:
    store = lab.open()
    put_at(lab, 10)
    lab.clock.advance(10)
    store.put_batch([Message(TOPIC, b"x")] * 5)
    put_at(lab, 30)
    assert (lower(lab, 20), upper(lab, 20)) == (1, 5)


def test_queue_that_does_not_exist_answers_zero(lab: StoreLab) -> None:
    lab.open()
    assert (lower(lab, 0), upper(lab, 0)) == (0, 0)


def test_answers_stay_within_what_is_retained(lab: StoreLab) -> None:
    store = lab.open()
    results = lab.fill_files(3)
    store.delete_expired(force=True)
    low, high = store.min_offset(TOPIC, 0), store.max_offset(TOPIC, 0)
    for boundary in ("LOWER", "UPPER"):
        assert store.offset_by_time(TOPIC, 0, 0, boundary) == low
    assert store.offset_by_time(TOPIC, 0, 2**62) == high
    assert store.offset_by_time(TOPIC, 0, 2**62, "UPPER") == high - 1
    assert store.offset_by_time(TOPIC, 0, results[low].store_timestamp) == low


def test_queue_with_nothing_retained_answers_its_end(lab: StoreLab) -> None:
    store = lab.open()
    lab.put_many(3, topic="old")
    lab.fill_files(2)
    store.delete_expired(force=True)
    assert store.offset_by_time("old", 0, 0) == 3
    assert store.offset_by_time("old", 0, 2**62, "UPPER") == 3


def test_filler_between_messages_does_not_mislead_the_search(lab: StoreLab) -> None:
    lab.open()
    times = [10, 20, 30, 40, 50, 60, 70, 80]
    put_at(lab, *times)
    places = [lab.store.get(TOPIC, 0, n, 1).messages[0].physical_offset for n in range(8)]
    lab.kill()
    lost = {2, 3, 5}
    for number in lost:
        lab.damage_log(places[number] + 88)
    lab.broken_on_purpose = True
    store = lab.open()
    kept = [(offset, at) for offset, at in enumerate(times) if offset not in lost]
    for time in range(5, 95, 5):
        first = next((offset for offset, at in kept if at >= time), 8)
        last = max((offset for offset, at in kept if at <= time), default=0)
        found = store.get(TOPIC, 0, lower(lab, time), 1).messages  # a filler is as good as what follows it
        assert [message.queue_offset for message in found] == ([first] if first < 8 else [])
        assert first - 3 <= lower(lab, time) <= first
        assert upper(lab, time) == last


def test_queue_that_starts_with_filler_answers_from_its_first_message(lab: StoreLab) -> None:
    store = lab.open()
    store._writer.queue_offsets.setdefault(TOPIC, {})[0] = 7  # a replica that joined late starts like this
    put_at(lab, 10, 20)
    assert (store.min_offset(TOPIC, 0), store.max_offset(TOPIC, 0)) == (7, 9)
    assert (lower(lab, 0), lower(lab, 15), lower(lab, 99)) == (7, 8, 9)
    assert (upper(lab, 0), upper(lab, 15), upper(lab, 99)) == (7, 7, 8)


def test_unknown_boundary_is_refused(lab: StoreLab) -> None:
    with pytest.raises(InvalidArgumentError, match="LOWER or UPPER"):
        lab.open().offset_by_time(TOPIC, 0, 0, "MIDDLE")


def test_earliest_store_time_is_that_of_the_first_retained_message(lab: StoreLab) -> None:
    store = lab.open()
    results = lab.fill_files(2)
    assert store.earliest_store_time(TOPIC, 0) == results[0].store_timestamp
    store.delete_expired(force=True)
    low = store.min_offset(TOPIC, 0)
    assert store.earliest_store_time(TOPIC, 0) == results[low].store_timestamp
    assert store.earliest_store_time("nowhere", 0) is None
