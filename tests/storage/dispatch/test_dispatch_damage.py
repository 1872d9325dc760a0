"""Log bytes that change under a running store: the record costs itself, everything else is served."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from flaremq.message.message import Message
from flaremq.message.topics import SCHEDULE_TOPIC
from flaremq.storage.queue.consume_queue import FILLER, UNIT
from flaremq.storage.runtime.health import RunningFlag
from tests.support.readable import readable_dispatch
from tests.support.store_lab import TOPIC, StoreLab, all_bodies

COUNT = 9
HIT = 4


@pytest.fixture(params=["readable", "core"])
def path(request: pytest.FixtureRequest) -> Iterator[str]:
    """Records go to their views one by one, by the readable rules, or through the core."""
    with readable_dispatch(request.param == "readable"):
        yield request.param


def put_undispatched(lab: StoreLab, count: int = COUNT, **fields: Any) -> list[int]:
    """Messages that are in the log and not in their queue yet; where their records start, and the end."""
    store = lab.store
    store._dispatch.run = lambda: None  # type: ignore[method-assign]
    results = [lab.put(b"body %d " % number + bytes(200), keys=f"k{number}", **fields) for number in range(count)]
    return [result.physical_offset for result in results] + [store.max_physical_offset]


def dispatch(lab: StoreLab) -> None:
    store = lab.store
    del store._dispatch.run
    store.flush()
    store.tick()


def change(lab: StoreLab, at: int, data: bytes) -> None:
    """Through the mapping, as a stray write of this process would."""
    file = lab.store._commit_log.files.find(at)
    assert file is not None
    file.buffer[at - file.start : at - file.start + len(data)] = data


DAMAGE = {
    "size": (0, b"\x00\x00\x00\x05"),
    "size beyond the end": (0, b"\x7f\x00\x00\x05"),
    "magic": (4, b"\x00\x00\x00\x00"),
    "a filler's magic": (4, b"\xcb\xd4\x31\x94"),
    "physical offset": (28, bytes(8)),
    "host family": (36, b"\x00\x00\x00\x10"),
    "body length": (84, b"\x00\x00\xff\xff"),
    "negative body length": (84, b"\xff\xff\xff\xff"),
    "everything": (0, bytes(250)),
    "topic": (88 + 207 + 1, b"../up/"),
    "topic that is no text": (88 + 207 + 1, b"\xff\xfe\xfd"),
    "queue id": (12, b"\xff\xff\xff\xff"),
    "queue offset": (20, b"\x00\x00\x7f\xff\xff\xff\xff\xff"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_record_costs_itself_and_nothing_else(
    lab: StoreLab, path: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    lab.broken_on_purpose = True
    store = lab.open()
    lab.put(b"before", keys="before")
    starts = put_undispatched(lab)
    at, data = DAMAGE[kind]
    change(lab, starts[HIT] + at, data)
    with caplog.at_level(logging.ERROR):
        dispatch(lab)
    assert f"[{starts[HIT]}, {starts[HIT + 1]})" in caplog.text
    assert store.is_writable and store.dispatch_lag_bytes == 0
    assert store.health & RunningFlag.LOG_DAMAGED
    counted = store.statistics()
    assert (counted["damagedLogRanges"], counted["damagedLogBytes"]) == (1, starts[HIT + 1] - starts[HIT])
    assert store._queues.simple[TOPIC, 0].read_units(HIT + 1, 1) == FILLER
    assert lab.put(b"after", keys="after").queue_offset == COUNT + 1
    expected = [b"before", *(b"body %d " % n + bytes(200) for n in range(COUNT) if n != HIT), b"after"]
    assert all_bodies(store) == expected
    offsets = [message.queue_offset for message in store.get(TOPIC, 0, 0).messages]
    assert offsets == [n for n in range(COUNT + 2) if n != HIT + 1]
    for key in ("before", f"k{HIT - 1}", f"k{HIT + 1}", "after"):
        assert len(store.query(TOPIC, key)) == 1
    lab.reopen()
    assert all_bodies(lab.store) == expected
    lab.put(b"later")
    lab.kill_and_open()
    assert all_bodies(lab.store) == [*expected, b"later"]


def test_filler_magic_in_a_file_that_appends_have_left_costs_its_record(lab: StoreLab, path: str) -> None:
    lab.broken_on_purpose = True
    store = lab.open()
    count = lab.options.mapped_file_size_commit_log // 250  # into the next file
    starts = put_undispatched(lab, count)
    assert len(store._commit_log.files.files) == 2
    change(lab, starts[HIT] + 4, b"\xcb\xd4\x31\x94")
    dispatch(lab)
    assert store.dispatch_lag_bytes == 0
    assert store.statistics()["damagedLogBytes"] == starts[HIT + 1] - starts[HIT]
    assert len(all_bodies(store)) == count - 1


def test_record_that_claims_to_be_a_batch_does_not_change_the_kind_of_its_queue(lab: StoreLab, path: str) -> None:
    lab.broken_on_purpose = True
    store = lab.open()
    lab.put(b"before", properties={"INNER_NUM": "2"})
    starts = put_undispatched(lab, properties={"INNER_NUM": "2"})
    change(lab, starts[HIT] + 36, b"\x00\x00\x00\x80")
    dispatch(lab)
    assert store.statistics()["damagedLogRanges"] == 1 and not store._queues.batch
    assert len(all_bodies(store)) == COUNT


def test_queue_whose_last_record_is_damaged_goes_on_at_its_own_offset(lab: StoreLab, path: str) -> None:
    lab.broken_on_purpose = True
    store = lab.open()
    starts = put_undispatched(lab)
    change(lab, starts[-2] + 4, bytes(4))
    dispatch(lab)
    assert store.dispatch_lag_bytes == 0 and store.max_offset(TOPIC, 0) == COUNT - 1
    assert lab.put(b"next").queue_offset == COUNT
    assert store.max_offset(TOPIC, 0) == COUNT + 1
    assert all_bodies(store)[-1] == b"next"


def test_more_damage_than_one_record_is_stepped_over_up_to_the_next_whole_one(lab: StoreLab, path: str) -> None:
    lab.broken_on_purpose = True
    store = lab.open()
    starts = put_undispatched(lab, 60)
    hit = [3, 4, 5, *range(10, 50), 59]
    for number in hit:
        change(lab, starts[number], b"\x55" * (starts[number + 1] - starts[number]))
    dispatch(lab)
    assert store.is_writable and store.statistics()["damagedLogRanges"] == 3
    lab.put(b"after")
    left = [b"body %d " % number + bytes(200) for number in range(60) if number not in hit]
    assert all_bodies(store) == [*left, b"after"]


def test_damaged_filler_at_the_end_of_a_file_does_not_hide_the_next_file(lab: StoreLab, path: str) -> None:
    lab.broken_on_purpose = True
    store = lab.open()
    store._dispatch.run = lambda: None  # type: ignore[method-assign]
    results = lab.fill_files(2)
    files = store._commit_log.files.files
    last_of_first = max(r.physical_offset + r.size for r in results if r.physical_offset < files[0].end)
    change(lab, last_of_first, b"\x55" * 8)
    dispatch(lab)
    assert store.is_writable and len(all_bodies(store)) == len(results)


def test_store_time_that_overflows_with_its_delay_stops_nothing(lab: StoreLab, path: str) -> None:
    lab.broken_on_purpose = True
    store = lab.open()
    starts = put_undispatched(lab, topic=SCHEDULE_TOPIC, properties={"DELAY": "18"})
    change(lab, starts[HIT] + 56, b"\x7f" + b"\xff" * 7)
    dispatch(lab)
    assert store.is_writable and store.max_offset(SCHEDULE_TOPIC, 0) == COUNT


def test_record_that_makes_dispatch_itself_fail_is_set_aside(
    lab: StoreLab, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the cause: one record, not the store."""
    lab.broken_on_purpose = True
    store = lab.open()
    starts = put_undispatched(lab)
    kind = type(store._dispatcher)
    honest, honest_runs = kind.dispatch, kind.append_runs

    def dispatch_or_fail(dispatcher: Any, message: Any) -> None:
        if message.physical_offset == starts[HIT]:
            raise ZeroDivisionError("no such case")
        honest(dispatcher, message)

    def append_or_fail(dispatcher: Any, units: memoryview, *more: Any) -> None:
        if any(offset == starts[HIT] for offset, _, _ in UNIT.iter_unpack(units)):
            raise ZeroDivisionError("no such case")
        honest_runs(dispatcher, units, *more)

    monkeypatch.setattr(kind, "dispatch", dispatch_or_fail)
    monkeypatch.setattr(kind, "append_runs", append_or_fail)
    dispatch(lab)
    assert store.is_writable and store.dispatch_lag_bytes == 0
    assert store.statistics()["damagedLogRanges"] == 1
    assert len(all_bodies(store)) == COUNT - 1


