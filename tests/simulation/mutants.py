"""Deliberate bugs, most of them copied from real reports, put into the running product one at a time.

A simulator that has never failed proves nothing. Each mutant names the hunt that must find it; a hunt is a bounded
piece of the ordinary suites, so what catches a mutant here would have caught the bug there.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from flaremq.clock import ManualClock
from flaremq.errors import StoreIOError
from flaremq.message.message import Message
from flaremq.message.record import check as record_check
from flaremq.storage.dispatch import dispatcher as dispatch
from flaremq.storage.engine import checkpointer, recovery
from flaremq.storage.engine.dispatch_service import DispatchService
from flaremq.storage.engine.flush_service import FlushService
from flaremq.storage.engine.index_recovery import IndexRecovery
from flaremq.storage.engine.recovery import Recovery
from flaremq.storage.engine.retention import Retention
from flaremq.storage.engine.store_engine import StoreEngine
from flaremq.storage.files import checkpoint, mapped_file_queue
from flaremq.storage.files.filesystem import FileSystem
from flaremq.storage.files.queue_files import QueueFiles
from flaremq.storage.get import reader as reading
from flaremq.storage.get.reader import MessageReader
from flaremq.storage.index.index_service import IndexService
from flaremq.storage.log.commit_log import CommitLog
from flaremq.storage.log.flush import GroupCommit
from flaremq.storage.log.put_lock import PutLock
from flaremq.storage.message_store import MessageStore
from flaremq.storage.queue.table import ConsumeQueues
from flaremq.storage.runtime.health import Health, RunningFlag
from tests.simulation import bounded, flips, io_errors
from tests.simulation.world import World, small_options
from tests.support import oracle
from tests.support.crash_fs import CrashFile, CrashFS
from tests.support.oracle import ROOT, OracleViolation

Hunt = Callable[[], Iterator[int]]  # checks images one by one, yields how many each step took, raises on a find


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    infect: Callable[[pytest.MonkeyPatch], None]
    hunt: Hunt


# -- hunts ------------------------------------------------------------------------------------------------------


def histories(*texts: str, mode: str = "SYNC_FLUSH", random_count: int = 12) -> Hunt:
    """Crash the last operation of each history everywhere."""

    def hunt() -> Iterator[int]:
        for text in texts:
            yield bounded.check_sequence(tuple(text.split()), mode, subset_bits=4, random_count=random_count)

    return hunt


def failing_calls(kind: io_errors.Kind, script: str) -> Hunt:
    """Fail every call of a short script, one after the other."""

    def hunt() -> Iterator[int]:
        for at in itertools.count(1):
            checked = io_errors.check_case(io_errors.Case("SYNC_FLUSH", kind, False, at, tuple(script.split())))
            if checked is None:
                return
            yield checked

    return hunt


def flipped_log_bits() -> Iterator[int]:
    store = flips.pristine("closed")
    for path, bit in flips.interesting_bits(store)[:4000:17]:
        flips.check_flip(store, path, bit)
        yield 1


def flipped_log_bits_after_a_kill() -> Iterator[int]:
    store = flips.pristine("killed")
    for record in store.records[-3:-1]:  # not yet dispatched durably, so recovery walks over them
        path = f"{ROOT}/commitlog/{record.physical_offset // 16384 * 16384:020d}"
        flips.check_flip(store, path, (record.physical_offset % 16384 + 100) * 8)
        yield 1


def misplaced_record() -> Iterator[int]:
    """Valid bytes of an older record stand where the next one would (a recycled block, a misdirected write)."""
    check_misplaced_record()
    yield 1


def check_misplaced_record() -> None:
    world = World("misplaced", small_options())
    store = world.open()
    for name in ("put", "put", "put", "tick"):
        world.run(name)
    end = store.max_physical_offset
    first = world.history.entries[0]
    disk = world.fs.kill()
    path = f"{ROOT}/commitlog/{0:020d}"
    content = disk.files()[path]
    assert first.raw is not None
    disk.overwrite(path, content[:end] + first.raw + content[end + len(first.raw) :])
    world.fork(disk).open_and_check()


def racing_writers() -> Iterator[int]:
    check_racing_writers()
    yield 1


def check_racing_writers() -> None:
    """Queue offsets and places handed out to four threads are dense and unique."""
    store = MessageStore.open(ROOT, small_options(), filesystem=CrashFS(), clock=ManualClock(), threads=False)
    store.put(Message("orders", b"first"))
    offsets: list[int] = []
    places: list[int] = []
    start = threading.Barrier(4)

    def work() -> None:
        start.wait()
        for number in range(15):
            result = store.put(Message("orders", b"%d" % number))
            offsets.append(result.queue_offset)
            places.append(result.physical_offset)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if sorted(offsets) != list(range(1, 61)):
        raise OracleViolation(f"I4: sixty puts got the queue offsets {sorted(offsets)}")
    if len(set(places)) != len(places):
        raise OracleViolation(f"I1: sixty puts got the places {sorted(places)}")


# -- mutants ----------------------------------------------------------------------------------------------------


def _no_fsync(patch: pytest.MonkeyPatch) -> None:
    def sync(log: CommitLog) -> int:
        for file in log.files.files:
            file.commit()
            file.flushed = file.committed
        log.flushed_offset, log.flushed_timestamp = log.end_offset, log.last_timestamp
        return log.flushed_offset

    patch.setattr(CommitLog, "sync", sync)


def _ack_before_fsync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupCommit, "wait", lambda commit, offset, timeout=-1: True)


def _no_directory_fsync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CrashFS, "sync_directory", lambda disk, path: disk._begin("sync directory", path))


def _checkpoint_before_queues(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumeQueues, "flush", lambda queues: None)


def _checkpoint_before_index(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(IndexService, "sync", lambda index: None)


def _durable_mark_before_fsync(patch: pytest.MonkeyPatch) -> None:
    honest = FlushService.sync

    def sync(service: FlushService) -> int:
        service._offsets.note_log_durable(service.log.end_offset)
        return honest(service)

    patch.setattr(FlushService, "sync", sync)


def _dispatch_past_flush(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CommitLog, "readable_offset", property(lambda log: log.end_offset))


def _patch_check(patch: pytest.MonkeyPatch, check: Callable[..., Any]) -> None:
    for module in (record_check, dispatch, recovery, reading):
        patch.setattr(module, "check_record", check)


def _body_only_crc(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(record_check, "has_crc_property", lambda properties: False)
    honest = record_check.check_record
    _patch_check(patch, lambda view, at=0, **how: honest(view, at, **(how | {"strict": False})))


def _no_physical_offset_check(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(record_check, "has_crc_property", lambda properties: False)
    honest = record_check.check_record
    _patch_check(patch, lambda view, at=0, **how: honest(view, at, **(how | {"physical_offset": None})))


def _truncate_in_memory(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(mapped_file_queue, "erase", lambda file, position: None)


def _index_dropped_at_recovery(patch: pytest.MonkeyPatch) -> None:
    def restore(recovery: IndexRecovery, start: int) -> int:
        assert recovery._index is not None
        recovery._index.drop_all()
        recovery._dispatcher.index_from = start
        return start

    patch.setattr(IndexRecovery, "restore", restore)


def _state_file_in_place(patch: pytest.MonkeyPatch) -> None:
    def write(filesystem: FileSystem, path: str, data: bytes) -> None:
        handle = filesystem.open(path, create=True)
        handle.write_at(0, data)
        handle.sync()
        handle.close()

    patch.setattr(checkpoint, "write_atomically", write)
    patch.setattr(checkpointer, "write_atomically", write)


def _retry_after_failed_fsync(patch: pytest.MonkeyPatch) -> None:
    honest = CommitLog.sync

    def sync(log: CommitLog) -> int:
        try:
            return honest(log)
        except StoreIOError:
            return honest(log)

    patch.setattr(CommitLog, "sync", sync)


def _recover_last_file_only(patch: pytest.MonkeyPatch) -> None:
    honest = Recovery._prepare_abnormal
    patch.setattr(
        Recovery,
        "_prepare_abnormal",
        lambda recovery: max(honest(recovery), recovery._log.files.files[-1].start),
    )


def _recover_by_wall_clock(patch: pytest.MonkeyPatch) -> None:
    """The newest file that begins before the last checkpoint's time: right until somebody sets the clock back."""

    def prepare(recovery: Recovery) -> int:
        recovery._checkpoint = replace(
            recovery._checkpoint,
            physic_msg_timestamp=recovery._checkpoint.physic_msg_timestamp + 3000,
            logics_msg_timestamp=recovery._checkpoint.logics_msg_timestamp + 3000,
        )
        start = max(recovery._start_by_time(), honest(recovery))
        return start

    honest = Recovery._prepare_abnormal
    patch.setattr(Recovery, "_prepare_abnormal", prepare)


