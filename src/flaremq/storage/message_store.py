"""MessageStore: the embedded store. Put, get, query; open, flush, close. The only storage name other layers use.

What happens behind it, on which thread and under which lock is said in ``engine/store_engine``.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from flaremq.clock import Clock, SystemClock
from flaremq.errors import InvalidArgumentError
from flaremq.message.message import Message
from flaremq.message.message_ext import MessageExt
from flaremq.message.stored_form import StoredForm
from flaremq.storage.engine.driver import StoreDriver
from flaremq.storage.engine.store_engine import OpenMode, StoreEngine
from flaremq.storage.files.filesystem import FileSystem, LocalFileSystem
from flaremq.storage.get.copied import copy_messages
from flaremq.storage.get.get_result import GetResult
from flaremq.storage.options import StoreOptions
from flaremq.storage.put.put_result import PutResult
from flaremq.storage.runtime.health import RunningFlag

if TYPE_CHECKING:
    import pyarrow

    from flaremq.storage.verify.finding import Finding

_END_OF_TIME = 2**63 - 1


class MessageStore:
    """An open store. Thread-safe; use ``MessageStore.open`` and ``close`` (or ``with``)."""

    def __init__(self, engine: StoreEngine) -> None:
        if not isinstance(engine, StoreEngine):
            raise InvalidArgumentError(f"a store is opened by MessageStore.open({engine!r})")
        parts = engine.parts
        self._engine = engine
        self._check_open = engine.check_open
        self._commit_log = parts.log
        self._queues = parts.queues
        self._dispatcher = parts.dispatcher
        self._statistics = parts.statistics
        self._dispatch = engine.dispatch
        self._reader = engine.reader
        self._writer = engine.writer
        self.path = parts.path
        self.options = engine.options
        self.recovery = engine.recovery
        self.health_state = parts.health
        self.inspector = engine.inspector  # what an administrator asks
        # Storing one message: MessageWriter.put itself, for a method around it would be one call more on the hottest
        # path.
        self.put = engine.writer.put

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
        hold_unconfirmed: bool | None = None,
        cut_at: int | None = None,
    ) -> MessageStore:
        """Open the store in this directory, creating it if there is none; recovers first if it was not closed.

        ``driven`` leaves flushing and dispatch to the owner of ``driver()``. ``hold_unconfirmed`` shows nothing of what
        copies elsewhere have not confirmed before, until ``driver().confirm`` says more; by default so for a driven
        store with brokerRole=SYNC_MASTER. ``cut_at`` first cuts off what the log holds from this physical offset on,
        after copying it to ``flaremq.saved``; CorruptionError unless that is the end of a record. An offset behind the
        log's end cuts nothing.
        """
        options = options or StoreOptions()
        if hold_unconfirmed is None:
            hold_unconfirmed = driven and options.broker_role == "SYNC_MASTER"
        engine = StoreEngine(
            os.path.abspath(os.fspath(path)),
            options,
            filesystem or LocalFileSystem(),
            clock or SystemClock(),
            OpenMode(threads=threads, driven=driven, hold_unconfirmed=hold_unconfirmed, cut_at=cut_at),
        )
        return cls(engine)

    def driver(self) -> StoreDriver:
        """The seams of a store that was opened with ``driven``."""
        return self._engine.driver()

    # Writing

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
        for name, column in (("keys", keys), ("tags", tags)):
            if column is not None and len(column) != len(bodies):
                raise InvalidArgumentError(f"{len(bodies)} bodies but {len(column)} {name}")
        return self._writer.put_many(topic, list(bodies), queue_id, keys, tags)

    def put_form(self, form: StoredForm) -> PutResult:
        """Store a record in its stored form, as built by flaremq.message.stored_form and .transaction."""
        return self._writer.put_form(form)

    def change_flush_disk_type(self, name: str) -> None:
        """Go over to SYNC_FLUSH or ASYNC_FLUSH: what was put before stays what it was, durable first. Blocks.

        Going over to SYNC_FLUSH, a driven store must not be dispatched meanwhile: what is shown must be durable by
        then.
        """
        self._check_open()
        if name not in ("SYNC_FLUSH", "ASYNC_FLUSH"):
            raise InvalidArgumentError(f"flushDiskType is SYNC_FLUSH or ASYNC_FLUSH, not {name!r}")
        self._engine.change_flush_disk_type(name)

    def options_changed(self) -> None:
        """Look again at those of the live options that are not looked up each time."""
        self._engine.read_options()

    def flush(self) -> int:
        """Make everything put so far durable; the physical offset reached. Raises StoreIOError on failure."""
        return self._engine.flush.flush()

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
            self._dispatch.hurry()
        return result

    def get_bytes(
        self, topic: str, queue_id: int, offset: int, max_count: int = 32, *, max_bytes: int | None = None
    ) -> tuple[memoryview, int, int]:
        """(records end to end as stored, their number, next offset): what a pull answer carries; empty if none."""
        self._check_open()
        queue = self._queues.simple.get((topic, queue_id))
        if queue is not None and queue.min_offset <= offset < queue.end:
            copied = copy_messages(self._commit_log, self._reader.cursors.of(queue), offset, max_count, max_bytes)
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
            self._dispatch.hurry()
        return found

    def query_many(self, topic: str, keys: Sequence[str], max_count: int = 32) -> list[list[MessageExt]]:
        """``query`` for many keys at once, by the compiled kernels."""
        self._check_open()
        index = self._engine.parts.index
        if index is None:
            return [[] for _ in keys]
        from flaremq.storage.get.keys import query_many

        max_count = min(max_count, self.options.max_msgs_num_batch)
        return query_many(
            self._commit_log,
            index,
            topic,
            keys,
            max_count,
            self._dispatcher.deleted.end_of(topic),
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
        queue = self._queues.find(topic, queue_id)
        return 0 if queue is None else queue.min_offset

    def max_offset(self, topic: str, queue_id: int) -> int:
        """The next offset of a queue, as readers see it."""
        self._check_open()
        self._dispatch.hurry()
        queue = self._queues.find(topic, queue_id)
        return 0 if queue is None else queue.end

    def next_offset(self, topic: str, queue_id: int) -> int:
        """The offset behind all that the log has of a queue, shown to readers or not (it may wait for copies)."""
        self._check_open()
        written = self._writer.queue_offsets.get(topic, {}).get(queue_id, 0)
        return max(written, self.max_offset(topic, queue_id))

    def queues(self) -> list[tuple[str, int]]:
        """Every (topic, queue id) that has units."""
        return sorted((queue.topic, queue.queue_id) for queue in self._queues.all())

    def queues_in_log(self) -> list[tuple[str, int]]:
        """Every (topic, queue id) that the log has messages of, shown to readers or not; not on a replica."""
        self._check_open()
        written = {(topic, queue_id) for topic, table in self._writer.queue_offsets.items() for queue_id in table}
        return sorted(written.union(self.queues()))

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
    def lasting_offset(self) -> int:
        """Up to where the log is durable, and stays if another broker becomes the master: copies confirm it."""
        return min(self.flushed_offset, self._commit_log.confirm_offset)

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
            "recoveryStartOffset": self._engine.checkpointer.dispatched,
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
        self._engine.checkpointer.save()
        from flaremq.storage.at_rest.indexes import IndexGeometry
        from flaremq.storage.at_rest.reader import StoreReader
        from flaremq.storage.verify.finding import Severity
        from flaremq.storage.verify.verifier import StoreVerifier

        parts = self._engine.parts
        reader = StoreReader.open(
            self.path,
            commit_log_paths=parts.layout.commit_log_paths,
            index_geometry=IndexGeometry(self.options.max_hash_slot_num, self.options.max_index_num),
            filesystem=parts.filesystem,
            lock=False,
        )
        try:
            with self._dispatch.lock:
                found = StoreVerifier(reader, delay_levels=parts.delay_levels).findings()
                return [finding for finding in found if finding.severity is not Severity.NOTE]  # it is open, yes
        finally:
            reader.close()

    # Waiting, and work that is due

    def wait_for_dispatch(self, timeout: float | None = None) -> bool:
        """Wait until everything put before this call can be read; False after ``timeout`` seconds.

        What copies elsewhere have not confirmed is not waited for: nobody may read it.
        """
        target = self._commit_log.end_offset
        if self._engine.flush.sync_mode:
            self.flush()
        if not self._engine.threads:
            self._dispatch.run()
        target = min(target, self._commit_log.confirm_offset)
        return self._dispatch.wait_until(
            lambda: self._dispatcher.position >= target or self._dispatcher.awaited_end > target, timeout
        )

    def wait_for_message(self, topic: str, queue_id: int, offset: int, timeout: float | None = None) -> bool:
        """Wait until the queue holds a message at ``offset``; False after ``timeout`` seconds."""

        def is_there() -> bool:
            queue = self._queues.find(topic, queue_id)
            return queue is not None and queue.end > offset

        return self._dispatch.wait_until(is_there, timeout)

    def tick(self) -> None:
        """All periodic work once, now (with ``threads=False``, where nothing runs on its own)."""
        self._engine.tick()

    def delete_expired(self, *, force: bool = False) -> int:
        """Delete expired log files now (with ``force`` all but the last); the number deleted."""
        self._check_open()
        return self._engine.retention.delete_expired(at_once=force)

    def request_deletion(self) -> None:
        """Delete expired log files now and in the next rounds of cleaning, whatever the hour."""
        self._engine.retention.request()
        self._engine.retention.run_round()

    def clean_expired_queues(self) -> None:
        """Drop units and index entries whose records are gone. Queues keep their numbering, so offsets stay valid."""
        self._engine.retention.follow_log()

    def delete_topics(self, topics: Collection[str]) -> int:
        """Forget the queues of these topics, durably; the number of queues. Their records expire with the log.

        A topic of the same name starts at queue offset 0 again. May be called while others put and read: for each of
        them a message is either of the earlier life, and gone, or of the new one.
        """
        return self._engine.delete_topics(topics)

    def follow_deletion(self, topic: str, end: int) -> None:
        """Of a replica: the master has deleted this topic behind the record that ends at log offset ``end``."""
        self._engine.follow_deletion(topic, end)

    # Closing

    def close(self) -> None:
        """Stop taking messages, dispatch and flush everything, mark the store as closed cleanly."""
        self._engine.close()

    def abandon(self) -> None:
        """Drop everything as a killed process would: no flush, no checkpoint, ``abort`` stays. For tests."""
        self._engine.abandon()

    def __enter__(self) -> MessageStore:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
