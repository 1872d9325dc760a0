"""The confirm gate: what copies have not confirmed is nobody's to read, in this life of a store or the next."""

from __future__ import annotations

import pytest

from flaremq.errors import InvalidArgumentError
from flaremq.message.message import Message
from flaremq.storage.files.checkpoint import StoreCheckpoint
from flaremq.storage.files.filesystem import LocalFileSystem
from flaremq.storage.status import GetMessageStatus
from tests.support.driven_store import DrivenStore, open_driven, show
from tests.support.store_lab import TOPIC, StoreLab, all_bodies

FLUSH = ("SYNC_FLUSH", "ASYNC_FLUSH")


def put(driver: DrivenStore, body: bytes, topic: str = TOPIC, **fields: object) -> int:
    """Append a message; the end of its record."""
    form = Message(topic, body, **fields)  # type: ignore[arg-type]
    result = driver.append(topic, 0, body, form.encoded_properties(), 0, 0, 1, bytes(8), 0)
    assert isinstance(result, tuple), result
    return result[2]


def open_held(lab: StoreLab, **changes: object) -> DrivenStore:
    """As a broker opens the store of a master that waits for its slaves."""
    return open_driven(lab, broker_role="SYNC_MASTER", **changes)


@pytest.mark.parametrize("flush", FLUSH)
def test_readers_see_what_is_confirmed_and_no_more(lab: StoreLab, flush: str) -> None:
    driver = open_driven(lab, flush_disk_type=flush)
    driver.confirm(0)
    ends = [put(driver, b"m%d" % number, keys=["key"]) for number in range(4)]
    assert show(driver) == set()
    assert driver.store.get(TOPIC, 0, 0).status is GetMessageStatus.NO_MATCHED_LOGIC_QUEUE
    driver.confirm(ends[1])
    assert driver.readable == ends[1]
    assert driver.dispatch() == {(TOPIC, 0)}
    assert all_bodies(driver.store) == [b"m0", b"m1"]
    assert driver.store.max_offset(TOPIC, 0) == 2
    assert [message.body for message in driver.store.query(TOPIC, "key")] == [b"m0", b"m1"]
    assert driver.store.read(ends[1]) is None
    assert driver.undispatched == 0
    driver.confirm(None)
    driver.dispatch()
    assert all_bodies(driver.store) == [b"m0", b"m1", b"m2", b"m3"]


@pytest.mark.parametrize("flush", FLUSH)
def test_a_record_that_is_confirmed_in_part_is_waited_for(lab: StoreLab, flush: str) -> None:
    driver = open_driven(lab, flush_disk_type=flush)
    driver.confirm(0)
    first, second = put(driver, b"x" * 100), put(driver, b"y" * 100)
    driver.sync()
    for confirmed in (first + 1, first + 7, first + 8, first + 90, first + 100, second - 1):
        driver.confirm(confirmed)
        driver.dispatch()
        assert driver.store.dispatched_offset == first
        assert driver.undispatched == 0, "there is nothing to do before more is confirmed"
    assert driver.store.statistics()["damagedLogRanges"] == 0
    driver.confirm(second)
    assert driver.undispatched > 0
    driver.dispatch()
    assert driver.store.dispatched_offset == second


def test_the_gate_inside_a_filler_harms_nothing(lab: StoreLab) -> None:
    driver = open_driven(lab)
    driver.confirm(0)
    size, ends = driver.file_size, []
    while driver.appended < size:
        ends.append(put(driver, b"x" * 1500))
    driver.sync()
    filler = max(end for end in ends if end < size)
    for confirmed in (filler + 1, filler + 8, filler + 20, size - 1, size, size + 1):
        driver.confirm(confirmed)
        driver.dispatch()
    assert driver.store.max_offset(TOPIC, 0) == len(ends) - 1
    driver.confirm(driver.appended)
    driver.dispatch()
    assert driver.store.max_offset(TOPIC, 0) == len(ends)
    assert driver.store.statistics()["damagedLogRanges"] == 0


def test_what_was_shown_stays_shown(lab: StoreLab) -> None:
    driver = open_driven(lab)
    end = put(driver, b"m0")
    show(driver)
    driver.confirm(0)
    assert driver.readable == end
    assert all_bodies(driver.store) == [b"m0"]
    put(driver, b"m1")
    show(driver)
    assert all_bodies(driver.store) == [b"m0"]


def test_damage_before_the_gate_is_stepped_over_once_more_is_confirmed(lab: StoreLab) -> None:
    driver = open_driven(lab)
    driver.confirm(0)
    lab.broken_on_purpose = True
    first, second, third = put(driver, b"m0"), put(driver, b"m1"), put(driver, b"m2")
    driver.sync()
    driver.store._commit_log.current.buffer[first + 4] ^= 0xFF  # type: ignore[union-attr]
    for confirmed in (first, second, second + 50):
        driver.confirm(confirmed)
        driver.dispatch()
    driver.confirm(third)
    driver.dispatch()
    assert all_bodies(driver.store) == [b"m0", b"m2"]


