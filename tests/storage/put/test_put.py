"""The put path: every status it can answer, what is written, and that a refused message leaves no trace."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from flaremq.errors import InvalidArgumentError, StoreIOError
from flaremq.message.message import Message
from flaremq.message.message_id import decode_message_id
from flaremq.message.topics import SCHEDULE_TOPIC
from flaremq.storage.log.put_lock import PutLock
from flaremq.storage.message_store import MessageStore
from flaremq.storage.status import PutMessageStatus
from tests.support.crash_fs import CrashFS
from tests.support.store_corpus import LONG_RETRY_TOPIC, write_corpus
from tests.support.store_lab import LOG_FILE, SMALL, TOPIC, MeasuredFileSystem, StoreLab, all_bodies, eventually

Status = PutMessageStatus


def assert_untouched(lab: StoreLab, before: int) -> None:
    """No byte written, no queue offset used."""
    assert lab.store.max_physical_offset == before
    assert lab.put(b"next").queue_offset == 1


@pytest.fixture
def warm(lab: StoreLab) -> StoreLab:
    """A store with one message in it."""
    lab.open()
    lab.put(b"first")
    return lab


def test_result_tells_where_the_message_is(warm: StoreLab) -> None:
    result = warm.put(b"second", keys="k", tags="t")
    record = warm.store.read(result.physical_offset)
    assert record is not None
    assert (record.queue_offset, record.size, record.store_timestamp) == (1, result.size, result.store_timestamp)
    assert (result.count, result.message_ids, result.detail) == (1, [record.message_id], None)
    host, offset = decode_message_id(result.message_id)
    assert offset == result.physical_offset and "127.0.0.1" in str(host)


@pytest.mark.parametrize("topic", ["", "a b", "ключ", "x" * 128, "../up", "%RETRY%" + "x" * 249])
def test_illegal_topic_is_answered_message_illegal(warm: StoreLab, topic: str) -> None:
    before = warm.store.max_physical_offset
    result = warm.store.put(Message(topic, b"x"))
    assert (result.status, result.physical_offset, result.count) == (Status.MESSAGE_ILLEGAL, -1, 0)
    assert warm.store.put(Message(topic, b"x", delay_level=1)).status is Status.MESSAGE_ILLEGAL
    assert warm.store.put_batch([Message(topic, b"x")]).status is Status.MESSAGE_ILLEGAL
    assert_untouched(warm, before)


def test_body_over_the_limit_is_answered_message_illegal(lab: StoreLab) -> None:
    store = lab.open(max_message_size=1000)
    lab.put(b"x" * 1000)
    result = store.put(Message(TOPIC, b"x" * 1001))
    assert result.status is Status.MESSAGE_ILLEGAL and "maxMessageSize" in (result.detail or "")
    assert store.put_batch([Message(TOPIC, b"x" * 501)] * 2).status is Status.MESSAGE_ILLEGAL
    assert_untouched(lab, store.max_physical_offset)


@pytest.mark.parametrize("excess", [1, 2, 500])
def test_w16_record_larger_than_a_log_file_is_refused_and_burns_no_file(warm: StoreLab, excess: int) -> None:
    before = warm.store.max_physical_offset
    body = b"x" * (LOG_FILE - 8 - 91 - len(TOPIC) + excess)
    result = warm.store.put(Message(TOPIC, body))
    assert result.status is Status.MESSAGE_ILLEGAL and "log file" in (result.detail or "")
    assert warm.store.put_batch([Message(TOPIC, body)]).status is Status.MESSAGE_ILLEGAL
    assert len(warm.log_files()) == 1
    assert_untouched(warm, before)


def test_largest_record_that_fits_a_log_file_is_stored(warm: StoreLab) -> None:
    body = b"x" * (LOG_FILE - 8 - 91 - len(TOPIC))
    assert warm.put(body).physical_offset == LOG_FILE
    assert warm.store.get(TOPIC, 0, 1).messages[0].body == body


@pytest.mark.parametrize("crc", [False, True])
def test_properties_over_the_limit_are_answered_properties_size_exceeded(lab: StoreLab, crc: bool) -> None:
    store = lab.open(enabled_append_prop_crc=crc, mapped_file_size_commit_log=65536)
    room = 32767 - (20 if crc else 0) - len("a\x01\x02")
    assert store.put(Message(TOPIC, b"", properties={"a": "x" * room})).ok
    result = store.put(Message(TOPIC, b"", properties={"a": "x" * (room + 1)}))
    assert result.status is Status.PROPERTIES_SIZE_EXCEEDED
    assert_untouched(lab, store.max_physical_offset)


def test_w17_properties_of_each_batch_message_are_checked_as_stored(lab: StoreLab) -> None:
    store = lab.open(enabled_append_prop_crc=True, mapped_file_size_commit_log=65536)
    lab.put()
    before = store.max_physical_offset
    good, bad = Message(TOPIC, b""), Message(TOPIC, b"", properties={"a": "x" * 32760})
    assert store.put_batch([good, bad]).status is Status.PROPERTIES_SIZE_EXCEEDED
    assert_untouched(lab, before)


def test_replica_answers_service_not_available(lab: StoreLab) -> None:
    store = lab.open(broker_role="SLAVE")
    result = store.put(Message(TOPIC, b"x"))
    assert result.status is Status.SERVICE_NOT_AVAILABLE and "replica" in (result.detail or "")


def test_closed_store_answers_service_not_available(warm: StoreLab) -> None:
    store = warm.store
    warm.close()
    for result in (store.put(Message(TOPIC, b"x")), store.put_batch([Message(TOPIC, b"x")])):
        assert result.status is Status.SERVICE_NOT_AVAILABLE


def test_full_disk_answers_service_not_available_until_there_is_room(lab: StoreLab) -> None:
    lab.filesystem = disk = MeasuredFileSystem(0.5)
    store = lab.open()
    lab.put()
    disk.used = 0.95
    store.tick()
    result = store.put(Message(TOPIC, b"x"))
    assert result.status is Status.SERVICE_NOT_AVAILABLE and "95%" in (result.detail or "")
    disk.used = 0.5
    store.tick()
    assert lab.put().queue_offset == 1


@pytest.mark.parametrize("batch", [False, True])
def test_file_that_cannot_be_made_is_answered_create_mapped_file_failed(batch: bool, lab: StoreLab) -> None:
    disk = CrashFS()
    store = MessageStore.open("/store", SMALL, filesystem=disk, threads=False)
    assert store.put(Message(TOPIC, b"x" * 10_000)).ok

    def no_space(operation: str, path: str) -> None:
        if operation in ("create", "reserve") and "/commitlog/" in path:
            raise StoreIOError(operation, path, OSError(28, "No space left on device"))

    disk.observer = no_space
    message = Message(TOPIC, b"y" * 10_000)
    for _ in range(2):
        result = store.put_batch([message]) if batch else store.put(message)
        assert result.status is Status.CREATE_MAPPED_FILE_FAILED and "No space" in (result.detail or "")
    assert store.put(Message(TOPIC, b"small enough")).queue_offset == 1
    disk.observer = None
    assert store.put(message).queue_offset == 2
    assert len(all_bodies(store)) == 3
    store.close()


@pytest.mark.parametrize("batch", [False, True])
def test_append_lock_held_too_long_is_answered_page_cache_busy(warm: StoreLab, batch: bool) -> None:
    store, log = warm.store, warm.store._commit_log
    store._writer._busy_seconds = 0.01
    with log.lock:
        message = Message(TOPIC, b"x")
        result = store.put_batch([message]) if batch else store.put(message)
    assert result.status is Status.OS_PAGE_CACHE_BUSY
    assert warm.put().queue_offset == 1


def test_append_lock_held_shortly_is_waited_for(warm: StoreLab) -> None:
    store, log = warm.store, warm.store._commit_log
    store._writer._busy_seconds = 20
    results: list[Any] = []
    log.lock.acquire()
    thread = threading.Thread(target=lambda: results.append(store.put(Message(TOPIC, b"x"))), daemon=True)
    thread.start()
    eventually(lambda: thread.is_alive() and not results, "the put waits")
    log.lock.release()
    thread.join(20)
    assert results[0].queue_offset == 1


@pytest.mark.parametrize("batch", [False, True])
def test_put_that_meets_a_closing_store_is_refused(warm: StoreLab, batch: bool) -> None:
    store, log = warm.store, warm.store._commit_log
    end = store.max_physical_offset

    class ClosingLock(PutLock):
        """Lets close() win the race between a put's first look and its append."""

        def __init__(self, real: PutLock) -> None:
            super().__init__()
            self._real = real

        def acquire(self, timeout: float = -1) -> bool:
            log.lock = self._real
            store.close()
            return self._real.acquire(timeout)

        def release(self) -> None:
            self._real.release()

    log.lock = ClosingLock(log.lock)
    message = Message(TOPIC, b"late")
    result = store.put_batch([message]) if batch else store.put(message)
    assert result.status is Status.SERVICE_NOT_AVAILABLE
    warm._store = None
    assert warm.open().max_physical_offset == end


