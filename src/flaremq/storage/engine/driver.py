"""StoreDriver: a store whose owner has an event loop, and wants neither threads of ours nor waiting.

``MessageStore.open(..., driven=True)`` starts no flush and no dispatch thread. The owner appends without waiting,
lets ``sync`` run on a thread of its own, and dispatches where it likes; acknowledging an append only after ``durable``
has passed its end keeps SYNC_FLUSH's promise. The two append methods are the broker's hottest code: they take what came
off the wire and write the record into the mapped log, one lock, no object per message.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from flaremq.errors import CorruptionError, InvalidArgumentError, StoreIOError
from flaremq.message.batch import decode_batch
from flaremq.message.stored_form import StoredForm
from flaremq.message.sys_flag import INNER_BATCH, TRANSACTION_MASK
from flaremq.storage.engine.dispatch_service import DispatchService
from flaremq.storage.engine.flush_service import FlushService
from flaremq.storage.get.pull import Puller
from flaremq.storage.log.append import RecordFields, append_batch_body
from flaremq.storage.options import StoreOptions
from flaremq.storage.put.fields import PutFields
from flaremq.storage.put.put_result import PutResult
from flaremq.storage.put.writer import EMPTY_BATCH, MessageWriter
from flaremq.storage.runtime.health import RunningFlag
from flaremq.storage.status import PutMessageStatus

BATCH_MESSAGES_MAX = 65_536  # a message takes 22 bytes on the wire and five times that in the log
_HOST_FAMILIES = 0x30


class StoreDriver:
    """The seams of a driven store. ``append`` from one thread, ``sync`` from another, ``dispatch`` from any one."""

    def __init__(
        self,
        writer: MessageWriter,
        flush: FlushService,
        dispatch: DispatchService,
        puller: Puller,
        options: StoreOptions,
    ) -> None:
        self._writer = writer
        self._flush = flush
        self._dispatch = dispatch
        self._dispatcher = dispatch.dispatcher
        self._options = options
        self.puller = puller
        self._log = writer.log
        self._health = writer.health
        self._statistics = writer.statistics
        self._store_host = writer.store_host

    # Writing

    def append(
        self,
        topic: str,
        queue_id: int,
        body: bytes,
        properties: bytes,
        flag: int,
        sys_flag: int,
        born_timestamp: int,
        born_host: bytes,
        reconsume_times: int,
    ) -> tuple[int, int, int] | PutResult:
        """(queue offset, physical offset, end of the record), not durable yet; or why the message was refused."""
        return self._writer.append(
            topic, queue_id, body, properties, flag, sys_flag, born_timestamp, born_host, reconsume_times
        )

    def append_rows(
        self,
        topic: str,
        queue_ids: list[int],
        content_bytes: int,
        born_host: bytes,
        write: Callable[[memoryview, int, int, bytes, bytes, list[int]], int],
    ) -> int | None:
        """Append a record for each queue id, laid out by ``write``; the end of the last, None if plain code must look.

        ``write(buffer, at, base, prefix, topic, queue offsets)`` fills the mapping from file offset ``at`` on with
        records of ``content_bytes`` of bodies and properties and returns where they end. All or none.
        """
        writer = self._writer
        entry = writer.topics.get(topic)
        if entry is None or self._writer.plain_size_max < 0:
            return None
        total = (90 + len(entry.prefix)) * len(queue_ids) + content_bytes
        if total > self._writer.plain_size_max:
            return None
        log = self._log
        with log.lock:
            if self._health.refusal is not None:
                return None
            try:
                at = log.claim(total)
            except StoreIOError:
                return None
            now = log.store_time()
            assert log.current is not None
            base = log.current.start
            queue_offsets = entry.queue_offsets
            offsets = []
            following: dict[int, int] = {}  # taken over once the records are written
            for queue_id in queue_ids:
                offset = following.get(queue_id)
                if offset is None:
                    offset = queue_offsets.get(queue_id, 0)
                offsets.append(offset)
                following[queue_id] = offset + 1
            prefix = RecordFields(entry.magic, b"", 0, 0, 0, born_host, self._store_host).prefix(now)
            end = write(log.buffer, at, base, prefix, entry.prefix, offsets)
            assert end == at + total, f"{end - at} bytes were written where {total} were reckoned"
            queue_offsets.update(following)
            log.publish(end, now)
            end_offset = log.end_offset
        self._statistics.put_count += len(queue_ids)
        return end_offset

    def append_form(self, form: StoredForm) -> PutResult:
        """Append a record in its stored form; PUT_OK says it is in the log, not that it is durable."""
        return self._writer.put_form(form, wait=False)

    def append_batch(
        self,
        topic: str,
        queue_id: int,
        bodies: list[bytes],
        properties: list[bytes],
        flags: list[int] | None,
        *,
        born_timestamp: int,
        born_host: bytes,
        sys_flag: int,
    ) -> PutResult:
        """Append messages for consecutive queue offsets, all or none; not durable yet."""
        given = PutFields(queue_id, sys_flag, born_timestamp, born_host)
        return self._writer.put_columns(topic, given, bodies, properties, flags, wait=False)

    def append_batch_body(
        self,
        topic: str,
        queue_id: int,
        body: bytes,
        *,
        born_timestamp: int,
        born_host: bytes,
        sys_flag: int,
    ) -> PutResult:
        """Append the messages of a batch body as it came off the wire, all or none; not durable yet.

        Several messages may take maxMessageSize together, as RocketMQ counts; one has the limit it has elsewhere.
        """
        writer, size_max = self._writer, self._options.max_message_size
        if len(body) > size_max and not _is_one_message(body):
            detail = f"batch of {len(body)} bytes, maxMessageSize is {size_max}"
            return writer.refused(PutMessageStatus.MESSAGE_ILLEGAL, detail)
        entry = writer.topics.get(topic)
        if (
            entry is not None
            and len(body) <= size_max
            and writer.plain_size_max > 0
            and len(born_host) == 8
            and not (born_host[4] or born_host[5])
            and not sys_flag & (_HOST_FAMILIES | INNER_BATCH | TRANSACTION_MASK)
            and not (queue_id >> 31 or sys_flag >> 31 or born_timestamp >> 63)
        ):
            host = self._store_host
            fields = RecordFields(entry.magic, entry.prefix, queue_id, sys_flag, born_timestamp, born_host, host)
            result = self._append_body(fields, entry.queue_offsets, body)
            if result is not None:
                return result
        try:
            found = islice(decode_batch(body), BATCH_MESSAGES_MAX + 1)
            items = [(item.flag, bytes(item.body), bytes(item.properties)) for item in found]
        except CorruptionError as error:
            return writer.refused(PutMessageStatus.MESSAGE_ILLEGAL, str(error))
        if not items:
            return writer.refused(*EMPTY_BATCH)
        if len(items) > BATCH_MESSAGES_MAX:
            detail = f"a batch of more than {BATCH_MESSAGES_MAX} messages"
            return writer.refused(PutMessageStatus.MESSAGE_ILLEGAL, detail)
        flags, bodies, properties = map(list, zip(*items, strict=True))
        given = PutFields(queue_id, sys_flag, born_timestamp, born_host)
        return writer.put_columns(topic, given, bodies, properties, flags, wait=False)

    def _append_body(self, fields: RecordFields, queue_offsets: dict[int, int], body: bytes) -> PutResult | None:
        """None: plain code must look."""
        log, writer = self._log, self._writer
        size_max = self._options.mapped_file_size_commit_log - 8
        with log.lock:
            if self._health.refusal is not None:
                return writer.refused(PutMessageStatus.SERVICE_NOT_AVAILABLE, self._health.refusal)
            try:
                appended = append_batch_body(log, fields, queue_offsets, body, size_max, BATCH_MESSAGES_MAX)
            except StoreIOError as error:
                return writer.refused(PutMessageStatus.CREATE_MAPPED_FILE_FAILED, str(error))
            except InvalidArgumentError as error:
                return writer.refused(PutMessageStatus.MESSAGE_ILLEGAL, str(error))
        if appended is None:
            return None
        queue_offset, physical_offset, now, sizes = appended
        self._statistics.put_count += len(sizes)
        return PutResult(
            PutMessageStatus.PUT_OK, queue_offset, physical_offset, now, sum(sizes), self._store_host, None, sizes
        )

    # Durability

    @property
    def appended(self) -> int:
        return self._log.end_offset

    @property
    def durable(self) -> int:
        return self._log.flushed_offset

    def sync(self) -> int:
        """Make everything appended so far durable; the offset reached. Blocks; raises StoreIOError, then for ever."""
        return self._flush.sync()

    @property
    def is_syncing(self) -> bool:
        """Whether somebody syncs at this moment: another ``sync`` would wait for that one first."""
        return self._log.flush_lock.locked()

    def flush_step(self) -> float:
        """One round of the timed flush of ASYNC_FLUSH; the seconds to the next. Blocks."""
        return self._flush.step()

    @property
    def sync_mode(self) -> bool:
        return self._flush.sync_mode

    # Views

    @property
    def readable(self) -> int:
        """Dispatch may go up to here."""
        return self._log.readable_offset

    @property
    def undispatched(self) -> int:
        """Readable bytes that no queue shows yet."""
        return self._log.readable_offset - self._dispatcher.position

    def dispatch(self) -> set[tuple[str, int]]:
        """Show what is readable in queues and index; the queues that grew."""
        self._dispatch.run()
        touched = self._dispatcher.touched
        self._dispatcher.touched = set()
        return touched

    @property
    def has_dispatch_error(self) -> bool:
        return bool(self._health.flags & RunningFlag.LOGIC_QUEUE_ERROR)


def _is_one_message(body: bytes) -> bool:
    try:
        return next(iter(decode_batch(body))).end == len(body)
    except (CorruptionError, StopIteration):
        return False
