"""From log to views: the same bytes live, in bulk, rebuilt and recovered, whatever the route."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from flaremq.clock import ManualClock
from flaremq.errors import StoreIOError
from flaremq.message.message import Message
from flaremq.storage.message_store import MessageStore
from flaremq.storage.status import PutMessageStatus
from tests.support.crash_fs import CrashFS
from tests.support.raw_store import FILLER, local_files, read_log, read_queue
from tests.support.readable import readable_dispatch
from tests.support.store_corpus import write_corpus
from tests.support.store_lab import SMALL, TOPIC, StoreLab, all_bodies


def views(lab: StoreLab) -> tuple[dict[str, bytes], list[bytes]]:
    return lab.queue_bytes(), lab.index_bytes()


def forget_views(lab: StoreLab) -> None:
    """Leave the log alone, literally."""
    for path in lab.root.iterdir():
        if path.name != "commitlog":
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def written_store(root: Path, *, readable: bool = False, rounds: int = 8) -> StoreLab:
    lab = StoreLab(root)
    with readable_dispatch(readable):
        lab.open()
        write_corpus(lab, rounds, foreign=True)
        lab.close()
    return lab


def test_the_core_and_the_readable_rules_give_identical_bytes(tmp_path: Path) -> None:
    plain = written_store(tmp_path / "plain", readable=True)
    bulk = written_store(tmp_path / "bulk")
    assert plain.log_bytes() == bulk.log_bytes()
    assert views(plain) == views(bulk)
    assert len(plain.index_bytes()) > 2 and len(plain.log_files()) > 1
    plain.finish()
    bulk.finish()


def test_queue_files_equal_what_an_independent_reader_expects(lab: StoreLab) -> None:
    lab.open()
    write_corpus(lab, foreign=True)
    lab.close()
    files = local_files(str(lab.root))
    expected: dict[tuple[str, int], dict[int, bytes]] = {}
    for record in read_log(files, str(lab.root)).records:
        if record.has_unit:
            expected.setdefault((record.topic, record.queue_id), {})[record.queue_offset] = record.unit
    for (topic, queue_id), units in expected.items():
        assert read_queue(files, str(lab.root), topic, queue_id) == units
        assert sorted(units) == list(range(len(units)))


@pytest.mark.parametrize("readable", [False, True])
def test_views_rebuilt_from_the_log_alone_equal_the_live_ones(tmp_path: Path, readable: bool) -> None:
    lab = written_store(tmp_path / "store", readable=not readable)
    live = views(lab)
    forget_views(lab)
    with readable_dispatch(readable):
        lab.open()
        lab.close()
    assert views(lab) == live
    lab.finish()


@pytest.mark.parametrize("lost", ["consumequeue", "index"])
def test_one_lost_view_is_rebuilt_and_the_other_left_as_it_was(tmp_path: Path, lost: str) -> None:
    lab = written_store(tmp_path / "store")
    live = views(lab)
    shutil.rmtree(lab.root / lost)
    lab.open()
    lab.close()
    assert views(lab) == live
    lab.finish()


def test_one_lost_queue_is_rebuilt(tmp_path: Path) -> None:
    lab = written_store(tmp_path / "store")
    live = views(lab)
    shutil.rmtree(lab.root / "consumequeue" / TOPIC / "1")
    lab.open()
    lab.close()
    assert views(lab) == live


@pytest.mark.parametrize("readable", [False, True])
def test_views_recovered_after_a_kill_equal_those_of_a_clean_store(tmp_path: Path, readable: bool) -> None:
    clean = written_store(tmp_path / "clean")
    killed = StoreLab(tmp_path / "killed")
    killed.open()
    write_corpus(killed, 5, foreign=True)
    killed.store.tick()  # a checkpoint in the middle: recovery starts there
    write_corpus(killed, 3, first=5, foreign=True)
    killed.kill()
    with readable_dispatch(readable):
        killed.open()
    assert killed.store.recovery.started_at > 0
    killed.close()
    assert killed.log_bytes() == clean.log_bytes()
    assert views(killed) == views(clean)


def test_dispatch_crosses_log_files(lab: StoreLab) -> None:
    lab.open(flush_disk_type="ASYNC_FLUSH")
    results = lab.fill_files(3, keys="k")
    forget = lab.store.max_offset(TOPIC, 0)
    assert forget == len(results)
    lab.kill_and_open()
    assert len(all_bodies(lab.store)) == len(results)


def test_dispatch_puts_filler_where_a_record_is_damaged(lab: StoreLab) -> None:
    lab.open()
    results = lab.put_many(6)
    lab.kill()
    lab.damage_log(results[2].physical_offset + 90)
    lab.broken_on_purpose = True
    lab.open()
    assert all_bodies(lab.store) == [b"body %03d" % n for n in (0, 1, 3, 4, 5)]
    units = read_queue(local_files(str(lab.root)), str(lab.root), TOPIC, 0)
    assert units[2] == FILLER


@pytest.mark.parametrize("part", ["/consumequeue/", "/index/"])
def test_dispatch_goes_on_where_a_full_disk_stopped_it(part: str) -> None:
    disk = CrashFS()
    store = MessageStore.open("/store", SMALL, filesystem=disk, clock=ManualClock(), threads=False)

    def no_space(operation: str, path: str) -> None:
        if part in path and operation in ("create", "write", "reserve", "mkdir"):
            raise StoreIOError(operation, path, OSError(28, "No space left on device"))

    disk.observer = no_space
    for number in range(90):
        result = store.put(Message(TOPIC, b"%d" % number, keys=[f"k{number}", "all"]))
        if result.status is not PutMessageStatus.PUT_OK:
            break
    assert result.status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    disk.observer = None
    store.tick()
    assert store.is_writable
    for later in range(number, 90):
        assert store.put(Message(TOPIC, b"%d" % later, keys=[f"k{later}", "all"])).ok
    assert all_bodies(store) == [b"%d" % number for number in range(90)]
    assert [len(store.query(TOPIC, f"k{number}")) for number in range(90)] == [1] * 90
    index = store._engine.parts.index
    assert index is not None
    assert sum(file.count - 1 for file in index.files) == 180  # no key twice
    store.close()


def test_readers_are_told_which_queues_grew(lab: StoreLab) -> None:
    store = lab.open()
    store._dispatcher.touched.clear()
    lab.put(queue_id=3)
    lab.put(topic="bills")
    assert store._dispatcher.touched == {(TOPIC, 3), ("bills", 0)}


@pytest.mark.parametrize("gap", [10, 1000])
def test_offset_that_the_writer_gave_out_is_believed_however_large_the_gap(lab: StoreLab, gap: int) -> None:
    store = lab.open()
    assert store.put(Message(TOPIC, b"before")).queue_offset == 0
    store.wait_for_dispatch()
    store._writer.queue_offsets[TOPIC][0] += gap  # records that were taken back, or lost in a damaged stretch
    put = store.put(Message(TOPIC, b"behind"))
    assert put.queue_offset == 1 + gap
    store.wait_for_dispatch()
    assert [message.body for message in store.get(TOPIC, 0, put.queue_offset).messages] == [b"behind"]