def test_disk_that_takes_no_queue_units_is_no_damage(lab: StoreLab, monkeypatch: pytest.MonkeyPatch) -> None:
    from flaremq.errors import StoreIOError
    from flaremq.storage.files.queue_files import QueueFiles

    store = lab.open()
    starts = put_undispatched(lab)

    def full(*_: Any) -> None:
        raise StoreIOError("write", "queue", OSError("no space"))

    with monkeypatch.context() as patch:
        patch.setattr(QueueFiles, "write", full)
        del store._dispatch.run
        store._dispatch.run()
    assert store.dispatched_offset == starts[0] and store.statistics()["damagedLogRanges"] == 0
    assert store.health & RunningFlag.LOGIC_QUEUE_ERROR
    store.tick()
    assert store.is_writable and len(all_bodies(store)) == COUNT


def test_damage_found_when_opening_shows_in_the_health_too(lab: StoreLab) -> None:
    lab.broken_on_purpose = True
    lab.open()
    results = lab.put_many(5)
    lab.store.flush()
    lab.kill()
    lab.damage_log(results[2].physical_offset + 5)
    store = lab.open()
    assert store.health is RunningFlag.LOG_DAMAGED and store.is_writable
    assert store.statistics()["damagedLogRanges"] == 1
    assert store.put(Message(TOPIC, b"more")).ok