def _sparse_mapping(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CrashFile, "reserve", lambda file, offset, length: None)


def _lost_append_lock(patch: pytest.MonkeyPatch) -> None:
    honest = ManualClock.now_ms

    def slow_now_ms(clock: ManualClock) -> int:
        time.sleep(0.0005)  # between claiming a place and writing there
        return honest(clock)

    honest_init = CommitLog.__init__

    def init(log: CommitLog, *arguments: Any, **settings: Any) -> None:
        honest_init(log, *arguments, **settings)
        log.lock = _NoLock()

    patch.setattr(ManualClock, "now_ms", slow_now_ms)
    patch.setattr(CommitLog, "__init__", init)


class _NoLock(PutLock):
    def acquire(self, timeout: float = -1) -> bool:
        return True

    def release(self) -> None:
        return


def _queue_offsets_start_again(patch: pytest.MonkeyPatch) -> None:
    honest = StoreEngine._assemble

    def assemble(engine: StoreEngine) -> None:
        honest(engine)
        for queue in engine.parts.queues.all():
            if queue.min_offset == queue.end:
                engine.writer.queue_offsets[queue.topic][queue.queue_id] = 0

    patch.setattr(StoreEngine, "_assemble", assemble)


def _retention_deletes_too_much(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Retention, "_is_expired", lambda retention, following: True)