@pytest.mark.parametrize("flag", [2**31, -(2**31) - 1])
@pytest.mark.parametrize("fast", [False, True])
def test_header_value_that_does_not_fit_is_illegal_and_leaves_no_trace(warm: StoreLab, flag: int, fast: bool) -> None:
    warm.store._writer.fast_path = fast
    before = warm.store.max_physical_offset
    assert warm.store.put(Message(TOPIC, b"x", flag=flag)).status is Status.MESSAGE_ILLEGAL
    assert warm.store.put_batch([Message(TOPIC, b"x", flag=flag)]).status is Status.MESSAGE_ILLEGAL
    assert_untouched(warm, before)


@pytest.mark.parametrize("queue_id", [-1, 2**31])
def test_queue_id_outside_the_record_field_is_illegal(warm: StoreLab, queue_id: int) -> None:
    before = warm.store.max_physical_offset
    for delay_level in (0, 1):
        result = warm.store.put(Message(TOPIC, b"x", delay_level=delay_level), queue_id)
        assert result.status is Status.MESSAGE_ILLEGAL and "queue id" in (result.detail or "")
    assert warm.store.put_batch([Message(TOPIC, b"x")], queue_id).status is Status.MESSAGE_ILLEGAL
    assert_untouched(warm, before)


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize(
    "put",
    [
        lambda store: store.put(Message(None, b"x")),
        lambda store: store.put(Message(TOPIC, b"x", flag="1")),
        lambda store: store.put(Message(TOPIC, b"x", flag=None)),
        lambda store: store.put(Message(TOPIC, b"x"), "0"),
        lambda store: store.put(Message(TOPIC, b"x"), 0.0),
        lambda store: store.put(Message(TOPIC, b"x"), born_timestamp="now"),
        lambda store: store.put(Message(TOPIC, b"x"), born_host=b"1234567"),
        lambda store: store.put(Message(TOPIC, b"x", properties={"a": 5})),
        lambda store: store.put_batch([Message(TOPIC, b"x", flag=1.5)]),
        lambda store: store.put_batch([Message(TOPIC, b"x")], "0"),
        lambda store: store.put_many(TOPIC, ["text"]),
        lambda store: store.put_many(TOPIC, [b"x"], keys=[5]),
    ],
)
def test_argument_of_the_wrong_kind_raises_and_leaves_no_trace(warm: StoreLab, put: Any, fast: bool) -> None:
    warm.store._writer.fast_path = fast
    before = warm.store.max_physical_offset
    with pytest.raises(InvalidArgumentError):
        put(warm.store)
    assert_untouched(warm, before)


