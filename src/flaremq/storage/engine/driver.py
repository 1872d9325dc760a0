"""StoreDriver: a store whose owner has an event loop, and wants neither threads of ours nor waiting.

``MessageStore.open(..., driven=True)`` starts no flush and no dispatch thread. The owner appends without waiting,
lets ``sync`` run on a thread of its own, and dispatches where it likes; acknowledging an append only after ``durable``
has passed its end keeps SYNC_FLUSH's promise. The two append methods are the broker's hottest code: they take what came
off the wire and write the record into the mapped log, one lock, no object per message.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import islice
from zlib import crc32

from flaremq.errors import CorruptionError, InvalidArgumentError, StoreIOError
from flaremq.message.batch import decode_batch
from flaremq.message.record.codec import PREFIX_V4, PROPERTIES_SIZE_MAX, SHORT
from flaremq.message.stored_form import StoredForm
from flaremq.message.sys_flag import INNER_BATCH, TRANSACTION_MASK
from flaremq.storage.engine.dispatch_service import DispatchService
from flaremq.storage.engine.flush_service import FlushService
from flaremq.storage.get.pull import Puller
from flaremq.storage.kernels.loaded import kernels_are_loaded
from flaremq.storage.log.append import RecordFields
from flaremq.storage.options import StoreOptions
from flaremq.storage.put.put_result import BatchPutResult, PutResult
from flaremq.storage.put.writer import EMPTY_BATCH, MessageWriter, PutFields
from flaremq.storage.runtime.health import RunningFlag
from flaremq.storage.status import PutMessageStatus

BATCH_MESSAGES_MAX = 65_536  # a message takes 22 bytes on the wire and five times that in the log
_HOST_FAMILIES = 0x30
_NO_QUEUE_UNIT = 0x4  # prepared and rollback records have no place in a queue
_NOT_PLAIN = ~0x7FFFFFFF | _HOST_FAMILIES | INNER_BATCH | _NO_QUEUE_UNIT  # negative and too large numbers too
# A record up to its body between IPv4 hosts; the magic as bytes, the prepared transaction offset always zero.
_PREFIX = struct.Struct(">i4siiiqqiq8sq8si8xi")
assert _PREFIX.size == PREFIX_V4.size == 88
_pack_prefix = _PREFIX.pack_into
_pack_short = SHORT.pack


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
        self._time_ns = writer.time_ns

    # Writing

    # Long on purpose: the hot path of a send, append.py's steps without its calls.
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
        writer = self._writer
        entry = writer.topics.get(topic)
        total = 90 + len(body) + len(properties)
        if (
            entry is None
            or total + 128 > self._writer.plain_size_max
            or len(properties) > PROPERTIES_SIZE_MAX
            or sys_flag & _NOT_PLAIN
            or len(born_host) != 8
            or born_host[4]  # a port beyond 65535: recovery would take the record for a torn one
            or born_host[5]
            or (queue_id | flag | reconsume_times) >> 31  # negative, or wider than its field
            or born_timestamp >> 63
            or 0 in properties
            or properties[-20:-16] == b"__CR"  # may end with a checksum of its own, or what would pass for a damaged
            or properties[-16:-12] == b"C32#"  # one: reserved, the general path decides
        ):
            return self._append_slowly(
                topic, queue_id, body, properties, flag, sys_flag, born_timestamp, born_host, reconsume_times
            )
        body_length = len(body)
        tail = entry.prefix + _pack_short(len(properties)) + properties
        total = 88 + body_length + len(tail)
        log = self._log
        lock = log.lock
        lock.acquire()
        try:
            if self._health.refusal is not None:
                return writer.refused(PutMessageStatus.SERVICE_NOT_AVAILABLE, self._health.refusal)
            now = self._time_ns() // 1_000_000
            if now < log.last_timestamp:
                now = log.timestamp_after(now)
            file = log.current
            if file is None or file.wrote + total + 8 > log.limit:
                file = log.make_room(total)
            at = file.wrote
            physical_offset = file.start + at
            queue_offsets = entry.queue_offsets
            queue_offset = queue_offsets.get(queue_id, 0)
            buffer = log.buffer
            _pack_prefix(
                buffer,
                at,
                total,
                entry.magic_bytes,
                crc32(body) & 0x7FFFFFFF,
                queue_id,
                flag,
                queue_offset,
                physical_offset,
                sys_flag,
                born_timestamp,
                born_host,
                now,
                self._store_host,
                reconsume_times,
                body_length,
            )
            body_at = at + 88
            tail_at = body_at + body_length
            end = at + total
            buffer[body_at:tail_at] = body
            buffer[tail_at:end] = tail
            queue_offsets[queue_id] = queue_offset + 1
            file.wrote = end
            log.last_timestamp = now
            log.end_offset = end_offset = physical_offset + total
        except StoreIOError as error:
            return writer.refused(PutMessageStatus.CREATE_MAPPED_FILE_FAILED, str(error))
        finally:
            lock.release()
        self._statistics.put_count += 1
        return queue_offset, physical_offset, end_offset

    def _append_slowly(
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
        result = self.append_form(
            StoredForm(
                topic=topic,
                queue_id=queue_id,
                body=body,
                properties=properties,
                flag=flag,
                sys_flag=sys_flag,
                born_timestamp=born_timestamp,
                born_host=born_host,
                reconsume_times=reconsume_times,
            )
        )
        if not result.ok:
            return result
        return result.queue_offset, result.physical_offset, result.physical_offset + result.size

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
                at, base, now = log.claim(total)
            except StoreIOError:
                return None
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
            and kernels_are_loaded()
            and writer.plain_size_max > 0
            and len(born_host) == 8
            and not (born_host[4] or born_host[5])
            and not sys_flag & (_HOST_FAMILIES | INNER_BATCH | TRANSACTION_MASK)
            and not (queue_id >> 31 or sys_flag >> 31 or born_timestamp >> 63)
        ):
            host = self._store_host
            fields = RecordFields(entry.magic, entry.prefix, queue_id, sys_flag, born_timestamp, born_host, host)
            result = self._append_by_kernels(fields, entry.queue_offsets, body)
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

    def _append_by_kernels(self, fields: RecordFields, queue_offsets: dict[int, int], body: bytes) -> PutResult | None:
        """None: plain code must look."""
        from flaremq.storage.put.columns import append_batch_body

        log, writer = self._log, self._writer
        size_max = self._options.mapped_file_size_commit_log - 8
        with log.lock:
            if self._health.refusal is not None:
                return writer.refused(PutMessageStatus.SERVICE_NOT_AVAILABLE, self._health.refusal)
            try:
                appended = append_batch_body(
                    log, fields, queue_offsets, body, size_max=size_max, count_max=BATCH_MESSAGES_MAX
                )
            except StoreIOError as error:
                return writer.refused(PutMessageStatus.CREATE_MAPPED_FILE_FAILED, str(error))
            except InvalidArgumentError as error:
                return writer.refused(PutMessageStatus.MESSAGE_ILLEGAL, str(error))
        if appended is None:
            return None
        queue_offset, physical_offset, now, sizes = appended
        self._statistics.put_count += len(sizes)
        return BatchPutResult(
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
