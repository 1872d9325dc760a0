"""The put path: check, append under the lock, wait for durability. One message costs a few microseconds here.

Every check comes before the lock and before any byte is written; a refused message leaves no trace, not even a used
queue offset. What may be stored is said in put/rules.py, for this and every other way in. What is answered PUT_OK in
SYNC_FLUSH is on disk.

Over 500 lines on purpose: a fast path of 130 and the general path beside it, which must accept and write the same.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from flaremq.clock import Clock, SystemClock
from flaremq.errors import InvalidArgumentError, StoreIOError
from flaremq.message.delay import parse_delay_levels
from flaremq.message.hosts import encode_host
from flaremq.message.message import Message
from flaremq.message.properties import UnstorableError
from flaremq.message.record.codec import PREFIX_V4, PROPERTIES_SIZE_MAX, SHORT
from flaremq.message.stored_form import StoredForm, delayed
from flaremq.message.sys_flag import with_host_families
from flaremq.storage.kernels.loaded import kernels_are_loaded
from flaremq.storage.log.append import Appended, RecordFields, append_records
from flaremq.storage.log.commit_log import CommitLog
from flaremq.storage.log.flush import GroupCommit
from flaremq.storage.options import StoreOptions
from flaremq.storage.put.put_result import BatchPutResult, PutResult
from flaremq.storage.put.rules import PutRules, Refusal, check_batch, check_fields, check_host, illegal
from flaremq.storage.runtime.health import Health
from flaremq.storage.runtime.services import ServiceThread
from flaremq.storage.runtime.statistics import StoreStatistics
from flaremq.storage.status import PutMessageStatus

_pack_short = SHORT.pack
# A plain record up to its body: fields that are always zero or constant are merged.
_PLAIN_PREFIX = ">i4siiiqq4xq8sq20si"
assert struct.calcsize(_PLAIN_PREFIX) == PREFIX_V4.size
_LAYOUTS_MAX = 1024
_SAMPLED = 15

_OK = PutMessageStatus.PUT_OK
_BUSY = "an append has been under way for too long"
_INT = 2**31
_LONG = 2**63


def encode_columns(keys: Sequence[str | None] | None, tags: Sequence[str | None] | None, count: int) -> list[bytes]:
    """Stored properties of messages that have at most keys and a tag."""
    if tags is None:
        if keys is None:
            return [b""] * count
        try:
            everything = "".join([key for key in keys if key])
        except TypeError:
            raise InvalidArgumentError("keys must be str or None") from None
        if everything.isascii() and "\x01" not in everything and "\x02" not in everything:
            return [f"KEYS\x01{key}\x02".encode() if key else b"" for key in keys]
    return [
        Message("", b"", keys=key, tags=tag).encoded_properties()
        for key, tag in zip(keys or [None] * count, tags or [None] * count, strict=True)
    ]


EMPTY_BATCH = illegal("an empty batch cannot be stored")
_Layout = tuple[Callable[..., None], int, bytes]  # pack_into of the whole record, its size, what follows the body


class _Topic:
    """What puts to one topic share. ``queue_offsets`` (next offset by queue id) changes under the put lock only."""

    __slots__ = ("layouts", "magic", "magic_bytes", "prefix", "queue_offsets")

    def __init__(self, magic: int, prefix: bytes, queue_offsets: dict[int, int]) -> None:
        self.magic = magic
        self.magic_bytes = magic.to_bytes(4, "big", signed=True)
        self.prefix = prefix  # the length-prefixed name
        self.queue_offsets = queue_offsets
        self.layouts: dict[int, _Layout] = {}


class PutFields(NamedTuple):
    """What a put says about all its messages."""

    queue_id: int
    sys_flag: int = 0
    born_timestamp: int | None = None  # None: now
    born_host: str | bytes | None = None  # None: this store's
    reconsume_times: int = 0
    prepared_offset: int = 0


class MessageWriter:
    """The write side of a store. Any thread."""

    __slots__ = (
        "_after_append",
        "_busy_seconds",
        "_clock",
        "_commit",
        "_crc",
        "_delay_levels",
        "_host_and_zeros",
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
        "time_ns",
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
        after_append: Callable[[], None],
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
        self.time_ns = time.time_ns if isinstance(clock, SystemClock) else lambda: clock.now_ms() * 1_000_000
        self.fast_path = True
        self._host_and_zeros = self.store_host + bytes(12)  # store host, reconsume times, prepared offset
        self.dispatch_service: ServiceThread | None = None
        self.topics: dict[str, _Topic] = {}
        self.queue_offsets: dict[str, dict[int, int]] = {}
        self.read_options(options)

    def read_options(self, options: StoreOptions) -> None:
        """What may change while the store is open."""
        self.sync_mode = options.flush_disk_type == "SYNC_FLUSH"
        self._rules.read_options(options)
        self.plain_size_max = self._rules.plain_size_max
        for entry in list(self.topics.values()):
            entry.layouts.clear()  # sizes that were found right by the old limit
        self._timeout = options.sync_flush_timeout / 1000
        self._busy_seconds = options.os_page_cache_busy_time_out_mills / 1000

    # Long on purpose: the hot path of a put, append.py's steps without its calls: a call costs 2 % of a put.
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

        The body of this method is the fast path: a plain message between IPv4 hosts, the whole record in one
        ``pack_into``, one lock, one clock reading. It takes less than half the time of the general path below, which
        gives the same bytes and serves the rest; ``fast_path = False`` sends everything there.
        """
        try:
            properties = message.encoded_properties()
        except UnstorableError as error:
            return self.refused(PutMessageStatus.MESSAGE_ILLEGAL, str(error))
        body = message.body
        body_length = len(body)
        entry = self.topics.get(message.topic)
        layout = None
        if (
            entry is not None
            and born_host is None
            and not (sys_flag or reconsume_times or prepared_transaction_offset)
            and message.delay_level <= 0
            and (message.flag == 0 or _fits(message.flag, _INT))
            and (born_timestamp is None or _fits(born_timestamp, _LONG))
            and len(properties) <= PROPERTIES_SIZE_MAX
            and 0 not in properties  # the name of the record checksum was refused by encoded_properties
        ):
            layout = entry.layouts.get(body_length << 16 | len(properties)) or self._new_layout(
                entry, body_length, len(properties)
            )
        log = self.log
        lock = log.lock
        if entry is None or layout is None or not self.fast_path:
            return self._put_message(
                message,
                queue_id,
                born_timestamp,
                born_host,
                reconsume_times,
                sys_flag,
                prepared_transaction_offset,
            )
        if not lock.acquire(False) and not lock.acquire(timeout=self._busy_seconds):
            return self.refused(PutMessageStatus.OS_PAGE_CACHE_BUSY, _BUSY)
        try:
            if self.health.refusal is not None:  # looked at inside the lock: close() waits for the lock
                return self.refused(PutMessageStatus.SERVICE_NOT_AVAILABLE, self.health.refusal)
            pack_into, total, tail = layout
            time_ns = self.time_ns
            began = time_ns()
            now = began // 1_000_000
            if now < log.last_timestamp:
                now = log.timestamp_after(now)
            queue_offsets = entry.queue_offsets
            queue_offset = queue_offsets.get(queue_id, -1)
            if queue_offset < 0:
                queue_offset = 0
                if not 0 <= queue_id < _INT:
                    raise struct.error  # before anything is done: no new file for what is refused
            file = log.current
            if file is None or file.wrote + total + 8 > log.limit:
                file = log.make_room(total)
            at = file.wrote
            physical_offset = file.start + at
            pack_into(
                log.buffer,
                at,
                total,
                entry.magic_bytes,
                crc32(body) & 0x7FFFFFFF,
                queue_id,
                message.flag,
                queue_offset,
                physical_offset,
                now if born_timestamp is None else born_timestamp,
                self.store_host,
                now,
                self._host_and_zeros,
                body_length,
                body,
                tail,
                properties,
            )
            queue_offsets[queue_id] = queue_offset + 1
            file.wrote = at + total
            log.last_timestamp = now
            log.end_offset = end_offset = physical_offset + total
        except StoreIOError as error:
            return self.refused(PutMessageStatus.CREATE_MAPPED_FILE_FAILED, str(error))
        except (struct.error, TypeError):
            log.wipe(layout[1])
            layout = None  # a number that fits no field, or is none: the general path says which
        finally:
            lock.release()
        if layout is None:
            return self._put_message(
                message,
                queue_id,
                born_timestamp,
                born_host,
                reconsume_times,
                sys_flag,
                prepared_transaction_offset,
            )
        statistics = self.statistics
        statistics.put_count += 1
        if self.sync_mode:
            if message.wait_store_msg_ok and not self._commit.wait(end_offset, self._timeout):
                return self._unconfirmed(queue_offset, physical_offset, now, total)
            self._after_append()
            statistics.note_put((time_ns() - began) // 1_000_000)
        else:
            service = self.dispatch_service
            if service is None or service.idle:
                self._after_append()
            if (
                not queue_offset & _SAMPLED
            ):  # a second clock reading is a tenth of a put: every sixteenth stands for all
                statistics.note_put((time_ns() - began) // 1_000_000, _SAMPLED + 1)
        return PutResult(_OK, queue_offset, physical_offset, now, total, self.store_host)

    def _new_layout(self, entry: _Topic, body: int, properties: int) -> _Layout | None:
        """How a record with these lengths is packed; None if it is not for the fast path."""
        tail = entry.prefix + _pack_short(properties)
        total = 88 + body + len(tail) + properties
        if total > self.plain_size_max:
            return None
        if len(entry.layouts) >= _LAYOUTS_MAX:
            entry.layouts.clear()
        layout = (Struct(f"{_PLAIN_PREFIX}{body}s{len(tail)}s{properties}s").pack_into, total, tail)
        entry.layouts[body << 16 | properties] = layout
        return layout

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
        properties: list[bytes],
        flags: list[int] | None,
    ) -> Appended | PutResult:
        log = self.log
        if not log.lock.acquire(timeout=self._busy_seconds):
            return self.refused(PutMessageStatus.OS_PAGE_CACHE_BUSY, _BUSY)
        try:
            if self.health.refusal is not None:
                return self.refused(PutMessageStatus.SERVICE_NOT_AVAILABLE, self.health.refusal)
            # Loading the kernels takes longer than many small batches; dispatch loads them once there is enough to do.
            if len(bodies) > 1 and self.fast_path and not self._crc and kernels_are_loaded():
                from flaremq.storage.put.columns import append_columns

                return append_columns(log, fields, queue_offsets, bodies, properties, flags)
            flags = flags or [0] * len(bodies)
            return append_records(log, fields, queue_offsets, bodies, properties, flags, seal_crc=self._crc)
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
        self._after_append()
        self.statistics.note_put(self._clock.now_ms() - store_timestamp)
        return BatchPutResult(_OK, queue_offset, physical_offset, store_timestamp, total, self.store_host, None, sizes)

    def _unconfirmed(
        self,
        queue_offset: int,
        physical_offset: int,
        store_timestamp: int,
        total: int,
        sizes: list[int] | None = None,
    ) -> PutResult:
        """The record is in the log; whether it is on disk nobody can say."""
        self._after_append()
        detail = self.health.refusal or "the sync did not finish in time"
        status = PutMessageStatus.FLUSH_DISK_TIMEOUT
        return BatchPutResult(
            status, queue_offset, physical_offset, store_timestamp, total, self.store_host, detail, sizes
        )

    def _topic_entry(self, topic: str) -> _Topic | Refusal:
        encoded = self._rules.encode_topic(topic)
        if isinstance(encoded, Refusal):
            return encoded
        with self.log.lock:
            offsets = self.queue_offsets.setdefault(topic, {})
            return self.topics.setdefault(topic, _Topic(*encoded, offsets))

    def refused(self, status: PutMessageStatus, detail: str) -> PutResult:
        self.statistics.put_failed_count += 1
        return BatchPutResult(status, -1, -1, 0, 0, b"", detail, None)


def _fits(number: int, limit: int) -> bool:
    return type(number) is int and -limit <= number < limit


def _refusal_in(encoded: tuple[int, bytes] | Refusal) -> Refusal | None:
    return encoded if isinstance(encoded, Refusal) else None