@pytest.mark.parametrize(
    "fields",
    [
        {"keys": "a\x01b"},
        {"tags": "a\x02b"},
        {"keys": ["\ud800"]},
        {"properties": {"": "x"}},
        {"properties": {"x": ""}},
        {"properties": {"x": "\udfff"}},
        {"properties": {"x": "\0"}},
        {"properties": {"O_CRC32#": "0123456789"}},
        {"properties": {"__CRC32!": "0123456789"}},
    ],
)
def test_properties_no_record_can_hold_are_illegal(warm: StoreLab, fields: dict[str, Any]) -> None:
    before = warm.store.max_physical_offset
    assert warm.store.put(Message(TOPIC, b"x", **fields)).status is Status.MESSAGE_ILLEGAL
    assert warm.store.put_batch([Message(TOPIC, b"x", **fields)]).status is Status.MESSAGE_ILLEGAL
    if "keys" in fields:
        key = fields["keys"] if isinstance(fields["keys"], str) else fields["keys"][0]
        assert warm.store.put_many(TOPIC, [b"x"], keys=[key]).status is Status.MESSAGE_ILLEGAL
    assert_untouched(warm, before)


@pytest.mark.parametrize("length", [32_768, 65_535, 65_536, 65_542, 131_077])
def test_properties_too_long_are_refused_though_their_length_looks_like_another(warm: StoreLab, length: int) -> None:
    short = Message(TOPIC, b"a" * 11, keys="x")
    for _ in range(2):
        assert warm.store.put(short).ok
    before = warm.store.max_physical_offset
    offset = warm.store.max_offset(TOPIC, 0)
    long = Message(TOPIC, b"a" * 10, keys="x" * (length - 6))
    assert warm.store.put(long).status is Status.PROPERTIES_SIZE_EXCEEDED
    assert warm.store.max_physical_offset == before
    assert warm.store.put(short).queue_offset == offset