def _queue_write_errors_swallowed(patch: pytest.MonkeyPatch) -> None:
    honest = QueueFiles.write

    def write(files: QueueFiles, position: int, data: bytes) -> None:
        try:
            honest(files, position, data)
        except StoreIOError:
            return

    patch.setattr(QueueFiles, "write", write)
    # Reading puts a missing unit right, so nobody may look before the crash.
    patch.setattr(oracle, "check_visible", lambda store: None)


def _error_flag_never_cleared(patch: pytest.MonkeyPatch) -> None:
    honest = DispatchService.__init__

    def init(service: DispatchService, dispatcher: Any, health: Health) -> None:
        honest(service, dispatcher, _NeverCleared(health))  # type: ignore[arg-type]

    patch.setattr(DispatchService, "__init__", init)


class _NeverCleared:
    def __init__(self, health: Health) -> None:
        self._health = health

    def __getattr__(self, name: str) -> Any:
        return getattr(self._health, name)

    def clear(self, flag: RunningFlag) -> None:
        return


def _truncate_at_first_damage(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recovery, "next_record", lambda files, position: None)


def _reads_unchecked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MessageReader, "_checksums_hold", lambda reader, view, fields: True)


def _queue_cut_not_made(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(QueueFiles, "truncate", lambda files, position: None)


MUTANTS = [
    Mutant("no fsync", _no_fsync, histories("put", "put put")),
    Mutant("ack before fsync", _ack_before_fsync, histories("put", "put put")),
    Mutant("no directory fsync", _no_directory_fsync, histories("put", "put put", "large large")),
    Mutant("checkpoint before the queues are flushed", _checkpoint_before_queues, histories("put tick")),
    Mutant("checkpoint before the index is flushed", _checkpoint_before_index, histories("put tick put tick")),
    Mutant(
        "durable mark before fsync",
        _durable_mark_before_fsync,
        histories("batch", "put batch", random_count=40),
    ),
    Mutant("dispatch past flush", _dispatch_past_flush, histories("put hasty")),
    Mutant("body-only checksum", _body_only_crc, histories("put", "put put", random_count=40)),
    Mutant("no physical offset check", _no_physical_offset_check, misplaced_record),
    Mutant(
        "truncation in memory only",
        _truncate_in_memory,
        histories("put batch batch flush", mode="ASYNC_FLUSH", random_count=40),
    ),
    Mutant("index dropped at recovery", _index_dropped_at_recovery, histories("put tick put")),
    Mutant("state file written in place", _state_file_in_place, histories("put tick put tick", random_count=30)),
    Mutant("fsync retried after it failed", _retry_after_failed_fsync, failing_calls("eio", "put put")),
    Mutant("recovery of the last file only", _recover_last_file_only, histories("large large")),
    Mutant(
        "recovery by wall clock", _recover_by_wall_clock, histories("large tick back put large large", random_count=2)
    ),
    Mutant("sparse mapping", _sparse_mapping, histories("put")),
    Mutant("places given out without the lock", _lost_append_lock, racing_writers),
    Mutant(
        "queue offsets start again", _queue_offsets_start_again, histories("delay large large expire put reopen delay")
    ),
    Mutant("retention deletes what is not expired", _retention_deletes_too_much, histories("large large clean")),
    Mutant("queue write errors swallowed", _queue_write_errors_swallowed, failing_calls("enospc", "put batch put")),
    Mutant("error flag never cleared", _error_flag_never_cleared, failing_calls("enospc", "put batch put")),
    Mutant("log cut at the first damage", _truncate_at_first_damage, flipped_log_bits_after_a_kill),
    Mutant("reads unchecked", _reads_unchecked, flipped_log_bits),
    Mutant(
        "queues not cut with the log", _queue_cut_not_made, histories("put batch", mode="ASYNC_FLUSH", random_count=40)
    ),
]
