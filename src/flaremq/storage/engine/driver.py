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
from flaremq.storage.engine.store_role import StoreRole
from flaremq.storage.get.pull import Puller
from flaremq.storage.get.transfer import LogTransfer, TransferFile
from flaremq.storage.log.append import RecordFields, TopicEntry, append_batch_body
from flaremq.storage.log.commit_log import NO_GATE, CommitLog
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
        role: StoreRole,
    ) -> None:
        self._writer = writer
        self._flush = flush
        self._dispatch = dispatch
        self._dispatcher = dispatch.dispatcher
        self._options = options
        self.puller = puller
        self._role = role
        self._transfer = LogTransfer(writer.log)
        self._log = writer.log
        self._health = writer.health
        self._statistics = writer.statistics
        self._store_host = writer.store_host
        # Not a method around it: that would be one call more for each send.
        self.append = writer.append

    # Writing

    def append_rows(
        self, topic: str, count: int, content_bytes: int, append: Callable[[CommitLog, TopicEntry, bytes], None]
    ) -> int | None:
        """Let ``append`` add plain records with so many bytes of bodies and properties, all of them or none.

        It gets the log, what the topic's records share and the store's host, under the put lock. The end of the last
        record; None, with nothing changed, if plain code must look.
        """
        writer, log = self._writer, self._log
        entry = writer.topics.get(topic)
        if entry is None or entry.plain_size * count + content_bytes > writer.plain_size_max:
            return None
        with log.lock:
            if self._health.refusal is not None:
                return None
            try:
                append(log, entry, self._store_host)
            except StoreIOError:
                return None
            end = log.end_offset
        self._statistics.put_count += count
        return end

    def append_form(self, form: StoredForm) -> PutResult:
        """Append a record in its stored form; PUT_OK says it is in the log, not that it is durable."""
        return self._writer.put_form(form, wait=False)

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
    def refuses(self) -> bool:
        """Whether no message is stored now: a full disk, a sync that failed."""
        return self._health.refusal is not None

    @property
    def appended(self) -> int:
        return self._log.end_offset

    @property
    def committed(self) -> int:
        """What the files hold; with the transient pool less than what is appended."""
        return self._log.committed_offset

    @property
    def stored_at_ms(self) -> int:
        """When the last record of the log was stored, by the clock of the master that took it."""
        return self._log.last_timestamp

    @property
    def durable(self) -> int:
        return self._log.flushed_offset

    def sync(self) -> int:
        """Make everything appended so far durable; the offset reached. Blocks; raises StoreIOError, then for ever."""
        return self._flush.sync()

    @property
    def is_syncing(self) -> bool:
        """Whether a sync runs at this moment: another ``sync`` would wait for it first."""
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
        return self._dispatch.undispatched

    def dispatch(self) -> set[tuple[str, int]]:
        """Show what is readable in queues and index; the queues that grew."""
        self._dispatch.run()
        touched = self._dispatcher.touched
        self._dispatcher.touched = set()
        return touched

    @property
    def confirmed(self) -> int | None:
        """How far copies confirm the log; None if none are waited for."""
        return None if self._log.confirm_offset == NO_GATE else self._log.confirm_offset

    def confirm(self, offset: int | None) -> None:
        """Readers see at most what copies confirm; None, as at the start: no copies are waited for.

        Need not be the end of a record. Never takes back what was shown.
        """
        self._dispatch.confirm(offset)

    @property
    def has_dispatch_error(self) -> bool:
        return bool(self._health.flags & RunningFlag.LOGIC_QUEUE_ERROR)

    # Replication

    @property
    def min_offset(self) -> int:
        """Where the log begins; its end if it holds nothing."""
        return self._log.min_offset if self._log.files.files else self._log.end_offset

    @property
    def is_empty(self) -> bool:
        return self.min_offset == self._log.end_offset

    @property
    def file_size(self) -> int:
        """Bytes of a log file."""
        return self._log.files.file_size

    def transfer_view(self, offset: int, limit: int, size_max: int) -> memoryview | None:
        """Log bytes from ``offset`` to at most ``limit``, the end of their file or ``size_max`` bytes; no copy."""
        return self._transfer.view(offset, limit, size_max)

    def transfer_file(self, offset: int) -> TransferFile | None:
        """The log file that holds ``offset``, open for ``sendfile`` on a thread; None if there is none (any more)."""
        return self._transfer.open(offset)

    @property
    def is_replica(self) -> bool:
        return self._role.is_replica

    @property
    def master_flushed_offset(self) -> int:
        """What a replica was told of its master's log; kept in the checkpoint, used for nothing else."""
        return self._role.master_flushed_offset

    @master_flushed_offset.setter
    def master_flushed_offset(self, offset: int) -> None:
        self._role.master_flushed_offset = offset

    def append_replica(self, offset: int, data: bytes | bytearray | memoryview) -> int:
        """Append whole records of the master's log, fillers included, at our end; the new end. Not durable yet.

        InvalidArgumentError if ``offset`` is not our end or the bytes are no whole records, StoreIOError if they cannot
        be stored, UnavailableError if this is no replica or closed; nothing is changed then.
        """
        return self._role.append(offset, data)

    def begin_at(self, offset: int) -> None:
        """An empty replica begins at this file start of its master. Syncs; InvalidArgumentError if it is not empty."""
        self._role.begin_at(offset)

    def become_writable(self) -> None:
        """Take messages, with queue offsets that follow those of the whole log. Blocks while dispatch catches up."""
        self._role.become_writable()

    def become_replica(self) -> None:
        """Refuse messages and take a master's log instead; an append under way finishes first."""
        self._role.become_replica()


def _is_one_message(body: bytes) -> bool:
    try:
        return next(iter(decode_batch(body))).end == len(body)
    except (CorruptionError, StopIteration):
        return False