def test_host_bits_of_a_flag_follow_the_hosts(warm: StoreLab) -> None:
    for sys_flag in (0x10, 0x20, 0x30):
        result = warm.store.put(Message(TOPIC, b"x"), sys_flag=sys_flag, born_host="10.0.0.7:80")
        record = warm.store.read(result.physical_offset)
        assert record is not None and (record.sys_flag, record.born_host) == (0, "10.0.0.7:80")


def test_long_retry_topic_is_stored_in_form_v2_only_if_allowed(lab: StoreLab) -> None:
    store = lab.open()
    assert lab.put(b"v2", topic=LONG_RETRY_TOPIC).ok
    message = store.get(LONG_RETRY_TOPIC, 0, 0).messages[0]
    assert f"{message.magic & 0xFFFFFFFF:08x}" == "daa320ab"
    del message
    lab.reopen(auto_message_version_on_topic_len=False)
    assert lab.store.put(Message(LONG_RETRY_TOPIC, b"x")).status is Status.MESSAGE_ILLEGAL


def test_topic_of_127_bytes_is_stored_in_form_v1(lab: StoreLab) -> None:
    lab.open()
    lab.put(topic="t" * 127)
    assert lab.store.get("t" * 127, 0, 0).messages[0].magic & 0xFF == 0xA7


def test_fast_and_plain_path_write_the_same_store(lab: StoreLab, tmp_path: Path) -> None:
    plain = StoreLab(tmp_path / "plain")
    for bench, fast in ((lab, True), (plain, False)):
        bench.open()._writer.fast_path = fast
        write_corpus(bench, 4)
        bench.close()
    assert lab.log_bytes() == plain.log_bytes()
    assert (lab.queue_bytes(), lab.index_bytes()) == (plain.queue_bytes(), plain.index_bytes())


def test_system_topics_can_be_stored_by_the_embedding_program(lab: StoreLab) -> None:
    lab.open()
    assert lab.put(topic=SCHEDULE_TOPIC, queue_id=2).ok


def test_limit_that_is_lowered_while_the_store_is_open_counts_from_then(lab: StoreLab) -> None:
    store = lab.open()
    for _ in range(2):  # the second takes the fast path
        assert store.put(Message("T", bytes(200))).ok
    object.__setattr__(store.options, "max_message_size", 100)
    store.options_changed()
    assert store.put(Message("T", bytes(200))).status is PutMessageStatus.MESSAGE_ILLEGAL
    assert store.put(Message("T", bytes(50))).ok
    object.__setattr__(store.options, "max_message_size", 1000)
    store.options_changed()
    assert store.put(Message("T", bytes(200))).ok