@pytest.mark.parametrize("flush", FLUSH)
@pytest.mark.parametrize("clean", [True, False])
def test_after_a_restart_the_unconfirmed_is_held_until_it_is_confirmed_again(
    lab: StoreLab, flush: str, clean: bool
) -> None:
    driver = open_held(lab, flush_disk_type=flush)
    ends = [put(driver, b"m%d" % number, keys=["key"]) for number in range(4)]
    driver.confirm(ends[1])
    show(driver)
    driver.store._engine.dispatch.drain_queues()  # as a broker does every second
    if clean:
        lab.close()
    else:
        lab.kill()
    driver = open_held(lab)
    assert driver.appended == ends[3]
    assert driver.confirmed == ends[1]
    assert all_bodies(driver.store) == [b"m0", b"m1"]
    assert [message.body for message in driver.store.query(TOPIC, "key")] == [b"m0", b"m1"]
    driver.dispatch()
    assert driver.store.max_offset(TOPIC, 0) == 2
    put(driver, b"m4")
    driver.confirm(ends[3])
    show(driver)
    assert all_bodies(driver.store) == [b"m0", b"m1", b"m2", b"m3"]
    driver.confirm(driver.appended)
    driver.dispatch()
    assert all_bodies(driver.store)[-1] == b"m4"
    assert driver.store.max_offset(TOPIC, 0) == 5, "queue offsets go on behind what was held"


@pytest.mark.parametrize("clean", [True, False])
def test_a_store_that_waits_for_no_copies_shows_what_was_held(lab: StoreLab, clean: bool) -> None:
    driver = open_held(lab)
    for number in range(4):
        put(driver, b"m%d" % number, keys=["key"])
    driver.sync()
    if clean:
        lab.close()
    else:
        lab.kill()
    store = lab.open(broker_role="ASYNC_MASTER")
    assert all_bodies(store) == [b"m0", b"m1", b"m2", b"m3"]
    assert len(store.query(TOPIC, "key")) == 4


def test_units_that_a_killed_process_had_not_checkpointed_tell_what_was_confirmed(lab: StoreLab) -> None:
    driver = open_held(lab)
    ends = [put(driver, b"m%d" % number) for number in range(3)]
    driver.confirm(ends[1])
    show(driver)
    driver.store._engine.dispatch.drain_queues()
    lab.kill()
    assert StoreCheckpoint.load(LocalFileSystem(), str(lab.root / "checkpoint")).confirm_phy_offset == 0
    assert open_held(lab).confirmed == ends[1]


def test_the_confirm_offset_is_in_the_checkpoint_and_never_above_the_durable_log(lab: StoreLab) -> None:
    driver = open_held(lab, flush_disk_type="ASYNC_FLUSH")
    end = put(driver, b"m0")
    driver.confirm(end + 1000)
    driver.master_flushed_offset = 77
    driver.store.tick()
    saved = StoreCheckpoint.load(LocalFileSystem(), str(lab.root / "checkpoint"))
    assert (saved.confirm_phy_offset, saved.master_flushed_offset) == (end, 77)
    lab.close()
    driver = open_held(lab)
    assert driver.master_flushed_offset == 77


def test_an_empty_store_that_waits_for_copies_shows_nothing_before_the_first_confirmation(lab: StoreLab) -> None:
    driver = open_held(lab)
    assert driver.confirmed == 0
    end = put(driver, b"m0")
    show(driver)
    assert all_bodies(driver.store) == []
    driver.confirm(end)
    driver.dispatch()
    assert all_bodies(driver.store) == [b"m0"]


def test_deleting_a_topic_counts_what_is_held_as_deleted(lab: StoreLab) -> None:
    driver = open_held(lab)
    put(driver, b"old")
    driver.sync()
    driver.store.delete_topics([TOPIC])
    end = put(driver, b"new")
    lab.kill()
    driver = open_held(lab)
    put(driver, b"newer")
    driver.confirm(end)
    show(driver)
    assert all_bodies(driver.store) == [b"new"]
    driver.confirm(driver.appended)
    driver.dispatch()
    assert all_bodies(driver.store) == [b"new", b"newer"]


def test_another_process_finds_no_unit_of_what_is_held(lab: StoreLab) -> None:
    driver = open_held(lab)
    ends = [put(driver, b"m%d" % number) for number in range(3)]
    driver.confirm(ends[0])
    show(driver)
    driver.store._engine.dispatch.drain_queues()
    units = b"".join(path.read_bytes() for path in lab.queue_files())
    assert len(units.rstrip(b"\0")) <= 20


@pytest.mark.parametrize("promise", [{"broker_role": "SYNC_MASTER"}, {"in_sync_replicas": 2}])
def test_a_store_without_a_broker_refuses_to_promise_copies(lab: StoreLab, promise: dict[str, object]) -> None:
    with pytest.raises(InvalidArgumentError, match="cannot be kept without a broker"):
        lab.open(**promise)
    assert open_driven(lab, **promise).appended == 0


def test_queues_whose_messages_wait_for_copies_are_queues_of_the_log(lab: StoreLab) -> None:
    driver = open_driven(lab)
    put(driver, b"shown", "Shown")
    show(driver)
    driver.confirm(driver.appended)
    put(driver, b"held", "Held")
    assert show(driver) == set()
    assert driver.store.queues() == [("Shown", 0)]
    assert driver.store.queues_in_log() == [("Held", 0), ("Shown", 0)]
