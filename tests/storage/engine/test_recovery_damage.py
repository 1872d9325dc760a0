"""Recovery of logs that are torn, damaged or carry old bytes: what is lost is as little as can be, and told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flaremq.clock import ManualClock
from flaremq.message.message import Message
from flaremq.storage.message_store import MessageStore
from flaremq.storage.put.put_result import PutResult
from flaremq.storage.status import GetMessageStatus
from tests.support.crash_fs import CrashFS, SubsetChooser
from tests.support.raw_store import FILLER, local_files, read_log, read_queue
from tests.support.store_corpus import raw_form
from tests.support.store_lab import LOG_FILE, SMALL, TOPIC, StoreLab, all_bodies

BODIES = [b"body %03d" % number for number in range(6)]
BODY_AT = 88


def killed_with(lab: StoreLab, flush: str) -> list[PutResult]:
    lab.open(flush_disk_type=flush)
    results = lab.put_many(6, keys="k")
    lab.kill()
    lab.broken_on_purpose = True
    return results


# Damage below what is known to be durable


@pytest.mark.parametrize("hit", [0, 1, 4])
@pytest.mark.parametrize("at", [0, 4, 8, 28, 30, 84, BODY_AT], ids=str)
def test_damaged_durable_record_costs_only_itself(lab: StoreLab, hit: int, at: int) -> None:
    results = killed_with(lab, "SYNC_FLUSH")
    lab.damage_log(results[hit].physical_offset + at)
    store = lab.open()
    assert all_bodies(store) == [body for n, body in enumerate(BODIES) if n != hit]
    (damage,) = store.recovery.damaged
    assert (damage.start, damage.end) == (results[hit].physical_offset, results[hit + 1].physical_offset)
    assert store.recovery.truncated_bytes == 0
    assert lab.put(b"after").queue_offset == 6


def test_place_of_a_damaged_record_becomes_filler(lab: StoreLab) -> None:
    results = killed_with(lab, "SYNC_FLUSH")
    lab.damage_log(results[2].physical_offset + BODY_AT)
    lab.open()
    assert read_queue(local_files(str(lab.root)), str(lab.root), TOPIC, 0)[2] == FILLER
    assert lab.store.get(TOPIC, 0, 2, 1).messages[0].body == BODIES[3]
    assert lab.store.read(results[2].physical_offset) is None


def test_several_damaged_records_are_each_reported(lab: StoreLab) -> None:
    results = killed_with(lab, "SYNC_FLUSH")
    for number in (0, 2, 3):
        lab.damage_log(results[number].physical_offset + BODY_AT)
    store = lab.open()
    starts = [results[n].physical_offset for n in (0, 2)]
    assert [damage.start for damage in store.recovery.damaged] == starts
    assert store.recovery.damaged[1].end == results[4].physical_offset
    assert all_bodies(store) == [BODIES[n] for n in (1, 4, 5)]


def test_damage_over_a_file_boundary_is_stepped_over(lab: StoreLab) -> None:
    lab.open()
    results = lab.fill_files(2)
    lab.kill()
    lab.broken_on_purpose = True
    before_end = max(r.physical_offset for r in results if r.physical_offset < LOG_FILE)
    lab.damage_log(before_end, bytes(LOG_FILE - before_end))
    store = lab.open()
    assert [damage.start for damage in store.recovery.damaged] == [before_end]
    assert len(all_bodies(store)) == len(results) - 1


def test_damaged_last_durable_record_is_told_not_taken_for_a_torn_tail(lab: StoreLab) -> None:
    results = killed_with(lab, "SYNC_FLUSH")
    lab.damage_log(results[5].physical_offset + BODY_AT)
    store = lab.open()
    assert all_bodies(store) == BODIES[:5]
    report = store.recovery
    assert report.damaged or report.saved_tail, "an acknowledged record vanished without a word"


def test_damage_in_a_cleanly_closed_store_does_not_hide_later_messages(lab: StoreLab) -> None:
    lab.open()
    results = lab.put_many(6)
    lab.close()
    lab.damage_log(results[2].physical_offset + BODY_AT)
    lab.broken_on_purpose = True
    store = lab.open()
    assert all_bodies(store) == [body for n, body in enumerate(BODIES) if n != 2]
    result = store.get(TOPIC, 0, 2, 1)
    assert result.status is GetMessageStatus.FOUND and result.messages[0].body == BODIES[3]
    assert store.statistics()["damagedReads"] > 0


# The tail that was never confirmed


@pytest.mark.parametrize("at", [0, 4, 28, 84, BODY_AT], ids=str)
def test_unconfirmed_log_ends_at_the_first_torn_record(lab: StoreLab, at: int) -> None:
    results = killed_with(lab, "ASYNC_FLUSH")
    lab.damage_log(results[3].physical_offset + at)
    store = lab.open()
    assert all_bodies(store) == BODIES[:3]
    assert store.max_physical_offset == results[3].physical_offset
    assert store.recovery.truncated_bytes > 0 and store.recovery.damaged == []
    assert lab.put(b"after").queue_offset == 3


def test_whole_records_behind_a_torn_one_are_saved_before_they_are_cut(lab: StoreLab) -> None:
    results = killed_with(lab, "ASYNC_FLUSH")
    lab.damage_log(results[3].physical_offset + BODY_AT)
    end = results[5].physical_offset + results[5].size
    tail = lab.log_bytes()[results[3].physical_offset : end]
    saved = lab.open().recovery.saved_tail
    assert saved is not None
    assert Path(saved).parent == lab.root / "flaremq.saved"
    assert Path(saved).read_bytes()[: len(tail)] == tail


def test_torn_last_record_is_truncated_and_nothing_is_saved(lab: StoreLab) -> None:
    results = killed_with(lab, "ASYNC_FLUSH")
    last = results[5]
    lab.damage_log(last.physical_offset + 40, bytes(last.size - 40))
    store = lab.open()
    assert all_bodies(store) == BODIES[:5]
    assert store.recovery.saved_tail is None
    assert not any(lab.log_bytes()[last.physical_offset :])


def test_queue_units_and_keys_of_cut_records_are_gone(lab: StoreLab) -> None:
    results = killed_with(lab, "ASYNC_FLUSH")
    lab.damage_log(results[3].physical_offset + BODY_AT)
    store = lab.open()
    assert store.max_offset(TOPIC, 0) == 3
    assert len(store.query(TOPIC, "k", 64)) == 3
    assert sorted(read_queue(local_files(str(lab.root)), str(lab.root), TOPIC, 0)) == [0, 1, 2]


def test_torn_file_start_removes_the_files_behind_it(lab: StoreLab) -> None:
    lab.open(flush_disk_type="ASYNC_FLUSH")
    results = lab.fill_files(3)
    lab.kill()
    lab.damage_log(LOG_FILE + 4)
    store = lab.open()
    kept = [r for r in results if r.physical_offset < LOG_FILE]
    assert len(all_bodies(store)) == len(kept)
    assert len(lab.log_files()) == 2  # the one that starts at the end stays, empty
    assert lab.put().queue_offset == len(kept)


def test_stale_bytes_behind_a_cut_do_not_come_back(lab: StoreLab) -> None:
    results = killed_with(lab, "ASYNC_FLUSH")
    lab.damage_log(results[2].physical_offset + BODY_AT)
    lab.open()
    lab.put(BODIES[2])  # the same length: records 3.. would line up behind it
    lab.kill_and_open()
    assert all_bodies(lab.store) == BODIES[:3]
    assert read_log(local_files(str(lab.root)), str(lab.root)).stale == []


def test_record_that_belongs_elsewhere_is_not_taken_for_this_place(lab: StoreLab) -> None:
    results = killed_with(lab, "ASYNC_FLUSH")
    copy = lab.log_bytes()[results[0].physical_offset :][: results[0].size]
    lab.damage_log(results[5].physical_offset, copy)
    assert all_bodies(lab.open()) == BODIES[:5]


# Power cuts: only what was synced is left


def open_on(disk: CrashFS, **changes: Any) -> MessageStore:
    options = replace(SMALL, **changes)
    return MessageStore.open("/store", options, filesystem=disk, clock=ManualClock(), threads=False)


def test_acknowledged_messages_survive_a_power_cut_that_loses_everything_unsynced() -> None:
    disk = CrashFS()
    store = open_on(disk)
    for body in BODIES:
        assert store.put(Message(TOPIC, body, keys="k")).ok
    after = open_on(disk.crash(SubsetChooser(0)))
    assert all_bodies(after) == BODIES
    assert len(after.query(TOPIC, "k")) == 6


@pytest.mark.parametrize(
    "properties", [b"a\x01nul \x00 inside\x02", b"a\x01bad \xff text\x02", b"no separator\x02", b"\x01empty key\x02"]
)
def test_whatever_properties_were_acknowledged_survive_a_power_cut(properties: bytes) -> None:
    disk = CrashFS()
    store = open_on(disk)
    acknowledged = 0
    for form in (raw_form(TOPIC, b""), raw_form(TOPIC, properties), raw_form(TOPIC, b"")):
        acknowledged += store.put_form(form).ok  # refusing is as good as keeping
    assert len(all_bodies(open_on(disk.crash(SubsetChooser(0))))) == acknowledged


def test_acknowledged_property_with_a_nul_survives_a_power_cut() -> None:
    disk = CrashFS()
    store = open_on(disk)
    acknowledged = [store.put(Message(TOPIC, b"x", properties={"note": "a\0b"})), store.put(Message(TOPIC, b"y"))]
    kept = sum(result.ok for result in acknowledged)
    assert len(all_bodies(open_on(disk.crash(SubsetChooser(0))))) == kept
