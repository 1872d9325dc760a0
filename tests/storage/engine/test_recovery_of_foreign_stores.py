"""Stores that somebody else used since: RocketMQ's checkpoint rule, our own files gone stale, files moved on."""

from __future__ import annotations

import pytest

from flaremq.storage.at_rest.reader import StoreReader
from flaremq.storage.files.checkpoint import StoreCheckpoint
from flaremq.storage.put.put_result import PutResult
from tests.support.store_corpus import write_corpus
from tests.support.store_lab import LOG_FILE, TOPIC, StoreLab, all_bodies

OURS = ("flaremq.offsets", "flaremq.queues", "checkpoint")


def views(lab: StoreLab) -> tuple[bytes, dict[str, bytes], list[bytes]]:
    return lab.log_bytes(), lab.queue_bytes(), lab.index_bytes()


def used_by_rocketmq_since(lab: StoreLab, *, crashed: bool) -> None:
    """The store as if a Java broker had written the second half: our own files still tell of the first."""
    lab.open()
    write_corpus(lab, 4)
    lab.close()
    ours = {name: (lab.root / name).read_bytes() for name in OURS}
    lab.open()
    write_corpus(lab, 4, first=4)
    lab.close()
    for name, content in ours.items():
        (lab.root / name).write_bytes(content)
    if crashed:
        lab.abort.write_text("4711")


@pytest.mark.parametrize("crashed", [False, True])
def test_messages_rocketmq_added_since_our_last_run_are_all_there(lab: StoreLab, crashed: bool) -> None:
    used_by_rocketmq_since(lab, crashed=crashed)
    before = views(lab)
    lab.open()
    lab.close()
    assert views(lab) == before  # nothing lost, nothing twice


@pytest.mark.parametrize("crashed", [False, True])
def test_store_goes_on_where_rocketmq_left_it(lab: StoreLab, crashed: bool) -> None:
    used_by_rocketmq_since(lab, crashed=crashed)
    store = lab.open()
    offset = store.max_offset(TOPIC, 0)
    assert lab.put(b"ours again").queue_offset == offset
    assert all_bodies(store)[-1] == b"ours again"


def test_files_rocketmq_deleted_since_our_last_run_do_not_matter(lab: StoreLab) -> None:
    lab.open()
    lab.put(keys="k")
    lab.close()
    ours = {name: (lab.root / name).read_bytes() for name in OURS}
    lab.open()
    results = lab.fill_files(4, keys="k")
    lab.store.delete_expired(force=True)
    kept = len(all_bodies(lab.store))
    lab.close()
    for name, content in ours.items():
        (lab.root / name).write_bytes(content)
    store = lab.open()
    assert store.min_physical_offset == 4 * LOG_FILE
    assert len(all_bodies(store)) == kept
    assert store.max_offset(TOPIC, 0) == len(results) + 1


@pytest.mark.parametrize(("seconds", "file"), [(0, 0), (12, 0), (13, 1), (22, 1), (33, 3), (99, 3)])
def test_without_our_offsets_the_checkpoint_times_choose_where_recovery_starts(
    lab: StoreLab, seconds: int, file: int
) -> None:
    start = lab.clock.now_ms()
    lab.open()
    for number in range(4):  # file n begins n * 10 seconds after the start
        lab.clock.jump(start + number * 10_000 - lab.clock.now_ms() - 1)
        lab.put(b"x" * 9_000, keys="k")
        lab.put(b"y" * 6_000, keys="k")
    assert lab.store.max_physical_offset < 4 * LOG_FILE
    before = lab.queue_bytes()
    lab.kill()
    (lab.root / "flaremq.offsets").unlink()
    at = start + seconds * 1_000
    (lab.root / "checkpoint").write_bytes(StoreCheckpoint(at, at + 5_000, 0).pack())
    store = lab.open()
    assert store.recovery.started_at == file * LOG_FILE
    assert len(store.query(TOPIC, "k", 64)) == len(all_bodies(store)) == 8
    assert lab.queue_bytes() == before


def test_killed_rocketmq_store_keeps_every_whole_record(lab: StoreLab) -> None:
    lab.open(flush_disk_type="ASYNC_FLUSH")
    results = lab.put_many(6)
    lab.kill()
    (lab.root / "flaremq.offsets").unlink()
    lab.abort.write_text("4711")
    lab.damage_log(results[2].physical_offset + 88)
    lab.broken_on_purpose = True
    store = lab.open()
    # Nobody knows what was durable, so nothing that is whole is thrown away.
    assert all_bodies(store) == [b"body %03d" % n for n in (0, 1, 3, 4, 5)]
    assert [damage.start for damage in store.recovery.damaged] == [results[2].physical_offset]


def test_filler_at_the_end_without_a_next_file_is_not_part_of_the_log(lab: StoreLab) -> None:
    lab.open()
    lab.fill_files(1)
    lab.kill()
    lab.log_files()[1].unlink()  # the machine stopped between the filler and the next file
    (lab.root / "flaremq.offsets").unlink()
    store = lab.open()
    assert store.max_physical_offset < LOG_FILE
    count = len(all_bodies(store))
    assert lab.put().queue_offset == count


def crash_as(lab: StoreLab, monkeypatch: pytest.MonkeyPatch, pid: int) -> list[PutResult]:
    """One run of ours with this process id, killed with six messages that were never synced."""
    monkeypatch.setattr("os.getpid", lambda: pid)
    lab.open(flush_disk_type="ASYNC_FLUSH")
    results = lab.put_many(6)
    lab.kill()
    return results


def test_a_shorter_process_id_replaces_a_longer_one_in_abort(lab: StoreLab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else our own crash looks like RocketMQ's, and records behind a tear are taken for durable."""
    crash_as(lab, monkeypatch, 123456)
    results = crash_as(lab, monkeypatch, 99)
    lab.damage_log(results[2].physical_offset + 88)
    with StoreReader.open(lab.root) as reader:
        assert reader.log_end == results[2].physical_offset
    store = lab.open()
    assert store.recovery.log_end == results[2].physical_offset and store.recovery.saved_tail


def test_a_rocketmq_with_our_process_id_is_not_us(lab: StoreLab, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container both are process 1: whole records behind damage in RocketMQ's part of the log are kept."""
    results = crash_as(lab, monkeypatch, 1)
    lab.abort.write_text("1")
    lab.damage_log(results[2].physical_offset + 88)
    lab.broken_on_purpose = True
    with StoreReader.open(lab.root) as reader:
        assert reader.survey.records == 5
    assert all_bodies(lab.open()) == [b"body %03d" % n for n in (0, 1, 3, 4, 5)]
