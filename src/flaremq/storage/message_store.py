"""MessageStore: the embedded store. Put, get, query; open, flush, close. The only storage name other layers use.

Put appends to the log in the caller's thread and, in SYNC_FLUSH, waits for a sync it may share with others. Dispatch
then turns the durable part of the log into queue units and index entries, which is what readers see. A maintenance
thread makes those durable now and then, moves the point recovery starts from, and looks at the disk; a cleaning thread
deletes what is expired.

Locks, never taken in another order: ``_close_lock`` > the lock of retention > ``_checkpoint_lock`` >
``_dispatch_lock`` > ``log.flush_lock`` > ``log.lock`` (append, which takes it alone; deleting topics takes it inside
the dispatch lock). With ``threads=False`` nothing runs on its own: puts sync and dispatch inline and ``tick`` does the
periodic work, which makes every run repeatable.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from flaremq.clock import Clock, SystemClock
from flaremq.errors import FlareMQError, InvalidArgumentError, StoreIOError, UnavailableError
from flaremq.message.delay import parse_delay_levels
from flaremq.message.message import Message
from flaremq.message.message_ext import MessageExt
from flaremq.message.properties import UnstorableError
from flaremq.message.stored_form import StoredForm
from flaremq.storage.dispatch.deleted_topics import DeletedTopics
from flaremq.storage.dispatch.dispatcher import Dispatcher
from flaremq.storage.engine.cleaning import Cleaner
from flaremq.storage.engine.leases import Leases
from flaremq.storage.engine.recovery import Recovery, RecoveryReport
from flaremq.storage.engine.retention import Retention
from flaremq.storage.files.allocation import AllocateMappedFileService, TransientStorePool
from flaremq.storage.files.checkpoint import (
    DurableOffsets,
    OffsetsFile,
    StoreCheckpoint,
    pack_hints,
    unindexed_from,
    write_abort,
)
from flaremq.storage.files.claim import StoreClaim
from flaremq.storage.files.filesystem import FileSystem, LocalFileSystem, write_atomically
from flaremq.storage.files.layout import StoreLayout
from flaremq.storage.files.mapped_file_queue import MappedFileQueue
from flaremq.storage.get.get_result import GetResult
from flaremq.storage.get.reader import MessageReader
from flaremq.storage.index.index_service import IndexService
from flaremq.storage.log.commit_log import CommitLog
from flaremq.storage.log.flush import FlushTimer, GroupCommit
from flaremq.storage.options import StoreOptions, no_replication
from flaremq.storage.put.put_result import PutResult
from flaremq.storage.put.writer import MessageWriter, encode_columns
from flaremq.storage.queue.table import ConsumeQueues
from flaremq.storage.runtime.health import Health, RunningFlag
from flaremq.storage.runtime.services import ServiceThread
from flaremq.storage.runtime.statistics import StoreStatistics
from flaremq.storage.status import PutMessageStatus

if TYPE_CHECKING:
    import pyarrow

    from flaremq.storage.verify.finding import Finding

_log = logging.getLogger(__name__)
_END_OF_TIME = 2**63 - 1
_QUEUE_TAIL_BYTES = 1_000  # units of a queue that a broker keeps in memory before it writes them: 50
_DRAIN_QUEUES = 64  # queues drained at a time: dispatch waits meanwhile
_GATHER_SECONDS = 0.02  # a busy log is dispatched in slices of this length unless somebody asks for more
_GATHER_SECONDS_MIN = 0.001  # as often as RocketMQ looks; more often, one who polls would slow the writers down


class MessageStore:
    """An open store. Thread-safe; use ``MessageStore.open`` and ``close`` (or ``with``)."""

    def __init__(
        self,
        path: str,
        options: StoreOptions,
        filesystem: FileSystem,
        clock: Clock,
        *,
        threads: bool,
        driven: bool,
    ) -> None:
        if options.replica_promises:
            raise no_replication(*options.replica_promises)
        self.path = path
        self.options = replace(options)  # our own: some values may be changed while the store is open
        self._filesystem = filesystem
        self._clock = clock
        self._threads = threads
        self._driven = driven
        self._layout = StoreLayout(path, options.commit_log_folders(path))
        self._sync_mode = options.flush_disk_type == "SYNC_FLUSH"
        self.health_state = Health()
        self._statistics = StoreStatistics()
        self._delay_levels = parse_delay_levels(options.message_delay_level)
        self._dispatch_lock = threading.Lock()  # guards queues and index against two writers
        self._checkpoint_lock = threading.Lock()  # one checkpoint at a time
        self._offsets_lock = threading.Lock()  # guards flaremq.offsets
        self._arrival = threading.Condition()  # wakes wait_for_message and wait_for_dispatch
        self._waiters = 0
        self._views_failure: StoreIOError | None = None
        self._closed = False
        self._close_lock = threading.Lock()  # one close at a time, and not while topics are deleted
        self._stopping = threading.Event()  # ends the pauses of cleaning
        self._services: list[ServiceThread] = []
        self._dispatch_service: ServiceThread | None = None
        self._open()

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        options: StoreOptions | None = None,
        *,
        filesystem: FileSystem | None = None,
        clock: Clock | None = None,
        threads: bool = True,
        driven: bool = False,
    ) -> MessageStore:
        """Open the store in this directory, creating it if there is none; recovers first if it was not closed.

        ``driven`` leaves flushing and dispatch to a StoreDriver.
        """
        return cls(
            os.path.abspath(os.fspath(path)),
            options or StoreOptions(),
            filesystem or LocalFileSystem(),
            clock or SystemClock(),
            threads=threads,
            driven=driven,
        )

    # Opening

    def _open(self) -> None:
        filesystem, layout = self._filesystem, self._layout
        if filesystem.exists(self.path) and not filesystem.is_directory(self.path):
            raise InvalidArgumentError(f"{self.path} is not a directory")
        filesystem.make_directories(self.path)
        filesystem.sync_directory(os.path.dirname(self.path))  # an earlier start may have failed between the two
        self._claim = StoreClaim.to_write(filesystem, layout)  # before anything is read, let alone changed
        try:
            self._load()
            self._recover()
            self._start()
        except BaseException:
            self._release()
            raise

    def _load(self) -> None:
        filesystem, layout, options = self._filesystem, self._layout, self.options
        for folder in layout.commit_log_paths:
            filesystem.make_directories(folder)
            filesystem.sync_directory(os.path.dirname(folder))
        self._closed_cleanly = not filesystem.exists(layout.abort)
        files = MappedFileQueue(
            filesystem,
            layout.commit_log_paths,
            options.mapped_file_size_commit_log,
            read_only_folders=frozenset(options.read_only_commit_log_folders),
            random_access=not options.data_read_ahead_enable,
        )
        files.load()
        pool = None
        if options.transient_store_pool_enable and options.broker_role != "SLAVE":
            pool = TransientStorePool(options.mapped_file_size_commit_log, options.transient_store_pool_size)
        self._allocation = AllocateMappedFileService(
            filesystem,
            files,
            reserve_step=options.reserve_step_commit_log,
            warm_up=options.warm_maped_file_enable,
            warm_sync_pages=options.flush_least_pages_when_warm_maped_file if self._sync_mode else 0,
        )
        self._commit_log = CommitLog(
            files,
            self._allocation,
            self._clock,
            reserve_step=options.reserve_step_commit_log,
            only_durable_readable=self._sync_mode and not options.read_un_committed,
            pool=pool,
            prefault=not self._sync_mode,
        )
        self._queues = ConsumeQueues(
            filesystem,
            layout,
            file_size=options.mapped_file_size_consume_queue,
            ext_file_size=options.mapped_file_size_consume_queue_ext,
            batch_file_size=options.mapper_file_size_batch_consume_queue,
            tail_bytes=_QUEUE_TAIL_BYTES if self._driven else 0,
        )
        self._queues.load()
        self._index: IndexService | None = None
        self._last_index_state: DurableOffsets | None = None
        self._unindexed_from = unindexed_from(filesystem, layout.queue_hints)
        # The first start without indexing still completes what the run before it began: its keys are not lost.
        if options.message_index_enable or (self._unindexed_from is None and filesystem.list_directory(layout.index)):
            self._index = IndexService(
                filesystem,
                self._clock,
                layout.index,
                slots=options.max_hash_slot_num,
                entries=options.max_index_num,
                reserve_step=options.reserve_step_index,
            )
            self._index.load()
        self._deleted = DeletedTopics.load(filesystem, layout.deleted_topics)
        self._dispatcher = Dispatcher(self._commit_log, self._queues, self._index, self._delay_levels, self._deleted)
        self._offsets = OffsetsFile.open(filesystem, layout.offsets, self.path)
        self._checkpoint = StoreCheckpoint.load(filesystem, layout.checkpoint)

    def _recover(self) -> None:
        recovery = Recovery(
            self._filesystem,
            self._layout,
            self._commit_log,
            self._queues,
            self._index,
            self._dispatcher,
            self._offsets,
            self._checkpoint,
            self._deleted,
            unindexed_from=self._unindexed_from,
        )
        began = self._clock.monotonic()
        self.recovery: RecoveryReport = recovery.run(closed_cleanly=self._closed_cleanly)
        if not self._closed_cleanly:
            seconds = self._clock.monotonic() - began
            _log.warning("%s was not closed cleanly; %s, %.2f s", self.path, self.recovery, seconds)
        self._settle_indexing()
        self._note_damage()
        self._group_commit = GroupCommit(self._sync_log, self._commit_log.flushed_offset)
        self._reader = MessageReader(self._commit_log, self._queues, self._index, self._dispatcher, self.options)
        self._writer = MessageWriter(
            self._commit_log,
            self._group_commit,
            self.health_state,
            self.options,
            self._clock,
            self._delay_levels,
            self._statistics,
            self._after_append,
        )
        self.put = self._writer.put  # type: ignore[method-assign]  # one call less on the hottest path
        self._dispatcher.written = self._writer.queue_offsets
        for queue in self._queues.all():
            self._writer.queue_offsets.setdefault(queue.topic, {})[queue.queue_id] = queue.end
        self._retention = Retention(
            self._filesystem,
            self._clock,
            self.options,
            self._commit_log,
            self._queues,
            self._index,
            self.health_state,
            self._layout.path("."),
            self._may_delete_before,
            self._dispatch_lock,
            self._deleted,
            leases=Leases(self._filesystem, self._layout.leases),
            pause=self._stopping.wait if self._threads else _no_pause,
        )

    def _settle_indexing(self) -> None:
        """Recovery has completed the index; without ``messageIndexEnable`` it rests from here on, and we note where."""
        if self.options.message_index_enable:
            self._unindexed_from = None
            return
        if self._unindexed_from is None:
            self._unindexed_from = self._dispatcher.position
        if self._index is not None:
            self._index.sync()
            self._last_index_state = self._index_state()
            self._index.close()
            self._index = self._dispatcher.index = None

    def _start(self) -> None:
        if self.options.broker_role == "SLAVE":
            self.health_state.set(RunningFlag.NOT_WRITABLE, "this store is a replica")
        now = self._clock.monotonic()
        self.options_changed()
        self._next_checkpoint = now + self.options.flush_consume_queue_thorough_interval / 1000
        self._retention.check_disk()
        self._cleaner = Cleaner(
            self._retention, self._commit_log, self.health_state, self._statistics, self.options, self._clock
        )
        # What recovery rebuilt becomes durable, and the mark "closed cleanly" goes, before anything is appended.
        self._save_checkpoint()
        write_abort(self._filesystem, self._layout.abort, os.getpid())
        if self._threads:
            self._allocation.start()
        if self._threads and self._driven:
            self._services = self._upkeep()
        elif self._threads:
            self._dispatch_service = ServiceThread(
                "dispatch",
                self._dispatch_step,
                lambda: self._dispatcher.position < self._commit_log.readable_offset,
            )
            self._writer.dispatch_service = self._dispatch_service
            self._flush_service = ServiceThread("flush", self._flush_step)
            self._services = [
                self._dispatch_service,
                self._flush_service,
                *self._upkeep(),
            ]
        for service in self._services:
            service.start()

    def _upkeep(self) -> list[ServiceThread]:
        """Cleaning apart from the rest: a deletion that takes minutes must not keep checkpoints waiting."""
        return [ServiceThread("maintenance", self._maintenance_step), ServiceThread("cleaning", self._cleaner.step)]

    # Writing

    def put(
        self,
        message: Message,
        queue_id: int = 0,
        *,
        born_timestamp: int | None = None,
        born_host: str | bytes | None = None,
        reconsume_times: int = 0,
        sys_flag: int = 0,
        prepared_transaction_offset: int = 0,
    ) -> PutResult:
        """Store one message. PUT_OK in SYNC_FLUSH means it is on disk (unless it asked not to wait)."""
        return self._writer.put(
            message,
            queue_id,
            born_timestamp=born_timestamp,
            born_host=born_host,
            reconsume_times=reconsume_times,
            sys_flag=sys_flag,
            prepared_transaction_offset=prepared_transaction_offset,
        )

    def put_batch(
        self,
        messages: Sequence[Message],
        queue_id: int = 0,
        *,
        born_timestamp: int | None = None,
        born_host: str | bytes | None = None,
        sys_flag: int = 0,
    ) -> PutResult:
        """Store messages of one topic for consecutive queue offsets: one lock, one write, one wait."""
        return self._writer.put_batch(messages, queue_id, born_timestamp, born_host, sys_flag)

    def put_many(
        self,
        topic: str,
        bodies: Sequence[bytes],
        queue_id: int = 0,
        *,
        keys: Sequence[str | None] | None = None,
        tags: Sequence[str | None] | None = None,
    ) -> PutResult:
        """``put_batch`` from columns: no Message objects, the fastest way in. Keys and tags may be None."""
        if set(map(type, bodies)) - {bytes}:
            raise InvalidArgumentError("message bodies must be bytes")
        for name, column in (("keys", keys), ("tags", tags)):
            if column is not None and len(column) != len(bodies):
                raise InvalidArgumentError(f"{len(bodies)} bodies but {len(column)} {name}")
        try:
            properties = encode_columns(keys, tags, len(bodies))
        except UnstorableError as error:
            return self._writer.refused(PutMessageStatus.MESSAGE_ILLEGAL, str(error))
        return self._writer.put_columns(topic, queue_id, list(bodies), properties, None, None, None, 0, True)

    def put_form(self, form: StoredForm) -> PutResult:
        """Store a record in its stored form, as built by flaremq.message.stored_form and .transaction."""
        return self._writer.put_form(form)

    def change_flush_disk_type(self, name: str) -> None:
        """Go over to SYNC_FLUSH or ASYNC_FLUSH: what was put before stays what it was, durable first."""
        self._check_open()
        if name not in ("SYNC_FLUSH", "ASYNC_FLUSH"):
            raise InvalidArgumentError(f"flushDiskType is SYNC_FLUSH or ASYNC_FLUSH, not {name!r}")
        self.flush()
        object.__setattr__(self.options, "flush_disk_type", name)  # frozen for everybody else, and shared by all parts
        self._sync_mode = self._writer.sync_mode = name == "SYNC_FLUSH"
        self.options_changed()

    def options_changed(self) -> None:
        """Look again at those of the live options that are not looked up each time."""
        self._writer.read_options(self.options)
        self._reader.read_options(self.options)
        self._commit_log.only_durable_readable = self._sync_mode and not self.options.read_un_committed
        self._flush_timer = FlushTimer(
            least_pages=self.options.flush_commit_log_least_pages,
            thorough_interval_ms=self.options.flush_commit_log_thorough_interval,
            now=self._clock.monotonic(),
        )

    def _after_append(self) -> None:
        service = self._dispatch_service
        if service is not None:
            service.wake_if_idle()
            if self._sync_mode and self._commit_log.pending_bytes() > 0:
                self._flush_service.wake_if_idle()
        elif not self._threads and not self._driven:
            self._dispatch_now()

    def _sync_log(self) -> int:
        """The sync behind group commit: a failure ends all writing."""
        if self.health_state.poison is not None:
            raise StoreIOError("sync", self.path, OSError("an earlier sync failed"))
        try:
            reached = self._commit_log.sync()
        except StoreIOError as error:
            self.health_state.fail_stop(error)
            _log.critical("a sync of the commit log failed, writing stops: %s", error)
            with self._arrival:
                self._arrival.notify_all()
            raise
        with self._offsets_lock:
            try:
                self._offsets.note_log_durable(reached)
            except StoreIOError as error:
                _log.warning("could not note the durable offset: %s", error)  # a lower value is safe
        return reached

    def flush(self) -> int:
        """Make everything put so far durable; the physical offset reached. Raises StoreIOError on failure."""
        end = self._commit_log.end_offset
        if not self._group_commit.wait(end):
            raise self._group_commit.failure or UnavailableError("the sync did not finish")
        return self._commit_log.flushed_offset

    # Reading

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int = 32,
        *,
        tags: str | None = None,
        max_bytes: int | None = None,
    ) -> GetResult:
        """Messages of a queue from ``offset`` on; ``tags`` as in ``"A || B"``."""
        self._check_open()
        if max_count < 1:
            raise InvalidArgumentError(f"max_count must be at least 1, not {max_count}")
        result = self._reader.get(topic, queue_id, offset, max_count, tags, max_bytes)
        if result.messages:
            self._statistics.get_found_count += 1
            self._statistics.get_transferred_count += len(result.messages)
        else:
            self._statistics.get_miss_count += 1
            self._ask_for_dispatch()
        return result

    def get_bytes(
        self, topic: str, queue_id: int, offset: int, max_count: int = 32, *, max_bytes: int | None = None
    ) -> tuple[memoryview, int, int]:
        """(records end to end as stored, their number, next offset): what a pull answer carries; empty if none."""
        self._check_open()
        queue = self._queues.simple.get((topic, queue_id))
        if queue is not None and queue.min_offset <= offset < queue.end:
            from flaremq.storage.get.copied import copy_messages

            copied = copy_messages(self._commit_log, queue, offset, max_count, max_bytes)
            if copied is not None:
                return copied
        found = self.get(topic, queue_id, offset, max_count, max_bytes=max_bytes)
        records = b"".join(message.record for message in found.messages)
        return memoryview(records), len(found.messages), found.next_offset

    def query(
        self, topic: str, key: str, max_count: int = 32, begin_ms: int = 0, end_ms: int = _END_OF_TIME
    ) -> list[MessageExt]:
        """Messages with this key or unique key stored within the time range, oldest first."""
        self._check_open()
        if max_count < 1:
            raise InvalidArgumentError(f"max_count must be at least 1, not {max_count}")
        found = self._reader.query(topic, key, max_count, begin_ms, end_ms)
        if not found:
            self._ask_for_dispatch()
        return found

    def query_many(self, topic: str, keys: Sequence[str], max_count: int = 32) -> list[list[MessageExt]]:
        """``query`` for many keys at once, by the compiled kernels."""
        self._check_open()
        if self._index is None:
            return [[] for _ in keys]
        from flaremq.storage.get.keys import query_many

        max_count = min(max_count, self.options.max_msgs_num_batch)
        return query_many(
            self._commit_log,
            self._index,
            topic,
            keys,
            max_count,
            self._deleted.end_of(topic),
            lambda key: self.query(topic, key, max_count),
        )

    def read(self, physical_offset: int) -> MessageExt | None:
        """The message whose record starts at this byte of the log; None unless its queue points there."""
        self._check_open()
        return self._reader.read(physical_offset)

    def scan(
        self,
        topic: str,
        queue_id: int,
        start: int = 0,
        end: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[pyarrow.RecordBatch]:
        """A range of a queue as Arrow batches, decoded without a Python object per message."""
        self._check_open()
        from flaremq.storage.arrow.live import scan_queue

        return scan_queue(self._commit_log, self._queues, self._reader, topic, queue_id, start, end, columns)

    def offset_by_time(self, topic: str, queue_id: int, timestamp_ms: int, boundary: str = "LOWER") -> int:
        """First queue offset stored at or after a time (LOWER), or last one at or before it (UPPER)."""
        self._check_open()
        if boundary not in ("LOWER", "UPPER"):
            raise InvalidArgumentError(f"boundary must be LOWER or UPPER, not {boundary!r}")
        return self._reader.offset_by_time(topic, queue_id, timestamp_ms, boundary)

    def earliest_store_time(self, topic: str, queue_id: int) -> int | None:
        """Store time of the oldest message of a queue."""
        queue = self._queues.simple.get((topic, queue_id))
        if queue is not None:
            return self._reader.store_timestamp(queue, queue.min_offset)
        batch = self._queues.batch.get((topic, queue_id))
        unit = batch.unit(batch.find(batch.min_offset)) if batch is not None else None
        return None if unit is None else unit.store_timestamp

    def min_offset(self, topic: str, queue_id: int) -> int:
        self._check_open()
        queue = self._find_queue(topic, queue_id)
        return 0 if queue is None else queue.min_offset

    def max_offset(self, topic: str, queue_id: int) -> int:
        """The next offset of a queue, as readers see it."""
        self._check_open()
        self._ask_for_dispatch()
        queue = self._find_queue(topic, queue_id)
        return 0 if queue is None else queue.end

    def _find_queue(self, topic: str, queue_id: int) -> Any:
        return self._queues.simple.get((topic, queue_id)) or self._queues.batch.get((topic, queue_id))

    def queues(self) -> list[tuple[str, int]]:
        """Every (topic, queue id) that has units."""
        return sorted((queue.topic, queue.queue_id) for queue in self._queues.all())

    # State

    @property
    def min_physical_offset(self) -> int:
        return self._commit_log.min_offset

    @property
    def max_physical_offset(self) -> int:
        return self._commit_log.end_offset

    @property
    def flushed_offset(self) -> int:
        return self._commit_log.flushed_offset

    @property
    def dispatched_offset(self) -> int:
        return self._dispatcher.position

    @property
    def dispatch_lag_bytes(self) -> int:
        return max(0, self._commit_log.end_offset - self._dispatcher.position)

    @property
    def health(self) -> RunningFlag:
        return self.health_state.flags

    @property
    def is_writable(self) -> bool:
        return self.health_state.refusal is None

    def statistics(self) -> dict[str, Any]:
        """Counters under RocketMQ's names, and ours."""
        return self._statistics.to_dict() | {
            "commitLogMinOffset": self.min_physical_offset,
            "commitLogMaxOffset": self.max_physical_offset,
            "flushedOffset": self.flushed_offset,
            "dispatchedOffset": self.dispatched_offset,
            "dispatchBehindBytes": self.dispatch_lag_bytes,
            "runningFlags": int(self.health),
            "refusal": self.health_state.refusal,
            "damagedReads": self._reader.damaged_reads,
            "repairedUnits": self._reader.repaired_units,
            "damagedLogRanges": self._dispatcher.damage.count,
            "damagedLogBytes": self._dispatcher.damage.bytes,
        }

    def check(self) -> list[Finding]:
        """Everything `flaremq store verify` finds in this store, its latest messages included; slow on a large one."""
        self._check_open()
        self.flush()
        self.wait_for_dispatch()
        self._save_checkpoint()
        from flaremq.storage.at_rest.indexes import IndexGeometry
        from flaremq.storage.at_rest.reader import StoreReader
        from flaremq.storage.verify.finding import Severity
        from flaremq.storage.verify.verifier import StoreVerifier

        geometry = IndexGeometry(self.options.max_hash_slot_num, self.options.max_index_num)
        reader = StoreReader.open(
            self.path,
            commit_log_paths=self._layout.commit_log_paths,
            index_geometry=geometry,
            filesystem=self._filesystem,
            lock=False,
        )
        try:
            with self._dispatch_lock:
                found = StoreVerifier(reader, delay_levels=self._delay_levels).findings()
                return [finding for finding in found if finding.severity is not Severity.NOTE]  # it is open, yes
        finally:
            reader.close()

    def wait_for_dispatch(self, timeout: float | None = None) -> bool:
        """Wait until everything put before this call can be read; False after ``timeout`` seconds."""
        target = self._commit_log.end_offset
        if self._sync_mode:
            self.flush()
        if not self._threads:
            self._dispatch_now()
        return self._wait_until(lambda: self._dispatcher.position >= target, timeout)

    def wait_for_message(self, topic: str, queue_id: int, offset: int, timeout: float | None = None) -> bool:
        """Wait until the queue holds a message at ``offset``; False after ``timeout`` seconds."""
        return self._wait_until(lambda: self._end_of(topic, queue_id) > offset, timeout)

    def _end_of(self, topic: str, queue_id: int) -> int:
        queue = self._find_queue(topic, queue_id)
        return 0 if queue is None else int(queue.end)

    def _wait_until(self, reached: Any, timeout: float | None) -> bool:
        with self._arrival:
            self._waiters += 1
            try:
                if self._dispatch_service is not None:
                    self._dispatch_service.wake()
                self._arrival.wait_for(lambda: reached() or self._closed or self.health_state.poison, timeout)
                return bool(reached())
            finally:
                self._waiters -= 1

    # Background work

    def _dispatch_now(self) -> None:
        """Dispatch what is readable now; an error is kept in the health flags and tried again later.

        Slice by slice: checkpoint and retention get the lock, and readers their messages, in between.
        """
        target = self._commit_log.readable_offset
        while self._dispatcher.position < target and self.health_state.poison is None:
            before = self._dispatcher.position
            try:
                with self._dispatch_lock:
                    self._dispatch_slice(target)
            except Exception as error:
                # Whatever it is: nothing becomes readable, so nothing more is taken until it works again.
                if not isinstance(error, StoreIOError):
                    _log.exception("dispatch failed at log offset %d", self._dispatcher.position)
                self.health_state.set(RunningFlag.LOGIC_QUEUE_ERROR, f"queues cannot be written: {error}")
                return
            if self._waiters:
                with self._arrival:
                    self._arrival.notify_all()
            if self._dispatcher.position == before:
                break
        self.health_state.clear(RunningFlag.LOGIC_QUEUE_ERROR)

    def _dispatch_slice(self, target: int) -> None:
        dispatcher, log = self._dispatcher, self._commit_log
        if self.health_state.poison is not None:
            return  # since the lock was asked for: what queues hold may be undone by the next start
        if dispatcher.position < log.min_offset:
            dispatcher.position = log.min_offset
        before = dispatcher.damage.count
        try:
            dispatcher.run_live(target)
        finally:
            if dispatcher.damage.count > before:
                self._note_damage()

    def _note_damage(self) -> None:
        damage = self._dispatcher.damage
        last = damage.last
        if last is not None:
            where = f"{damage.count} ranges of the log, {damage.bytes} bytes, are in no queue"
            reason = f"{where}; the last at {last.start}: {last.reason}"
            self.health_state.set(RunningFlag.LOG_DAMAGED, reason)

    def _dispatch_step(self) -> float:
        if self._dispatcher.position >= self._commit_log.readable_offset:
            return 0.5
        if self.health_state.poison is not None:
            return 1.0
        self._dispatch_now()
        if self.health_state.flags & RunningFlag.LOGIC_QUEUE_ERROR:
            return 1.0
        if not self._waiters and self._dispatch_service is not None:
            self._dispatch_service.gather(_GATHER_SECONDS_MIN, _GATHER_SECONDS)
        return 0.0

    def _ask_for_dispatch(self) -> None:
        """Somebody came to the end of what is dispatched: do not let the rest of the log wait for company."""
        service = self._dispatch_service
        if service is not None and self._dispatcher.position < self._commit_log.readable_offset:
            service.wake()

    def _flush_step(self) -> float:
        """One round of the flush thread; the seconds to the next."""
        log, options = self._commit_log, self.options
        if self.health_state.poison is not None:
            return 1.0
        if self._sync_mode:
            # Waiters sync for themselves; this is for messages that asked not to wait.
            if log.pending_bytes() > 0:
                self._group_commit.wait(log.end_offset)
                self._after_append()
            return 0.5
        if options.transient_store_pool_enable:
            log.commit()
            self._after_append()
        if self._flush_timer.is_due(pending_bytes=log.pending_bytes(), now=self._clock.monotonic()):
            self._group_commit.wait(log.end_offset)
        wait_ms = options.flush_interval_commit_log
        if options.transient_store_pool_enable:
            wait_ms = min(wait_ms, options.commit_interval_commit_log)
        return wait_ms / 1000

    def _maintenance_step(self) -> float:
        now = self._clock.monotonic()
        if self._driven:
            self._drain_queues()
        behind = self._dispatcher.position - self._offsets.offsets.dispatched
        if behind >= self.options.offset_checkpoint_bytes or (behind > 0 and now >= self._next_checkpoint):
            self._next_checkpoint = now + self.options.flush_consume_queue_thorough_interval / 1000
            self._checkpoint_quietly()
        self._cleaner.look()
        return min(self.options.flush_interval_consume_queue / 1000, 1.0)

    def _drain_queues(self) -> None:
        """Let those who read the files see what dispatch keeps in memory."""
        waiting = self._queues.with_tail()
        for first in range(0, len(waiting), _DRAIN_QUEUES):
            with self._dispatch_lock:
                try:
                    for queue in waiting[first : first + _DRAIN_QUEUES]:
                        queue.drain()
                except StoreIOError as error:
                    self.health_state.set(RunningFlag.LOGIC_QUEUE_ERROR, f"queues cannot be written: {error}")
                    return
        if self._dispatcher.position >= self._commit_log.readable_offset:
            # Dispatch has nothing to try again, so nobody else would find out that writing works.
            self.health_state.clear(RunningFlag.LOGIC_QUEUE_ERROR)

    def tick(self) -> None:
        """All periodic work once, now (with ``threads=False``, where nothing runs on its own)."""
        if self._commit_log.pending_bytes() and self.health_state.poison is None:
            self._group_commit.wait(self._commit_log.end_offset)
        self._dispatch_now()
        self._checkpoint_quietly()
        self._retention.run_round()

    def _checkpoint_quietly(self) -> None:
        try:
            self._save_checkpoint()
        except StoreIOError as error:
            _log.warning("the checkpoint could not be written, recovery would start earlier: %s", error)

    def _save_checkpoint(self, *, log_end: int = -1) -> None:
        """Make queues and index durable as far as they are now, then say so."""
        with self._checkpoint_lock:
            with self._dispatch_lock:
                self._queues.drain()
                dispatched = self._dispatcher.position
                state = self._index_state()
                queues = [[queue.topic, queue.queue_id, queue.end] for queue in self._queues.simple.values()]
                timestamp = self._dispatcher.last_timestamp
            if self._commit_log.flushed_offset < dispatched and not self._group_commit.wait(dispatched):
                return
            self._sync_views()
            hints = {"dispatched": dispatched, "logEnd": log_end, "queues": sorted(queues)}
            if self._unindexed_from is not None:
                hints["unindexedFrom"] = self._unindexed_from
            self._save_if_room(self._layout.queue_hints, pack_hints(hints))
            flushed, flushed_timestamp = self._commit_log.flushed_offset, self._commit_log.flushed_timestamp
            with self._offsets_lock:
                self._offsets.save(
                    replace(state, log_durable=flushed, dispatched=dispatched, log_end=log_end, session=os.getpid())
                )
            self._checkpoint = replace(
                self._checkpoint,
                physic_msg_timestamp=flushed_timestamp,
                logics_msg_timestamp=min(timestamp, flushed_timestamp),
                index_msg_timestamp=state.index_end_timestamp,
            )
            self._save_if_room(self._layout.checkpoint, self._checkpoint.pack())

    def _save_if_room(self, path: str, data: bytes) -> None:
        """Replace a file whose older content is safe: it is recognised as old, or recovery starts earlier.

        On a disk without a free page the store opens nevertheless, and goes on to the offsets, which have their space:
        without those nothing could be deleted to make room.
        """
        try:
            write_atomically(self._filesystem, path, data)
        except StoreIOError as error:
            if error.errno != errno.ENOSPC:
                raise
            _log.warning("%s stays as it was: %s", path, error)

    def _sync_views(self) -> None:
        """Make queues and index durable. After one failure never again in this process.

        The kernel may have dropped the pages and call them clean; a second sync would then succeed over lost units.
        Recovery writes everything after the last good checkpoint anew, so that checkpoint stays the last.
        """
        if self._views_failure is not None:
            raise self._views_failure
        try:
            self._queues.flush()
            if self._index is not None:
                self._index.sync()
        except StoreIOError as error:
            self._views_failure = error
            _log.error("queues or index could not be synced and will be rebuilt at the next start: %s", error)
            raise

    def _index_state(self) -> DurableOffsets:
        if self._index is None:
            return self._last_index_state or self._offsets.offsets  # index files of earlier days stay as they were
        file = self._index.last
        if file is None:
            return DurableOffsets()
        return DurableOffsets(
            index_name=int(file.name),
            index_begin_timestamp=file.begin_timestamp,
            index_end_timestamp=file.end_timestamp,
            index_begin_offset=file.begin_offset,
            index_end_offset=file.end_offset,
            index_slot_count=file.slot_count,
            index_count=file.count,
        )

    def _may_delete_before(self, log_start: int) -> bool:
        """Recovery must never have to start in a file that is gone: the views must be durable up to there first."""
        if self._offsets.offsets.dispatched < log_start <= self._dispatcher.position:
            self._checkpoint_quietly()
        return self._offsets.offsets.dispatched >= log_start

    def delete_expired(self, *, force: bool = False) -> int:
        """Delete expired log files now (with ``force`` all but the last); the number deleted."""
        self._check_open()
        return self._retention.delete_expired(at_once=force)

    # Closing

    def close(self) -> None:
        """Stop taking messages, dispatch and flush everything, mark the store as closed cleanly."""
        with self._close_lock:
            if self._closed:
                return
            self._close()

    def _close(self) -> None:
        self.health_state.set(RunningFlag.NOT_WRITABLE, "the store is closed")
        with self._commit_log.lock:
            pass  # an append under way finishes; later ones see the flag
        self._stopping.set()
        for service in self._services:
            service.stop()
        try:
            if self.health_state.poison is None:
                self.flush()
                self._dispatch_now()
                if self._dispatcher.position < self._commit_log.end_offset and self._views_failure is None:
                    self._views_failure = StoreIOError(
                        "dispatch", self.path, OSError(self.health_state.refusal or "not finished")
                    )
            if self.health_state.poison is None and self._views_failure is None:
                self._allocation.stop()
                self._save_checkpoint(log_end=self._commit_log.end_offset)
                self._filesystem.remove(self._layout.abort)
                self._filesystem.sync_directory(self.path)
            else:
                reason = self.health_state.poison or self._views_failure
                _log.error("%s is left for recovery: %s", self.path, reason)
        finally:
            self._release()

    def abandon(self) -> None:
        """Drop everything as a killed process would: no flush, no checkpoint, ``abort`` stays. For tests."""
        self.health_state.set(RunningFlag.NOT_WRITABLE, "the store was abandoned")
        self._stopping.set()
        for service in self._services:
            service.stop()
        self._release()

    def _release(self) -> None:
        """Give back memory, files and the lock; the disk stays as it is."""
        self._closed = True
        with self._arrival:
            self._arrival.notify_all()
        if hasattr(self, "_allocation"):
            self._allocation.halt()
        for part in ("_queues", "_index", "_commit_log", "_offsets"):
            held = getattr(self, part, None)
            if held is not None:
                try:
                    held.close()
                except FlareMQError:
                    _log.exception("while closing %s", part)
        self._claim.release()

    def _check_open(self) -> None:
        if self._closed:
            raise UnavailableError(f"the store {self.path} is closed")

    def __enter__(self) -> MessageStore:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _no_pause(seconds: float) -> bool:
    """Without threads nothing waits."""
    return False
