"""The put path: check, append under the lock, wait for durability. One message costs a few microseconds here.

Every check comes before the lock and before any byte is written; a refused message leaves no trace, not even a used
queue offset. What is answered PUT_OK in SYNC_FLUSH is on disk.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from struct import Struct
from zlib import crc32

from flaremq.clock import Clock, SystemClock
from flaremq.errors import InvalidArgumentError, StoreIOError
from flaremq.message.codec import MAGIC_V1, MAGIC_V2, PREFIX_BY_FAMILY, PREFIX_V4, SHORT
from flaremq.message.crc import CRC_PROPERTY_SIZE, has_crc_property
from flaremq.message.delay import DelayLevels
from flaremq.message.hosts import encode_host
from flaremq.message.message import Message
from flaremq.message.stored_form import StoredForm, delayed
from flaremq.message.sys_flag import INNER_BATCH, TRANSACTION_MASK, with_host_families
from flaremq.message.topics import NAME_BYTES_MAX, encode_topic
from flaremq.storage.commit_log import CommitLog
from flaremq.storage.compiled import kernels_are_loaded
from flaremq.storage.flush import GroupCommit
from flaremq.storage.health import Health
from flaremq.storage.options import StoreOptions
from flaremq.storage.put_result import PutResult
from flaremq.storage.services import ServiceThread
from flaremq.storage.statistics import StoreStatistics
from flaremq.storage.status import PutMessageStatus

_PROPERTIES_MAX = 32767
_OVERHEAD_MAX = 65536
_CRC_ROOM = bytes(CRC_PROPERTY_SIZE)
_AFTER_PROPERTY = b"\x02"
_pack_short = SHORT.pack
# A plain record up to its body: fields that are always zero or constant are merged.
_PLAIN_PREFIX = ">i4siiiqq4xq8sq20si"
assert struct.calcsize(_PLAIN_PREFIX) == PREFIX_V4.size
_LAYOUTS_MAX = 1024
_SAMPLED = 15

_OK = PutMessageStatus.PUT_OK
_FOREIGN_CHECKSUM = "properties end with a name reserved for the record checksum (__CRC32#)"
_BAD_PROPERTIES = "properties must not contain NUL"
_BUSY = "an append has been under way for too long"


def _check_host(host: bytes) -> None:
    if len(host) not in (8, 20) or host[-4] or host[-3]:
        raise InvalidArgumentError(f"{host.hex()} is not a stored host: 4 or 16 address bytes, then a port")


def with_crc_room(properties: bytes) -> bytes:
    """The properties with space at their end for the record checksum, which is only known inside the lock."""
    return properties + (_AFTER_PROPERTY if properties and properties[-1] != 2 else b"") + _CRC_ROOM


def encode_columns(keys: Sequence[str | None] | None, tags: Sequence[str | None] | None, count: int) -> list[bytes]:
    """Stored properties of messages that have at most keys and a tag."""
    if tags is None:
        if keys is None:
            return [b""] * count
        everything = "".join([key for key in keys if key])
        if everything.isascii() and "\x01" not in everything and "\x02" not in everything:
            return [f"KEYS\x01{key}\x02".encode() if key else b"" for key in keys]
    return [
        Message("", b"", keys=key, tags=tag).encoded_properties()
        for key, tag in zip(keys or [None] * count, tags or [None] * count, strict=True)
    ]


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


def _first_offset(queue_id: int) -> int:
    if not isinstance(queue_id, int):
        raise InvalidArgumentError(f"queue id {queue_id!r} is not a number")
    if not 0 <= queue_id <= 0x7FFFFFFF:
        raise InvalidArgumentError(f"queue id {queue_id} is outside 0..2147483647")
    return 0


class MessageWriter:
    """The write side of a store. Any thread."""

    __slots__ = (
        "_after_append",
        "_busy_seconds",
        "_clock",
        "_commit",
        "_crc",
        "_delay_levels",
        "_file_size",
        "_health",
        "_host_and_zeros",
        "_log",
        "_max_size",
        "_statistics",
        "_time_ns",
        "_timeout",
        "_versioned",
        "dispatch_service",
        "fast_path",
        "plain_size_max",
        "queue_offsets",
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
        delay_levels: DelayLevels,
        statistics: StoreStatistics,
        after_append: Callable[[], None],
    ) -> None:
        self._log = log
        self._commit = commit
        self._health = health
        self._clock = clock
        self._delay_levels = delay_levels
        self._statistics = statistics
        self._after_append = after_append
        self.sync_mode = options.flush_disk_type == "SYNC_FLUSH"
        self._max_size = options.max_message_size
        self.read_options(options)
        self._crc = options.enabled_append_prop_crc
        self._versioned = options.auto_message_version_on_topic_len
        self._file_size = options.mapped_file_size_commit_log
        self.store_host = encode_host(f"{options.broker_ip1}:{options.listen_port}")
        self.plain_size_max = -1 if self._crc or len(self.store_host) != 8 else min(self._max_size, self._file_size - 8)
        self._time_ns = time.time_ns if isinstance(clock, SystemClock) else lambda: clock.now_ms() * 1_000_000
        self.fast_path = True
        self._host_and_zeros = self.store_host + bytes(12)  # store host, reconsume times, prepared offset
        self.dispatch_service: ServiceThread | None = None
        self.topics: dict[str, _Topic] = {}
        self.queue_offsets: dict[str, dict[int, int]] = {}

    def read_options(self, options: StoreOptions) -> None:
        """What may change while the store is open."""
        self._timeout = options.sync_flush_timeout / 1000
        self._busy_seconds = options.os_page_cache_busy_time_out_mills / 1000

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
        properties = message.encoded_properties()
        body = message.body
        body_length = len(body)
        entry = self.topics.get(message.topic)
        layout = None
        if (
            entry is not None
            and born_host is None
            and not (sys_flag or reconsume_times or prepared_transaction_offset)
            and message.delay_level <= 0
            and 0 not in properties
        ):
            layout = entry.layouts.get(body_length << 16 | len(properties)) or self._new_layout(
                entry, body_length, len(properties)
            )
        log = self._log
        lock = log.lock
        if entry is None or layout is None or not self.fast_path or not lock.acquire(False):
            return self._put_message(
                message,
                queue_id,
                born_timestamp,
                born_host,
                reconsume_times,
                sys_flag,
                prepared_transaction_offset,
            )
        try:
            if self._health.refusal is not None:  # looked at inside the lock: close() waits for the lock
                return self.refused(PutMessageStatus.SERVICE_NOT_AVAILABLE, self._health.refusal)
            pack_into, total, tail = layout
            time_ns = self._time_ns
            began = time_ns()
            now = began // 1_000_000
            if now < log.last_timestamp:
                now = log.timestamp_after(now)
            file = log.current
            if file is None or file.wrote + total + 8 > log.limit:
                file = log.make_room(total)
            at = file.wrote
            physical_offset = file.start + at
            queue_offsets = entry.queue_offsets
            queue_offset = queue_offsets.get(queue_id)
            if queue_offset is None:
                queue_offset = _first_offset(queue_id)
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
        except struct.error as error:
            raise InvalidArgumentError(f"a header field does not fit the record: {error}") from error
        finally:
            lock.release()
        statistics = self._statistics
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
        tail = entry.prefix + _pack_short(properties) if properties <= _PROPERTIES_MAX else b""
        total = 88 + body + len(tail) + properties
        if not tail or total > self.plain_size_max:
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
            if (refused := self._illegal_topic(form.topic)) is not None:
                return refused
            form = delayed(form, self._delay_levels)
        return self._put(
            form.topic,
            form.queue_id,
            form.body,
            form.properties,
            form.flag,
            form.sys_flag,
            form.born_timestamp,
            form.born_host,
            form.reconsume_times,
            form.prepared_transaction_offset,
            wait and form.wait_store_msg_ok,
        )

    def _put(
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
        prepared_offset: int,
        wait: bool,
    ) -> PutResult:
        if self._health.refusal is not None:
            return self.refused(PutMessageStatus.SERVICE_NOT_AVAILABLE, self._health.refusal)
        entry = self.topics.get(topic)
        if entry is None:
            entry = self._topic_entry(topic)
            if entry is None:
                return self._illegal_topic(topic) or self.refused(PutMessageStatus.MESSAGE_ILLEGAL, topic)
        _first_offset(queue_id)
        magic, topic_prefix, queue_offsets = entry.magic, entry.prefix, entry.queue_offsets
        if 0 in properties:
            # Recovery tells a torn record by what no writer would have written; so nobody may write it.
            return self.refused(PutMessageStatus.MESSAGE_ILLEGAL, _BAD_PROPERTIES)
        if has_crc_property(properties):
            return self.refused(PutMessageStatus.MESSAGE_ILLEGAL, _FOREIGN_CHECKSUM)
        _check_host(born_host)
        crc = self._crc
        if crc:
            properties = with_crc_room(properties)
        if len(properties) > _PROPERTIES_MAX:
            return self.refused(
                PutMessageStatus.PROPERTIES_SIZE_EXCEEDED,
                f"properties take {len(properties)} bytes, at most {_PROPERTIES_MAX} fit",
            )
        tail = topic_prefix + _pack_short(len(properties)) + properties
        store_host = self.store_host
        if len(born_host) != 8 or len(store_host) != 8:
            sys_flag = with_host_families(sys_flag, born_host, store_host)
        size = 112 + len(body) + len(tail)  # at most
        if len(body) > self._max_size or size > self._max_size or size > self._file_size - 8:
            refused = self._check_size(len(body), len(tail), sys_flag)
            if refused is not None:
                return refused
        if sys_flag & INNER_BATCH:
            return self.refused(PutMessageStatus.MESSAGE_ILLEGAL, "inner batches are only for topics of type BatchCQ")
        log = self._log
        lock = log.lock
        if not lock.acquire(timeout=self._busy_seconds):
            return self.refused(PutMessageStatus.OS_PAGE_CACHE_BUSY, _BUSY)
        try:
            if self._health.refusal is not None:
                return self.refused(PutMessageStatus.SERVICE_NOT_AVAILABLE, self._health.refusal)
            queue_offset, physical_offset, store_timestamp, total = log.append(
                magic,
                tail,
                queue_offsets,
                queue_id,
                body,
                flag,
                sys_flag,
                born_timestamp,
                born_host,
                store_host,
                reconsume_times,
                prepared_offset,
                crc,
            )
        except StoreIOError as error:
            return self.refused(PutMessageStatus.CREATE_MAPPED_FILE_FAILED, str(error))
        except struct.error as error:
            raise InvalidArgumentError(f"a header field does not fit the record: {error}") from error
        finally:
            lock.release()
        return self._finish(queue_offset, physical_offset, store_timestamp, total, wait, None)

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
            raise InvalidArgumentError("an empty batch cannot be stored")
        topic = messages[0].topic
        bodies, properties, flags = [], [], []
        wait = True
        for message in messages:
            if message.topic != topic or message.delay_level > 0:
                return self.refused(
                    PutMessageStatus.MESSAGE_ILLEGAL, "messages of a batch need one topic and no delay level"
                )
            properties.append(message.encoded_properties())
            bodies.append(message.body)
            flags.append(message.flag)
            wait = wait and message.wait_store_msg_ok
        return self.put_columns(topic, queue_id, bodies, properties, flags, born_timestamp, born_host, sys_flag, wait)

    def put_columns(
        self,
        topic: str,
        queue_id: int,
        bodies: list[bytes],
        properties: list[bytes],
        flags: list[int] | None,
        born_timestamp: int | None,
        born_host: str | bytes | None,
        sys_flag: int,
        wait: bool,
    ) -> PutResult:
        """A batch given as columns; ``properties`` in stored form."""
        if self._health.refusal is not None:
            return self.refused(PutMessageStatus.SERVICE_NOT_AVAILABLE, self._health.refusal)
        entry = self.topics.get(topic) or self._topic_entry(topic)
        if entry is None:
            return self._illegal_topic(topic) or self.refused(PutMessageStatus.MESSAGE_ILLEGAL, topic)
        _first_offset(queue_id)
        if sys_flag & (TRANSACTION_MASK | INNER_BATCH):
            return self.refused(PutMessageStatus.MESSAGE_ILLEGAL, "a batch cannot be transactional or inner")
        if flags is not None and not -0x80000000 <= min(flags) <= max(flags) <= 0x7FFFFFFF:
            raise InvalidArgumentError(f"a flag of {flags} does not fit the record's 32 bits")
        magic, topic_prefix, queue_offsets = entry.magic, entry.prefix, entry.queue_offsets
        host = self.store_host
        if born_host is not None:
            host = encode_host(born_host) if isinstance(born_host, str) else born_host
        _check_host(host)
        sys_flag = with_host_families(sys_flag, host, self.store_host)
        everything = b"".join(properties)
        if 0 in everything:
            return self.refused(PutMessageStatus.MESSAGE_ILLEGAL, _BAD_PROPERTIES)
        # A name one bit off the reserved one counts as it, damaged: of two halves such a name has one intact.
        if (b"__CR" in everything or b"C32#" in everything) and any(map(has_crc_property, properties)):
            return self.refused(PutMessageStatus.MESSAGE_ILLEGAL, _FOREIGN_CHECKSUM)
        if self._crc:
            properties = [with_crc_room(text) for text in properties]
        refused = self._check_batch_size(bodies, properties, topic_prefix, sys_flag)
        if refused is not None:
            return refused
        log = self._log
        if not log.lock.acquire(timeout=self._busy_seconds):
            return self.refused(PutMessageStatus.OS_PAGE_CACHE_BUSY, _BUSY)
        try:
            if self._health.refusal is not None:
                return self.refused(PutMessageStatus.SERVICE_NOT_AVAILABLE, self._health.refusal)
            # Loading the kernels takes longer than many small batches; dispatch loads them once there is enough to do.
            if self.fast_path and not self._crc and kernels_are_loaded():
                from flaremq.storage.bulk_put import append_columns

                append = append_columns(
                    log,
                    magic,
                    topic_prefix,
                    queue_offsets,
                    queue_id,
                    bodies,
                    properties,
                    flags,
                    sys_flag,
                    born_timestamp,
                    host,
                    self.store_host,
                )
            else:
                append = log.append_batch(
                    magic,
                    [topic_prefix + _pack_short(len(text)) + text for text in properties],
                    bodies,
                    flags or [0] * len(bodies),
                    queue_offsets,
                    queue_id,
                    sys_flag,
                    born_timestamp,
                    host,
                    self.store_host,
                    0,
                    self._crc,
                )
        except StoreIOError as error:
            return self.refused(PutMessageStatus.CREATE_MAPPED_FILE_FAILED, str(error))
        except (struct.error, OverflowError) as error:
            raise InvalidArgumentError(f"a header field does not fit the record: {error}") from error
        finally:
            log.lock.release()
        queue_offset, physical_offset, store_timestamp, sizes = append
        return self._finish(queue_offset, physical_offset, store_timestamp, sum(sizes), wait, sizes)

    def _finish(
        self,
        queue_offset: int,
        physical_offset: int,
        store_timestamp: int,
        total: int,
        wait: bool,
        sizes: list[int] | None,
    ) -> PutResult:
        """Wait for durability if asked to, wake dispatch, count."""
        statistics = self._statistics
        statistics.put_count += 1 if sizes is None else len(sizes)
        if self.sync_mode and wait and not self._commit.wait(physical_offset + total, self._timeout):
            return self._unconfirmed(queue_offset, physical_offset, store_timestamp, total, sizes)
        self._after_append()
        statistics.note_put(self._clock.now_ms() - store_timestamp)
        more = (self.store_host, None, sizes)
        return PutResult(_OK, queue_offset, physical_offset, store_timestamp, total, more)

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
        detail = self._health.refusal or "the sync did not finish in time"
        more = (self.store_host, detail, sizes)
        timeout = PutMessageStatus.FLUSH_DISK_TIMEOUT
        return PutResult(timeout, queue_offset, physical_offset, store_timestamp, total, more)

    def _topic_entry(self, topic: str) -> _Topic | None:
        try:
            name = encode_topic(topic)
        except (InvalidArgumentError, TypeError, AttributeError):
            return None
        if len(name) <= NAME_BYTES_MAX:
            magic, prefix = MAGIC_V1, bytes([len(name)]) + name
        elif self._versioned:
            magic, prefix = MAGIC_V2, _pack_short(len(name)) + name
        else:
            return None
        with self._log.lock:
            offsets = self.queue_offsets.setdefault(topic, {})
            return self.topics.setdefault(topic, _Topic(magic, prefix, offsets))

    def _illegal_topic(self, topic: str) -> PutResult | None:
        try:
            name = encode_topic(topic)
        except (InvalidArgumentError, TypeError, AttributeError) as error:
            return self.refused(PutMessageStatus.MESSAGE_ILLEGAL, str(error))
        if len(name) > NAME_BYTES_MAX and not self._versioned:
            return self.refused(PutMessageStatus.MESSAGE_ILLEGAL, "the topic needs a V2 record")
        return None

    def _check_size(self, body: int, tail: int, sys_flag: int) -> PutResult | None:
        total = PREFIX_BY_FAMILY[sys_flag >> 4 & 3].size + body + tail
        if body > self._max_size:
            detail = f"body of {body} bytes, maxMessageSize is {self._max_size}"
        elif total > self._max_size + _OVERHEAD_MAX:
            detail = f"record of {total} bytes, at most {self._max_size + _OVERHEAD_MAX} are allowed"
        elif total > self._file_size - 8:
            detail = f"record of {total} bytes does not fit a log file of {self._file_size} bytes"
        else:
            return None
        return self.refused(PutMessageStatus.MESSAGE_ILLEGAL, detail)

    def _check_batch_size(
        self, bodies: list[bytes], properties: list[bytes], topic_prefix: bytes, sys_flag: int
    ) -> PutResult | None:
        longest = max(map(len, properties))
        if longest > _PROPERTIES_MAX:
            return self.refused(
                PutMessageStatus.PROPERTIES_SIZE_EXCEEDED,
                f"properties take {longest} bytes, at most {_PROPERTIES_MAX} fit",
            )
        fixed = PREFIX_BY_FAMILY[sys_flag >> 4 & 3].size + len(topic_prefix) + 2
        body_bytes = sum(map(len, bodies))
        total = fixed * len(bodies) + body_bytes + sum(map(len, properties))
        if body_bytes > self._max_size:
            detail = f"batch body of {body_bytes} bytes, maxMessageSize is {self._max_size}"
        elif total > self._file_size - 8:
            detail = f"batch of {total} bytes does not fit a log file of {self._file_size} bytes"
        else:
            return None
        return self.refused(PutMessageStatus.MESSAGE_ILLEGAL, detail)

    def refused(self, status: PutMessageStatus, detail: str) -> PutResult:
        self._statistics.put_failed_count += 1
        return PutResult(status, -1, -1, 0, 0, (b"", detail, None))
