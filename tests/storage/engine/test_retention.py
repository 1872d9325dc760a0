"""Deleting old files: by hour, by space, by hand; never under a reader; queues and index follow the log."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from flaremq.errors import StoreIOError
from flaremq.storage.runtime.health import RunningFlag
from flaremq.storage.status import GetMessageStatus
from tests.support.store_lab import LOG_FILE, TOPIC, MeasuredFileSystem, StoreLab, all_bodies

HOUR = 3_600_000


def hour_of(lab: StoreLab) -> str:
    return f"{time.localtime(lab.clock.now_ms() / 1000).tm_hour:02d}"


@pytest.fixture
def disk(lab: StoreLab) -> MeasuredFileSystem:
    lab.filesystem = MeasuredFileSystem(0.1)
    return lab.filesystem


def open_outside_hours(lab: StoreLab, **changes: Any) -> None:
    """A store with four full files and a deleteWhen that is never now."""
    lab.open(**changes)
    lab.fill_files(4, keys="k")


def set_delete_when(lab: StoreLab, *, now: bool) -> None:
    hour = int(hour_of(lab))
    lab.reopen(delete_when=f"{hour if now else (hour + 12) % 24:02d}")


def file_count(lab: StoreLab) -> int:
    return len(lab.log_files())


def test_expired_files_go_in_the_hour_of_delete_when(lab: StoreLab, disk: MeasuredFileSystem) -> None:
    open_outside_hours(lab)
    lab.clock.advance(72 * HOUR + 1000)
    set_delete_when(lab, now=False)
    lab.store.tick()
    assert file_count(lab) == 5
    set_delete_when(lab, now=True)
    lab.store.tick()
    assert file_count(lab) == 1


def test_several_hours_may_be_named(lab: StoreLab, disk: MeasuredFileSystem) -> None:
    open_outside_hours(lab)
    lab.clock.advance(72 * HOUR + 1000)
    lab.reopen(delete_when=f"{(int(hour_of(lab)) + 5) % 24};{hour_of(lab)}")
    lab.store.tick()
    assert file_count(lab) == 1


def test_files_that_are_not_expired_stay(lab: StoreLab, disk: MeasuredFileSystem) -> None:
    open_outside_hours(lab)
    lab.clock.advance(71 * HOUR)
    set_delete_when(lab, now=True)
    lab.store.tick()
    assert file_count(lab) == 5
    assert lab.store.delete_expired() == 0


def test_age_of_a_file_is_that_of_the_message_after_it(lab: StoreLab, disk: MeasuredFileSystem) -> None:
    lab.open()
    lab.fill_files(1)
    lab.clock.advance(50 * HOUR)
    lab.fill_files(2)
    lab.clock.advance(30 * HOUR)
    for path in lab.log_files():
        path.touch()  # copies and restores change modification times: they do not count
    assert lab.store.delete_expired() == 1
    assert file_count(lab) == 2


@pytest.mark.parametrize(("used", "expected"), [(0.75, 5), (0.7501, 1), (0.80, 1)])
def test_above_75_percent_expired_files_go_at_any_hour(
    lab: StoreLab, disk: MeasuredFileSystem, used: float, expected: int
) -> None:
    open_outside_hours(lab)
    lab.clock.advance(73 * HOUR)
    set_delete_when(lab, now=False)
    disk.used = used
    lab.store.tick()
    assert file_count(lab) == expected
    assert lab.store.is_writable


def test_above_75_percent_files_that_are_not_expired_stay(lab: StoreLab, disk: MeasuredFileSystem) -> None:
    open_outside_hours(lab)
    disk.used = 0.80
    lab.store.tick()
    assert file_count(lab) == 5


def test_above_85_percent_files_go_whatever_their_age(lab: StoreLab, disk: MeasuredFileSystem) -> None:
    open_outside_hours(lab)
    disk.used = 0.851
    lab.store.tick()
    assert file_count(lab) == 1
    assert lab.store.is_writable


def test_forced_cleaning_can_be_forbidden(lab: StoreLab, disk: MeasuredFileSystem) -> None:
    open_outside_hours(lab, clean_file_forcibly_enable=False)
    disk.used = 0.95
    lab.store.tick()
    assert file_count(lab) == 5
    assert not lab.store.is_writable


def test_above_90_percent_puts_are_refused_until_there_is_room(lab: StoreLab, disk: MeasuredFileSystem) -> None:
    open_outside_hours(lab)
    disk.used = 0.91
    lab.store.tick()
    assert lab.store.health & RunningFlag.DISK_FULL
    assert file_count(lab) == 1
    for used in (0.90, 0.86):  # between the two levels nothing changes: it stays refused, or stays taken
        disk.used = used
        lab.store.tick()
        assert lab.store.health & RunningFlag.DISK_FULL
    disk.used = 0.85
    lab.store.tick()
    assert lab.store.is_writable
    disk.used = 0.90
    lab.store.tick()
    assert lab.store.is_writable
    lab.put()


def test_full_queue_partition_counts_too(lab: StoreLab, disk: MeasuredFileSystem) -> None:
    open_outside_hours(lab)
    disk.by_folder[str(lab.root)] = 0.95
    lab.store.tick()
    assert lab.store.health & RunningFlag.LOGIC_DISK_FULL
    assert not lab.store.health & RunningFlag.DISK_FULL
    assert file_count(lab) == 1


def test_thresholds_follow_the_options(lab: StoreLab, disk: MeasuredFileSystem) -> None:
    open_outside_hours(lab, disk_space_clean_forcibly_ratio=40, disk_space_warning_level_ratio=50)
    disk.used = 0.45
    lab.store.tick()
    assert file_count(lab) == 1 and lab.store.is_writable
    disk.used = 0.55
    lab.store.tick()
    assert not lab.store.is_writable


def test_least_used_of_several_log_folders_decides(lab: StoreLab, disk: MeasuredFileSystem, tmp_path: Path) -> None:
    folders = [str(tmp_path / name) for name in ("a", "b")]
    lab.open(store_path_commit_log=",".join(folders))
    lab.fill_files(2)
    disk.by_folder = {folders[0]: 0.95, folders[1]: 0.2}
    lab.store.tick()
    assert lab.store.is_writable
    lab.fill_files(5)
    new = [path.name for path in (tmp_path / "a").iterdir()]
    assert max(map(int, new)) <= 3 * LOG_FILE  # nothing new goes to the full folder


def test_by_hand_expired_files_go_at_any_hour_and_all_but_the_last_if_forced(
    lab: StoreLab, disk: MeasuredFileSystem
) -> None:
    open_outside_hours(lab)
    assert lab.store.delete_expired() == 0
    assert lab.store.delete_expired(force=True) == 4
    assert file_count(lab) == 1
    assert lab.store.delete_expired(force=True) == 0


def test_request_by_hand_is_good_for_twenty_rounds(lab: StoreLab, disk: MeasuredFileSystem) -> None:
    open_outside_hours(lab)
    set_delete_when(lab, now=False)
    lab.store._engine.retention.request()
    for _ in range(19):
        lab.store.tick()
    lab.clock.advance(73 * HOUR)
    lab.store.tick()
    assert file_count(lab) == 1


def test_request_by_hand_ends_after_twenty_rounds(lab: StoreLab, disk: MeasuredFileSystem) -> None:
    open_outside_hours(lab)
    set_delete_when(lab, now=False)
    lab.store._engine.retention.request()
    for _ in range(20):
        lab.store.tick()
    lab.clock.advance(73 * HOUR)
    lab.store.tick()
    assert file_count(lab) == 5


def test_deletion_is_spread_over_rounds(lab: StoreLab, disk: MeasuredFileSystem) -> None:
    lab.open(delete_file_batch_max=2)
    lab.fill_files(5)
    pauses: list[float] = []
    lab.store._engine.retention._pause = lambda seconds: bool(pauses.append(seconds))
    assert [lab.store.delete_expired(force=True) for _ in range(4)] == [2, 2, 1, 0]
    assert pauses.count(0.1) >= 2  # between two files of a round


def test_queues_and_index_follow_the_log(lab: StoreLab, disk: MeasuredFileSystem) -> None:
    lab.open(mapped_file_size_consume_queue=20 * 4, max_index_num=6)
    results = lab.fill_files(4, keys="k")
    queue_files, index_files = len(lab.queue_files()), len(lab.index_bytes())
    lab.store.delete_expired(force=True)
    low = next(n for n, result in enumerate(results) if result.physical_offset >= 4 * LOG_FILE)
    assert lab.store.min_offset(TOPIC, 0) == low
    assert len(lab.queue_files()) < queue_files and len(lab.index_bytes()) < index_files
    assert len(all_bodies(lab.store)) == len(results) - low
    assert len(lab.store.query(TOPIC, "k", 64)) == len(results) - low
    assert lab.store.get(TOPIC, 0, 0).status is GetMessageStatus.OFFSET_TOO_SMALL


def test_log_that_is_not_dispatched_durably_is_not_deleted(lab: StoreLab, disk: MeasuredFileSystem) -> None:
    open_outside_hours(lab)
    # No checkpoint can be taken: recovery would still have to start in the first file.
    lab.store._engine.checkpointer.views_failure = StoreIOError("sync", "queues", OSError("no"))
    assert lab.store.delete_expired(force=True) == 0
    assert file_count(lab) == 5


def test_deletion_takes_the_checkpoint_it_needs(lab: StoreLab, disk: MeasuredFileSystem) -> None:
    open_outside_hours(lab)
    disk.used = 0.95
    assert lab.store._engine.retention.run_round() == 4


def test_unflushed_log_is_not_deleted(lab: StoreLab, disk: MeasuredFileSystem) -> None:
    lab.open(flush_disk_type="ASYNC_FLUSH")
    lab.fill_files(3)
    assert lab.store.flushed_offset == 0
    assert lab.store._engine.retention.delete_expired(at_once=True) == 0


def test_queue_offsets_go_on_after_everything_was_deleted(lab: StoreLab, disk: MeasuredFileSystem) -> None:
    lab.open()
    lab.put_many(3, topic="old")
    lab.fill_files(2)
    lab.store.delete_expired(force=True)
    lab.kill_and_open()
    assert lab.put(topic="old").queue_offset == 3
    assert lab.store.get("old", 0, 3).status is GetMessageStatus.FOUND
