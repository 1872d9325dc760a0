"""The put path: check, append under the lock, wait for durability. One message costs a few microseconds here.

Every check comes before the lock and before any byte is written; a refused message leaves no trace, not even a used
queue offset. What may be stored is said in put/rules.py, for this and every other way in. What is answered PUT_OK in
SYNC_FLUSH is on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import cython

from flaremq.clock import Clock
from flaremq.errors import InvalidArgumentError, StoreIOError
from flaremq.message.delay import parse_delay_levels
from flaremq.message.hosts import encode_host
from flaremq.message.message import Message
from flaremq.message.properties import UnstorableError
from flaremq.message.stored_form import StoredForm, delayed
from flaremq.message.sys_flag import HOST_V6_MASK, INNER_BATCH, TransactionType, with_host_families
from flaremq.storage.log.append import (
    Appended,
    RecordFields,
    TopicEntry,
    append_columns,
    append_records,
    measure_columns,
)
from flaremq.storage.log.commit_log import CommitLog
from flaremq.storage.log.flush import GroupCommit
from flaremq.storage.options import StoreOptions
from flaremq.storage.put.fields import PutFields, encode_columns
from flaremq.storage.put.put_result import PutResult
from flaremq.storage.put.rules import PutRules, Refusal, check_batch, check_fields, check_host, illegal
from flaremq.storage.runtime.health import Health
from flaremq.storage.runtime.services import ServiceThread
from flaremq.storage.runtime.statistics import StoreStatistics
from flaremq.storage.status import PutMessageStatus

if not cython.compiled:
    from flaremq.core.memory import bytes_view, find_byte, whole_number
    from flaremq.storage.log.append import append_record, is_storable
    from flaremq.storage.put.put_result import stored_result

_SAMPLED = 15

_OK = PutMessageStatus.PUT_OK
_BUSY = "an append has been under way for too long"
_INT_MIN, _INT_MAX = -(2**31), 2**31 - 1
_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1
_NO_NUMBER = -(2**40)  # what no int32 is
_PROPERTIES_MAX = 32767
_NOT_PLAIN = ~0x7FFFFFFF | HOST_V6_MASK | INNER_BATCH | TransactionType.PREPARED  # negative numbers too


EMPTY_BATCH = illegal("an empty batch cannot be stored")


class MessageWriter:
    """The write side of a store. Any thread."""

    __slots__ = (
        "_after_append",
        "_busy_seconds",
        "_clock",
        "_commit",
        "_crc",
        "_delay_levels",
        "_rules",
        "_timeout",
        "dispatch_service",
        "fast_path",
        "health",
        "log",
        "plain_size_max",
        "queue_offsets",
        "statistics",
        "store_host",
        "sync_mode",
        "topics",
    )

    def __init__(
        self,
        log: CommitLog,
        commit: GroupCommit,
        health: Health,
        options: StoreOptions,
        clock: Clock,
        statistics: StoreStatistics,
        after_append: Callable[[bool], None],
    ) -> None:
        self.log = log
        self._commit = commit
        self.health = health
        self._clock = clock
        self._delay_levels = parse_delay_levels(options.message_delay_level)
        self.statistics = statistics
        self._after_append = after_append
        self._crc = options.enabled_append_prop_crc
        self._rules = PutRules(options)
        self.store_host = self._rules.store_host
        self.fast_path = True
        self.dispatch_service: ServiceThread | None = None
        self.topics: dict[str, TopicEntry] = {}
        self.queue_offsets: dict[str, dict[int, int]] = {}
        self.read_options(options)

    def read_options(self, options: StoreOptions) -> None:
        """What may change while the store is open."""
        self.sync_mode = options.flush_disk_type == "SYNC_FLUSH"
        self._rules.read_options(options)
        self.plain_size_max = self._rules.plain_size_max
        self._timeout = options.sync_flush_timeout / 1000
        self._busy_seconds = options.os_page_cache_busy_time_out_mills / 1000

    # Over sixty lines on purpose: the hot path of a put.
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
        """Store one message. PUT_OK in SYNC_FLUSH means it is on disk (unless it asked not to wait).

        The body of this method is the fast path: a plain message between IPv4 hosts, no object but the result. The
        general path below gives the same bytes and serves the rest; ``fast_path = False`` sends everything there.
        """
        try:
            properties = message.encoded_properties()
        except UnstorableError as error:
            return self.refused(PutMessageStatus.MESSAGE_ILLEGAL, str(error))
        body = message.body
        entry = self.topics.get(message.topic)
        queue = whole_number(queue_id, 0, _INT_MAX, -1)
        flag = whole_number(message.flag, _INT_MIN, _INT_MAX, _NO_NUMBER)
        if (
            entry is None
            or not self.fast_path
            or born_host is not None
            or sys_flag
            or reconsume_times
            or prepared_transaction_offset
            or queue < 0
            or flag == _NO_NUMBER
            or message.delay_level > 0
            or type(body) is not bytes
            or not (born_timestamp is None or _is_long(born_timestamp))
            or len(properties) > _PROPERTIES_MAX
            or entry.plain_size + len(body) + len(properties) > self.plain_size_max
            # The name of the record checksum was refused by encoded_properties.
            or find_byte(bytes_view(properties), 0, len(properties), 0) < len(properties)
        ):
            return self._put_message(
                message,
                queue_id,
                born_timestamp,
                born_host,
                reconsume_times,
                sys_flag,
                prepared_transaction_offset,
            )
        log = self.log
        lock = log.lock
        if not lock.acquire(self._busy_seconds):
            return self.refused(PutMessageStatus.OS_PAGE_CACHE_BUSY, _BUSY)
        try:
            if self.health.refusal is not None:  # looked at inside the lock: close() waits for the lock
                return self.refused(PutMessageStatus.SERVICE_NOT_AVAILABLE, self.health.refusal)
            host = self.store_host
            placed = append_record(log, entry, queue, flag, 0, born_timestamp, host, host, 0, body, properties)
        except StoreIOError as error:
            return self.refused(PutMessageStatus.CREATE_MAPPED_FILE_FAILED, str(error))
        finally:
            lock.release()
        statistics = self.statistics
        statistics.put_count += 1
        if self.sync_mode:
            waits = bool(message.wait_store_msg_ok)
            if waits and not self._commit.wait(placed.physical_offset + placed.size, self._timeout):
                return self._unconfirmed(
                    placed.queue_offset, placed.physical_offset, placed.store_timestamp, placed.size
                )
            self._after_append(waits)
            statistics.note_put(self._clock.now_ms() - placed.store_timestamp)
        else:
            service = self.dispatch_service
            if service is None or service.idle:
                self._after_append(True)
            if not placed.queue_offset & _SAMPLED:  # a second clock reading is not free: every sixteenth stands for all
                statistics.note_put(self._clock.now_ms() - placed.store_timestamp, _SAMPLED + 1)
        return stored_result(placed.queue_offset, placed.physical_offset, placed.store_timestamp, placed.size, host)

    # Nine parameters on purpose: a send as it came off the wire, and no object to hold it.
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
        entry = self.topics.get(topic)
        queue = whole_number(queue_id, 0, _INT_MAX, -1)
        mark = whole_number(flag, 0, _INT_MAX, -1)
        bits = whole_number(sys_flag, 0, _INT_MAX, -1)
        tries = whole_number(reconsume_times, 0, _INT_MAX, -1)
        if (
            entry is None
            or entry.plain_size + len(body) + len(properties) > self.plain_size_max
            or len(properties) > _PROPERTIES_MAX
            or queue < 0
            or mark < 0
            or bits & _NOT_PLAIN
            or tries < 0
            or not _is_long(born_timestamp)
            or len(born_host) != 8
            or born_host[4]  # a port beyond 65535: recovery would take the record for a torn one
            or born_host[5]
            or not is_storable(bytes_view(properties), 0, len(properties))
        ):
            result = self.put_form(
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
                ),
                wait=False,
            )
            if not result.ok:
                return result
            return result.queue_offset, result.physical_offset, result.physical_offset + result.size
        log = self.log
        lock = log.lock
        lock.acquire()
        try:
            if self.health.refusal is not None:
                return self.refused(PutMessageStatus.SERVICE_NOT_AVAILABLE, self.health.refusal)
            placed = append_record(
                log, entry, queue, mark, bits, born_timestamp, born_host, self.store_host, tries, body, properties
            )
        except StoreIOError as error:
            return self.refused(PutMessageStatus.CREATE_MAPPED_FILE_FAILED, str(error))
        finally:
            lock.release()
        self.statistics.put_count += 1
        return placed.queue_offset, placed.physical_offset, placed.physical_offset + placed.size

    def _put_message(
        self,
        message: Message,
        queue_id: int,
        born_timestamp: int | None,
        born_host: str | bytes | None,
        reconsume_times: int,
        sys_flag: int,
        prepared_transaction_offset: int,
    ) -> PutResult:
        host = self.store_host
        if born_host is not None:
            host = encode_host(born_host) if isinstance(born_host, str) else born_host
        if born_timestamp is None:
            born_timestamp = self._clock.now_ms()
        form = StoredForm.of_message(
            message,
            queue_id=queue_id,
            born_timestamp=born_timestamp,
            born_host=host,
            sys_flag=sys_flag,
            reconsume_times=reconsume_times,
        )
        return self.put_form(replace(form, prepared_transaction_offset=prepared_transaction_offset))

    def put_form(self, form: StoredForm, *, wait: bool = True) -> PutResult:
        """Store a record given in its stored form: retries, dead letters, transactions, due messages."""
        if form.delay_level > 0 and not form.sys_flag & 0x4:
            # Where it is meant for must be as legal as where it waits.
            place = check_fields(form.queue_id, 0, 0, 0)
            place = place or _refusal_in(self._rules.encode_topic(form.topic))
            if place is not None:
                return self.refused(*place)
            form = delayed(form, self._delay_levels)
        given = PutFields(
            form.queue_id,
            form.sys_flag,
            form.born_timestamp,
            form.born_host,
            form.reconsume_times,
            form.prepared_transaction_offset,
        )
        wait = wait and form.wait_store_msg_ok
        return self._put(form.topic, given, [form.body], [form.properties], [form.flag], is_batch=False, wait=wait)

    def put_batch(
        self,
        messages: Sequence[Message],
        queue_id: int,
        born_timestamp: int | None,
        born_host: str | bytes | None,
        sys_flag: int,
    ) -> PutResult:
        """All messages, of one topic, in one file and for consecutive queue offsets; or none."""
        if not messages:
            return self.refused(*EMPTY_BATCH)
        topic = messages[0].topic
        bodies, properties, flags = [], [], []
        wait = True
        for message in messages:
            if message.topic != topic or message.delay_level > 0:
                return self.refused(
                    PutMessageStatus.MESSAGE_ILLEGAL, "messages of a batch need one topic and no delay level"
                )
            try:
                properties.append(message.encoded_properties())
            except UnstorableError as error:
                return self.refused(PutMessageStatus.MESSAGE_ILLEGAL, str(error))
            bodies.append(message.body)
            flags.append(message.flag)
            wait = wait and message.wait_store_msg_ok
        given = PutFields(queue_id, sys_flag, born_timestamp, born_host)
        return self.put_columns(topic, given, bodies, properties, flags, wait=wait)

    def put_many(
        self,
        topic: str,
        bodies: list[bytes],
        queue_id: int,
        keys: Sequence[str | None] | None,
        tags: Sequence[str | None] | None,
    ) -> PutResult:
        """A batch of messages that have at most keys and a tag; what is plain goes to the log as it is."""
        entry = self.topics.get(topic)
        queue = whole_number(queue_id, 0, _INT_MAX, -1)
        if entry is not None and bodies and queue >= 0 and self.fast_path:
            host = self.store_host
            fields = RecordFields(entry.magic, entry.prefix, queue, 0, None, host, host)
            sizes = measure_columns(fields, bodies, keys, tags, self.plain_size_max)
            if sizes is not None:
                appended = self._append(fields, entry.queue_offsets, bodies, keys, tags, sizes)
                return appended if isinstance(appended, PutResult) else self._finish(appended, True)
        if set(map(type, bodies)) - {bytes}:
            raise InvalidArgumentError("message bodies must be bytes")
        try:
            properties = encode_columns(keys, tags, len(bodies))
        except UnstorableError as error:
            return self.refused(PutMessageStatus.MESSAGE_ILLEGAL, str(error))
        return self.put_columns(topic, PutFields(queue_id), bodies, properties, None, wait=True)

    def put_columns(
        self,
        topic: str,
        given: PutFields,
        bodies: list[bytes],
        properties: list[bytes],
        flags: list[int] | None,
        *,
        wait: bool,
    ) -> PutResult:
        """A batch given as columns; ``properties`` in stored form."""
        return self._put(topic, given, bodies, properties, flags, is_batch=True, wait=wait)

    def _put(
        self,
        topic: str,
        given: PutFields,
        bodies: list[bytes],
        properties: list[bytes],
        flags: list[int] | None,
        *,
        is_batch: bool,
        wait: bool,
    ) -> PutResult:
        """The general path: check everything, append, wait."""
        if self.health.refusal is not None:
            return self.refused(PutMessageStatus.SERVICE_NOT_AVAILABLE, self.health.refusal)
        if not bodies:
            return self.refused(*EMPTY_BATCH)
        entry = self.topics.get(topic) or self._topic_entry(topic)
        if isinstance(entry, Refusal):
            return self.refused(*entry)
        queue_id, sys_flag, born_timestamp, born_host, reconsume_times, prepared_offset = given
        flag = 0 if is_batch or flags is None else flags[0]
        born = 0 if born_timestamp is None else born_timestamp
        refusal = check_fields(queue_id, flag, sys_flag, born, reconsume_times, prepared_offset)
        if refusal is None and is_batch:
            refusal = check_batch(flags, sys_flag)
        if refusal is not None:
            return self.refused(*refusal)
        if not isinstance(born_host, bytes):
            born_host = self.store_host if born_host is None else encode_host(born_host)
        check_host(born_host)
        sys_flag = with_host_families(sys_flag, born_host, self.store_host)
        refusal = self._rules.check_content(bodies, properties, entry.prefix, sys_flag)
        if refusal is not None:
            return self.refused(*refusal)
        if self._crc:
            properties = [self._rules.with_crc_room(text) for text in properties]
        fields = RecordFields(
            entry.magic,
            entry.prefix,
            queue_id,
            sys_flag,
            born_timestamp,
            born_host,
            self.store_host,
            reconsume_times,
            prepared_offset,
        )
        appended = self._append(fields, entry.queue_offsets, bodies, properties, flags)
        return appended if isinstance(appended, PutResult) else self._finish(appended, wait)

    def _append(
        self,
        fields: RecordFields,
        queue_offsets: dict[int, int],
        bodies: list[bytes],
        texts: Any,
        others: Sequence[Any] | None,
        sizes: list[int] | None = None,
    ) -> Appended | PutResult:
        """Under the lock: records of properties and flags or, with ``sizes``, of columns of keys and tags."""
        log = self.log
        if not log.lock.acquire(self._busy_seconds):
            return self.refused(PutMessageStatus.OS_PAGE_CACHE_BUSY, _BUSY)
        try:
            if self.health.refusal is not None:
                return self.refused(PutMessageStatus.SERVICE_NOT_AVAILABLE, self.health.refusal)
            if sizes is not None:
                return append_columns(log, fields, queue_offsets, bodies, texts, others, sizes)
            return append_records(log, fields, queue_offsets, bodies, texts, others, self._crc)
        except StoreIOError as error:
            return self.refused(PutMessageStatus.CREATE_MAPPED_FILE_FAILED, str(error))
        finally:
            log.lock.release()

    def _finish(self, appended: Appended, wait: bool) -> PutResult:
        """Wait for durability if asked to, wake dispatch, count."""
        queue_offset, physical_offset, store_timestamp, sizes = appended
        total = sum(sizes)
        self.statistics.put_count += len(sizes)
        if self.sync_mode and wait and not self._commit.wait(physical_offset + total, self._timeout):
            return self._unconfirmed(queue_offset, physical_offset, store_timestamp, total, sizes)
        self._after_append(wait)
        self.statistics.note_put(self._clock.now_ms() - store_timestamp)
        return PutResult(_OK, queue_offset, physical_offset, store_timestamp, total, self.store_host, None, sizes)

    def _unconfirmed(
        self,
        queue_offset: int,
        physical_offset: int,
        store_timestamp: int,
        total: int,
        sizes: list[int] | None = None,
    ) -> PutResult:
        """The record is in the log; whether it is on disk nobody can say."""
        self._after_append(False)
        detail = self.health.refusal or "the sync did not finish in time"
        status = PutMessageStatus.FLUSH_DISK_TIMEOUT
        return PutResult(status, queue_offset, physical_offset, store_timestamp, total, self.store_host, detail, sizes)

    def _topic_entry(self, topic: str) -> TopicEntry | Refusal:
        encoded = self._rules.encode_topic(topic)
        if isinstance(encoded, Refusal):
            return encoded
        with self.log.lock:
            offsets = self.queue_offsets.setdefault(topic, {})
            return self.topics.setdefault(topic, TopicEntry(encoded[0], encoded[1], offsets))

    def refused(self, status: PutMessageStatus, detail: str) -> PutResult:
        self.statistics.put_failed_count += 1
        return PutResult(status, -1, -1, 0, 0, b"", detail, None)


def _is_long(number: object) -> bool:
    return type(number) is int and _LONG_MIN <= number <= _LONG_MAX


def _refusal_in(encoded: tuple[int, bytes] | Refusal) -> Refusal | None:
    return encoded if isinstance(encoded, Refusal) else None
